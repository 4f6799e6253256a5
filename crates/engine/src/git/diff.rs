//! Differences: the files, their counts of lines, and their text in pages.

use super::Repository;
use super::arguments::{Range, literal};
use super::call::GitCall;
use super::error::GitError;
use super::output_fields::{self, Name, number};
use super::status::Change;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::ffi::OsString;

/// Maximum offset of a page in one difference.
const FARTHEST: usize = 64 << 20;

/// Maximum size of the list of files before the text: some 50,000 files.
const FILES: usize = 8 << 20;

/// Maximum number of context lines.
const MAX_CONTEXT: u32 = 1000;

#[derive(Debug, Clone, Default)]
pub struct DiffQuery {
    pub compared: DiffTarget,
    pub paths: Vec<String>,
    /// Context lines around each change; 3 if not given.
    pub context: Option<u32>,
    /// Only the files and their counts.
    pub stat: bool,
    /// Maximum number of text bytes in one response.
    pub max_bytes: usize,
    pub cursor: Option<String>,
}

/// The two sides of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DiffTarget {
    /// The index with the work tree.
    #[default]
    Unstaged,
    /// The last commit with the index.
    Staged,
    /// A revision with the work tree; or a range, as git writes it.
    Since(String),
    Between(String, String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    pub files: Vec<FileDiff>,
    /// There are more files than listed.
    pub cut: bool,
    /// Text from the cursor on.
    pub text: Vec<u8>,
    /// Position to continue at, if there is more.
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDiff {
    pub path: Name,
    pub from: Option<Name>,
    pub change: Change,
    pub lines: Lines,
    /// DiffTarget without its filter, which does not run: the file may be unchanged.
    pub filtered: bool,
}

/// Lines added and deleted; `None` for a binary file.
type Lines = Option<(u64, u64)>;

impl Repository {
    pub async fn diff(&self, query: &DiffQuery) -> Result<Diff, GitError> {
        if !matches!(query.compared, DiffTarget::Between(..)) {
            self.need_worktree().await?;
        }
        match &query.compared {
            DiffTarget::Unstaged => self.compare_worktree(&[], query).await,
            DiffTarget::Staged => self.compare(&["--cached".into()], query).await,
            DiffTarget::Since(revision) => match Range::parse(revision) {
                Some(range) => self.compare(&self.ends(range).await?, query).await,
                None => self.compare_worktree(&[self.commit_of(revision).await?], query).await,
            },
            DiffTarget::Between(from, to) => {
                let range = Range { from, to, parting: false };
                self.compare(&self.ends(range).await?, query).await
            }
        }
    }

    /// The two commits of a range.
    async fn ends(&self, range: Range<'_>) -> Result<[String; 2], GitError> {
        let [from, to] = [self.commit_of(range.from).await?, self.commit_of(range.to).await?];
        if !range.parting {
            return Ok([from, to]);
        }
        let said = self.run(GitCall::reading(&["merge-base", &from, &to])).await?;
        let none =
            || GitError::Nothing(format!("commit before '{}' and '{}'", range.from, range.to));
        Ok([output_fields::hash(&said.out).ok_or_else(none)?, to])
    }

    /// Compares; the arguments are our own.
    pub(super) async fn compare(
        &self,
        compared: &[String],
        query: &DiffQuery,
    ) -> Result<Diff, GitError> {
        let paths = self.paths(&query.paths)?.iter().map(literal).collect();
        self.compare_at(compared, paths, query).await
    }

    /// Compares with the work tree, without Proctor's own files and without running filters.
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
        let page = Page::new(query.max_bytes, query.cursor.as_deref())?;
        let context = query.context.unwrap_or(3).min(MAX_CONTEXT);
        let call = |parts: &[&str]| {
            GitCall::reading(&["diff", "--no-ext-diff", "--no-textconv", "--no-color"])
                .args(["--no-relative", "--find-renames", "--ignore-submodules=dirty"])
                .args(["--src-prefix=a/", "--dst-prefix=b/"])
                .arg(format!("--unified={context}"))
                .args(parts)
                .args(compared)
                .arg("--")
                .args(&paths)
        };
        let most = page.skip + query.max_bytes;
        let patch = (!query.stat).then_some("--patch");
        let parts: Vec<&str> = ["-z", "--raw", "--numstat"].into_iter().chain(patch).collect();
        let said = self.ask(call(&parts).most(FILES + most)).await?;
        let (files, text) = split(&said.out).ok_or_else(not_understood)?;
        if !query.stat && files.is_empty() && said.cut {
            return Err(GitError::bad("paths", "too many files; name some paths"));
        }
        let cut = said.cut && query.stat;
        let (text, cursor) = match patch {
            // With conflicts, git lists the sides or shows the lines, not both.
            Some(patch) if files.iter().any(|file| file.change == Change::Unmerged) => {
                let said = self.ask(call(&[patch]).most(most + 1)).await?;
                page.of(&said.out, said.cut)?
            }
            Some(_) | None => page.of(text, said.cut)?,
        };
        Ok(Diff { cut, files, text, cursor })
    }
}

