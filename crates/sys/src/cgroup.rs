//! Control groups, used to find and kill a whole tree.
//!
//! There are three situations: a writable cgroup v2 hierarchy with controllers; v2 mounted beside
//! v1 (hybrid), which allows tracking and killing only; or none. Nothing here needs controllers.

use proctor_core::wire::Tracking;
use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Maximum depth. Proctor makes no deeper groups, and the kernel's own limit may be unlimited.
const DEPTH: u32 = 16;

/// The folder below which this Proctor creates cgroups.
#[derive(Debug, Clone)]
pub struct Hierarchy {
    root: PathBuf,
    tracking: Tracking,
}

/// Environment variable that turns cgroups off, for environments that need it and for tests without cgroups.
const NO_CGROUPS: &str = "PROCTOR_NO_CGROUPS";

impl Hierarchy {
    /// Finds the hierarchy and creates the group of the home with this label in it. Returns `None` if cgroups
    /// cannot be used here.
    pub fn find(label: &str) -> Option<Hierarchy> {
        if std::env::var_os(NO_CGROUPS).is_some() {
            return None;
        }
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let (mount, mounted_from) = mount_point(&mounts)?;
        let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let ours = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        let below = ours.strip_prefix(mounted_from.trim_end_matches('/')).unwrap_or(ours);
        // A service may itself run a Proctor, whose groups are then below the service's group.
        let parent = mount.join(below.trim_start_matches('/'));
        let root = parent.join(format!("proctor-{label}"));
        match std::fs::create_dir(&root) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => return None,
        }
        let tracking = match std::fs::read_to_string(mount.join("cgroup.controllers")) {
            // Beside v1, v2 has few controllers; a full v2 hierarchy has the memory controller.
            Ok(text) if text.split_whitespace().any(|controller| controller == "memory") => {
                Tracking::CgroupV2
            }
            _ => Tracking::CgroupHybrid,
        };
        let usable = root.join("cgroup.procs").exists() && root.join("cgroup.events").exists();
        usable.then_some(Hierarchy { root, tracking })
    }

    /// Whether processes must move themselves into their groups, because a process forked directly into
    /// one is killed. Forks to find out.
    pub fn must_walk_in(&self) -> bool {
        open(&self.root).is_ok_and(|folder| !crate::spawn::can_be_born_in(&folder))
    }

    pub fn tracking(&self) -> Tracking {
        self.tracking
    }

    /// The folder of the services' groups.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a service's group, which may not exist.
    pub fn group(&self, service: &str) -> PathBuf {
        self.root.join(service)
    }

    /// The folder of a command's group, whether or not it exists. No service name starts with `+`.
    pub fn command_group(&self, mark: &str) -> PathBuf {
        self.root.join(format!("+{mark}"))
    }

    /// Removes our own group and the empty groups in it, if no process is left in them.
    pub fn remove(&self) {
        remove(&self.root);
    }
}

/// The mount point of cgroup v2, and the part of the hierarchy that is mounted there.
fn mount_point(mountinfo: &str) -> Option<(PathBuf, String)> {
    mountinfo.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        after.starts_with("cgroup2 ").then_some(())?;
        let mut fields = before.split(' ');
        let from = fields.nth(3)?;
        Some((PathBuf::from(fields.next()?), from.to_owned()))
    })
}

/// Opens a group's folder to start a process in it; creates it if needed.
pub fn open_or_make(folder: &Path) -> io::Result<OwnedFd> {
    match open(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir(folder)?;
            open(folder)
        }
        opened => opened,
    }
}

/// Makes a group, and opens what a process writes itself into to enter it.
pub fn make_to_enter(folder: &Path) -> io::Result<OwnedFd> {
    std::fs::create_dir(folder)?;
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder.join("cgroup.procs"), flags, Mode::empty())?)
}

fn open(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::empty())?)
}

/// Whether any live process is in the group or below it. `None` if the group cannot be read (for
/// example, deleted).
pub fn populated(folder: &Path) -> Option<bool> {
    let mut room = [0; 256];
    let text = crate::small_file::read_into(&folder.join("cgroup.events"), &mut room).ok()?;
    Some(text.split(|byte| *byte == b'\n').any(|line| line == b"populated 1"))
}

/// All processes in the group and below it, including zombies.
pub fn members(folder: &Path) -> Vec<u32> {
    let mut found = Vec::new();
    collect(folder, DEPTH, &mut found);
    found
}

fn collect(folder: &Path, depth: u32, found: &mut Vec<u32>) {
    if let Ok(text) = std::fs::read_to_string(folder.join("cgroup.procs")) {
        found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
    }
    if depth == 0 {
        return;
    }
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
        collect(&entry.path(), depth - 1, found);
    }
}

/// Kills every process in the group and below it atomically. Returns false if the kernel does not
/// support it (before Linux 5.14).
pub fn kill(folder: &Path) -> bool {
    std::fs::write(folder.join("cgroup.kill"), "1").is_ok()
}

/// Number of processes in this group that the OOM killer killed; `None` without a memory
/// controller.
pub fn oom_kills(folder: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(folder.join("memory.events")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

/// Removes an empty group and its empty subgroups.
pub fn remove(folder: &Path) {
    remove_below(folder, DEPTH);
}

fn remove_below(folder: &Path, depth: u32) {
    if let (Ok(entries), true) = (std::fs::read_dir(folder), depth > 0) {
        for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
            remove_below(&entry.path(), depth - 1);
        }
    }
    let _ = std::fs::remove_dir(folder);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_v2_mount_is_found_in_every_layout() {
        let pure = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        let hybrid = "31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      40 30 0:36 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
        let inner = "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup ro";
        let only_v1 = "31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu";
        let place = |text| mount_point(text).map(|(path, from)| (path.display().to_string(), from));
        assert_eq!(place(pure), Some(("/sys/fs/cgroup".into(), "/".into())));
        assert_eq!(place(hybrid), Some(("/sys/fs/cgroup/unified".into(), "/".into())));
        assert_eq!(place(inner), Some(("/sys/fs/cgroup".into(), "/docker/abc".into())));
        assert_eq!(place(only_v1), None);
    }
}
