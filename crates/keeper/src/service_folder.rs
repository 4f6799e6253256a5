//! A folder named after a service. There are two for each of thousands of services (logs, cgroup),
//! so the path is built on demand: the parent path and the name are shared.

use proctor_core::name::ServiceName;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceFolder {
    above: Arc<Path>,
    name: ServiceName,
}

impl ServiceFolder {
    pub(crate) fn new(above: &Arc<Path>, name: &ServiceName) -> ServiceFolder {
        ServiceFolder { above: Arc::clone(above), name: name.clone() }
    }

    /// Parses a path that a keeper stored; `above` is its likely parent. Returns `None` if no
    /// keeper can have stored it.
    pub(crate) fn at(path: &Path, above: Option<&Arc<Path>>) -> Option<ServiceFolder> {
        let name = ServiceName::parse(path.file_name()?.to_str()?).ok()?;
        let parent = path.parent()?;
        let above = match above.filter(|above| ***above == *parent) {
            Some(above) => Arc::clone(above),
            None => parent.into(),
        };
        Some(ServiceFolder { above, name })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.above.join(self.name.as_str())
    }

    /// The path as text, to be stored or sent.
    pub(crate) fn text(&self) -> String {
        self.path().display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_comes_back_as_it_was_and_shares_what_is_above() {
        let above: Arc<Path> = Path::new("/sys/fs/cgroup/proctor-1").into();
        let name = ServiceName::parse("web@2").unwrap();
        let folder = ServiceFolder::new(&above, &name);
        assert_eq!(folder.path(), Path::new("/sys/fs/cgroup/proctor-1/web@2"));
        let again = ServiceFolder::at(&folder.path(), Some(&above)).unwrap();
        assert!(again == folder && Arc::ptr_eq(&again.above, &above));
        for above in [None, Some(&Arc::from(Path::new("/elsewhere")))] {
            assert_eq!(ServiceFolder::at(&folder.path(), above), Some(folder.clone()));
        }
        for path in ["", "/", "/a/..", "/a/no name"] {
            assert_eq!(ServiceFolder::at(Path::new(path), Some(&above)), None, "{path}");
        }
    }
}
