//! `proctor.yaml`, its errors, and the origin of values.

use crate::support::{LIMIT, lines, pid, service, services, status, up, wait_state, web};
use proctor_testkit::{Home, victim, wait_until};

#[test]
fn everything_wrong_with_a_file_is_said_at_once_and_nothing_changes() {
    let home = up(&web(&[], ""));
    let before = pid(&home, "web");
    home.write(
        "proctor.yaml",
        "supervisor:\n  services:\n    web:\n      comand: x\n      restart_policy: sometimes\n    db:\n      command: 'unbalanced\n",
    );
    let (_, said) = home.fail(["up", "-d"]);
    assert!(said.contains("proctor.yaml:"), "{said}");
    home.write(
        "proctor.yaml",
        "supervisor:\n  services:\n    web:\n      comand: x\n      restart_policy: sometimes\n    db:\n      command: sleep 1\n      depends_on: [web]\n",
    );
    let (_, said) = home.fail(["up", "-d"]);
    for expected in [
        "proctor.yaml:4:7",
        "did you mean 'command'",
        "proctor.yaml:5:",
        "sometimes",
        "depends_on",
        "not supported yet",
    ] {
        assert!(said.contains(expected), "{expected} is missing:\n{said}");
    }
    assert_eq!(pid(&home, "web"), before);
    let (_, said) = home.fail(["config", "--check", "proctor.yaml"]);
    assert!(said.contains("proctor.yaml:4:7"), "{said}");
}

#[test]
fn variables_come_from_the_environment_then_the_env_file() {
    let home = Home::new();
    home.write(".env", "GREETING=from-dotenv\nNAME=dotenv\n");
    home.write(
        "proctor.yaml",
        &web(
            &["--print-env"],
            "env:\n  A: ${GREETING}\n  B: ${NAME}\n  C: ${UNSET:-fallback}\n  D: $$HOME",
        ),
    );
    let output = home.command(["up", "-d"]).env("NAME", "shell").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    wait_until("its environment", LIMIT, || {
        lines(&home, "web", &[]).iter().any(|l| l.starts_with("env D="))
    });
    let seen = lines(&home, "web", &[]);
    for expected in
        ["env A=from-dotenv", "env B=shell", "env C=fallback", "env D=$HOME", "env NAME=shell"]
    {
        assert!(seen.iter().any(|line| line == expected), "{expected} is missing: {seen:?}");
    }
}

#[test]
fn a_changed_service_is_restarted_by_up_and_the_others_are_not() {
    let two = |args: &[&str]| {
        format!(
            "supervisor:\n  services:\n{}{}",
            crate::support::service("a", &[], ""),
            crate::support::service("b", args, "")
        )
    };
    let home = up(&two(&["--lines", "1"]));
    let (a, b) = (pid(&home, "a"), pid(&home, "b"));
    home.write("proctor.yaml", &two(&["--lines", "2"]));
    home.ok(["up", "-d"]);
    assert_eq!(pid(&home, "a"), a);
    assert_ne!(pid(&home, "b"), b);
    home.write("proctor.yaml", &web(&[], ""));
    home.ok(["up", "-d"]);
    wait_until("they are forgotten", LIMIT, || {
        home.json(["list"])["services"].as_array().unwrap().len() == 1
    });
    assert!(!proctor_testkit::alive(a));
}

#[test]
fn a_target_command_alone_is_enough() {
    let home = Home::new();
    let target = format!("{} --lines 1 --line-prefix 'it is '", victim().display());
    let output = home.command(["up", "-d"]).env("SUPERVISOR_TARGET_CMD", target).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    wait_state(&home, "target", "running");
    wait_until("its line", LIMIT, || {
        lines(&home, "target", &[]) == ["it is 1"]
            || lines(&home, "target", &[]) == ["it is line 1"]
    });
}

#[test]
fn without_configuration_an_example_runs_and_says_what_to_write() {
    let home = Home::new();
    let output = home.run(["up", "-d"]);
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{said}");
    assert!(said.contains("proctor.yaml"), "{said}");
    assert!(home.json(["list"])["services"].as_array().unwrap().len() >= 2, "{said}");
}

#[test]
fn config_shows_each_value_and_where_it_came_from() {
    let home = up(&web(&[], "max_restarts: 5\nenv: { API_TOKEN: s3cr3t-value }"));
    let text = home.ok(["config"]);
    assert!(text.contains("services.web.max_restarts") && text.contains("proctor.yaml:"), "{text}");
    assert!(text.contains("default"), "{text}");
    for words in [
        vec!["config"],
        vec!["status", "web"],
        vec!["list"],
        vec!["--json", "config"],
        vec!["--json", "status"],
    ] {
        assert!(!home.ok(&words).contains("s3cr3t-value"), "{words:?} shows a secret");
    }
}

#[test]
fn a_second_configuration_is_refused_while_the_first_runs() {
    let home = up(&web(&[], ""));
    let other = home.write("elsewhere/proctor.yaml", &web(&[], ""));
    let (_, said) = home.fail(["up", "-d", "--config", other.to_str().unwrap()]);
    assert!(said.contains("--home") && said.contains("down"), "{said}");
    assert_eq!(status(&home, "web")["state"], "running");
}

#[test]
fn a_port_that_is_taken_is_named_with_its_holder() {
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    let home = Home::new();
    home.write("proctor.yaml", &web(&[], &format!("port: {port}")));
    let (_, said) = home.fail(["up", "-d"]);
    assert!(
        said.contains(&port.to_string()) && said.contains(&std::process::id().to_string()),
        "{said}"
    );
}

#[test]
fn a_checked_file_is_said_to_be_valid_and_shown_only_if_asked() {
    let home = Home::new();
    let path = home.write(
        "proctor.yaml",
        &services(&[service("web", &[], "instances: 2"), service("db", &[], "")]),
    );
    let verdict = format!("{} is valid: 2 services\n", path.display());
    assert_eq!(home.ok(["config", "--check", "proctor.yaml"]), verdict);
    let all = home.ok(["config", "--check", "proctor.yaml", "-v"]);
    assert!(all.ends_with(&verdict) && all.contains("services.db.command"), "{all}");
    let one = home.ok(["config", "db", "--check", "proctor.yaml"]);
    assert!(one.contains("services.db.command") && !one.contains("services.web"), "{one}");
    assert!(home.ok(["config"]).contains("services.db.command"), "and without a Proctor");
    home.write("one.yaml", &services(&[service("web", &[], "")]));
    assert!(home.ok(["config", "--check", "one.yaml"]).ends_with("is valid: 1 service\n"));
}

#[test]
fn a_list_may_name_the_services() {
    let all =
        [service("web", &[], ""), service("db", &[], ""), service("api", &[], "groups: [back]")];
    let home = Home::new();
    home.write("proctor.yaml", &services(&all));
    home.ok(["up", "-d"]);
    let names = |words: &[&str]| {
        let list = home.json(words);
        let name = |it: &serde_json::Value| it["name"].as_str().unwrap().to_owned();
        list["services"].as_array().unwrap().iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(names(&["ls", "web"]), ["web"]);
    assert_eq!(names(&["ls", "back", "db"]), ["api", "db"]);
    let (code, said) = home.fail(["ls", "wbe"]);
    assert!(code == 3 && said.contains("'wbe'"), "{said}");
    home.ok(["stop", "db"]);
    assert_eq!(home.ok(["health"]), "healthy: 1 stopped, 2 running\n");
}
