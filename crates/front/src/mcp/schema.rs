//! Tools as they are listed. Every byte of the list is paid for in each conversation, so schemas are said briefly: no titles,
//! no null beside what may be left out, no numbers' formats.

use proctor_ops::tools::{TOOLS, Tool as Described, Toolset};
use proctor_sys::memory;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};
use std::sync::{Arc, OnceLock};

/// Fields that a front on the caller's machine fills in, or that this front makes use of itself.
const OURS: [&str; 4] = ["environment", "base_dir", "from_base", "background"];

/// The tool whose answer says what a process looks like in brief.
const LISTING: &str = "list_processes";

/// Where schemas are defined that others refer to.
const DEFINITIONS: &str = "$defs";

/// The tools of these sets, always in the same order.
pub fn tools(sets: &[Toolset]) -> Vec<Tool> {
    let offered = (0..TOOLS.len()).filter(|at| sets.contains(&TOOLS[*at].set));
    let first = offered.clone().any(|at| KEPT[at].get().is_none());
    let tools = offered.map(|at| kept(at).clone()).collect();
    if first {
        // Making them takes several times what they are.
        memory::give_back();
    }
    tools
}

/// The tool of that name.
pub(super) fn tool(name: &str) -> Option<Tool> {
    (0..TOOLS.len()).find(|at| TOOLS[*at].name == name).map(|at| kept(at).clone())
}

/// Each made when it is first listed or called: those of sets that are not offered take no memory in each conversation.
static KEPT: [OnceLock<Tool>; TOOLS.len()] = [const { OnceLock::new() }; TOOLS.len()];

fn kept(at: usize) -> &'static Tool {
    KEPT[at].get_or_init(|| listed(&TOOLS[at]))
}

fn listed(tool: &Described) -> Tool {
    let annotations = ToolAnnotations::new().read_only(tool.is_read_only()).open_world(false);
    let annotations = match tool.is_read_only() {
        true => annotations,
        false => annotations.destructive(tool.destructive).idempotent(tool.idempotent),
    };
    Tool::new(tool.name, tool.about, Arc::new(input(tool)))
        .with_title(tool.title)
        .with_raw_output_schema(Arc::new(output(tool)))
        .with_annotations(annotations)
}

fn input(tool: &Described) -> JsonObject {
    let mut schema = tool.entry().input_schema();
    brief(&mut schema, true);
    let usual: Map<String, Value> = serde_json::from_str(tool.usual).unwrap_or_default();
    let mut schema = object(schema);
    // Of the struct that happens to be flattened into it.
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
    }
    if !tool.requires.is_empty() {
        let required = schema.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(required) = required {
            required.extend(tool.requires.iter().map(|field| json!(field)));
        }
    }
    without_unused(schema)
}

fn output(tool: &Described) -> JsonObject {
    let mut schema = tool.entry().output_schema();
    brief(&mut schema, false);
    let mut schema = object(schema);
    // What takes too long is answered with a handle, what is too long is cut: then something is missing.
    without_required(&mut schema, tool.leaves_out);
    if let Some(Value::Object(fields)) = schema.get_mut("properties") {
        // It is read as text; what it would be as facts is of interest to hardly anybody.
        for spoken in tool.spoken {
            if let Some(Value::Object(field)) = fields.get_mut(*spoken) {
                field.retain(|word, _| word == "type");
            }
        }
    }
    if !tool.leaves_out.is_empty()
        && tool.name != LISTING
        && let Some(services) = schema.get_mut("properties").and_then(|all| all.get_mut("services"))
    {
        let about = format!("as {LISTING} has them");
        *services = json!({ "type": "array", "items": { "type": "object" }, "description": about });
    }
    if matches!(tool.set, Toolset::Files | Toolset::Git)
        && let Some(Value::Object(fields)) = schema.get_mut("properties")
    {
        fields.values_mut().for_each(in_one_word);
    }
    if tool.entry().meta.goes_on()
        && let Some(Value::Object(fields)) = schema.get_mut("properties")
    {
        fields.insert("operation".into(), json!({ "type": "string" }));
    }
    without_unused(schema)
}

/// That it is a list, or an object; what is in it, everybody knows who has used git or read a file.
fn in_one_word(schema: &mut Value) {
    let Value::Object(words) = schema else { return };
    words.retain(|word, _| word == "type" || word == "$ref");
    if words.is_empty() {
        words.insert("type".into(), json!("object"));
    }
}

/// Nothing has to be there, and what is left out is not described.
fn without_required(schema: &mut JsonObject, leaves_out: &[&str]) {
    schema.shift_remove("required");
    let Some(Value::Object(definitions)) = schema.get_mut(DEFINITIONS) else { return };
    for definition in definitions.values_mut().filter_map(Value::as_object_mut) {
        definition.shift_remove("required");
        if let Some(Value::Object(fields)) = definition.get_mut("properties") {
            fields.retain(|name, _| !leaves_out.contains(&name.as_str()));
        }
    }
}

