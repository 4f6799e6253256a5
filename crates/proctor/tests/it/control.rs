//! The control port of the real daemon: every known command in its exact shape.

use crate::support::{LIMIT, pid, service, services, status, wait_state};
use proctor_testkit::Home;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};

/// A connection to the control port.
pub(crate) struct Control {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Control {
    #[track_caller]
    pub(crate) fn connect(port: u16) -> Control {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Control { stream, reader }
    }

    /// Returns an authenticated connection.
    #[track_caller]
    pub(crate) fn known(home: &Home, token: &str) -> Control {
        let mut control = Control::connect(home.port("tcp"));
        let answer = control.ask(&json!({ "Auth": { "token": token } }));
        assert_eq!(answer["success"], true, "{answer}");
        control
    }

    /// Returns the response to a line of JSON.
    #[track_caller]
    pub(crate) fn line(&mut self, said: &str) -> String {
        self.stream.write_all(format!("{said}\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, command: &Value) -> Value {
        let line = self.line(&command.to_string());
        let answer: Value =
            serde_json::from_str(&line).unwrap_or_else(|e| panic!("{command}: {e}: {line:?}"));
        let fields: Vec<&String> = answer.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["success", "message", "data", "timestamp"], "{command}");
        answer
    }

    /// Returns the response to plain words, without the empty line.
    #[track_caller]
    pub(crate) fn say(&mut self, words: &str) -> String {
        self.stream.write_all(format!("{words}\n").as_bytes()).unwrap();
        let mut text = String::new();
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line).unwrap();
            match line.as_str() {
                "\n" => return text,
                "" => panic!("{words}: the connection ended after {text:?}"),
                line => text.push_str(line),
            }
        }
    }
}

/// Returns the token of the first start.
pub(crate) fn admin(home: &Home) -> String {
    std::fs::read_to_string(home.path().join("token")).unwrap().trim().to_owned()
}

/// Returns a home whose daemon listens, with these services up.
#[track_caller]
pub(crate) fn listening(config: &str) -> Home {
    let home = Home::listening();
    home.write("proctor.yaml", config);
    home.ok(["up", "-d"]);
    home
}

fn two() -> Home {
    listening(&services(&[
        service("web", &["--lines", "3"], ""),
        service("db", &[], "autostart: false"),
    ]))
}

#[track_caller]
fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap_or_else(|| panic!("{value}")).keys().map(String::as_str).collect()
}

const STATUS: [&str; 7] =
    ["pid", "status", "uptime_seconds", "restart_count", "last_restart", "health_status", "args"];

#[test]
fn status_is_a_map_or_one_service_in_its_exact_shape() {
    let home = two();
    let mut control = Control::connect(home.port("tcp"));
    let all = control.ask(&json!("Status"));
    assert_eq!(all["success"], true, "{all}");
    assert_eq!(keys(&all["data"]), ["db", "web"], "{all}");
    let web = &all["data"]["web"];
    assert_eq!(keys(web), STATUS, "{all}");
    assert_eq!((&web["pid"], &web["status"]), (&json!(pid(&home, "web")), &json!("running")));
    assert_eq!((&web["restart_count"], &web["last_restart"]), (&json!(0), &Value::Null));
    assert_eq!(
        (&web["health_status"], &web["args"]),
        (&json!("unknown"), &json!(["--lines", "3"]))
    );
    assert_eq!(
        (&all["data"]["db"]["pid"], &all["data"]["db"]["status"]),
        (&Value::Null, &json!("stopped"))
    );
    let one = control.ask(&json!({ "Status": { "service": "web" } }));
    assert_eq!(keys(&one["data"]), STATUS, "{one}");
    assert_eq!(one["data"]["pid"], web["pid"]);
    let map = control.ask(&json!({ "Status": { "service": "all" } }));
    assert_eq!(keys(&map["data"]), ["db", "web"], "{map}");
    let unknown = control.ask(&json!({ "Status": { "service": "nothing" } }));
    assert_eq!(
        (&unknown["success"], &unknown["data"]["code"]),
        (&json!(false), &json!("unknown_service"))
    );
}

