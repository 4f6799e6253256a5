//! Restarts over the control port: the service that is meant without a name, and variables for the commands around one.

use crate::control::{Control, admin, listening};
use crate::support::{pid, web};
use serde_json::{Value, json};

#[test]
fn a_custom_restart_sets_the_variables_that_the_configuration_lists() {
    let config = web(&[], "").replace(
        "supervisor:\n",
        "supervisor:\n  security: { execute: { allowed: [env], env: [MODE, LEVEL] } }\n",
    );
    let home = listening(&config);
    let mut control = Control::known(&home, &admin(&home));
    let command = |env: Value| {
        json!({
            "command_type": "Binary", "command": "env", "args": [], "working_dir": null, "env": env,
            "description": "shows its variables", "is_safe": true,
        })
    };
    let workflow = |env: Value, field: &str, more: Value| json!({ "CustomRestart": { "pre_commands": [command(env)], "start_args": [], "post_commands": [], field: more } });
    for field in ["env_vars", "env"] {
        let request = workflow(json!({ "LEVEL": "high" }), field, json!({ "MODE": "test" }));
        let done = control.ask(&request);
        assert_eq!(done["success"], true, "{done:#}");
        let said = done["data"]["pre_command_results"][0]["stdout"].as_str().unwrap();
        assert!(said.contains("MODE=test\n") && said.contains("LEVEL=high\n"), "{said}");
    }
    for request in [
        workflow(json!({ "PATH": "/tmp" }), "env_vars", json!({})),
        workflow(json!({}), "env_vars", json!({ "MODE": "test", "PATH": "/tmp" })),
    ] {
        let refused = control.ask(&request);
        assert_eq!(refused["data"]["code"], "forbidden", "{refused:#}");
        assert!(refused["data"]["help"].as_str().unwrap().contains("list PATH in"), "{refused:#}");
    }
}

#[test]
fn restart_without_a_name_means_the_only_service() {
    let home = listening(&web(&[], ""));
    let before = pid(&home, "web");
    let mut control = Control::known(&home, &admin(&home));
    let said = control.say("restart");
    assert!(said.starts_with("web restarted"), "{said}");
    assert_ne!(pid(&home, "web"), before);
}
