//! Differences: which files, how many lines, and the text of them a page at a time.

use super::Repository;
use super::call::Call;
use super::error::GitError;
use super::fields::{self, Name, number};
use super::given::literal;
use super::status::Change;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::ffi::OsString;

/// Further into one difference nobody goes by pages.
const FARTHEST: usize = 64 << 20;

/// Files and their counts before the text: some 50,000 files.
const FILES: usize = 8 << 20;

/// Lines around a change.
const MOST_CONTEXT: u32 = 1000;

#[derive(Debug, Clone, Default)]
pub struct DiffQuery {
    pub compared: Compared,
    pub paths: Vec<String>,
    /// Lines around each change; 3 if not given.
    pub context: Option<u32>,
    /// The files and their counts only.
    pub stat: bool,
    /// Of the text, this much at once.
    pub max_bytes: usize,
    pub cursor: Option<String>,
}

/// What is compared with what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Compared {
    /// The index with the work tree.
    #[default]
    Unstaged,
    /// The commit that is checked out with the index.
    Staged,
    /// A revision with the work tree.
    Since(String),
    Between(String, String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    pub files: Vec<FileDiff>,
    /// There are more files than are listed.
    pub cut: bool,
    /// From where the cursor said.
    pub text: Vec<u8>,
    /// Where to go on, if there is more.
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDiff {
    pub path: Name,
    pub from: Option<Name>,
    pub change: Change,
    pub lines: Lines,
    /// It was compared without its filter, which is not run: it may not be different at all.
    pub filtered: bool,
}

/// Lines added and deleted; `None` of what is no text.
type Lines = Option<(u64, u64)>;

impl Repository {
    pub async fn diff(&self, query: &DiffQuery) -> Result<Diff, GitError> {
        if !matches!(query.compared, Compared::Between(..)) {
            self.need_worktree().await?;
        }
        match &query.compared {
            Compared::Unstaged => self.compare_worktree(&[], query).await,
            Compared::Staged => self.compare(&["--cached".into()], query).await,
            Compared::Since(revision) => {
                self.compare_worktree(&[self.commit_of(revision).await?], query).await
            }
            Compared::Between(from, to) => {
                let compared = [self.commit_of(from).await?, self.commit_of(to).await?];
                self.compare(&compared, query).await
            }
        }
    }

    /// Between what these words mean, which are ours.
    pub(super) async fn compare(
        &self,
        compared: &[String],
        query: &DiffQuery,
    ) -> Result<Diff, GitError> {
        let paths = self.paths(&query.paths)?.iter().map(literal).collect();
        self.compare_at(compared, paths, query).await
    }

    /// The same with the work tree, where not everything is looked at, and not as its filters would have it.
    async fn compare_worktree(
        &self,
        compared: &[String],
        query: &DiffQuery,
    ) -> Result<Diff, GitError> {
        let paths = self.in_sight(&query.paths).await?;
        let mut diff = self.compare_at(compared, paths, query).await?;
        let there = diff.files.iter().filter(|file| file.change != Change::Deleted);
        let filtered = self.filtered(there.map(|file| &file.path)).await?;
        for file in &mut diff.files {
            file.filtered = filtered.contains(&file.path) && file.change != Change::Deleted;
        }
        Ok(diff)
    }

    async fn compare_at(
        &self,
        compared: &[String],
        paths: Vec<OsString>,
        query: &DiffQuery,
    ) -> Result<Diff, GitError> {
        let page = Page::new(query)?;
        let context = query.context.unwrap_or(3).min(MOST_CONTEXT);
        let mut call = Call::reading(&["diff", "--no-ext-diff", "--no-textconv", "--no-color"])
            .args(["--no-relative", "--find-renames", "--ignore-submodules=dirty"])
            .args(["--src-prefix=a/", "--dst-prefix=b/", "-z", "--raw", "--numstat"])
            .arg(format!("--unified={context}"))
            .most(FILES + page.skip + query.max_bytes);
        if !query.stat {
            call = call.arg("--patch");
        }
        let call = call.args(compared).arg("--").args(paths);
        let said = self.ask(call).await?;
        let (files, text) = split(&said.out);
        if !query.stat && files.is_empty() && said.cut {
            return Err(GitError::bad("paths", "there are too many files; name some"));
        }
        let (text, cursor) = page.of(text, said.cut)?;
        Ok(Diff { cut: said.cut && query.stat, files, text, cursor })
    }
}

/// Which part of a text is wanted.
struct Page {
    skip: usize,
    /// Of what was skipped.
    seal: String,
    most: usize,
}

impl Page {
    fn new(query: &DiffQuery) -> Result<Page, GitError> {
        let most = query.max_bytes;
        let Some(cursor) = &query.cursor else {
            return Ok(Page { skip: 0, seal: seal(b""), most });
        };
        let parts = cursor.split_once('.').and_then(|(skip, seal)| {
            let skip = skip.parse().ok().filter(|skip| *skip <= FARTHEST)?;
            Some(Page { skip, seal: seal.to_owned(), most })
        });
        parts.ok_or_else(|| GitError::bad("cursor", "it is not one of an earlier answer"))
    }

    /// The page, and where the next one begins. `cut`: the text itself goes on.
    fn of(&self, text: &[u8], cut: bool) -> Result<(Vec<u8>, Option<String>), GitError> {
        let (before, rest) = text.split_at_checked(self.skip).ok_or(GitError::Stale)?;
        if seal(before) != self.seal {
            return Err(GitError::Stale);
        }
        if rest.len() <= self.most && !cut {
            return Ok((rest.to_vec(), None));
        }
        let page = &rest[..rest.len().min(self.most)];
        // At the end of a line, unless one line is longer than a page.
        let lines = page.iter().rposition(|byte| *byte == b'\n').map_or(page.len(), |at| at + 1);
        let end = self.skip + lines;
        let cursor = format!("{end}.{}", seal(&text[..end]));
        Ok((page[..lines].to_vec(), Some(cursor)))
    }
}

/// To know again whether what came before is still the same.
fn seal(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The files with their counts, and the text behind them.
pub fn split(bytes: &[u8]) -> (Vec<FileDiff>, &[u8]) {
    let mut files: Vec<FileDiff> = Vec::new();
    let mut places: HashMap<&[u8], Vec<usize>> = HashMap::new();
    let mut rest = bytes;
    while let Some(record) = next(&mut rest) {
        let understood = match record.first() {
            Some(b':') => raw(record, &mut rest).map(|(path, file)| {
                places.entry(path).or_default().push(files.len());
                files.push(file);
            }),
            Some(_) => counted(record, &mut rest).map(|(path, lines)| {
                // Of a file with conflicts there may be several; the last is what differs from ours.
                places.get(path).into_iter().flatten().for_each(|at| files[*at].lines = lines);
            }),
            // Between the counts and the text stands an empty one.
            None => return (files, rest),
        };
        if understood.is_none() {
            return (files, &[]);
        }
    }
    (files, &[])
}

/// The next field; what has no end was cut off.
fn next<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|byte| *byte == 0)?;
    let field = &rest[..end];
    *rest = &rest[end + 1..];
    Some(field)
}

