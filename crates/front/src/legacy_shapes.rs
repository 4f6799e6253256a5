//! Shapes of earlier supervisors for existing programs: the responses of the control port, and `/dashboard/api`.
//!
//! Pure: converts the outputs of operations to these shapes, nothing else.

use proctor_ops::status::{HealthState, ServiceStatus};
use serde_json::{Map, Value, json};

/// Fields of a command's result.
pub(crate) const COMMAND: &[&str] =
    &["command", "success", "exit_code", "stdout", "stderr", "execution_time_ms", "error_message"];

/// Fields of the result of a restart with commands.
pub(crate) const WORKFLOW: &[&str] = &[
    "pre_command_results",
    "restart_successful",
    "post_command_results",
    "total_execution_time_ms",
    "overall_success",
];

/// Keeps these fields of an output, and of each command result in it.
pub(crate) fn only(fields: &[&str], mut output: Value) -> Value {
    let Value::Object(found) = &mut output else { return output };
    found.retain(|key, _| fields.contains(&key.as_str()));
    for results in ["pre_command_results", "post_command_results"] {
        for result in found.get_mut(results).and_then(Value::as_array_mut).into_iter().flatten() {
            *result = only(COMMAND, result.take());
        }
    }
    output
}

/// Converts the input of a restart with commands, where `env` is an object as in a command.
pub(crate) fn variables(mut input: Value) -> Value {
    if let Value::Object(fields) = &mut input
        && fields.get("env").is_some_and(Value::is_object)
        && !fields.contains_key("env_vars")
        && let Some(variables) = fields.shift_remove("env")
    {
        fields.insert("env_vars".to_owned(), variables);
    }
    input
}

/// Returns one service in the earlier shape.
pub(crate) fn status(service: &ServiceStatus) -> Value {
    let health = service.health.as_ref().map_or(HealthState::Unknown, |health| health.state);
    // A run after another one is a restart, even a requested one.
    let again = service.restarts > 0 || service.last_exit.is_some();
    let words = shlex::split(&service.command).unwrap_or_default();
    json!({
        "pid": service.pid,
        "status": service.state.as_str(),
        "uptime_seconds": service.uptime_seconds,
        "restart_count": service.restarts,
        "last_restart": service.started.as_ref().filter(|_| again),
        "health_status": match health {
            HealthState::Unknown | HealthState::Starting => "unknown",
            HealthState::Healthy => "healthy",
            HealthState::Failing => "unhealthy",
        },
        "args": words.get(1..).unwrap_or_default(),
    })
}

/// Returns several services, by name.
pub(crate) fn statuses(services: &[ServiceStatus]) -> Value {
    let by_name = services.iter().map(|service| (service.name.clone(), status(service)));
    Value::Object(by_name.collect::<Map<String, Value>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(more: Value) -> ServiceStatus {
        let mut value = json!({
            "name": "web", "state": "running", "pid": 7, "uptime_seconds": 12, "restarts": 0, "wish": "up",
            "started": "2026-03-01T14:05:03Z", "command": "npm run 'a b'", "working_dir": "/srv", "groups": [],
            "added": false, "stale": false,
        });
        for (key, new) in more.as_object().unwrap() {
            value[key] = new.clone();
        }
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_service_has_the_seven_fields() {
        let fresh = status(&service(json!({})));
        assert_eq!(
            fresh,
            json!({
                "pid": 7, "status": "running", "uptime_seconds": 12, "restart_count": 0, "last_restart": null,
                "health_status": "unknown", "args": ["run", "a b"],
            })
        );
        let exit =
            json!({ "kind": "code", "code": 1, "text": "exit code 1", "at": "x", "run": "1" });
        let again = status(&service(json!({
            "restarts": 2, "last_exit": exit, "health": { "state": "failing", "failures": 1 },
        })));
        assert_eq!(again["restart_count"], 2);
        assert_eq!(again["last_restart"], "2026-03-01T14:05:03Z");
        assert_eq!(again["health_status"], "unhealthy");
        let stopped = status(&service(json!({
            "state": "stopped", "pid": null, "uptime_seconds": null, "started": null, "last_exit": exit, "command": "x",
        })));
        assert_eq!((&stopped["pid"], &stopped["last_restart"]), (&Value::Null, &Value::Null));
        assert_eq!(stopped["args"], json!([]));
    }

    #[test]
    fn only_the_known_fields_are_left_in_their_order() {
        let result = json!({ "command": "x", "truncated": true, "success": true });
        let output =
            json!({ "services": [], "pre_command_results": [result], "overall_success": true });
        let expected = json!({
            "pre_command_results": [{ "command": "x", "success": true }], "overall_success": true,
        });
        assert_eq!(only(WORKFLOW, output), expected);
        assert_eq!(only(COMMAND, result), expected["pre_command_results"][0]);
    }

    #[test]
    fn several_are_a_map() {
        let both = statuses(&[service(json!({})), service(json!({ "name": "db" }))]);
        let names: Vec<&String> = both.as_object().unwrap().keys().collect();
        assert_eq!(names, ["web", "db"]);
    }
}
