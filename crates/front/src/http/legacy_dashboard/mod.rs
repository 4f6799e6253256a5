//! `/dashboard/api/…`: paths and shapes of earlier supervisors, each mapped to one operation.
//!
//! Every response is `{action,status,message,data,timestamp}`. `status` is `success`; `accepted` if the operation
//! continues in the
//! background with the id `data.operation_id`; `failed` if it did not reach the requested state; `error` if it was refused.

mod shape;

use super::connection::PeerInfo;
use super::operation::visitor;
use super::response::{JSON, Refusal, answer};
use super::{body, caller, query};
use axum::body::Body;
use axum::extract::RawPathParams;
use axum::http::{Request, Response, StatusCode};
use axum::routing::on;
use axum::{RequestExt, Router};
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::{Caller, Front, Method};
use proctor_ops::reply::Reply;
use proctor_ops::table::{self, Entry};
use serde_json::{Map, Value, json};

/// Maximum body: a name, a few commands and variables.
const MAX_LOG_BYTES: usize = 256 << 10;

/// One of these paths.
pub(super) struct Path {
    pub(super) method: Method,
    pub(super) path: &'static str,
    /// Name of the action in the response.
    pub(super) action: &'static str,
    /// Operation of the path.
    pub(super) op: &'static str,
    /// Converts the request to the input of the operation.
    pub(super) input: fn(Map<String, Value>) -> Map<String, Value>,
    /// Converts the output to `data`.
    pub(super) data: fn(Value) -> Value,
    /// The response is `data` alone.
    pub(super) bare: bool,
    pub(super) summary: &'static str,
}

const fn post(path: &'static str, action: &'static str, op: &'static str) -> Path {
    Path {
        method: Method::Post,
        path,
        action,
        op,
        input: shape::as_it_is,
        data: shape::same,
        bare: false,
        summary: "",
    }
}

pub(super) static PATHS: &[Path] = &[
    Path {
        input: shape::restart,
        summary: "Restart the named service, or the only or primary one",
        ..post("/dashboard/api/system/restart", "restart", "service.restart")
    },
    Path {
        input: shape::custom_restart,
        summary: "Run commands, restart a service, run more commands",
        ..post("/dashboard/api/system/custom-restart", "custom_restart", "service.custom_restart")
    },
    Path {
        summary: "Run one command to its end",
        ..post("/dashboard/api/system/execute-command", "execute_command", "command.execute")
    },
    Path {
        input: shape::named,
        summary: "Start a service",
        ..post("/dashboard/api/services/{name}/start", "start", "service.start")
    },
    Path {
        input: shape::named,
        summary: "Stop a service",
        ..post("/dashboard/api/services/{name}/stop", "stop", "service.stop")
    },
    Path {
        input: shape::restart,
        summary: "Restart a service",
        ..post("/dashboard/api/services/{name}/restart", "restart", "service.restart")
    },
    Path {
        method: Method::Get,
        input: shape::logs,
        data: shape::lines,
        summary: "Last output lines of a service, or of all",
        ..post("/dashboard/api/logs", "logs", "log.read")
    },
    Path {
        method: Method::Get,
        input: shape::named,
        data: shape::services,
        summary: "Proctor and its services",
        ..post("/dashboard/api/system/status", "status", "service.status")
    },
    Path {
        summary: "Switch the runtime mode",
        ..post("/dashboard/api/system/switch-mode", "switch_mode", "mode.switch")
    },
    Path {
        method: Method::Get,
        bare: true,
        summary: "The runtime mode and its features",
        ..post("/dashboard/api/mode", "mode", "mode.get")
    },
    Path {
        method: Method::Get,
        bare: true,
        summary: "Metrics of Proctor and its services",
        ..post("/dashboard/api/metrics", "metrics", "daemon.metrics")
    },
];

pub(super) fn add(router: Router) -> Router {
    PATHS.iter().fold(router, |router, path| {
        let serve = move |request: Request<Body>| serve(path, request);
        router.route(path.path, on(super::route::filter(path.method), serve))
    })
}

async fn serve(path: &'static Path, request: Request<Body>) -> Response<Body> {
    match respond(path, request).await {
        Ok((status, reply)) => answer(status, JSON, reply),
        Err(refusal) => {
            let mut response = refusal.answer();
            *response.body_mut() = Body::from(refused(path, &refusal.error).to_string());
            response
        }
    }
}

async fn respond(
    path: &'static Path,
    mut request: Request<Body>,
) -> Result<(StatusCode, String), Refusal> {
    let params: Option<RawPathParams> = request.extract_parts().await.ok();
    let name = params.and_then(|params| params.iter().next().map(|(_, value)| value.to_owned()));
    let (parts, body) = request.into_parts();
    let visitor = visitor(&parts)?;
    let caller = caller::caller(&visitor, &parts.headers, Front::Web)?;
    let entry = entry(path.op)?;
    let mut sent = match path.method {
        Method::Get | Method::Delete => {
            query::input(&query::Fields::new(), parts.uri.query().unwrap_or_default())?
        }
        Method::Post => {
            visitor.may_ask(&caller, entry, &json!({ "service": name }))?;
            let (shared, who) = (&visitor.shared, &caller.principal);
            body::object(shared, who, &parts.headers, body, MAX_LOG_BYTES).await?
        }
    };
    if let Some(name) = name
        && sent.insert("service".into(), json!(name)).is_some()
    {
        return Err(Refusal::bad_input("'service' is already given in the path"));
    }
    let input = Value::Object((path.input)(sent));
    let reply = visitor.dispatch(caller.clone(), entry, input).await?;
    if path.bare {
        return Ok((StatusCode::OK, reply.text));
    }
    let mut said = said(path, &reply);
    if path.action == "status" {
        about_proctor(&visitor, caller, &mut said).await?;
    }
    Ok((if reply.background { StatusCode::ACCEPTED } else { StatusCode::OK }, said.to_string()))
}

pub(super) fn entry(op: &str) -> Result<&'static Entry, OpError> {
    table::find(op)
        .ok_or_else(|| OpError::new(Code::Internal, format!("the operation {op} is missing")))
}

/// Converts a reply to the shape of these paths.
fn said(path: &Path, reply: &Reply) -> Value {
    let output: Value = serde_json::from_str(&reply.text).unwrap_or_default();
    let (status, message) = match (reply.background, reply.verdict) {
        (true, _) => ("accepted", format!("{} has begun", path.action)),
        (false, None) => ("success", format!("{} is done", path.action)),
        (false, Some(code)) => ("failed", format!("{}: {}", path.action, code.meaning())),
    };
    let data = match reply.background {
        true => json!({ "operation_id": output["operation"] }),
        false => (path.data)(output),
    };
    json!({
        "action": path.action,
        "status": status,
        "message": message,
        "data": data,
        "timestamp": shape::now(),
    })
}

fn refused(path: &Path, error: &OpError) -> Value {
    json!({
        "action": path.action,
        "status": "error",
        "error": error.code,
        "message": error.message,
        "data": error,
        "timestamp": shape::now(),
    })
}

/// Adds the fields of a status besides the services.
async fn about_proctor(
    visitor: &PeerInfo,
    caller: Caller,
    said: &mut Value,
) -> Result<(), Refusal> {
    let reply = visitor.dispatch(caller, entry("daemon.status")?, json!({})).await?;
    let status: Value = serde_json::from_str(&reply.text).unwrap_or_default();
    said["supervisor"] = shape::supervisor(&status);
    said["restart_capability"] = json!({
        "can_restart": true,
        "custom_restart": true,
        "execute_command": true,
        "needs_token": true,
    });
    Ok(())
}
