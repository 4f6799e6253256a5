//! The paths that belong to no operation.

use serde_json::{Map, Value, json};

/// Path, what it is for, the kind of its answer.
const PAGES: &[(&str, &str, &str, &str)] = &[
    ("/", "welcome", "Where to begin", "text/plain; charset=utf-8"),
    ("/health", "health", "Whether Proctor itself works; needs no token", "application/json"),
    ("/openapi.json", "openapi", "This description", "application/json"),
];

pub(super) fn add(paths: &mut Map<String, Value>) {
    for (path, id, summary, kind) in PAGES {
        let mut schema = Map::new();
        schema.insert((*kind).into(), json!({ "schema": {} }));
        paths.insert(
            (*path).into(),
            json!({ "get": {
                "operationId": id,
                "tags": ["proctor"],
                "summary": summary,
                "security": [{}],
                "responses": {
                    "200": { "description": "It is there.", "content": schema },
                    "4XX": { "$ref": "#/components/responses/Error" },
                },
            } }),
        );
    }
}
