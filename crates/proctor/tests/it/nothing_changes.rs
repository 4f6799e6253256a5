//! A refused request changes nothing, and nothing happens without a request.

use crate::support::{LIMIT, pid, service, status, up, wait_state, web};
use proctor_testkit::{Home, alive, free_port, kill9, victim, wait_until};

fn two(a: &str, b: &str) -> String {
    format!("supervisor:\n  services:\n{a}{b}")
}

#[test]
fn up_with_a_missing_program_or_a_taken_port_changes_nothing() {
    let good = two(&service("a", &[], ""), &service("b", &[], ""));
    let home = up(&good);
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("port: {}", held.local_addr().unwrap().port());
    let before = (pid(&home, "a"), pid(&home, "b"), home.ok(["config"]));
    let stored = || std::fs::read_to_string(home.path().join("services.json")).unwrap();
    let on_disk = stored();
    let missing = "    c:\n      command: no-such-program\n";
    for (config, expected) in [
        (two(&service("a", &["--lines", "1"], ""), missing), "no-such-program"),
        (two(&service("a", &["--lines", "1"], ""), &service("c", &[], &port)), "in use"),
        (web(&[], "working_dir: no-such-folder"), "no-such-folder"),
    ] {
        home.write("proctor.yaml", &config);
        let (_, said) = home.fail(["up", "-d"]);
        assert!(said.contains(expected), "{said}");
        assert_eq!((pid(&home, "a"), pid(&home, "b"), home.ok(["config"])), before, "{config}");
        assert_eq!(stored(), on_disk);
    }
    let victim = victim().display().to_string();
    home.ok(["add", "job", "--command", &victim]);
    let on_disk = stored();
    home.fail(["add", "other", "--start", "--command", "no-such-program"]);
    home.fail(["start", "--name", "other", "--command", "no-such-program"]);
    home.fail(["start", "--name", "job", "--replace", "--command", "no-such-program"]);
    home.fail(["up", "-d", "no-such-service"]);
    assert_eq!(stored(), on_disk);
    assert_eq!(status(&home, "job")["command"], victim);
}

#[test]
fn a_killed_daemon_is_no_reason_to_apply_what_somebody_is_writing() {
    let home = up(&two(&service("a", &[], ""), &service("b", &[], "")));
    let (a, b) = (pid(&home, "a"), pid(&home, "b"));
    home.write("proctor.yaml", &two(&service("a", &["--lines", "1"], ""), &service("c", &[], "")));
    let daemon = home.daemon_pid();
    kill9(daemon);
    wait_until("another daemon", LIMIT, || home.daemon_pid() != daemon);
    assert_eq!((pid(&home, "a"), pid(&home, "b")), (a, b));
    assert_eq!(home.json(["list"])["services"].as_array().unwrap().len(), 2);
    assert_eq!(status(&home, "a")["stale"], false);
    home.ok(["up", "-d"]);
    wait_until("b is gone", LIMIT, || !alive(b));
    assert_ne!(pid(&home, "a"), a);
    assert_eq!(status(&home, "c")["state"], "running");
}

#[test]
fn a_renamed_service_gets_its_port_from_the_one_it_was() {
    let http = |port: u16| ["--http".to_owned(), port.to_string()];
    let port = free_port();
    let args = http(port);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let keys = format!("port: {port}\nrestart_policy: never");
    let home = up(&web(&args, &keys));
    let old = pid(&home, "web");
    let renamed = format!("supervisor:\n  services:\n{}", service("front", &args, &keys));
    home.write("proctor.yaml", &renamed);
    home.ok(["up", "-d"]);
    assert!(!alive(old));
    wait_state(&home, "front", "running");
    assert!(status(&home, "front")["last_exit"].is_null());
}

#[test]
fn a_restart_of_what_cannot_be_started_again_leaves_it_running() {
    let home = Home::new();
    let tool = home.path().join("tool");
    std::fs::copy(victim(), &tool).unwrap();
    home.write("proctor.yaml", "supervisor:\n  services:\n    web:\n      command: ./tool\n");
    home.ok(["up", "-d"]);
    let before = pid(&home, "web");
    std::fs::remove_file(&tool).unwrap();
    let (_, said) = home.fail(["restart", "web"]);
    assert!(said.contains("./tool"), "{said}");
    assert_eq!(pid(&home, "web"), before);
}
