//! Requests at the socket without the checks of the command line.

use crate::support::{ask, pid, service, services, up};
use proctor_testkit::{Home, victim};
use serde_json::{Value, json};

fn typical() -> Home {
    up(&services(&[
        service("web", &["--lines", "3"], "groups: [front]"),
        service("idle", &[], "autostart: false"),
    ]))
}

#[track_caller]
fn refused(home: &Home, op: &str, input: &Value, code: &str, words: &str) {
    let answer = ask(home, op, input);
    let error = &answer["error"];
    assert_eq!(error["code"], code, "{op} {input}: {answer}");
    let said = format!("{} {}", error["message"], error["help"]);
    assert!(said.contains(words), "{op} {input}: {answer}");
}

#[test]
fn what_makes_no_sense_is_refused_with_words_that_help() {
    let home = typical();
    let before = pid(&home, "web");
    let folder = home.path().display().to_string();
    for (op, input, words) in [
        ("service.stop", json!({}), "which service?"),
        ("service.restart", json!({}), "which service?"),
        ("service.start", json!({}), "which service?"),
        ("service.start", json!({ "name": "x", "names": ["web"] }), "not both"),
        ("service.start", json!({ "name": "x" }), "needs a command"),
        ("service.start", json!({ "name": "x", "command": "a", "argv": ["b"] }), "not both"),
        ("service.start", json!({ "name": "x", "command": "true" }), "the folder of this service"),
        ("service.start", json!({ "names": 5 }), "names"),
        ("service.start", json!({ "names": ["web"], "wait": -1 }), "wait"),
        ("service.status", json!({ "nmes": ["web"] }), "did you mean 'names'?"),
        ("service.list", json!({ "state": ["broken"] }), "state[0]"),
        ("log.read", json!({ "cursor": "nonsense" }), "exactly as an earlier response returned it"),
        ("log.read", json!({ "since": "the day before" }), "the day before"),
        ("config.show", json!({ "check": "proctor.yaml" }), "not an absolute path"),
        ("daemon.upgrade", json!({ "binary": "proctor", "base_dir": folder }), "--binary"),
        ("service.status", json!(["web"]), "must be an object"),
    ] {
        refused(&home, op, &input, "bad_input", words);
    }
    refused(&home, "service.strat", &json!({}), "unknown_operation", "did you mean");
    refused(&home, "log.read", &json!({ "services": ["../x"] }), "unknown_service", "../x");
    assert_eq!(pid(&home, "web"), before);
    assert_eq!(home.json(["list"])["services"].as_array().unwrap().len(), 2);
}

#[test]
fn a_service_may_be_defined_by_a_caller_that_stands_nowhere() {
    let home = typical();
    let folder = home.path().display().to_string();
    let input = json!({ "name": "far", "argv": [victim()], "working_dir": folder });
    let answer = ask(&home, "service.start", &input);
    assert_eq!(answer["ok"]["services"][0]["state"], "running", "{answer}");
    assert_eq!(answer["ok"]["services"][0]["working_dir"], folder, "{answer}");
}

#[test]
fn services_are_listed_by_group_and_state() {
    let home = typical();
    let names = |input: Value| -> Vec<String> {
        let answer = ask(&home, "service.list", &input);
        let services = answer["ok"]["services"].as_array().unwrap_or_else(|| panic!("{answer}"));
        services.iter().map(|service| service["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(json!({})), ["idle", "web"]);
    assert_eq!(names(json!({ "group": ["front"] })), ["web"]);
    assert_eq!(names(json!({ "state": ["stopped"], "no_usage": true })), ["idle"]);
    refused(&home, "service.list", &json!({ "group": ["back"] }), "unknown_service", "back");
}

#[test]
fn a_check_of_status_is_good_only_if_everything_runs() {
    let home = typical();
    home.ok(["status", "web", "--check"]);
    let output = home.run(["--json", "status", "--check"]);
    assert_eq!(output.status.code(), Some(4), "idle does not run");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["good"], false, "{answer:#}");
    home.ok(["start", "idle"]);
    home.ok(["status", "--check"]);
}

#[test]
fn a_running_proctor_checks_another_file_and_keeps_its_own() {
    let home = typical();
    home.write("other.yaml", &services(&[service("db", &[], "port: 5432")]));
    let keys = |answer: &Value| -> Vec<String> {
        let settings = answer["settings"].as_array().unwrap();
        settings.iter().map(|it| it["key"].as_str().unwrap().to_owned()).collect()
    };
    let checked = home.json(["config", "--check", "other.yaml"]);
    assert!(keys(&checked).contains(&"services.db.port".to_owned()), "{checked:#}");
    let folder = home.path().display().to_string();
    let input = json!({ "check": "other.yaml", "base_dir": folder });
    assert_eq!(ask(&home, "config.show", &input)["ok"], checked);
    let own = home.json(["config"]);
    assert!(keys(&own).contains(&"services.web.command".to_owned()), "{own:#}");
    assert!(!keys(&own).iter().any(|key| key.starts_with("services.db.")), "{own:#}");
    let web = home.json(["config", "web"]);
    assert!(!keys(&web).is_empty(), "{web:#}");
    assert!(keys(&web).iter().all(|key| key.starts_with("services.web.")), "{web:#}");
    let example = ask(&home, "config.show", &json!({ "example": true }));
    assert!(example["ok"]["example"].as_str().is_some_and(|it| it.contains("services:")));
}

#[test]
fn a_proctor_without_services_says_so() {
    let home = Home::new();
    home.ok(["add", "web", "--", &victim().display().to_string()]);
    home.ok(["rm", "web"]);
    assert!(home.ok(["status"]).contains("no services"));
    assert!(home.ok(["list"]).contains("no services"));
    refused(&home, "log.read", &json!({}), "unknown_service", "no services");
    assert!(home.ok(["config"]).contains("no configuration"));
}
