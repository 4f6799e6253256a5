//! Programs that cannot be executed, and users that Proctor cannot switch to: each is reported with its remedy.

use crate::support::{LIMIT, lines, services, shell, status, up, wait_state};
use proctor_testkit::{Home, finish, wait_until};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;

/// User and group id of `nobody` on nearly every machine.
const NOBODY: u32 = 65534;

#[test]
fn a_file_that_cannot_be_run_is_refused_with_its_remedy() {
    let home = Home::new();
    for (text, mode, why, remedy) in [
        ("#!/bin/sh\nexit 0\n", 0o644, "is not executable", "chmod +x"),
        ("#!/bin/sh\r\nexit 0\r\n", 0o755, "ends with CR LF", "sed -i 's/\\r$//'"),
        ("#!/no/such/sh\n", 0o755, "interpreter '/no/such/sh', which is missing", "install"),
        ("#!/usr/bin/env no-such-node\n", 0o755, "interpreter 'no-such-node'", "install"),
    ] {
        let tool = home.write("tool", text);
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(mode)).unwrap();
        let (code, said) = home.fail(["start", "--name", "web", "--", "./tool"]);
        let told = said.contains(why) && said.contains(remedy);
        assert!(code == 9 && told && !said.contains("not found"), "{text:?}: {code} {said}");
        let (_, said) = home.fail(["execute", "--", "./tool"]);
        assert!(said.contains(why), "{text:?}: {said}");
    }
    assert!(home.json(["list"])["services"].as_array().unwrap().is_empty());
}

#[test]
fn a_text_without_an_interpreter_says_so_when_it_fails() {
    let home = Home::new();
    let tool = home.write("tool", "echo hello\n");
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    home.write("proctor.yaml", "services: { web: { command: ./tool, restart_policy: never } }");
    home.run(["up", "-d"]);
    let status = wait_state(&home, "web", "failed");
    let text = status["last_exit"]["text"].as_str().unwrap();
    assert!(text.contains("without a first line such as #!/bin/sh"), "{text}");
}

#[test]
fn a_program_that_goes_into_the_background_is_told_to_stay_in_the_foreground() {
    let background = "sleep 1000 & exit 0";
    let home = Home::new();
    let job = shell("job", "exit 0", "restart_policy: on_failure");
    home.write(
        "proctor.yaml",
        &services(&[shell("web", background, "restart_policy: on_failure"), job]),
    );
    home.run(["up", "-d"]);
    wait_until("it has ended", LIMIT, || status(&home, "web")["state"] == "stopped");
    let told = status(&home, "web");
    let (exit, why) = (&told["last_exit"], told["why"].as_str().unwrap());
    assert_eq!((&exit["kind"], &exit["code"]), (&"code".into(), &0.into()));
    assert!(why.contains("left in the background") && why.contains("--foreground"), "{why}");
    let events = home.ok(["events", "web"]);
    assert!(events.contains("left processes in the background"), "{events}");
    let logs = home.ok(["logs", "web"]);
    assert!(logs.contains("with processes left in the background"), "{logs}");
    wait_until("the other has ended", LIMIT, || status(&home, "job")["state"] == "stopped");
    assert_eq!(status(&home, "job")["last_exit"]["text"], "exit code 0");
}

#[test]
fn a_user_brings_its_variables() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let script = "echo $HOME $USER $LOGNAME $SHELL; exec sleep 1000";
    let user = format!("user: '{NOBODY}:{NOBODY}'\nworking_dir: /");
    let own = format!("{user}\nenv: {{ HOME: /srv }}");
    let home = up(&services(&[shell("a", script, &user), shell("b", script, &own)]));
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    let entry = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let entry = entry.filter(|fields| fields.get(2) == Some(&"65534")).find(|f| f.len() == 7);
    let Some([name, .., folder, shell]) = entry.as_deref() else { return };
    for (service, folder) in [("a", *folder), ("b", "/srv")] {
        wait_until("it has spoken", LIMIT, || lines(&home, service, &[]).len() == 1);
        assert_eq!(lines(&home, service, &[]), [format!("{folder} {name} {name} {shell}")]);
    }
}

#[test]
fn another_user_is_refused_before_the_start_where_proctor_is_not_root() {
    let home = Home::new();
    let script =
        |user: &str| services(&[shell("web", "exec sleep 1000", &format!("user: {user}"))]);
    home.write("proctor.yaml", &script("root"));
    let is_root = rustix::process::geteuid().is_root();
    let command = |words: &[&str]| {
        let mut command = home.command(words);
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    };
    if is_root {
        chown(home.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        chown(home.path().join("proctor.yaml"), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let output = finish(&mut command(&["up", "-d"]), LIMIT);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot start anything as user 'root'"), "{said}");
    assert!(said.contains("run Proctor as root, or remove `user:`"), "{said}");
    let (uid, gid) = if is_root {
        (NOBODY, NOBODY)
    } else {
        (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
    };
    std::fs::write(home.path().join("proctor.yaml"), script(&format!("'{uid}:{gid}'"))).unwrap();
    let output = finish(&mut command(&["up", "-d"]), LIMIT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(finish(&mut command(&["daemon", "stop"]), LIMIT).status.success());
}
