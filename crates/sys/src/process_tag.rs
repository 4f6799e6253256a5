//! A tag that every process of a tree inherits and that none loses by accident: the resource limit of file locks.
//!
//! `RLIMIT_LOCKS` has had no effect since Linux 2.4.25. Children inherit it, and it survives `exec`, `setsid`, a wiped
//! environment, closed descriptors and the death of parents. A process without privileges can lower it and never raise it again.
//! A tag is derived from the mark of the tree (`NAME=value`), so it needs no record of its own.
//!
//! Where a limit is in force already, nothing is tagged: a Proctor inside the tree of another one leaves the outer tag alone.

use proctor_core::hash::fnv1a;
use rustix::process::{Resource, getrlimit};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// In every tag: nobody configures a limit as large as this.
const HIGH_BIT: u64 = 1 << 61;

/// The value of the limit for one tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessTag(u64);

impl ProcessTag {
    /// The tag of all processes of the tree with this mark.
    pub fn of_mark(mark: &str) -> ProcessTag {
        ProcessTag(fnv1a(mark.as_bytes()) >> 3 | HIGH_BIT)
    }

    /// The tag of a living process; `None` if it has none or if it is gone.
    pub fn of_process(pid: u32) -> Option<ProcessTag> {
        let limit = limit_of(pid).or_else(|| read_limit(pid))?;
        (limit != libc::RLIM_INFINITY && limit & HIGH_BIT != 0).then_some(ProcessTag(limit))
    }

    /// The limit that carries the tag; `None` where another one is in force.
    pub(crate) fn limit(self) -> Option<libc::rlimit> {
        let is_free = getrlimit(Resource::Locks).maximum.is_none();
        is_free.then_some(libc::rlimit { rlim_cur: self.0, rlim_max: self.0 })
    }

    /// Tags the process that this command becomes. One that cannot be tagged is started all the same.
    pub fn put_on(self, command: &mut Command) {
        let Some(limit) = self.limit() else { return };
        let prepare = move || {
            // SAFETY: `limit` is valid.
            let _ = unsafe { libc::setrlimit(libc::RLIMIT_LOCKS, &limit) };
            Ok(())
        };
        // SAFETY: between fork and exec it makes one system call and allocates nothing.
        unsafe { command.pre_exec(prepare) };
    }
}

/// Asks the kernel directly, which answers for processes of our own user only, or for all if we may change limits.
fn limit_of(pid: u32) -> Option<u64> {
    let pid = libc::pid_t::try_from(pid).ok()?;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: nothing is changed, and `limit` has room for the answer.
    let result = unsafe { libc::prlimit(pid, libc::RLIMIT_LOCKS, std::ptr::null(), &mut limit) };
    (result == 0).then_some(limit.rlim_max)
}

/// Reads what everybody may read.
fn read_limit(pid: u32) -> Option<u64> {
    let mut room = [0; 4096];
    let path = format!("/proc/{pid}/limits");
    let text = crate::small_file::read_into(std::path::Path::new(&path), &mut room).ok()?;
    parse_limit(std::str::from_utf8(text).ok()?)
}

fn parse_limit(text: &str) -> Option<u64> {
    let fields = text.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
    match fields.split_ascii_whitespace().nth(1)? {
        "unlimited" => Some(libc::RLIM_INFINITY),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::Stdio;

    #[test]
    fn a_process_that_leaves_everything_behind_keeps_its_tag() {
        let tag = ProcessTag::of_mark("PROCTOR_TEST=1");
        assert_ne!(tag, ProcessTag::of_mark("PROCTOR_TEST=2"));
        let mut command = Command::new("env");
        command.args(["-i", "setsid", "sh", "-c", "echo $$; exec cat"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        tag.put_on(&mut command);
        let mut child = command.spawn().unwrap();
        let mut byte = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        let pid = child.id();
        let expected = getrlimit(Resource::Locks).maximum.is_none().then_some(tag);
        assert_eq!(ProcessTag::of_process(pid), expected);
        assert_eq!(read_limit(pid), limit_of(pid));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(ProcessTag::of_process(pid), None);
    }

    #[test]
    fn limits_are_read_as_the_kernel_writes_them() {
        let text =
            |hard| format!("Limit Soft Hard Units\nMax file locks            7   {hard}  locks\n");
        assert_eq!(parse_limit(&text("unlimited")), Some(libc::RLIM_INFINITY));
        assert_eq!(parse_limit(&text("2305843009213693953")), Some(HIGH_BIT + 1));
        assert_eq!(parse_limit("Max open files 1 2 files\n"), None);
    }
}
