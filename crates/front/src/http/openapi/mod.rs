//! OpenAPI 3.1 description of the HTTP interface: generated from the table of operations, served at `/openapi.json`, and
//! committed as `docs/openapi.json`.

mod examples;
mod fixed;
mod paths;
mod schemas;

use proctor_ops::error::TABLE as CODES;
use schemas::Schemas;
use serde_json::{Map, Value, json};

const ABOUT: &str = "\
All operations of Proctor, one path for each. The responses are those of the command line with `--json`.

Reading needs no token on the machine itself (unless `security.authentication.anonymous_read` is off). Everything else does: \
`Authorization: Bearer TOKEN`. The role `viewer` may read, `operator` may also start, stop and restart, `admin` may do everything.

An error is `{code,message,help,details}`. The header `Proctor-Verdict` of a successful response reports that the requested state \
was not reached; the body has the actual state.";

/// Returns the whole document.
pub fn document() -> Value {
    let mut schemas = Schemas::default();
    schemas.add("Error", error());
    schemas.add("Begun", begun());
    schemas.add("Said", fixed::said());
    let mut paths = Map::new();
    fixed::add(&mut paths);
    for route in super::routes() {
        let item = paths.entry(&route.path).or_insert_with(|| json!({}));
        item[route.method.as_str().to_ascii_lowercase()] = paths::operation(route, &mut schemas);
    }
    fixed::add_dashboard(&mut paths);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Proctor",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
        },
        "servers": [{ "url": "http://127.0.0.1:3001" }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "A token from `proctor token create`, or the one in the file that `proctor token path` prints.",
            } },
            "responses": { "Error": {
                "description": "The request failed; the error says why.",
                "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } },
            } },
            "schemas": schemas.into_value(),
        },
    })
}

fn error() -> Value {
    let codes: Vec<&str> = CODES.iter().map(|row| row.name).collect();
    json!({
        "type": "object",
        "description": "Error with its object, reason and remedy.",
        "required": ["code", "message"],
        "properties": {
            "code": { "enum": codes, "description": "Stable error code for programs." },
            "message": { "type": "string" },
            "help": { "type": "string", "description": "Remedy." },
            "details": { "description": "Details for programs; the shape depends on the code." },
        },
    })
}

/// Schema of the response of an operation that continues in the background.
fn begun() -> Value {
    json!({
        "type": "object",
        "required": ["operation"],
        "properties": { "operation": {
            "type": "string",
            "description": "Id to follow and cancel the operation.",
        } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[track_caller]
    fn check_schema(value: &Value, path: &str) {
        match value {
            Value::Object(fields) => {
                for (key, inner) in fields {
                    let named = ["required", "properties", "type", "$ref"].contains(&key.as_str());
                    assert!(!(named && inner.is_null()), "{path}/{key} is null");
                    check_schema(inner, &format!("{path}/{key}"));
                }
            }
            Value::Array(items) => items.iter().for_each(|item| check_schema(item, path)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn no_keyword_of_a_schema_is_null() {
        check_schema(&document(), "");
    }

    #[test]
    fn every_reference_leads_somewhere_and_no_name_is_used_twice() {
        let document = document();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 50, "{}", found.len());
        for path in found {
            assert!(document.pointer(path.trim_start_matches('#')).is_some(), "{path}");
        }
        let text = document.to_string();
        assert!(!text.contains("$defs"), "a definition was left inside of a schema");
        let mut ids = std::collections::BTreeSet::new();
        for item in document["paths"].as_object().unwrap().values() {
            for operation in item.as_object().unwrap().values() {
                let id = operation["operationId"].as_str().unwrap();
                assert!(ids.insert(id), "{id} twice");
            }
        }
    }

    #[test]
    fn an_input_takes_no_other_fields_and_has_examples() {
        let document = document();
        let input = &document["components"]["schemas"]["ServiceStatusInput"];
        assert_eq!(input["additionalProperties"], false);
        assert_eq!(input["examples"][0], json!({ "names": ["web"] }));
        let get = &document["paths"]["/api/v1/services/{name}/logs"]["get"];
        let names: Vec<&str> = get["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|it| it["name"].as_str())
            .collect();
        assert!(names.contains(&"name") && names.contains(&"tail"), "{names:?}");
        assert!(!names.contains(&"services"), "what the path has is no parameter: {names:?}");
    }
}
