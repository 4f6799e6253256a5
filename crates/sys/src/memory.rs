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

#[cfg(test)]
mod tests {
    use super::*;

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
