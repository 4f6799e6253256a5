//! Ports that services really listen on, and their URLs.

use crate::support::{LIMIT, ask, service, services, shell, up, web};
use proctor_testkit::{Home, free_port, victim, wait_until};
use serde_json::{Value, json};

/// Returns the port that a victim with `--http 0` reports.
fn chosen(home: &Home, name: &str) -> u16 {
    let waited = home.json(["wait", name, "--log", "^http [0-9]+$"]);
    let text = waited["found"][0]["text"].as_str().unwrap_or_else(|| panic!("{waited:#}"));
    text.trim_start_matches("http ").parse().unwrap()
}

/// Returns the full status of a service with its ports.
fn seen(home: &Home, name: &str) -> Value {
    home.json(["status", name, "--ports"])["services"][0].clone()
}

#[test]
fn the_ports_of_a_whole_tree_are_seen() {
    let script = format!("{0} --http 0 & {0} --http 0 & wait", victim().display());
    let home = up(&services(&[
        shell("tree", &script, ""),
        service("one", &["--http", "0"], ""),
        service("none", &[], ""),
    ]));
    let one = chosen(&home, "one");
    wait_until("both listen", LIMIT, || {
        seen(&home, "tree")["ports"].as_array().is_some_and(|ports| ports.len() == 2)
    });
    let tree = seen(&home, "tree");
    assert_eq!(tree["url"], Value::Null, "which of the two is it? {tree:#}");
    let found = seen(&home, "one");
    assert_eq!(found["ports"], json!([one]), "{found:#}");
    assert_eq!(found["url"], format!("http://localhost:{one}"));
    let none = seen(&home, "none");
    assert!(none.get("ports").is_none() && none.get("url").is_none(), "{none:#}");
    assert!(home.ok(["status", "one", "--ports"]).contains(&format!("http://localhost:{one}")));
    let unmeasured = home.json(["status", "one", "--no-usage"]);
    assert!(unmeasured["services"][0].get("ports").is_none(), "{unmeasured:#}");
    home.ok(["stop", "one"]);
    assert!(seen(&home, "one").get("ports").is_none());
}

#[test]
fn the_address_is_that_of_the_health_check_or_of_the_configured_port() {
    let (first, second) = (free_port(), free_port());
    let (own, other) = (first.to_string(), second.to_string());
    let args = ["--http", &own, "--http", &other];
    let checked = |port| format!("health_check_url: http://127.0.0.1:{port}/health?x=1");
    let home = up(&web(&args, &format!("port: {own}")));
    home.ok(["wait", "web", "--until", "ready"]);
    home.ok(["wait", "web", "--port", &other]);
    wait_until("both are seen", LIMIT, || {
        seen(&home, "web")["ports"].as_array().is_some_and(|it| it.len() == 2)
    });
    assert_eq!(seen(&home, "web")["url"], format!("http://localhost:{own}"));
    home.write("proctor.yaml", &web(&args, &format!("port: {own}\n{}", checked(second))));
    home.ok(["up", "-d"]);
    assert_eq!(seen(&home, "web")["url"], format!("http://127.0.0.1:{other}"));
    let waited = ask(&home, "service.wait", &json!({ "names": ["web"], "until": "ready" }));
    assert_eq!(
        waited["ok"]["services"][0]["url"],
        format!("http://127.0.0.1:{other}"),
        "{waited:#}"
    );
}

/// Needs root: a service in its own network namespace.
#[test]
fn a_service_in_a_network_of_its_own_is_seen_there() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let script = format!(
        "exec unshare --net sh -c 'ip link set lo up 2>/dev/null; exec {} --http 8080'",
        victim().display()
    );
    let home = up(&services(&[
        shell("web", &script, "port: 8080"),
        service("none", &["--lines", "1"], ""),
    ]));
    home.ok(["wait", "web", "--until", "ready"]);
    assert_eq!(seen(&home, "web")["ports"], json!([8080]));
    let other =
        ask(&home, "service.wait", &json!({ "names": ["none"], "port": 8080, "timeout": 0.1 }));
    assert_eq!(other["ok"]["reached"], false, "the other network is another: {other:#}");
}
