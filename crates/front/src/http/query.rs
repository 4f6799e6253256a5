//! Converts the query of an address to the input of an operation: `names=web&names=db&check=true`.
//!
//! Everything in a query is text; the schema of the input gives the types. Text that does not fit its type is kept, and the
//! operation reports the error.

use super::response::Refusal;
use proctor_ops::table::Entry;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Maximum parameters of one address, which itself has a size limit.
const MAX_PARAMETERS: usize = 1000;

/// Type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Bool,
    Number,
    /// A list of these.
    List(Item),
    /// An object, which cannot be in a query.
    Object,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    Text,
    Number,
}

/// Input fields of an operation.
pub(super) type Fields = BTreeMap<String, Kind>;

pub(super) fn fields(entry: &Entry) -> Fields {
    let schema = entry.input_schema();
    let names = schema["properties"].as_object().into_iter().flat_map(|fields| fields.keys());
    names.filter_map(|name| Some((name.clone(), kind(&schema, name)?))).collect()
}

/// Converts a query to an input.
pub(super) fn input(fields: &Fields, query: &str) -> Result<Map<String, Value>, Refusal> {
    let mut input = Map::new();
    for (name, value) in pairs(query)? {
        let kind = fields.get(&name).copied();
        match (kind, input.get_mut(&name)) {
            (Some(Kind::List(_)), Some(Value::Array(items))) => items.push(one(kind, value)),
            (Some(Kind::List(_)), _) => {
                drop(input.insert(name, Value::Array(vec![one(kind, value)])))
            }
            (_, Some(_)) => return Err(Refusal::bad_input(format!("'{name}' is given twice"))),
            (_, None) => drop(input.insert(name, one(kind, value))),
        }
    }
    Ok(input)
}

fn one(kind: Option<Kind>, text: String) -> Value {
    match kind {
        Some(Kind::Bool) if text == "true" => Value::Bool(true),
        Some(Kind::Bool) if text == "false" => Value::Bool(false),
        Some(Kind::Number | Kind::List(Item::Number)) => {
            text.parse().map_or(Value::String(text), Value::Number)
        }
        Some(Kind::Bool | Kind::Text | Kind::List(Item::Text) | Kind::Object) | None => {
            Value::String(text)
        }
    }
}

/// Returns the type of a field from the schema.
fn kind(schema: &Value, name: &str) -> Option<Kind> {
    let field = schema.get("properties")?.get(name)?;
    Some(match type_of(schema, field) {
        "boolean" => Kind::Bool,
        "integer" | "number" => Kind::Number,
        "object" => Kind::Object,
        "array" => match type_of(schema, &resolved(schema, field)["items"]) {
            "integer" | "number" => Kind::List(Item::Number),
            _ => Kind::List(Item::Text),
        },
        _ => Kind::Text,
    })
}

/// Returns the type besides `null`.
fn type_of<'a>(schema: &'a Value, field: &'a Value) -> &'a str {
    let field = resolved(schema, field);
    match &field["type"] {
        Value::String(name) => name,
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).find(|name| *name != "null").unwrap_or_default()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => "",
    }
}

/// Resolves a reference, or a choice between a type and `null`.
pub(super) fn resolved<'a>(schema: &'a Value, field: &'a Value) -> &'a Value {
    if let Some(path) = field["$ref"].as_str().and_then(|path| path.strip_prefix('#')) {
        return schema.pointer(path).map_or(field, |field| resolved(schema, field));
    }
    let choices = field["anyOf"].as_array().into_iter().flatten();
    let real = choices.into_iter().find(|choice| choice["type"] != "null");
    real.map_or(field, |field| resolved(schema, field))
}

/// Returns the readable names in a query.
pub(super) fn names(query: &str) -> Vec<String> {
    let names = query.split('&').filter_map(|pair| pair.split('=').next());
    names.filter_map(decoded).collect()
}

fn pairs(query: &str) -> Result<Vec<(String, String)>, Refusal> {
    let parts: Vec<&str> = query.split('&').filter(|part| !part.is_empty()).collect();
    if parts.len() > MAX_PARAMETERS {
        return Err(Refusal::bad_input(format!(
            "too many parameters: the maximum is {MAX_PARAMETERS}"
        )));
    }
    let wrong = || Refusal::bad_input("the query is not UTF-8 text in percent encoding");
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        Some((decoded(name)?, decoded(value)?))
    };
    parts.into_iter().map(|part| pair(part).ok_or_else(wrong)).collect()
}

/// Decodes percent encoding; `None` if the result is not text.
pub(crate) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_ops::table::find;
    use serde_json::json;

    fn read(name: &str, query: &str) -> Result<Value, String> {
        let input = input(&fields(find(name).unwrap()), query);
        input.map(Value::Object).map_err(|refusal| refusal.error.message)
    }

    #[test]
    fn a_query_becomes_what_the_schema_says() {
        for (name, query, expected) in [
            (
                "service.status",
                "names=web&names=a%20b&check=true",
                json!({ "names": ["web", "a b"], "check": true }),
            ),
            ("service.status", "check", json!({ "check": "" })),
            (
                "service.list",
                "state=running&no_usage=false",
                json!({ "state": ["running"], "no_usage": false }),
            ),
            (
                "log.read",
                "tail=5&wait=1.5&stream=stderr&grep=a%2Bb+c",
                json!({ "tail": 5, "wait": 1.5, "stream": "stderr", "grep": "a+b c" }),
            ),
            // Unknown names and invalid values are passed on.
            ("log.read", "tail=x&nonsense=1", json!({ "tail": "x", "nonsense": "1" })),
            ("service.list", "", json!({})),
        ] {
            assert_eq!(read(name, query), Ok(expected), "{query}");
        }
    }

    #[test]
    fn what_is_no_text_or_twice_is_refused() {
        for query in ["grep=%ff", "grep=%", "grep=%4", "%zz=1"] {
            assert!(read("log.read", query).unwrap_err().contains("percent"), "{query}");
        }
        assert_eq!(read("log.read", "tail=1&tail=2").unwrap_err(), "'tail' is given twice");
        assert!(read("log.read", &"a&".repeat(1001)).unwrap_err().contains("1000"));
    }
}
