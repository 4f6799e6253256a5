//! The JSON Schema of `proctor.yaml` (draft 2020-12), for editors.
//!
//! It accepts what the parser accepts, as far as a schema can express it. Numbers may be text with
//! variables in it, and references are not checked.

use super::keys::{Absent, Choice, Duration, KEYS, Key, Kind, MAX_BYTES, Scope};
use super::roots;
use super::tree;
use serde_json::{Map, Value as Json, json};

/// Text that contains a variable; it may expand to anything.
const VARIABLE: &str = r"\$\{";

/// The schema of the whole file.
pub fn schema() -> Json {
    let mut definitions = Map::new();
    definitions.insert("supervisor".into(), mapping(KEYS, Scope::Supervisor));
    definitions.insert("service".into(), mapping(KEYS, Scope::Service));
    blocks(KEYS, &mut definitions);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "proctor.yaml",
        "description": "Services that Proctor keeps running.",
        "type": "object",
        // `services` may also be at the top, without `supervisor`.
        "if": { "required": ["services"], "not": { "required": ["supervisor"] } },
        "then": { "$ref": "#/$defs/supervisor" },
        "else": {
            "properties": { "supervisor": { "$ref": "#/$defs/supervisor" } },
            "required": ["supervisor"],
            "patternProperties": { "^x-": true },
            "additionalProperties": false,
        },
        "$defs": definitions,
    })
}

/// Adds every block under its own name; a test checks that the names are unique.
fn blocks(keys: &[Key], definitions: &mut Map<String, Json>) {
    for key in keys {
        if let Kind::Block(inner) = key.kind {
            definitions.insert(key.name.into(), mapping(inner, Scope::Service));
            blocks(inner, definitions);
        }
    }
}

fn mapping(keys: &[Key], here: Scope) -> Json {
    let allowed = || keys.iter().filter(|key| key.scope.allows(here));
    let properties: Map<String, Json> =
        allowed().map(|key| (key.name.to_string(), property(key))).collect();
    let required: Vec<&str> =
        allowed().filter(|key| key.default == Absent::Required).map(|key| key.name).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "patternProperties": { "^x-": true },
        "additionalProperties": false,
    })
}

fn property(key: &Key) -> Json {
    let mut schema = kind(key);
    schema["description"] = json!(key.doc);
    if let Absent::Value(text) = key.default {
        schema["default"] = plain(text);
    }
    schema["examples"] = json!([plain(key.example)]);
    schema
}

/// Always an object.
fn kind(key: &Key) -> Json {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "array", "items": scalar() });
    match key.kind {
        Kind::Text | Kind::Folder | Kind::File | Kind::Host | Kind::Secret => scalar(),
        Kind::Port => number(json!(0), json!(65535), "integer", "[0-9]+|off"),
        Kind::Bool => json!({ "type": ["boolean", "string"], "pattern": pattern("true|false") }),
        Kind::Integer { min, max } => number(json!(min), json!(max), "integer", "-?[0-9]+"),
        Kind::Count { max } => number(json!(0), json!(max), "integer", "[0-9]+|unlimited"),
        Kind::Float { min, max } => number(json!(min), json!(max), "number", r"[0-9.]+"),
        Kind::Duration(duration) => duration_schema(duration),
        Kind::Size { min } => number(
            json!(min),
            json!(MAX_BYTES),
            "number",
            r"[0-9.]+ *([bB]|[kKmMgGtT]([iI]?[bB])?)?",
        ),
        Kind::Choice(choices) => choice(choices),
        Kind::Choices(choices) => json!({ "type": "array", "items": choice(choices) }),
        Kind::Signal | Kind::Umask | Kind::User | Kind::Limit { .. } => {
            json!({ "type": ["string", "integer"], "minimum": 0 })
        }
        Kind::Url => json!({ "type": "string", "pattern": format!("^http://|{VARIABLE}") }),
        Kind::Command => json!({ "anyOf": [scalar(), texts] }),
        Kind::List | Kind::Hosts | Kind::Origins | Kind::Commands => texts,
        Kind::ExitCodes => json!({
            "type": "array",
            "items": number(json!(0), json!(255), "integer", "[0-9]+"),
        }),
        Kind::Environment => json!({ "anyOf": [
            { "type": "object", "additionalProperties": scalar() },
            { "type": "array", "items": { "type": "string", "pattern": "=" } },
        ] }),
        Kind::EnvFiles => json!({ "anyOf": [text, texts] }),
        Kind::Roots => roots_schema(),
        Kind::Block(_) => json!({ "$ref": format!("#/$defs/{}", key.name) }),
        Kind::Services => json!({
            "type": "object",
            "propertyNames": { "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$", "not": { "const": "all" } },
            "additionalProperties": { "$ref": "#/$defs/service" },
        }),
    }
}

fn roots_schema() -> Json {
    let root = json!({
        "type": "object",
        "properties": {
            "path": scalar(),
            "name": { "type": "string", "pattern": pattern(roots::NAME) },
            "write": { "type": ["boolean", "string"], "pattern": pattern("true|false") },
        },
        "required": ["path"],
        "additionalProperties": false,
    });
    json!({ "type": "array", "items": { "anyOf": [scalar(), root] } })
}

fn choice(choices: &[Choice]) -> Json {
    let names: Vec<&str> = choices
        .iter()
        .flat_map(|it| std::iter::once(it.name).chain(it.also.iter().copied()))
        .collect();
    json!({ "anyOf": [{ "enum": names }, { "type": "string", "pattern": VARIABLE }] })
}

/// A value that is read as text, quoted or not.
fn scalar() -> Json {
    json!({ "type": ["string", "number", "boolean"] })
}

fn number(min: Json, max: Json, kind: &str, text: &str) -> Json {
    json!({ "type": [kind, "string"], "minimum": min, "maximum": max, "pattern": pattern(text) })
}

fn duration_schema(duration: Duration) -> Json {
    let none = if duration.none { "|none" } else { "" };
    let unit = duration.unit.millis();
    let min = match duration.min % unit {
        0 => json!(duration.min / unit),
        _ => json!(duration.min as f64 / unit as f64),
    };
    json!({
        "type": ["number", "string"],
        "minimum": min,
        "pattern": pattern(&format!("[0-9.]+ *(ms|s|m|h|d)?{none}")),
    })
}

fn pattern(text: &str) -> String {
    format!("^({text})$|{VARIABLE}")
}

/// Converts YAML of the table to JSON.
fn plain(yaml: &str) -> Json {
    let (node, _) = tree::parse("key table", yaml);
    node.map_or(Json::Null, |node| node_json(&node))
}

fn node_json(node: &tree::Node) -> Json {
    match &node.content {
        tree::Content::Scalar { text, plain: true } => {
            serde_json::from_str(text).unwrap_or_else(|_| json!(text))
        }
        tree::Content::Scalar { text, plain: false } => json!(text),
        tree::Content::Sequence(items) => items.iter().map(|item| node_json(item)).collect(),
        tree::Content::Mapping(entries) => {
            entries.iter().map(|it| (it.key.to_string(), node_json(&it.value))).collect()
        }
    }
}
