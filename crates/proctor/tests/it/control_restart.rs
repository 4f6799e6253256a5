//! Restarts and health over the control port: the default service, variables for the commands around a restart, and a failing
//! health check.

use crate::control::{Control, admin, listening};
use crate::support::{pid, service, services, wait_state, web};
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
        let help = refused["data"]["help"].as_str().unwrap();
        assert!(help.contains("`security.execute.env`"), "{refused:#}");
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

#[test]
fn an_unhealthy_service_makes_the_health_check_fail() {
    let home = listening(&services(&[
        service("web", &[], ""),
        service("bad", &["--exit", "1"], "restart_policy: never\nautostart: false"),
    ]));
    let mut control = Control::known(&home, &admin(&home));
    let good = control.ask(&json!("HealthCheck"));
    assert_eq!((&good["success"], &good["data"]), (&json!(true), &json!({ "healthy": true })));
    assert_eq!(control.say("health"), home.ok(["health"]));
    home.run(["start", "bad"]);
    wait_state(&home, "bad", "failed");
    let bad = control.ask(&json!("HealthCheck"));
    assert_eq!(
        (&bad["success"], &bad["data"]),
        (&json!(false), &json!({ "healthy": false })),
        "{bad}"
    );
    let web = control.ask(&json!({ "HealthCheck": { "service": "web" } }));
    assert_eq!(web["data"], json!({ "healthy": true }), "{web}");
}
