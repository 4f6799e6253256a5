//! Settings of the C library's allocator for a small, long-lived program.

/// Uses one heap for all threads. By default each allocating thread gets its own, and others cannot
/// reuse its freed memory. Call it before a second thread starts.
pub fn share_one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes two numbers and changes only the allocator's settings.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Returns free memory to the kernel after a peak.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: only unused memory is returned, under the allocator's own lock.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Drops the resident pages of our program before a long idle time. Pages that are needed again
/// come back from the page cache; those only used at startup do not. Nothing is lost: writable
/// pages are kept.
pub fn let_go_of_code() {
    #[cfg(target_os = "linux")]
    // SAFETY: the function is called with each loaded object during this call only, and keeps no
    // reference to it.
    unsafe {
        libc::dl_iterate_phdr(Some(let_go_of_object), std::ptr::null_mut());
    }
}

/// Handles the first object, which is the program itself; returning 1 ends the iteration.
#[cfg(target_os = "linux")]
extern "C" fn let_go_of_object(
    object: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    _data: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the C library passes a description that is valid during the call.
    let object = unsafe { &*object };
    let count = usize::from(object.dlpi_phnum);
    // SAFETY: the headers are part of the program, and the object states their number.
    let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, count) };
    let page = rustix::param::page_size() as u64;
    for header in headers {
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
            continue;
        }
        // Whole pages only: the first and the last may share a page with writable data.
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
        // Makes some pages resident.
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
