//! Random bytes from the kernel, good enough for secrets.

use rustix::rand::{GetRandomFlags, getrandom};

/// Waits until the kernel's source is ready, which it is soon after boot.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the kernel has no random bytes: {error}"),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_two_are_alike() {
        assert_ne!(super::bytes::<32>(), super::bytes::<32>());
    }
}
