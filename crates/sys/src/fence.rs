//! A fence around a program (Landlock): what it may read, write and execute, and whether it may connect to anything. All that
//! it starts is inside, too. The kernel holds it, whatever names and links say by then.
//!
//! A second wall: where the kernel has none, whoever asks for one does without.

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
/// Files and lists of files.
const READ: u64 = 0b11 << 2;
/// Removing and making of every kind.
const REMOVE_AND_MAKE: u64 = 0b1_1111_1111 << 4;
/// From one folder into another.
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const CONNECT: u64 = 0b11;

/// Before this version nothing can be moved between folders inside of a fence, and programs that write need that.
const OLDEST: i32 = 2;
const HAS_TRUNCATE: i32 = 3;
const HAS_NETWORK: i32 = 4;

/// What is allowed inside.
#[derive(Debug, Clone, Copy)]
pub struct Gates<'a> {
    /// Folders below which everything may be written.
    pub writable: &'a [BorrowedFd<'a>],
    /// What may be read beside them; `None`: everything.
    pub readable: Option<Readable<'a>>,
    /// Programs, and folders of programs; `None`: all.
    pub executable: Option<&'a [&'a Path]>,
    /// TCP may be used.
    pub network: bool,
}

/// What a program reads.
#[derive(Debug, Clone, Copy)]
pub struct Readable<'a> {
    /// Everything below them.
    pub folders: &'a [BorrowedFd<'a>],
    /// Files, and folders of which all may be read. One that cannot be reached is left out, and not read.
    pub named: &'a [PathBuf],
}

/// A fence that is ready to be put around programs.
#[derive(Debug, Clone)]
pub struct Fence {
    rules: Arc<OwnedFd>,
}

#[repr(C)]
struct Handled {
    files: u64,
    network: u64,
}

#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    parent: RawFd,
}

impl Fence {
    /// `None` where the kernel has no such thing.
    pub fn new(gates: &Gates<'_>) -> io::Result<Option<Fence>> {
        let version = version();
        if version < OLDEST {
            return Ok(None);
        }
        let truncate = if version >= HAS_TRUNCATE { TRUNCATE } else { 0 };
        let write = WRITE_FILE | REMOVE_AND_MAKE | REFER | truncate;
        let execute = if gates.executable.is_some() { EXECUTE } else { 0 };
        let read = if gates.readable.is_some() { READ } else { 0 };
        let network = if version >= HAS_NETWORK && !gates.network { CONNECT } else { 0 };
        let handled = Handled { files: write | execute | read, network };
        let fence = Fence { rules: Arc::new(create(&handled)?) };
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

    /// For threads: these folders are read, those also written, and no other file is opened. `None` where the kernel has no
    /// such thing.
    pub fn of_folders(
        readable: &[BorrowedFd<'_>],
        writable: &[BorrowedFd<'_>],
    ) -> io::Result<Option<Fence>> {
        let version = version();
        if version < OLDEST {
            return Ok(None);
        }
        let truncate = if version >= HAS_TRUNCATE { TRUNCATE } else { 0 };
        let write = WRITE_FILE | REMOVE_AND_MAKE | REFER | truncate;
        let network = if version >= HAS_NETWORK { CONNECT } else { 0 };
        let handled = Handled { files: READ | write | EXECUTE, network };
        let fence = Fence { rules: Arc::new(create(&handled)?) };
        for folder in readable {
            fence.permit(*folder, READ)?;
        }
        for folder in writable {
            fence.permit(*folder, READ | write)?;
        }
        // A campaign of faults looks there at every step.
        if let Some(folder) = crate::failpoint::folder() {
            fence.allow(folder, READ | write)?;
        }
        Ok(Some(fence))
    }

    /// The thread that calls this is inside from now on, and all that it starts. There is no way back.
    pub fn enter(&self) -> io::Result<()> {
        restrict(self.rules.as_fd())
    }

    /// Below a folder, or of a single file.
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
        let rule = Beneath { allowed, parent: opened.as_raw_fd() };
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

    /// Put it around a program that is about to be started.
    pub fn around(&self, command: &mut Command) {
        let rules = Arc::clone(&self.rules);
        let prepare = move || restrict(rules.as_fd());
        // SAFETY: between fork and exec it makes two system calls and allocates nothing.
        unsafe { command.pre_exec(prepare) };
    }
}

/// What is at a path.
fn named(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Two system calls and nothing else: it is also called between fork and exec.
fn restrict(rules: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: numbers only.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: two numbers, one of them a descriptor that is open.
    let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the kernel such a thing?
pub fn is_there() -> bool {
    version() >= OLDEST
}

/// Of what the kernel has; 0 for nothing.
fn version() -> i32 {
    const VERSION: u32 = 1;
    let nothing = std::ptr::null::<Handled>();
    // SAFETY: with this flag the kernel reads nothing and answers with a number.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0, VERSION) };
    i32::try_from(version).unwrap_or(0).max(0)
}

fn create(handled: &Handled) -> io::Result<OwnedFd> {
    let size = if handled.network == 0 { size_of::<u64>() } else { size_of::<Handled>() };
    // SAFETY: the structure outlives the call, and `size` is no larger than it.
    let made = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::from_ref(handled), size, 0)
    };
    match RawFd::try_from(made) {
        // SAFETY: the kernel just made it, and nobody else has it.
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
        fence: Fence,
    }

    /// Everything that `sh` needs may be executed, but nothing in the folder; only `inside` may be written.
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
        let gates = Gates { writable: &writable, readable: None, executable, network: false };
        let fence = Fence::new(&gates).unwrap()?;
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
        // On a kernel without it there is nothing to look at, and nothing is promised.
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
        let gates = Gates {
            writable: &[written.as_fd()],
            readable: Some(Readable { folders: &[inside.as_fd()], named: &named }),
            executable: None,
            network: true,
        };
        let Some(fence) = Fence::new(&gates).unwrap() else { return };
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
        let Some(fence) = Fence::of_folders(&[read.as_fd()], &[write.as_fd()]).unwrap() else {
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
