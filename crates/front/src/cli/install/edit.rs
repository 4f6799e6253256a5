//! Changes one member of a JSON text. New text follows the indentation and line endings around it; every other byte is kept.

use super::error::InstallError;
use super::jsonc::{Kind, Member, Object, Value, decode, scan};
use serde_json::Value as Json;

/// Indentation for a text without any.
const INDENTATION: &str = "  ";

/// Returns the value at a path of keys.
pub(super) fn get(text: &str, path: &[&str]) -> Result<Option<Json>, InstallError> {
    let Some(root) = scan(text)? else { return Ok(None) };
    let mut value = &root;
    for key in path {
        let Kind::Object(object) = &value.kind else { return Ok(None) };
        match find(object, key)? {
            Some(member) => value = &member.value,
            None => return Ok(None),
        }
    }
    Ok(Some(decode(text, value)))
}

/// Returns the text with this value at that path, in existing or new members.
pub(super) fn set(text: &str, path: &[&str], value: &Json) -> Result<String, InstallError> {
    let style = Style::of(text);
    let Some(root) = scan(text)? else {
        return Ok(begin(text, &nested(path, value), &style));
    };
    let mut object = expect_object(&root, "the document")?;
    for (index, key) in path.iter().enumerate() {
        let rest = &path[index + 1..];
        match find(object, key)? {
            None => return Ok(insert(text, object, key, &nested(rest, value), &style)),
            Some(member) if rest.is_empty() => return Ok(replace(text, member, value, &style)),
            Some(member) => object = expect_object(&member.value, key)?,
        }
    }
    Ok(text.to_owned())
}

/// Returns the text without the member at this path; unchanged if there is none.
pub(super) fn remove(text: &str, path: &[&str]) -> Result<String, InstallError> {
    let root = scan(text)?;
    let (Some(root), Some((last, parents))) = (&root, path.split_last()) else {
        return Ok(text.to_owned());
    };
    let mut object = expect_object(root, "the document")?;
    for key in parents {
        match find(object, key)? {
            Some(member) => object = expect_object(&member.value, key)?,
            None => return Ok(text.to_owned()),
        }
    }
    Ok(match find(object, last)? {
        Some(member) => take_out(text, object, member),
        None => text.to_owned(),
    })
}

fn expect_object<'a>(value: &'a Value, name: &str) -> Result<&'a Object, InstallError> {
    match &value.kind {
        Kind::Object(object) => Ok(object),
        Kind::Array(_) | Kind::Scalar => {
            Err(InstallError::at(value.start, format!("{name} must be an object, in braces")))
        }
    }
}

/// Rejects a duplicate key, because readers disagree about its meaning.
fn find<'a>(object: &'a Object, key: &str) -> Result<Option<&'a Member>, InstallError> {
    let mut found = object.members.iter().filter(|member| member.key == key);
    let first = found.next();
    match found.next() {
        Some(second) => Err(InstallError::at(second.at, format!("{key} is a duplicate key"))),
        None => Ok(first),
    }
}

fn nested(path: &[&str], value: &Json) -> Json {
    path.iter().rev().fold(value.clone(), |inner, key| {
        Json::Object([((*key).to_owned(), inner)].into_iter().collect())
    })
}

/// Creates a document after the comments that exist.
fn begin(text: &str, value: &Json, style: &Style) -> String {
    let mut text = text.to_owned();
    if !text.trim_start_matches('\u{feff}').is_empty() && !text.ends_with('\n') {
        text.push_str(style.newline);
    }
    text.push_str(&style.tall(value, ""));
    text.push_str(style.newline);
    text
}

