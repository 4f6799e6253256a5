//! The listed tools. Every byte of the list costs tokens in each conversation, so schemas are brief: no titles, no null for
//! optional fields, no number formats, and no output schema.

use proctor_ops::tools::fields::{shown_as, words};
use proctor_ops::tools::{TOOLS, Tool as Described, Toolset};
use proctor_sys::allocator;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};
use std::sync::{Arc, OnceLock};

/// Fields that a front on the caller's machine fills in, or that this front uses itself.
const OURS: [&str; 5] = ["environment", "base_dir", "from_base", "folders", "background"];

/// Environment variables, as an object of names and values.
const VARIABLES: &str = "env";

/// Key of schema definitions.
const DEFINITIONS: &str = "$defs";

/// Returns the tools of these sets, always in the same order.
pub fn tools(sets: &[Toolset]) -> Vec<Tool> {
    let offered = (0..TOOLS.len()).filter(|at| sets.contains(&TOOLS[*at].set));
    let first = offered.clone().any(|at| KEPT[at].get().is_none());
    let tools = offered.map(|at| kept(at).clone()).collect();
    if first {
        // Making them takes several times their own memory.
        allocator::give_back();
    }
    tools
}

/// Returns the tool with that name.
pub(super) fn tool(name: &str) -> Option<Tool> {
    (0..TOOLS.len()).find(|at| TOOLS[*at].name == name).map(|at| kept(at).clone())
}

/// Each tool is made when it is first listed or called, so tools that are not offered take no memory.
static KEPT: [OnceLock<Tool>; TOOLS.len()] = [const { OnceLock::new() }; TOOLS.len()];

fn kept(at: usize) -> &'static Tool {
    KEPT[at].get_or_init(|| listed(&TOOLS[at]))
}

fn listed(tool: &Described) -> Tool {
    Tool::new(tool.name, tool.about, Arc::new(input(tool)))
        .with_title(tool.title)
        .with_annotations(annotations(tool))
}

/// Hints that differ from the protocol's defaults; no tool reaches beyond this machine.
fn annotations(tool: &Described) -> ToolAnnotations {
    let mut hints = ToolAnnotations::new();
    if tool.is_read_only() {
        return hints.read_only(true);
    }
    if !tool.destructive {
        hints = hints.destructive(false);
    }
    if tool.idempotent {
        hints = hints.idempotent(true);
    }
    hints
}

fn input(tool: &Described) -> JsonObject {
    let mut schema = tool.entry().input_schema();
    brief(&mut schema);
    let usual: Map<String, Value> = serde_json::from_str(tool.usual).unwrap_or_default();
    let mut schema = object(schema);
    // It would be the description of a flattened struct.
    schema.shift_remove("description");
    if let Some(Value::Object(fields)) = schema.get_mut("properties") {
        for hidden in tool.hides.iter().chain(&OURS) {
            fields.shift_remove(*hidden);
        }
        for text in tool.texts {
            if let Some(Value::Object(field)) = fields.get_mut(*text) {
                field.shift_remove("$ref");
                field.insert("type".into(), json!("string"));
            }
        }
        for (name, value) in usual {
            if let Some(Value::Object(field)) = fields.get_mut(&name) {
                field.insert("default".into(), value);
            }
        }
        if let Some(variables) = fields.get_mut(VARIABLES) {
            *variables = json!({ "type": "object" });
        }
    }
    if !tool.requires.is_empty() {
        let required = schema.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(required) = required {
            required.extend(tool.requires.iter().map(|field| json!(field)));
        }
    }
    let mut schema = without_unused(schema);
    if let Some(Value::Object(fields)) = schema.get_mut("properties") {
        *fields = named_and_described(tool, std::mem::take(fields));
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        for field in required.iter_mut() {
            *field = json!(shown_as(field.as_str().unwrap_or_default()));
        }
    }
    schema
}

/// Renames the fields to the names shared by all tools, and adds their descriptions.
fn named_and_described(tool: &Described, fields: JsonObject) -> JsonObject {
    let mut named = Map::new();
    for (name, mut schema) in fields {
        // Toolsets that are requested by name may be longer.
        if Toolset::USUAL.contains(&tool.set) {
            describe(tool.name, &name, &mut schema);
        }
        named.insert(shown_as(&name).to_owned(), schema);
    }
    named
}

fn describe(tool: &str, name: &str, schema: &mut Value) {
    let Value::Object(field) = schema else { return };
    field.shift_remove("description");
    if field.get("default").is_some_and(Value::is_object) {
        field.shift_remove("default");
    }
    let said = words(tool, name);
    if !said.is_empty() {
        field.insert("description".into(), json!(said));
    }
    if let Some(items) = field.get_mut("items") {
        describe(tool, "", items);
    }
    if let Some(Value::Object(fields)) = field.get_mut("properties") {
        fields.iter_mut().for_each(|(name, schema)| describe(tool, name, schema));
    }
}

