//! What assistants are told of each operation: the tool's name, its set, and a description for somebody who reads it once
//! and pays for each byte of it.
//!
//! Every operation has exactly one line here (a test sees to it). Input, output and what is checked are the operation's own.

pub mod fields;
mod files;
mod git;
mod table;

pub use table::TOOLS;

use crate::operation::{Context, Effect};
use crate::table::{self as operations, Entry};
use std::fmt;
use std::str::FromStr;

/// Longest name of a tool: clients put their own prefix before it, and some stop at 64 characters.
pub const LONGEST_NAME: usize = 37;

/// Tools that are offered or left out together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Toolset {
    Processes,
    Logs,
    Files,
    Git,
    /// Proctor itself: tokens, audit, numbers.
    System,
}

impl Toolset {
    pub const ALL: [Toolset; 5] =
        [Toolset::Processes, Toolset::Logs, Toolset::Files, Toolset::Git, Toolset::System];

    /// What is offered to who asks for nothing in particular.
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

    /// Sets by their names with commas between; `all` is every one.
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
            format!("there is no toolset '{text}'; there are {all}, and 'all'")
        })
    }
}

impl fmt::Display for Toolset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the configuration in force offers to who asks for nothing in particular.
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
    /// Something is gone afterwards that was there before.
    pub destructive: bool,
    /// Called twice, it does no more than called once.
    pub idempotent: bool,
    /// Fields of the input that an assistant has no use for.
    pub hides: &'static [&'static str],
    /// Fields of the input without which a call cannot work, beside those that the operation asks of everybody.
    pub requires: &'static [&'static str],
    /// Fields of the input, as JSON, where an assistant gives none: its replies have a price.
    pub usual: &'static str,
    /// Fields of the output that the readable text has already, and that are long.
    pub spoken: &'static [&'static str],
    /// Fields of what it lists that the readable text has already, and that are long.
    pub spoken_within: &'static [&'static str],
    /// Fields of what it lists that are left out here; the text or `get_process_status` has them.
    pub leaves_out: &'static [&'static str],
    /// Fields of the input that may be many things and are asked for as one text.
    pub texts: &'static [&'static str],
}

/// Fields of a service that are left out where a change of several is told.
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

/// Fields of a service that are left out where several are listed.
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

    /// The operation behind it.
    pub fn entry(&self) -> &'static Entry {
        operations::find(self.operation)
            .expect("a test sees to it that every tool has its operation")
    }

    /// Whether its content is text, which is sent without structured content: files, logs, diffs, output.
    pub fn replies_in_text(&self) -> bool {
        self.speaks()
            || matches!(self.set, Toolset::Files | Toolset::Git)
            || matches!(self.operation, "config.show" | "file.history")
    }

    /// Does its text hold what is long, and somebody else's words?
    pub fn speaks(&self) -> bool {
        !self.spoken.is_empty() || !self.spoken_within.is_empty()
    }

    pub fn is_read_only(&self) -> bool {
        self.entry().meta.effect == Effect::Read
    }
}

/// The tool of that name.
pub fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

#[cfg(test)]
mod tests;
