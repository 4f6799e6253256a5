//! The reference of all keys as Markdown, for the documentation.

use super::keys::{Absent, KEYS, Key, Kind, Scope};
use super::scalar::expected;
use std::fmt::Write as _;

/// Returns tables of every key with its scope, type, default and purpose.
pub fn reference() -> String {
    let mut out = String::new();
    section(&mut out, "In `supervisor`", "", KEYS, |key| key.scope == Scope::Supervisor);
    section(&mut out, "In a service", "", KEYS, |key| key.scope == Scope::Service);
    let title = "In a service, or in `supervisor` as the default of all services";
    section(&mut out, title, "", KEYS, |key| key.scope == Scope::Both);
    blocks(&mut out, "", KEYS);
    out.push_str(
        "Keys that begin with `x-` are allowed in every mapping and have no meaning; use them for anchors. \
         As names of services and of variables they are ordinary names.\n",
    );
    out
}

fn blocks(out: &mut String, above: &str, keys: &[Key]) {
    for key in keys {
        if let Kind::Block(inner) = key.kind {
            let name = format!("{above}{}", key.name);
            section(out, &format!("In `{name}`"), &name, inner, |_| true);
            blocks(out, &format!("{name}."), inner);
        }
    }
}

fn section(
    out: &mut String,
    title: &str,
    block: &str,
    keys: &[Key],
    wanted: impl Fn(&Key) -> bool,
) {
    let _ = write!(out, "### {title}\n\n| key | takes | default | meaning |\n|---|---|---|---|\n");
    for key in keys.iter().filter(|key| wanted(key)) {
        let dot = if block.is_empty() { "" } else { "." };
        let default = match key.default {
            Absent::Required => "required".to_string(),
            Absent::Value(text) => format!("`{text}`"),
            Absent::Nothing(what) => what.to_string(),
        };
        let _ = writeln!(
            out,
            "| `{block}{dot}{}` | {} | {} | {} Example: `{}` |",
            key.name,
            cell(&expected(&key.kind)),
            cell(&default),
            cell(key.doc),
            cell(key.example),
        );
    }
    out.push('\n');
}

/// Escapes `|`, which would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
