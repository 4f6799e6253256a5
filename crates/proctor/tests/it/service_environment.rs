//! Initial state of a service: signals, descriptors, session, groups, variables. Nothing of Proctor or of its caller
//! may leak into it.

use crate::support::{LIMIT, lines, pid, replace_keeper, service, services, shell, status, up};
use proctor_testkit::{Home, alive, proctor, wait_until};
use std::os::unix::fs::MetadataExt;
use std::process::Command;

/// Returns a line of `/proc/PID/status`.
fn field(pid: u32, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in:\n{text}")).trim().to_owned()
}

/// Returns descriptors 0, 1 and 2 and all others, by number.
fn descriptors(pid: u32) -> Vec<(u32, String)> {
    let folder = format!("/proc/{pid}/fd");
    let mut all: Vec<(u32, String)> = std::fs::read_dir(&folder)
        .unwrap()
        .flatten()
        .map(|entry| {
            let number = entry.file_name().to_str().unwrap().parse().unwrap();
            (number, std::fs::read_link(entry.path()).unwrap().display().to_string())
        })
        .collect();
    all.sort();
    all
}

#[test]
fn signals_are_at_their_defaults_whatever_proctor_was_started_with() {
    let home = Home::new();
    // `sleep` does not change its signals, so it shows what it was given.
    home.write("proctor.yaml", "supervisor:\n  services:\n    web:\n      command: sleep 1000\n");
    // As under `nohup`, and worse.
    let script = r#"trap "" HUP INT QUIT PIPE USR1 TERM CHLD; exec "$0" --home "$1" up -d"#;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).arg(proctor()).arg(home.path()).current_dir(home.path());
    let output = proctor_testkit::finish(&mut command, LIMIT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let check = |when: &str| {
        let pid = pid(&home, "web");
        for mask in ["SigBlk", "SigIgn"] {
            assert_eq!(field(pid, mask), "0000000000000000", "{mask} {when}");
        }
    };
    check("at first");
    // A keeper that was a daemon before has other signals than one that was a command.
    replace_keeper(&home);
    home.ok(["restart", "web"]);
    check("with the next keeper");
    home.ok(["daemon", "upgrade"]);
    home.ok(["restart", "web"]);
    check("after an upgrade");
}

#[test]
fn a_pipe_that_nobody_reads_ends_the_writer_as_in_any_shell() {
    // With SIGPIPE ignored, `yes` would complain; by default it dies silently of signal 13.
    let home =
        up(&services(&[shell("web", "(yes; echo $? >&2) | head -n 1; exec sleep 1000", "")]));
    wait_until("both lines", LIMIT, || lines(&home, "web", &[]).len() == 2);
    assert_eq!(lines(&home, "web", &["--stream", "stdout"]), ["y"]);
    assert_eq!(lines(&home, "web", &["--stream", "stderr"]), ["141"]);
}

#[test]
fn only_descriptors_0_1_and_2_are_open_and_lead_where_they_should() {
    let home = up(&services(&[service("web", &[], "")]));
    let check = |when: &str| {
        let open = descriptors(pid(&home, "web"));
        let numbers: Vec<u32> = open.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [0, 1, 2], "{when}: {open:?}");
        assert_eq!(open[0].1, "/dev/null", "{when}");
        let runtime = home.path().join("run/services/web").display().to_string();
        assert!(open[1].1.starts_with(&runtime) && open[2].1.starts_with(&runtime), "{open:?}");
        assert_ne!(open[1].1, open[2].1);
    };
    check("at first");
    replace_keeper(&home);
    home.ok(["restart", "web"]);
    check("with a keeper that inherited descriptors");
}

#[test]
fn every_service_leads_a_session_and_a_group_of_its_own() {
    let home =
        up(&services(&[service("a", &["--print-ids"], ""), service("b", &["--print-ids"], "")]));
    for name in ["a", "b"] {
        wait_until("its ids", LIMIT, || {
            lines(&home, name, &[]).iter().any(|line| line.starts_with("process_group"))
        });
        let pid = pid(&home, name);
        let seen = lines(&home, name, &[]);
        for expected in [format!("session {pid}"), format!("process_group {pid}")] {
            assert!(seen.contains(&expected), "{expected} is missing: {seen:?}");
        }
        assert!(seen.contains(&format!("parent {}", home.keeper_pid())), "{seen:?}");
    }
}

#[test]
fn groups_are_those_that_were_asked_for() {
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        // Only root may change groups; the error for others is tested with users.
        return;
    }
    let script = "id -u; id -g; id -G; exec sleep 1000";
    let home = up(&services(&[
        shell("plain", script, "user: '4001:4002'\nworking_dir: /"),
        shell(
            "more",
            script,
            "user: '4001:4002'\nsupplementary_groups: [4003, 4004]\nworking_dir: /",
        ),
    ]));
    for (name, groups) in [("plain", "4002"), ("more", "4002 4003 4004")] {
        wait_until("its ids", LIMIT, || lines(&home, name, &[]).len() == 3);
        let seen = lines(&home, name, &[]);
        assert_eq!(seen, ["4001", "4002", groups], "{name}");
    }
    let (_, said) = {
        home.write(
            "proctor.yaml",
            &services(&[shell(
                "more",
                script,
                "user: nobody\nsupplementary_groups: [no-such-group-here]",
            )]),
        );
        home.fail(["up", "-d"])
    };
    assert!(said.contains("no-such-group-here"), "{said}");
}