fn not_understood() -> GitError {
    GitError::Failed { what: "diff".into(), said: "its list of files cannot be parsed".into() }
}

/// The requested part of a text.
pub(super) struct Page {
    pub(super) skip: usize,
    /// Hash of the skipped part.
    seal: String,
    pub(super) most: usize,
}

impl Page {
    pub(super) fn new(most: usize, cursor: Option<&str>) -> Result<Page, GitError> {
        let Some(cursor) = cursor else {
            return Ok(Page { skip: 0, seal: seal(b""), most });
        };
        let parts = cursor.split_once('.').and_then(|(skip, seal)| {
            let skip = skip.parse().ok().filter(|skip| *skip <= FARTHEST)?;
            Some(Page { skip, seal: seal.to_owned(), most })
        });
        parts.ok_or_else(|| GitError::bad("cursor", "it is not a cursor of an earlier response"))
    }

    /// The page, and the start of the next one. `cut`: the text was truncated.
    pub(super) fn of(&self, text: &[u8], cut: bool) -> Result<(Vec<u8>, Option<String>), GitError> {
        let (before, rest) = text.split_at_checked(self.skip).ok_or(GitError::Stale)?;
        if seal(before) != self.seal {
            return Err(GitError::Stale);
        }
        if rest.len() <= self.most && !cut {
            return Ok((rest.to_vec(), None));
        }
        let page = &rest[..rest.len().min(self.most)];
        let page = &page[..whole(page)];
        let end = self.skip + page.len();
        let cursor = format!("{end}.{}", seal(&text[..end]));
        Ok((page.to_vec(), Some(cursor)))
    }
}

/// Length up to the last line end; for a line longer than a page, up to the last whole character.
fn whole(page: &[u8]) -> usize {
    let lines = page.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
    lines.unwrap_or_else(|| match std::str::from_utf8(page) {
        Err(cut) if cut.error_len().is_none() && cut.valid_up_to() > 0 => cut.valid_up_to(),
        Err(_) | Ok(_) => page.len(),
    })
}

/// Hash of the skipped part, to detect changes.
fn seal(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The files with their counts, and the text after them. `None` for an unknown record; a truncated one is left
/// out.
pub fn split(bytes: &[u8]) -> Option<(Vec<FileDiff>, &[u8])> {
    let mut files: Vec<FileDiff> = Vec::new();
    let mut places: HashMap<&[u8], Vec<usize>> = HashMap::new();
    let mut rest = bytes;
    while let Some(record) = next(&mut rest) {
        match record.first() {
            Some(b':') => {
                let change = changed(record)?;
                let Some((path, from)) = names(change, &mut rest) else { break };
                places.entry(path).or_default().push(files.len());
                let (path, from) = (path.into(), from.map(Name::from));
                files.push(FileDiff { path, from, change, lines: None, filtered: false });
            }
            Some(_) => {
                let (lines, path) = counted(record)?;
                let Some(path) = path.or_else(|| next(&mut rest).and_then(|_| next(&mut rest)))
                else {
                    break;
                };
                // A file with conflicts may have several counts; the last is the difference from our side.
                places.get(path).into_iter().flatten().for_each(|at| files[*at].lines = lines);
            }
            // An empty field separates the counts from the text.
            None => return Some((files, rest)),
        }
    }
    Some((files, &[]))
}

/// The next field; a field without an end was truncated.
fn next<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|byte| *byte == 0)?;
    let field = &rest[..end];
    *rest = &rest[end + 1..];
    Some(field)
}

/// `:100644 100644 0123456 abcdef0 R100`: mode and hash of the old and the new side. A conflict has several old
/// sides, each with a colon, a mode, a hash and a letter: `::100644 100644 100644 0123456 abcdef0 0000000 MM`.
fn changed(record: &[u8]) -> Option<Change> {
    let before = record.iter().take_while(|byte| **byte == b':').count();
    let status = record.split(|byte| *byte == b' ').nth(2 * (before + 1))?;
    let change = Change::of(*status.first()?)?;
    Some(if before == 1 { change } else { Change::Unmerged })
}

