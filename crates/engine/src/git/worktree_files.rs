//! Reads and removes files of a work tree without git: some of its commands follow a link on the way to a file,
//! and would read or remove a file elsewhere. Everything here blocks.

use super::error::GitError;
use super::output_fields::Name;
use super::request_folder::real;
use proctor_core::home::Home;
use proctor_sys::beneath::{
    EntryPath, Folder, Id, Kind, LinkPolicy, PathError, RelativePath, Root,
};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Maximum size of a file that git reads as a whole: many times a handwritten one.
const MAX_INDEX_BYTES: u64 = 64 << 20;

/// A work tree. All paths are absolute and without links.
#[derive(Debug, Clone)]
pub(super) struct Checkout {
    pub(super) top: PathBuf,
    /// Proctor's own folders, which are never read.
    pub(super) own: Vec<PathBuf>,
}

impl Checkout {
    /// Opens a file for reading.
    pub(super) fn open(&self, path: &Name) -> Result<File, GitError> {
        let open = || self.place(&self.root()?, &rel(path)?)?.read();
        let (file, look) = open().map_err(refused(path))?;
        if look.size > MAX_INDEX_BYTES {
            let too_large = format!("'{}' is larger than {MAX_INDEX_BYTES} bytes", path.text());
            return Err(GitError::bad("path", too_large));
        }
        Ok(file)
    }

    /// The paths in the work tree that belong to Proctor: folders, and names if the top itself is its folder.
    pub(super) fn own_paths(&self) -> Result<Vec<Name>, GitError> {
        let mut paths = Vec::new();
        for below in self.own.iter().filter_map(|own| own.strip_prefix(&self.top).ok()) {
            match below.as_os_str().as_bytes() {
                b"" => paths.extend(self.kept()?),
                below => paths.push(below.into()),
            }
        }
        Ok(paths)
    }

    /// Proctor's names in the top folder.
    fn kept(&self) -> Result<Vec<Name>, GitError> {
        let failed = |error| GitError::Conflict(format!("{}: {error}", self.top.display()));
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.top).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if name.to_str().is_some_and(Home::keeps) {
                kept.push(Name::from(name.as_bytes()));
            }
        }
        Ok(kept)
    }

    /// Those of these paths that do not exist. A path through a link counts as missing: its target is another
    /// file.
    pub(super) fn absent(&self, paths: Vec<Name>) -> Result<Vec<Name>, GitError> {
        let root = self.root().map_err(|fault| GitError::Conflict(fault.to_string()))?;
        let is_absent = |path: &Name| match self.place(&root, &rel(path)?) {
            Err(fault) if leads_nowhere(&fault) => Ok(true),
            place => Ok(place?.look()?.is_none()),
        };
        let mut absent = Vec::new();
        for path in paths {
            if is_absent(&path).map_err(refused(&path))? {
                absent.push(path);
            }
        }
        Ok(absent)
    }

    /// Removes a file, and folders that become empty. If there is a link on the way, the file is already gone.
    pub(super) fn remove(&self, path: &Name) -> Result<(), GitError> {
        let remove = || -> Result<(), PathError> {
            let (root, mut rel) = (self.root()?, rel(path)?);
            let place = match self.place(&root, &rel) {
                Err(fault) if leads_nowhere(&fault) => return Ok(()),
                place => place?,
            };
            match place.look()?.map(|look| look.kind) {
                None | Some(Kind::Folder) => return Ok(()),
                Some(_) => place.remove()?,
            }
            while let Some(above) = rel.split().map(|(above, _)| above).filter(|it| !it.is_root()) {
                let place = root.place(&above, LinkPolicy::Refuse)?;
                if place.remove_folder().is_err() {
                    break;
                }
                rel = above;
            }
            Ok(())
        };
        remove().map_err(refused(path))
    }

    fn root(&self) -> Result<Root, PathError> {
        let root = Root::open(&self.top)?;
        // A folder above it may have become a link.
        if real(root.folder())? == self.top { Ok(root) } else { Err(PathError::Moved) }
    }

    fn place(&self, root: &Root, rel: &RelativePath) -> Result<EntryPath, PathError> {
        let place = root.place(rel, LinkPolicy::Refuse)?;
        let id = |path: &PathBuf| Some(Folder::open(path).ok()?.id());
        let own: Vec<Id> = self.own.iter().filter_map(id).collect();
        let top = root.folder().id();
        let first = rel.names().next().and_then(OsStr::to_str);
        let mut guarded = own.contains(&top) && first.is_some_and(Home::keeps);
        root.ascend(place.folder(), |folder| -> Result<(), PathError> {
            guarded |= folder.id() != top && own.contains(&folder.id());
            Ok(())
        })?;
        match guarded {
            true => {
                Err(PathError::Malformed("is one of Proctor's own files, which are never read"))
            }
            false => Ok(place),
        }
    }
}

