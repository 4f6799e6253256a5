//! A Landlock sandbox for a program and everything it starts: it limits reading, writing, executing
//! and TCP. The kernel enforces it, whatever names and links change later.
//!
//! It is a second line of defence: if the kernel has no Landlock, callers run without it.

use rustix::fs::{FileType, Mode, OFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
/// Reading files and listing folders.
const READ: u64 = 0b11 << 2;
/// Removing and creating entries of every kind.
const REMOVE_AND_MAKE: u64 = 0b1_1111_1111 << 4;
/// Moving entries between folders.
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const CONNECT: u64 = 0b11;

/// Minimum Landlock version. Older ones forbid moves between folders, which programs that write
/// need.
const OLDEST: i32 = 2;
const HAS_TRUNCATE: i32 = 3;
const HAS_NETWORK: i32 = 4;

/// The permissions inside the sandbox.
#[derive(Debug, Clone, Copy)]
pub struct AllowedAccess<'a> {
    /// Folders below which everything may be written.
    pub writable: &'a [BorrowedFd<'a>],
    /// Additional readable paths; `None` allows everything.
    pub readable: Option<Readable<'a>>,
    /// Executable programs and folders of programs; `None` allows all.
    pub executable: Option<&'a [&'a Path]>,
    /// Whether TCP may be used.
    pub network: bool,
}

/// The readable paths of a program.
#[derive(Debug, Clone, Copy)]
pub struct Readable<'a> {
    /// Everything below these folders.
    pub folders: &'a [BorrowedFd<'a>],
    /// Files, and folders with everything below them. Unreachable ones are skipped and stay
    /// unreadable.
    pub named: &'a [PathBuf],
}

/// A sandbox ready to be applied.
#[derive(Debug, Clone)]
pub struct Ruleset {
    rules: Arc<OwnedFd>,
}

#[repr(C)]
struct RulesetAttr {
    files: u64,
    network: u64,
}

#[repr(C, packed)]
struct PathBeneathAttr {
    allowed: u64,
    parent: RawFd,
}

impl Ruleset {
    /// Returns `None` if the kernel has no Landlock.
    pub fn new(gates: &AllowedAccess<'_>) -> io::Result<Option<Ruleset>> {
        let version = version();
        if version < OLDEST {
            return Ok(None);
        }
        let truncate = if version >= HAS_TRUNCATE { TRUNCATE } else { 0 };
        let write = WRITE_FILE | REMOVE_AND_MAKE | REFER | truncate;
        let execute = if gates.executable.is_some() { EXECUTE } else { 0 };
        let read = if gates.readable.is_some() { READ } else { 0 };
        let network = if version >= HAS_NETWORK && !gates.network { CONNECT } else { 0 };
        let handled = RulesetAttr { files: write | execute | read, network };
        let fence = Ruleset { rules: Arc::new(create(&handled)?) };
        for folder in gates.writable {
            fence.permit(*folder, write | read)?;
        }
        fence.allow(Path::new("/dev/null"), write | read)?;
        if let Some(readable) = gates.readable {
            for folder in readable.folders {
                fence.permit(*folder, READ)?;
            }
            for opened in readable.named.iter().filter_map(|path| named(path).ok()) {
                fence.allow_opened(&opened, READ)?;
            }
        }
        for program in gates.executable.into_iter().flatten() {
            fence.allow(program, EXECUTE)?;
        }
        Ok(Some(fence))
    }

