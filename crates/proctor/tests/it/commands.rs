//! `execute`: the meaning of a command's end, and no process left afterwards.

use crate::support::{LIMIT, shell, up};
use proctor_testkit::{Home, alive, kill9, wait_until};
use serde_json::{Value, json};

fn idle() -> Home {
    up(&crate::support::services(&[shell("web", "sleep 1000", "env: { MODE: service, OWN: yes }")]))
}

fn pid_in(home: &Home, file: &str) -> Option<u32> {
    std::fs::read_to_string(home.path().join(file)).ok()?.trim().parse().ok()
}

#[track_caller]
fn wait_pid(home: &Home, file: &str) -> u32 {
    wait_until(file, LIMIT, || pid_in(home, file).is_some());
    pid_in(home, file).unwrap()
}

/// Returns the printed document, for any exit code.
#[track_caller]
fn document(home: &Home, args: &[&str]) -> Value {
    let output = home.run([&["--json"], args].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[test]
fn the_exit_code_is_the_truth() {
    let home = idle();
    let good = home.json(["execute", "--", "sh", "-c", "echo said; echo wrong >&2"]);
    assert_eq!(good["success"], true, "{good:#}");
    assert_eq!((&good["exit_code"], &good["error_message"]), (&json!(0), &Value::Null));
    assert_eq!((&good["stdout"], &good["stderr"]), (&json!("said\n"), &json!("wrong\n")));
    let (code, _) = home.fail(["execute", "--", "sh", "-c", "exit 3"]);
    assert_eq!(code, 1);
    let bad = document(&home, &["execute", "--", "sh", "-c", "exit 3"]);
    assert_eq!((&bad["success"], &bad["exit_code"]), (&json!(false), &json!(3)));
    let killed = document(&home, &["execute", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(
        (&killed["exit_code"], &killed["error_message"]),
        (&Value::Null, &json!("killed by SIGTERM"))
    );
    let missing = document(&home, &["execute", "--", "no-such-program"]);
    assert!(missing["error_message"].as_str().unwrap().contains("not in PATH"), "{missing:#}");
}

#[test]
fn each_stream_of_a_command_goes_to_its_own_whatever_its_exit_code() {
    let home = idle();
    for (code, remark) in [(0, None), (3, Some("exited with code 3\n"))] {
        let script = format!("echo out; echo err >&2; exit {code}");
        let output = home.run(["execute", "--", "sh", "-c", &script]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "out\n", "{output:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        let rest = errors.strip_prefix("err\n").unwrap_or_else(|| panic!("{output:?}"));
        match remark {
            Some(remark) => assert!(rest.ends_with(remark), "{output:?}"),
            None => assert_eq!(rest, "", "{output:?}"),
        }
    }
}

#[test]
fn words_are_split_like_a_shell_and_a_list_is_taken_as_it_is() {
    let home = idle();
    let said = |args: &[&str]| document(&home, args)["stdout"].clone();
    assert_eq!(said(&["execute", "--command", "printf '[%s]' 'a b' '$HOME'"]), "[a b][$HOME]");
    assert_eq!(said(&["execute", "--shell", "--command", "printf '[%s]' $((1 + 1))"]), "[2]");
    assert_eq!(said(&["execute", "--", "printf", "[%s]", "a b", "'"]), "[a b][']");
}

#[test]
fn a_command_text_with_shell_operators_has_the_result_a_shell_gives_it() {
    let home = idle();
    let (code, _) = home.fail(["execute", "--command", "true && false"]);
    assert_eq!(code, 1);
    let written = document(&home, &["execute", "--command", "echo x > written; cat written"]);
    assert_eq!((&written["success"], &written["stdout"]), (&json!(true), &json!("x\n")));
    assert!(home.path().join("written").exists());
    let set = document(&home, &["execute", "--command", "WORD=set sh -c 'echo $WORD'"]);
    assert_eq!(set["stdout"], "set\n");
}

#[test]
fn a_service_whose_command_needs_a_shell_is_refused_with_the_key_that_gives_it_one() {
    let home = idle();
    for command in ["PORT=3 sleep 1000", "sleep 1000 | cat", "sleep $HOME"] {
        let (code, said) = home.fail(["start", "--name", "job", "--command", command]);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains("needs a shell") && said.contains("shell: true"), "{said}");
        let file = format!("supervisor:\n  services:\n    web:\n      command: {command}\n");
        home.write("other.yaml", &file);
        let (_, said) = home.fail(["config", "--check", "other.yaml"]);
        assert!(said.contains("other.yaml:4:16: services.web.command:"), "{said}");
        assert!(said.contains("shell: true"), "{said}");
    }
    home.ok(["start", "--name", "job", "--shell", "--command", "sleep 1000 | cat"]);
}

#[test]
fn what_a_request_says_lies_over_what_a_service_has() {
    let home = idle();
    let script = "echo $MODE $OWN; pwd";
    let run = |more: &[&str]| {
        let words = [&["execute", "--service", "web"], more, &["--", "sh", "-c", script]].concat();
        document(&home, &words)["stdout"].as_str().unwrap().to_owned()
    };
    let folder = home.path().canonicalize().unwrap();
    assert_eq!(run(&[]), format!("service yes\n{}\n", folder.display()));
    let other = run(&["--env", "MODE=asked", "--working-dir", "/"]);
    assert_eq!(other, "asked yes\n/\n");
}

#[test]
fn more_output_than_a_pipe_holds_is_no_deadlock() {
    let home = idle();
    let script =
        "head -c 1000000 /dev/zero | tr '\\0' a; head -c 1000000 /dev/zero | tr '\\0' b >&2";
    let answer = home.json(["execute", "--", "sh", "-c", script]);
    assert_eq!((&answer["success"], &answer["truncated"]), (&json!(true), &json!(true)));
    assert!(answer["stdout"].as_str().unwrap().contains("868928 bytes left out"));
}

#[test]
fn a_command_whose_time_is_over_is_gone_with_everything_it_started() {
    let home = idle();
    let script = "setsid sleep 1000 & echo $! > escaped; sleep 1000 & echo $! > child; wait";
    let words = ["execute", "--timeout", "0.5", "--", "sh", "-c", script];
    let answer = document(&home, &words);
    assert_eq!((&answer["success"], &answer["exit_code"]), (&json!(false), &Value::Null));
    let message = answer["error_message"].as_str().unwrap();
    assert!(message.starts_with("timed out after 0.5 s"), "{message}");
    for file in ["escaped", "child"] {
        assert!(!alive(pid_in(&home, file).unwrap()), "{file} lives");
    }
}

#[test]
fn a_command_does_not_outlive_a_daemon_that_is_killed() {
    let home = idle();
    let script = "echo $$ > main; setsid sleep 1000 & echo $! > escaped; wait";
    let mut command = home.command(["execute", "--timeout", "1000", "--", "sh", "-c", script]);
    let mut client = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let (main, escaped) = (wait_pid(&home, "main"), wait_pid(&home, "escaped"));
    let old = home.daemon_pid();
    kill9(old);
    wait_until("the command is gone", LIMIT, || !alive(main));
    wait_until("a new daemon", LIMIT, || home.daemon_pid() != old);
    wait_until("what it started is gone", LIMIT, || !alive(escaped));
    let marks = || std::fs::read_dir(home.path().join("run/commands")).unwrap().count();
    wait_until("its mark is gone", LIMIT, || marks() == 0);
    assert!(!client.wait().unwrap().success());
}

#[test]
fn a_command_does_not_outlive_a_keeper_whose_role_the_daemon_takes() {
    let home = idle();
    let script = "echo $$ > main; setsid sleep 1000 & echo $! > escaped; wait";
    let mut command = home.command(["execute", "--timeout", "1000", "--", "sh", "-c", script]);
    let mut client = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let (main, escaped) = (wait_pid(&home, "main"), wait_pid(&home, "escaped"));
    crate::support::replace_keeper(&home);
    wait_until("the command is gone", LIMIT, || !alive(main) && !alive(escaped));
    assert!(!client.wait().unwrap().success());
}

#[test]
fn secrets_on_a_command_line_are_not_shown() {
    let home = idle();
    let answer = home.json(["execute", "--", "true", "--token", "abc-secret"]);
    assert!(!answer.to_string().contains("abc-secret"), "{answer:#}");
    let listed = home.json(["operation", "list"]);
    assert!(!listed.to_string().contains("abc-secret"), "{listed:#}");
}
