//! Checks whether a point is armed, and acts on it. Uses only system calls and the stack, because a
//! child between fork and exec calls it too.

use super::Point;
use rustix::fs::{Access, Mode, OFlags};
use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::time::Duration;

/// Variable with the folder of the armed points.
const VARIABLE: &str = "PROCTOR_FAILPOINTS";

/// Maximum length of a path; it is built on the stack.
const MAX_PATH_BYTES: usize = 512;

/// Maximum length of the content: `abort 4294967295` and a line end.
const CONTENT: usize = 32;

/// Interval between two checks of a held point.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The action of an armed point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Kill,
    Abort,
    Error,
    Hold,
}

pub(super) fn pass(point: Point) -> io::Result<()> {
    let Some(folder) = folder() else { return Ok(()) };
    let mut buffer = [0; MAX_PATH_BYTES];
    let armed = path(&mut buffer, folder, &[point.name()])?;
    let Ok(file) = rustix::fs::open(armed, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) else {
        return Ok(());
    };
    let mut content = [0; CONTENT];
    let length = rustix::io::pread(&file, &mut content, 0)?;
    match parse(&content[..length]) {
        Some((action, 1)) => match claim(point, folder, armed) {
            Some(()) => act(action, point, folder),
            None => Ok(()),
        },
        Some((_, left)) => count(&file, &content[..length], left - 1),
        // The file is being written.
        None => Ok(()),
    }
}

/// Cached by a process that may allocate: the parent passes a point before it forks.
pub(super) fn folder() -> Option<&'static [u8]> {
    static FOLDER: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let found = FOLDER.get_or_init(|| Some(std::env::var_os(VARIABLE)?.as_bytes().to_vec()));
    found.as_deref()
}

fn path<'a>(buffer: &'a mut [u8], folder: &[u8], name: &[&str]) -> io::Result<&'a CStr> {
    let parts = [folder, b"/"].into_iter().chain(name.iter().map(|part| part.as_bytes()));
    let mut at = 0;
    for part in parts.chain([&b"\0"[..]]) {
        let place = buffer.get_mut(at..at + part.len()).ok_or(io::ErrorKind::InvalidFilename)?;
        place.copy_from_slice(part);
        at += part.len();
    }
    CStr::from_bytes_until_nul(buffer).map_err(|_| io::ErrorKind::InvalidFilename.into())
}

/// `action count`
fn parse(content: &[u8]) -> Option<(Action, u32)> {
    let mut words = std::str::from_utf8(content).ok()?.split_ascii_whitespace();
    let action = match words.next()? {
        "kill" => Action::Kill,
        "abort" => Action::Abort,
        "error" => Action::Error,
        "hold" => Action::Hold,
        _ => return None,
    };
    Some((action, words.next()?.parse().ok().filter(|count| *count > 0)?))
}

/// Overwrites the count with the remaining one, which is never longer.
fn count(file: &OwnedFd, old: &[u8], mut left: u32) -> io::Result<()> {
    let mut content = [b'\n'; CONTENT];
    let begin = old.iter().position(|byte| *byte == b' ').unwrap_or(0) + 1;
    content[..begin].copy_from_slice(&old[..begin]);
    let digits = left.checked_ilog10().unwrap_or(0) as usize + 1;
    for place in content[begin..begin + digits].iter_mut().rev() {
        *place = b'0' + (left % 10) as u8;
        left /= 10;
    }
    rustix::io::pwrite(file, &content[..old.len().max(begin + digits)], 0)?;
    Ok(())
}

/// Claims the point, so that only one process acts on it.
fn claim(point: Point, folder: &[u8], armed: &CStr) -> Option<()> {
    let mut buffer = [0; MAX_PATH_BYTES];
    let hit = path(&mut buffer, folder, &[point.name(), ".hit"]).ok()?;
    rustix::fs::rename(armed, hit).ok()
}

fn act(action: Action, point: Point, folder: &[u8]) -> io::Result<()> {
    match action {
        Action::Hold => {
            let mut buffer = [0; MAX_PATH_BYTES];
            let hit = path(&mut buffer, folder, &[point.name(), ".hit"])?;
            while rustix::fs::access(hit, Access::EXISTS).is_ok() {
                std::thread::sleep(LOOK_AGAIN);
            }
            Ok(())
        }
        Action::Error => Err(rustix::io::Errno::IO.into()),
        Action::Abort => std::process::abort(),
        Action::Kill => {
            rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            )?;
            // Not reached: a process that kills itself ends before the call returns.
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: &str, expected: Option<(Action, u32)>) {
        assert_eq!(parse(content.as_bytes()), expected, "{content:?}");
    }

    #[test]
    fn an_armed_point_says_what_happens_and_when() {
        check("kill 1", Some((Action::Kill, 1)));
        check("abort 12\n", Some((Action::Abort, 12)));
        check("error 3\n\n\n", Some((Action::Error, 3)));
        check("hold 2", Some((Action::Hold, 2)));
        for wrong in ["", "kill", "kill 0", "kill -1", "burn 1", "kill x"] {
            check(wrong, None);
        }
    }

    #[test]
    fn passes_are_counted_down_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("point");
        std::fs::write(&path, "error 11").unwrap();
        for left in (1..11).rev() {
            let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
            let old = std::fs::read(&path).unwrap();
            count(&OwnedFd::from(file), &old, left).unwrap();
            assert_eq!(parse(&std::fs::read(&path).unwrap()), Some((Action::Error, left)));
        }
    }

    #[test]
    fn names_are_files_and_differ() {
        let mut names: Vec<&str> = Point::ALL.iter().map(|point| point.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Point::ALL.len());
        let plain = |name: &&str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'.');
        assert!(names.iter().all(plain), "{names:?}");
    }

    #[test]
    fn a_path_that_is_too_long_is_refused() {
        let mut buffer = [0; 8];
        assert_eq!(path(&mut buffer, b"/ab", &["cd", "e"]).unwrap(), c"/ab/cde");
        assert!(path(&mut buffer, b"/ab", &["cd", "ef"]).is_err());
    }
}