    /// For threads: these folders are readable, those also writable, and no other file can be
    /// opened. Returns `None` if the kernel has no Landlock.
    pub fn of_folders(
        readable: &[BorrowedFd<'_>],
        writable: &[BorrowedFd<'_>],
    ) -> io::Result<Option<Ruleset>> {
        let version = version();
        if version < OLDEST {
            return Ok(None);
        }
        let truncate = if version >= HAS_TRUNCATE { TRUNCATE } else { 0 };
        let write = WRITE_FILE | REMOVE_AND_MAKE | REFER | truncate;
        let network = if version >= HAS_NETWORK { CONNECT } else { 0 };
        let handled = RulesetAttr { files: READ | write | EXECUTE, network };
        let fence = Ruleset { rules: Arc::new(create(&handled)?) };
        for folder in readable {
            fence.permit(*folder, READ)?;
        }
        for folder in writable {
            fence.permit(*folder, READ | write)?;
        }
        // Fault injection reads this folder at every step.
        if let Some(folder) = crate::failpoint::folder() {
            fence.allow(folder, READ | write)?;
        }
        Ok(Some(fence))
    }

    /// Confines the calling thread and everything it starts. It cannot be undone.
    pub fn enter(&self) -> io::Result<()> {
        restrict(self.rules.as_fd())
    }

    /// Allows access below a folder, or to a single file.
    fn allow(&self, path: &Path, access: u64) -> io::Result<()> {
        self.allow_opened(&named(path)?, access)
    }

    fn allow_opened(&self, opened: &OwnedFd, access: u64) -> io::Result<()> {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(opened)?.st_mode);
        let of_a_file = EXECUTE | WRITE_FILE | TRUNCATE | READ_FILE;
        let allowed = if kind == FileType::Directory { access } else { access & of_a_file };
        self.permit(opened.as_fd(), allowed)
    }

    fn permit(&self, opened: BorrowedFd<'_>, allowed: u64) -> io::Result<()> {
        let rule = PathBeneathAttr { allowed, parent: opened.as_raw_fd() };
        // SAFETY: the rule outlives the call, and the kernel only reads it.
        let done = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.rules.as_raw_fd(),
                1,
                &raw const rule,
                0,
            )
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Confines a program that is about to be started.
    pub fn around(&self, command: &mut Command) {
        let rules = Arc::clone(&self.rules);
        let prepare = move || restrict(rules.as_fd());
        // SAFETY: between fork and exec it makes two system calls and allocates nothing.
        unsafe { command.pre_exec(prepare) };
    }
}

/// Opens a path as the target of a rule.
fn named(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Makes two system calls and nothing else, because it also runs between fork and exec.
fn restrict(rules: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: numbers only.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: two numbers, one of them a descriptor that is open.
    let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether the kernel has Landlock.
pub fn is_there() -> bool {
    version() >= OLDEST
}

/// The Landlock version of the kernel; 0 if it has none.
fn version() -> i32 {
    const VERSION: u32 = 1;
    let nothing = std::ptr::null::<RulesetAttr>();
    // SAFETY: with this flag the kernel reads nothing and returns a number.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0, VERSION) };
    i32::try_from(version).unwrap_or(0).max(0)
}

fn create(handled: &RulesetAttr) -> io::Result<OwnedFd> {
    let size = if handled.network == 0 { size_of::<u64>() } else { size_of::<RulesetAttr>() };
    // SAFETY: the structure outlives the call, and `size` does not exceed it.
    let made = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::from_ref(handled), size, 0)
    };
    match RawFd::try_from(made) {
        // SAFETY: the kernel just created it, and nobody else owns it.
        Ok(made @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(made) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    struct Place {
        folder: tempfile::TempDir,
        fence: Ruleset,
    }

    /// Everything that `sh` needs may be executed, but nothing in the folder; only `inside` may be
    /// written.
    fn place() -> Option<Place> {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("inside");
        std::fs::create_dir(&inside).unwrap();
        let programs: Vec<PathBuf> = ["/bin", "/usr/bin", "/lib", "/lib64", "/usr/lib"]
            .map(PathBuf::from)
            .into_iter()
            .filter(|path| path.exists())
            .collect();
        let programs: Vec<&Path> = programs.iter().map(PathBuf::as_path).collect();
        let inside = std::fs::File::open(inside).unwrap();
        let (writable, executable) = ([inside.as_fd()], Some(&*programs));
        let gates =
            AllowedAccess { writable: &writable, readable: None, executable, network: false };
        let fence = Ruleset::new(&gates).unwrap()?;
        Some(Place { folder, fence })
    }

    fn check(place: &Place, script: &str, succeeds: bool) {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).current_dir(place.folder.path());
        place.fence.around(&mut command);
        let output = command.output().unwrap();
        assert_eq!(output.status.success(), succeeds, "{script}: {output:?}");
    }

    #[test]
    fn only_what_is_inside_is_written_and_only_what_is_named_is_executed() {
        // A kernel without Landlock has nothing to test.
        let Some(place) = place() else { return };
        let tool = place.folder.path().join("inside/tool");
        std::fs::write(&tool, "#!/bin/sh\nexit 0\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&tool, mode).unwrap();
        std::fs::write(place.folder.path().join("outside"), "kept").unwrap();
        for script in [
            "echo x > inside/new && mkdir inside/a && mv inside/new inside/a/b && rm inside/a/b",
            "cat outside > /dev/null",
            "ln -s ../outside inside/link",
        ] {
            check(&place, script, true);
        }
        for script in [
            "echo x > outside",
            "echo x > new",
            "echo x > inside/link",
            "rm outside",
            "mv outside inside/",
            "ln outside inside/hard",
            "mkdir folder",
            "inside/tool",
            "sh -c 'exec inside/tool'",
        ] {
            check(&place, script, false);
        }
        assert_eq!(std::fs::read(place.folder.path().join("outside")).unwrap(), b"kept");
    }

    #[test]
    fn only_what_is_named_is_read_whatever_its_name_leads_to_by_then() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["inside", "written", "outside"] {
            std::fs::create_dir(path(name)).unwrap();
            std::fs::write(path(name).join("f"), name).unwrap();
        }
        std::fs::write(path("single"), "s").unwrap();
        std::os::unix::fs::symlink("loop", path("loop")).unwrap();
        let open = |name: &str| std::fs::File::open(path(name)).unwrap();
        let (inside, written) = (open("inside"), open("written"));
        let system = ["/bin", "/usr", "/lib", "/lib64", "/etc/ld.so.cache"].map(PathBuf::from);
        let named: Vec<PathBuf> =
            system.into_iter().chain(["single", "nothing", "single/x", "loop"].map(path)).collect();
        let gates = AllowedAccess {
            writable: &[written.as_fd()],
            readable: Some(Readable { folders: &[inside.as_fd()], named: &named }),
            executable: None,
            network: true,
        };
        let Some(fence) = Ruleset::new(&gates).unwrap() else { return };
        std::fs::rename(path("inside"), path("renamed")).unwrap();
        std::os::unix::fs::symlink("outside", path("inside")).unwrap();
        let place = Place { folder, fence };
        for script in ["cat renamed/f written/f single", "ls renamed", "echo x > written/new"] {
            check(&place, script, true);
        }
        for script in ["cat inside/f", "ls inside/", "cat outside/f", "ls", "echo x > renamed/new"]
        {
            check(&place, script, false);
        }
    }

    #[test]
    fn nothing_is_connected_to() {
        let Some(place) = place() else { return };
        if version() < HAS_NETWORK {
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
        let connect = |fenced: bool| {
            let mut command = Command::new("/bin/bash");
            command.args(["-c", &script]);
            if fenced {
                place.fence.around(&mut command);
            }
            command.output().map(|output| output.status.success())
        };
        // Not every machine has that shell.
        let Ok(free) = connect(false) else { return };
        assert!(free, "without a fence it connects");
        assert!(!connect(true).unwrap(), "it connected from inside");
    }

    #[test]
    fn a_thread_reaches_its_folders_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["read", "write", "other"] {
            std::fs::create_dir(path(name)).unwrap();
            std::fs::write(path(name).join("file"), name).unwrap();
        }
        let open = |name: &str| std::fs::File::open(path(name)).unwrap();
        let (read, write) = (open("read"), open("write"));
        let Some(fence) = Ruleset::of_folders(&[read.as_fd()], &[write.as_fd()]).unwrap() else {
            return;
        };
        let told = std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                fence.enter().unwrap();
                let reads =
                    ["read", "write", "other"].map(|name| std::fs::read(path(name).join("file")));
                let writes = ["read", "write", "other"]
                    .map(|name| std::fs::write(path(name).join("new"), "new"));
                let lists = std::fs::read_dir(path("other")).is_ok();
                (reads.map(|it| it.is_ok()), writes.map(|it| it.is_ok()), lists)
            });
            inside.join().unwrap()
        });
        assert_eq!(told, ([true, true, false], [false, true, false], false));
        assert!(std::fs::read(path("other/file")).is_ok(), "others are not inside");
    }
}
