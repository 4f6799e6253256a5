//! System calls without the C library. They do not touch `errno`, which belongs to a thread: a
//! child that shares its parent's memory until it executes a program shares it too.

use std::ffi::CStr;
use std::os::fd::RawFd;

/// Makes a system call; returns its result or the error number.
///
/// # Safety
/// As for the call itself: every pointer argument is valid for what the kernel does with it.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> Result<usize, i32> {
    let [a, b, c, d, e, f] = arguments;
    let returned: isize;
    // SAFETY: the kernel's convention; the memory is the caller's responsibility.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => returned,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result(returned)
}

/// Makes a system call; returns its result or the error number.
///
/// # Safety
/// As for the call itself: every pointer argument is valid for what the kernel does with it.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> Result<usize, i32> {
    let [a, b, c, d, e, f] = arguments;
    let returned: isize;
    // SAFETY: the kernel's convention; the memory is the caller's responsibility.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a as isize => returned,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    result(returned)
}

/// Makes a system call through the C library; returns its result or the error number. No memory is
/// shared on this platform.
///
/// # Safety
/// As for the call itself: every pointer argument is valid for what the kernel does with it.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> Result<usize, i32> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the memory is the caller's responsibility.
    let returned = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    let errno = || std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    usize::try_from(returned).map_err(|_| errno())
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn result(returned: isize) -> Result<usize, i32> {
    // Errors are the last 4095 numbers.
    if (-4095..0).contains(&returned) { Err(-returned as i32) } else { Ok(returned as usize) }
}

/// A system call that touches no memory.
pub(crate) fn plain<const N: usize>(
    number: libc::c_long,
    arguments: [usize; N],
) -> Result<usize, i32> {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&arguments);
    // SAFETY: by this function's contract the arguments are numbers.
    unsafe { call(number, all) }
}

/// A descriptor as an argument of a system call.
pub(crate) fn descriptor(number: RawFd) -> usize {
    number as isize as usize
}

pub(crate) fn open(folder: RawFd, path: &CStr, flags: i32) -> Result<RawFd, i32> {
    let arguments = [descriptor(folder), path.as_ptr() as usize, flags as usize, 0, 0, 0];
    // SAFETY: the path ends with a zero.
    unsafe { call(libc::SYS_openat, arguments) }.map(|fd| fd as RawFd)
}

pub(crate) fn write(fd: RawFd, bytes: &[u8]) -> Result<usize, i32> {
    let arguments = [descriptor(fd), bytes.as_ptr() as usize, bytes.len(), 0, 0, 0];
    // SAFETY: `bytes` is valid for its length.
    unsafe { call(libc::SYS_write, arguments) }
}

pub(crate) fn write_at(fd: RawFd, bytes: &[u8], offset: i64) -> Result<usize, i32> {
    let arguments = [descriptor(fd), bytes.as_ptr() as usize, bytes.len(), offset as usize, 0, 0];
    // SAFETY: `bytes` is valid for its length.
    unsafe { call(libc::SYS_pwrite64, arguments) }
}

pub(crate) fn read(fd: RawFd, bytes: &mut [u8]) -> Result<usize, i32> {
    let arguments = [descriptor(fd), bytes.as_mut_ptr() as usize, bytes.len(), 0, 0, 0];
    // SAFETY: `bytes` is valid for its length.
    unsafe { call(libc::SYS_read, arguments) }
}

/// Ends this process without running anything else.
pub(crate) fn exit(code: u8) -> ! {
    loop {
        let _ = plain(libc::SYS_exit_group, [usize::from(code)]);
    }
}
