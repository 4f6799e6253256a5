//! Checks the shape and the size of an input before it is decoded.

use crate::error::{Code, OpError};
use crate::running_operations;
use crate::table::{self, Entry};
use proctor_core::text::beginning;
use serde_json::{Map, Value, json};

/// Maximum length of a quoted unknown name.
const MAX_QUOTED_BYTES: usize = 100;

/// Names that other editors use for the parts of an edit.
const OF_AN_EDIT: [&str; 3] = ["old_string", "new_string", "replace_all"];

/// Checks that the input is an object with known fields and within the size limit, and takes the background flag off it.
/// A missing input is an empty one.
pub(crate) fn checked(entry: &Entry, input: Value) -> Result<(Value, bool), OpError> {
    let Value::Object(mut object) = (if input.is_null() { json!({}) } else { input }) else {
        return Err(OpError::bad_input(format!(
            "the input of {} must be an object",
            entry.meta.name
        )));
    };
    check_fields(entry, &object)?;
    let background = running_operations::take_flag(&entry.meta, &mut object)?;
    let input = Value::Object(object);
    if weight(&input) > entry.meta.max_input {
        let (name, most) = (entry.meta.name, entry.meta.max_input);
        let message = format!("the input of {name} is larger than {most} bytes");
        return Err(OpError::new(Code::TooLarge, message));
    }
    Ok((input, background))
}

fn check_fields(entry: &Entry, object: &Map<String, Value>) -> Result<(), OpError> {
    let known = table::fields(entry);
    let Some(unknown) = object.keys().find(|key| !known.contains(key)) else { return Ok(()) };
    let unknown = &*beginning(unknown, MAX_QUOTED_BYTES);
    let error = OpError::bad_input(format!("{}: unknown field '{unknown}'", entry.meta.name));
    let nearest = nearest(unknown, known.iter().map(String::as_str));
    let of_edits = OF_AN_EDIT.contains(&unknown) && known.iter().any(|name| name == "edits");
    Err(match nearest {
        _ if of_edits => error.help("give 'edits', each with 'old' and 'new'"),
        Some(name) => error.help(format!("did you mean '{name}'?")),
        None => error.help(format!("known: {}", known.join(", "))),
    }
    .details(json!({ "field": unknown })))
}

pub(crate) fn unknown(name: &str) -> OpError {
    let name = &*beginning(name, MAX_QUOTED_BYTES);
    let error = OpError::new(Code::UnknownOperation, format!("no operation '{name}'"));
    match nearest(name, table::TABLE.iter().map(|entry| entry.meta.name)) {
        Some(name) => error.help(format!("did you mean '{name}'?")),
        None => error,
    }
}

fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// Minimum similarity of two names for a suggestion.
    const ALIKE: f64 = 0.8;
    known
        .map(|name| (strsim::jaro_winkler(word, name), name))
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// Estimates the size of a value in bytes; exact enough to tell a request from an attack.
fn weight(value: &Value) -> usize {
    /// Estimated size of a number, a word or a bracket.
    const SMALL: usize = 8;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => SMALL,
        Value::String(text) => text.len() + SMALL,
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + SMALL,
        Value::Object(fields) => {
            fields.iter().map(|(k, v)| k.len() + weight(v) + SMALL).sum::<usize>() + SMALL
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(name: &str, input: Value) -> OpError {
        let entry = table::find(name).expect("the test names an operation");
        checked(entry, input).expect_err("it was taken")
    }

    #[test]
    fn unknown_fields_are_refused_by_name() {
        let error = refusal("service.stop", json!({ "nmaes": ["web"] }));
        assert_eq!(
            (error.code, error.help.as_deref()),
            (Code::BadInput, Some("did you mean 'names'?"))
        );
        assert!(error.message.contains("'nmaes'"), "{}", error.message);
        let error = refusal("service.start", json!({ "xyz": 1 }));
        assert!(error.help.unwrap().contains("working_dir"), "flattened fields are known, too");
        assert_eq!(refusal("service.stop", json!([1])).code, Code::BadInput);
        let error = refusal("file.edit", json!({ "path": "a", "old_string": "b" }));
        assert_eq!(error.help.as_deref(), Some("give 'edits', each with 'old' and 'new'"));
        assert_eq!(refusal("service.wait", json!({ "background": true })).code, Code::BadInput);
    }

    #[test]
    fn nothing_at_all_is_an_empty_input() {
        let entry = table::find("service.list").unwrap();
        assert_eq!(checked(entry, Value::Null).unwrap(), (json!({}), false));
    }

    #[test]
    fn an_input_has_a_largest_size() {
        let names: Vec<String> = (0..20_000).map(|n| format!("service-{n}")).collect();
        let error = refusal("service.stop", json!({ "names": names }));
        assert!(error.message.contains("larger than 262144 bytes"), "{}", error.message);
    }

    #[test]
    fn an_unknown_operation_has_a_suggestion() {
        assert_eq!(unknown("service.strat").help.as_deref(), Some("did you mean 'service.start'?"));
        assert_eq!(unknown("zzz").help, None);
    }

    #[test]
    fn a_long_name_is_not_told_back() {
        let long = "x".repeat(1 << 20);
        let error = refusal("service.stop", json!({ long.as_str(): 1 }));
        assert!(format!("{error:?}").len() < 1000 && error.message.contains("xxx…'"));
        assert!(format!("{:?}", unknown(&long)).len() < 1000);
        let error = match (table::find("service.stop").unwrap().request)(
            json!({ "names": 7, "wait": long }),
        ) {
            Ok(_) => panic!("it was taken"),
            Err(error) => error,
        };
        assert!(format!("{error:?}").len() < 1000, "{error:?}");
    }
}
