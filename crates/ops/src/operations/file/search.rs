//! `file.search`: searches the contents of files.

use super::list::rest;
use crate::error::OpError;
use crate::file::{CurrentFolder, IncludeFlags, page_bytes, wanted};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Page, Show, Style};
use proctor_engine::files::{Case, FoundFile, FoundLine, ResultKind, SearchQuery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use std::time::Duration;

/// Default maximum of matches in one response.
const USUAL: usize = 200;
const MAX_MATCHES: usize = 10_000;

/// Default maximum length of a line in bytes. Minified files have lines of megabytes.
const USUAL_LINE: usize = 300;
const MAX_LINE_BYTES: usize = 64 << 10;

/// Maximum context lines before and after a match.
const MAX_CONTEXT: usize = 100;

/// Maximum duration. A tree of gigabytes takes a while.
const MAX_SEARCH_TIME: Duration = Duration::from_secs(300);

pub struct FileSearch;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Regular expression; with `literal`, plain text
    #[arg(value_name = "PATTERN")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Folders and files to search; every root if omitted
    #[arg(
        value_name = "PATH",
        help = "Folders and files to search; the current folder or every root if omitted"
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// A single folder or file, instead of `paths`
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Treat the pattern as plain text, not as a regular expression
    #[arg(long, short = 'F')]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub literal: bool,
    /// Case: sensitive if omitted
    #[arg(long, value_enum, value_name = "CASE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case: Option<CaseWord>,
    /// Ignore case, as with `case` insensitive
    #[arg(long, short = 'i', conflicts_with = "case")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignore_case: bool,
    /// Match whole words only
    #[arg(long, short = 'w')]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub word: bool,
    /// Return lines that do not match
    #[arg(long, short = 'v')]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub invert: bool,
    /// Allow matches over several lines; `.` still stops at a newline unless `(?s)` is used
    #[arg(long, short = 'U')]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub multiline: bool,
    /// Context lines before and after each match (maximum 100)
    #[arg(long, short = 'C', value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<usize>,
    /// Context lines before each match, instead of `context`
    #[arg(long, short = 'B', value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<usize>,
    /// Context lines after each match, instead of `context`
    #[arg(long, short = 'A', value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<usize>,
    /// Only files that match one of these globs: `*.rs`, `src/**`; a leading `!` excludes
    #[arg(long = "glob", short = 'g', value_name = "GLOB")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub globs: Vec<String>,
    /// Only files of these types: rust, py, js, …; a leading `!` excludes
    #[arg(long = "type", short = 't', value_name = "TYPE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub also: IncludeFlags,
    /// Result for a file with a match; its lines if omitted
    #[arg(long, value_enum, value_name = "WHAT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tell: Option<SearchOutput>,
    /// Names of files with a match, as `--tell files`
    #[arg(long = "files-with-matches", short = 'l', conflicts_with = "tell")]
    #[serde(
        rename(serialize = "tell"),
        serialize_with = "SearchOutput::files",
        skip_deserializing,
        skip_serializing_if = "std::ops::Not::not"
    )]
    #[schemars(skip)]
    pub only_files: bool,
    /// Number of matching lines of each file, as `--tell counts`
    #[arg(long = "count", short = 'c', conflicts_with_all = ["tell", "only_files"])]
    #[serde(
        rename(serialize = "tell"),
        serialize_with = "SearchOutput::counts",
        skip_deserializing,
        skip_serializing_if = "std::ops::Not::not"
    )]
    #[schemars(skip)]
    pub only_counts: bool,
    /// Maximum number of matches, or of files if no lines are returned
    #[arg(
        long,
        value_name = "COUNT",
        help = "Maximum number of matches, or of files if no lines are returned (default 200)"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<usize>,
    /// Maximum length of a line in bytes (default 300)
    #[arg(long, value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_line: Option<usize>,
    /// Maximum response size in bytes; continue with the cursor
    #[arg(long, value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<usize>,
    /// Cursor from an earlier response
    #[arg(long, value_name = "CURSOR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub here: CurrentFolder,
}

/// Case sensitivity.
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

/// Result for a file with a match.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SearchOutput {
    Lines,
    /// Number of matching lines
    Counts,
    /// Only the name
    Files,
}

impl SearchOutput {
    fn files<S: Serializer>(_: &bool, to: S) -> Result<S::Ok, S::Error> {
        SearchOutput::Files.serialize(to)
    }

    fn counts<S: Serializer>(_: &bool, to: S) -> Result<S::Ok, S::Error> {
        SearchOutput::Counts.serialize(to)
    }
}

impl From<SearchOutput> for ResultKind {
    fn from(tell: SearchOutput) -> ResultKind {
        match tell {
            SearchOutput::Lines => ResultKind::Lines,
            SearchOutput::Counts => ResultKind::Counts,
            SearchOutput::Files => ResultKind::Files,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Files with a match, sorted by name
    pub files: Vec<FileMatches>,
    /// Number of matching lines in this response
    pub matches: u64,
    /// Number of files searched
    pub searched: u64,
    /// More matches follow; continue with the cursor
    pub more: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Number of files and folders that could not be read
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<u64>,
}

/// A file with a match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileMatches {
    pub path: String,
    /// Number of matching lines; omitted with `tell: files`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<LineView>,
}

/// A line that matches, or a context line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LineView {
    /// Line number, from 1
    pub line: u64,
    /// Start of the match in bytes, from 1; omitted for a context line
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    pub text: String,
    /// The line was cut
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Number of further lines of the match that are not included
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
This uses ripgrep: its regular expressions, its names of file types, its rules for ignored files.

Examples:
  proctor file search 'fn \\w+_test' src --type rust
  proctor file search -F 'connect(' --context 2
  proctor file search -i deprecated --count
  proctor file search todo src tests -l",
        timeout: MAX_SEARCH_TIME,
        ..Meta::of("file.search", Effect::Read, Target::Nothing)
            .needing(Role::Operator)
            .with_folder()
            .whole()
    };

    async fn run(context: &Context, mut input: Input) -> Result<Output, OpError> {
        let near = |own: Option<usize>| own.or(input.context).unwrap_or(0).min(MAX_CONTEXT);
        let want = input.tell.map_or(ResultKind::Lines, ResultKind::from);
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
            most: input.most.unwrap_or(USUAL).clamp(1, MAX_MATCHES),
            max_bytes: page_bytes(input.max_bytes),
            max_line: input.max_line.unwrap_or(USUAL_LINE).clamp(1, MAX_LINE_BYTES),
            cursor: input.cursor,
        };
        input.paths.extend(input.path);
        let page = input.here.files(context).await?.search(input.paths, query).await?;
        let matches = match want {
            ResultKind::Lines | ResultKind::Counts => {
                page.files.iter().map(|file| file.matches).sum()
            }
            ResultKind::Files => page.files.len() as u64,
        };
        let file = |file: FoundFile| FileMatches {
            path: file.path,
            matches: (want != ResultKind::Files).then_some(file.matches),
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

/// Prints as ripgrep does: a colon after a match, a dash after a context line, a separator between groups.
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
