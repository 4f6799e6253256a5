//! Which folders repositories may be in.
//!
//! For now there is one: the folder of the configuration in force. Everything else asks [`Roots::folder`] and nothing more, so
//! that declared roots can take its place.

use super::error::GitError;
use std::path::{Path, PathBuf};

/// A folder that somebody named, below a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folder {
    /// Without links.
    pub(crate) root: PathBuf,
    /// Without links; the root or below it.
    pub(crate) folder: PathBuf,
}

/// The folders that operations may touch.
#[derive(Debug, Clone)]
pub(crate) struct Roots {
    root: Option<PathBuf>,
}

impl Roots {
    /// The folder that a configuration file is in.
    pub(crate) fn beside(config: Option<&Path>) -> Roots {
        Roots { root: config.and_then(Path::parent).map(Path::to_owned) }
    }

    /// The folder that is meant, which is the root if none is named. Blocks.
    pub(crate) fn folder(&self, named: Option<&Path>) -> Result<Folder, GitError> {
        let root = self.root.as_deref().ok_or(GitError::NoRoot)?;
        let real = |path: &Path| {
            std::fs::canonicalize(path)
                .map_err(|error| GitError::bad("repo", format!("{}: {error}", path.display())))
        };
        let root = real(root)?;
        let folder = match named {
            Some(named) => real(&root.join(named))?,
            None => root.clone(),
        };
        if !folder.starts_with(&root) {
            return Err(GitError::Outside { path: folder, root });
        }
        if !folder.is_dir() {
            return Err(GitError::bad("repo", format!("{} is not a folder", folder.display())));
        }
        Ok(Folder { root, folder })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_folder_is_below_the_root_whatever_its_name_says() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (root, sibling) = (place.join("root"), place.join("root-beside"));
        for folder in [root.join("a/b"), sibling.clone()] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(root.join("file"), "").unwrap();
        symlink(&sibling, root.join("out")).unwrap();
        symlink("a", root.join("in")).unwrap();
        let roots = Roots::beside(Some(&root.join("proctor.yaml")));
        let check = |named: Option<&str>, expected: Option<&str>| {
            let found = roots.folder(named.map(Path::new)).ok().map(|folder| folder.folder);
            assert_eq!(found, expected.map(|path| root.join(path)), "{named:?}");
        };
        check(None, Some(""));
        check(Some("a/b"), Some("a/b"));
        check(Some("in/b/.."), Some("a"));
        check(Some(root.join("a").to_str().unwrap()), Some("a"));
        for outside in ["..", "out", "../root-beside", "file", "nothing", "/", "\0"] {
            check(Some(outside), None);
        }
        assert!(matches!(Roots::beside(None).folder(None), Err(GitError::NoRoot)));
    }
}
