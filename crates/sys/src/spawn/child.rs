//! The code between fork and exec: system calls only, no allocation, no locks, no panics and no C
//! library, because the child may share its parent's memory (see `birth`).

use super::prepared::PreparedPlan;
use super::{REPORT, SpawnStep};
use crate::failpoint::{self, Point};
use crate::raw_syscalls::{self, descriptor};
use proctor_core::record_encoding::Identity;
use std::os::fd::RawFd;

/// Executes the service's program, or reports the failure; never returns.
pub(super) fn become_service(prepared: &PreparedPlan, report: RawFd, in_cgroup: bool) -> ! {
    let failed = match prepare_and_run(prepared, in_cgroup) {
        Err(failed) => failed,
        Ok(never) => match never {},
    };
    let mut bytes = [0u8; REPORT];
    bytes[0] = failed.step as u8;
    bytes[1] = failed.candidate;
    bytes[4..8].copy_from_slice(&failed.errno.to_le_bytes());
    // The keeper may be dead by now; the exit code below must report the failure, not a SIGPIPE.
    set_action(libc::SIGPIPE, libc::SIG_IGN);
    let _ = raw_syscalls::write(report, &bytes);
    raw_syscalls::exit(127)
}

/// The report to the parent.
struct ChildFailure {
    step: SpawnStep,
    candidate: u8,
    errno: i32,
}

impl ChildFailure {
    fn at(step: SpawnStep) -> impl Fn(i32) -> ChildFailure {
        move |errno| ChildFailure { step, candidate: 0, errno }
    }
}

/// An uninhabited `Ok`: after success another program runs.
enum Never {}

fn prepare_and_run(p: &PreparedPlan, in_cgroup: bool) -> Result<Never, ChildFailure> {
    catch_dumps();
    pass(Point::ChildBegin, SpawnStep::Session)?;
    raw_syscalls::plain(libc::SYS_setsid, []).map_err(ChildFailure::at(SpawnStep::Session))?;
    pass(Point::ChildSession, SpawnStep::Identity)?;
    // As early as possible: the next steps may hang on a dead disk or network, and the process must
    // be known while they do.
    record_identity(p)?;
    pass(Point::ChildRecorded, SpawnStep::Identity)?;
    if !in_cgroup {
        enter_cgroup(p)?;
    }
    arrange_descriptors(p).map_err(ChildFailure::at(SpawnStep::Stdio))?;
    if p.is_terminal {
        let stdin = [libc::STDIN_FILENO as usize, libc::TIOCSCTTY as usize, 0];
        raw_syscalls::plain(libc::SYS_ioctl, stdin)
            .map_err(ChildFailure::at(SpawnStep::Terminal))?;
    }
    set_attributes(p)?;
    set_identity(p)?;
    change_dir(p).map_err(ChildFailure::at(SpawnStep::WorkingDir))?;
    reset_signals(p);
    pass(Point::ChildExec, SpawnStep::Exec)?;
    execute(p)
}

fn pass(point: Point, step: SpawnStep) -> Result<(), ChildFailure> {
    failpoint::step(point)
        .map_err(|error| ChildFailure::at(step)(error.raw_os_error().unwrap_or(0)))
}

fn enter_cgroup(p: &PreparedPlan) -> Result<(), ChildFailure> {
    let Some(folder) = p.cgroup else { return Ok(()) };
    let failed = ChildFailure::at(SpawnStep::Cgroup);
    let file = raw_syscalls::open(folder, c"cgroup.procs", libc::O_WRONLY | libc::O_CLOEXEC);
    // "0" means the writer itself.
    file.and_then(|file| raw_syscalls::write(file, b"0")).map(drop).map_err(failed)
}

