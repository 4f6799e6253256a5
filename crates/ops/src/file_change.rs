//! Inputs and outputs shared by the operations that change files.

use crate::error::OpError;
use crate::git::show_diff;
use crate::text_output::{Page, Show};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proctor_core::diff::AppliedHunk;
use proctor_engine::files::{ExpectedState, FileOutcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum input of an operation with new content; fronts accept the same in one request.
pub(crate) const WITH_CONTENT: usize = 4 << 20;

/// Fields with a diff.
pub(crate) const DIFF: [&str; 2] = ["diff", "diff_base64"];

/// Maximum length of a diff in a response. For more, the caller reads the files.
const MAX_DIFF_BYTES: usize = 64 << 10;

/// Maximum number of hunk places in a response.
const MAX_PLACES: usize = 100;

/// Conditions of every change.
#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ChangeGuards {
    /// Fail unless the file has this sha256
    #[arg(long, value_name = "SHA256")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_hash: Option<String>,
    /// Show the diff without changing anything
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

impl ChangeGuards {
    pub(crate) fn wish(self, by: &'static str) -> Result<ExpectedState, OpError> {
        let is_hash =
            |text: &String| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        if self.if_hash.as_ref().is_some_and(|text| !is_hash(text)) {
            return Err(OpError::bad_input("'if_hash' is not a sha256 of 64 hexadecimal digits"));
        }
        Ok(ExpectedState { if_hash: self.if_hash, dry_run: self.dry_run, by, hold: false })
    }
}

/// Returns the content given as text or as base64, in one of the two fields.
pub(crate) fn given(
    [text_name, base64_name]: [&str; 2],
    text: Option<String>,
    base64: Option<String>,
) -> Result<Option<Vec<u8>>, OpError> {
    match (text, base64) {
        (Some(text), None) => Ok(Some(text.into_bytes())),
        (None, Some(text)) => {
            let bad =
                |error| OpError::bad_input(format!("'{base64_name}' is not valid base64: {error}"));
            STANDARD.decode(text).map(Some).map_err(bad)
        }
        (Some(_), Some(_)) => {
            Err(OpError::bad_input(format!("give '{text_name}' or '{base64_name}', not both")))
        }
        (None, None) => Ok(None),
    }
}

/// Returns the given diff after a first check: the caller may have given a file name instead.
pub(crate) fn given_diff(
    text: Option<String>,
    base64: Option<String>,
) -> Result<Option<Vec<u8>>, OpError> {
    let diff = given(DIFF, text, base64)?;
    match &diff {
        Some(text) if !text.contains(&b'\n') => {
            Err(OpError::bad_input("'diff' is not a unified diff")
                .help("give the text of the diff; in a shell, `- < fix.diff` reads it from a file"))
        }
        Some(_) | None => Ok(diff),
    }
}

/// Changes of files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Changes {
    pub files: Vec<FileChange>,
    /// Nothing was changed
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    pub path: String,
    /// Content of the file changed
    pub changed: bool,
    /// There was no file before
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub created: bool,
    /// Hash of the new content; omitted if the file was deleted
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Size in bytes
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Generation with the old content, for undo
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// Lines added
    pub added: usize,
    /// Lines removed
    pub removed: usize,
    /// Number of replaced matches
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<usize>,
    /// Places of the edits and hunks
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hunks: Vec<HunkPlace>,
    /// In a dry run: the diff that would be applied
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HunkPlace {
    /// First line, from 1
    pub line: usize,
    /// Distance in lines from the place the diff names
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: isize,
    /// Number of context lines that differed
    #[serde(default, skip_serializing_if = "is_none")]
    pub fuzz: usize,
}

fn is_zero(offset: &isize) -> bool {
    *offset == 0
}

fn is_none(fuzz: &usize) -> bool {
    *fuzz == 0
}

impl From<AppliedHunk> for HunkPlace {
    fn from(fitted: AppliedHunk) -> HunkPlace {
        HunkPlace { line: fitted.line, offset: fitted.offset, fuzz: fitted.fuzz }
    }
}

impl Changes {
    pub(crate) fn of(changed: Vec<FileOutcome>, dry_run: bool) -> Changes {
        let files = changed.into_iter().map(|changed| FileChange::of(changed, dry_run)).collect();
        Changes { files, dry_run }
    }
}

impl FileChange {
    fn of(changed: FileOutcome, dry_run: bool) -> FileChange {
        let differs = changed.differs() || changed.generation.is_some();
        FileChange {
            changed: differs,
            created: changed.before.is_none() && changed.after.is_some(),
            size: changed.after.as_ref().map(|_| changed.size),
            sha256: changed.after,
            generation: changed.generation,
            added: changed.added,
            removed: changed.removed,
            places: changed.places,
            hunks: changed.hunks.into_iter().take(MAX_PLACES).map(HunkPlace::from).collect(),
            diff: (dry_run && differs).then(|| shown(&changed.diff)),
            path: changed.path,
        }
    }

    fn show(&self, page: &mut Page, dry_run: bool) {
        let gone = self.sha256.is_none();
        let word = match (self.changed, dry_run) {
            (false, _) => "unchanged",
            (true, true) if self.created => "would be created",
            (true, true) if gone => "would be deleted",
            (true, true) => "would change",
            (true, false) if self.created => "created",
            (true, false) if gone => "deleted",
            (true, false) => "changed",
        };
        let line = page.line().name(&self.path).plain(format!(": {word}"));
        if self.changed {
            line.dim(format!(" (+{} -{})", self.added, self.removed));
        }
        if let Some(generation) = self.generation.filter(|_| !self.created) {
            line.dim(format!(", earlier content is generation {generation}"));
        }
        let inexact = |place: &&HunkPlace| place.offset != 0 || place.fuzz != 0;
        for HunkPlace { line, offset, fuzz } in self.hunks.iter().filter(inexact) {
            page.line().dim(format!("  at line {line}: offset {offset}, fuzz {fuzz}"));
        }
        if let Some(diff) = &self.diff {
            show_diff(page, diff);
        }
    }
}

/// Returns the diff as text, shortened if it is long.
fn shown(diff: &[u8]) -> String {
    let cut = diff.len() > MAX_DIFF_BYTES;
    let part = &diff[..diff.len().min(MAX_DIFF_BYTES)];
    let end = if cut {
        part.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1)
    } else {
        part.len()
    };
    let mut text = String::from_utf8_lossy(&part[..end]).into_owned();
    if cut {
        text += &format!("… {} more bytes\n", diff.len() - end);
    }
    text
}

impl Show for Changes {
    fn show(&self, page: &mut Page) {
        for file in &self.files {
            file.show(page, self.dry_run);
        }
    }
}
