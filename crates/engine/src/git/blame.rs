//! Authors of lines, from `git blame --porcelain`.

use super::Repository;
use super::call::GitCall;
use super::error::GitError;
use super::output_fields::{self, brief, number};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Maximum size of a response, lines and authors together.
const MAX_OUTPUT_BYTES: usize = 4 << 20;

#[derive(Debug, Clone, Default)]
pub struct BlameQuery {
    pub path: String,
    /// Revision to read; the work tree if not given.
    pub revision: Option<String>,
    /// First line, from 1.
    pub first: u64,
    /// Maximum number of lines.
    pub count: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blame {
    pub runs: Vec<BlamedLines>,
    /// The next line, if there are more.
    pub next: Option<u64>,
}

/// Consecutive lines of one commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlamedLines {
    /// All zeros for uncommitted lines.
    pub hash: String,
    pub author: String,
    /// Seconds since 1970.
    pub authored: i64,
    pub summary: String,
    /// Number of the first line.
    pub line: u64,
    pub lines: Vec<Vec<u8>>,
}

impl Repository {
    pub async fn blame(&self, query: &BlameQuery) -> Result<Blame, GitError> {
        let path = self.path("path", &query.path)?;
        // One line more than requested shows whether there are more.
        let range = format!("{},+{}", query.first, query.count.saturating_add(1));
        let call = GitCall::reading(&["blame", "--porcelain", "--no-textconv", "--no-progress"]);
        // `blame.ignoreRevsFile` would make git read any file and quote its lines in errors. An empty setting
        // from the environment does not help: git sorts it before the setting and ignores it.
        let call = call.args(["--no-ignore-revs-file", "-L"]).arg(range);
        let call = match &query.revision {
            Some(revision) => call.arg(self.commit_of(revision).await?),
            // Git itself would follow a link on the way to the file.
            None => {
                self.need_worktree().await?;
                let path = path.clone();
                let file = self.in_worktree(move |tree| tree.open(&path)).await?;
                call.args(["--contents", "-"]).input_of(file)
            }
        };
        let call = call.arg("--").arg(OsStr::from_bytes(&path.0)).most(MAX_OUTPUT_BYTES);
        let said = self.run(call).await?;
        match has_only(&said.err).filter(|_| said.code != 0) {
            // The file is empty.
            Some(_) if query.first == 1 => return Ok(Blame::default()),
            Some(lines) => {
                let why = format!("'{}' has {lines}", path.text());
                return Err(GitError::bad("line", why));
            }
            None => {}
        }
        let said = said.good()?;
        let mut blame = parse(&said.out, query.first, query.count, said.cut);
        let uncommitted = |run: &&mut BlamedLines| run.hash.bytes().all(|byte| byte == b'0');
        for run in blame.runs.iter_mut().filter(uncommitted) {
            // Git names its standard input here; say the work tree instead.
            run.author = "Not Committed Yet".into();
            run.summary = format!("Version of {0} from {0}", brief(&path.0));
        }
        Ok(blame)
    }
}

/// `fatal: file src/a has only 9 lines`
fn has_only(complaint: &str) -> Option<&str> {
    let (_, lines) = complaint.rsplit_once("has only ")?;
    Some(lines.trim_end()).filter(|lines| lines.ends_with(" lines") || lines.ends_with(" line"))
}

