//! The configuration of git: repositories whose own configuration is trusted, and allowed
//! protocols.

use super::problem::{TextPosition, quoted};
use super::read::{Layer, Reader};
use super::secret::shown_strictly;
use super::value::{DisplayText, Value};
use crate::time::Millis;

/// The permissions of git.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Git {
    /// Absolute folders of repositories whose hooks, filters and signing run as usual.
    pub trusted: Vec<String>,
    /// Allowed git protocols.
    pub protocols: Vec<String>,
    /// Timeout of one git call.
    pub timeout: Millis,
}

impl Git {
    pub const USUAL: Git =
        Git { trusted: Vec::new(), protocols: Vec::new(), timeout: Millis(60_000) };
}

const TRUSTED: &str = "git.trusted";
const PROTOCOLS: &str = "git.protocols";

/// The protocols built into git. Any other name would run a program of that name.
const KNOWN: [&str; 5] = ["https", "http", "ssh", "git", "file"];

pub(super) fn read(reader: &mut Reader<'_>, own: &Layer, start: TextPosition) -> Git {
    let spot = |key: &str| own.get(key).and_then(|found| found.place).unwrap_or(start);
    let words = |key: &str| match own.get(key).map(|found| &found.value) {
        Some(Value::Words(words)) => words.clone(),
        _ => Vec::<DisplayText>::new(),
    };
    let full = format!("supervisor.{TRUSTED}");
    let trusted = words(TRUSTED);
    let trusted =
        trusted.iter().filter_map(|word| reader.path(&word.text, spot(TRUSTED), &full)).collect();
    let protocols = words(PROTOCOLS);
    for word in protocols.iter().filter(|word| !KNOWN.contains(&word.text.as_str())) {
        let found = quoted(&shown_strictly(&word.shown));
        let message = format!(
            "supervisor.{PROTOCOLS}: found {found}, expected https, http, ssh, git or file"
        );
        reader.problem(spot(PROTOCOLS), message, None);
    }
    let timeout = match own.get("git.timeout").map(|found| &found.value) {
        Some(Value::Millis(millis)) => Millis(*millis),
        _ => Git::USUAL.timeout,
    };
    let protocols = protocols.into_iter().map(|word| word.text).collect();
    Git { trusted, protocols, timeout }
}
