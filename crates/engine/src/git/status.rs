//! Changes in a work tree, from `git status --porcelain=v2 -z`.

use super::Repository;
use super::call::GitCall;
use super::error::GitError;
use super::in_progress::SequencerState;
use super::output_fields::{self, Name, records};
use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Maximum size of the output: a work tree with more changes has other problems.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

const KNOWN: &str = "--untracked-files=no";
const ALL: &str = "--untracked-files=all";
const IGNORED: &str = "--ignored=traditional";

#[derive(Debug, Clone, Default)]
pub struct StatusQuery {
    /// Relative to the top of the work tree; empty: all of it.
    pub paths: Vec<String>,
    /// Leave out untracked files.
    pub no_untracked: bool,
    pub ignored: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// The current commit; `None` before the first.
    pub head: Option<String>,
    /// `None`: no branch is checked out.
    pub branch: Option<String>,
    pub upstream: Option<String>,
    /// Commits only in this branch, and only in its upstream.
    pub ahead_behind: Option<(u64, u64)>,
    pub stashes: u64,
    pub entries: Vec<Entry>,
    /// The output was truncated.
    pub cut: bool,
    /// A merge, rebase or the like in progress.
    pub state: Option<SequencerState>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub path: Name,
    pub what: EntryState,
    pub submodule: bool,
    /// Possibly unmodified: compared without its filter, which does not run.
    pub filtered: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryState {
    Changed {
        /// From the commit to the index.
        staged: Option<Change>,
        /// From the index to the work tree.
        unstaged: Option<Change>,
        /// The source of a rename or copy.
        from: Option<Name>,
    },
    Conflict(ConflictKind),
    Untracked,
    Ignored,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
    Renamed,
    Copied,
    TypeChanged,
    /// In a diff: it has conflicts.
    Unmerged,
}

/// The kind of a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictKind {
    BothModified,
    BothAdded,
    BothDeleted,
    AddedByUs,
    AddedByThem,
    DeletedByUs,
    DeletedByThem,
}

impl Repository {
    pub async fn status(&self, query: &StatusQuery) -> Result<Status, GitError> {
        self.need_worktree().await?;
        let paths = self.in_sight(&query.paths).await?;
        let mut status = match (query.ignored, query.no_untracked) {
            (true, true) => self.look(&[IGNORED, KNOWN], &paths).await?,
            (true, false) => self.look(&[IGNORED, ALL], &paths).await?,
            (false, true) => self.look(&[KNOWN], &paths).await?,
            (false, false) => self.look_for_all(&paths).await?,
        };
        let modified = status.entries.iter().filter(|entry| entry.is_modified());
        let filtered = self.filtered(modified.map(|entry| &entry.path)).await?;
        for entry in &mut status.entries {
            entry.filtered = entry.is_modified() && filtered.contains(&entry.path);
        }
        status.state = self.state().await?;
        Ok(status)
    }

    /// Looks for untracked files in parallel; git would look for them last, in sequence. If the index changes
    /// meanwhile, it starts again.
    async fn look_for_all(&self, paths: &[OsString]) -> Result<Status, GitError> {
        let before = self.index().await?;
        let others = GitCall::reading(&["ls-files", "--others", "--exclude-standard", "-z"]);
        let others = self.ask(others.most(MAX_OUTPUT_BYTES).arg("--").args(paths));
        let (mut status, unknown) = tokio::try_join!(self.look(&[KNOWN], paths), others)?;
        if before.identity != self.index().await?.identity {
            return self.look(&[ALL], paths).await;
        }
        status.cut |= unknown.cut;
        status.entries.extend(records(&unknown.out).map(|path| plain(path, EntryState::Untracked)));
        Ok(status)
    }

    async fn index(&self) -> Result<Index, GitError> {
        let path = self.place.git_dir.join("index");
        let index = crate::blocking(move || Index::hold(&path)).await;
        index.map_err(|error| GitError::Conflict(error.to_string()))
    }

    async fn look(&self, words: &[&str], paths: &[OsString]) -> Result<Status, GitError> {
        let call =
            GitCall::reading(&["status", "--porcelain=v2", "-z", "--branch", "--show-stash"])
                .args(["--ahead-behind", "--renames", "--ignore-submodules=dirty"])
                .args(words)
                .arg("--")
                .args(paths);
        let said = self.ask(call.most(MAX_OUTPUT_BYTES)).await?;
        let status = parse(&said.out).ok_or_else(|| GitError::Failed {
            what: "status".into(),
            said: "its output cannot be parsed".into(),
        })?;
        Ok(Status { cut: said.cut, ..status })
    }
}

