//! Commits, newest first.

use super::Repository;
use super::arguments::{Range, literal, prose};
use super::call::{GitCall, SOME};
use super::error::GitError;
use super::output_fields::{self, brief, hash, number, records_or_half, some_text, text};

/// One field per line, and the multi-line message at the end.
const FORMAT: &str = "--format=tformat:%H%n%P%n%an%n%ae%n%at%n%ct%n%D%n%B";

/// The references that name a commit, as in git's default configuration.
const DECORATING: [&str; 5] = ["HEAD", "refs/heads/", "refs/remotes/", "refs/tags/", "refs/stash"];

/// Maximum number of bytes of a message: several times what a commit here accepts.
const MESSAGE: usize = 256 << 10;

/// Maximum number of commits skipped by a cursor.
const FARTHEST: usize = 10_000_000;

#[derive(Debug, Clone, Default)]
pub struct LogFilter {
    /// Start, or `A..B`; the current commit if not given.
    pub revision: Option<String>,
    pub paths: Vec<String>,
    /// Follow the one path through renames.
    pub follow: bool,
    /// Extended regular expressions that ignore case.
    pub author: Option<String>,
    pub grep: Option<String>,
    /// Seconds since 1970.
    pub since: Option<i64>,
    pub until: Option<i64>,
    pub limit: usize,
    /// From an earlier response.
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Log {
    pub commits: Vec<Commit>,
    /// Position to continue at, if there is more.
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commit {
    pub hash: String,
    pub parents: Vec<String>,
    pub author: String,
    pub email: String,
    /// Seconds since 1970.
    pub authored: i64,
    pub committed: i64,
    /// Branches and tags that name it.
    pub refs: Option<String>,
    pub subject: String,
    /// The message without its first line.
    pub body: Option<String>,
    /// The message was truncated.
    pub cut: bool,
}

impl Repository {
    pub async fn log(&self, filter: &LogFilter) -> Result<Log, GitError> {
        let place = match (&filter.cursor, &filter.revision) {
            (Some(cursor), _) => LogCursor::parse(cursor)?,
            (None, Some(revision)) => self.beginning(revision).await?,
            (None, None) => match self.head().await? {
                Some(start) => LogCursor { start, without: None, skip: 0 },
                None => return Ok(Log::default()),
            },
        };
        let call = self.log_call(filter, &place)?;
        let said = self.ask(call).await?;
        let mut records = records_or_half(&said.out);
        let more = records.len() > filter.limit || said.cut;
        records.truncate(filter.limit);
        let cursor = more.then(|| place.after(records.len()));
        Ok(Log { commits: records.into_iter().filter_map(commit).collect(), cursor })
    }

    /// The start of a log; for a range, commits of its end that its beginning lacks.
    async fn beginning(&self, revision: &str) -> Result<LogCursor, GitError> {
        let (start, without) = match Range::parse(revision).filter(|range| !range.parting) {
            Some(Range { from, to, .. }) => (to, Some(self.commit_of(from).await?)),
            None => (revision, None),
        };
        Ok(LogCursor { start: self.commit_of(start).await?, without, skip: 0 })
    }

    fn log_call(&self, filter: &LogFilter, place: &LogCursor) -> Result<GitCall, GitError> {
        let paths = self.paths(&filter.paths)?;
        if filter.follow && paths.len() != 1 {
            return Err(GitError::bad("follow", "it takes one path"));
        }
        let mut call = plain_log().most(SOME).args([
            format!("--max-count={}", filter.limit.saturating_add(1)),
            format!("--skip={}", place.skip),
        ]);
        let patterns = [("author", &filter.author), ("grep", &filter.grep)];
        for (name, pattern) in patterns {
            if let Some(pattern) = pattern {
                prose(name, pattern)?;
                call = call.arg(format!("--{name}={pattern}"));
            }
        }
        if filter.author.is_some() || filter.grep.is_some() {
            call = call.args(["--extended-regexp", "--regexp-ignore-case", "--all-match"]);
        }
        for (name, moment) in [("since", filter.since), ("until", filter.until)] {
            call = call.args(moment.map(|seconds| format!("--{name}=@{seconds} +0000")));
        }
        call = call.args(filter.follow.then_some("--follow"));
        let without = place.without.as_ref().map(|hash| format!("^{hash}"));
        let call = call.arg(&place.start).args(without).arg("--");
        Ok(call.args(paths.iter().map(literal)))
    }

    /// One commit, by its hash or by a name of ours.
    pub(super) async fn commit(&self, hash: &str) -> Result<Commit, GitError> {
        let said = self.ask(plain_log().args(["--max-count=1", hash, "--"])).await?;
        let found = commits(&said.out).into_iter().next();
        found.ok_or_else(|| GitError::NoRevision(hash.to_owned()))
    }
}

fn plain_log() -> GitCall {
    let words = ["log", "-z", "--no-patch", "--no-show-signature", "--no-color", "--no-notes"];
    let call =
        GitCall::reading(&words).args(["--decorate=short", "--no-ext-diff", "--no-textconv"]);
    call.args(DECORATING.map(|name| format!("--decorate-refs={name}"))).arg(FORMAT)
}

/// The start of a page, the excluded commit, and the number of commits already seen.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LogCursor {
    start: String,
    without: Option<String>,
    skip: usize,
}

impl LogCursor {
    /// `START.SKIP`, or `START-WITHOUT.SKIP`
    fn parse(cursor: &str) -> Result<LogCursor, GitError> {
        let whole = |text: &str| hash(text.as_bytes()).filter(|hash| hash == text);
        let parts = cursor.split_once('.').and_then(|(commits, skip)| {
            let plain = skip.bytes().all(|byte| byte.is_ascii_digit());
            let skip = skip.parse().ok().filter(|skip| plain && *skip <= FARTHEST)?;
            let (start, without) = match commits.split_once('-') {
                Some((start, without)) => (start, Some(whole(without)?)),
                None => (commits, None),
            };
            Some(LogCursor { start: whole(start)?, without, skip })
        });
        parts.ok_or_else(|| GitError::bad("cursor", "it is not a cursor of an earlier response"))
    }