/// `:100644 100644 0123456 abcdef0 R100`, then the path, or both paths.
fn raw<'a>(record: &[u8], rest: &mut &'a [u8]) -> Option<(&'a [u8], FileDiff)> {
    let status = record.split(|byte| *byte == b' ').nth(4)?;
    let change = Change::of(*status.first()?)?;
    let first = next(rest)?;
    let (path, from) = match change {
        Change::Renamed | Change::Copied => (next(rest)?, Some(first)),
        Change::Added
        | Change::Modified
        | Change::Deleted
        | Change::TypeChanged
        | Change::Unmerged => (first, None),
    };
    let from = from.map(Name::from);
    Some((path, FileDiff { path: path.into(), from, change, lines: None, filtered: false }))
}

/// `3\t1\tpath`, or of a rename `3\t1\t` and then both paths; `-` for what is no text.
fn counted<'a>(record: &'a [u8], rest: &mut &'a [u8]) -> Option<(&'a [u8], Lines)> {
    let mut parts = record.splitn(3, |byte| *byte == b'\t');
    let (added, deleted, path) = (parts.next()?, parts.next()?, parts.next()?);
    let path = match path {
        b"" => {
            next(rest)?;
            next(rest)?
        }
        path => path,
    };
    Some((path, Option::zip(number(added), number(deleted))))
}