/// Puts stdio at 0 to 2 and passed descriptors at 3 and up; everything else closes on exec.
fn arrange_descriptors(p: &PreparedPlan) -> Result<(), i32> {
    for (target, fd) in (0..).zip(&p.stdio) {
        // The parent's own descriptors are above 2, except that its standard error may be passed
        // unchanged.
        let done = if descriptor(*fd) == target {
            raw_syscalls::plain(libc::SYS_fcntl, [target, libc::F_SETFD as usize, 0])
        } else {
            raw_syscalls::plain(libc::SYS_dup3, [descriptor(*fd), target, 0])
        };
        done?;
    }
    // Marks everything above stdio; passed descriptors are unmarked below. Fails before Linux 5.11,
    // but all our own descriptors have the mark anyway.
    let _ = raw_syscalls::plain(
        libc::SYS_close_range,
        [3, libc::c_uint::MAX as usize, libc::CLOSE_RANGE_CLOEXEC as usize],
    );
    for (target, fd) in (3..).zip(&p.passed) {
        // Passed descriptors do not overlap their targets.
        raw_syscalls::plain(libc::SYS_dup3, [descriptor(*fd), target, 0])?;
    }
    Ok(())
}

fn set_attributes(p: &PreparedPlan) -> Result<(), ChildFailure> {
    if let Some(umask) = p.umask {
        raw_syscalls::plain(libc::SYS_umask, [umask as usize])
            .map_err(ChildFailure::at(SpawnStep::Umask))?;
    }
    for (resource, limit) in &p.limits {
        let arguments = [0, *resource as usize, std::ptr::from_ref(limit) as usize, 0, 0, 0];
        // SAFETY: `limit` is valid; the old one is not requested.
        unsafe { raw_syscalls::call(libc::SYS_prlimit64, arguments) }
            .map_err(ChildFailure::at(SpawnStep::Limits))?;
    }
    if let Some(tag) = &p.tag {
        let arguments = [0, libc::RLIMIT_LOCKS as usize, std::ptr::from_ref(tag) as usize, 0, 0, 0];
        // One that cannot be tagged is recognised by other means. SAFETY: `tag` is valid; the old one is not asked for.
        let _ = unsafe { raw_syscalls::call(libc::SYS_prlimit64, arguments) };
    }
    if let Some(nice) = p.nice {
        let this_process = [libc::PRIO_PROCESS as usize, 0, nice as isize as usize];
        raw_syscalls::plain(libc::SYS_setpriority, this_process)
            .map_err(ChildFailure::at(SpawnStep::Nice))?;
    }
    if let Some(score) = &p.oom_score {
        let path = c"/proc/self/oom_score_adj";
        raw_syscalls::open(libc::AT_FDCWD, path, libc::O_WRONLY | libc::O_CLOEXEC)
            .and_then(|file| raw_syscalls::write(file, score.as_bytes()))
            .map_err(ChildFailure::at(SpawnStep::OomScore))?;
    }
    Ok(())
}

