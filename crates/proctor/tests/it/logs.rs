//! Output of a service is stored, and read back as requested.

use crate::support::{LIMIT, lines, service, services, up, wait_state, web};
use proctor_testkit::{Home, victim, wait_until};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

#[test]
fn streams_lines_and_patterns_are_told_apart() {
    let home = up(&web(&["--lines", "30", "--stderr"], ""));
    wait_until("all lines", LIMIT, || lines(&home, "web", &[]).len() == 60);
    assert_eq!(lines(&home, "web", &["--stream", "stderr"]).len(), 30);
    assert_eq!(lines(&home, "web", &["--stream", "stdout", "--grep", "line 2[0-9]$"]).len(), 10);
    let last = home.ok(["logs", "web", "-n", "2", "--stream", "stdout"]);
    assert!(
        last.contains("line 29") && last.contains("line 30") && !last.contains("line 28"),
        "{last}"
    );
    assert!(lines(&home, "web", &["--since", "1h"]).len() == 60);
    assert!(lines(&home, "web", &["--until", "2001-01-01T00:00:00Z"]).is_empty());
}

#[test]
fn several_services_are_shown_with_prefixes() {
    let config = format!(
        "supervisor:\n  services:\n{}{}",
        service("api", &["--lines", "2", "--line-prefix", "from-api "], ""),
        service("job", &["--lines", "2", "--line-prefix", "from-job "], ""),
    );
    let home = up(&config);
    wait_until("all lines", LIMIT, || {
        lines(&home, "api", &[]).len() == 2 && lines(&home, "job", &[]).len() == 2
    });
    let text = home.ok(["logs", "api", "job"]);
    assert!(
        text.lines().any(|line| line.starts_with("api") && line.contains("from-api")),
        "{text}"
    );
    assert!(
        text.lines().any(|line| line.starts_with("job") && line.contains("from-job")),
        "{text}"
    );
    assert!(!text.contains('\x1b'), "no colours in a pipe");
}

