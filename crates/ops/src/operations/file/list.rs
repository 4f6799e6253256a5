//! `file.list`: lists a folder and its subfolders.

use crate::error::OpError;
use crate::file::{CurrentFolder, IncludeFlags, KindWord, page_bytes};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Page, Show, Style, counted};
use crate::timestamps::{bytes, rfc3339};
use proctor_engine::files::{CallerFolder, FolderEntry, ListQuery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default maximum of names in one response.
const USUAL: usize = 1000;
const MAX_ENTRIES: usize = 10_000;

pub struct FileList;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Folder below a root; the root itself if omitted
    #[arg(value_name = "PATH", help = "Folder below a root; the current folder if omitted")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Depth: 1 (default) lists the folder itself, 2 also its subfolders, 0 everything
    #[arg(long, short = 'd', value_name = "DEPTH")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<usize>,
    #[command(flatten)]
    #[serde(flatten)]
    pub also: IncludeFlags,
    /// Maximum number of names
    #[arg(long, value_name = "COUNT", help = "Maximum number of names (default 1000)")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<usize>,
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Entries, sorted by name; the entries of a folder follow it directly
    pub entries: Vec<Item>,
    /// Roots, if no path was given; only the caller's own root if the caller is in one
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<RootView>,
    /// More entries follow; continue with the cursor
    pub more: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Number of folders that could not be read
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Item {
    pub path: String,
    pub kind: KindWord,
    /// Size of a file in bytes
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Modification time in RFC 3339
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<String>,
    /// Depth of the entry; 1 in the folder itself
    pub depth: usize,
}

/// A folder that file operations may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RootView {
    pub name: String,
    pub path: String,
    /// Files in it can be changed
    pub write: bool,
}

impl From<FolderEntry> for Item {
    fn from(listed: FolderEntry) -> Item {
        Item {
            path: listed.path,
            kind: listed.kind.into(),
            size: listed.size,
            modified: listed.modified.map(rfc3339),
            depth: listed.depth,
        }
    }
}

impl Operation for FileList {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["file", "list"],
        summary: "List the entries of a folder",
        details: "\
Examples:
  proctor file list
  proctor file list src --depth 3
  proctor file list --hidden --no-ignore",
        ..Meta::of("file.list", Effect::Read, Target::Nothing)
            .needing(Role::Operator)
            .with_folder()
            .whole()
    };

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let files = input.here.files(context).await?;
        let standing = files.standing().await?;
        let mut roots = Vec::new();
        if input.path.is_none() {
            roots.extend(files.roots().all().iter().map(|root| RootView::of(root)));
        }
        // Entries are listed below the root they are in.
        roots.retain(|root: &RootView| match &standing {
            CallerFolder::Elsewhere => true,
            CallerFolder::Top(name) => root.name == *name,
            CallerFolder::Below => false,
        });
        if roots.len() > 1 && standing == CallerFolder::Elsewhere {
            return Ok(Output {
                entries: Vec::new(),
                roots,
                more: false,
                cursor: None,
                unreadable: None,
            });
        }
        let query = ListQuery {
            depth: Some(input.depth.unwrap_or(1)).filter(|depth| *depth > 0),
            leave_out: input.also.into(),
            most: input.most.unwrap_or(USUAL).clamp(1, MAX_ENTRIES),
            max_bytes: Some(page_bytes(input.max_bytes)),
            cursor: input.cursor,
            ..ListQuery::default()
        };
        let listing = files.list(Vec::from_iter(input.path), query).await?;
        Ok(Output {
            entries: listing.entries.into_iter().map(Item::from).collect(),
            roots,
            more: listing.cursor.is_some(),
            cursor: listing.cursor,
            unreadable: Some(listing.unreadable as u64).filter(|count| *count > 0),
        })
    }
}

impl RootView {
    fn of(root: &proctor_engine::files::DeclaredRoot) -> RootView {
        let path = root.path.to_string_lossy().into_owned();
        RootView { name: root.name.clone(), path, write: root.write }
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        for root in &self.roots {
            let right = if root.write { "" } else { " (read only)" };
            page.line().name(format!("{}:", root.name)).dim(format!(" {}{right}", root.path));
        }
        for item in &self.entries {
            let name = item.path.rsplit(['/', ':']).next().unwrap_or(&item.path);
            let line = page.line().plain("  ".repeat(item.depth - 1));
            match item.kind {
                KindWord::Folder => line.add(Style::Heading, format!("{name}/")),
                KindWord::File => line.plain(name),
                KindWord::Link => line.plain(name).dim(" (link)"),
                KindWord::Pipe | KindWord::Socket | KindWord::Device | KindWord::Other => {
                    line.plain(name).dim(" (special file)")
                }
            };
            if let Some(size) = item.size {
                line.dim(format!("  {}", bytes(size)));
            }
        }
        rest(page, self.entries.is_empty() && self.roots.is_empty(), self.cursor.as_deref());
        if let Some(count) = self.unreadable {
            page.remark(format!("{} could not be read", counted(count, "folder")));
        }
    }
}

/// Remarks that nothing was found, or that more follows.
pub(super) fn rest(page: &mut Page, nothing: bool, cursor: Option<&str>) {
    if nothing {
        page.remark("nothing");
    }
    page.goes_on(cursor);
}
