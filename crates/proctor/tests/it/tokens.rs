//! Tokens: created at the first start and by hand, stored as hashes, revoked permanently.

use crate::support::{LIMIT, up, web};
use proctor_testkit::wait_until;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_first_start_makes_a_token_for_the_owner_alone() {
    let home = up(&web(&[], ""));
    let path = home.path().join("token");
    assert_eq!(home.ok(["token", "path"]).trim_end(), path.display().to_string());
    let secret = std::fs::read_to_string(&path).unwrap();
    assert!(secret.starts_with("proctor_") && secret.trim_end().len() == 51, "{secret}");
    wait_until("it is stored", LIMIT, || home.path().join("tokens.json").exists());
    for file in ["token", "tokens.json", "audit/00000001.jsonl", "audit.head"] {
        let mode = std::fs::metadata(home.path().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    home.ok(["down"]);
    home.ok(["up", "-d"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), secret, "another was made");
}

#[test]
fn tokens_are_made_listed_and_taken_back() {
    let home = up(&web(&[], ""));
    let made = home.json(["token", "create", "ci", "--role", "operator", "--expires", "7d"]);
    let secret = made["secret"].as_str().unwrap();
    assert_eq!((made["role"].as_str(), secret.len()), (Some("operator"), 51));
    let (code, _) = home.fail(["token", "create", "ci"]);
    assert_eq!(code, 8);
    home.fail(["token", "create", "../x"]);
    home.fail(["token", "create", "y", "--expires", "tomorrow"]);
    let list = home.json(["token", "list"]);
    let names: Vec<_> =
        list["tokens"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["admin", "ci"]);
    let stored = std::fs::read_to_string(home.path().join("tokens.json")).unwrap();
    assert!(!stored.contains(secret), "{stored}");
    home.ok(["token", "revoke", "ci"]);
    assert_eq!(home.fail(["token", "revoke", "ci"]).0, 3);
    home.ok(["token", "revoke", "admin"]);
    assert!(!home.path().join("token").exists());
    home.ok(["down"]);
    home.ok(["up", "-d"]);
    assert_eq!(home.json(["token", "list"])["tokens"], serde_json::json!([]));
    assert_eq!(home.json(["token", "path"])["exists"], false);
}

#[test]
fn a_store_that_cannot_be_read_is_told_and_left_as_it_is() {
    let home = up(&web(&[], ""));
    wait_until("it is stored", LIMIT, || home.path().join("tokens.json").exists());
    home.ok(["down"]);
    home.write("tokens.json", "{\"version\":1");
    home.ok(["up", "-d"]);
    let problems = home.json(["daemon", "status"])["problems"].to_string();
    assert!(
        problems.contains("tokens.json") && problems.contains("no token is accepted"),
        "{problems}"
    );
    let (_, said) = home.fail(["token", "create", "x"]);
    assert!(said.contains("tokens.json"), "{said}");
    let left = std::fs::read_to_string(home.path().join("tokens.json")).unwrap();
    assert_eq!(left, "{\"version\":1");
}
