//! Waiting for services: until they are ready, have exited, have written a line, or listen on a port.

use crate::support::{LIMIT, ask, lines, pid, service, services, shell, up, wait_state, web};
use proctor_testkit::{Home, free_port, victim, wait_until};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

/// Returns the response of `service.wait`.
#[track_caller]
fn wait(home: &Home, input: Value) -> Value {
    let mut input = input;
    if input["timeout"].is_null() {
        input["timeout"] = json!(LIMIT.as_secs());
    }
    let answer = ask(home, "service.wait", &input);
    assert!(answer["error"].is_null(), "{input}: {answer}");
    answer["ok"].clone()
}

#[track_caller]
fn reached(home: &Home, input: Value) -> Value {
    let answer = wait(home, input.clone());
    assert_eq!(answer["reached"], true, "{input}: {answer:#}");
    answer
}

#[track_caller]
fn hopeless(home: &Home, input: Value, why: &str) -> Value {
    let answer = wait(home, input.clone());
    assert_eq!(
        (&answer["reached"], &answer["hopeless"]),
        (&json!(false), &json!(true)),
        "{answer:#}"
    );
    let said = answer["missing"][0].as_str().unwrap_or_default().to_owned();
    assert!(said.contains(why), "{input}: {answer:#}");
    answer
}

#[test]
fn a_line_that_came_before_the_question_is_found() {
    let home = up(&web(&["--lines", "3"], ""));
    wait_until("all lines", LIMIT, || lines(&home, "web", &[]).len() == 3);
    let answer = reached(&home, json!({ "names": ["web"], "log": "line [23]" }));
    let found = &answer["found"][0];
    assert_eq!(
        (&found["service"], &found["text"]),
        (&json!("web"), &json!("line 2")),
        "{answer:#}"
    );
    // The cursor is directly after it: the next line is found next, and the one after that does not exist.
    let input = json!({ "names": ["web"], "log": "line", "cursor": found["cursor"] });
    let next = reached(&home, input);
    assert_eq!(next["found"][0]["text"], "line 3");
    let cursor = next["found"][0]["cursor"].clone();
    let input = json!({ "names": ["web"], "log": "line", "cursor": cursor, "timeout": 0.2 });
    let late = wait(&home, input);
    assert_eq!((&late["reached"], &late["hopeless"]), (&json!(false), &json!(false)), "{late:#}");
    assert!(late["missing"][0].as_str().unwrap().contains("no matching line"), "{late:#}");
    assert_eq!(late["services"][0]["output"], json!(["line 1", "line 2", "line 3"]));
}

#[test]
fn a_line_that_comes_later_is_told_at_once_even_without_its_end() {
    let home = Home::new();
    let go = home.path().join("go");
    let prompt = "52656164793e20";
    let args =
        ["--lines", "1", "--wait-file", go.to_str().unwrap(), "--raw", prompt, "--lines", "0"];
    home.write("proctor.yaml", &web(&args, ""));
    home.ok(["up", "-d"]);
    let waiter = home
        .command(["--json", "wait", "web", "--log", "^Ready>"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the wait is there", LIMIT, || waits(&home) == 1);
    home.write("go", "");
    let output = waiter.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&answer["reached"], &answer["found"][0]["text"]),
        (&json!(true), &json!("Ready> "))
    );
}

#[test]
fn lines_of_an_earlier_run_do_not_count_and_those_of_the_next_do() {
    let script = "echo run >> runs; echo start number $(wc -l < runs); exec sleep 1000";
    let home = up(&services(&[shell("web", script, "")]));
    reached(&home, json!({ "names": ["web"], "log": "number 1" }));
    home.ok(["restart", "web"]);
    reached(&home, json!({ "names": ["web"], "log": "number 2" }));
    let old = wait(&home, json!({ "names": ["web"], "log": "number 1", "timeout": 0.2 }));
    assert_eq!(old["reached"], false, "{old:#}");
    let waiter =
        home.command(["wait", "web", "--log", "number 3"]).stdout(Stdio::piped()).spawn().unwrap();
    wait_until("the wait is there", LIMIT, || waits(&home) == 1);
    home.ok(["restart", "web"]);
    let output = waiter.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("web: start number 3\n"), "{text}");
}

