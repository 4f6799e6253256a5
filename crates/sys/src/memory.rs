//! The C library's allocator, told that this is a small program that lives long.

/// One heap for all threads. By default each thread that allocates gets its own, and what it frees is of no use to the others.
/// To be called before there is a second thread.
pub fn share_one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes two numbers and touches nothing but the allocator's settings.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Give free memory back to the kernel, after work that needed much more than what stays.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: only memory that is not in use is given back, under the allocator's own lock.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Let go of the pages of our own program, before a long rest. What the next work needs comes back from the page cache, some
/// pages at a time; what only the beginning needed does not. Nothing is lost: pages that can be written are left alone.
pub fn let_go_of_code() {
    #[cfg(target_os = "linux")]
    // SAFETY: the function is called with each loaded object while this call lasts, and keeps nothing of it.
    unsafe {
        libc::dl_iterate_phdr(Some(let_go_of_object), std::ptr::null_mut());
    }
}

/// Of the first object, which is the program itself; returning 1 ends the walk.
#[cfg(target_os = "linux")]
extern "C" fn let_go_of_object(
    object: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    _data: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the C library passes a description that is valid during the call.
    let object = unsafe { &*object };
    let count = usize::from(object.dlpi_phnum);
    // SAFETY: the headers are part of the program, as many as it says.
    let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, count) };
    let page = rustix::param::page_size() as u64;
    for header in headers {
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
            continue;
        }
        // Whole pages only: the first and the last may belong to a neighbour that can be written.
        let begin = (object.dlpi_addr + header.p_vaddr).next_multiple_of(page);
        let end = (object.dlpi_addr + header.p_vaddr + header.p_memsz) / page * page;
        if begin < end {
            let (address, length) = (begin as *mut libc::c_void, (end - begin) as usize);
            // SAFETY: a private mapping of a file that was never written to reads the same after this.
            unsafe { libc::madvise(address, length, libc::MADV_DONTNEED) };
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn code_that_was_let_go_of_comes_back() {
        static WORDS: [u64; 4096] = [7; 4096];
        let mapped = || {
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let mut code = false;
            let mut sum = 0;
            for line in maps.lines() {
                if line.contains(" r-xp ") {
                    code = !line.ends_with(']');
                } else if line.contains("-") && line.contains(" rw-p ") {
                    code = false;
                } else if let (true, Some(rest)) = (code, line.strip_prefix("Rss:")) {
                    sum += rest.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
                }
            }
            sum
        };
        // So that there is something to let go of.
        assert_eq!(std::hint::black_box(&WORDS).iter().sum::<u64>(), 7 * 4096);
        let before = mapped();
        let_go_of_code();
        let after = mapped();
        assert!(after < before, "{after} of {before} KiB");
        assert_eq!(std::hint::black_box(&WORDS).iter().sum::<u64>(), 7 * 4096);
    }

    fn resident() -> u64 {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
        pages * rustix::param::page_size() as u64
    }

    #[test]
    fn what_was_freed_is_given_back() {
        const PIECES: u64 = 100_000;
        const PIECE: u64 = 1000;
        let pieces: Vec<Vec<u8>> = (0..PIECES).map(|_| vec![1; PIECE as usize]).collect();
        let keep = pieces.last().cloned();
        let full = resident();
        drop(pieces);
        give_back();
        let left = resident();
        assert!(left + PIECES * PIECE / 2 < full, "{left} of {full} bytes, {keep:?}");
    }
}
