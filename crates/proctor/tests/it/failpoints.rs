//! Single faults at named failpoints that the campaign (`cargo xtask torture`) once found. The test binary has failpoints; see
//! `sys::failpoint` for how one is armed.

use crate::support::{LIMIT, lines, marks, pid, replace_keeper, status, wait_state, web};
use proctor_testkit::{Home, finish, kill9, wait_until};

/// A home with `web` up and failpoints that can be armed.
fn up(args: &[&str], keys: &str) -> Home {
    let home = Home::new();
    home.write("proctor.yaml", &web(args, keys));
    std::fs::create_dir(home.path().join("failpoints")).unwrap();
    let mut command = home.command(["up", "-d"]);
    command.env("PROCTOR_FAILPOINTS", home.path().join("failpoints"));
    assert!(finish(&mut command, LIMIT).status.success());
    home
}

fn arm(home: &Home, point: &str, action: &str) {
    home.write(&format!("failpoints/{point}"), action);
}

#[track_caller]
fn wait_hit(home: &Home, point: &str) {
    let hit = home.path().join(format!("failpoints/{point}.hit"));
    wait_until(&format!("{point} is passed"), LIMIT, || hit.exists());
}

#[test]
fn a_pipe_that_cannot_be_opened_at_a_takeover_is_opened_later() {
    for pass in ["error 1", "error 2"] {
        let home = up(&["--lines", "100000000", "--every", "2", "--stderr"], "");
        wait_until("some lines", LIMIT, || lines(&home, "web", &[]).len() > 5);
        arm(&home, "takeover.pipe", pass);
        replace_keeper(&home);
        wait_hit(&home, "takeover.pipe");
        for stream in ["stdout", "stderr"] {
            let read = || lines(&home, "web", &["--stream", stream]);
            let seen = read().len();
            wait_until("more lines", LIMIT, || read().len() > seen + 20);
            for (line, number) in read().iter().zip(1..) {
                assert_eq!(line, &format!("line {number}"), "{stream}");
            }
        }
    }
}

#[test]
fn the_end_of_a_service_that_could_not_be_watched_is_noticed() {
    let home = up(&[], "restart: { delay: 0 }");
    arm(&home, "takeover.watch", "error 1");
    replace_keeper(&home);
    wait_hit(&home, "takeover.watch");
    let before = pid(&home, "web");
    kill9(before);
    wait_until("it runs again", LIMIT, || {
        status(&home, "web")["pid"].as_u64().is_some_and(|now| now != u64::from(before))
    });
}

#[test]
fn the_last_words_of_a_run_wait_until_its_pipe_can_be_opened() {
    let home = up(&["--lines", "3", "--term-exit", "7"], "restart_policy: never");
    wait_until("its lines", LIMIT, || lines(&home, "web", &[]).len() == 3);
    arm(&home, "run.drained", "kill 1");
    arm(&home, "takeover.pipe", "error 1");
    // With a fault there may be no response.
    let _ = home.run(["stop", "web"]);
    wait_hit(&home, "run.drained");
    wait_until("Proctor is back", LIMIT, || home.run(["daemon", "start"]).status.success());
    wait_hit(&home, "takeover.pipe");
    wait_state(&home, "web", "stopped");
    let folder = home.path().join("run/services/web");
    wait_until("its files are gone", LIMIT, || std::fs::read_dir(&folder).unwrap().count() == 2);
    assert_eq!(lines(&home, "web", &[]), ["line 1", "line 2", "line 3"]);
    let ends: Vec<String> = marks(&home, "web").into_iter().map(|mark| mark.2).collect();
    assert_eq!(ends, ["", "exit code 7"]);
}

#[test]
fn a_run_whose_keeper_died_at_its_fork_is_marked_as_begun() {
    for point in ["spawn.forked", "run.made", "run.piped"] {
        let home = up(&["--lines", "1"], "");
        arm(&home, point, "kill 1");
        let _ = home.run(["restart", "web"]);
        wait_hit(&home, point);
        wait_until("Proctor is back", LIMIT, || home.run(["daemon", "start"]).status.success());
        wait_state(&home, "web", "running");
        wait_until("both lines", LIMIT, || lines(&home, "web", &[]).len() == 2);
        let kinds: Vec<String> = marks(&home, "web").into_iter().map(|mark| mark.0).collect();
        assert_eq!(kinds, ["started", "exited", "started"], "{point}");
    }
}

#[test]
fn a_service_whose_keeper_died_before_it_asked_it_to_stop_is_asked() {
    let home = up(&["--lines", "1", "--term-exit", "7"], "stop: { grace: 1h }");
    wait_until("its line", LIMIT, || lines(&home, "web", &[]).len() == 1);
    // The first written state is "stopping".
    arm(&home, "state.written", "kill 1");
    let _ = home.run(["stop", "web"]);
    wait_hit(&home, "state.written");
    wait_until("Proctor is back", LIMIT, || home.run(["daemon", "start"]).status.success());
    let stopped = wait_state(&home, "web", "stopped");
    assert_eq!(stopped["last_exit"]["code"], 7, "{stopped:#}");
}

#[test]
fn a_segment_that_was_half_made_is_not_in_the_way_of_the_next_try() {
    for point in ["rotate.begin", "rotate.index"] {
        let logs = "logs: { max_size: 4096, max_files: 1000 }";
        let home = up(&["--lines", "100000000", "--every", "1"], logs);
        arm(&home, point, "error 2");
        wait_hit(&home, point);
        let seen = lines(&home, "web", &[]).len();
        wait_until("more lines", LIMIT, || lines(&home, "web", &[]).len() > seen + 1000);
        for (line, number) in lines(&home, "web", &[]).iter().zip(1..) {
            assert_eq!(line, &format!("line {number}"), "{point}");
        }
    }
}
