//! Checks that links and borrowed objects do not lead out of the root. Everything here blocks.

use super::small;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path};

/// Maximum size of a file with paths, one per line.
const MANY: u64 = 64 << 10;

/// Maximum depth of repositories that borrow from others; git itself stops at five.
const DEEPEST: usize = 5;

pub(super) fn below(path: &Path, root: &Path) -> Result<(), String> {
    match path.starts_with(root) {
        true => Ok(()),
        false => Err(format!("it uses {}, which is outside of {}", path.display(), root.display())),
    }
}

/// Checks that borrowed objects of other repositories are below the root, too.
pub(super) fn borrowed(objects: &Path, root: &Path, left: &mut usize) -> Result<(), String> {
    borrowed_so_deep(objects, root, DEEPEST, left)
}

fn borrowed_so_deep(
    objects: &Path,
    root: &Path,
    deeper: usize,
    left: &mut usize,
) -> Result<(), String> {
    let file = objects.join("info/alternates");
    if file.symlink_metadata().is_err() {
        return Ok(());
    }
    let text = small(&file, MANY)?;
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let path = Path::new(OsStr::from_bytes(line));
        // Quoted lines have odd characters, and comments are not parsed here.
        let odd = line.starts_with(b"\"") || line.starts_with(b"#");
        if odd || deeper == 0 || turns_back(path) {
            return Err(format!("an entry of {} is not followed", file.display()));
        }
        let other = objects.join(path);
        let other = match fs::canonicalize(&other) {
            Ok(other) => other,
            // Git reports it and continues without it.
            Err(error) if is_gone(&error) => continue,
            Err(error) => return Err(format!("{}: {error}", other.display())),
        };
        below(&other, root)?;
        no_links(&other, &[], left)?;
        borrowed_so_deep(&other, root, deeper - 1, left)?;
    }
    Ok(())
}

/// Returns true for a `..` after a name: its target depends on whether the name is a link, and not every git
/// checks.
fn turns_back(path: &Path) -> bool {
    let mut parts = path.components().skip_while(|part| *part == Component::ParentDir);
    parts.any(|part| part == Component::ParentDir)
}

/// Fails if there is a link or a FIFO anywhere below. The content of the folders `unread` right below `top` is
/// skipped. A missing folder is empty.
pub(super) fn no_links(top: &Path, unread: &[&str], left: &mut usize) -> Result<(), String> {
    let mut next = vec![top.to_owned()];
    while let Some(folder) = next.pop() {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if is_gone(&error) => continue,
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            *left = left.checked_sub(1).ok_or("its git directory has too many files")?;
            let kind = match entry.file_type() {
                Ok(kind) => kind,
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(failed(error)),
            };
            if kind.is_symlink() {
                return Err(format!("{} is a link", entry.path().display()));
            }
            if kind.is_fifo() {
                return Err(format!("{} is a pipe", entry.path().display()));
            }
            let skipped = || folder == top && unread.iter().any(|name| entry.file_name() == *name);
            if kind.is_dir() && !skipped() {
                next.push(entry.path());
            }
        }
    }
    Ok(())
}

fn is_gone(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
