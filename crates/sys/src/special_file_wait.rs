//! Finds the FIFO or device that a process waits for, without opening it.
//!
//! An open of a FIFO shows no descriptor until its other end is there, and to open that end would let the process go on. So the
//! system call of each thread is read from `/proc`, with its path from the memory of the process. Both may be read by the owner
//! of the process unless the kernel is hardened (`kernel.yama.ptrace_scope` 2 and above). There the name of the kernel function
//! in which the thread sleeps still says that it opens a FIFO, but not which one. Anonymous pipes and sockets are left out:
//! processes wait for each other by them all the time.

use crate::proc;
use std::ffi::OsStr;
use std::fs::{self, File, FileType};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Longest path that the kernel takes.
const MAX_PATH: usize = 4096;

/// Arguments of a system call in `/proc/PID/syscall`.
const ARGUMENTS: usize = 6;

/// Standard input, output and error: a parent chose what they are.
const FIRST_OWN_DESCRIPTOR: u64 = 3;

/// Kernel functions in which the open of a FIFO sleeps.
const FIFO_OPENS: [&str; 2] = ["wait_for_partner", "fifo_open"];

/// Devices of the kernel's memory driver that are read without end: `zero`, `full`, `random`, `urandom`.
const ENDLESS: (u64, [u64; 4]) = (1, [5, 7, 8, 9]);

/// Links that mean another file in every process.
const OF_THE_READER: [&str; 4] = ["/proc/self/", "/proc/thread-self/", "/dev/fd/", "/dev/std"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialKind {
    Fifo,
    Device,
}

/// A thread that cannot go on until somebody else opens, reads or writes a special file. Two equal values, found some time
/// apart, are one wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecialFileWait {
    pub pid: u32,
    pub kind: SpecialKind,
    /// Absolute; `None` where the kernel does not tell.
    pub path: Option<PathBuf>,
    thread: u32,
    /// The system call, its arguments and where in the program it was made.
    call: String,
}

/// Waits of a process and its descendants, as far as `is_wanted` accepts the name of a process.
pub fn in_tree(pid: u32, is_wanted: impl Fn(&str) -> bool) -> Vec<SpecialFileWait> {
    let mut processes = vec![pid];
    let mut waits = Vec::new();
    let mut at = 0;
    while let Some(pid) = processes.get(at).copied() {
        at += 1;
        let more = children(pid).into_iter().filter(|child| !processes.contains(child));
        processes.extend(more.collect::<Vec<_>>());
        if proc::name(pid).is_some_and(|name| is_wanted(&name)) {
            waits.extend(threads(pid).into_iter().filter_map(|thread| of_thread(pid, thread)));
        }
    }
    waits
}

fn children(pid: u32) -> Vec<u32> {
    let by_parent = || {
        let is_child = |found: &u32| proc::stat(*found).is_some_and(|stat| stat.ppid == pid);
        proc::pids().into_iter().filter(is_child).collect()
    };
    proc::children(pid).unwrap_or_else(by_parent)
}