fn object(schema: Value) -> JsonObject {
    let mut fields = schema.as_object().cloned().unwrap_or_default();
    fields.entry("type").or_insert_with(|| json!("object"));
    fields.entry("properties").or_insert_with(|| json!({}));
    fields
}

/// The same schema in fewer words.
fn brief(schema: &mut Value, described: bool) {
    match schema {
        Value::Object(fields) => {
            // A property may be called like a keyword: those are looked into one by one.
            for (key, value) in fields.iter_mut() {
                match (key.as_str(), value) {
                    ("properties" | DEFINITIONS, Value::Object(named)) => {
                        named.values_mut().for_each(|schema| brief(schema, described));
                    }
                    ("enum" | "const" | "default" | "required", _) => {}
                    (_, value) => brief(value, described),
                }
            }
            shorten(fields, described);
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(|schema| brief(schema, described)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn shorten(fields: &mut JsonObject, described: bool) {
    for word in ["$schema", "title", "format"] {
        fields.shift_remove(word);
    }
    if !described {
        fields.shift_remove("description");
        fields.shift_remove("default");
        fields.shift_remove("minimum");
        fields.shift_remove("maximum");
        // A name for a state is read, not chosen.
        fields.shift_remove("enum");
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
        if let Some(mut values) = values(choices, described) {
            fields.shift_remove(word);
            if !described {
                values.shift_remove("enum");
            }
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

/// Choices that are all single values are one list of them.
fn values(choices: &[Value], described: bool) -> Option<JsonObject> {
    let mut values = Vec::new();
    let mut said = String::new();
    for choice in choices {
        match (choice.get("const"), choice.get("enum")) {
            (Some(value), None) => {
                values.push(value.clone());
                if let (Some(name), Some(text)) = (value.as_str(), choice["description"].as_str()) {
                    said += &format!("{}{name}: {text}", if said.is_empty() { "" } else { "; " });
                }
            }
            (None, Some(Value::Array(several))) => values.extend(several.iter().cloned()),
            _ => return None,
        }
    }
    let mut fields = Map::new();
    fields.insert("type".into(), json!("string"));
    fields.insert("enum".into(), Value::Array(values));
    if described && !said.is_empty() {
        fields.insert("description".into(), Value::String(said));
    }
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

/// Definitions that are referred to once stand where they are meant, and those that are not are gone.
fn without_unused(schema: JsonObject) -> JsonObject {
    let mut schema = Value::Object(schema);
    let Some(Value::Object(mut definitions)) =
        schema.as_object_mut().and_then(|fields| fields.shift_remove(DEFINITIONS))
    else {
        return object(schema);
    };
    // Each round takes one away, or is the last.
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

/// Put what is meant where something refers to it. What the place says of itself counts.
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

    /// What a conversation pays before anything was asked: forty tools. Lists of sixty are what people complain about.
    const MOST_BYTES: usize = 48 << 10;

    fn size(sets: &[Toolset]) -> usize {
        serde_json::to_string(&tools(sets)).unwrap().len()
    }

    #[test]
    fn the_usual_list_is_short() {
        let size = size(&Toolset::USUAL);
        assert!(size <= MOST_BYTES, "{size} bytes");
    }

    #[test]
    fn the_tools_for_git_are_brief() {
        let size = size(&[Toolset::Git]);
        assert!(size <= 14 << 10, "{size} bytes");
    }

    #[test]
    fn the_tools_that_change_files_are_told_in_few_words() {
        let writing = |tool: &Tool| {
            let described = proctor_ops::tools::find(&tool.name).unwrap();
            described.set == Toolset::Files && !described.is_read_only()
        };
        let tools: Vec<Tool> = tools(&Toolset::ALL).into_iter().filter(writing).collect();
        let size = serde_json::to_string(&tools).unwrap().len();
        assert!(size <= 9 << 10, "{size} bytes for {}", tools.len());
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
            let (input, output) = (&tool.input_schema, tool.output_schema.as_ref().unwrap());
            for schema in [input, output] {
                assert_eq!(schema["type"], "object", "{}", tool.name);
                let text = Value::Object(schema.as_ref().clone()).to_string();
                assert!(!text.contains("\"null\""), "{}: {text}", tool.name);
                assert!(!text.contains("\"format\":"), "{}: {text}", tool.name);
                for reference in text.split("\"#/$defs/").skip(1) {
                    let name = reference.split('"').next().unwrap();
                    assert!(schema["$defs"].get(name).is_some(), "{}: no {name}", tool.name);
                }
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
    fn choices_are_one_list_of_values() {
        let mut schema = json!({
            "oneOf": [{ "type": "string", "const": "a", "description": "first" }, { "type": "string", "enum": ["b", "c"] }],
        });
        brief(&mut schema, true);
        assert_eq!(
            schema,
            json!({ "type": "string", "enum": ["a", "b", "c"], "description": "a: first" })
        );
        let mut schema =
            json!({ "anyOf": [{ "$ref": "#/$defs/X" }, { "type": "null" }], "description": "x" });
        brief(&mut schema, false);
        assert_eq!(schema, json!({ "$ref": "#/$defs/X" }));
    }
}
