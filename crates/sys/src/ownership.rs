//! Determines who can change a file: its owner, its group, everybody, and those who can replace a
//! folder on its path.
//!
//! A file that we act on must belong to us or root, like every folder on its path. Otherwise
//! somebody else decides what we run. Access control lists count only as far as they show in the
//! mode of a file.

use crate::{own_file, small_file, user};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// A file or folder that another user can change, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} {why}", path = .path.display())]
pub struct ForeignWriter {
    pub path: PathBuf,
    /// `belongs to user mallory (uid 1001)`
    pub why: String,
}

/// The users whose files we trust as our own.
#[derive(Debug, Clone)]
pub struct Owners {
    /// Our own uid, root, and the user who called `sudo`.
    uids: Vec<u32>,
}

impl Owners {
    /// We, root, and the user who became root with `sudo`.
    pub fn ours() -> Owners {
        let (own, _) = user::effective();
        let sudo: Option<u32> = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
        let mut uids = vec![own, 0];
        uids.extend(sudo.filter(|_| own == 0));
        Owners { uids }
    }

    /// Returns true if we trust files of this user.
    pub fn include(&self, uid: u32) -> bool {
        self.uids.contains(&uid)
    }

    /// Checks an open file: the descriptor, the path that led to it, and its real path. Folders in
    /// `trusted` (absolute, without links) and everything below them pass unchecked.
    pub fn check_file(
        &self,
        path: &Path,
        file: &File,
        trusted: &[PathBuf],
    ) -> io::Result<OwnershipCheck> {
        let real = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let is_trusted = |path: &Path| trusted.iter().any(|folder| path.starts_with(folder));
        if !is_trusted(&real) {
            if let Some(why) = self.objection(&file.metadata()?) {
                return Ok(Err(ForeignWriter { path: real, why }));
            }
            if let Err(foreign) = self.check_way(real.parent().unwrap_or(&real))? {
                return Ok(Err(foreign));
            }
        }
        let folder = path.parent().unwrap_or(path);
        if real == path || is_trusted(&folder.canonicalize()?) {
            return Ok(Ok(()));
        }
        self.check_way(path)
    }

    /// Checks a folder and those above it. A missing folder passes, because we create it.
    pub fn check_folder(&self, path: &Path, trusted: &[PathBuf]) -> io::Result<OwnershipCheck> {
        let path = std::path::absolute(path)?;
        let exists = path.ancestors().find(|folder| folder.symlink_metadata().is_ok());
        let Some(folder) = exists else { return Ok(Ok(())) };
        let real = folder.canonicalize()?;
        if trusted.iter().any(|trusted| real.starts_with(trusted)) {
            return Ok(Ok(()));
        }
        match self.check_way(&real)? {
            Ok(()) if real != folder => self.check_way(folder),
            checked => Ok(checked),
        }
    }

    /// Checks every name on the path. Links are checked themselves, because their owners choose the
    /// target.
    fn check_way(&self, path: &Path) -> io::Result<OwnershipCheck> {
        for name in path.ancestors() {
            let found = name.symlink_metadata()?;
            if let Some(why) = self.objection(&found) {
                return Ok(Err(ForeignWriter { path: name.to_owned(), why }));
            }
        }
        Ok(Ok(()))
    }

    /// The reason another user can change this.
    fn objection(&self, found: &Metadata) -> Option<String> {
        if !self.include(found.uid()) {
            return Some(format!("belongs to {}", user::shown_user(found.uid())));
        }
        // In a folder with the sticky bit others can create files but not replace ours.
        if found.is_symlink() || (found.is_dir() && found.mode() & STICKY != 0) {
            return None;
        }
        let mode = found.mode() & 0o7777;
        if mode & OTHERS_WRITE != 0 {
            return Some(format!("can be written by everybody (mode {mode:04o})"));
        }
        let private = || self.uids.iter().any(|uid| user::is_private_group(found.gid(), *uid));
        if mode & GROUP_WRITES != 0 && !private() {
            let group = user::shown_group(found.gid());
            return Some(format!("can be written by {group} (mode {mode:04o})"));
        }
        None
    }
}

