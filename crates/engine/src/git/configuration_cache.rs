//! Cache of the listed configuration of a repository, valid while none of its files changes.
//!
//! It is needed before every call, and a process for it would double the cost of reading a repository. A
//! configuration with includes is never cached: included files may come and go unnoticed.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum number of cached repositories: more than anybody works on.
const MAX_NAMES: usize = 64;

/// A file that changed more recently than this may change again without looking different.
const SETTLED: Duration = Duration::from_secs(2);

/// The identity and times of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileStamps(Vec<Option<[i64; 5]>>);

pub(super) type Key = (PathBuf, bool);

type CachedConfiguration = (FileStamps, Arc<[u8]>);

#[derive(Default)]
pub(super) struct ConfigurationCache {
    /// By git directory, and whether the owner trusts it: then more files count.
    known: Mutex<HashMap<Key, CachedConfiguration>>,
}

impl FileStamps {
    /// The state of these files now; `None` if one changed recently. Blocks.
    pub(super) fn at(files: &[PathBuf]) -> Option<FileStamps> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
        let settled = i64::try_from(now.checked_sub(SETTLED.as_secs())?).ok()?;
        let mut looks = Vec::with_capacity(files.len());
        for file in files {
            let look = match fs::metadata(file) {
                Ok(found) if found.ctime() >= settled => return None,
                Ok(found) => Some([
                    found.ino().cast_signed() ^ found.dev().cast_signed().rotate_left(32),
                    found.size().cast_signed(),
                    found.mtime() ^ found.mtime_nsec().rotate_left(32),
                    found.ctime(),
                    found.ctime_nsec(),
                ]),
                Err(_) => None,
            };
            looks.push(look);
        }
        Some(FileStamps(looks))
    }
}

impl ConfigurationCache {
    /// The cached configuration of this repository, if its files are unchanged.
    pub(super) fn get(&self, key: &Key, look: &FileStamps) -> Option<Arc<[u8]>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, names) = known.get(key)?;
        (before == look).then(|| Arc::clone(names))
    }

    /// Caches a configuration that was read after the files were examined.
    pub(super) fn put(&self, key: Key, look: FileStamps, names: &Arc<[u8]>) {
        if names.split(|byte| *byte == 0).any(includes) {
            return;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_NAMES && !known.contains_key(&key) {
            known.clear();
        }
        known.insert(key, (look, Arc::clone(names)));
    }
}

fn includes(name: &[u8]) -> bool {
    name.starts_with(b"include.") || name.starts_with(b"includeif.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Arc<[u8]> {
        text.replace(' ', "\0").into_bytes().into()
    }

    #[test]
    fn names_are_remembered_while_nothing_looks_different() {
        let folder = tempfile::tempdir().unwrap();
        let (file, gone) = (folder.path().join("config"), folder.path().join("gone"));
        fs::write(&file, "x").unwrap();
        assert_eq!(FileStamps::at(std::slice::from_ref(&file)), None, "it was changed just now");
        let files = [PathBuf::from("/etc/passwd"), gone.clone()];
        let look = FileStamps::at(&files).unwrap();
        assert_eq!(FileStamps::at(&files), Some(look.clone()));
        let known = ConfigurationCache::default();
        let key = |name: &str| (PathBuf::from(name), false);
        known.put(key("one"), look.clone(), &names("core.bare user.name"));
        assert_eq!(known.get(&key("one"), &look), Some(names("core.bare user.name")));
        assert_eq!(known.get(&key("two"), &look), None);
        assert_eq!(known.get(&("one".into(), true), &look), None);
        let other = FileStamps(vec![None, None]);
        assert_eq!(known.get(&key("one"), &other), None);
        fs::write(&gone, "now it is there").unwrap();
        assert_eq!(FileStamps::at(&files), None);
        known.put(key("two"), look.clone(), &names("core.bare include.path"));
        known.put(key("two"), look.clone(), &names("includeif.gitdir:/.path"));
        assert_eq!(known.get(&key("two"), &look), None, "what it includes is not looked at");
        for number in 0..2 * MAX_NAMES {
            known.put(key(&number.to_string()), look.clone(), &names("a.b"));
        }
        assert!(known.known.lock().unwrap().len() <= MAX_NAMES);
    }
}
