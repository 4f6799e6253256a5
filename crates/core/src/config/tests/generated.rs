//! Output generated from the key table: the table is consistent, the schema and the reference
//! contain every key.

use super::{config, with_key};
use crate::config::keys::{Absent, KEYS, Key, Kind, Scope, leaves, planned};
use crate::config::{reference, schema};
use serde_json::Value;
use std::collections::BTreeSet;

/// Every key of every mapping, with the full name of its block.
fn all() -> Vec<(Option<String>, &'static Key)> {
    let mut all = Vec::new();
    below(None, KEYS, &mut all);
    all
}

fn below(block: Option<&str>, keys: &'static [Key], all: &mut Vec<(Option<String>, &'static Key)>) {
    for key in keys {
        all.push((block.map(String::from), key));
        if let Kind::Block(inner) = key.kind {
            let name = block.map_or(key.name.to_string(), |block| format!("{block}.{}", key.name));
            below(Some(&name), inner, all);
        }
    }
}

#[test]
fn no_key_is_declared_twice_or_also_planned() {
    let mut seen = BTreeSet::new();
    for (block, key) in all() {
        for here in [Scope::Supervisor, Scope::Service] {
            if key.scope.allows(here) {
                let place = format!("{block:?} {here:?} {}", key.name);
                assert!(seen.insert(place), "{} is declared twice", key.name);
                let planned = planned::find(block.as_deref(), key.name, here);
                assert!(planned.is_none(), "{} is supported and planned", key.name);
            }
        }
        assert!(key.doc.ends_with('.'), "{}: {}", key.name, key.doc);
    }
}

#[test]
fn every_default_and_every_example_is_a_good_value() {
    for (block, key) in all() {
        let top = block.as_deref().and_then(|block| block.split('.').next()).unwrap_or(key.name);
        let of_proctor = |it: &&Key| it.name == top && it.scope == Scope::Supervisor;
        // These have their own tests; `port` is also a key of a service.
        if KEYS.iter().any(|it| of_proctor(&it)) && (block.is_some() || key.scope != Scope::Service)
        {
            continue;
        }
        let defaults = match key.default {
            Absent::Value(text) => Some(text),
            Absent::Required | Absent::Nothing(_) => None,
        };
        for value in [Some(key.example), defaults].into_iter().flatten() {
            let entry = match &block {
                Some(block) => format!("{block}: {{ {}: {value} }}", key.name),
                None => format!("{}: {value}", key.name),
            };
            let wants_url =
                block.as_deref() == Some("health_check") || key.name.starts_with("health_check");
            let mut extra = String::new();
            if wants_url && key.name != "health_check_url" {
                extra.push_str("\n      health_check_url: http://localhost:1/");
            }
            if key.name == "supplementary_groups" {
                extra.push_str("\n      user: me");
            }
            if key.name == "env_file" {
                continue;
            }
            let text = with_key(&format!("{entry}{extra}"));
            config(&if key.name == "command" {
                text.replace("command: serve\n      ", "")
            } else {
                text
            });
        }
    }
}

#[test]
fn the_schema_knows_every_key_and_refers_only_to_what_it_has() {
    let schema = schema();
    let text = serde_json::to_string(&schema).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), schema);
    let definitions = &schema["$defs"];
    for (block, key) in all() {
        let homes: Vec<&str> = match (&block, key.scope) {
            (Some(block), _) => vec![block.rsplit('.').next().unwrap()],
            (None, Scope::Supervisor) => vec!["supervisor"],
            (None, Scope::Service) => vec!["service"],
            (None, Scope::Both) => vec!["supervisor", "service"],
        };
        for home in homes {
            let property = &definitions[home]["properties"][key.name];
            assert_eq!(property["description"], key.doc, "{home}.{}", key.name);
            assert_eq!(property.get("default").is_some(), matches!(key.default, Absent::Value(_)));
            assert_eq!(definitions[home]["additionalProperties"], false);
        }
    }
    let service = &definitions["service"]["properties"];
    assert!(service.get("enabled").is_none() && service.get("http").is_none());
    assert_eq!(service["restart"]["$ref"], "#/$defs/restart");
    assert_eq!(service["success_exit_codes"]["default"], serde_json::json!([0]));
    assert_eq!(service["restart_policy"]["default"], "on_failure");
    assert_eq!(definitions["service"]["required"], serde_json::json!(["command"]));
    for reference in text.split("\"$ref\":\"#/").skip(1) {
        let pointer = format!("/{}", reference.split('"').next().unwrap());
        assert!(schema.pointer(&pointer).is_some(), "{pointer} leads nowhere");
    }
}

#[test]
fn the_reference_has_a_row_for_every_key() {
    let reference = reference();
    for (block, key) in all() {
        let name = block.map_or(key.name.to_string(), |block| format!("{block}.{}", key.name));
        let rows = reference.lines().filter(|line| line.starts_with(&format!("| `{name}` |")));
        // One in `supervisor`, one in a service.
        let expected = if name == "port" { 2 } else { 1 };
        assert_eq!(rows.count(), expected, "{name}");
    }
    for row in reference.lines().filter(|line| line.starts_with("| `")) {
        assert_eq!(row.replace("\\|", "").matches('|').count(), 5, "{row}");
    }
}

#[test]
fn every_leaf_of_a_service_is_a_setting() {
    let config = config(&with_key("description: x"));
    for (key, _) in leaves(Scope::Service) {
        let shown = config.settings.iter().any(|it| it.key == format!("services.web.{key}"));
        let left_out = key == "env" || key == "health_check_interval";
        assert_eq!(shown, !left_out, "{key}");
    }
}