#[test]
fn a_line_that_cannot_come_any_more_is_not_waited_for() {
    let config = services(&[
        service("job", &["--lines", "5", "--exit", "3"], "restart_policy: never"),
        service("idle", &[], "autostart: false"),
        service("web", &["--lines", "1"], ""),
    ]);
    let home = Home::new();
    home.write("proctor.yaml", &config);
    home.run(["up", "-d"]);
    wait_state(&home, "job", "failed");
    reached(&home, json!({ "names": ["job"], "log": "line 5" }));
    let answer = hopeless(&home, json!({ "names": ["job"], "log": "nothing" }), "job is failed");
    assert_eq!(answer["services"][0]["output"].as_array().unwrap().len(), 5, "{answer:#}");
    hopeless(&home, json!({ "names": ["idle"], "log": "line" }), "idle is stopped");
    // Every service must match: one matching line is not enough.
    let both = hopeless(&home, json!({ "names": ["web", "idle"], "log": "line" }), "idle");
    assert_eq!(both["found"][0]["service"], "web", "{both:#}");
    reached(&home, json!({ "names": ["web", "job"], "log": "line 1" }));
}

#[test]
fn a_service_that_ends_while_its_line_is_waited_for_ends_the_wait() {
    let home = Home::new();
    let go = home.path().join("go");
    let args = ["--lines", "2", "--wait-file", go.to_str().unwrap(), "--exit", "1"];
    home.write("proctor.yaml", &web(&args, "restart_policy: never"));
    home.ok(["up", "-d"]);
    let waiter = home
        .command(["wait", "web", "--log", "never written"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the wait is there", LIMIT, || waits(&home) == 1);
    home.write("go", "");
    let output = waiter.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(
        text.contains("web is failed and has written no matching line") && text.contains("line 2"),
        "{text}"
    );
}

#[test]
fn the_exit_of_a_run_comes_with_its_code_and_its_last_lines() {
    let home = Home::new();
    let go = home.path().join("go");
    let args = ["--lines", "30", "--wait-file", go.to_str().unwrap(), "--exit", "7"];
    home.write("proctor.yaml", &web(&args, "restart: { delay: 60000 }"));
    home.ok(["up", "-d"]);
    let late = wait(&home, json!({ "names": ["web"], "until": "exit", "timeout": 0.1 }));
    assert_eq!(late["reached"], false, "{late:#}");
    let waiter = home
        .command(["--json", "wait", "web", "--until", "exit", "--tail", "3"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the wait is there", LIMIT, || waits(&home) == 1);
    home.write("go", "");
    let output = waiter.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let web = &answer["services"][0];
    assert_eq!((&answer["reached"], &web["last_exit"]["code"]), (&json!(true), &json!(7)));
    assert_eq!(web["output"], json!(["line 28", "line 29", "line 30"]), "{web:#}");
    // It has ended, which later requests see, too.
    let again = reached(&home, json!({ "names": ["web"], "until": "exit" }));
    assert_eq!(again["services"][0]["last_exit"]["code"], 7);
}

#[test]
fn what_never_ran_has_no_exit() {
    let home = up(&web(&[], "autostart: false"));
    hopeless(&home, json!({ "names": ["web"], "until": "exit" }), "never run");
    hopeless(&home, json!({ "names": ["web"], "until": "ready" }), "web is stopped");
}

#[test]
fn ready_is_when_the_port_is_open_and_the_health_check_content() {
    let home = Home::new();
    let (go, port) = (home.path().join("go"), free_port());
    let text = port.to_string();
    let args = ["--wait-file", go.to_str().unwrap(), "--http", &text];
    let keys = format!(
        "port: {port}\nhealth_check_url: http://localhost:{port}/\nhealth_check: {{ interval: 1, timeout: 1, retries: 100 }}"
    );
    let config = services(&[service("web", &args, &keys), service("plain", &[], "")]);
    home.write("proctor.yaml", &config);
    home.ok(["up", "-d"]);
    reached(&home, json!({ "names": ["plain"], "until": "ready" }));
    let late = wait(&home, json!({ "names": ["web"], "until": "ready", "timeout": 0.2 }));
    assert_eq!((&late["reached"], &late["hopeless"]), (&json!(false), &json!(false)));
    assert!(late["missing"][0].as_str().unwrap().contains("health check"), "{late:#}");
    home.write("go", "");
    reached(&home, json!({ "names": ["web", "plain"], "until": "ready" }));
    assert_eq!(crate::support::status(&home, "web")["health"]["state"], "healthy");
    home.ok(["stop", "web"]);
    hopeless(&home, json!({ "names": ["web", "plain"], "until": "ready" }), "web is stopped");
}

#[test]
fn a_port_is_open_when_something_of_the_tree_listens_on_it() {
    let home = Home::new();
    let (go, port) = (home.path().join("go"), free_port());
    let script = format!(
        "while [ ! -e {} ]; do sleep 0.02; done; {} --http {port} & wait",
        go.display(),
        victim().display()
    );
    home.write("proctor.yaml", &services(&[shell("web", &script, &format!("port: {port}"))]));
    home.ok(["up", "-d"]);
    let late = wait(&home, json!({ "names": ["web"], "until": "port", "timeout": 0.2 }));
    let said = late["missing"][0].as_str().unwrap();
    assert_eq!(said, format!("web is running and does not listen on port {port}"));
    home.write("go", "");
    reached(&home, json!({ "names": ["web"], "until": "port" }));
    reached(&home, json!({ "names": ["web"], "port": port }));
    let (code, said) = home.fail(["wait", "web", "--port", "1", "--timeout", "0.1"]);
    assert!(code != 0 && said.is_empty(), "{code} {said}");
}

#[test]
fn a_port_that_a_stranger_holds_is_named_and_hopeless() {
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = stranger.local_addr().unwrap().port();
    let home = up(&web(&["--lines", "1"], ""));
    let answer = hopeless(&home, json!({ "names": ["web"], "port": port }), "is in use by");
    let said = answer["missing"][0].as_str().unwrap();
    let me = format!("(pid {}), which does not belong to web", std::process::id());
    assert!(
        said.starts_with(&format!("port {port} is in use by ")) && said.ends_with(&me),
        "{said}"
    );
    drop(stranger);
    let free = wait(&home, json!({ "names": ["web"], "port": port, "timeout": 0.1 }));
    assert_eq!((&free["reached"], &free["hopeless"]), (&json!(false), &json!(false)), "{free:#}");
}

/// Returns the number of waits in flight.
fn waits(home: &Home) -> usize {
    let list = home.json(["operation", "list"]);
    let all = list["operations"].as_array().unwrap_or_else(|| panic!("{list:#}"));
    all.iter().filter(|it| it["name"] == "service.wait" && it["state"] == "running").count()
}

#[test]
fn a_wait_ends_when_its_client_is_gone() {
    let home = up(&web(&["--lines", "1"], ""));
    for input in [
        json!({ "names": ["web"], "log": "never", "timeout": 600 }),
        json!({ "names": ["web"], "port": 1, "timeout": 600 }),
        json!({ "names": ["web"], "until": "exit", "timeout": 600 }),
    ] {
        let mut stream = UnixStream::connect(home.path().join("run/proctor.sock")).unwrap();
        writeln!(stream, "{}", json!({ "op": "service.wait", "input": input })).unwrap();
        wait_until("the wait is there", LIMIT, || waits(&home) == 1);
        drop(stream);
        wait_until("the wait is gone", LIMIT, || waits(&home) == 0);
    }
    assert!(pid(&home, "web") > 0);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let home = up(&web(&["--lines", "1"], ""));
    for (input, words) in [
        (json!({ "until": "log" }), "'log' is missing"),
        (json!({ "until": "port" }), "web has no port"),
        (json!({ "log": "x", "port": 1 }), "not both"),
        (json!({ "log": "x", "until": "ready" }), "contradicts"),
        (json!({ "log": "(" }), "pattern"),
        (json!({ "log": "x", "cursor": "nonsense" }), "cursor"),
        (json!({ "cursor": "x" }), "'cursor' needs 'log'"),
        (json!({ "port": 70000 }), "port"),
        (json!({ "until": "soon" }), "until"),
    ] {
        let mut input = input;
        input["names"] = json!(["web"]);
        let answer = ask(&home, "service.wait", &input);
        let error = &answer["error"];
        assert_eq!(error["code"], "bad_input", "{input}: {answer}");
        assert!(format!("{error}").contains(words), "{input}: {answer}");
    }
}
