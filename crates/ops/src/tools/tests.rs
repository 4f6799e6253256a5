//! Every operation is a tool with a name that every client accepts.

use super::*;
use crate::table;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

#[test]
fn every_operation_is_one_tool_and_every_tool_an_operation() {
    let of = |entry: &Entry| TOOLS.iter().filter(|t| t.operation == entry.meta.name).count();
    for entry in table::TABLE {
        assert_eq!(of(entry), 1, "{}", entry.meta.name);
    }
    assert_eq!(TOOLS.len(), table::TABLE.len());
    let names: BTreeSet<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    assert_eq!(names.len(), TOOLS.len(), "a name occurs twice");
}

#[test]
fn names_are_what_every_client_takes() {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    for Tool { name, title, about, .. } in TOOLS {
        assert!(name.len() <= MAX_TOOL_NAME_BYTES && name.chars().all(plain), "{name}");
        assert!(!title.is_empty() && about.ends_with('.'), "{name}");
    }
    let usual = TOOLS.iter().filter(|tool| Toolset::USUAL.contains(&tool.set));
    assert!(usual.count() <= 40);
}

#[test]
fn what_a_tool_says_of_fields_is_true() {
    for tool in TOOLS {
        let fields = |schema: Value| schema["properties"].as_object().cloned().unwrap_or_default();
        let (input, output) =
            (fields(tool.entry().input_schema()), fields(tool.entry().output_schema()));
        let usual: Map<String, Value> = serde_json::from_str(tool.usual).unwrap();
        let named =
            usual.keys().map(String::as_str).chain(tool.hides.iter().chain(tool.texts).copied());
        let named = named.chain(tool.requires.iter().copied());
        for field in named {
            assert!(input.contains_key(field), "{}: no field {field}", tool.name);
        }
        let hidden = |field: &&&str| tool.hides.contains(field);
        assert!(!tool.requires.iter().any(|field| hidden(&field)), "{}", tool.name);
        for field in tool.spoken {
            assert!(output.contains_key(*field), "{}: no field {field}", tool.name);
        }
        assert!(!(tool.is_read_only() && tool.destructive), "{}", tool.name);
    }
}

#[test]
fn toolsets_are_named() {
    assert_eq!(Toolset::list("logs, processes,logs"), Ok(vec![Toolset::Processes, Toolset::Logs]));
    assert_eq!(Toolset::list("all").unwrap(), Toolset::ALL);
    assert_eq!(Toolset::list(""), Ok(vec![]));
    assert!(Toolset::list("log").unwrap_err().contains("processes, logs, files, git, system"));
}
