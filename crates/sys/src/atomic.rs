//! Writes files that must survive a crash: to a temporary file that is synced and renamed; then the
//! folder is synced.
//!
//! A reader sees the old content or the new one, never a part, even after a power cut. A writer
//! that dies leaves its temporary file. The name contains the writing process, so the next start
//! can tell a leftover from a write in progress. The caller owns content and versions.
//!
//! A spare file beside it reserves room for the same size and a little more. On a full disk the
//! next content is written into the spare, and the two files are exchanged.

use crate::failpoint::{self, Point};
use crate::own_file;
use crate::small_file::{no_room, overwrite};
use rustix::fs::{CWD, FallocateFlags, RenameFlags, renameat_with};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Readable by the owner only: these files may hold environments, and environments hold secrets.
const MODE: u32 = 0o600;
const SUFFIX: &str = ".tmp";
/// Growth of a content that the spare allows on a full disk. A wish takes a few bytes; a block is
/// the smallest unit.
const GROWTH: u64 = 4096;

/// Writes `bytes` to `path`, completely or not at all.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = parent(path)?;
    let temporary = folder.join(temporary_name(path)?);
    let spare = spare(path)?;
    failpoint::step(Point::StoreBegin)?;
    let rename = || match fs::rename(&temporary, path) {
        // A folder does not belong to Proctor; it is renamed, not deleted.
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            own_file::set_aside(path)?;
            fs::rename(&temporary, path)
        }
        renamed => renamed,
    };
    match write_new(&temporary, bytes).and_then(|()| rename()) {
        // Without a spare, a full disk becomes an error later.
        Ok(()) => drop(keep_spare(&spare, bytes.len() as u64)),
        Err(error) => {
            // Best effort: the first error is reported, and the next start removes leftovers.
            fs::remove_file(&temporary).ok();
            if !no_room(&error) || write_into_spare(&spare, path, bytes).is_err() {
                return Err(error);
            }
        }
    }
    failpoint::step(Point::StoreRenamed)?;
    File::open(folder)?.sync_all()
}

/// Replaces a file that belongs to somebody else, completely or not at all. The file keeps its mode
/// and owner, and nothing is left beside it. A new file gets `mode`, less the umask.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let folder = parent(path)?;
    let temporary = folder.join(temporary_name(path)?);
    let old = match fs::metadata(path) {
        Ok(old) => Some(old),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let written = || {
        let mode = if old.is_some() { MODE } else { mode };
        let mut file = File::options().write(true).create_new(true).mode(mode).open(&temporary)?;
        file.write_all(bytes)?;
        if let Some(old) = &old {
            let new = file.metadata()?;
            if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
                fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
            // After the owner, because a change of owner clears mode bits.
            file.set_permissions(old.permissions())?;
        }
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    written().inspect_err(|_| {
        // Best effort: the first error is reported.
        fs::remove_file(&temporary).ok();
    })?;
    File::open(folder)?.sync_all()
}

/// Creates a new file at `path`, completely or not at all if this process dies. After a power cut
/// part of it may be missing, unless the caller synced the returned file.
pub fn note(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let temporary = parent(path)?.join(temporary_name(path)?);
    let placed = || {
        let mut file = File::options().write(true).create_new(true).mode(MODE).open(&temporary)?;
        file.write_all(bytes)?;
        fs::rename(&temporary, path)?;
        Ok(file)
    };
    // Best effort: the first error is reported.
    placed().inspect_err(|_| drop(fs::remove_file(&temporary)))
}

fn keep_spare(spare: &Path, size: u64) -> io::Result<()> {
    let file = own_file::or_set_aside(spare, own_file::modify_or_create)?;
    Ok(rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, size + GROWTH)?)
}

fn write_into_spare(spare: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    overwrite(spare, bytes)?.sync_all()?;
    exchange(spare, path)
}

/// Exchanges two files in one step, so that neither name is ever missing. Not every file system
/// supports it.
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

/// `.services.json.spare`
fn spare(path: &Path) -> io::Result<PathBuf> {
    Ok(path.with_file_name(format!(".{}.spare", name(path)?)))
}

/// Lists temporary files in `folder` whose writers are dead.
pub fn leftovers(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let abandoned = entry.file_name().to_str().and_then(writer_of).is_some_and(|w| !w.lives());
        if abandoned {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(MODE).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    failpoint::step(Point::StoreWritten)
}

fn parent(path: &Path) -> io::Result<&Path> {
    match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Ok(Path::new(".")),
        Some(folder) => Ok(folder),
        None => Err(io::Error::new(io::ErrorKind::InvalidInput, "is not the name of a file")),
    }
}

/// `.services.json.4711-998877-3.tmp`: hidden, the third file of process 4711, which started at
/// tick 998877.
fn temporary_name(path: &Path) -> io::Result<String> {
    Ok(format!(".{}.{}{SUFFIX}", name(path)?, mark()))
}

/// `4711-998877-3`: the third mark of process 4711, which started at tick 998877. Unique on this
/// machine.
pub fn mark() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Cached, because not every thread can open that file. A forked child has another pid.
    static BEGAN: OnceLock<(u32, u64)> = OnceLock::new();
    let pid = std::process::id();
    let read = || (pid, began(pid).unwrap_or(0));
    let (_, began) = Some(*BEGAN.get_or_init(read)).filter(|it| it.0 == pid).unwrap_or_else(read);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{pid}-{began}-{number}")
}

/// Whether this is the mark of a dead process.
pub fn is_abandoned(mark: &str) -> bool {
    marked_by(mark).is_some_and(|writer| !writer.lives())
}

fn name(path: &Path) -> io::Result<&str> {
    path.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "is not the name of a file in UTF-8")
    })
}