fn set_identity(p: &PreparedPlan) -> Result<(), ChildFailure> {
    let Some((uid, gid, groups)) = &p.credentials else { return Ok(()) };
    let (uid, gid) = (*uid as usize, *gid as usize);
    let arguments = [groups.len(), groups.as_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: `groups` is valid for its length.
    unsafe { raw_syscalls::call(libc::SYS_setgroups, arguments) }
        .map_err(ChildFailure::at(SpawnStep::Groups))?;
    raw_syscalls::plain(libc::SYS_setresgid, [gid; 3])
        .map_err(ChildFailure::at(SpawnStep::Group))?;
    raw_syscalls::plain(libc::SYS_setresuid, [uid; 3])
        .map_err(ChildFailure::at(SpawnStep::User))
        .map(drop)
}

fn change_dir(p: &PreparedPlan) -> Result<(), i32> {
    let arguments = [p.working_dir.as_ptr() as usize, 0, 0, 0, 0, 0];
    // SAFETY: a zero-terminated string made before the fork.
    unsafe { raw_syscalls::call(libc::SYS_chdir, arguments) }.map(drop)
}

fn record_identity(p: &PreparedPlan) -> Result<(), ChildFailure> {
    let Some((record, offset, run)) = p.record else { return Ok(()) };
    let failed = ChildFailure::at(SpawnStep::Identity);
    let pid = raw_syscalls::plain(libc::SYS_getpid, []).map_err(&failed)? as u32;
    let pidfs_inode = own_pidfs_inode(pid);
    // Expensive to read, and needed only without a pidfs inode.
    let start_ticks = if pidfs_inode == 0 { start_ticks().map_err(&failed)? } else { 0 };
    let identity = Identity { pid, start_ticks, pidfs_inode, boot: p.boot, run };
    let bytes = identity.encode();
    match raw_syscalls::write_at(record, &bytes, offset) {
        Ok(written) if written == bytes.len() => Ok(()),
        Ok(_) => Err(failed(libc::EIO)),
        Err(errno) => Err(failed(errno)),
    }
}

fn start_ticks() -> Result<u64, i32> {
    let mut buffer = [0u8; 1024];
    let file =
        raw_syscalls::open(libc::AT_FDCWD, c"/proc/self/stat", libc::O_RDONLY | libc::O_CLOEXEC)?;
    let length = raw_syscalls::read(file, &mut buffer)?;
    let stat = crate::proc::parse_stat(buffer.get(..length).unwrap_or(&[]));
    stat.map(|stat| stat.start_ticks).ok_or(libc::EIO)
}

/// Returns 0 if the kernel has no pidfs; then the start time identifies the process.
fn own_pidfs_inode(pid: u32) -> u64 {
    let Ok(fd) = raw_syscalls::plain(libc::SYS_pidfd_open, [pid as usize, 0]) else { return 0 };
    // SAFETY: the descriptor was just opened and stays open until exec closes it.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd as RawFd) };
    crate::process::pidfs_inode(borrowed).unwrap_or(0)
}

/// The kernel's own structure, which differs from the C library's.
#[repr(C)]
struct Action {
    handler: usize,
    flags: libc::c_ulong,
    restorer: usize,
    mask: u64,
}

fn set_action(signal: i32, handler: libc::sighandler_t) {
    // On x86-64 the kernel requires the return address of a handler; ours does not return.
    const SA_RESTORER: libc::c_ulong = 0x0400_0000;
    let flags = if cfg!(target_arch = "x86_64") { SA_RESTORER } else { 0 };
    let action = Action { handler, flags, restorer: 0, mask: 0 };
    let arguments =
        [signal as usize, std::ptr::from_ref(&action) as usize, 0, size_of::<u64>(), 0, 0];
    // SAFETY: a valid structure; numbers that may not be changed are refused.
    let _ = unsafe { raw_syscalls::call(libc::SYS_rt_sigaction, arguments) };
}

/// Signals that end a process with a core dump.
const DUMPING: [i32; 10] = [
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGSYS,
];

/// A core dump ends every process that shares the dumped memory, possibly the keeper. Until exec,
/// which resets handlers to the default, such a signal ends only the child.
fn catch_dumps() {
    for signal in DUMPING {
        set_action(signal, end_by as *const () as libc::sighandler_t);
    }
}

extern "C" fn end_by(signal: i32) -> ! {
    raw_syscalls::exit(128u8.wrapping_add(signal as u8))
}

/// Resets every signal to its default and unblocks all, whatever the keeper or its parent had set.
fn reset_signals(p: &PreparedPlan) {
    for signal in p.signals.iter().filter(|signal| !DUMPING.contains(signal)) {
        set_action(*signal, libc::SIG_DFL);
    }
    let none = 0u64;
    let arguments = [
        libc::SIG_SETMASK as usize,
        std::ptr::from_ref(&none) as usize,
        0,
        size_of_val(&none),
        0,
        0,
    ];
    // SAFETY: a valid set; the old one is not requested.
    let _ = unsafe { raw_syscalls::call(libc::SYS_rt_sigprocmask, arguments) };
}

/// Tries the candidates as `execvp` does; reports the one that came closest.
fn execute(p: &PreparedPlan) -> Result<Never, ChildFailure> {
    let mut closest = ChildFailure { step: SpawnStep::Exec, candidate: 0, errno: libc::ENOENT };
    for (index, candidate) in (0u8..=u8::MAX).zip(&p.candidates) {
        let arguments = [
            candidate.as_ptr() as usize,
            p.argv.pointers.as_ptr() as usize,
            p.environment.pointers.as_ptr() as usize,
            0,
            0,
            0,
        ];
        // SAFETY: zero-terminated string and arrays made before the fork.
        let errno = unsafe { raw_syscalls::call(libc::SYS_execve, arguments) }.err().unwrap_or(0);
        let seen = ChildFailure { step: SpawnStep::Exec, candidate: index, errno };
        match errno {
            libc::ENOENT | libc::ENOTDIR => {}
            libc::EACCES => closest = seen,
            _ => return Err(seen),
        }
    }
    Err(closest)
}