#[test]
fn a_service_knows_who_it_is_and_nothing_of_the_callers_session() {
    let home = Home::new();
    home.write("proctor.yaml", &services(&[service("web", &["--print-env"], "")]));
    let mut command = home.command(["up", "-d"]);
    command.env("FROM_THE_CALLER", "yes").env("SHLVL", "7").env("OLDPWD", "/old");
    assert!(proctor_testkit::finish(&mut command, LIMIT).status.success());
    let prefix = |line: &str| lines(&home, "web", &[]).iter().any(|seen| seen.starts_with(line));
    wait_until("its environment", LIMIT, || prefix("env PROCTOR_RUN="));
    wait_until("all of it", LIMIT, || prefix("env PROCTOR_HOME="));
    let run = status(&home, "web")["run"].as_str().unwrap().to_owned();
    let seen = lines(&home, "web", &[]);
    for expected in [
        "env FROM_THE_CALLER=yes".to_owned(),
        format!("env PROCTOR_HOME={}", home.path().display()),
        "env PROCTOR_SERVICE=web".to_owned(),
    ] {
        assert!(seen.contains(&expected), "{expected} is missing: {seen:?}");
    }
    let own = seen.iter().find(|line| line.starts_with("env PROCTOR_RUN=")).unwrap();
    assert!(own.ends_with(&format!("-web-{run}")), "{own} of {run}");
    for left_out in ["env SHLVL=", "env OLDPWD=", "env _="] {
        assert!(!prefix(left_out), "{left_out} was passed on");
    }
}

#[test]
fn a_stop_takes_the_signal_that_was_configured() {
    let script = "trap 'echo got INT; exit 5' INT; echo ready; while :; do sleep 0.05; done";
    let home = up(&services(&[shell("web", script, "stop: { signal: INT, grace: 20s }")]));
    wait_until("it is ready", LIMIT, || lines(&home, "web", &[]) == ["ready"]);
    let main = pid(&home, "web");
    home.ok(["stop", "web"]);
    assert!(!alive(main));
    assert_eq!(status(&home, "web")["last_exit"]["code"], 5);
    assert_eq!(lines(&home, "web", &[]), ["ready", "got INT"]);
}

#[test]
fn cpu_is_that_of_the_whole_tree_and_none_for_who_sleeps() {
    let home = up(&services(&[
        shell("busy", "(while :; do :; done) & (while :; do :; done) & wait", ""),
        service("idle", &[], ""),
    ]));
    let cpu = |name: &str| status(&home, name)["cpu_percent"].as_f64().unwrap_or(0.0);
    // Two processes that use all CPU they can get, on a shared machine.
    wait_until("the busy one is seen", LIMIT, || cpu("busy") > 20.0);
    assert!(cpu("busy") < 100.0 * 64.0, "more than any machine has");
    assert!(cpu("idle") < 10.0, "{}", cpu("idle"));
    home.ok(["stop", "busy"]);
    assert!(status(&home, "busy")["cpu_percent"].is_null());
}

/// Returns a variable of a living process.
fn variable_of(pid: u32, name: &str) -> Option<String> {
    let all = std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    all.split('\0').find_map(|pair| Some(pair.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
}

/// Runs `proctor WORDS` from a terminal with this name, with these variables.
#[track_caller]
fn from_terminal(home: &Home, words: &[&str], terminal: &str, file_value: &str) {
    let mut command = home.command(words.iter().copied());
    command.env("TMUX_PANE", terminal).env("FILE_VALUE", file_value);
    let output = proctor_testkit::finish(&mut command, LIMIT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn up_from_another_terminal_restarts_nothing_unless_it_is_asked_to() {
    let home = Home::new();
    home.write("proctor.yaml", &services(&[service("web", &[], "env: { OWN: '${FILE_VALUE}' }")]));
    from_terminal(&home, &["up", "-d"], "%1", "a");
    let first = pid(&home, "web");
    assert_eq!(variable_of(first, "TMUX_PANE").as_deref(), Some("%1"));

    from_terminal(&home, &["up", "-d"], "%2", "a");
    assert_eq!(pid(&home, "web"), first, "another terminal is no change");
    // The next daemon knows the environment that each service was started with.
    let old = home.daemon_pid();
    proctor_testkit::kill9(old);
    wait_until("a new daemon", LIMIT, || home.daemon_pid() != old);
    from_terminal(&home, &["up", "-d"], "%3", "a");
    assert_eq!(pid(&home, "web"), first, "nor is it one for the next daemon");

    home.write(
        "proctor.yaml",
        &services(&[service("web", &[], "env: { OWN: '${FILE_VALUE}' }"), service("new", &[], "")]),
    );
    from_terminal(&home, &["up", "-d"], "%4", "a");
    assert_eq!(pid(&home, "web"), first);
    assert_eq!(variable_of(pid(&home, "new"), "TMUX_PANE").as_deref(), Some("%4"));

    from_terminal(&home, &["up", "-d"], "%5", "b");
    let second = pid(&home, "web");
    assert_ne!(second, first, "what the file says has changed");
    assert_eq!(variable_of(second, "OWN").as_deref(), Some("b"));

    from_terminal(&home, &["up", "-d", "--refresh-env"], "%6", "b");
    let third = pid(&home, "web");
    assert_ne!(third, second, "it was asked for");
    assert_eq!(variable_of(third, "TMUX_PANE").as_deref(), Some("%6"));
}