#[test]
fn the_only_service_is_meant_if_none_is_named() {
    let home = listening(&services(&[service("web", &[], "")]));
    let mut control = Control::known(&home, &admin(&home));
    let one = control.ask(&json!("Status"));
    assert_eq!(keys(&one["data"]), STATUS, "{one}");
    let before = pid(&home, "web");
    let again = control.ask(&json!({ "Restart": { "args": null } }));
    assert_eq!(again["success"], true, "{again}");
    let now = wait_state(&home, "web", "running");
    assert_ne!(now["pid"], before, "{again}");
    assert_eq!(again["message"], format!("web restarted (pid {})", now["pid"]));
    let shown = control.ask(&json!("Status"));
    assert_eq!(shown["data"]["restart_count"], 0, "a person's restart is none of the policy's");
    assert!(shown["data"]["last_restart"].is_string(), "{shown}");
    let stopped = control.ask(&json!("Stop"));
    assert_eq!((&stopped["success"], &stopped["message"]), (&json!(true), &json!("web stopped")));
    assert_eq!(status(&home, "web")["state"], "stopped");
}

#[test]
fn several_services_and_none_named_is_an_error_that_lists_them() {
    let home = two();
    let mut control = Control::known(&home, &admin(&home));
    for command in [json!("Stop"), json!({ "Restart": { "args": null } })] {
        let answer = control.ask(&command);
        assert_eq!(answer["success"], false, "{answer}");
        let said = answer.to_string();
        assert!(said.contains("web") && said.contains("db"), "{said}");
    }
    assert_eq!(status(&home, "web")["state"], "running");
}

#[test]
fn restart_takes_other_arguments() {
    let home = two();
    let mut control = Control::known(&home, &admin(&home));
    let answer = control.ask(&json!({ "Restart": { "args": ["--lines", "5"], "service": "web" } }));
    assert_eq!(answer["success"], true, "{answer}");
    let shown = control.ask(&json!({ "Status": { "service": "web" } }));
    assert_eq!(shown["data"]["args"], json!(["--lines", "5"]), "{shown}");
}

const RESULT: [&str; 7] =
    ["command", "success", "exit_code", "stdout", "stderr", "execution_time_ms", "error_message"];

const WORKFLOW: [&str; 5] = [
    "pre_command_results",
    "restart_successful",
    "post_command_results",
    "total_execution_time_ms",
    "overall_success",
];

/// Returns a home in which these commands may be run over the network.
pub(crate) fn permissive(allowed: &str) -> Home {
    let services = services(&[service("web", &["--lines", "3"], "")]);
    let security = format!("supervisor:\n  security: {{ execute: {{ allowed: {allowed} }} }}\n");
    listening(&services.replacen("supervisor:\n", &security, 1))
}

