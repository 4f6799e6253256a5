//! Refused senders on every route: pages of other sites, and foreign host names.

use super::{owner, two};
use crate::control::listening;
use crate::support::{LIMIT, services, status, wait_state};
use proctor_testkit::{Home, Http, wait_until};

/// Returns method and path of every route, with a name in place of a parameter.
fn routes(client: &Http) -> Vec<(String, String)> {
    let document = client.get("/openapi.json").json();
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let path = path.replace("{name}", "web").replace("{id}", "0123abcd");
        routes.extend(
            item.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone())),
        );
    }
    assert!(routes.len() > 40, "{}", routes.len());
    routes
}

/// Checks that every route refuses this client, with any token.
#[track_caller]
fn check_refused(home: &Home, change: impl Fn(Http) -> Http) {
    wait_state(home, "web", "running");
    let before = status(home, "web")["pid"].clone();
    let client = change(owner(home));
    for (method, path) in routes(&owner(home)) {
        let response = client.send(&method, &path, b"");
        let code = response.json()["code"].as_str().unwrap_or_default().to_owned();
        assert_eq!((response.status, code.as_str()), (403, "forbidden"), "{method} {path}");
        assert_eq!(response.header("access-control-allow-origin"), None, "{method} {path}");
    }
    assert_eq!(status(home, "web")["pid"], before, "something was done");
}

#[test]
fn a_name_that_is_not_ours_is_refused_on_every_route() {
    let home = two();
    for host in [
        "evil.example",
        "evil.example:3001",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "10.1.2.3",
    ] {
        check_refused(&home, |client| client.header("Host", host));
    }
}

#[test]
fn what_is_turned_away_at_the_door_is_in_the_audit() {
    let home = two();
    let client = owner(&home);
    for (header, value) in [
        ("Host", "evil.example"),
        ("Origin", "https://evil.example"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Authorization", "Basic abc"),
    ] {
        let response = client.header(header, value).get("/api/v1/services");
        assert!(matches!(response.status, 401 | 403), "{header}: {}", response.status);
    }
    for (code, operation, times) in
        [("forbidden", "http.request", 3), ("unauthenticated", "authenticate", 1)]
    {
        // Refusals are recorded soon, possibly after the response.
        wait_until(operation, LIMIT, || {
            let read = home.json(["audit", "read", "--code", code]);
            let entries = read["entries"].as_array().unwrap().iter();
            entries.filter(|entry| entry["operation"] == operation).count() == times
        });
    }
}

#[test]
fn a_page_of_another_origin_is_refused_on_every_route() {
    let home = two();
    let port = home.port("http");
    for origin in [
        "https://evil.example",
        "null",
        "",
        "http://127.0.0.1",
        "http://localhost:1",
        &format!("https://127.0.0.1:{port}"),
        &format!("http://127.0.0.1:{port}.evil.example"),
    ] {
        check_refused(&home, |client| client.header("Origin", origin));
    }
    // An invalid port is not the default one.
    for (host, origin) in [
        ("127.0.0.1", format!("http://127.0.0.1:{port}.evil")),
        ("127.0.0.1:80", "http://127.0.0.1:evil".into()),
        ("127.0.0.1", "http://me@127.0.0.1".into()),
    ] {
        check_refused(&home, |client| {
            client.without("Host").header("Host", host).header("Origin", &origin)
        });
    }
}

#[test]
fn what_a_browser_sends_for_another_site_is_refused_on_every_route() {
    let home = two();
    for site in ["cross-site", "same-site"] {
        check_refused(&home, |client| client.header("Sec-Fetch-Site", site));
    }
    let link = owner(&home)
        .header("Sec-Fetch-Site", "cross-site")
        .header("Sec-Fetch-Mode", "navigate")
        .header("Sec-Fetch-Dest", "document");
    assert_eq!(link.get("/").status, 200, "somebody followed a link");
    assert_eq!(link.send("POST", "/api/v1/services/web/stop", b"").status, 403);
}

#[test]
fn our_own_names_and_pages_are_taken() {
    let home = two();
    let port = home.port("http");
    for host in [
        "localhost".to_owned(),
        format!("LOCALHOST:{port}"),
        "127.0.0.1".into(),
        "127.0.0.9:1".into(),
        format!("[::1]:{port}"),
    ] {
        assert_eq!(
            owner(&home).header("Host", &host).get("/api/v1/services").status,
            200,
            "{host}"
        );
    }
    let page = owner(&home).header("Origin", &format!("http://127.0.0.1:{port}"));
    let page = page.header("Sec-Fetch-Site", "same-origin");
    assert_eq!(page.send("POST", "/api/v1/services/web/restart", b"").status, 200);
}

#[test]
fn names_and_origins_may_be_added() {
    let config = services(&[crate::support::service("web", &[], "")]).replace(
        "supervisor:\n",
        "supervisor:\n  http: { allowed_hosts: [box.example], allowed_origins: ['https://tools.example'] }\n",
    );
    let home = listening(&config);
    let client = owner(&home).header("Host", "BOX.example:80");
    assert_eq!(client.get("/api/v1/services").status, 200);
    let page =
        client.header("Origin", "https://tools.example").header("Sec-Fetch-Site", "cross-site");
    let answer = page.get("/api/v1/services");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://tools.example"));
    let asks = page.header("Access-Control-Request-Method", "POST");
    let preflight = asks.send("OPTIONS", "/api/v1/services/web/stop", b"");
    assert_eq!(preflight.status, 204);
    assert!(preflight.header("access-control-allow-headers").unwrap().contains("authorization"));
    let other = client.header("Origin", "https://tools.example.evil");
    assert_eq!(other.get("/api/v1/services").status, 403);
}

#[test]
fn every_answer_tells_browsers_to_leave_it_alone() {
    let home = two();
    for (method, path) in
        routes(&owner(&home)).into_iter().filter(|(_, path)| !path.ends_with("stream"))
    {
        if method != "GET" {
            continue;
        }
        let response = super::nobody(&home).send(&method, &path, b"");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(response.header(name), Some(value), "{path}");
        }
        assert_eq!(response.header("access-control-allow-origin"), None, "{path}");
        assert!(response.header("cache-control").is_some(), "{path}");
    }
}
