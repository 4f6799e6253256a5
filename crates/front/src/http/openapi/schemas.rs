//! Schemas of inputs and outputs, each under one name.

use serde_json::{Map, Value, json};

#[derive(Default)]
pub(super) struct Schemas {
    all: Map<String, Value>,
}

impl Schemas {
    pub(super) fn into_value(self) -> Value {
        Value::Object(self.all)
    }

    /// Stores a schema under this name, or under another if a different schema has it. Its inner definitions are
    /// stored, too. Returns a
    /// reference to it.
    pub(super) fn add(&mut self, name: &str, mut schema: Value) -> Value {
        if let Some(fields) = schema.as_object_mut() {
            fields.remove("$schema");
            fields.remove("title");
            if let Some(Value::Object(inner)) = fields.remove("$defs") {
                let renamed = self.add_inner(name, inner);
                refer(&mut schema, &renamed);
            }
        }
        json!({ "$ref": format!("#/components/schemas/{}", self.keep(name, schema)) })
    }

    /// Returns the old and new names of definitions.
    fn add_inner(&mut self, owner: &str, inner: Map<String, Value>) -> Vec<(String, String)> {
        let renamed: Vec<(String, String)> = inner
            .iter()
            .map(|(name, schema)| {
                let mut plain = schema.clone();
                // A schema that refers to itself or its neighbours is compared as if their names were kept.
                refer(
                    &mut plain,
                    &inner.keys().map(|name| (name.clone(), name.clone())).collect::<Vec<_>>(),
                );
                let taken = self.all.get(name).is_some_and(|other| *other != plain);
                (name.clone(), if taken { format!("{owner}{name}") } else { name.clone() })
            })
            .collect();
        for (name, mut schema) in inner {
            refer(&mut schema, &renamed);
            let new = renamed.iter().find(|(old, _)| *old == name).map_or(&name, |(_, new)| new);
            self.all.insert(new.clone(), schema);
        }
        renamed
    }

    fn keep(&mut self, name: &str, schema: Value) -> String {
        self.all.insert(name.to_owned(), schema);
        name.to_owned()
    }
}

/// Updates every reference to a moved definition.
fn refer(schema: &mut Value, renamed: &[(String, String)]) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(path)) = fields.get_mut("$ref")
                && let Some(old) = path.strip_prefix("#/$defs/")
                && let Some((_, new)) = renamed.iter().find(|(name, _)| name == old)
            {
                *path = format!("#/components/schemas/{new}");
            }
            fields.values_mut().for_each(|value| refer(value, renamed));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| refer(item, renamed)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_definitions_are_one_and_different_ones_are_two() {
        let with = |inner: Value| json!({ "$defs": { "State": inner }, "items": { "$ref": "#/$defs/State" } });
        let mut schemas = Schemas::default();
        schemas.add("One", with(json!({ "type": "string" })));
        schemas.add("Two", with(json!({ "type": "string" })));
        schemas.add("Three", with(json!({ "type": "integer" })));
        let all = schemas.into_value();
        let names: Vec<&String> = all.as_object().unwrap().keys().collect();
        assert_eq!(names, ["State", "One", "Two", "ThreeState", "Three"]);
        assert_eq!(all["Two"]["items"]["$ref"], "#/components/schemas/State");
        assert_eq!(all["Three"]["items"]["$ref"], "#/components/schemas/ThreeState");
    }
}