/// An index, held open so that no later one can have its identity: git replaces the file and never modifies it.
struct Index {
    identity: Option<(u64, u64)>,
    _held: Option<File>,
}

impl Index {
    /// Blocks, but does not wait for a FIFO.
    fn hold(path: &Path) -> Index {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = rustix::fs::open(path, flags, Mode::empty()).ok().map(File::from);
        let found = held.as_ref().and_then(|file| file.metadata().ok());
        Index { identity: found.map(|found| (found.dev(), found.ino())), _held: held }
    }
}

impl Entry {
    fn is_modified(&self) -> bool {
        matches!(self.what, EntryState::Changed { unstaged: Some(Change::Modified), .. })
    }
}

/// `None` for an unknown output format.
pub fn parse(bytes: &[u8]) -> Option<Status> {
    let mut status = Status::default();
    let mut records = records(bytes);
    while let Some(record) = records.next() {
        let (kind, rest) = record.split_at_checked(2)?;
        match kind {
            b"# " => header(&mut status, rest),
            b"1 " => status.entries.push(changed(rest, 6, None)?),
            b"2 " => match records.next() {
                Some(from) => status.entries.push(changed(rest, 7, Some(from))?),
                // Truncated between its two names.
                None => break,
            },
            b"u " => status.entries.push(conflict(rest)?),
            b"? " if !rest.is_empty() => status.entries.push(plain(rest, EntryState::Untracked)),
            b"! " if !rest.is_empty() => status.entries.push(plain(rest, EntryState::Ignored)),
            _ => return None,
        }
    }
    Some(status)
}

fn header(status: &mut Status, text: &[u8]) {
    let Some(at) = text.iter().position(|byte| *byte == b' ') else { return };
    let (key, value) = (&text[..at], &text[at + 1..]);
    match key {
        b"branch.oid" => status.head = output_fields::hash(value),
        b"branch.head" if value != b"(detached)" => status.branch = output_fields::some_text(value),
        b"branch.upstream" => status.upstream = output_fields::some_text(value),
        b"branch.ab" => status.ahead_behind = ahead_behind(value),
        b"stash" => status.stashes = output_fields::number(value).unwrap_or(0),
        _ => {}
    }
}

/// `+3 -0`
fn ahead_behind(value: &[u8]) -> Option<(u64, u64)> {
    let mut numbers = value.split(|byte| *byte == b' ');
    let ahead = numbers.next()?.strip_prefix(b"+")?;
    let behind = numbers.next()?.strip_prefix(b"-")?;
    Some((output_fields::number(ahead)?, output_fields::number(behind)?))
}

/// Parses `XY sub …`, `skip` more words, and a path that may contain anything.
fn changed(text: &[u8], skip: usize, from: Option<&[u8]>) -> Option<Entry> {
    let (states, submodule, path) = parts(text, skip)?;
    let [x, y] = states;
    let (staged, unstaged) = (change(x)?, change(y)?);
    let what = EntryState::Changed { staged, unstaged, from: from.map(Name::from) };
    Some(Entry { path, what, submodule, filtered: false })
}

fn conflict(text: &[u8]) -> Option<Entry> {
    let (states, submodule, path) = parts(text, 8)?;
    let clash = match &states {
        b"UU" => ConflictKind::BothModified,
        b"AA" => ConflictKind::BothAdded,
        b"DD" => ConflictKind::BothDeleted,
        b"AU" => ConflictKind::AddedByUs,
        b"UA" => ConflictKind::AddedByThem,
        b"DU" => ConflictKind::DeletedByUs,
        b"UD" => ConflictKind::DeletedByThem,
        _ => return None,
    };
    Some(Entry { path, what: EntryState::Conflict(clash), submodule, filtered: false })
}

fn parts(text: &[u8], skip: usize) -> Option<([u8; 2], bool, Name)> {
    let mut words = text.splitn(skip + 2, |byte| *byte == b' ');
    let states = <[u8; 2]>::try_from(words.next()?).ok()?;
    let submodule = words.next()?.starts_with(b"S");
    let path = words.nth(skip - 1)?;
    (!path.is_empty()).then(|| (states, submodule, Name::from(path)))
}