#[test]
fn a_command_is_run_if_the_server_says_so_and_answered_in_its_exact_shape() {
    let home = permissive(r#"["/bin/sh -c ...", echo]"#);
    let mut control = Control::known(&home, &admin(&home));
    let mut run = |command: Value| {
        control.ask(&json!({ "ExecuteCommand": { "command": command, "timeout_seconds": 30 } }))
    };
    let shell = |text: &str, is_safe: bool| {
        json!({
            "command_type": "Shell", "command": text, "args": null, "working_dir": "/", "env": { "A": "b" },
            "description": "for a test", "is_safe": is_safe,
        })
    };
    let good = run(shell("echo $A $(pwd); exit 0", false));
    assert_eq!(keys(&good["data"]), RESULT, "{good}");
    assert_eq!((&good["success"], &good["data"]["stdout"]), (&json!(true), &json!("b /\n")));
    let bad = run(shell("echo wrong >&2; exit 3", true));
    assert_eq!(keys(&bad["data"]), RESULT, "{bad}");
    assert_eq!((&bad["success"], &bad["data"]["exit_code"]), (&json!(false), &json!(3)));
    assert_eq!(
        (&bad["data"]["success"], &bad["data"]["stderr"]),
        (&json!(false), &json!("wrong\n"))
    );
    let refused = run(json!({ "command_type": "binary", "command": "/bin/ls", "is_safe": true }));
    assert_eq!(refused["data"]["code"], "forbidden", "{refused}");
}

#[test]
fn a_workflow_is_answered_in_its_exact_shape() {
    let home = permissive(r#"["/bin/sh -c ..."]"#);
    let mut control = Control::known(&home, &admin(&home));
    let shell = |text: &str| json!({ "command_type": "SHELL", "command": text });
    let before = pid(&home, "web");
    let failing = control.ask(&json!({ "CustomRestart": {
        "pre_commands": [shell("exit 1")], "start_args": [], "post_commands": [shell("true")], "env_vars": {},
    }}));
    assert_eq!(keys(&failing["data"]), WORKFLOW, "{failing}");
    assert_eq!(
        (&failing["success"], &failing["data"]["restart_successful"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(failing["data"]["post_command_results"], json!([]), "{failing}");
    assert_eq!(pid(&home, "web"), before, "a failed command before it skips the restart");
    let good = control.ask(&json!({ "CustomRestart": {
        "service": "web", "pre_commands": [shell("echo $MODE")], "start_args": ["--lines", "1"],
        "post_commands": [shell("echo after")], "env_vars": { "MODE": "test" },
    }}));
    let data = &good["data"];
    assert_eq!(
        (&good["success"], &data["overall_success"]),
        (&json!(true), &json!(true)),
        "{good}"
    );
    assert_eq!(keys(&data["pre_command_results"][0]), RESULT, "{good}");
    assert_eq!(data["pre_command_results"][0]["stdout"], "test\n", "{good}");
    assert_eq!(data["post_command_results"][0]["stdout"], "after\n", "{good}");
    assert_ne!(pid(&home, "web"), before);
    let shown = control.ask(&json!("Status"));
    assert_eq!(shown["data"]["args"], json!(["--lines", "1"]), "{shown}");
}

#[test]
fn a_configuration_is_read_again_and_may_be_another() {
    let home = two();
    let mut control = Control::known(&home, &admin(&home));
    let config = services(&[service("web", &["--lines", "3"], ""), service("new", &[], "")]);
    home.write("proctor.yaml", &config);
    let answer = control.ask(&json!({ "ReloadConfig": { "config_path": null } }));
    assert_eq!(answer["success"], true, "{answer}");
    assert_eq!(
        (&answer["data"]["added"], &answer["data"]["removed"]),
        (&json!(["new"]), &json!(["db"]))
    );
    let there = control.say("reload");
    assert!(!there.contains("code:"), "{there}");
    home.write("other.yaml", "supervisor: { services: { web: { comand: x } } }");
    let path = home.path().join("other.yaml");
    let wrong = control.ask(&json!({ "ReloadConfig": { "config_path": path } }));
    assert_eq!(wrong["success"], false, "{wrong}");
    assert_eq!(status(&home, "web")["state"], "running");
}

#[test]
fn the_primary_service_is_meant_if_none_is_named() {
    let home =
        listening(&services(&[service("db", &[], ""), service("web", &[], "primary: true")]));
    let mut control = Control::known(&home, &admin(&home));
    let one = control.ask(&json!("Status"));
    assert_eq!(one["data"]["pid"], pid(&home, "web"), "{one}");
    let all = control.ask(&json!({ "Status": { "service": "all" } }));
    assert_eq!(keys(&all["data"]), ["db", "web"], "{all}");
    assert_eq!(control.ask(&json!("Stop"))["message"], "web stopped");
    assert_eq!(status(&home, "db")["state"], "running");
}

#[test]
fn words_are_what_the_command_line_prints() {
    let home = two();
    let mut control = Control::connect(home.port("tcp"));
    let without_times = |text: &str| {
        let lines = text.lines().filter(|line| {
            !["uptime", "cpu", "memory"].iter().any(|word| line.trim_start().starts_with(word))
        });
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_eq!(
        without_times(&control.say("status web")),
        without_times(&home.ok(["status", "web"]))
    );
    let lines = control.say("logs web -n 2");
    let ends: Vec<&str> =
        lines.lines().filter_map(|line| line.split_once(" web ")).map(|it| it.1).collect();
    assert_eq!(ends, ["line 2", "line 3"], "{lines}");
    assert!(control.say("help").contains("\n  restart "));
    let refused = control.say("stop web");
    assert!(refused.ends_with("code: unauthenticated\n"), "{refused}");
    assert!(control.say("status nothing").ends_with("code: unknown_service\n"));
    assert_eq!(control.say(&format!("auth {}", admin(&home))), "you are token 'admin' (admin)\n");
    assert_eq!(control.say("stop web"), "web stopped\n");
    assert!(control.say("start web").starts_with("web started (pid "));
    assert!(control.say("restart web").starts_with("web restarted (pid "));
    assert!(control.say("status web db --check").ends_with("code: not_running\n"));
}

#[test]
fn the_general_form_is_the_document_of_the_command_line() {
    let home = two();
    let mut control = Control::connect(home.port("tcp"));
    for (op, input, words) in [
        ("service.list", json!({ "no_usage": true }), &["list", "--no-usage"][..]),
        (
            "service.status",
            json!({ "names": ["web"], "no_usage": true }),
            &["status", "web", "--no-usage"],
        ),
        ("log.read", json!({ "services": ["web"], "tail": 2 }), &["logs", "web", "-n", "2"]),
        ("config.show", json!({ "names": ["web"] }), &["config", "web"]),
    ] {
        let answer = control.ask(&json!({ "op": op, "input": input }));
        assert_eq!(answer["success"], true, "{answer}");
        let mut pair = [answer["data"].clone(), home.json(words)];
        pair.iter_mut().for_each(forget_times);
        assert_eq!(pair[0], pair[1], "{op}");
    }
}

/// Removes values that change with time.
pub(crate) fn forget_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, _| {
                let moving = ["uptime_seconds", "cpu_percent", "memory_bytes", "generation"];
                !moving.contains(&key.as_str()) && !["cursor", "last_used"].contains(&key.as_str())
            });
            fields.values_mut().for_each(forget_times);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_times),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn a_pipe_that_closes_after_its_line_gets_the_whole_answer() {
    let home = two();
    let mut control = Control::connect(home.port("tcp"));
    control.stream.write_all(b"status web").unwrap();
    control.stream.shutdown(Shutdown::Write).unwrap();
    let lines: Vec<String> = control.reader.lines().map(Result::unwrap).collect();
    assert!(lines[0].starts_with("web is running"), "{lines:?}");
    assert_eq!(lines.last().map(String::as_str), Some(""));
}

#[test]
fn shutdown_is_answered_and_everything_ends() {
    let home = two();
    let keeper = home.keeper_pid();
    let mut stranger = Control::connect(home.port("tcp"));
    assert_eq!(stranger.ask(&json!("Shutdown"))["data"]["code"], "unauthenticated");
    let answer = Control::known(&home, &admin(&home)).ask(&json!("Shutdown"));
    assert_eq!(
        (&answer["success"], &answer["message"]),
        (&json!(true), &json!("Proctor has ended"))
    );
    proctor_testkit::wait_until("the keeper's end", LIMIT, || !proctor_testkit::alive(keeper));
}

#[test]
fn a_token_that_was_taken_back_ends_a_session_that_used_it() {
    let home = two();
    let made = home.json(["token", "create", "ci", "--role", "operator"]);
    let secret =
        made["secret"].as_str().or(made["token"].as_str()).unwrap_or_else(|| panic!("{made:#}"));
    let mut control = Control::known(&home, secret);
    let restart = json!({ "Restart": { "args": null, "service": "web" } });
    assert_eq!(control.ask(&restart)["success"], true);
    let shutdown = control.ask(&json!("Shutdown"));
    assert_eq!(shutdown["data"]["code"], "forbidden", "{shutdown}");
    home.ok(["token", "revoke", "ci"]);
    assert_eq!(control.ask(&restart)["data"]["code"], "unauthenticated");
}

/// Needs root: a process of another user connects without rights.
#[test]
fn another_user_of_this_machine_sees_nothing_without_a_token() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    use std::os::unix::process::CommandExt;
    let home = two();
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{}; echo '\"Status\"' >&3; head -n 1 <&3",
        home.port("tcp")
    );
    let ask = |uid: u32| {
        let mut bash = std::process::Command::new("bash");
        let output = bash.args(["-c", &script]).uid(uid).current_dir("/").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let own = ask(0);
    assert!(own.starts_with("{\"success\":true"), "{own}");
    let other = ask(54321);
    let answer: Value = serde_json::from_str(&other).unwrap();
    assert_eq!(
        (&answer["success"], &answer["data"]["code"]),
        (&json!(false), &json!("unauthenticated"))
    );
}

#[test]
fn a_flag_of_the_daemon_goes_before_every_configuration() {
    let home = Home::new();
    home.ok(["daemon", "start", "--port", "0"]);
    let port = home.port("tcp");
    home.write("proctor.yaml", &services(&[service("web", &[], "")]));
    home.ok(["up", "-d"]);
    assert_eq!(home.port("tcp"), port, "another configuration moves it nowhere");
    Control::connect(port).say("status web");
    proctor_testkit::kill9(home.daemon_pid());
    assert!(Control::connect(home.port("tcp")).say("status web").starts_with("web is running"));
    let (code, said) = home.fail(["daemon", "start", "--port", "70000"]);
    assert_eq!(code, 2, "{said}");
}
