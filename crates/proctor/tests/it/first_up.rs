//! The first `up` of a home: the configuration is read, then Proctor listens as configured, once. A rejected one leaves nothing.

use crate::support::{LIMIT, service, services};
use proctor_testkit::{Home, finish, free_port};
use std::net::TcpListener;
use std::process::Output;

/// A home whose file has these ports, for TCP control and HTTP.
fn home_at(tcp: u16, http: u16, service: &str) -> Home {
    let home = Home::new();
    let own = format!("supervisor:\n  port: {tcp}\n  http: {{ port: {http} }}\n");
    home.write("proctor.yaml", &services(&[service.to_owned()]).replace("supervisor:\n", &own));
    home
}

/// Runs `up -d` without variables that choose ports.
#[track_caller]
fn up(home: &Home) -> Output {
    let mut command = home.command(["up", "-d"]);
    command.env_remove("PROCTOR_HTTP_PORT").env_remove("SUPERVISOR_PORT");
    finish(&mut command, LIMIT)
}

/// Returns the addresses at which the daemon listened or tried to, from its log.
fn bound(home: &Home) -> Vec<String> {
    let log = home.own_log();
    let address = |line: &str| {
        let (_, rest) = line.split_once("local=").or_else(|| line.split_once("address="))?;
        rest.split_whitespace().next().map(str::to_owned)
    };
    let mut found: Vec<String> =
        log.lines().filter(|line| line.contains("::listen: ")).filter_map(address).collect();
    found.sort();
    found
}

#[test]
fn ports_are_bound_once_and_where_the_configuration_says() {
    let (tcp, http) = (free_port(), free_port());
    let home = home_at(tcp, http, &service("web", &[], ""));
    assert!(up(&home).status.success());
    assert_eq!((home.port("tcp"), home.port("http")), (tcp, http));
    let mut expected = [tcp, http].map(|port| format!("127.0.0.1:{port}"));
    expected.sort();
    assert_eq!(bound(&home), expected);
}

#[test]
fn a_refused_first_up_leaves_no_process_and_no_port() {
    let missing = "    web:\n      command: no-such-program-here\n";
    let home = home_at(free_port(), free_port(), missing);
    let output = up(&home);
    assert_eq!(output.status.code(), Some(9));
    let (code, said) = home.fail(["daemon", "status"]);
    assert!(code == 5 && said.contains("Proctor is not running"), "{said}");
    assert_eq!(bound(&home), [""; 0], "nobody listened meanwhile");
}

#[test]
fn a_file_with_mistakes_starts_nothing_at_all() {
    let home = home_at(free_port(), free_port(), "    web:\n      comand: x\n");
    let output = up(&home);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(7) && said.contains("did you mean 'command'"), "{said}");
    assert!(!home.path().join("proctor.log").exists(), "{}", home.own_log());
}

#[test]
fn a_taken_port_is_reported_by_up() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (tcp, http) = (free_port(), taken.local_addr().unwrap().port());
    let home = home_at(tcp, http, &service("web", &[], ""));
    let output = up(&home);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let own = format!("http is not available: 127.0.0.1:{http} is in use by ");
    let line = said.lines().find(|line| line.starts_with(&own));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("supervisor.http.port"), "{line}");
    assert!(!said.contains("tcp is not available"), "{said}");
    let again = up(&home);
    assert!(String::from_utf8_lossy(&again.stdout).contains(&own), "it is still taken");
}

#[test]
fn a_service_that_was_never_applied_is_not_started_by_a_command_for_something_else() {
    let home = home_at(free_port(), free_port(), &service("web", &[], ""));
    assert!(up(&home).status.success());
    let file = home.path().join("proctor.yaml");
    let text = std::fs::read_to_string(&file).unwrap() + &service("later", &[], "");
    std::fs::write(&file, text).unwrap();
    home.ok(["down"]);
    // Starts a Proctor, which reads the file.
    home.ok(["start", "--name", "other", "--", "/bin/sleep", "1000"]);
    let list = home.json(["list"]);
    let state = |name: &str| {
        let all = list["services"].as_array().unwrap();
        all.iter().find(|it| it["name"] == name).map(|it| it["state"].clone())
    };
    assert_eq!(state("web").unwrap(), "stopped", "{list:#}");
    assert!(state("later").is_none_or(|state| state == "stopped"), "{list:#}");
}
