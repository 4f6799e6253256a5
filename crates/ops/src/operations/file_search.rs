//! `file.search`: files by what is in them.

use super::file_list::rest;
use crate::error::OpError;
use crate::file::{Also, Here, page_bytes, wanted};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::show::{Page, Show, Style};
use proctor_engine::files::{Case, FoundFile, FoundLine, SearchQuery, Want};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use std::time::Duration;

/// Matches in one answer, where nobody says how many.
const USUAL: usize = 200;
const MOST: usize = 10_000;

/// Of a line: enough to see what it is about. Minified files have lines of megabytes.
const USUAL_LINE: usize = 300;
const LONGEST_LINE: usize = 64 << 10;

/// Lines before and after a match.
const MOST_CONTEXT: usize = 100;

/// A tree of gigabytes takes a while.
const LONGEST: Duration = Duration::from_secs(300);

pub struct FileSearch;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// A regular expression; with `literal` a text
    #[arg(value_name = "PATTERN")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// In these folders and files; in every root if not given
    #[arg(
        value_name = "PATH",
        help = "In these folders and files; where you are if not given, or in every root"
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// In this folder or file, instead of a list
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The pattern is a text, not a regular expression
    #[arg(long, short = 'F')]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub literal: bool,
    /// Upper and lower case: different, if not given
    #[arg(long, value_enum, value_name = "CASE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case: Option<CaseWord>,
    /// Take upper and lower case for the same, as with `case` insensitive
    #[arg(long, short = 'i', conflicts_with = "case")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignore_case: bool,
    /// Only whole words
    #[arg(long, short = 'w')]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub word: bool,
    /// Lines that do not match
    #[arg(long, short = 'v')]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub invert: bool,
    /// A match may go over several lines; `.` still stops at the end of one, `(?s)` lets it go on
    #[arg(long, short = 'U')]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub multiline: bool,
    /// Also this many lines before and after each match, 100 at most
    #[arg(long, short = 'C', value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<usize>,
    /// Lines before each match, instead of `context`
    #[arg(long, short = 'B', value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<usize>,
    /// Lines after each match, instead of `context`
    #[arg(long, short = 'A', value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<usize>,
    /// Only files that fit one of these: `*.rs`, `src/**`; those after a `!` are left out
    #[arg(long = "glob", short = 'g', value_name = "GLOB")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub globs: Vec<String>,
    /// Only files of these kinds: rust, py, js, …; those after a `!` are left out
    #[arg(long = "type", short = 't', value_name = "TYPE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub also: Also,
    /// What to tell of a file with a match; its lines, if not given
    #[arg(long, value_enum, value_name = "WHAT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tell: Option<Tell>,
    /// The names of files with a match, as `--tell files`
    #[arg(long = "files-with-matches", short = 'l', conflicts_with = "tell")]
    #[serde(
        rename(serialize = "tell"),
        serialize_with = "Tell::files",
        skip_deserializing,
        skip_serializing_if = "std::ops::Not::not"
    )]
    #[schemars(skip)]
    pub only_files: bool,
    /// How many lines of each file match, as `--tell counts`
    #[arg(long = "count", short = 'c', conflicts_with_all = ["tell", "only_files"])]
    #[serde(
        rename(serialize = "tell"),
        serialize_with = "Tell::counts",
        skip_deserializing,
        skip_serializing_if = "std::ops::Not::not"
    )]
    #[schemars(skip)]
    pub only_counts: bool,
    /// At most so many matches, or, without lines, files
    #[arg(
        long,
        value_name = "COUNT",
        help = "At most so many matches, or, without lines, files (200 if not given)"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<usize>,
    /// Show no more than this of a line (300 bytes if not given)
    #[arg(long, value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_line: Option<usize>,
    /// As much as this in one answer; the rest by cursor
    #[arg(long, value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<usize>,
    /// Go on from where an earlier answer ended
    #[arg(long, value_name = "CURSOR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub here: Here,
}

/// Upper and lower case.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CaseWord {
    Sensitive,
    Insensitive,
    /// Insensitive, unless the pattern has a capital letter
    Smart,
}

impl From<CaseWord> for Case {
    fn from(word: CaseWord) -> Case {
        match word {
            CaseWord::Sensitive => Case::Sensitive,
            CaseWord::Insensitive => Case::Insensitive,
            CaseWord::Smart => Case::Smart,
        }
    }
}

/// What is told of a file with a match.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Tell {
    Lines,
    /// How many lines match
    Counts,
    /// Only that there is one
    Files,
}

impl Tell {
    fn files<S: Serializer>(_: &bool, to: S) -> Result<S::Ok, S::Error> {
        Tell::Files.serialize(to)
    }

    fn counts<S: Serializer>(_: &bool, to: S) -> Result<S::Ok, S::Error> {
        Tell::Counts.serialize(to)
    }
}