    /// The cursor after this many more commits.
    fn after(&self, more: usize) -> String {
        let without = self.without.iter().map(|hash| format!("-{hash}")).collect::<String>();
        format!("{}{without}.{}", self.start, self.skip + more)
    }
}

/// The commits of an output; a truncated one is left out unless it is the only one.
pub fn commits(bytes: &[u8]) -> Vec<Commit> {
    records_or_half(bytes).into_iter().filter_map(commit).collect()
}

/// Only the hash is required: the other fields are free text, including invalid dates.
fn commit(record: &[u8]) -> Option<Commit> {
    let mut lines = record.splitn(8, |byte| *byte == b'\n');
    let hash = output_fields::hash(lines.next()?)?;
    let mut line = || lines.next().unwrap_or_default();
    let parents = line().split(|byte| *byte == b' ').filter_map(output_fields::hash).collect();
    let (author, email) = (brief(line()), brief(line()));
    let mut date = || number(line()).unwrap_or(0);
    let (authored, committed) = (date(), date());
    let refs = some_text(line());
    let message = lines.next().map(text);
    let cut = message.as_ref().is_none_or(|message| message.len() > MESSAGE);
    let message = message.unwrap_or_default();
    let message = &message[..message.floor_char_boundary(MESSAGE)];
    let (subject, body) = message.split_once('\n').unwrap_or((message, ""));
    let body = Some(body.trim_matches('\n')).filter(|body| !body.is_empty()).map(str::to_owned);
    let subject = subject.to_owned();
    Some(Commit { hash, parents, author, email, authored, committed, refs, subject, body, cut })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn a_commit_is_read_from_its_lines() {
        let text = format!(
            "{A}\n{A} {A}\nJ. Doe\nj@x\n100\n-5\nHEAD -> main, tag: v1\nSubject\n\nBody\n\nmore\n\0{A}\n\n\n\n1\n2\n\n\0{A}\n\ncut"
        );
        let found = commits(text.as_bytes());
        let expected = Commit {
            hash: A.into(),
            parents: vec![A.into(), A.into()],
            author: "J. Doe".into(),
            email: "j@x".into(),
            authored: 100,
            committed: -5,
            refs: Some("HEAD -> main, tag: v1".into()),
            subject: "Subject".into(),
            body: Some("Body\n\nmore".into()),
            cut: false,
        };
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], expected);
        assert_eq!((found[1].parents.len(), found[1].subject.as_str()), (0, ""));
    }

    #[test]
    fn a_commit_is_told_whatever_somebody_wrote_into_it() {
        let long = "ü".repeat(MESSAGE);
        for (text, subject, cut) in [
            (format!("{A}\n\nJ\nj@x\n99999999999999999999\n\n\nNo date\n\0"), "No date", false),
            (format!("{A}\n\nJ\nj@x\n1\n2\n\n{long}\n\0"), &long[..MESSAGE], true),
            (format!("{A}\n\nJ\nj@x\n1\n2\n\ns\n\n{long}"), "s", true),
            (format!("{A}\n\nJ and no end"), "", true),
        ] {
            let [commit] = &commits(text.as_bytes())[..] else { panic!("{text}") };
            assert_eq!((commit.subject.as_str(), commit.cut), (subject, cut));
            assert_eq!(commit.author.get(..1), Some("J"));
        }
    }

    #[test]
    fn a_cursor_is_a_commit_and_a_number() {
        for without in [None, Some("f".repeat(40))] {
            let place = LogCursor { start: A.to_owned(), without, skip: 17 };
            let next = LogCursor { skip: 20, ..place.clone() };
            assert_eq!(LogCursor::parse(&place.after(3)).unwrap(), next);
        }
        for bad in [
            "",
            "main.3",
            "--all.0",
            &format!("{A}.-1"),
            &format!("{A}.+1"),
            &format!("{A}\n.1"),
            &format!("{A}-.1"),
            &format!("{A}---all.1"),
        ] {
            assert!(LogCursor::parse(bad).is_err(), "{bad}");
        }
    }
}