fn insert(text: &str, object: &Object, key: &str, value: &Json, style: &Style) -> String {
    let Object { open, close, tail, members } = object;
    let (open, close, tail) = (*open, *close, *tail);
    let last = members.last();
    let empty = tail == open + 1;
    let own_line = text[tail..close].contains('\n');
    let (end, inserted) = if style.flat || !empty && !own_line {
        let space = if empty { "" } else { " " };
        (tail, format!("{space}{}", member(key, flat(value))))
    } else {
        let outer = indentation(text, if own_line { close } else { open });
        let inner = match last.filter(|last| begins_line(text, last.at)) {
            Some(last) => indentation(text, last.at).to_owned(),
            None => format!("{outer}{}", style.unit),
        };
        let line = format!("{}{inner}{}", style.newline, member(key, style.tall(value, &inner)));
        // An empty object has no content to keep.
        if empty { (close, format!("{line}{}{outer}", style.newline)) } else { (tail, line) }
    };
    match last.map(|last| (last.value.end, last.comma)) {
        Some((behind, None)) => {
            [&text[..behind], ",", &text[behind..tail], &inserted, &text[end..]].concat()
        }
        // If the last member ends with a comma, ours does, too.
        Some((_, Some(_))) => [&text[..tail], &inserted, ",", &text[end..]].concat(),
        None => [&text[..tail], &inserted, &text[end..]].concat(),
    }
}

fn replace(text: &str, member: &Member, value: &Json, style: &Style) -> String {
    let old = &member.value;
    if decode(text, old) == *value {
        return text.to_owned();
    }
    let new = if style.flat || !begins_line(text, member.at) {
        flat(value)
    } else {
        style.tall(value, indentation(text, member.at))
    };
    [&text[..old.start], &new, &text[old.end..]].concat()
}

fn take_out(text: &str, object: &Object, member: &Member) -> String {
    let end = member.value.end;
    let only = object.members.len() == 1;
    if only
        && member.lead == object.open + 1
        && object.tail <= member.comma.map_or(end, |at| at + 1)
    {
        return [&text[..=object.open], &text[object.close..]].concat();
    }
    // Text after a line comment needs a line of its own.
    let joined = text[end..].trim_start_matches([' ', '\t', ',']).starts_with(['\n', '\r']);
    let start = if member.after_remark && !joined { member.at } else { member.lead };
    // It was the last member, so the comma before it goes, too.
    let before = || object.members.iter().rev().nth(1).and_then(|before| before.comma);
    match (member.comma, before()) {
        (Some(comma), _) => [&text[..start], &text[end..comma], &text[comma + 1..]].concat(),
        (None, Some(comma)) => [&text[..comma], &text[comma + 1..start], &text[end..]].concat(),
        (None, None) => [&text[..start], &text[end..]].concat(),
    }
}

/// Style of a text.
struct Style {
    newline: &'static str,
    unit: String,
    /// True if all is in one line.
    flat: bool,
}

impl Style {
    fn of(text: &str) -> Style {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let first = text.lines().skip(1).find(|line| line.trim_start().starts_with('"'));
        let unit = first.map(|line| &line[..line.len() - line.trim_start().len()]);
        let unit = unit.filter(|unit| !unit.is_empty()).unwrap_or(INDENTATION);
        let flat = text.contains('"') && !text.trim().contains('\n');
        Style { newline, unit: unit.to_owned(), flat }
    }

    /// An object has a line for each member; anything else fits in one.
    fn tall(&self, value: &Json, indent: &str) -> String {
        let Some(object) = value.as_object().filter(|object| !object.is_empty()) else {
            return flat(value);
        };
        let inner = format!("{indent}{}", self.unit);
        let members: Vec<String> = object
            .iter()
            .map(|(key, value)| format!("{inner}{}", member(key, self.tall(value, &inner))))
            .collect();
        let newline = self.newline;
        format!("{{{newline}{}{newline}{indent}}}", members.join(&format!(",{newline}")))
    }
}

fn member(key: &str, value: String) -> String {
    format!("{}: {value}", Json::from(key))
}

fn flat(value: &Json) -> String {
    match value {
        Json::Object(object) if !object.is_empty() => {
            let members: Vec<String> =
                object.iter().map(|(key, value)| member(key, flat(value))).collect();
            format!("{{ {} }}", members.join(", "))
        }
        Json::Array(items) => {
            format!("[{}]", items.iter().map(flat).collect::<Vec<_>>().join(", "))
        }
        Json::Object(_) | Json::String(_) | Json::Number(_) | Json::Bool(_) | Json::Null => {
            value.to_string()
        }
    }
}

/// Returns the white space at the start of this position's line.
fn indentation(text: &str, at: usize) -> &str {
    let line = &text[line_start(text, at)..];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

fn begins_line(text: &str, at: usize) -> bool {
    text[line_start(text, at)..at].trim().is_empty()
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

#[cfg(test)]
mod tests;