impl From<Tell> for Want {
    fn from(tell: Tell) -> Want {
        match tell {
            Tell::Lines => Want::Lines,
            Tell::Counts => Want::Counts,
            Tell::Files => Want::Files,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Files with a match, in the order of names
    pub files: Vec<FileMatches>,
    /// Lines that match, of those told here
    pub matches: u64,
    /// Files that were looked into
    pub searched: u64,
    /// There is more: go on with the cursor
    pub more: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Files and folders that could not be read
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<u64>,
}

/// A file with a match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileMatches {
    pub path: String,
    /// Lines that match; left out with `tell: files`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<LineView>,
}

/// A line that matches, or one near it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LineView {
    /// From 1
    pub line: u64,
    /// Where the match begins, in bytes from 1; left out for a line that is only near one
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    pub text: String,
    /// The line is longer than this
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// The match goes on for so many lines that are not told here
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub further: Option<u64>,
}

impl From<FoundLine> for LineView {
    fn from(found: FoundLine) -> LineView {
        let FoundLine { number, column, text, cut, further, .. } = found;
        LineView { line: number, column, text, cut, further: Some(further).filter(|it| *it > 0) }
    }
}

impl Operation for FileSearch {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["file", "search"],
        summary: "Search the contents of files",
        details: "\
It is ripgrep that searches: its regular expressions, its names for types of files, its rules about what is left out.

Examples:
  proctor file search 'fn \\w+_test' src --type rust
  proctor file search -F 'connect(' --context 2
  proctor file search -i deprecated --count
  proctor file search todo src tests -l",
        timeout: LONGEST,
        ..Meta::of("file.search", Effect::Read, Target::Nothing).needing(Role::Operator).with_folder().whole()
    };

    async fn run(context: &Context, mut input: Input) -> Result<Output, OpError> {
        let near = |own: Option<usize>| own.or(input.context).unwrap_or(0).min(MOST_CONTEXT);
        let want = input.tell.map_or(Want::Lines, Want::from);
        let query = SearchQuery {
            before: near(input.before),
            after: near(input.after),
            pattern: wanted("pattern", input.pattern)?,
            literal: input.literal,
            case: match input.case {
                Some(case) => case.into(),
                None if input.ignore_case => Case::Insensitive,
                None => Case::Sensitive,
            },
            word: input.word,
            invert: input.invert,
            multiline: input.multiline,
            globs: input.globs,
            types: input.types,
            leave_out: input.also.into(),
            want,
            most: input.most.unwrap_or(USUAL).clamp(1, MOST),
            max_bytes: page_bytes(input.max_bytes),
            max_line: input.max_line.unwrap_or(USUAL_LINE).clamp(1, LONGEST_LINE),
            cursor: input.cursor,
        };
        input.paths.extend(input.path);
        let page = input.here.files(context).await?.search(input.paths, query).await?;
        let matches = match want {
            Want::Lines | Want::Counts => page.files.iter().map(|file| file.matches).sum(),
            Want::Files => page.files.len() as u64,
        };
        let file = |file: FoundFile| FileMatches {
            path: file.path,
            matches: (want != Want::Files).then_some(file.matches),
            lines: file.lines.into_iter().map(LineView::from).collect(),
        };
        Ok(Output {
            files: page.files.into_iter().map(file).collect(),
            matches,
            searched: page.searched,
            more: page.cursor.is_some(),
            cursor: page.cursor,
            unreadable: Some(page.unreadable).filter(|count| *count > 0),
        })
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        for file in &self.files {
            match (file.lines.is_empty(), file.matches) {
                (true, Some(matches)) => {
                    page.line().name(&file.path).plain(format!(": {matches}"));
                }
                (true, None) => drop(page.line().name(&file.path)),
                (false, _) => show_lines(file, page),
            }
        }
        rest(page, self.files.is_empty(), self.cursor.as_deref());
        if let Some(count) = self.unreadable {
            page.remark(match count {
                1 => "1 file or folder could not be read".to_owned(),
                count => format!("{count} files or folders could not be read"),
            });
        }
    }
}

/// As ripgrep shows them: a colon where it matches, a dash near it, a line between what is apart.
fn show_lines(file: &FileMatches, page: &mut Page) {
    page.line().add(Style::Name, &file.path);
    let near = file.lines.iter().any(|line| line.column.is_none());
    let mut last = None;
    for line in &file.lines {
        if near && last.is_some_and(|last| line.line > last + 1) {
            page.line().dim("--");
        }
        last = Some(line.line);
        let mark = if line.column.is_some() { ':' } else { '-' };
        let end = if line.cut { "…" } else { "" };
        page.content(&format!("{}{end}\n", line.text), |_| format!("{}{mark}", line.line));
        if let Some(further) = line.further {
            page.line().dim(format!("… {further} further lines of this match"));
        }
    }
}