fn threads(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn of_thread(pid: u32, thread: u32) -> Option<SpecialFileWait> {
    let file = format!("/proc/{pid}/task/{thread}/syscall");
    let Ok(call) = fs::read_to_string(&file) else { return by_kernel_function(pid, thread) };
    let (kind, path) = match parse(&call) {
        Some((number, arguments)) => waited_for(pid, number, arguments)?,
        None => endless(pid)?,
    };
    // What was read of its memory and descriptors belongs to this call only if it is still in it.
    let is_same = parse(&call).is_none() || fs::read_to_string(&file).ok()? == call;
    is_same.then_some(SpecialFileWait { pid, kind, path: Some(path), thread, call })
}

/// `257 0xffffff9c 0x7ffc50c29ac1 0x0 … 0x7ffc50c277b0 0x7f2d06b21011`; `None` for a thread that runs.
fn parse(call: &str) -> Option<(libc::c_long, [u64; ARGUMENTS])> {
    let mut words = call.split_ascii_whitespace();
    let number = words.next()?.parse().ok().filter(|number| *number >= 0)?;
    let mut arguments = [0; ARGUMENTS];
    for argument in &mut arguments {
        *argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    Some((number, arguments))
}

fn waited_for(
    pid: u32,
    number: libc::c_long,
    arguments: [u64; ARGUMENTS],
) -> Option<(SpecialKind, PathBuf)> {
    const READS_AND_WRITES: [libc::c_long; 4] =
        [libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev];
    let [first, second, ..] = arguments;
    match number {
        libc::SYS_openat | libc::SYS_openat2 => opened(pid, Some(first), second),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open | libc::SYS_creat => opened(pid, None, first),
        number if READS_AND_WRITES.contains(&number) => descriptor(pid, first),
        _ => None,
    }
}

/// The special file that an open names.
fn opened(pid: u32, folder: Option<u64>, address: u64) -> Option<(SpecialKind, PathBuf)> {
    let mut bytes = [0; MAX_PATH];
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let length = read_before_unmapped(&memory, &mut bytes, address)?;
    let end = bytes[..length].iter().position(|byte| *byte == 0)?;
    let name = Path::new(OsStr::from_bytes(&bytes[..end]));
    if OF_THE_READER.iter().any(|prefix| bytes.starts_with(prefix.as_bytes())) {
        return None;
    }
    let path = match folder.map(|folder| folder as u32 as i32) {
        None | Some(libc::AT_FDCWD) => Path::new(&format!("/proc/{pid}/cwd")).join(name),
        Some(folder) => Path::new(&format!("/proc/{pid}/fd/{folder}")).join(name),
    };
    let kind = kind(fs::metadata(&path).ok()?.file_type())?;
    // Without the links of /proc, but by the name that the process used.
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok())?;
    Some((kind, folder.join(path.file_name()?)))
}

/// The page after the path may not be there: the kernel then reads less.
fn read_before_unmapped(memory: &File, bytes: &mut [u8], address: u64) -> Option<usize> {
    match memory.read_at(bytes, address) {
        Ok(length) => Some(length),
        Err(_) => {
            let rest = proc::page_size() - address % proc::page_size();
            let length = bytes.len().min(usize::try_from(rest).ok()?);
            memory.read_at(&mut bytes[..length], address).ok()
        }
    }
}

/// The special file that a descriptor is, if it has a name.
fn descriptor(pid: u32, number: u64) -> Option<(SpecialKind, PathBuf)> {
    if number < FIRST_OWN_DESCRIPTOR {
        return None;
    }
    let link = format!("/proc/{pid}/fd/{number}");
    let path = fs::read_link(&link).ok().filter(|path| path.is_absolute())?;
    Some((kind(fs::metadata(&link).ok()?.file_type())?, path))
}

/// A device without end among the descriptors of a process that runs.
fn endless(pid: u32) -> Option<(SpecialKind, PathBuf)> {
    let is_endless = |link: &Path| {
        let found = fs::metadata(link).ok().filter(|found| found.file_type().is_char_device());
        found.is_some_and(|found| {
            let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
            u64::from(major) == ENDLESS.0 && ENDLESS.1.contains(&u64::from(minor))
        })
    };
    let number = |link: &Path| link.file_name()?.to_str()?.parse::<u64>().ok();
    let mut links = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten().map(|it| it.path());
    let link = links.find(|link| {
        number(link).is_some_and(|number| number >= FIRST_OWN_DESCRIPTOR) && is_endless(link)
    })?;
    Some((SpecialKind::Device, fs::read_link(link).ok()?))
}

fn kind(found: FileType) -> Option<SpecialKind> {
    match found {
        found if found.is_fifo() => Some(SpecialKind::Fifo),
        found if found.is_char_device() || found.is_block_device() => Some(SpecialKind::Device),
        _ => None,
    }
}

/// For a kernel that does not tell the system call of another process.
fn by_kernel_function(pid: u32, thread: u32) -> Option<SpecialFileWait> {
    let call = fs::read_to_string(format!("/proc/{pid}/task/{thread}/wchan")).ok()?;
    let opens = FIFO_OPENS.contains(&call.trim());
    opens.then_some(SpecialFileWait { pid, kind: SpecialKind::Fifo, path: None, thread, call })
}

#[cfg(test)]
mod tests;
