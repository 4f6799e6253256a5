//! The note that a keeper writes into its lock file in the state folder: where its runtime folder is, and during which boot it
//! began. A keeper that ends in order removes the boot: whoever finds it there knows that the keeper was killed.

use crate::{boot_id, small_file};
use proctor_core::home::Home;
use std::fmt;
use std::fs::File;
use std::path::PathBuf;

/// As long as a path and the identity of a boot can be.
const MAX_NOTE: u64 = 4096 + 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeeperNote {
    pub runtime: PathBuf,
    /// Empty after an orderly end, and in the note of an older version.
    boot: String,
}

impl KeeperNote {
    /// The note of this process.
    pub fn now(home: &Home) -> KeeperNote {
        KeeperNote { runtime: home.runtime.clone(), boot: this_boot() }
    }

    /// Takes the boot out of the note in `file`. No room on the disk is needed for that.
    pub fn end(file: &File, home: &Home) {
        let line = home.runtime.as_os_str().len() as u64 + 1;
        // A failure costs a start of Proctor that finds nothing to do.
        let _ = file.set_len(line);
    }

    /// The note of the last keeper; `None` if it cannot be read.
    pub fn read(home: &Home) -> Option<KeeperNote> {
        KeeperNote::parse(
            &String::from_utf8(small_file::read_small(&home.state_lock(), MAX_NOTE).ok()?).ok()?,
        )
    }

    fn parse(text: &str) -> Option<KeeperNote> {
        let mut lines = text.lines();
        let runtime = PathBuf::from(lines.next()?);
        let boot = lines.next().unwrap_or_default().to_owned();
        runtime.is_absolute().then_some(KeeperNote { runtime, boot })
    }

    /// Returns true if the keeper began during this boot and did not end in order.
    pub fn is_of_this_boot(&self) -> bool {
        self.boot == this_boot()
    }
}

impl fmt::Display for KeeperNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.runtime.display(), self.boot)
    }
}

fn this_boot() -> String {
    boot_id::id().0.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_an_older_one_is_of_no_boot() {
        let home = Home { state: "/s".into(), runtime: "/r u n".into() };
        let note = KeeperNote::now(&home);
        let read = KeeperNote::parse(&format!("{note}\n"));
        assert_eq!(read.as_ref(), Some(&note));
        assert!(note.is_of_this_boot());
        let file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut &file, format!("{note}\n").as_bytes()).unwrap();
        KeeperNote::end(&file, &home);
        assert_eq!(file.metadata().unwrap().len(), "/r u n\n".len() as u64);
        let older = KeeperNote::parse("/r\n").unwrap();
        assert_eq!(
            (older.runtime.as_path(), older.is_of_this_boot()),
            (std::path::Path::new("/r"), false)
        );
        for text in ["", "\n", "run\n"] {
            assert_eq!(KeeperNote::parse(text), None, "{text:?}");
        }
    }
}