fn object(schema: Value) -> JsonObject {
    let mut fields = schema.as_object().cloned().unwrap_or_default();
    fields.entry("type").or_insert_with(|| json!("object"));
    fields.entry("properties").or_insert_with(|| json!({}));
    fields
}

/// Shortens a schema.
fn brief(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            // A property may have the name of a keyword, so properties are handled one by one.
            for (key, value) in fields.iter_mut() {
                match (key.as_str(), value) {
                    ("properties" | DEFINITIONS, Value::Object(named)) => {
                        named.values_mut().for_each(brief);
                    }
                    ("enum" | "const" | "default" | "required", _) => {}
                    (_, value) => brief(value),
                }
            }
            shorten(fields);
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(brief),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn shorten(fields: &mut JsonObject) {
    for word in ["$schema", "title", "format", "maximum"] {
        fields.shift_remove(word);
    }
    if fields.get("minimum") == Some(&json!(0)) {
        fields.shift_remove("minimum");
    }
    if fields.get("default").is_some_and(is_nothing) {
        fields.shift_remove("default");
    }
    if let Some(Value::Array(kinds)) = fields.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            fields.insert("type".into(), only);
        }
    }
    for word in ["anyOf", "oneOf"] {
        let Some(Value::Array(choices)) = fields.get_mut(word) else { continue };
        choices.retain(|choice| choice != &json!({ "type": "null" }));
        if let Some(values) = values(choices) {
            fields.shift_remove(word);
            fields.extend(values);
        } else if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            fields.shift_remove(word);
            for (key, value) in only {
                fields.entry(key).or_insert(value);
            }
        }
    }
}

