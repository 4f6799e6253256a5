//! A plan in the form the child can use; everything that allocates happens here, before the fork.

use super::{Environment, Plan};
use crate::process_tag::ProcessTag;
use proctor_core::name::RunId;
use proctor_core::record_encoding::BootId;
use proctor_core::spec::Resource;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of `PATH` candidates: the report identifies one by a byte.
const MAX_CANDIDATES: usize = 255;

/// A plan in the form the child can use.
pub(super) struct PreparedPlan {
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
    pub(super) is_terminal: bool,
    pub(super) passed: Vec<RawFd>,
    pub(super) record: Option<(RawFd, libc::off_t, RunId)>,
    pub(super) cgroup: Option<RawFd>,
    pub(super) walks_in: bool,
    pub(super) tag: Option<libc::rlimit>,
    pub(super) boot: BootId,
    /// Signals that this process does not leave at their default.
    pub(super) signals: &'static [i32],
}

/// Zero-terminated strings in one allocation, which clones share.
#[derive(Debug, Clone, Default)]
pub struct Strings(Arc<Block>);

#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    /// Start of each string.
    begins: Vec<u32>,
}

impl Strings {
    /// Fails if a text contains a zero byte.
    pub fn new<'a>(texts: impl Iterator<Item = &'a str> + Clone) -> io::Result<Strings> {
        let length = texts.clone().map(|text| text.len() + 1).sum();
        let mut block = Block { bytes: Vec::with_capacity(length), begins: Vec::new() };
        block.begins.reserve_exact(texts.size_hint().0);
        for text in texts {
            if text.as_bytes().contains(&0) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "a string contains a zero byte",
                ));
            }
            let begin = u32::try_from(block.bytes.len()).map_err(io::Error::other)?;
            block.begins.push(begin);
            block.bytes.extend_from_slice(text.as_bytes());
            block.bytes.push(0);
        }
        Ok(Strings(Arc::new(block)))
    }

    /// Pointers to each string, valid while this or a clone of it lives.
    fn pointers(&self) -> impl Iterator<Item = *const libc::c_char> {
        let begins = self.0.begins.iter();
        begins.map(|begin| self.0.bytes[*begin as usize..].as_ptr().cast())
    }

    /// The rest of the first string with this prefix.
    fn find(&self, begin: &str) -> Option<&str> {
        let strings = self.0.begins.iter().map(|at| &self.0.bytes[*at as usize..]);
        let rest = strings.filter_map(|bytes| bytes.strip_prefix(begin.as_bytes())).next()?;
        std::str::from_utf8(rest.split(|byte| *byte == 0).next()?).ok()
    }
}

/// The null-terminated array of string pointers that exec takes. Arrays are reused: new ones for
/// each of a thousand children would leave as many holes in the heap.
pub(super) struct Pointers {
    _strings: [Strings; 2],
    pub(super) pointers: Vec<*const libc::c_char>,
}

impl Pointers {
    fn new(shared: &Strings, hidden: &[usize], own: &[String]) -> io::Result<Pointers> {
        let own = Strings::new(own.iter().map(String::as_str))?;
        let shown = shared.pointers().enumerate();
        let shown = shown.filter(|(index, _)| hidden.binary_search(index).is_err());
        let SpareArray(mut pointers) = spare().pop().unwrap_or_default();
        pointers.extend(shown.map(|(_, pointer)| pointer).chain(own.pointers()));
        pointers.push(ptr::null());
        Ok(Pointers { _strings: [shared.clone(), own], pointers })
    }
}

impl Drop for Pointers {
    fn drop(&mut self) {
        /// Maximum number of spare arrays; more are in use at once only if something is very slow.
        const KEPT: usize = 128;
        let mut spare = spare();
        if spare.len() < KEPT {
            self.pointers.clear();
            spare.push(SpareArray(std::mem::take(&mut self.pointers)));
        }
    }
}

/// An array without pointers.
#[derive(Default)]
struct SpareArray(Vec<*const libc::c_char>);

// SAFETY: it is empty, so nothing can be reached through it.
unsafe impl Send for SpareArray {}

fn spare() -> MutexGuard<'static, Vec<SpareArray>> {
    static SPARE: Mutex<Vec<SpareArray>> = Mutex::new(Vec::new());
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Frees the spare arrays.
pub(super) fn forget_spares() {
    *spare() = Vec::new();
}

impl PreparedPlan {
    pub(super) fn new(plan: &Plan<'_>, passed: &[OwnedFd]) -> io::Result<PreparedPlan> {
        let Environment { shared, hidden, own } = plan.environment;
        let program =
            plan.program().filter(|p| !p.is_empty()).ok_or(io::ErrorKind::InvalidInput)?;
        let limits = plan.limits.iter().map(|limit| {
            let value = |v: Option<u64>| v.map_or(libc::RLIM_INFINITY, |n| n as libc::rlim_t);
            let rlimit = libc::rlimit { rlim_cur: value(limit.soft), rlim_max: value(limit.hard) };
            (resource(limit.resource), rlimit)
        });
        Ok(PreparedPlan {
            candidates: candidates(program, &plan.environment)?,
            working_dir: CString::new(plan.working_dir)?,
            argv: Pointers::new(&Strings::default(), &[], plan.argv)?,
            environment: Pointers::new(shared, hidden, own)?,
            credentials: plan.credentials.map(|c| (c.uid, c.gid, c.groups.clone())),
            umask: plan.umask,
            limits: limits.collect(),
            nice: plan.nice,
            oom_score: plan.oom_score_adj.map(|n| CString::new(n.to_string())).transpose()?,
            stdio: plan.stdio,
            is_terminal: plan.is_terminal,
            passed: passed.iter().map(AsRawFd::as_raw_fd).collect(),
            record: plan
                .record
                .map(|record| (record.file.as_raw_fd(), record.offset as libc::off_t, record.run)),
            cgroup: plan.cgroup.map(|group| group.folder.as_raw_fd()),
            walks_in: plan.cgroup.is_some_and(|group| group.walks_in),
            tag: plan.tag.and_then(ProcessTag::limit),
            boot: plan.boot,
            signals: crate::signal::arranged(),
        })
    }
}

/// The paths that `execvp` would try, in order.
fn candidates(program: &str, environment: &Environment<'_>) -> io::Result<Vec<CString>> {
    if program.contains('/') {
        return Ok(vec![CString::new(program)?]);
    }
    let own = environment.own.iter().find_map(|entry| entry.strip_prefix("PATH="));
    // A hidden shared variable has an own one in its place.
    let path = own.or_else(|| environment.shared.find("PATH="));
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