/// The path, and its old path if that differs.
fn names<'a>(change: Change, rest: &mut &'a [u8]) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let first = next(rest)?;
    match change {
        Change::Renamed | Change::Copied => Some((next(rest)?, Some(first))),
        Change::Added
        | Change::Modified
        | Change::Deleted
        | Change::TypeChanged
        | Change::Unmerged => Some((first, None)),
    }
}

/// `3\t1\tpath`, or for a rename `3\t1\t` followed by both paths; `-` for a binary file.
fn counted(record: &[u8]) -> Option<(Lines, Option<&[u8]>)> {
    let mut parts = record.splitn(3, |byte| *byte == b'\t');
    let (added, deleted, path) = (parts.next()?, parts.next()?, parts.next()?);
    let lines = Option::zip(number(added), number(deleted));
    Some((lines, Some(path).filter(|path| !path.is_empty())))
}

/// Lines added and deleted in all files.
pub(super) fn total(files: &[FileDiff]) -> (u64, u64) {
    let lines = files.iter().filter_map(|file| file.lines);
    lines.fold((0, 0), |sum, lines| (sum.0 + lines.0, sum.1 + lines.1))
}

/// The hash of the empty tree, in the hash format of the repository.
pub(super) fn empty_tree(hash: &str) -> String {
    match hash.len() {
        64 => "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321".into(),
        _ => "4b825dc642cb6eb9a060e54bf8d69288fbee4904".into(),
    }
}

/// Parses an entry of `ls-files --stage`: mode, hash, stage, path.
pub(super) fn staged(record: &[u8]) -> Option<(String, String, u8, Name)> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    let (words, path) = (&record[..tab], &record[tab + 1..]);
    let mut words = words.split(|byte| *byte == b' ');
    let (mode, hash) = (output_fields::text(words.next()?), output_fields::hash(words.next()?)?);
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
        let (files, text) = split(output).unwrap();
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
        assert_eq!(split(b""), Some((vec![], &b""[..])));
        for cut in 0..output.len() {
            assert!(split(&output[..cut]).is_some(), "{cut}");
        }
    }

    #[test]
    fn sides_of_a_conflict_are_one_file_and_nothing_behind_it_is_lost() {
        let output = b"::100644 100644 100644 1 2 0 MM\0f\0:::100644 100644 000000 100644 1 2 3 0 MAM\0three\0\
            :000000 100644 0 0 U\0gone\0:100644 100644 1 0 M\0kept\x000\t0\tgone\x001\t0\tkept\0\0* Unmerged path gone\n";
        let (files, text) = split(output).unwrap();
        assert_eq!(
            files,
            [
                file(b"f", None, Change::Unmerged, None),
                file(b"three", None, Change::Unmerged, None),
                file(b"gone", None, Change::Unmerged, Some((0, 0))),
                file(b"kept", None, Change::Modified, Some((1, 0))),
            ]
        );
        assert_eq!(text, b"* Unmerged path gone\n");
        assert!(split(b"::100644 100644 100644 1 2 0 MM\0f\0").is_some(), "it is all there is");
        for odd in ["nonsense", ":100644 100644 1 2", ":100644 100644 1 2 ?", "::1 1 1 1 M", "1\t2"]
        {
            let bytes = format!(":100644 100644 1 2 M\0a\0{odd}\0x\0");
            assert_eq!(split(bytes.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn pages_join_without_a_gap_and_notice_a_change() {
        let text = b"one\ntwo\nthree is long\nfour\n";
        let page =
            |cursor: Option<String>, text: &[u8]| Page::new(9, cursor.as_deref())?.of(text, false);
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
        assert_eq!(page(None, "12345678ü".as_bytes()).unwrap().0, b"12345678", "no half letters");
        assert_eq!(page(None, b"12345678\xff\xff\xff").unwrap().0, b"12345678\xff");
        let (_, cursor) = page(None, text).unwrap();
        assert!(matches!(page(cursor.clone(), b"ONE\ntwo\nmore\n"), Err(GitError::Stale)));
        assert!(matches!(page(cursor, b""), Err(GitError::Stale)));
        for bad in ["", "x", "-1.a", "99999999999.a", "5"] {
            assert!(matches!(page(Some(bad.into()), text), Err(GitError::Bad { .. })), "{bad}");
        }
    }
}
