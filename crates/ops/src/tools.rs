//! The MCP tool of each operation: its name, its toolset, and a short description, because assistants pay for each byte.
//!
//! Every operation has exactly one line here (a test checks it). Input, output and checks are the operation's own.

pub mod fields;
mod files;
mod git;
mod table;

pub use table::TOOLS;

use crate::operation::{Context, Effect};
use crate::table::{self as operations, Entry};
use std::fmt;
use std::str::FromStr;

/// Maximum length of a tool name: clients add a prefix, and some stop at 64 characters.
pub const MAX_TOOL_NAME_BYTES: usize = 37;

/// Tools that are offered together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Toolset {
    Processes,
    Logs,
    Files,
    Git,
    /// Proctor itself: tokens, audit log, metrics.
    System,
}

impl Toolset {
    pub const ALL: [Toolset; 5] =
        [Toolset::Processes, Toolset::Logs, Toolset::Files, Toolset::Git, Toolset::System];

    /// Default toolsets.
    pub const USUAL: [Toolset; 4] =
        [Toolset::Processes, Toolset::Logs, Toolset::Files, Toolset::Git];

    pub const fn as_str(self) -> &'static str {
        match self {
            Toolset::Processes => "processes",
            Toolset::Logs => "logs",
            Toolset::Files => "files",
            Toolset::Git => "git",
            Toolset::System => "system",
        }
    }

    /// Parses a comma-separated list of toolsets; `all` is every one.
    pub fn list(text: &str) -> Result<Vec<Toolset>, String> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        let mut sets = Vec::new();
        for name in names {
            match name {
                "all" => sets.extend(Toolset::ALL),
                name => sets.push(name.parse()?),
            }
        }
        sets.sort();
        sets.dedup();
        Ok(sets)
    }
}

impl FromStr for Toolset {
    type Err = String;

    fn from_str(text: &str) -> Result<Toolset, String> {
        let found = Toolset::ALL.into_iter().find(|set| set.as_str() == text);
        found.ok_or_else(|| {
            let all = Toolset::ALL.map(Toolset::as_str).join(", ");
            format!("unknown toolset '{text}'; known are {all}, and 'all'")
        })
    }
}

impl fmt::Display for Toolset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns the default toolsets of the current configuration.
pub fn offered(context: &Context) -> Vec<Toolset> {
    let names = context.engine.security(|security| security.mcp.toolsets.clone());
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

/// An operation as a tool.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    pub name: &'static str,
    pub operation: &'static str,
    pub set: Toolset,
    pub title: &'static str,
    pub about: &'static str,
    /// The call may delete or overwrite something.
    pub destructive: bool,
    /// A second call has no further effect.
    pub idempotent: bool,
    /// Input fields that are hidden from assistants.
    pub hides: &'static [&'static str],
    /// Input fields that the tool requires in addition to those of the operation.
    pub requires: &'static [&'static str],
    /// Default input fields as JSON, chosen to keep responses short.
    pub usual: &'static str,
    /// Long output fields that the readable text already contains.
    pub spoken: &'static [&'static str],
    /// Long fields of listed items that the readable text already contains.
    pub spoken_within: &'static [&'static str],
    /// Fields of listed items that are omitted; the text or `get_process_status` has them.
    pub leaves_out: &'static [&'static str],
    /// Input fields with several types that are offered as a string.
    pub texts: &'static [&'static str],
}

/// Fields of a service that are omitted in the result of a change of several.
const BEYOND_A_CHANGE: &[&str] = &[
    "run",
    "started",
    "since",
    "wish",
    "groups",
    "added",
    "primary",
    "command",
    "working_dir",
    "description",
    "cpu_percent",
    "memory_bytes",
    "processes",
    "at",
    "signal",
];

/// Fields of a service that are omitted in a list.
const DETAILS: &[&str] = &[
    "run",
    "started",
    "since",
    "wish",
    "groups",
    "added",
    "primary",
    "working_dir",
    "description",
    "processes",
    "at",
    "signal",
];

impl Tool {
    const fn new(
        operation: &'static str,
        name: &'static str,
        set: Toolset,
        title: &'static str,
        about: &'static str,
    ) -> Tool {
        Tool {
            name,
            operation,
            set,
            title,
            about,
            destructive: false,
            idempotent: false,
            hides: &[],
            requires: &[],
            usual: "{}",
            spoken: &[],
            spoken_within: &[],
            leaves_out: &[],
            texts: &[],
        }
    }

    const fn destroys(self) -> Tool {
        Tool { destructive: true, ..self }
    }

    const fn settles(self) -> Tool {
        Tool { idempotent: true, ..self }
    }

    const fn hiding(self, hides: &'static [&'static str]) -> Tool {
        Tool { hides, ..self }
    }

    const fn requiring(self, requires: &'static [&'static str]) -> Tool {
        Tool { requires, ..self }
    }

    const fn usually(self, usual: &'static str) -> Tool {
        Tool { usual, ..self }
    }

    const fn speaking(self, spoken: &'static [&'static str]) -> Tool {
        Tool { spoken, ..self }
    }

    const fn speaking_within(self, spoken_within: &'static [&'static str]) -> Tool {
        Tool { spoken_within, ..self }
    }

    const fn leaving_out(self, leaves_out: &'static [&'static str]) -> Tool {
        Tool { leaves_out, ..self }
    }

    const fn changing(self) -> Tool {
        Tool { leaves_out: BEYOND_A_CHANGE, ..self }
    }

    const fn in_brief(self) -> Tool {
        Tool { leaves_out: DETAILS, ..self }
    }

    const fn asking_text(self, texts: &'static [&'static str]) -> Tool {
        Tool { texts, ..self }
    }

    /// Returns the operation of the tool.
    pub fn entry(&self) -> &'static Entry {
        operations::find(self.operation)
            .expect("a test sees to it that every tool has its operation")
    }

    /// Returns true if the content is text, sent without structured content: files, logs, diffs, output.
    pub fn replies_in_text(&self) -> bool {
        self.speaks()
            || matches!(self.set, Toolset::Files | Toolset::Git)
            || matches!(self.operation, "config.show" | "file.history")
    }

    /// Returns true if the text contains long content that others wrote.
    pub fn speaks(&self) -> bool {
        !self.spoken.is_empty() || !self.spoken_within.is_empty()
    }

    pub fn is_read_only(&self) -> bool {
        self.entry().meta.effect == Effect::Read
    }
}

/// Returns the tool with that name.
pub fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

#[cfg(test)]
mod tests;