/// `Some(None)` for no change.
fn change(letter: u8) -> Option<Option<Change>> {
    match letter {
        b'.' => Some(None),
        letter => Change::of(letter).map(Some),
    }
}

impl Change {
    pub(super) fn of(letter: u8) -> Option<Change> {
        match letter {
            b'A' => Some(Change::Added),
            b'M' => Some(Change::Modified),
            b'D' => Some(Change::Deleted),
            b'R' => Some(Change::Renamed),
            b'C' => Some(Change::Copied),
            b'T' => Some(Change::TypeChanged),
            b'U' => Some(Change::Unmerged),
            _ => None,
        }
    }
}

fn plain(path: &[u8], what: EntryState) -> Entry {
    Entry { path: Name::from(path), what, submodule: false, filtered: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "0123456789abcdef0123456789abcdef01234567";

    fn entry(path: &[u8], what: EntryState) -> Entry {
        plain(path, what)
    }

    fn differs(
        staged: Option<Change>,
        unstaged: Option<Change>,
        from: Option<&[u8]>,
    ) -> EntryState {
        EntryState::Changed { staged, unstaged, from: from.map(Name::from) }
    }

    #[test]
    fn headers_say_where_one_is() {
        let text = format!(
            "# branch.oid {A}\0# branch.head a b\0# branch.upstream o/main\0# branch.ab +12 -3\0# stash 2\0"
        );
        let status = parse(text.as_bytes()).unwrap();
        assert_eq!(status.head.as_deref(), Some(A));
        assert_eq!(status.branch.as_deref(), Some("a b"));
        assert_eq!((status.ahead_behind, status.stashes), (Some((12, 3)), 2));
        let empty = parse(b"# branch.oid (initial)\0# branch.head (detached)\0").unwrap();
        assert_eq!(empty, Status::default());
        assert_eq!(parse(b""), Some(Status::default()));
    }

    #[test]
    fn entries_have_any_name_at_all() {
        let text = [
            format!("1 .M N... 100644 100644 100644 {A} {A} plain\0").as_bytes(),
            format!("1 A. N... 000000 100644 100644 {A} {A} a b\n \"c\0").as_bytes(),
            format!("1 MD N... 100644 100644 000000 {A} {A} \u{fc}\0").as_bytes(),
            format!("2 R. N... 100644 100644 100644 {A} {A} R100 new name\0old\nname\0").as_bytes(),
            format!("1 .M S.M. 160000 160000 160000 {A} {A} sub\0").as_bytes(),
            format!("u UD N... 100644 100644 000000 100644 {A} {A} {A} gone here\0").as_bytes(),
            b"? \xff\xfe\0! target/\0? cut o",
        ]
        .concat();
        let expected = [
            entry(b"plain", differs(None, Some(Change::Modified), None)),
            entry(b"a b\n \"c", differs(Some(Change::Added), None, None)),
            entry("ü".as_bytes(), differs(Some(Change::Modified), Some(Change::Deleted), None)),
            entry(b"new name", differs(Some(Change::Renamed), None, Some(b"old\nname"))),
            Entry { submodule: true, ..entry(b"sub", differs(None, Some(Change::Modified), None)) },
            entry(b"gone here", EntryState::Conflict(ConflictKind::DeletedByThem)),
            entry(b"\xff\xfe", EntryState::Untracked),
            entry(b"target/", EntryState::Ignored),
        ];
        assert_eq!(parse(&text).unwrap().entries, expected);
    }

    #[test]
    fn every_conflict_has_its_name() {
        for (letters, clash) in [
            ("UU", ConflictKind::BothModified),
            ("AA", ConflictKind::BothAdded),
            ("DD", ConflictKind::BothDeleted),
            ("AU", ConflictKind::AddedByUs),
            ("UA", ConflictKind::AddedByThem),
            ("DU", ConflictKind::DeletedByUs),
            ("UD", ConflictKind::DeletedByThem),
        ] {
            let text = format!("u {letters} N... 1 2 3 4 {A} {A} {A} x\0");
            let found = parse(text.as_bytes()).unwrap().entries;
            assert_eq!(found, [entry(b"x", EntryState::Conflict(clash))], "{letters}");
        }
    }

    #[test]
    fn what_git_never_says_is_not_guessed_at() {
        for bad in [
            "9 x\0",
            "? \0",
            "1 .M\0",
            "1 .Q N... 1 2 3 4 5 x\0",
            "u XX N... 1 2 3 4 5 6 7 x\0",
            "x\0",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
