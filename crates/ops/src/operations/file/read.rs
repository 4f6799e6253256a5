//! `file.read`: reads files, or parts of them, with their metadata.

use crate::error::{Code, OpError};
use crate::file::{CurrentFolder, FileProblem};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Page, Show, Style};
use crate::timestamps::rfc3339;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proctor_engine::files::{Content, ContentRange, FileError, ReadQuery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default maximum of all files together, the same as of a page of logs.
const USUAL_BYTES: usize = 256 << 10;
const MAX_BYTES: usize = 1 << 20;

/// Maximum of all pictures together: the most a model accepts at once, twice a screenshot.
const MAX_IMAGE_BYTES: u64 = 3 << 20;

/// Minimum of each file, regardless of their number.
const MIN_BYTES: usize = 1 << 10;

/// Maximum files in one request.
const MAX_FILES: usize = 100;

pub struct FileRead;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Files below a root: `path`, `ROOT:path` if there are several roots, or an absolute path
    #[arg(value_name = "PATH")]
    #[arg(help = "Files below a root: relative to the current folder, as ROOT:path, or absolute")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// A single file, instead of `paths`
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// First line to read, counted from 1
    #[arg(long, value_name = "LINE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Number of lines, from the start or from `from`
    #[arg(long, short = 'n', value_name = "COUNT", visible_alias = "head")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// Number of lines at the end
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["from", "lines"])]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<u64>,
    /// Return the raw bytes as base64; otherwise binary files are only described
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bytes: bool,
    /// Cursor from an earlier response; for one file
    #[arg(long, value_name = "CURSOR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Maximum size of all files together (1 MiB at most); continue with the cursor
    #[arg(long, value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<usize>,
    /// Return whole pictures, 3 MiB at most together
    #[arg(skip)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pictures: bool,
    /// Put line numbers in front of the lines of the text for reading
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub numbers: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub here: CurrentFolder,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Files, in the order of the request
    pub files: Vec<FileView>,
    /// The text for reading has line numbers
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub numbers: bool,
}

/// A file, or a part of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FileView {
    pub path: String,
    /// Size of the whole file in bytes
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Hash of the whole file; pass it as `if_hash` to change only this version. Omitted above 256 MiB
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Modification time in RFC 3339
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<String>,
    /// Permissions in octal
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Encoding: utf-8, utf-8-bom, utf-16le, utf-16be, unknown-8bit
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// Line endings: lf, crlf, cr, mixed, none
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_endings: Option<String>,
    /// The last line has no newline
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_final_newline: bool,
    /// Number of lines of the whole file
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// The file is not text
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub binary: bool,
    /// Media type of a picture
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media: Option<String>,
    /// First line of `text`; omitted if unknown, in the last lines of a file above 256 MiB
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Last line of `text`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Bytes that are invalid in this encoding were replaced
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lossy: bool,
    /// With `bytes`: the content as base64
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// With `pictures`: the whole picture as base64
    #[serde(skip_serializing_if = "Option::is_none")]
    pub picture: Option<String>,
    /// With `bytes`: offset of the first byte
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Cursor for the rest of the requested part
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Error that prevented reading this file
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<FileProblem>,
}

impl Operation for FileRead {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["file", "read"],
        summary: "Show files, or parts of them",
        details: "\
Examples:
  proctor file read src/main.rs
  proctor file read src/main.rs --from 100 --lines 50
  proctor file read logs/app.log --tail 20
  proctor file read a.txt docs:b.txt --json",
        ..Meta::of("file.read", Effect::Read, Target::Nothing)
            .needing(Role::Operator)
            .with_folder()
            .whole()
    };

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let Input { mut paths, path, from, lines, tail, bytes, cursor, .. } = input;
        let Input { max_bytes, pictures, numbers, .. } = input;
        paths.extend(path);
        if paths.is_empty() {
            return Err(
                OpError::bad_input("'paths' is missing").help("`proctor file list` shows files")
            );
        }
        if paths.len() > MAX_FILES {
            return Err(OpError::bad_input(format!("too many files: the maximum is {MAX_FILES}")));
        }
        let single = paths.len() == 1;
        if cursor.is_some() && !single {
            return Err(OpError::bad_input("'cursor' can be used with one file only"));
        }
        let all = max_bytes.unwrap_or(USUAL_BYTES).clamp(MIN_BYTES, MAX_BYTES);
        let max_bytes = (all / paths.len()).max(MIN_BYTES);
        let largest_picture = if pictures { MAX_IMAGE_BYTES } else { 0 };
        let query = ReadQuery { from, lines, tail, bytes, cursor, max_bytes, largest_picture };
        let read = input.here.files(context).await?.read(paths.clone(), query).await?;
        let mut files = Vec::with_capacity(paths.len());
        for (path, read) in paths.into_iter().zip(read) {
            files.push(match read.and_then(|content| reached(content, from)) {
                Ok(content) => FileView::of(content),
                Err(error) if single => return Err(error.into()),
                Err(error) => FileView::failed(path, error),
            });
        }
        Ok(Output { files, numbers })
    }
}

