//! Between fork and exec: system calls only, no allocation, no locks, no panics.

use super::{Plan, REPORT, Step};
use crate::failpoint::{self, Point};
use proctor_core::name::RunId;
use proctor_core::record::{BootId, Identity};
use proctor_core::spec::Resource;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

/// Most candidates of a `PATH` that are tried: the report names one in a byte.
const MAX_CANDIDATES: usize = 255;

/// Highest signal number.
const SIGNALS: i32 = 64;

/// A plan in the form the child can use.
pub(super) struct Prepared {
    pub(super) candidates: Vec<CString>,
    pub(super) working_dir: CString,
    argv: Pointers,
    environment: Pointers,
    credentials: Option<(u32, u32, Vec<u32>)>,
    umask: Option<u32>,
    limits: Vec<(libc::c_int, libc::rlimit)>,
    nice: Option<i32>,
    oom_score: Option<CString>,
    stdio: [RawFd; 3],
    passed: Vec<RawFd>,
    record: Option<(RawFd, libc::off_t, RunId)>,
    cgroup: Option<RawFd>,
    walks_in: bool,
    boot: BootId,
}

/// Strings and the zero-terminated array of pointers to them.
struct Pointers {
    _strings: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl Pointers {
    fn new(texts: &[String]) -> io::Result<Pointers> {
        let strings = texts
            .iter()
            .map(|text| CString::new(text.as_bytes()))
            .collect::<Result<Vec<_>, _>>()?;
        let pointers = strings.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect();
        Ok(Pointers { _strings: strings, pointers })
    }
}

impl Prepared {
    pub(super) fn new(plan: &Plan<'_>, passed: &[OwnedFd]) -> io::Result<Prepared> {
        let program =
            plan.argv.first().filter(|p| !p.is_empty()).ok_or(io::ErrorKind::InvalidInput)?;
        let limits = plan.limits.iter().map(|limit| {
            let value = |v: Option<u64>| v.map_or(libc::RLIM_INFINITY, |n| n as libc::rlim_t);
            let rlimit = libc::rlimit { rlim_cur: value(limit.soft), rlim_max: value(limit.hard) };
            (resource(limit.resource), rlimit)
        });
        Ok(Prepared {
            candidates: candidates(program, plan.environment)?,
            working_dir: CString::new(plan.working_dir)?,
            argv: Pointers::new(plan.argv)?,
            environment: Pointers::new(plan.environment)?,
            credentials: plan.credentials.map(|c| (c.uid, c.gid, c.groups.clone())),
            umask: plan.umask,
            limits: limits.collect(),
            nice: plan.nice,
            oom_score: plan.oom_score_adj.map(|n| CString::new(n.to_string())).transpose()?,
            stdio: plan.stdio,
            passed: passed.iter().map(AsRawFd::as_raw_fd).collect(),
            record: plan
                .record
                .map(|record| (record.file.as_raw_fd(), record.offset as libc::off_t, record.run)),
            cgroup: plan.cgroup.map(|group| group.folder.as_raw_fd()),
            walks_in: plan.cgroup.is_some_and(|group| group.walks_in),
            boot: plan.boot,
        })
    }
}

/// The paths that `execvp` would try, in order.
fn candidates(program: &str, environment: &[String]) -> io::Result<Vec<CString>> {
    if program.contains('/') {
        return Ok(vec![CString::new(program)?]);
    }
    let path = environment.iter().find_map(|entry| entry.strip_prefix("PATH="));
    let folders = path.unwrap_or(crate::program::DEFAULT_PATH).split(':').take(MAX_CANDIDATES);
    let join = |folder: &str| match folder {
        "" => format!("./{program}"),
        folder => format!("{folder}/{program}"),
    };
    folders.map(|folder| Ok(CString::new(join(folder))?)).collect()
}

fn resource(resource: Resource) -> libc::c_int {
    let number = match resource {
        Resource::AddressSpace => libc::RLIMIT_AS,
        Resource::Core => libc::RLIMIT_CORE,
        Resource::Cpu => libc::RLIMIT_CPU,
        Resource::Data => libc::RLIMIT_DATA,
        Resource::FileSize => libc::RLIMIT_FSIZE,
        Resource::LockedMemory => libc::RLIMIT_MEMLOCK,
        Resource::OpenFiles => libc::RLIMIT_NOFILE,
        Resource::Processes => libc::RLIMIT_NPROC,
        Resource::Stack => libc::RLIMIT_STACK,
    };
    number as libc::c_int
}

/// Fork, straight into the cgroup where the kernel can; the child never returns from here.
pub(super) fn fork(prepared: &Prepared, report: RawFd) -> io::Result<u32> {
    let mut pid = clone_into(prepared.cgroup.filter(|_| !prepared.walks_in));
    let mut in_cgroup = prepared.cgroup.is_none() || !prepared.walks_in;
    if pid < 0 {
        // Old kernels and some sandboxes: fork, and let the child walk into its cgroup.
        in_cgroup = prepared.cgroup.is_none();
        // SAFETY: a fork; the child only makes system calls.
        pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    }
    match pid {
        0 => become_service(prepared, report, in_cgroup),
        pid if pid < 0 => Err(io::Error::last_os_error()),
        pid => u32::try_from(pid).map_err(io::Error::other),
    }
}

/// Zero in the child, as with a fork.
fn clone_into(cgroup: Option<RawFd>) -> libc::c_long {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    // SAFETY: plain memory; all zeroes is "nothing asked for".
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.exit_signal = libc::SIGCHLD as u64;
    if let Some(cgroup) = cgroup {
        arguments.flags = CLONE_INTO_CGROUP;
        arguments.cgroup = cgroup as u64;
    }
    // SAFETY: without CLONE_VM this is a fork; the child only makes system calls.
    unsafe { libc::syscall(libc::SYS_clone3, &arguments, size_of_val(&arguments)) }
}

/// Fork a child into the cgroup that ends at once, and see whether it came to that.
pub(super) fn lives_in(cgroup: RawFd) -> bool {
    let pid = match clone_into(Some(cgroup)) {
        // SAFETY: ends the child without running anything of the parent's.
        0 => unsafe { libc::_exit(0) },
        // Refused: every fork will be, and the child walks in then.
        pid if pid < 0 => return true,
        pid => pid as libc::pid_t,
    };
    let mut status = 0;
    // SAFETY: a valid place for the status of our own child.
    let waited = unsafe { libc::waitpid(pid, &mut status, 0) };
    waited == pid && status == 0
}

fn become_service(prepared: &Prepared, report: RawFd, in_cgroup: bool) -> ! {
    let failed = match prepare_and_run(prepared, in_cgroup) {
        Err(failed) => failed,
        Ok(never) => match never {},
    };
    let mut bytes = [0u8; REPORT];
    bytes[0] = failed.step as u8;
    bytes[1] = failed.candidate;
    bytes[4..8].copy_from_slice(&failed.errno.to_le_bytes());
    // The keeper may be dead by now: then the exit below has to tell, not a SIGPIPE.
    // SAFETY: no memory is involved.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    // SAFETY: `bytes` is valid for its length.
    unsafe { libc::write(report, bytes.as_ptr().cast(), REPORT) };
    // SAFETY: ends the child without running anything of the parent's.
    unsafe { libc::_exit(127) }
}

/// What the parent is told.
struct Failed {
    step: Step,
    candidate: u8,
    errno: i32,
}

impl Failed {
    /// Of the system call that was made last.
    fn now(step: Step) -> Failed {
        Failed { step, candidate: 0, errno: errno() }
    }
}

/// Does not allocate.
fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// An `Ok` that cannot be made: success is a program that no longer is this one.
enum Never {}

fn prepare_and_run(p: &Prepared, in_cgroup: bool) -> Result<Never, Failed> {
    pass(Point::ChildBegin, Step::Session)?;
    // SAFETY: no memory is involved.
    check(Step::Session, unsafe { libc::setsid() })?;
    pass(Point::ChildSession, Step::Identity)?;
    // As early as can be: what follows may hang on a dead disk or network, and must be known while it does.
    record_identity(p)?;
    pass(Point::ChildRecorded, Step::Identity)?;
    if !in_cgroup {
        enter_cgroup(p)?;
    }
    arrange_descriptors(p)?;
    set_attributes(p)?;
    set_identity(p)?;
    // SAFETY: a zero-terminated string made before the fork.
    check(Step::WorkingDir, unsafe { libc::chdir(p.working_dir.as_ptr()) })?;
    reset_signals();
    pass(Point::ChildExec, Step::Exec)?;
    execute(p)
}

fn pass(point: Point, step: Step) -> Result<(), Failed> {
    failpoint::step(point).map_err(|error| Failed {
        step,
        candidate: 0,
        errno: error.raw_os_error().unwrap_or(0),
    })
}

fn check(step: Step, result: libc::c_int) -> Result<(), Failed> {
    if result < 0 { Err(Failed::now(step)) } else { Ok(()) }
}

fn enter_cgroup(p: &Prepared) -> Result<(), Failed> {
    let Some(folder) = p.cgroup else { return Ok(()) };
    // SAFETY: a valid folder and a constant name.
    let file =
        unsafe { libc::openat(folder, c"cgroup.procs".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    check(Step::Cgroup, file)?;
    // SAFETY: one byte of a constant; "0" is the writer itself.
    check(Step::Cgroup, unsafe { libc::write(file, c"0".as_ptr().cast(), 1) } as libc::c_int)
}

/// Put stdio at 0 to 2 and passed descriptors at 3 and on; everything else closes on exec.
fn arrange_descriptors(p: &Prepared) -> Result<(), Failed> {
    for (target, fd) in (0..).zip(&p.stdio) {
        // SAFETY: numbers only. The parent's own descriptors are all above 2.
        check(Step::Stdio, unsafe { libc::dup2(*fd, target) })?;
    }
    // SAFETY: numbers only. Marks all above stdio; those passed are unmarked by `dup2` below.
    let marked = unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    // Before Linux 5.11 this is refused; all our own descriptors have the mark anyway.
    let _ = marked;
    for (target, fd) in (3..).zip(&p.passed) {
        // SAFETY: numbers only; passed descriptors are clear of their targets.
        check(Step::Stdio, unsafe { libc::dup2(*fd, target) })?;
    }
    Ok(())
}

fn set_attributes(p: &Prepared) -> Result<(), Failed> {
    if let Some(umask) = p.umask {
        // SAFETY: no memory is involved.
        unsafe { libc::umask(umask as libc::mode_t) };
    }
    for (resource, limit) in &p.limits {
        // SAFETY: `limit` is valid; the raw call, because glibc's may not be async-signal-safe everywhere.
        let result = unsafe {
            libc::syscall(libc::SYS_prlimit64, 0, *resource, limit, ptr::null_mut::<u8>())
        };
        check(Step::Limits, result as libc::c_int)?;
    }
    if let Some(nice) = p.nice {
        // SAFETY: no memory is involved.
        check(Step::Nice, unsafe { libc::syscall(libc::SYS_setpriority, 0, 0, nice) }
            as libc::c_int)?;
    }
    if let Some(score) = &p.oom_score {
        let path = c"/proc/self/oom_score_adj";
        // SAFETY: a constant path.
        let file = unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
        check(Step::OomScore, file)?;
        // SAFETY: the string is valid for its length.
        let written = unsafe { libc::write(file, score.as_ptr().cast(), score.as_bytes().len()) };
        check(Step::OomScore, written as libc::c_int)?;
    }
    Ok(())
}

/// The raw calls: glibc's would try to change every thread of a process that has only this one.
fn set_identity(p: &Prepared) -> Result<(), Failed> {
    let Some((uid, gid, groups)) = &p.credentials else { return Ok(()) };
    // SAFETY: `groups` is valid for its length.
    let result = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    check(Step::Groups, result as libc::c_int)?;
    // SAFETY: numbers only.
    check(Step::Group, unsafe { libc::syscall(libc::SYS_setresgid, *gid, *gid, *gid) }
        as libc::c_int)?;
    // SAFETY: numbers only.
    check(Step::User, unsafe { libc::syscall(libc::SYS_setresuid, *uid, *uid, *uid) }
        as libc::c_int)
}

fn record_identity(p: &Prepared) -> Result<(), Failed> {
    let Some((record, offset, run)) = p.record else { return Ok(()) };
    // SAFETY: no memory is involved. The raw call: a C library may remember the parent's pid.
    let pid = unsafe { libc::syscall(libc::SYS_getpid) } as u32;
    let pidfs_inode = own_pidfs_inode(pid);
    // Costly to ask for, and needed only where there is no better mark.
    let start_ticks = if pidfs_inode == 0 { start_ticks()? } else { 0 };
    let identity = Identity { pid, start_ticks, pidfs_inode, boot: p.boot, run };
    let bytes = identity.encode();
    // SAFETY: `bytes` is valid for its length.
    let written = unsafe { libc::pwrite(record, bytes.as_ptr().cast(), bytes.len(), offset) };
    if written != bytes.len() as isize { Err(Failed::now(Step::Identity)) } else { Ok(()) }
}

fn start_ticks() -> Result<u64, Failed> {
    let mut buffer = [0u8; 1024];
    // SAFETY: a constant path.
    let file = unsafe { libc::open(c"/proc/self/stat".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    check(Step::Identity, file)?;
    // SAFETY: `buffer` is valid for its length.
    let length = unsafe { libc::read(file, buffer.as_mut_ptr().cast(), buffer.len()) };
    check(Step::Identity, length as libc::c_int)?;
    let read = buffer.get(..length as usize).unwrap_or(&[]);
    crate::proc::parse_stat(read)
        .map(|stat| stat.start_ticks)
        .ok_or_else(|| Failed::now(Step::Identity))
}

/// 0 where the kernel has no pidfs; the start time has to do then.
fn own_pidfs_inode(pid: u32) -> u64 {
    // SAFETY: numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as RawFd;
    if fd < 0 {
        return 0;
    }
    // SAFETY: the descriptor was just opened and stays open until exec closes it.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    crate::process::pidfs_inode(borrowed).unwrap_or(0)
}

/// Every signal at its default and none blocked, whatever the keeper or its own parent had arranged.
fn reset_signals() {
    // The kernel's own structure, all zeroes: default disposition, no flags, empty mask. The raw call, because the
    // C library keeps two signals for itself and would leave them as our parent had them.
    let default = [0u64; 8];
    for signal in 1..=SIGNALS {
        let none = ptr::null_mut::<u64>();
        // SAFETY: larger than the structure on every platform; numbers that may not be changed are refused.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), none, size_of::<u64>())
        };
    }
    // SAFETY: plain memory, given its value by the next call.
    let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a valid place for a signal set.
    unsafe { libc::sigemptyset(&mut none) };
    // SAFETY: a valid set; the old one is not wanted.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut()) };
}

/// Try the candidates as `execvp` does; report the one that came closest.
fn execute(p: &Prepared) -> Result<Never, Failed> {
    let mut closest = Failed { step: Step::Exec, candidate: 0, errno: libc::ENOENT };
    for (index, candidate) in (0u8..=u8::MAX).zip(&p.candidates) {
        // SAFETY: zero-terminated string and arrays made before the fork.
        unsafe {
            libc::execve(
                candidate.as_ptr(),
                p.argv.pointers.as_ptr(),
                p.environment.pointers.as_ptr(),
            )
        };
        let seen = Failed { step: Step::Exec, candidate: index, errno: errno() };
        match seen.errno {
            libc::ENOENT | libc::ENOTDIR => {}
            libc::EACCES => closest = seen,
            _ => return Err(seen),
        }
    }
    Err(closest)
}
