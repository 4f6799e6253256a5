//! State that a new keeper finds: damaged files, missing files, unobserved exits.

use crate::support::{LIMIT, lines, pid, replace_keeper, service, status, up, wait_state, web};
use crate::survival::kill_proctor;
use proctor_testkit::{Home, alive, kill9, wait_until};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Returns the files in the service's runtime folder with this ending.
fn files(home: &Home, end: &str) -> Vec<PathBuf> {
    let folder = std::fs::read_dir(home.path().join("run/services/web")).unwrap();
    let paths = folder.flatten().map(|entry| entry.path());
    paths.filter(|path| path.to_str().unwrap().ends_with(end)).collect()
}

/// Without a keeper, damages the files with this ending: the service is kept, its log continues, and it can be stopped.
#[track_caller]
fn check_kept(end: &str, meddle: fn(&Path)) {
    let home = up(&web(&["--lines", "100000000", "--every", "2"], ""));
    wait_until("some lines", LIMIT, || lines(&home, "web", &[]).len() > 5);
    let before = pid(&home, "web");
    kill_proctor(&home);
    let files = files(&home, end);
    assert!(!files.is_empty(), "no file ends with {end}");
    for path in files {
        meddle(&path);
    }
    home.ok(["daemon", "start"]);
    assert_eq!(wait_state(&home, "web", "running")["pid"], before, "{end}");
    let seen = lines(&home, "web", &[]);
    wait_until("more lines", LIMIT, || lines(&home, "web", &[]).len() > seen.len() + 20);
    for (line, number) in lines(&home, "web", &[]).iter().zip(1..) {
        assert_eq!(line, &format!("line {number}"), "{end}");
    }
    home.ok(["stop", "web"]);
    assert!(!alive(before), "{end}");
}

#[test]
fn a_service_is_kept_whatever_happens_to_one_of_its_files() {
    let garble = |path: &Path| std::fs::write(path, b"garbage").unwrap();
    let remove = |path: &Path| std::fs::remove_file(path).unwrap();
    for end in ["/state", "/spec"] {
        check_kept(end, garble);
        check_kept(end, remove);
    }
    check_kept(".out", remove);
}

#[test]
fn a_state_that_is_older_than_the_run_does_not_start_a_second_copy() {
    let home = up(&web(&[], ""));
    home.ok(["stop", "web"]);
    let state = home.path().join("run/services/web/state");
    let stopped = std::fs::read(&state).unwrap();
    home.ok(["start", "web"]);
    let before = pid(&home, "web");
    kill_proctor(&home);
    // As if the disk had been full at the start of the run.
    std::fs::write(&state, stopped).unwrap();
    home.ok(["daemon", "start"]);
    assert_eq!(wait_state(&home, "web", "running")["pid"], before);
}

#[test]
fn a_run_that_was_about_to_be_made_is_made_and_not_counted_as_a_crash() {
    let home = up(&web(&[], "restart_policy: never"));
    let before = pid(&home, "web");
    kill_proctor(&home);
    kill9(before);
    wait_until("it is gone", LIMIT, || !alive(before));
    // Remains of a keeper that died before its child could identify itself.
    for path in files(&home, "/state") {
        let mut state = std::fs::read(&path).unwrap();
        let identity = state.len() - proctor_core::record_encoding::IDENTITY_SIZE;
        state[identity..].fill(0);
        std::fs::write(path, state).unwrap();
    }
    home.ok(["daemon", "start"]);
    let after = wait_state(&home, "web", "running");
    assert_eq!(after["last_exit"], Value::Null, "{after:#}");
}

#[test]
fn how_a_service_ended_is_known_although_its_keeper_had_died() {
    let home = Home::new();
    let gate = home.path().join("gate");
    let gate_text = gate.display().to_string();
    home.write(
        "proctor.yaml",
        &web(&["--wait-file", &gate_text, "--exit", "7"], "restart_policy: never"),
    );
    home.ok(["up", "-d"]);
    let before = status(&home, "web");
    kill_proctor(&home);
    home.ok(["daemon", "start"]);
    let after = status(&home, "web");
    for key in ["pid", "run"] {
        assert_eq!(before[key], after[key], "{key}");
    }
    // The status does not show the takeover: the service has been running since before.
    let since = |status: &Value| status["since"].as_str().unwrap().trim_end_matches('Z').to_owned();
    assert!(since(&after) <= since(&before), "{after:#}");
    std::fs::write(&gate, "").unwrap();
    let ended = wait_state(&home, "web", "failed");
    assert_eq!(ended["last_exit"]["code"], 7, "{ended:#}");
}

#[test]
fn the_limit_of_open_files_stays_what_it_was() {
    let home = Home::new();
    let config = "supervisor:\n  services:\n    web:\n      shell: true\n      command: ulimit -n; exec sleep 1000\n";
    home.write("proctor.yaml", config);
    let script = format!(
        "ulimit -S -n 512 && exec {} --home {} up -d",
        proctor_testkit::proctor().display(),
        home.path().display()
    );
    let started = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(home.path())
        .output()
        .unwrap();
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    replace_keeper(&home);
    home.ok(["restart", "web"]);
    home.ok(["daemon", "upgrade"]);
    home.ok(["restart", "web"]);
    wait_until("three runs", LIMIT, || lines(&home, "web", &[]).len() == 3);
    assert_eq!(lines(&home, "web", &[]), ["512"; 3]);
    let lock = std::fs::read_to_string(home.path().join("run/keeper.lock")).unwrap();
    assert_eq!(lock, format!("{}\n", home.keeper_pid()));
}

#[test]
fn a_program_that_is_missing_is_never_taken_for_one_that_exited() {
    let names: Vec<String> = (0..20).map(|n| format!("s{n}")).collect();
    let keys = "restart_policy: always\nmax_restarts: 20\nrestart: { delay: 0 }";
    let services: String = names.iter().map(|name| service(name, &[], keys)).collect();
    let config = format!("supervisor:\n  services:\n{services}");
    let home = Home::new();
    let victim = home.path().join("victim");
    std::fs::copy(proctor_testkit::victim(), &victim).unwrap();
    let real = proctor_testkit::victim().display().to_string();
    home.write("proctor.yaml", &config.replace(&real, &victim.display().to_string()));
    home.ok(["up", "-d"]);
    std::fs::remove_file(&victim).unwrap();
    for name in &names {
        kill9(pid(&home, name));
    }
    for name in &names {
        let failed = wait_state(&home, name, "failed");
        assert_eq!(failed["last_exit"]["kind"], "spawn_failed", "{failed:#}");
        let said = home.ok(["logs", name]);
        assert!(!said.contains("exit code 127"), "{said}");
    }
}