fn rel(path: &Name) -> Result<RelativePath, PathError> {
    RelativePath::parse(OsStr::from_bytes(&path.0))
}

fn leads_nowhere(fault: &PathError) -> bool {
    let gone = [ErrorKind::NotFound, ErrorKind::NotADirectory];
    matches!(fault, PathError::Link) || gone.into_iter().any(|kind| fault.is(kind))
}

fn refused(path: &Name) -> impl Fn(PathError) -> GitError {
    let shown = path.text().into_owned();
    move |fault| match fault {
        fault if fault.is_missing() => GitError::Nothing(format!("'{shown}' in the work tree")),
        fault => GitError::bad("path", format!("'{shown}' {fault}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn name(path: &str) -> Name {
        Name(path.into())
    }

    fn read(tree: &Checkout, path: &str) -> Result<String, GitError> {
        Ok(std::io::read_to_string(tree.open(&name(path))?).unwrap())
    }

    /// A work tree, and a folder next to it.
    fn checkout() -> (tempfile::TempDir, Checkout) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        for inner in ["top/a/b", "top/own", "beside/b"] {
            fs::create_dir_all(path.join(inner)).unwrap();
            fs::write(path.join(inner).join("f"), inner).unwrap();
        }
        let own = vec![path.join("top/own"), path.join("gone")];
        (folder, Checkout { top: path.join("top"), own })
    }

    #[test]
    fn no_link_is_followed_and_nothing_of_proctor_s_own_is_read() {
        let (_folder, tree) = checkout();
        assert_eq!(read(&tree, "a/b/f").unwrap(), "top/a/b");
        symlink("../beside", tree.top.join("link")).unwrap();
        symlink("../beside/b/f", tree.top.join("file")).unwrap();
        for (path, why) in [
            ("link/b/f", "goes through a link"),
            ("file", "is or goes through a link"),
            ("own/f", "is one of Proctor's own files"),
            ("../beside/b/f", "leads out"),
            ("a/b", "is a folder"),
            (".", "is a folder"),
            ("a/b/g", "there is no"),
        ] {
            let error = tree.open(&name(path)).unwrap_err().to_string();
            assert!(error.contains(why), "{path}: {error}");
        }
        let large = fs::File::create(tree.top.join("large")).unwrap();
        large.set_len(MAX_INDEX_BYTES + 1).unwrap();
        assert!(tree.open(&name("large")).unwrap_err().to_string().contains("is larger"));
        fs::rename(&tree.top, tree.top.with_file_name("moved")).unwrap();
        symlink("moved", &tree.top).unwrap();
        assert!(tree.open(&name("a/b/f")).is_err(), "it is another by now");
    }

    #[test]
    fn what_is_proctor_s_own_is_known_by_its_paths() {
        let (_folder, mut tree) = checkout();
        assert_eq!(tree.own_paths().unwrap(), [name("own")]);
        for kept in ["token", "tokens", "logs"] {
            fs::write(tree.top.join(kept), "").unwrap();
        }
        let around = tree.top.parent().unwrap().to_owned();
        tree.own = vec![tree.top.clone(), tree.top.join("run"), around];
        let mut own = tree.own_paths().unwrap();
        own.sort();
        assert_eq!(own, ["logs", "run", "token"].map(name));
    }

    #[test]
    fn a_file_goes_with_its_empty_folders_and_never_through_a_link() {
        let (_folder, tree) = checkout();
        fs::write(tree.top.join("a/kept"), "k").unwrap();
        tree.remove(&name("a/b/f")).unwrap();
        assert!(!tree.top.join("a/b").exists() && tree.top.join("a/kept").exists());
        symlink("../../beside/b", tree.top.join("a/b")).unwrap();
        for gone in ["a/b/f", "a/kept/f", "x/y", "a/z", "a"] {
            tree.remove(&name(gone)).unwrap();
        }
        assert!(tree.remove(&name("own/f")).is_err() && tree.top.join("own/f").exists());
        tree.remove(&name("a/b")).unwrap();
        assert!(tree.top.join("a/b").symlink_metadata().is_err(), "the link itself");
        assert!(tree.top.with_file_name("beside").join("b/f").exists());
        tree.remove(&name("a/kept")).unwrap();
        assert!(!tree.top.join("a").exists() && tree.top.exists());
    }
}
