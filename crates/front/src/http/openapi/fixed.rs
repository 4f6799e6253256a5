//! Paths without an operation.

use crate::http::legacy_dashboard;
use proctor_ops::openmetrics::Format;
use proctor_ops::operation::{Effect, Method, Role};
use proctor_ops::table;
use serde_json::{Map, Value, json};

/// Path, id, summary, and media types of the response.
fn pages() -> [(&'static str, &'static str, &'static str, Vec<&'static str>); 4] {
    let json = || vec!["application/json"];
    let numbers = [Format::Classic, Format::OpenMetrics].map(Format::content_type).to_vec();
    [
        ("/", "welcome", "Overview of the interface", vec!["text/plain; charset=utf-8"]),
        ("/health", "health", "Whether Proctor itself works; needs no token", json()),
        (
            "/metrics",
            "metrics",
            "Metrics of Proctor, its services and its operations, in the text format of Prometheus or, if `Accept` requests it, \
             as OpenMetrics",
            numbers,
        ),
        ("/openapi.json", "openapi", "This description", json()),
    ]
}

pub(super) fn add(paths: &mut Map<String, Value>) {
    for (path, id, summary, kinds) in pages() {
        let schema: Map<String, Value> =
            kinds.into_iter().map(|kind| (kind.into(), json!({ "schema": {} }))).collect();
        paths.insert(
            path.into(),
            json!({ "get": {
                "operationId": id,
                "tags": ["proctor"],
                "summary": summary,
                "security": [{}],
                "responses": {
                    "200": { "description": "Success.", "content": schema },
                    "4XX": { "$ref": "#/components/responses/Error" },
                    "5XX": { "$ref": "#/components/responses/Error" },
                },
            } }),
        );
    }
}

/// Adds the paths of earlier dashboards.
pub(super) fn add_dashboard(paths: &mut Map<String, Value>) {
    for path in legacy_dashboard::PATHS {
        let meta = table::find(path.op).map(|entry| entry.meta);
        let reads = meta.is_some_and(|meta| meta.effect == Effect::Read);
        let role = meta.map_or(Role::Admin, |meta| meta.role);
        let said =
            json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Said" } } });
        let answer = match path.bare {
            true => json!({ "application/json": { "schema": { "type": "object" } } }),
            false => said.clone(),
        };
        let mut responses = json!({
            "200": { "description": "Success.", "content": answer },
            "4XX": { "description": "The request was refused.", "content": said },
            "5XX": { "description": "The operation failed.", "content": said },
        });
        if !reads {
            responses["202"] = json!({ "description": "The operation continues in the background.", "content": answer });
        }
        let mut operation = json!({
            "operationId": format!("dashboard.{}", path.path.trim_start_matches("/dashboard/api/").replace(['/', '{', '}'], ".")),
            "tags": ["dashboard"],
            "summary": path.summary,
            "description": format!("Runs `{}` and returns the shape of earlier supervisors. Needs the role {role}.", path.op),
            "security": if reads { json!([{}, { "token": [] }]) } else { json!([{ "token": [] }]) },
            "responses": responses,
        });
        if path.path.contains("{name}") {
            operation["parameters"] = json!([{
                "name": "name", "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 },
            }]);
        }
        if path.method == Method::Post {
            operation["requestBody"] =
                json!({ "content": { "application/json": { "schema": { "type": "object" } } } });
        }
        let mut item = Map::new();
        item.insert(path.method.as_str().to_ascii_lowercase(), operation);
        paths.insert(path.path.into(), Value::Object(item));
    }
}

/// Schema of their responses.
pub(super) fn said() -> Value {
    json!({
        "type": "object",
        "required": ["action", "status", "message", "data", "timestamp"],
        "properties": {
            "action": { "type": "string" },
            "status": { "enum": ["success", "accepted", "failed", "error"] },
            "message": { "type": "string" },
            "data": {},
            "timestamp": { "type": "string", "format": "date-time" },
        },
    })
}
