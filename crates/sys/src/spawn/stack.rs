//! Stacks for children that share our memory until they execute their program.

use std::sync::{Mutex, PoisonError};

/// A child's stack, with a guard page below it.
pub(super) struct Stack {
    base: *mut libc::c_void,
}

// SAFETY: memory that only its owner uses.
unsafe impl Send for Stack {}

/// Stacks that were mapped together. A thousand services started at once need hundreds of stacks,
/// and each separate mapping makes the kernel's list longer for every process that shares it.
struct StackPool {
    base: *mut libc::c_void,
    /// A bit for each unused stack.
    free: u32,
    /// A bit for each stack that was ever used: it has a guard page and memory.
    used: u32,
}

// SAFETY: as above.
unsafe impl Send for StackPool {}

static SHELVES: Mutex<Vec<StackPool>> = Mutex::new(Vec::new());

impl StackPool {
    const STACKS: usize = 32;
    const SIZE: usize = StackPool::STACKS * Stack::PLACE;
    const ALL_FREE: u32 = u32::MAX;
    /// Number of used stacks kept for the next children.
    const FEW: u32 = 4;

    fn map() -> Option<StackPool> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: new memory at an address that the kernel chooses.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), StackPool::SIZE, protection, flags, -1, 0) };
        (base != libc::MAP_FAILED).then_some(StackPool { base, free: StackPool::ALL_FREE, used: 0 })
    }

    /// Takes an unused stack.
    fn take(&mut self) -> Option<Stack> {
        let number = self.free.trailing_zeros();
        let bit = 1_u32.checked_shl(number)?;
        let guard = self.base.wrapping_byte_add(number as usize * Stack::PLACE);
        if self.used & bit == 0 {
            guard_page(guard);
        }
        self.free &= !bit;
        self.used |= bit;
        Some(Stack { base: guard.wrapping_byte_add(Stack::GUARD) })
    }

    fn put_back(&mut self, stack: &Stack) -> bool {
        let distance = (stack.base as usize).wrapping_sub(self.base as usize);
        let here = distance < StackPool::SIZE;
        if here {
            self.free |= 1 << (distance / Stack::PLACE);
        }
        here
    }

    fn unmap(&self) {
        // SAFETY: mapped by `map`, and no stack in it is in use.
        unsafe { libc::munmap(self.base, StackPool::SIZE) };
    }
}

/// Makes a page inaccessible, without a separate mapping if the kernel supports it (Linux 6.13 and
/// later).
fn guard_page(page: *mut libc::c_void) {
    const MADV_GUARD_INSTALL: libc::c_int = 102;
    // SAFETY: a page of a shelf that is no child's stack.
    if unsafe { libc::madvise(page, Stack::GUARD, MADV_GUARD_INSTALL) } != 0 {
        // SAFETY: the same page.
        unsafe { libc::mprotect(page, Stack::GUARD, libc::PROT_NONE) };
    }
}

impl Stack {
    /// Most of it is never touched and so uses no memory.
    pub(super) const SIZE: usize = 64 << 10;
    const GUARD: usize = 4 << 10;
    const PLACE: usize = Stack::GUARD + Stack::SIZE;

    pub(super) fn take() -> Option<Stack> {
        let mut shelves = SHELVES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stack) = shelves.iter_mut().rev().find_map(StackPool::take) {
            return Some(stack);
        }
        let mut shelf = StackPool::map()?;
        let stack = shelf.take();
        shelves.push(shelf);
        stack
    }

    /// Its lowest byte.
    pub(super) fn base(&self) -> *mut libc::c_void {
        self.base
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let mut shelves = SHELVES.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = shelves.iter_mut().position(|shelf| shelf.put_back(self)) else { return };
        let StackPool { free, used, .. } = shelves[at];
        if free == StackPool::ALL_FREE && (shelves.len() > 1 || used.count_ones() > StackPool::FEW)
        {
            shelves.swap_remove(at).unmap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_apart_and_shelves_that_nobody_uses_go() {
        let stacks: Vec<Stack> = (0..100).map(|_| Stack::take().unwrap()).collect();
        let mut places: Vec<usize> = stacks.iter().map(|stack| stack.base as usize).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= Stack::PLACE), "{places:x?}");
        for stack in &stacks {
            for at in [0, Stack::SIZE - 1] {
                // SAFETY: the first and the last byte of memory that is ours.
                unsafe { stack.base.wrapping_byte_add(at).cast::<u8>().write(1) };
            }
        }
        assert!(SHELVES.lock().unwrap().len() >= 4);
        drop(stacks);
        // Other tests of this process have children too, and with them a shelf or two.
        let unused = |shelf: &&StackPool| shelf.free == StackPool::ALL_FREE;
        assert!(SHELVES.lock().unwrap().iter().filter(unused).count() <= 1);
    }

    #[test]
    fn who_comes_below_a_stack_is_ended() {
        let stack = Stack::take().unwrap();
        let below = stack.base.wrapping_byte_sub(1).cast::<u8>();
        // SAFETY: the child does nothing but the next three calls.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: no handler, no memory.
            unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
            // SAFETY: an invalid write; the kernel ends the child for it, which is the point of the
            // test.
            unsafe { below.write_volatile(1) };
            // SAFETY: no memory is involved.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: a valid place for the status of our own child.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "{status}");
    }
}
