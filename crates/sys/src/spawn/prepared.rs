//! A plan in the form the child can use: everything that allocates happens here, before the fork.

use super::Plan;
use proctor_core::name::RunId;
use proctor_core::record::BootId;
use proctor_core::spec::Resource;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

/// Most candidates of a `PATH` that are tried: the report names one in a byte.
const MAX_CANDIDATES: usize = 255;

/// A plan in the form the child can use.
pub(super) struct Prepared {
    pub(super) candidates: Vec<CString>,
    pub(super) working_dir: CString,
    pub(super) argv: Pointers,
    pub(super) environment: Pointers,
    pub(super) credentials: Option<(u32, u32, Vec<u32>)>,
    pub(super) umask: Option<u32>,
    pub(super) limits: Vec<(libc::c_int, libc::rlimit)>,
    pub(super) nice: Option<i32>,
    pub(super) oom_score: Option<CString>,
    pub(super) stdio: [RawFd; 3],
    pub(super) passed: Vec<RawFd>,
    pub(super) record: Option<(RawFd, libc::off_t, RunId)>,
    pub(super) cgroup: Option<RawFd>,
    pub(super) walks_in: bool,
    pub(super) boot: BootId,
    /// Signals that this process does not leave at their default.
    pub(super) signals: &'static [i32],
}

/// Strings and the zero-terminated array of pointers to them.
pub(super) struct Pointers {
    _strings: Vec<CString>,
    pub(super) pointers: Vec<*const libc::c_char>,
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
            signals: crate::signal::arranged(),
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
