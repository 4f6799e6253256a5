//! Applies a unified diff to several files, all or none.

use super::patch_results::PatchWork;
use super::{ExpectedState, FileOutcome, MAX_FILES};
use crate::error::EngineError;
use crate::files::error::FileError;
use crate::files::{Files, PathInRoot};
use proctor_core::diff::{self, MatchMode, Patch, Reading};
use proctor_sys::beneath::RelativePath;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

/// A diff, and how exactly it has to match.
#[derive(Debug, Clone, Default)]
pub struct DiffQuery {
    pub text: Vec<u8>,
    /// The folder that its names start from; the root if not given.
    pub folder: Option<String>,
    /// As strict as `git apply`: all context lines must be present and match.
    pub strict: bool,
    /// Maximum number of context lines that may differ.
    pub fuzz: usize,
}

impl Files {
    pub async fn apply_diff(
        &self,
        query: DiffQuery,
        mut wish: ExpectedState,
    ) -> Result<Vec<FileOutcome>, EngineError> {
        // The file that it belongs to is known after all names are resolved.
        let if_hash = wish.if_hash.take();
        let applied = self.work(move |files, stop| {
            let reading = if query.strict { Reading::Strict } else { Reading::Lenient };
            let patches = diff::parse(&query.text, reading)?;
            if patches.is_empty() {
                return Err(FileError::BadInput(
                    "the diff names no file; each file needs lines that start with --- and +++"
                        .into(),
                ));
            }
            let many = || FileError::BadInput(format!("more than {MAX_FILES} files in one diff"));
            if patches.len() > MAX_FILES {
                return Err(many());
            }
            if if_hash.is_some() && patches.len() > 1 {
                let why =
                    format!("'if_hash' is for a diff of one file, and this has {}", patches.len());
                return Err(FileError::BadInput(why));
            }
            // Git writes names from the top of the repository, whatever the current folder.
            let base = match &query.folder {
                Some(folder) => files.find(folder)?,
                None => files.top()?,
            };
            let named = patches.into_iter().map(|patch| NamedPatch::of(&base, patch));
            let named = named.collect::<Result<Vec<_>, _>>()?;
            let spots = spots(&named);
            if spots.len() > MAX_FILES {
                return Err(many());
            }
            let how = match query.strict {
                true => MatchMode::AsGit,
                false => MatchMode::AsPatch { fuzz: query.fuzz, any_ends: true },
            };
            let changed = files.change(&spots, &wish, stop, |before| {
                let work = PatchWork::of(&spots, before, how);
                if let Some(hash) = &if_hash {
                    work.check_hash(&named, hash)?;
                }
                work.all(&named, stop)
            });
            changed.map_err(|error| in_words(&spots, error))
        });
        Ok(applied.await??)
    }
}

/// A patch with the files that it may refer to.
pub(super) struct NamedPatch {
    pub(super) patch: Patch,
    pub(super) old: Option<PathInRoot>,
    pub(super) new: Option<PathInRoot>,
    /// Both names without their first folder, if they differ in nothing else: `diff -r one other`.
    pub(super) tail: Option<PathInRoot>,
}

impl NamedPatch {
    fn of(base: &PathInRoot, patch: Patch) -> Result<NamedPatch, FileError> {
        let spot = |name: &[u8]| -> Result<PathInRoot, FileError> {
            let path = [base.rel.as_bytes(), b"/", name].concat();
            let path = path.strip_prefix(b"/").unwrap_or(&path);
            // A name that begins with a slash stays absolute.
            let path = if base.rel.is_root() { name } else { path };
            let shown = String::from_utf8_lossy(name).into_owned();
            let rel =
                RelativePath::parse(OsStr::from_bytes(path)).map_err(FileError::at(&shown))?;
            Ok(base.sibling(rel))
        };
        let named = |name: &Option<Vec<u8>>| name.as_deref().map(spot).transpose();
        let (old, new) = (named(&patch.old)?, named(&patch.new)?);
        let tail = match (&patch.old, &patch.new) {
            (Some(old), Some(new)) if old != new && tail(old) == tail(new) => {
                tail(old).map(spot).transpose()?
            }
            _ => None,
        };
        Ok(NamedPatch { patch, old, new, tail })
    }
}

fn tail(name: &[u8]) -> Option<&[u8]> {
    name.iter().position(|byte| *byte == b'/').map(|at| &name[at + 1..])
}

/// The error for a name that is a file and a folder in turn: that takes more than one change.
fn in_words(spots: &[PathInRoot], error: FileError) -> FileError {
    let FileError::Refused { path, fault } = &error else { return error };
    let other = if error.is_folder() {
        "a folder becomes a file"
    } else if fault.is(io::ErrorKind::NotADirectory) {
        "a file becomes a folder"
    } else {
        return error;
    };
    let below = |one: &PathInRoot, other: &PathInRoot| {
        one.rel != other.rel && one.rel.as_path().starts_with(other.rel.as_path())
    };
    match spots.iter().any(|one| spots.iter().any(|other| below(one, other))) {
        true => FileError::BadInput(format!(
            "cannot apply a diff in which {other}: '{path}'; apply its deletions first, and then the rest"
        )),
        false => error,
    }
}

/// Every file that may be meant, without duplicates.
fn spots(named: &[NamedPatch]) -> Vec<PathInRoot> {
    let mut known = HashSet::new();
    let all = named.iter().flat_map(|named| [&named.old, &named.new, &named.tail]).flatten();
    all.filter(|spot| known.insert(&spot.rel)).cloned().collect()
}
