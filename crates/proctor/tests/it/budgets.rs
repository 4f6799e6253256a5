//! Logs within a byte budget: pages, long lines, repeated lines, errors and their context.

use crate::support::{LIMIT, lines, service, services, shell, up, wait_state, web};
use proctor_testkit::{Home, kill9, wait_until};
use serde_json::{Value, json};

/// Returns the response of `log.read`.
#[track_caller]
fn read(home: &Home, input: &Value) -> Value {
    let answer = crate::support::ask(home, "log.read", input);
    assert!(answer["error"].is_null(), "{input}: {answer}");
    answer["ok"].clone()
}

fn texts(answer: &Value) -> Vec<String> {
    let items = answer["items"].as_array().unwrap_or_else(|| panic!("{answer:#}"));
    let lines = items.iter().filter(|item| item["kind"] == "line");
    lines.map(|item| item["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_answer_keeps_to_its_size_and_the_next_goes_on_exactly_there() {
    let home = up(&web(&["--lines", "3000", "--stderr"], ""));
    wait_until("all lines", LIMIT, || lines(&home, "web", &[]).len() == 6000);
    let mut found = Vec::new();
    let mut input = json!({ "services": ["web"], "since": "1h", "max_bytes": 4000 });
    loop {
        let answer = read(&home, &input);
        let size = answer.to_string().len();
        assert!(size < 4000 + 500, "{size} bytes");
        found.extend(texts(&answer));
        input["cursor"] = answer["cursor"].clone();
        if answer["more"] == false {
            break;
        }
    }
    found.sort();
    let mut expected: Vec<String> = (1..=3000)
        .flat_map(|number| [format!("line {number}"), format!("line {number}")])
        .collect();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn of_the_last_lines_the_newest_are_in_the_answer() {
    let home = up(&web(&["--lines", "1000"], ""));
    wait_until("all lines", LIMIT, || lines(&home, "web", &[]).len() == 1000);
    let input = json!({ "services": ["web"], "tail": 500, "max_bytes": 2000, "text": true });
    let answer = read(&home, &input);
    assert_eq!((&answer["truncated"], &answer["more"]), (&json!(true), &json!(false)), "{answer}");
    let text = answer["text"].as_str().unwrap();
    assert!(text.ends_with("line 999\nline 1000\n") && text.len() < 2000, "{text}");
    assert!(answer.to_string().len() < 2500);
    let note = home.run(["logs", "web", "-n", "500", "--max-bytes", "2000"]);
    let (out, err) = (String::from_utf8_lossy(&note.stdout), String::from_utf8_lossy(&note.stderr));
    assert!(out.ends_with("line 1000\n") && err.contains("older lines were omitted"), "{err}");
    let forward = home.run(["logs", "web", "--since", "1h", "--max-bytes", "2000"]);
    let err = String::from_utf8_lossy(&forward.stderr).into_owned();
    let cursor = err.trim().rsplit(' ').next().unwrap();
    let next = home.ok(["logs", "web", "--after", cursor, "--max-bytes", "300"]);
    let last = String::from_utf8_lossy(&forward.stdout).lines().last().unwrap().to_owned();
    let number: u32 = last.trim_start_matches("line ").parse().unwrap();
    assert!(next.starts_with(&format!("line {}\n", number + 1)), "{last}: {next}");
}

#[test]
fn a_line_of_twenty_megabytes_does_not_fill_an_answer() {
    let length: u64 = 20 << 20;
    let keys = "logs: { max_size: 4MiB, max_files: 100, max_total: 128MiB }";
    let home =
        up(&web(&["--lines", "1", "--long-line", &length.to_string(), "--lines", "2"], keys));
    wait_until("the last line", LIMIT, || lines(&home, "web", &["--grep", "^line 2$"]).len() == 1);
    for input in [json!({ "tail": 4 }), json!({ "since": "1h" })] {
        let mut input = input;
        (input["services"], input["max_bytes"]) = (json!(["web"]), json!(3000));
        (input["max_line"], input["grep"]) = (json!(1000), json!("line|x"));
        let answer = read(&home, &input);
        let found = texts(&answer);
        assert_eq!((found.len(), found[1].len()), (4, 1000), "{input}");
        assert_eq!(answer["items"][1]["left_out"], length - 1000);
        assert_eq!((found[0].as_str(), found[3].as_str()), ("line 1", "line 2"));
        assert!(answer.to_string().len() < 3500);
    }
    let answer = read(&home, &json!({ "services": ["web"], "tail": 3, "max_bytes": 500 }));
    assert_eq!(answer["items"].as_array().unwrap().len(), 2, "{answer}");
    let text = home.ok(["logs", "web", "-n", "3", "--max-line", "10"]);
    assert_eq!(text, "xxxxxxxxxx… (20.0 MiB more)\nline 1\nline 2\n");
}

#[test]
fn a_hundred_thousand_equal_lines_are_one() {
    let script = "yes 'the same again' | head -n 100000; echo done";
    let home = up(&services(&[shell("web", script, "restart_policy: one_shot")]));
    wait_state(&home, "web", "stopped");
    let input = json!({ "services": ["web"], "since": "1h", "fold": true, "max_bytes": 2000 });
    let answer = read(&home, &input);
    assert_eq!(texts(&answer), ["the same again", "done"]);
    let folded = answer["items"].as_array().unwrap().iter().find(|it| !it["repeated"].is_null());
    assert_eq!(folded.unwrap()["repeated"], 100_000, "{answer:#}");
    let text = home.ok(["logs", "web", "--since", "1h", "--fold"]);
    assert!(text.contains("the same again (×100000)\ndone\n"), "{text:.500}");
}

#[test]
fn errors_are_found_with_what_is_near_them() {
    let script = "for n in 1 2 3 4 5; do echo working on $n; done; echo 'TypeError: no' ; echo '  at main.js:1'; \
                  echo tick; echo tick; echo tick; exec sleep 1000";
    let home = up(&services(&[shell("web", script, ""), service("other", &[], "")]));
    wait_until("all lines", LIMIT, || lines(&home, "web", &[]).len() == 10);
    let answer = home.json(["logs", "web", "--errors", "-n", "1"]);
    assert_eq!(texts(&answer), ["TypeError: no"]);
    let answer = home.json(["logs", "web", "--errors", "-n", "1", "--context", "1"]);
    assert_eq!(texts(&answer), ["working on 5", "TypeError: no", "  at main.js:1"]);
    let near: Vec<bool> =
        answer["items"].as_array().unwrap().iter().map(|item| item["context"] == true).collect();
    assert_eq!(near, [true, false, true]);
    assert_eq!(lines(&home, "web", &["--grep", "work|Type|at", "--invert"]).len(), 3);
    for (words, why) in [
        (&["logs", "web", "--context", "1"][..], "need 'grep' or 'errors'"),
        (&["logs", "web", "--invert"], "need 'grep' or 'errors'"),
        (&["logs", "web", "--errors", "--grep", "x"], "cannot be used with"),
    ] {
        let (_, refused) = home.fail(words.iter().copied());
        assert!(refused.contains(why), "{words:?}: {refused}");
    }
}

#[test]
fn a_cursor_goes_on_after_rotation_and_after_the_daemon_was_killed() {
    let keys = "logs: { max_size: 65536, max_files: 200, max_total: 64MiB }";
    let home = up(&web(&["--lines", "20000", "--every", "1", "--batch", "100"], keys));
    let mut input = json!({ "services": ["web"], "since": "1h", "max_bytes": 20_000 });
    let mut found = Vec::new();
    let mut killed = 0;
    while found.len() < 20_000 {
        let answer = read(&home, &input);
        found.extend(texts(&answer));
        input["cursor"] = answer["cursor"].clone();
        input["wait"] = json!(5);
        if found.len() / 4000 > killed {
            killed += 1;
            kill9(home.daemon_pid());
        }
    }
    assert!(killed >= 3, "{killed} kills");
    let segments = std::fs::read_dir(home.path().join("logs/web")).unwrap().count();
    assert!(segments > 4, "{segments} files");
    for (line, number) in found.iter().zip(1..) {
        assert_eq!(line, &format!("line {number}"));
    }
}
