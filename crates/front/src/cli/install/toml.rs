//! Changes one table of a TOML text in place, or adds one at the end. Every other byte is kept.
//!
//! [`read`] finds the positions. A crate for editing would cost three times as much and move scattered tables.

mod read;

use super::error::InstallError;
use read::{Kind, Statement, scan};
use serde_json::Value as Json;
use std::ops::Range;

/// Returns true if there is anything at or below this path.
pub(super) fn has(text: &str, path: &[&str]) -> Result<bool, InstallError> {
    Ok(scan(text)?.iter().any(|statement| below(&statement.path, path)))
}

/// Returns the text with `settings` in this table, and without `dropped`.
pub(super) fn put(
    text: &str,
    table: &[&str],
    settings: &[(&str, Json)],
    dropped: &[&str],
) -> Result<String, InstallError> {
    expect_a_table(&scan(text)?, table)?;
    let mut text = text.to_owned();
    for key in dropped {
        text = remove(&text, &[table, &[*key]].concat())?;
    }
    if !scan(&text)?.iter().any(|statement| is_header(statement, table)) {
        return Ok(append(&text, table, settings));
    }
    for (key, value) in settings {
        text = set(&text, table, key, value)?;
    }
    Ok(text)
}

/// Returns the text without anything at or below this path.
pub(super) fn remove(text: &str, path: &[&str]) -> Result<String, InstallError> {
    let statements = scan(text)?;
    if let Some(whole) = statements.iter().find(|s| s.path.len() < path.len() && holds(s, path)) {
        return Err(in_one_line(whole, path));
    }
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (index, statement) in statements.iter().enumerate() {
        if !below(&statement.path, path) || statement.place.start < at {
            continue;
        }
        let lines = match &statement.kind {
            Kind::Setting { .. } => lines(text, &statement.place),
            Kind::Table | Kind::List => {
                let settings = statements[index + 1..].iter().take_while(|s| is_setting(s));
                let end = settings.last().map_or(statement.place.end, |last| last.place.end);
                with_gap(text, lines(text, &(statement.place.start..end)))
            }
        };
        out.push_str(&text[at..lines.start.max(at)]);
        at = lines.end;
    }
    out.push_str(&text[at..]);
    Ok(out)
}

fn set(text: &str, table: &[&str], key: &str, value: &Json) -> Result<String, InstallError> {
    let statements = scan(text)?;
    let path = [table, &[key]].concat();
    for statement in &statements {
        match &statement.kind {
            Kind::Setting { says: Some(says), .. } if statement.path == path && says == value => {
                return Ok(text.to_owned());
            }
            Kind::Setting { value: old, .. } if statement.path == path => {
                return Ok([&text[..old.start], &written(value), &text[old.end..]].concat());
            }
            Kind::Setting { .. } | Kind::Table | Kind::List => {}
        }
    }
    let header = statements.iter().position(|statement| is_header(statement, table)).unwrap_or(0);
    let settings = statements[header + 1..].iter().take_while(|statement| is_setting(statement));
    let before = settings.last().unwrap_or(&statements[header]);
    let line = lines(text, &before.place);
    let start = &text[line.start..];
    let indent = &start[..start.len() - start.trim_start_matches([' ', '\t']).len()];
    let ended = text[..line.end].ends_with('\n');
    let newline = newline(text);
    let (before, after) = if ended { ("", newline) } else { (newline, "") };
    let inserted = format!("{before}{indent}{key} = {}{after}", written(value));
    Ok([&text[..line.end], &inserted, &text[line.end..]].concat())
}

fn append(text: &str, table: &[&str], settings: &[(&str, Json)]) -> String {
    let newline = newline(text);
    let mut out = text.to_owned();
    if !out.trim_start_matches('\u{feff}').is_empty() {
        out.push_str(if out.ends_with('\n') { "" } else { newline });
        out.push_str(newline);
    }
    out.push_str(&format!("[{}]{newline}", table.join(".")));
    for (key, value) in settings {
        out.push_str(&format!("{key} = {}{newline}", written(value)));
    }
    out
}

/// Checks that our entry is one table of its own.
fn expect_a_table(statements: &[Statement], table: &[&str]) -> Result<(), InstallError> {
    let mut headers = statements.iter().filter(|statement| is_header(statement, table));
    if let Some(second) = headers.nth(1) {
        return Err(InstallError::at(
            second.place.start,
            format!("[{}] is a duplicate table", table.join(".")),
        ));
    }
    match statements.iter().find(|statement| holds(statement, table)) {
        Some(whole) => Err(in_one_line(whole, table)),
        None => Ok(()),
    }
}

/// Returns true if the statement defines this table, or a part of it, without the table's own header.
fn holds(statement: &Statement, table: &[&str]) -> bool {
    let above = table.iter().zip(&statement.path).all(|(key, found)| key == found)
        && statement.path.len() <= table.len();
    match statement.kind {
        Kind::Table => false,
        Kind::List => above,
        Kind::Setting { table: length, .. } => {
            above || length < table.len() && below(&statement.path, table)
        }
    }
}

fn in_one_line(statement: &Statement, table: &[&str]) -> InstallError {
    let what = format!("this must be a table of its own, [{}]", table.join("."));
    InstallError::at(statement.place.start, what)
}

fn is_header(statement: &Statement, table: &[&str]) -> bool {
    matches!(statement.kind, Kind::Table) && statement.path == table
}

fn is_setting(statement: &Statement) -> bool {
    matches!(statement.kind, Kind::Setting { .. })
}

fn below(path: &[String], above: &[&str]) -> bool {
    path.len() >= above.len() && above.iter().zip(path).all(|(key, found)| key == found)
}

/// Returns whole lines, with their line endings.
fn lines(text: &str, place: &Range<usize>) -> Range<usize> {
    let start = text[..place.start].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[place.end..].find('\n').map_or(text.len(), |newline| place.end + newline + 1);
    start..end
}

/// Returns the lines with the empty lines before them, unless the following text needs those.
fn with_gap(text: &str, lines: Range<usize>) -> Range<usize> {
    let rest = &text[lines.end..];
    let gap = rest.is_empty() || rest.lines().next().is_some_and(|line| line.trim().is_empty());
    let before = text[..lines.start].trim_end_matches([' ', '\t', '\r', '\n']);
    let after = text[before.len()..].find('\n').map_or(0, |newline| before.len() + newline + 1);
    if gap { after.min(lines.start)..lines.end } else { lines }
}

fn newline(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Formats a value as TOML. JSON strings are valid TOML but for one character; lists get spaces.
fn written(value: &Json) -> String {
    match value.as_array() {
        Some(items) => format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", ")),
        None => value.to_string().replace('\u{7f}', "\\u007f"),
    }
}

#[cfg(test)]
mod tests;