/// Joins choices of single values to one list.
fn values(choices: &[Value]) -> Option<JsonObject> {
    let mut values = Vec::new();
    for choice in choices {
        match (choice.get("const"), choice.get("enum")) {
            (Some(value), None) => values.push(value.clone()),
            (None, Some(Value::Array(several))) => values.extend(several.iter().cloned()),
            _ => return None,
        }
    }
    let mut fields = Map::new();
    fields.insert("type".into(), json!("string"));
    fields.insert("enum".into(), Value::Array(values));
    Some(fields)
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Inlines definitions that are used once, and removes unused ones.
fn without_unused(schema: JsonObject) -> JsonObject {
    let mut schema = Value::Object(schema);
    let Some(Value::Object(mut definitions)) =
        schema.as_object_mut().and_then(|fields| fields.shift_remove(DEFINITIONS))
    else {
        return object(schema);
    };
    // Each round removes one definition, or is the last.
    loop {
        let text = schema.to_string() + &Value::Object(definitions.clone()).to_string();
        let uses = |name: &str| text.matches(&format!("\"#/{DEFINITIONS}/{name}\"")).count();
        let once = definitions.iter().find(|(name, is)| {
            let short = is.get("properties").is_none() && is.to_string().len() < 60;
            uses(name) <= 1 || short
        });
        let Some(name) = once.map(|(name, _)| name.clone()) else { break };
        let Some(meant) = definitions.shift_remove(&name) else { break };
        let reference = format!("#/{DEFINITIONS}/{name}");
        put(&mut schema, &reference, &meant);
        definitions.values_mut().for_each(|definition| put(definition, &reference, &meant));
    }
    let mut schema = object(schema);
    if !definitions.is_empty() {
        schema.insert(DEFINITIONS.into(), Value::Object(definitions));
    }
    schema
}

/// Replaces a reference with its definition. Keywords next to the reference take precedence.
fn put(schema: &mut Value, reference: &str, meant: &Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("$ref").is_some_and(|it| it == reference) {
                fields.shift_remove("$ref");
                let said = fields.shift_remove("description");
                for (key, value) in meant.as_object().cloned().unwrap_or_default() {
                    fields.entry(key).or_insert(value);
                }
                fields.extend(said.map(|said| ("description".to_owned(), said)));
                return;
            }
            fields.values_mut().for_each(|value| put(value, reference, meant));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| put(value, reference, meant)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maximum size of the default list in each conversation: some 6,000 tokens.
    const MAX_BYTES: usize = 24 << 10;

    fn size(sets: &[Toolset]) -> usize {
        serde_json::to_string(&tools(sets)).unwrap().len()
    }

    #[test]
    fn the_usual_list_is_short() {
        let size = size(&Toolset::USUAL);
        assert!(size <= MAX_BYTES, "{size} bytes");
    }

    #[test]
    fn the_tools_for_git_are_brief() {
        let size = size(&[Toolset::Git]);
        assert!(size <= 7 << 10, "{size} bytes");
    }

    #[test]
    fn the_tools_that_change_files_are_told_in_few_words() {
        let writing = |tool: &Tool| {
            let described = proctor_ops::tools::find(&tool.name).unwrap();
            described.set == Toolset::Files && !described.is_read_only()
        };
        let tools: Vec<Tool> = tools(&Toolset::ALL).into_iter().filter(writing).collect();
        let size = serde_json::to_string(&tools).unwrap().len();
        assert!(size <= 5 << 10, "{size} bytes for {}", tools.len());
    }

    #[test]
    fn lists_are_the_same_each_time_and_one_set_is_part_of_all() {
        assert_eq!(tools(&Toolset::USUAL), tools(&Toolset::USUAL));
        assert_eq!(tools(&Toolset::ALL).len(), TOOLS.len());
        assert!(tools(&[Toolset::Logs]).iter().all(|tool| tools(&Toolset::ALL).contains(tool)));
    }

    #[test]
    fn schemas_are_sound_and_brief() {
        for tool in tools(&Toolset::ALL) {
            let input = &tool.input_schema;
            assert!(tool.output_schema.is_none(), "{}", tool.name);
            assert_eq!(input["type"], "object", "{}", tool.name);
            let text = Value::Object(input.as_ref().clone()).to_string();
            assert!(!text.contains("\"null\""), "{}: {text}", tool.name);
            assert!(!text.contains("\"format\":"), "{}: {text}", tool.name);
            for reference in text.split("\"#/$defs/").skip(1) {
                let name = reference.split('"').next().unwrap();
                assert!(input["$defs"].get(name).is_some(), "{}: no {name}", tool.name);
            }
            for ours in OURS {
                assert!(input["properties"].get(ours).is_none(), "{}: {ours}", tool.name);
            }
        }
    }

    #[test]
    fn what_a_call_cannot_do_without_is_required() {
        for (name, fields) in [
            ("read_file", json!(["paths"])),
            ("search_files", json!(["pattern"])),
            ("find_files", json!(["globs"])),
            ("edit_file", json!(["path", "edits"])),
            ("write_file", json!(["path", "content"])),
            ("apply_diff", json!(["diff"])),
        ] {
            assert_eq!(tool(name).unwrap().input_schema["required"], fields, "{name}");
        }
    }

    #[test]
    fn one_thing_has_one_name_in_all_tools() {
        for tool in tools(&Toolset::USUAL) {
            let fields = tool.input_schema["properties"].as_object().unwrap();
            for own in ["services", "service", "wait", "timeout_seconds", "most", "rev"] {
                assert!(!fields.contains_key(own), "{}: {own}", tool.name);
            }
            if let Some(env) = fields.get("env") {
                assert_eq!(env["type"], "object", "{}", tool.name);
            }
        }
    }

    /// Collects every field name and every listed value.
    fn names_in(schema: &Value, found: &mut Vec<String>) {
        match schema {
            Value::Object(fields) => {
                for (key, value) in fields {
                    if let ("properties", Value::Object(named)) = (key.as_str(), value) {
                        found.extend(named.keys().cloned());
                    }
                    if let ("enum", Value::Array(values)) = (key.as_str(), value) {
                        found.extend(values.iter().filter_map(Value::as_str).map(str::to_owned));
                    }
                    names_in(value, found);
                }
            }
            Value::Array(values) => values.iter().for_each(|value| names_in(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Collects every description in a schema.
    fn descriptions_in(schema: &Value, found: &mut Vec<String>) {
        match schema {
            Value::Object(fields) => {
                found.extend(fields.get("description").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| descriptions_in(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| descriptions_in(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Quoted words that are neither fields nor values.
    const PLAIN_WORDS: [&str; 1] = ["why"];

    #[test]
    fn a_description_names_only_fields_values_and_tools_that_exist() {
        for tool in tools(&Toolset::USUAL) {
            let schema = Value::Object(tool.input_schema.as_ref().clone());
            let (mut names, mut texts) = (Vec::new(), Vec::new());
            names_in(&schema, &mut names);
            descriptions_in(&schema, &mut texts);
            texts.extend(tool.description.as_deref().map(str::to_owned));
            for text in texts {
                let quoted = text.split(['\'', '`']).skip(1).step_by(2);
                let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
                for word in quoted.filter(|word| !word.is_empty() && word.chars().all(is_name)) {
                    let is_known = names.iter().any(|name| name == word);
                    assert!(is_known || PLAIN_WORDS.contains(&word), "{}: '{word}'", tool.name);
                }
                for word in text.split(|c| !is_name(c)).filter(|word| word.contains('_')) {
                    let is_tool = proctor_ops::tools::find(word).is_some();
                    assert!(is_tool || names.iter().any(|name| name == word), "{word}: {text}");
                }
            }
        }
    }

    #[test]
    fn choices_are_one_list_of_values() {
        let mut schema = json!({
            "oneOf": [{ "type": "string", "const": "a", "description": "first" }, { "type": "string", "enum": ["b", "c"] }],
        });
        brief(&mut schema);
        assert_eq!(schema, json!({ "type": "string", "enum": ["a", "b", "c"] }));
        let mut schema =
            json!({ "anyOf": [{ "$ref": "#/$defs/X" }, { "type": "null" }], "description": "x" });
        brief(&mut schema);
        assert_eq!(schema, json!({ "description": "x", "$ref": "#/$defs/X" }));
    }
}
