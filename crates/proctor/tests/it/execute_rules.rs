//! Commands and variables that the configuration allows over the network, and no others.

use crate::control::{Control, admin, permissive};
use crate::support::pid;
use serde_json::{Value, json};

#[test]
fn where_and_with_which_variables_a_listed_command_runs_is_not_for_the_caller_to_say() {
    let home = permissive("[echo said], env: [MODE]");
    let mut control = Control::known(&home, &admin(&home));
    let echo = |field: &str, value: Value| {
        let mut command = json!({ "command_type": "binary", "command": "echo", "args": ["said"] });
        command[field] = value;
        command
    };
    let run = |command: Value| json!({ "ExecuteCommand": { "command": command } });
    let operation = |field: &str, value: Value| json!({ "op": "command.execute", "input": { "argv": ["echo", "said"], field: value } });
    let workflow = json!({ "CustomRestart": {
        "service": "web", "pre_commands": ["echo said"], "env_vars": { "PATH": "/tmp" },
    }});
    for request in [
        run(echo("env", json!({ "PATH": "/tmp" }))),
        run(echo("working_dir", json!("/tmp"))),
        operation("env", json!(["PATH=/tmp"])),
        operation("working_dir", json!("/tmp")),
        operation("base_dir", json!("/tmp")),
        operation("environment", json!({ "PATH": "/tmp" })),
        workflow,
        // Without any command, the variables are those of the new run.
        json!({ "CustomRestart": { "service": "web", "env_vars": { "PYTHONPATH": "/tmp" } } }),
        json!({ "op": "service.custom_restart", "input": { "service": "web", "env": ["LD_PRELOAD=/tmp/x"] } }),
    ] {
        let refused = control.ask(&request);
        assert_eq!(refused["data"]["code"], "forbidden", "{request}: {refused}");
    }
    let good = control.ask(&run(echo("env", json!({}))));
    assert_eq!(good["data"]["stdout"], "said\n", "{good}");
    let named = control.ask(&run(echo("env", json!({ "MODE": "test" }))));
    assert_eq!(named["data"]["stdout"], "said\n", "{named}");
    let before = pid(&home, "web");
    let restarted = control
        .ask(&json!({ "CustomRestart": { "service": "web", "env_vars": { "MODE": "test" } } }));
    assert_eq!(restarted["data"]["overall_success"], true, "{restarted}");
    assert_ne!(pid(&home, "web"), before);
}

#[test]
fn an_entry_allows_its_words_and_no_more() {
    let home = permissive("[make test, echo a *]");
    let mut control = Control::known(&home, &admin(&home));
    let mut run = |command: &str| {
        control.ask(&json!({ "op": "command.execute", "input": { "command": command } }))
    };
    for hostile in [
        "make test -f x.mk",
        "make test --eval='$(shell touch made)'",
        "make test SHELL=/tmp/x",
        "make test 'V=$(shell touch made)'",
        "echo a -n",
        "echo a b=c",
        "echo a b c",
    ] {
        let refused = run(hostile);
        assert_eq!(refused["data"]["code"], "forbidden", "{hostile}: {refused}");
        assert!(refused.to_string().contains("add '"), "it says what to write: {refused}");
    }
    assert_eq!(run("echo a b")["data"]["stdout"], "a b\n");
    assert!(!home.path().join("made").exists());
}