/// Parses lines from `first` on, at most `count`. `cut`: the output was truncated.
pub fn parse(bytes: &[u8], first: u64, count: u64, cut: bool) -> Blame {
    let mut known: HashMap<String, BlamedLines> = HashMap::new();
    let mut blame = Blame::default();
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let mut next_line = first;
    while let Some(head) = lines.next() {
        let Some((hash, line)) = header(head) else { continue };
        let about = known
            .entry(hash.clone())
            .or_insert_with(|| BlamedLines { hash, ..BlamedLines::default() });
        let Some(content) = lines.by_ref().find_map(|line| match line.strip_prefix(b"\t") {
            Some(content) => Some(content),
            None => {
                describe(about, line);
                None
            }
        }) else {
            break;
        };
        let whole = content.ends_with(b"\n") || !cut;
        if line >= first.saturating_add(count) || !whole {
            blame.next = Some(line);
            return blame;
        }
        let content = content.strip_suffix(b"\n").unwrap_or(content).to_vec();
        match blame.runs.last_mut() {
            Some(run) if run.hash == about.hash && line == next_line => run.lines.push(content),
            _ => blame.runs.push(BlamedLines { line, lines: vec![content], ..about.clone() }),
        }
        next_line = line + 1;
    }
    if cut {
        blame.next = Some(next_line);
    }
    blame
}

/// `hash original-line line [lines-in-group]`
fn header(line: &[u8]) -> Option<(String, u64)> {
    let mut words = line.trim_ascii_end().split(|byte| *byte == b' ');
    Some((output_fields::hash(words.next()?)?, number(words.nth(1)?)?))
}

fn describe(about: &mut BlamedLines, line: &[u8]) {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let Some(at) = line.iter().position(|byte| *byte == b' ') else { return };
    let (key, value) = (&line[..at], &line[at + 1..]);
    match key {
        b"author" => about.author = brief(value),
        b"author-time" => about.authored = number(value).unwrap_or(0),
        b"summary" => about.summary = brief(value),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "0123456789abcdef0123456789abcdef01234567";
    const B: &str = "1123456789abcdef0123456789abcdef01234567";

    fn output() -> String {
        format!(
            "{A} 1 1 2\nauthor J\nauthor-mail <j>\nauthor-time 5\nsummary one two\nfilename a\n\tfirst\n{A} 2 2\n\t\tsecond\n\
             {B} 1 3 1\nauthor K\nauthor-time 6\nsummary {A} 9 9\nfilename a\n\tthird\n{A} 4 4 1\n\tfourth"
        )
    }

    #[test]
    fn lines_in_a_row_of_one_commit_are_one_run() {
        let blame = parse(output().as_bytes(), 1, 10, false);
        let run =
            |hash: &str, author: &str, authored, summary: &str, line, lines: &[&str]| BlamedLines {
                hash: hash.into(),
                author: author.into(),
                authored,
                summary: summary.into(),
                line,
                lines: lines.iter().map(|line| line.as_bytes().to_vec()).collect(),
            };
        assert_eq!(
            blame.runs,
            [
                run(A, "J", 5, "one two", 1, &["first", "\tsecond"]),
                run(B, "K", 6, &format!("{A} 9 9"), 3, &["third"]),
                run(A, "J", 5, "one two", 4, &["fourth"]),
            ]
        );
        assert_eq!(blame.next, None);
    }

    #[test]
    fn a_commit_with_a_long_line_is_not_copied_for_every_line() {
        let mut text = format!("{A} 1 1 1\nsummary {}\n\tx\n", "s".repeat(1 << 20));
        for line in 2..=2000 {
            let hash = if line % 2 == 0 { B } else { A };
            text.push_str(&format!("{hash} 1 {line} 1\n\tx\n"));
        }
        let blame = parse(text.as_bytes(), 1, 5000, false);
        assert_eq!(blame.runs.len(), 2000);
        assert_eq!(blame.runs[2].summary, format!("{}…", "s".repeat(200)));
    }

    #[test]
    fn what_is_left_out_begins_at_the_next_line() {
        let two = parse(output().as_bytes(), 1, 2, false);
        assert_eq!((two.runs.len(), two.next), (1, Some(3)));
        let cut = parse(output().as_bytes(), 1, 10, true);
        assert_eq!((cut.runs.len(), cut.next), (2, Some(4)), "half a line is none");
        for end in 0..output().len() {
            parse(&output().as_bytes()[..end], 1, 10, true);
        }
    }
}
