//! Listeners: file, variables, defaults and refused values.

use super::{around, config, lines};
use crate::config::listen::{ListenAddress, Listeners, Tls};
use crate::config::{ConfigContext, parse};

fn file(keys: &str) -> String {
    format!("supervisor:\n  {keys}\n  services: {{}}\n")
}

fn at(text: &str) -> ListenAddress {
    ListenAddress::At(text.parse().unwrap())
}

fn refused(keys: &str) -> Vec<String> {
    lines(&parse("proctor.yaml", &file(keys), &around()).unwrap_err())
}

#[test]
fn listeners_are_on_this_machine_unless_told_otherwise() {
    let listeners = config(&file("x-nothing: 1")).listeners;
    assert_eq!((listeners.tcp, listeners.http.place), (at("127.0.0.1:8081"), at("127.0.0.1:3001")));
    assert_eq!(listeners.http.tls, None);
    let listeners = config(&file("port: off\n  http: { host: localhost, port: 0 }")).listeners;
    assert_eq!((listeners.tcp, listeners.http.place), (ListenAddress::Off, at("127.0.0.1:0")));
    let tls = "http: { host: '::', tls: { cert: c.pem, key: /k.pem }, allowed_hosts: [a.org, '[::1]'], \
               allowed_origins: ['https://b.org:1'] }";
    let http = config(&file(tls)).listeners.http;
    assert_eq!(http.place, at("[::]:3001"));
    assert_eq!(http.tls, Some(Tls { cert: "/srv/app/c.pem".into(), key: "/k.pem".into() }));
    assert_eq!(http.allowed_hosts, ["a.org", "[::1]"]);
    assert_eq!(http.allowed_origins, ["https://b.org:1"]);
}

#[test]
fn a_listener_that_other_machines_reach_needs_tls() {
    for (keys, why) in [
        (
            "http: { host: 0.0.0.0 }",
            "proctor.yaml:2:17: supervisor.http.host: other machines can reach this address, so it needs TLS; \
             set 'tls' with 'cert' and 'key', or use 127.0.0.1",
        ),
        (
            "host: 192.168.0.1",
            "proctor.yaml:2:9: supervisor.host: TCP control has no TLS and needs a local address; \
             use 127.0.0.1; for other machines use 'http' with 'tls'",
        ),
        (
            "http: { tls: { key: k } }",
            "proctor.yaml:2:23: supervisor.http.tls: 'key' without 'cert'",
        ),
        (
            "http: { host: example.org }",
            "proctor.yaml:2:17: supervisor.http.host: found 'example.org', expected an IP address, or 'localhost'",
        ),
        (
            "port: 65536",
            "proctor.yaml:2:9: supervisor.port: found '65536', expected a port from 0 (any free one) to 65535, or 'off'",
        ),
        (
            "http: { allowed_hosts: ['a:80'] }",
            "proctor.yaml:2:26: supervisor.http.allowed_hosts: found 'a:80', expected a list of names or addresses \
             without ports",
        ),
        (
            "http: { allowed_origins: ['*'] }",
            "proctor.yaml:2:28: supervisor.http.allowed_origins: found '*', expected a list of origins, such as \
             https://example.org:8443",
        ),
    ] {
        assert_eq!(refused(keys), [why], "{keys}");
    }
}

#[test]
fn variables_lie_over_the_file() {
    let var = |name: &str| match name {
        "PROCTOR_HTTP_PORT" => Some("4000".into()),
        "SUPERVISOR_PORT" => Some("off".into()),
        _ => None,
    };
    let around = ConfigContext { base_dir: "/", var: &var, read: &|_| Err("none".into()) };
    let config = parse("proctor.yaml", &file("port: 1\n  http: { port: 2 }"), &around).unwrap();
    assert_eq!(
        (config.listeners.tcp, config.listeners.http.place),
        (ListenAddress::Off, at("127.0.0.1:4000"))
    );
    let shown: Vec<String> = config
        .settings
        .iter()
        .map(|it| format!("{} = {} ({})", it.key, it.value, it.origin))
        .collect();
    for line in [
        "supervisor.http.port = 4000 (environment PROCTOR_HTTP_PORT)",
        "supervisor.port = \"off\" (environment SUPERVISOR_PORT)",
        "supervisor.http.host = \"127.0.0.1\" (default)",
    ] {
        assert!(shown.iter().any(|it| it == line), "{line} is not in {shown:#?}");
    }
    assert_eq!(Listeners::without_file(&var).unwrap(), config.listeners);
    let bad = |name: &str| (name == "PROCTOR_HTTP_PORT").then(|| "x".to_string());
    let problems = lines(&Listeners::without_file(&bad).unwrap_err());
    assert!(problems[0].contains("environment PROCTOR_HTTP_PORT: found 'x'"), "{problems:?}");
}

#[test]
fn the_port_of_proctor_is_not_the_port_of_its_services() {
    let config = config("supervisor:\n  port: 9000\n  services:\n    web: { command: serve }\n");
    assert_eq!(config.services[0].port, None);
}
