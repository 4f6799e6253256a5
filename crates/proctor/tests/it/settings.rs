//! Origins of settings and their precedence: flag, environment, file, default.

use crate::support::{
    LIMIT, lines, pid, replace_keeper, service, services, status, up, wait_state,
};
use proctor_testkit::{Home, finish, victim, wait_until};
use serde_json::Value;

/// Runs `up -d` with more environment variables.
#[track_caller]
fn up_with(home: &Home, words: &[&str], environment: &[(&str, &str)]) {
    let mut command = home.command(["up", "-d"]);
    command.args(words).envs(environment.iter().copied());
    let output = finish(&mut command, LIMIT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Waits for the whole environment of a service that prints it, and returns it.
fn environment(home: &Home, name: &str) -> Vec<String> {
    wait_until("its environment", LIMIT, || lines(home, name, &[]).contains(&"line 1".to_owned()));
    lines(home, name, &[])
}

#[track_caller]
fn check_has(seen: &[String], expected: &[&str]) {
    for line in expected {
        assert!(seen.iter().any(|seen| seen == line), "{line} is missing: {seen:?}");
    }
}

#[track_caller]
fn origin(settings: &Value, key: &str) -> (Value, String) {
    let all = settings["settings"].as_array().unwrap();
    let found = all.iter().find(|one| one["key"] == key);
    let found = found.unwrap_or_else(|| panic!("no {key} in {settings:#}"));
    (found["value"].clone(), found["origin"].as_str().unwrap().to_owned())
}

#[test]
fn env_files_lie_under_the_environment_of_their_level() {
    let home = Home::new();
    home.write("all.env", "A=all-file\nB=all-file\nC=all-file\nD=all-file\nE='quoted # text'\n");
    home.write("web.env", "# a comment\nexport C=web-file\nD=web-file\n");
    home.write(
        "proctor.yaml",
        &format!(
            "supervisor:\n  env_file: all.env\n  env: {{ B: all-env }}\n  services:\n{}{}",
            service("plain", &["--print-env", "--lines", "1"], "env: { D: plain-env }"),
            service(
                "web",
                &["--print-env", "--lines", "1"],
                "env_file: [web.env, 'not-there.env?']\nenv: { D: web-env }"
            )
        ),
    );
    up_with(&home, &[], &[("A", "shell"), ("F", "shell")]);
    check_has(
        &environment(&home, "plain"),
        &[
            "env A=all-file",
            "env B=all-env",
            "env C=all-file",
            "env D=plain-env",
            "env E=quoted # text",
            "env F=shell",
        ],
    );
    // Its own files replace the supervisor's.
    check_has(
        &environment(&home, "web"),
        &["env A=shell", "env B=all-env", "env C=web-file", "env D=web-env"],
    );
    // A missing file is named with its position, and nothing changes.
    let before = pid(&home, "web");
    home.write("proctor.yaml", &services(&[service("web", &[], "env_file: missing.env")]));
    let (code, said) = home.fail(["up", "-d"]);
    assert!(code == 7 && said.contains("missing.env") && said.contains("proctor.yaml:"), "{said}");
    assert_eq!(pid(&home, "web"), before);
}

#[test]
fn keys_that_begin_with_x_are_for_people_and_anchors_work() {
    let home = Home::new();
    home.write(
        "proctor.yaml",
        &format!(
            "x-common: &common\n  restart_policy: never\n  env: {{ SHARED: 'yes' }}\nsupervisor:\n  x-note: anything\n  services:\n{}",
            service("web", &["--print-env", "--lines", "1"], "<<: *common\nx-owner: [me, 1, {a: b}]")
        ),
    );
    home.ok(["up", "-d"]);
    check_has(&environment(&home, "web"), &["env SHARED=yes"]);
    let settings = home.json(["config"]);
    assert_eq!(origin(&settings, "services.web.restart_policy").0, "never");
}

#[test]
fn what_is_planned_is_refused_by_name_and_never_ignored() {
    let home = up(&services(&[service("web", &[], "")]));
    let before = pid(&home, "web");
    home.write(
        "proctor.yaml",
        &format!(
            "supervisor:\n  plugins: [.]\n  services:\n{}",
            service("web", &[], "depends_on: [db]\nalerts: {}\nhealth_check: { tcp: 80 }"),
        ),
    );
    let (code, said) = home.fail(["up", "-d"]);
    assert_eq!(code, 7, "{said}");
    for key in ["plugins", "depends_on", "alerts", "tcp"] {
        let line = said.lines().find(|line| line.contains(&format!("'{key}'")));
        let line = line.unwrap_or_else(|| panic!("{key} is not mentioned:\n{said}"));
        assert!(line.contains("not supported yet") && line.contains("proctor.yaml:"), "{line}");
    }
    assert_eq!(pid(&home, "web"), before);
}

#[test]
fn the_target_runs_in_its_folder_with_its_words_as_a_shell_splits_them() {
    let home = Home::new();
    std::fs::create_dir(home.path().join("site")).unwrap();
    let target = format!("{:?} --print-cwd --line-prefix 'two  words ' --lines 1", victim());
    let site = home.path().join("site").display().to_string();
    let environment =
        [("SUPERVISOR_TARGET_CMD", target.as_str()), ("SUPERVISOR_WORKING_DIR", &site)];
    up_with(&home, &[], &environment);
    let expected = [format!("cwd {site}"), "two  words line 1".to_owned()];
    wait_until("its lines", LIMIT, || lines(&home, "target", &[]) == expected);
    let settings = home.json(["config"]);
    for (key, variable) in
        [("command", "SUPERVISOR_TARGET_CMD"), ("working_dir", "SUPERVISOR_WORKING_DIR")]
    {
        let (_, from) = origin(&settings, &format!("services.target.{key}"));
        assert_eq!(from, format!("environment {variable}"));
    }
    // The next daemon knows it, too, without that environment.
    home.ok(["daemon", "stop"]);
    home.ok(["daemon", "start"]);
    wait_state(&home, "target", "running");
    assert_eq!(home.json(["list"])["services"].as_array().unwrap().len(), 1);
}

#[test]
fn a_named_file_counts_before_the_environment_and_that_before_the_folder() {
    for (words, variables, expected) in [
        (&[][..], &[][..], "here"),
        (&[], &[("MAGICTUNNEL_CONFIG", "magic.yaml")], "magic"),
        (
            &[],
            &[("MAGICTUNNEL_CONFIG", "magic.yaml"), ("PROCTOR_CONFIG", "proctor-env.yaml")],
            "variable",
        ),
        (&["--config", "flag.yaml"], &[("PROCTOR_CONFIG", "proctor-env.yaml")], "flag"),
        (&[], &[("SUPERVISOR_TARGET_CMD", "sleep 1000")], "here"),
    ] {
        let home = Home::new();
        for (file, name) in [
            ("proctor.yaml", "here"),
            ("magic.yaml", "magic"),
            ("proctor-env.yaml", "variable"),
            ("flag.yaml", "flag"),
        ] {
            home.write(file, &services(&[service(name, &[], "")]));
        }
        up_with(&home, words, variables);
        let list = home.json(["list"]);
        let names: Vec<&str> = list["services"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, [expected], "{words:?} {variables:?}");
    }
}

#[test]
fn a_service_overrides_the_supervisor_and_that_the_default_key_by_key() {
    let home = up(&format!(
        "supervisor:\n  restart: {{ delay: 1234, backoff: 3.0 }}\n  stop: {{ grace: 3s }}\n  services:\n{}{}",
        service("own", &[], "restart: { delay: 77 }"),
        service("plain", &[], ""),
    ));
    let settings = home.json(["config"]);
    for (key, value, from) in [
        ("services.own.restart.delay", 77.0, "proctor.yaml:"),
        ("services.own.restart.backoff", 3.0, "proctor.yaml:2:"),
        ("services.own.restart.max_delay", 60000.0, "default"),
        ("services.plain.restart.delay", 1234.0, "proctor.yaml:2:"),
    ] {
        let (found, origin) = origin(&settings, key);
        assert_eq!(found.as_f64(), Some(value), "{key}");
        assert!(origin.starts_with(from), "{key} is from {origin}");
    }
}

#[test]
fn a_file_that_is_switched_off_defines_nothing() {
    let home = Home::new();
    let off = |text: &str| text.replacen("supervisor:", "supervisor:\n  enabled: false", 1);
    home.write("proctor.yaml", &off(&services(&[service("web", &[], "")])));
    home.run(["up", "-d"]);
    assert!(home.json(["list"])["services"].as_array().unwrap().is_empty());
}

#[test]
fn autostart_off_is_defined_and_waits_to_be_asked() {
    let home = up(&services(&[
        service("now", &[], ""),
        service("later", &[], "autostart: false\ndescription: Only when asked"),
    ]));
    assert_eq!(status(&home, "later")["state"], "stopped");
    assert!(home.ok(["status", "later"]).contains("Only when asked"));
    home.ok(["start", "later"]);
    home.ok(["daemon", "stop"]);
    home.ok(["daemon", "start"]);
    wait_state(&home, "later", "running");
}

#[test]
fn the_own_log_is_as_talkative_as_it_is_asked_to_be() {
    let told = |variables: &[(&str, &str)]| {
        let home = Home::new();
        home.write("proctor.yaml", &services(&[service("web", &[], "")]));
        up_with(&home, &[], variables);
        // The keeper is gone, and the daemon that takes over logs a warning.
        replace_keeper(&home);
        home.own_log().contains("taking over")
    };
    assert!(told(&[]), "by default, warnings are logged");
    assert!(told(&[("SUPERVISOR_LOG_LEVEL", "warn")]));
    assert!(!told(&[("SUPERVISOR_LOG_LEVEL", "error")]));
    assert!(!told(&[("SUPERVISOR_LOG_LEVEL", "off"), ("RUST_LOG", "error")]));
    assert!(told(&[("SUPERVISOR_LOG_LEVEL", "off"), ("RUST_LOG", "proctor=warn")]), "by module");
}
