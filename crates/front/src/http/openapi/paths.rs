//! OpenAPI description of one route, from its operation and the schema of its input.

use super::examples::examples;
use super::schemas::Schemas;
use crate::http::query::Kind;
use crate::http::route::{Route, RouteKind};
use proctor_ops::operation::{Effect, Method, Role};
use serde_json::{Map, Value, json};

/// Input field that asks for a response at once.
const BACKGROUND: &str = "background";

pub(super) fn operation(route: &Route, schemas: &mut Schemas) -> Value {
    let meta = &route.entry.meta;
    let mut operation = json!({
        "operationId": id(route),
        "tags": [noun(meta.name)],
        "summary": meta.summary,
        "description": description(route),
        "security": security(meta.role),
        "responses": responses(route, schemas),
    });
    let parameters = parameters(route);
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    if route.method == Method::Post {
        operation["requestBody"] = body(route, schemas);
    }
    operation
}

/// Returns the operation id. A path from the operation's name has that name; others add a suffix.
fn id(route: &Route) -> String {
    let name = route.entry.meta.name;
    let own = route.path.ends_with(&format!("/{}", name.replace('.', "/")));
    match (route.how, own, route.method) {
        (RouteKind::Stream, _, _) => format!("{name}.stream"),
        (RouteKind::Once, true, Method::Get) => format!("{name}.get"),
        (RouteKind::Once, true, Method::Post | Method::Delete) => name.to_owned(),
        (RouteKind::Once, false, _) => format!("{name}.resource"),
    }
}

fn noun(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

fn description(route: &Route) -> String {
    let meta = &route.entry.meta;
    let details = meta.details.split("Example").next().unwrap_or_default().trim();
    let command = meta.cli.join(" ");
    let stream = match route.how {
        RouteKind::Once => "",
        RouteKind::Stream => {
            "Endless: each event is one response, and its id is the cursor after it. "
        }
    };
    let role =
        format!("{stream}Needs the role {}. On the command line: `proctor {command}`.", meta.role);
    if details.is_empty() { role } else { format!("{details}\n\n{role}") }
}

fn security(role: Role) -> Value {
    match role {
        Role::Viewer => json!([{}, { "token": [] }]),
        Role::Operator | Role::Admin => json!([{ "token": [] }]),
    }
}

fn parameters(route: &Route) -> Vec<Value> {
    let schema = route.entry.input_schema();
    let mut parameters = Vec::new();
    if let Some(field) = route.fills {
        let about = &schema["properties"][field]["description"];
        parameters.push(json!({
            "name": route.parameter(),
            "in": "path",
            "required": true,
            "description": about,
            "schema": { "type": "string", "minLength": 1 },
        }));
    }
    let in_query = |field: &str, kind: Kind| match route.method {
        Method::Get | Method::Delete => kind != Kind::Object && Some(field) != route.fills,
        Method::Post => field == BACKGROUND,
    };
    for (field, kind) in route.fields.iter().filter(|(field, kind)| in_query(field, **kind)) {
        parameters.push(parameter(&schema, field, *kind));
    }
    if route.how == RouteKind::Stream {
        parameters.push(json!({
            "name": "Last-Event-ID",
            "in": "header",
            "description": "Continue after this event.",
            "schema": { "type": "string" },
        }));
    }
    parameters
}

fn parameter(schema: &Value, field: &str, kind: Kind) -> Value {
    let mut property = crate::http::query::resolved(schema, &schema["properties"][field]).clone();
    let about = schema["properties"][field]["description"].clone();
    let required =
        schema["required"].as_array().is_some_and(|all| all.iter().any(|it| it == field));
    if let Some(fields) = property.as_object_mut() {
        fields.remove("description");
        // A query parameter cannot be null.
        if let Some(Value::Array(types)) = fields.get_mut("type") {
            types.retain(|it| it != "null");
            if let [only] = &types[..] {
                fields["type"] = only.clone();
            }
        }
        if fields.get("default").is_some_and(Value::is_null) {
            fields.remove("default");
        }
        if let Some(items) = fields.get("items") {
            let items = crate::http::query::resolved(schema, items).clone();
            fields.insert("items".into(), items);
        }
    }
    let mut parameter = json!({
        "name": field,
        "in": "query",
        "required": required,
        "description": about,
        "schema": property,
    });
    if matches!(kind, Kind::List(_)) {
        parameter["style"] = json!("form");
        parameter["explode"] = json!(true);
    }
    parameter
}

/// Returns the schema of the body, without the field in the path.
fn body(route: &Route, schemas: &mut Schemas) -> Value {
    let mut schema = route.entry.input_schema();
    schema["additionalProperties"] = json!(false);
    let mut examples = examples(route.entry);
    let mut name = format!("{}Input", camel(route.entry.meta.name));
    if let Some(field) = route.fills {
        name = format!("{}OneInput", camel(route.entry.meta.name));
        // Indexing would add a null for a missing key.
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            properties.remove(field);
        }
        if let Some(Value::Array(required)) = schema.get_mut("required") {
            required.retain(|it| it != field);
        }
        examples.retain(|example| example.get(field).is_some());
        examples.iter_mut().filter_map(Value::as_object_mut).for_each(|it| drop(it.remove(field)));
    }
    if !examples.is_empty() {
        schema["examples"] = json!(examples);
    }
    let required = schema["required"].as_array().is_some_and(|all| !all.is_empty());
    let reference = schemas.add(&name, schema);
    json!({ "required": required, "content": { "application/json": { "schema": reference } } })
}

fn responses(route: &Route, schemas: &mut Schemas) -> Value {
    let output = route.entry.output_schema();
    let has_generation = output["properties"].get("generation").is_some();
    let mut responses = Map::new();
    let reference = schemas.add(&format!("{}Output", camel(route.entry.meta.name)), output);
    let mut good = match route.how {
        RouteKind::Once => json!({
            "description": "The output.",
            "content": { "application/json": { "schema": reference } },
        }),
        RouteKind::Stream => json!({
            "description": "Events; the data of each is an output.",
            "content": { "text/event-stream": { "schema": { "type": "string" } } },
        }),
    };
    if route.entry.meta.effect == Effect::Read && route.how == RouteKind::Once && has_generation {
        good["headers"] = json!({ "ETag": {
            "description": "Changes with every event; values that only grow with time do not affect it.",
            "schema": { "type": "string" },
        } });
        let unchanged = json!({ "description": "Nothing changed since `If-None-Match`." });
        responses.insert("304".into(), unchanged);
    }
    responses.insert("200".into(), good);
    if route.fields.contains_key(BACKGROUND) {
        responses.insert("202".into(), json!({
            "description": "The operation continues in the background.",
            "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Begun" } } },
        }));
    }
    for status in ["4XX", "5XX"] {
        responses.insert(status.into(), json!({ "$ref": "#/components/responses/Error" }));
    }
    Value::Object(responses)
}

/// Formats `service.custom_restart` as `ServiceCustomRestart`.
fn camel(name: &str) -> String {
    let words = name.split(['.', '_']).map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    words.collect()
}