/// The process that wrote a temporary file, parsed from its name.
struct Writer {
    pid: u32,
    began: u64,
}

impl Writer {
    /// Whether the writer may still be writing. A process with the same pid and another start time
    /// is another process, and a zombie writes nothing. Our parent is a keeper: it may be a former
    /// daemon, which lost its writes when it became one.
    fn lives(&self) -> bool {
        let same = |stat: crate::proc::Stat| !stat.is_dead() && stat.start_ticks == self.began;
        self.pid != std::os::unix::process::parent_id()
            && crate::proc::stat(self.pid).is_some_and(same)
    }
}

fn writer_of(name: &str) -> Option<Writer> {
    let rest = name.strip_prefix('.')?.strip_suffix(SUFFIX)?;
    let (_, mark) = rest.rsplit_once('.')?;
    marked_by(mark)
}

fn marked_by(mark: &str) -> Option<Writer> {
    let mut parts = mark.split('-');
    let (pid, began, number) = (parts.next()?, parts.next()?, parts.next()?);
    number.parse::<u64>().ok()?;
    if parts.next().is_some() {
        return None;
    }
    Some(Writer { pid: pid.parse().ok()?, began: began.parse().ok()? })
}

/// Start time of an existing process.
fn began(pid: u32) -> Option<u64> {
    crate::proc::stat(pid).map(|stat| stat.start_ticks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_write_replaces_the_whole_content_and_leaves_only_its_spare_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("services.json");
        for content in ["a long first content", "short", ""] {
            write(&path, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(names(folder.path()), [".services.json.spare", "services.json"]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
    }

    #[test]
    fn a_failed_write_keeps_the_old_content_and_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(write(&folder.path().join("missing/file"), b"new").is_err());
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_folder_or_a_pipe_in_the_place_of_a_file_or_its_spare_is_moved_aside_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (path, spare) = (folder.path().join("own"), folder.path().join(".own.spare"));
        fs::create_dir_all(path.join("not-empty")).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(CWD, &spare, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(fs::symlink_metadata(&spare).unwrap().is_file());
        let aside: Vec<String> =
            names(folder.path()).into_iter().filter(|name| name.contains(".damaged-")).collect();
        assert_eq!(aside.len(), 2, "{aside:?}");
    }

    #[test]
    fn a_strangers_file_keeps_its_mode_and_gets_no_company() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        replace(&path, b"new", 0o600).unwrap();
        assert_eq!(mode(), 0o600);
        for kept in [0o640, 0o4777, 0o600] {
            fs::set_permissions(&path, fs::Permissions::from_mode(kept)).unwrap();
            replace(&path, format!("{kept}").as_bytes(), 0o644).unwrap();
            assert_eq!((mode(), fs::read_to_string(&path).unwrap()), (kept, kept.to_string()));
        }
        assert_eq!(names(folder.path()), ["settings.json"]);
    }

    #[test]
    fn a_note_is_whole_and_alone_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1");
        note(&path, b"content").unwrap().sync_all().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"content");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        assert!(note(&folder.path().join("missing/1"), b"content").is_err());
        fs::create_dir_all(folder.path().join("taken/not-empty")).unwrap();
        assert!(note(&folder.path().join("taken"), b"content").is_err());
        assert_eq!(names(folder.path()), ["1", "taken"]);
    }

    #[test]
    fn a_strangers_file_keeps_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        fs::write(&path, "old").unwrap();
        if !rustix::process::geteuid().is_root() {
            return;
        }
        std::os::unix::fs::chown(&path, Some(4711), Some(4712)).unwrap();
        replace(&path, b"new", 0o600).unwrap();
        let after = fs::metadata(&path).unwrap();
        assert_eq!((after.uid(), after.gid()), (4711, 4712));
    }

    #[test]
    fn a_strangers_file_is_as_it_was_when_replacing_failed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        fs::create_dir_all(path.join("not-empty")).unwrap();
        assert!(replace(&path, b"new", 0o600).is_err(), "a folder cannot be replaced by a file");
        assert!(replace(&folder.path().join("missing/file"), b"new", 0o600).is_err());
        assert_eq!(names(folder.path()), ["taken"]);
    }

    #[test]
    fn a_dead_writers_leftover_is_told_from_a_living_ones_and_from_strangers() {
        let folder = tempfile::tempdir().unwrap();
        let me = std::process::id();
        let mine = format!(".x.{me}-{}-0.tmp", began(me).unwrap());
        let reused = format!(".x.{me}-1-0.tmp");
        let dead = format!(".x.{}-5-0.tmp", u32::MAX);
        // A killed process that is not reaped writes nothing.
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let unreaped = child.id();
        let give_up = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !crate::proc::stat(unreaped).unwrap().is_dead() {
            assert!(std::time::Instant::now() < give_up, "it does not end");
            std::thread::yield_now();
        }
        let zombie = format!(".x.{unreaped}-{}-0.tmp", began(unreaped).unwrap());
        let parent = std::os::unix::process::parent_id();
        let keeper = format!(".x.{parent}-{}-0.tmp", began(parent).unwrap());
        let strangers = ["services.json", ".x.tmp", ".x.1-2.tmp", ".x.a-b-c.tmp", ".x.1-2-3-4.tmp"];
        for name in [mine.as_str(), &reused, &dead, &zombie, &keeper].into_iter().chain(strangers) {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let mut found = leftovers(folder.path()).unwrap();
        found.sort();
        let mut expected = [&reused, &dead, &zombie, &keeper].map(|name| folder.path().join(name));
        expected.sort();
        assert_eq!(found, expected);
        child.wait().unwrap();
    }
}