/// Lines added and deleted in all files.
pub(super) fn total(files: &[FileDiff]) -> (u64, u64) {
    let lines = files.iter().filter_map(|file| file.lines);
    lines.fold((0, 0), |sum, lines| (sum.0 + lines.0, sum.1 + lines.1))
}

/// The tree without anything in it, for the hash of a repository's kind.
pub(super) fn empty_tree(hash: &str) -> String {
    match hash.len() {
        64 => "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321".into(),
        _ => "4b825dc642cb6eb9a060e54bf8d69288fbee4904".into(),
    }
}

/// What a list of objects says of one: mode, hash, stage, path.
pub(super) fn staged(record: &[u8]) -> Option<(String, String, u8, Name)> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    let (words, path) = (&record[..tab], &record[tab + 1..]);
    let mut words = words.split(|byte| *byte == b' ');
    let (mode, hash) = (fields::text(words.next()?), fields::hash(words.next()?)?);
    Some((mode, hash, number(words.next()?)?, path.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(
        path: &[u8],
        from: Option<&[u8]>,
        change: Change,
        lines: Option<(u64, u64)>,
    ) -> FileDiff {
        FileDiff { path: path.into(), from: from.map(Name::from), change, lines, filtered: false }
    }

    #[test]
    fn files_counts_and_text_come_apart() {
        let output = b":100644 100644 1 2 M\0a b\0:100644 100644 1 2 R090\0old\0new\n\0:000000 160000 0 2 A\0sub\0\
            :100644 100644 1 2 M\0bin\x003\t1\ta b\x000\t2\t\0old\0new\n\x001\t0\tsub\0-\t-\tbin\0\0diff --git\n\0not a field\n";
        let (files, text) = split(output);
        assert_eq!(
            files,
            [
                file(b"a b", None, Change::Modified, Some((3, 1))),
                file(b"new\n", Some(b"old"), Change::Renamed, Some((0, 2))),
                file(b"sub", None, Change::Added, Some((1, 0))),
                file(b"bin", None, Change::Modified, None),
            ]
        );
        assert_eq!(text, b"diff --git\n\0not a field\n");
        assert_eq!(total(&files), (4, 3));
        assert_eq!(split(b""), (vec![], &b""[..]));
        assert_eq!(split(b"nonsense\0").0, []);
        for cut in 0..output.len() {
            split(&output[..cut]);
        }
    }

    #[test]
    fn pages_join_without_a_gap_and_notice_a_change() {
        let text = b"one\ntwo\nthree is long\nfour\n";
        let page = |cursor: Option<String>, text: &[u8]| {
            let query = DiffQuery { max_bytes: 9, cursor, ..DiffQuery::default() };
            Page::new(&query)?.of(text, false)
        };
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let (part, next) = page(cursor, text).unwrap();
            all.extend(part);
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(all, text);
        let (_, cursor) = page(None, text).unwrap();
        assert!(matches!(page(cursor.clone(), b"ONE\ntwo\nmore\n"), Err(GitError::Stale)));
        assert!(matches!(page(cursor, b""), Err(GitError::Stale)));
        for bad in ["", "x", "-1.a", "99999999999.a", "5"] {
            assert!(matches!(page(Some(bad.into()), text), Err(GitError::Bad { .. })), "{bad}");
        }
    }
}