/// Returns the content, or an error if it was to start after the last line.
fn reached(content: Content, from: Option<u64>) -> Result<Content, FileError> {
    let lines = content.nature.lines;
    let counted = content.whole && content.nature.encoding.is_some();
    match from {
        Some(from) if counted && from > lines.max(1) => {
            let ending = if lines == 1 { "" } else { "s" };
            Err(FileError::BadInput(format!("'{}' has {lines} line{ending}", content.path)))
        }
        Some(_) | None => Ok(content),
    }
}

impl FileView {
    fn failed(path: String, error: FileError) -> FileView {
        FileView { path, error: Some(error.into()), ..FileView::default() }
    }

    fn of(content: Content) -> FileView {
        let nature = content.nature;
        let mut view = FileView {
            path: content.path,
            size: Some(content.size),
            sha256: content.sha256,
            modified: Some(rfc3339(content.modified)),
            mode: Some(format!("{:04o}", content.mode)),
            binary: nature.encoding.is_none(),
            media: content.picture.map(str::to_owned),
            cursor: content.cursor,
            ..FileView::default()
        };
        if let Some(encoding) = nature.encoding {
            view.encoding = Some(encoding.as_str().to_owned());
            view.line_endings = Some(nature.endings.as_str().to_owned());
            view.no_final_newline = content.whole && content.size > 0 && !nature.final_newline;
            view.lines = content.whole.then_some(nature.lines);
        }
        match content.part {
            ContentRange::Text { text, from, to, lossy } => {
                (view.text, view.lossy) = (Some(text), lossy);
                (view.from, view.to) = (from, to);
            }
            ContentRange::Bytes { bytes, offset } => {
                (view.base64, view.offset) = (Some(STANDARD.encode(bytes)), Some(offset));
            }
            ContentRange::Picture { bytes } => view.picture = Some(STANDARD.encode(bytes)),
            ContentRange::Unreadable => {}
        }
        view
    }

    /// Describes the properties that the text itself does not show.
    fn described(&self) -> String {
        let mut words = vec![crate::timestamps::bytes(self.size.unwrap_or(0))];
        match (self.from, self.to, self.lines) {
            (Some(from), Some(to), Some(lines)) if from > 1 || to < lines => {
                words.push(format!("lines {from}-{to} of {lines}"));
            }
            (_, _, Some(1)) => words.push("1 line".to_owned()),
            (_, _, Some(lines)) => words.push(format!("{lines} lines")),
            (_, _, None) => {}
        }
        words.extend(self.encoding.clone().filter(|encoding| encoding != "utf-8"));
        words.extend(self.line_endings.clone().filter(|ends| ends != "lf" && ends != "none"));
        words.extend(self.media.clone());
        if self.binary {
            words.push("not text".to_owned());
        }
        if self.no_final_newline {
            words.push("no newline at the end".to_owned());
        }
        words.join(", ")
    }

    fn show(&self, page: &mut Page, titled: bool, numbers: bool) {
        if let Some(trouble) = &self.error {
            page.line().add(Style::Bad, "error: ").plain(&trouble.message);
            return;
        }
        let described = self.described();
        if titled || self.text.is_none() {
            page.line().name(&self.path).dim(format!(" ({described})"));
        }
        if let Some(text) = &self.text {
            let last = self.from.unwrap_or(0).saturating_add(text.lines().count() as u64);
            let width = last.to_string().len();
            let number = |at: usize| match self.from.filter(|_| numbers) {
                Some(first) => format!("{:>width$}  ", first.saturating_add(at as u64)),
                None => String::new(),
            };
            page.content(text, number);
        }
        if let Some(base64) = &self.base64 {
            page.line().plain(base64);
        }
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        let titled = self.files.len() > 1;
        for file in &self.files {
            file.show(page, titled, self.numbers);
        }
        match self.files.as_slice() {
            [only] => page.goes_on_after(only.described(), only.cursor.as_deref()),
            several => {
                for (file, cursor) in
                    several.iter().filter_map(|it| Some((it, it.cursor.as_ref()?)))
                {
                    let described = file.described();
                    page.remark(format!(
                        "more of {} follows ({described}): continue with the cursor {cursor}",
                        file.path
                    ));
                }
            }
        }
    }

    /// Code of the first file that could not be read.
    fn verdict(&self) -> Option<Code> {
        let trouble = self.files.iter().find_map(|file| file.error.as_ref())?;
        Some(Code::from(trouble.code.clone()))
    }
}
