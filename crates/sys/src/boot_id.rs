//! The id of the current boot.

use proctor_core::record_encoding::BootId;
use std::io;

/// The kernel's random id of this boot. All zeroes if the kernel does not report it; start times
/// and pidfs inodes still identify processes then.
pub fn id() -> BootId {
    read().unwrap_or(BootId([0; 16]))
}

fn read() -> io::Result<BootId> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(digits.chunks(2)) {
        let pair = std::str::from_utf8(pair).map_err(io::Error::other)?;
        *byte = u8::from_str_radix(pair, 16).map_err(io::Error::other)?;
    }
    Ok(BootId(id))
}
