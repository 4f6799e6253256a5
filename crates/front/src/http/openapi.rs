//! The description of `/api/v1` (OpenAPI 3.1).

use serde_json::{Value, json};

pub fn document() -> Value {
    json!({})
}
