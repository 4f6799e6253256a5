//! Lists the content of folders to any depth, and names that match a pattern.

use super::error::{FileError, Pattern};
use super::ignore_rules::SkipRules;
use super::roots::{OwnFiles, PathInRoot};
use super::walk::{Walk, WalkEntry, WalkOptions};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use proctor_core::time::Wall;
use proctor_sys::beneath::{Kind, RelativePath};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A request to list names below a folder.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// Maximum depth: 1 is the folder itself.
    pub depth: Option<usize>,
    pub leave_out: SkipRules,
    /// Only names that match one of these.
    pub patterns: Vec<String>,
    /// Patterns ignore case.
    pub any_case: bool,
    /// Only entries of this kind.
    pub kind: Option<Kind>,
    pub most: usize,
    /// Maximum size of the response in bytes.
    pub max_bytes: Option<usize>,
    pub cursor: Option<String>,
}

/// Bytes that a name adds to a response in addition to its path: its depth, its size, the end of the line.
const AROUND_A_NAME: usize = 24;

/// An entry with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderEntry {
    /// The path as shown in responses.
    pub path: String,
    pub kind: Kind,
    pub depth: usize,
    /// Size of a file.
    pub size: Option<u64>,
    pub modified: Option<Wall>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    pub entries: Vec<FolderEntry>,
    pub cursor: Option<String>,
    /// Number of folders that could not be read.
    pub unreadable: usize,
}

impl FolderEntry {
    /// Bytes this entry adds to the response.
    fn room(&self) -> usize {
        self.path.len() + AROUND_A_NAME
    }
}

impl Listing {
    pub(super) fn bytes(&self) -> usize {
        self.entries.iter().map(FolderEntry::room).sum()
    }
}

pub(crate) fn list(
    spot: &PathInRoot,
    query: &ListQuery,
    guarded: &OwnFiles,
    stop: &dyn Fn() -> bool,
) -> Result<Listing, FileError> {
    let after = query.cursor.as_deref().map(parse_cursor).transpose()?;
    let patterns = Patterns::new(&query.patterns, query.any_case)?;
    let mut walk = Walk::begin(&WalkOptions {
        spot,
        guarded,
        leave_out: query.leave_out,
        depth: query.depth.unwrap_or(usize::MAX),
        after: after.as_ref(),
        again: false,
    })?;
    let begin = if spot.rel.is_root() { 0 } else { spot.rel.as_bytes().len() + 1 };
    let (mut listing, mut last, mut bytes) = (Listing::default(), None, 0);
    while let Some(visit) = walk.next() {
        if stop() {
            return Err(FileError::Cancelled);
        }
        let wanted = query.kind.is_none_or(|kind| kind == visit.kind)
            && patterns.fit(&visit.path[begin..], &visit.name);
        if !wanted {
            continue;
        }
        let listed = listed(spot, &visit)?;
        bytes += listed.room();
        let full =
            listing.entries.len() == query.most || query.max_bytes.is_some_and(|most| bytes > most);
        if full && last.is_some() {
            listing.cursor = last;
            break;
        }
        last = Some(cursor(&visit.path));
        listing.entries.push(listed);
    }
    listing.unreadable = walk.unreadable;
    Ok(listing)
}

fn listed(spot: &PathInRoot, visit: &WalkEntry) -> Result<FolderEntry, FileError> {
    // An entry that has disappeared meanwhile has neither.
    let look = visit.folder.look(&visit.name).ok().flatten();
    let wall = |(seconds, nanos): (i64, i64)| {
        Wall(seconds.saturating_mul(1_000_000).saturating_add(nanos / 1000))
    };
    Ok(FolderEntry {
        path: spot.shown_at(&visit.rel()?),
        kind: visit.kind,
        depth: visit.depth,
        size: look.filter(|look| look.kind == Kind::File).map(|look| look.size),
        modified: look.map(|look| wall(look.modified)),
    })
}

/// A path as a cursor: in hexadecimal digits, because a name may contain any bytes.
pub(crate) fn cursor(path: &[u8]) -> String {
    super::file_info::hex(path)
}

pub(crate) fn parse_cursor(text: &str) -> Result<RelativePath, FileError> {
    let bad = || FileError::BadCursor(text.to_owned());
    let bytes = super::file_info::unhex(text).ok_or_else(bad)?;
    RelativePath::parse(OsStr::from_bytes(&bytes)).map_err(|_| bad())
}

/// Patterns for names. A pattern with a slash matches the whole path below the requested folder.
struct Patterns {
    names: GlobSet,
    paths: GlobSet,
    all: bool,
}

impl Patterns {
    fn new(patterns: &[String], any_case: bool) -> Result<Patterns, FileError> {
        let bad = |error: globset::Error| Pattern::Glob.bad(error);
        let (mut names, mut paths) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for pattern in patterns {
            let text = pattern.strip_prefix("./").unwrap_or(pattern);
            let text = text.strip_prefix('/').unwrap_or(text);
            let glob = GlobBuilder::new(text)
                .literal_separator(true)
                .case_insensitive(any_case)
                .build()
                .map_err(bad)?;
            if pattern.contains('/') {
                paths.add(glob)
            } else {
                names.add(glob)
            };
        }
        Ok(Patterns {
            names: names.build().map_err(bad)?,
            paths: paths.build().map_err(bad)?,
            all: patterns.is_empty(),
        })
    }

    fn fit(&self, path: &[u8], name: &OsStr) -> bool {
        self.all
            || self.names.is_match(Path::new(name))
            || self.paths.is_match(Path::new(OsStr::from_bytes(path)))
    }
}
