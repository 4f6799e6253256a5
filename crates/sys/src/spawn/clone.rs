//! Creates the child: a process that shares our memory until it executes its program, if that is
//! safe.
//!
//! A fork copies the keeper's page tables and makes the keeper copy every page that it writes
//! later. Sharing avoids both, and unlike with `vfork` nobody waits for the child
//! (docs/decisions/0005). The memory that the child uses, including its stack, must stay until the
//! end of its report pipe shows that the child has its own memory or is dead.

use super::child::become_service;
use super::prepared::PreparedPlan;
use super::stack::Stack;
use crate::raw_syscalls;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::RawFd;
use std::sync::{Mutex, PoisonError};

/// Memory that a child may still use.
pub(super) struct KeptMemory {
    begin: Box<ChildArguments>,
    /// `None` if the child has a copy of everything.
    stack: Option<Stack>,
}

/// The input of the child.
struct ChildArguments {
    prepared: PreparedPlan,
    report: RawFd,
    in_cgroup: bool,
}

// SAFETY: the pointers in `PreparedPlan` point to strings that it owns and nobody changes.
unsafe impl Send for KeptMemory {}

impl std::fmt::Debug for KeptMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptMemory").field("shares_memory", &self.stack.is_some()).finish()
    }
}

impl KeptMemory {
    pub(super) fn prepared(&self) -> &PreparedPlan {
        &self.begin.prepared
    }
}

/// Children that were dropped before they were seen to have their own memory.
static UNSEEN: Mutex<Vec<(File, KeptMemory)>> = Mutex::new(Vec::new());

/// Keeps the memory of a child until its report ends.
pub(super) fn let_go(report: &File, kept: KeptMemory) {
    if kept.stack.is_none() || at_end(report) {
        return;
    }
    match report.try_clone() {
        Ok(report) => UNSEEN.lock().unwrap_or_else(PoisonError::into_inner).push((report, kept)),
        // Leaks the memory rather than letting two use it.
        Err(_) => std::mem::forget(kept),
    }
}

fn look_at_unseen() {
    UNSEEN.lock().unwrap_or_else(PoisonError::into_inner).retain(|(report, _)| !at_end(report));
}

