//! Adds the caller's folder and environment to a request.

use proctor_ops::operation::Meta;
use serde_json::{Map, Value, json};

/// Adds the caller fields that an operation wants.
pub(crate) fn fill_for(meta: &Meta, input: &mut Value) {
    if meta.wants_caller {
        fill(input);
    } else if meta.wants_folder {
        fill_folder(input);
    }
}

fn fill_folder(input: &mut Value) {
    if let (Value::Object(fields), Ok(folder)) = (input, std::env::current_dir()) {
        fields.insert("base_dir".into(), json!(folder.to_string_lossy()));
    }
}

/// Adds the caller's environment and folder to an input that wants them.
pub(crate) fn fill(input: &mut Value) {
    fill_folder(input);
    let Value::Object(fields) = input else { return };
    // Variables that are not UTF-8 cannot be in a request and are left out.
    let variables: Map<String, Value> = std::env::vars_os()
        .filter_map(|(key, value)| {
            Some((key.into_string().ok()?, json!(value.into_string().ok()?)))
        })
        .collect();
    fields.insert("environment".into(), Value::Object(variables));
}
