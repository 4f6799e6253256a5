//! The state before a commit, written into the lock of its index after the magic word.
//!
//! If the daemon is killed while git commits, the next one reads it and compares it with the state now. If the
//! commit was made, the prepared index is installed. Otherwise the old index would stay, and the next commit
//! would revert this one.
//!
//! It is read from files, because git cannot be called then. If references are not stored in files, no commit
//! is detected. Everything here blocks.

use crate::git::output_fields;
use crate::git::repository_location::{common_dir, small};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

/// Maximum size of a reference, or of a hash.
const MAX_RECORD_BYTES: u64 = 4096;

/// Stands for a missing name, commit or index.
const NONE: &str = "-";

/// Three words of one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexRecord {
    /// The reference in `HEAD`.
    name: String,
    commit: String,
    /// The identity and version of the index file.
    index: String,
}

impl IndexRecord {
    /// The state now; `None` if it cannot be read.
    pub(super) fn look(git_dir: &Path, index: &str) -> Option<IndexRecord> {
        let head = small(&git_dir.join("HEAD"), MAX_RECORD_BYTES).ok()?;
        let (name, commit) = match head.strip_prefix(b"ref: ") {
            None => (NONE.to_owned(), output_fields::hash(&head)?),
            Some(name) => {
                let name = std::str::from_utf8(name.trim_ascii()).ok()?;
                (name.to_owned(), commit_at(git_dir, name)?)
            }
        };
        Some(IndexRecord { name, commit, index: version(&git_dir.join(index)) })
    }

    pub(super) fn line(&self) -> String {
        format!("{} {} {}\n", self.name, self.commit, self.index)
    }

    pub(super) fn parse(line: &[u8]) -> Option<IndexRecord> {
        let words = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
        let mut words = words.split(' ').map(str::to_owned);
        let before =
            IndexRecord { name: words.next()?, commit: words.next()?, index: words.next()? };
        words.next().is_none().then_some(before)
    }

    /// Returns true if there is a new commit since then, and the index is unchanged.
    pub(super) fn is_behind(&self, now: &IndexRecord) -> bool {
        let moved = now.commit != NONE && now.commit != self.commit;
        moved && self.name == now.name && self.index == now.index
    }
}

/// The commit of a branch, as git writes it for a new commit: in a file of its own.
fn commit_at(git_dir: &Path, name: &str) -> Option<String> {
    let plain = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if !plain || !name.starts_with("refs/") || name.contains(' ') {
        return None;
    }
    let file = common_dir(git_dir).ok()?.join(name);
    match file.symlink_metadata() {
        Ok(_) => output_fields::hash(&small(&file, MAX_RECORD_BYTES).ok()?),
        Err(_) => Some(NONE.to_owned()),
    }
}

fn version(index: &Path) -> String {
    fs::symlink_metadata(index).map_or_else(
        |_| NONE.to_owned(),
        |it| format!("{}.{}.{}.{}", it.ino(), it.size(), it.mtime(), it.mtime_nsec()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_seen_by_what_head_names() {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path();
        let put = |name: &str, text: &str| {
            fs::create_dir_all(git.join(name).parent().unwrap()).unwrap();
            fs::write(git.join(name), text).unwrap();
        };
        let look = || IndexRecord::look(git, "index").unwrap();
        let (one, two) = (format!("{}\n", "1".repeat(40)), format!("{}\n", "2".repeat(40)));
        assert_eq!(IndexRecord::look(git, "index"), None);
        put("HEAD", "ref: refs/heads/main\n");
        let unborn = look();
        put("refs/heads/main", &one);
        let first = look();
        assert!(unborn.is_behind(&first) && !first.is_behind(&unborn) && !first.is_behind(&first));
        put("refs/heads/main", &two);
        assert!(first.is_behind(&look()));
        put("index", "somebody's");
        assert!(!first.is_behind(&look()), "the index is another by now");
        let with_index = look();
        put("refs/heads/other", &one);
        put("HEAD", "ref: refs/heads/other\n");
        assert!(!with_index.is_behind(&look()), "another branch is checked out");
        put("HEAD", &one);
        let detached = look();
        put("HEAD", &two);
        assert!(detached.is_behind(&look()) && !with_index.is_behind(&look()));
        for odd in ["ref: refs/../../x\n", "ref: /etc/passwd\n", "ref: refs/a b\n", "nonsense\n"] {
            put("HEAD", odd);
            assert_eq!(IndexRecord::look(git, "index"), None, "{odd}");
        }
        for before in [unborn, first, with_index, detached] {
            assert_eq!(IndexRecord::parse(before.line().as_bytes()), Some(before));
        }
        for odd in ["", "\n", "and more", "a b\n", "a b c", "a b c d\n"] {
            assert_eq!(IndexRecord::parse(odd.as_bytes()), None, "{odd:?}");
        }
    }
}