fn at_end(mut report: &File) -> bool {
    let mut bytes = [0; 64];
    loop {
        match report.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// Creates the child, directly in its cgroup if the kernel supports it.
pub(super) fn make(prepared: PreparedPlan, report: RawFd) -> io::Result<(u32, KeptMemory)> {
    look_at_unseen();
    let cgroup = prepared.cgroup.filter(|_| !prepared.walks_in);
    let mut begin = Box::new(ChildArguments {
        in_cgroup: prepared.cgroup.is_none() || !prepared.walks_in,
        prepared,
        report,
    });
    // The kernel applies a new OOM score to every process that shares the memory. And while it
    // shares ours, a child must not change its user, because that user's debugger could reach it.
    let may_share = begin.prepared.credentials.is_none() && begin.prepared.oom_score.is_none();
    if may_share
        && let Some(stack) = Stack::take()
        && let Some(pid) = clone_sharing(cgroup, &stack, &begin)
    {
        return Ok((pid, KeptMemory { begin, stack: Some(stack) }));
    }
    let mut pid = clone_into(cgroup);
    if pid < 0 {
        // Old kernels and some sandboxes: fork, and let the child move itself into its cgroup.
        begin.in_cgroup = begin.prepared.cgroup.is_none();
        // SAFETY: a fork; the child only makes system calls.
        pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    }
    match pid {
        0 => become_service(&begin.prepared, begin.report, begin.in_cgroup),
        pid if pid < 0 => Err(io::Error::last_os_error()),
        pid => {
            Ok((u32::try_from(pid).map_err(io::Error::other)?, KeptMemory { begin, stack: None }))
        }
    }
}

fn arguments(cgroup: Option<RawFd>) -> libc::clone_args {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    // SAFETY: plain memory; all zeroes requests nothing.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.exit_signal = libc::SIGCHLD as u64;
    if let Some(cgroup) = cgroup {
        arguments.flags = CLONE_INTO_CGROUP;
        arguments.cgroup = cgroup as u64;
    }
    arguments
}

/// Returns zero in the child, like fork.
fn clone_into(cgroup: Option<RawFd>) -> libc::c_long {
    let arguments = arguments(cgroup);
    // SAFETY: without CLONE_VM this is a fork; the child only makes system calls.
    unsafe { libc::syscall(libc::SYS_clone3, &arguments, size_of_val(&arguments)) }
}

/// Forks a child into the cgroup that exits at once, and checks that it was not killed.
pub(super) fn lives_in(cgroup: RawFd) -> bool {
    let pid = match clone_into(Some(cgroup)) {
        0 => raw_syscalls::exit(0),
        // Refused: every such fork will be, and then children move themselves.
        pid if pid < 0 => return true,
        pid => pid as libc::pid_t,
    };
    let mut status = 0;
    // SAFETY: a valid place for the status of our own child.
    let waited = unsafe { libc::waitpid(pid, &mut status, 0) };
    waited == pid && status == 0
}

/// Returns the pid of a child that runs [`enter`] on its own stack in our memory; `None` if the
/// kernel refuses.
fn clone_sharing(cgroup: Option<RawFd>, stack: &Stack, begin: &ChildArguments) -> Option<u32> {
    let mut arguments = arguments(cgroup);
    arguments.flags |= libc::CLONE_VM as u64;
    arguments.stack = stack.base() as u64;
    arguments.stack_size = Stack::SIZE as u64;
    // SAFETY: `begin` and the stack stay in `KeptMemory` until the child has left our memory.
    let pid = unsafe { clone3_to(&arguments, enter, std::ptr::from_ref(begin)) };
    u32::try_from(pid).ok().filter(|pid| *pid != 0)
}

extern "C" fn enter(begin: *const ChildArguments) -> ! {
    // SAFETY: see `clone_sharing`.
    let begin = unsafe { &*begin };
    become_service(&begin.prepared, begin.report, begin.in_cgroup)
}

/// Clones a child that calls `function` with `begin`; returns its pid or a negative error number.
///
/// # Safety
/// The arguments specify a stack that nobody else uses, and all memory that the child reaches stays
/// valid while it needs it.
#[cfg(target_arch = "x86_64")]
unsafe fn clone3_to(
    arguments: &libc::clone_args,
    function: extern "C" fn(*const ChildArguments) -> !,
    begin: *const ChildArguments,
) -> isize {
    let returned: isize;
    // SAFETY: the parent continues after the label as after any system call; the child has an empty
    // stack of its own and never returns.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 as isize => returned,
            in("rdi") std::ptr::from_ref(arguments),
            in("rsi") size_of::<libc::clone_args>(),
            in("r12") begin,
            in("r13") function,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    returned
}

/// Clones a child that calls `function` with `begin`; returns its pid or a negative error number.
///
/// # Safety
/// The arguments specify a stack that nobody else uses, and all memory that the child reaches stays
/// valid while it needs it.
#[cfg(target_arch = "aarch64")]
unsafe fn clone3_to(
    arguments: &libc::clone_args,
    function: extern "C" fn(*const ChildArguments) -> !,
    begin: *const ChildArguments,
) -> isize {
    let returned: isize;
    // SAFETY: the parent continues after the label as after any system call; the child has an empty
    // stack of its own and never returns.
    unsafe {
        std::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x20",
            "blr x21",
            "brk 1",
            "2:",
            in("x8") libc::SYS_clone3,
            inlateout("x0") std::ptr::from_ref(arguments) => returned,
            in("x1") size_of::<libc::clone_args>(),
            in("x20") begin,
            in("x21") function,
        );
    }
    returned
}

/// Not supported: no memory is shared on this platform.
///
/// # Safety
/// No requirements.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn clone3_to(
    _arguments: &libc::clone_args,
    _function: extern "C" fn(*const ChildArguments) -> !,
    _begin: *const ChildArguments,
) -> isize {
    -1
}