/// The folders in `PROCTOR_TRUST`, without links. Missing folders are ignored.
pub fn named_folders() -> Vec<PathBuf> {
    let named = std::env::var_os("PROCTOR_TRUST").unwrap_or_default();
    let absolute = std::env::split_paths(&named).filter(|folder| folder.is_absolute());
    absolute.filter_map(|folder| folder.canonicalize().ok()).collect()
}

/// Reads the list of trusted folders, one path a line. A list that another user can change is an
/// error, because it would disable the checks. Returns `NotFound` if there is none.
pub fn read_list(list: &Path, named: &[PathBuf]) -> io::Result<String> {
    /// Maximum size of the list.
    const MAX_LIST: u64 = 1 << 20;
    let opened = own_file::read(list)?;
    if let Err(foreign) = Owners::ours().check_file(&std::path::absolute(list)?, &opened, named)? {
        let remedy = "its entries are ignored; remove the file, and trust each folder again";
        let message = format!("{foreign}, so {remedy}");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    let text = small_file::read_opened(opened, MAX_LIST)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The result of a check: safe, or an object that another user can change.
pub type OwnershipCheck = Result<(), ForeignWriter>;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn owners(uids: &[u32]) -> Owners {
        Owners { uids: uids.to_vec() }
    }

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn check(owners: &Owners, path: &Path, trusted: &[PathBuf]) -> Option<String> {
        let file = File::open(path).unwrap();
        owners.check_file(path, &file, trusted).unwrap().err().map(|foreign| foreign.to_string())
    }

    #[test]
    fn files_of_others_are_known_by_owner_mode_folder_and_link() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let scene = tempfile::tempdir().unwrap();
        let folder = scene.path().join("folder");
        std::fs::create_dir(&folder).unwrap();
        let (file, link) = (folder.join("file"), folder.join("link"));
        std::fs::write(&file, "").unwrap();
        let root = owners(&[0]);
        let refused = |path: &Path, reason: &str| {
            let why = check(&root, path, &[]).unwrap_or_else(|| panic!("{reason} was accepted"));
            assert!(why.contains(reason), "{why}");
            assert_eq!(check(&root, path, &[scene.path().canonicalize().unwrap()]), None);
        };
        mode(&folder, 0o755);
        assert_eq!(check(&root, &file, &[]), None);
        for (bits, reason) in [(0o646, "everybody"), (0o602, "mode 0602")] {
            mode(&file, bits);
            refused(&file, reason);
        }
        // The group of root is private to root; the group of another user is not.
        mode(&file, 0o664);
        assert_eq!(check(&root, &file, &[]), None);
        chown(&file, None, Some(54_321)).unwrap();
        mode(&file, 0o664);
        refused(&file, "group 54321");
        mode(&file, 0o644);
        assert_eq!(check(&root, &file, &[]), None);
        chown(&file, Some(54_321), None).unwrap();
        refused(&file, "belongs to user 54321");
        assert_eq!(check(&owners(&[54_321, 0]), &file, &[]), None);
        chown(&file, Some(0), None).unwrap();
        mode(&folder, 0o777);
        refused(&file, "everybody");
        mode(&folder, 0o1777);
        assert_eq!(check(&root, &file, &[]), None);
        // A link of another user to our file, in a folder where anybody may create one.
        symlink("file", &link).unwrap();
        assert_eq!(check(&root, &link, &[]), None);
        std::os::unix::fs::lchown(&link, Some(54_321), None).unwrap();
        refused(&link, "link belongs to user 54321");
        chown(&folder, Some(54_321), None).unwrap();
        refused(&file, "folder belongs to user 54321");
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused_and_a_missing_one_is_not() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let scene = tempfile::tempdir().unwrap();
        let root = owners(&[0]);
        let check = |path: &Path| root.check_folder(path, &[]).unwrap();
        assert_eq!(check(&scene.path().join("a/b/c")), Ok(()));
        chown(scene.path(), Some(54_321), None).unwrap();
        for path in [scene.path().to_owned(), scene.path().join("a/b/c")] {
            assert!(check(&path).unwrap_err().why.contains("54321"));
            let trusted = scene.path().canonicalize().unwrap();
            assert_eq!(root.check_folder(&path, &[trusted]).unwrap(), Ok(()));
        }
    }
}
