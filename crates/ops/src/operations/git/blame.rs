//! `git.blame`: shows the commit that last changed each line.

use crate::error::OpError;
use crate::git::{InRepository, Purpose, RepositoryInput, at, brief, count, text_size};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Page, Show, Style};
use proctor_engine::git::{BlameQuery, BlamedLines};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const USUAL_LINES: usize = 200;
const MAX_LINES: usize = 5000;

pub struct GitBlame;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// File, relative to the top of the repository
    #[arg(value_name = "PATH", required = true, help = "File to annotate")]
    pub path: String,
    /// Revision of the file; the work tree if omitted
    #[arg(long, value_name = "REV")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rev: Option<String>,
    /// First line (default 1)
    #[arg(long, value_name = "LINE")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Maximum number of lines (default 200)
    #[arg(long, value_name = "COUNT")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Maximum response size in bytes
    #[arg(long, value_name = "BYTES")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<usize>,
    #[command(flatten)]
    #[serde(flatten)]
    pub place: RepositoryInput,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    pub runs: Vec<Run>,
    /// Number of the next line, if there are more
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_line: Option<u64>,
}

/// Consecutive lines from one commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Commit hash; omitted for uncommitted lines
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    pub author: String,
    /// Commit time in RFC 3339
    pub at: String,
    pub subject: String,
    /// Number of the first line
    pub line: u64,
    pub lines: Vec<String>,
}

impl Operation for GitBlame {
    type Input = Input;
    type Output = InRepository<Output>;
    const META: Meta = Meta {
        cli: &["git", "blame"],
        summary: "Show the commit and author that last changed each line",
        details: "\
Examples:
  proctor git blame src/main.rs
  proctor git blame src/main.rs --line 100 --limit 20
  proctor git blame src/main.rs --rev v1.0",
        role: Role::Operator,
        ..Meta::of("git.blame", Effect::Read, Target::Nothing).long().with_folder()
    };

    async fn run(context: &Context, input: Input) -> Result<InRepository<Output>, OpError> {
        let count = count("limit", input.limit, USUAL_LINES, MAX_LINES)? as u64;
        let first = input.line.unwrap_or(1);
        if first == 0 || i32::try_from(first).is_err() {
            return Err(OpError::bad_input("line: lines are counted from 1"));
        }
        let room = input.max_bytes.map_or(usize::MAX, |asked| text_size(Some(asked)));
        let Input { path, rev: revision, place, .. } = input;
        let query = BlameQuery { path, revision, first, count };
        let (repository, told) = place.open(context, Purpose::Look).await?;
        let blame = repository.blame(&query).await?;
        let mut runs: Vec<Run> = blame.runs.into_iter().map(Run::from).collect();
        let cut = shorten(&mut runs, room);
        Ok(told.with(Output { runs, next_line: cut.or(blame.next) }))
    }
}

/// Bytes that a line adds to the response besides its text.
const AROUND_A_LINE: usize = 10;

/// Bytes that a commit adds to the response besides its fields.
const AROUND_A_RUN: usize = 120;

/// Keeps as many lines as fit, at least one. Returns the first line that was left out.
fn shorten(runs: &mut Vec<Run>, room: usize) -> Option<u64> {
    let mut taken = 0;
    for at in 0..runs.len() {
        let run = &mut runs[at];
        taken += run.author.len() + run.subject.len() + AROUND_A_RUN;
        for line in 0..run.lines.len() {
            taken += run.lines[line].len() + AROUND_A_LINE;
            if taken > room && (at, line) != (0, 0) {
                let next = run.line + line as u64;
                run.lines.truncate(line);
                runs.truncate(if line == 0 { at } else { at + 1 });
                return Some(next);
            }
        }
    }
    None
}

impl From<BlamedLines> for Run {
    fn from(blamed: BlamedLines) -> Run {
        let committed = blamed.hash.bytes().any(|byte| byte != b'0');
        let text = |line: Vec<u8>| String::from_utf8_lossy(&line).into_owned();
        Run {
            hash: committed.then_some(blamed.hash),
            author: blamed.author,
            at: at(blamed.authored),
            subject: blamed.summary,
            line: blamed.line,
            lines: blamed.lines.into_iter().map(text).collect(),
        }
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        for run in &self.runs {
            let at = page.moment(&run.at);
            let line = page.line();
            match &run.hash {
                Some(hash) => line
                    .name(brief(hash))
                    .plain(format!(" {}", run.author))
                    .dim(format!("  {at}  {}", run.subject)),
                None => line.add(Style::Warn, "not committed yet"),
            };
            for (number, text) in (run.line..).zip(&run.lines) {
                page.code(&format!("{number:6}  {text}\n"), |_| Style::Plain);
            }
        }
        if let Some(next) = self.next_line {
            page.line().dim(format!("more lines follow: continue with line {next}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: u64, lines: usize) -> Run {
        let [author, at, subject] = ["a", "", "s"].map(str::to_owned);
        Run { hash: None, author, at, subject, line, lines: vec!["x".repeat(90); lines] }
    }

    #[test]
    fn lines_end_where_there_is_no_room_and_the_next_is_named() {
        for (room, kept, next) in [
            (100_000, vec![5, 3], None),
            (1, vec![1], Some(2)),
            (400, vec![2], Some(3)),
            (650, vec![5], Some(6)),
            (860, vec![5, 1], Some(7)),
        ] {
            let mut runs = vec![run(1, 5), run(6, 3)];
            assert_eq!(shorten(&mut runs, room), next, "{room}");
            assert_eq!(runs.iter().map(|run| run.lines.len()).collect::<Vec<_>>(), kept, "{room}");
        }
    }
}