#[test]
fn follow_shows_what_comes_across_restarts() {
    let home = up(&web(&["--lines", "1"], ""));
    wait_until("a line", LIMIT, || lines(&home, "web", &[]).len() == 1);
    let mut follower = home.command(["logs", "web", "-f"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut shown = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut seen = 0;
    while seen < 1 {
        seen += usize::from(shown.next().unwrap().unwrap().contains("line 1"));
    }
    home.ok(["restart", "web"]);
    while seen < 2 {
        seen += usize::from(shown.next().unwrap().unwrap().contains("line 1"));
    }
    follower.kill().unwrap();
    follower.wait().unwrap();
}

#[test]
fn bytes_come_back_as_they_were_and_are_harmless_on_a_screen() {
    let home = up(&web(&["--raw", "ff00fe1b5b33316d726564e29c930d0a"], ""));
    wait_until("a line", LIMIT, || lines(&home, "web", &[]).len() == 1);
    let raw = home.run(["logs", "web", "--raw"]);
    let expected = b"\xff\x00\xfe\x1b[31mred\xe2\x9c\x93\r\n";
    assert!(raw.stdout.windows(expected.len()).any(|w| w == expected), "{:?}", raw.stdout);
    let shown = home.run(["logs", "web"]);
    assert!(
        !shown.stdout.contains(&0x1b) && !shown.stdout.contains(&0),
        "{:?}",
        String::from_utf8_lossy(&shown.stdout)
    );
    let file = std::fs::read(home.path().join("logs/web/stdout.00000001.log")).unwrap();
    assert_eq!(file, expected);
}

#[test]
fn logs_rotate_and_the_oldest_go() {
    let config = web(
        &["--lines", "200000"],
        "logs: { max_size: 65536, max_files: 3 }\nrestart_policy: never",
    );
    let home = up(&config);
    wait_until("the last line", LIMIT, || {
        lines(&home, "web", &["--grep", "^line 200000$"]).len() == 1
    });
    let files = std::fs::read_dir(home.path().join("logs/web")).unwrap().flatten();
    let segments = files.filter(|f| {
        f.file_name().to_string_lossy().starts_with("stdout")
            && f.path().extension().is_some_and(|x| x == "log")
    });
    assert!(segments.count() <= 3);
    let kept = lines(&home, "web", &[]);
    let first: usize = kept[0].trim_start_matches("line ").parse().unwrap();
    assert!(first > 1, "the oldest are gone");
    for (line, number) in kept.iter().zip(first..) {
        assert_eq!(line, &format!("line {number}"));
    }
}

#[test]
fn the_last_words_of_a_crash_are_there_when_the_exit_is_known() {
    let home = Home::new();
    home.write("proctor.yaml", &web(&["--lines", "5000", "--exit", "1"], "restart_policy: never"));
    home.fail(["up", "-d"]);
    wait_state(&home, "web", "failed");
    assert_eq!(lines(&home, "web", &[]).len(), 5000);
    let items = home.json(["logs", "web", "-n", "5"]);
    assert_eq!(items["items"].as_array().unwrap().last().unwrap()["kind"], "exited", "{items:#}");
}

#[test]
fn a_grandchild_that_keeps_the_pipe_open_delays_nothing() {
    let home = up(&web(
        &["--hold-fd", "--lines", "1", "--exit-after", "50", "--exit", "0"],
        "restart_policy: never\nstop: { grace: 200 }",
    ));
    wait_state(&home, "web", "stopped");
    assert_eq!(lines(&home, "web", &[]), ["line 1"]);
}

#[test]
fn dev_stdout_can_be_opened_again_and_a_closed_stdout_harms_nobody() {
    let config = format!(
        "supervisor:\n  services:\n{}{}",
        service("again", &["--reopen-stdout"], ""),
        service("closed", &["--close-stdout"], ""),
    );
    let home = up(&config);
    wait_until("a line", LIMIT, || !lines(&home, "again", &[]).is_empty());
    assert_eq!(crate::support::status(&home, "closed")["state"], "running");
}

#[test]
fn run_keeps_streams_apart_and_gives_back_the_exit_code() {
    let home = Home::new();
    let victim = victim().display().to_string();
    let output = home.run(["run", "--", &victim, "--lines", "2", "--stderr", "--exit", "7"]);
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "line 1\nline 2\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("line 2\n"));
    assert!(
        home.json(["list"])["services"].as_array().unwrap().is_empty(),
        "nothing is left of it"
    );
}

#[test]
fn up_in_the_foreground_shows_output_and_stops_what_it_started() {
    let home = Home::new();
    home.write("proctor.yaml", &web(&["--lines", "1"], ""));
    let mut child =
        home.command(["up"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut shown = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("line 1") {
        line.clear();
        assert!(shown.read_line(&mut line).unwrap() > 0, "it ended before the line came");
    }
    let service = crate::support::pid(&home, "web");
    proctor_testkit::signal(child.id(), rustix::process::Signal::INT);
    let mut rest = String::new();
    child.stderr.take().unwrap().read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success(), "{rest}");
    assert!(!proctor_testkit::alive(service), "{rest}");
}

#[test]
fn a_follower_ends_in_peace_when_proctor_ends() {
    for words in [&["logs", "-f", "web"][..], &["events", "-f"]] {
        let home = up(&web(&["--lines", "1"], ""));
        let out = home.path().join("out");
        let mut command = home.command(words);
        command.stdout(std::fs::File::create(&out).unwrap()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let shown = || std::fs::read_to_string(&out).unwrap_or_default();
        wait_until("something is shown", LIMIT, || shown().contains("started"));
        home.ok(["down"]);
        wait_until("it ends", LIMIT, || child.try_wait().unwrap().is_some());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said == "Proctor has ended\n", "{words:?}: {said}");
    }
}

#[test]
fn the_last_lines_are_those_of_each_service() {
    let home = up(&services(&[
        service("web", &["--lines", "3"], ""),
        service("worker", &["--lines", "3"], ""),
    ]));
    home.ok(["wait", "web", "--log", "^line 3$"]);
    home.ok(["wait", "worker", "--log", "^line 3$"]);
    for option in ["-n", "--lines", "--tail"] {
        let said = home.ok(["logs", option, "2"]);
        let mut lines: Vec<&str> = said.lines().filter(|line| line.contains("line ")).collect();
        lines.sort_unstable();
        let expected = ["web    | line 2", "web    | line 3", "worker | line 2", "worker | line 3"];
        assert_eq!(lines, expected, "{option}");
    }
}
