//! Bugs of earlier supervisors, each with the test that would have found it.

use crate::support::{LIMIT, lines, pid, service, services, shell, status, up, wait_state};
use crate::survival::kill_proctor;
use proctor_testkit::{Home, alive, kill9, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

#[test]
fn reading_never_waits_behind_a_change() {
    let home = up(&services(&[
        service("slow", &["--ignore-term"], "stop: { grace: 1h }"),
        service("other", &[], ""),
    ]));
    let mut stop = home.command(["stop", "slow"]);
    let mut stop = stop.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_state(&home, "slow", "stopping");
    // Each of these returns while the stop continues; so does a change of another service.
    for words in [&["list"][..], &["status"], &["logs", "slow"], &["config"], &["restart", "other"]]
    {
        home.ok(words);
    }
    let now = status(&home, "slow");
    assert_eq!(now["state"], "stopping");
    assert!(now["next"].as_str().is_some_and(|next| next.starts_with("killed in ")), "{now:#}");
    assert!(stop.try_wait().unwrap().is_none());
    kill9(pid(&home, "slow"));
    wait_until("the stop is over", LIMIT, || stop.try_wait().unwrap().is_some());
    assert!(stop.wait().unwrap().success());
}

#[test]
fn uptime_is_that_of_the_present_run() {
    let home = up(&services(&[service("web", &[], "")]));
    wait_until("a second passes", LIMIT, || {
        status(&home, "web")["uptime_seconds"].as_u64() > Some(1)
    });
    let before = status(&home, "web");
    home.ok(["restart", "web"]);
    let after = status(&home, "web");
    assert!(after["uptime_seconds"].as_u64() < before["uptime_seconds"].as_u64(), "{after:#}");
    assert!(after["since"].as_str() > before["since"].as_str(), "{after:#}");
    home.ok(["stop", "web"]);
    assert_eq!(status(&home, "web")["uptime_seconds"], Value::Null);
}

/// Returns the lines of `logs web -f` as they come.
fn follow(home: &Home) -> (Child, Receiver<String>) {
    let mut follower = home.command(["logs", "web", "-f"]);
    let mut follower = follower.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let stdout = BufReader::new(follower.stdout.take().unwrap());
    let (sender, shown) = channel();
    std::thread::spawn(move || {
        stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    (follower, shown)
}

#[test]
fn following_misses_nothing_while_files_come_and_go() {
    let keys = "logs: { max_size: 4096, max_files: 1000 }\nrestart_policy: one_shot";
    let script = "i=1; for part in first second; do while [ ! -e $part ]; do sleep 0.05; done; \
                  n=0; while [ $n -lt 1500 ]; do echo line $i; i=$((i+1)); n=$((n+1)); done; done";
    let home = up(&services(&[shell("web", script, keys)]));
    let (mut follower, shown) = follow(&home);
    let next = || shown.recv_timeout(LIMIT).unwrap();
    assert!(next().contains("web started"));
    home.write("first", "");
    for number in 1..=3000 {
        // More than one file's worth is stored by now, so the rest comes after a rotation even on a busy machine.
        if number == 1000 {
            home.write("second", "");
        }
        assert_eq!(next(), format!("line {number}"));
    }
    assert!(next().contains("exited with code 0"));
    follower.kill().unwrap();
    follower.wait().unwrap();
    let files = std::fs::read_dir(home.path().join("logs/web")).unwrap().count();
    assert!(files >= 4, "there was something to rotate: {files}");
}

/// A process of the test, not Proctor's; killed with the test.
pub(crate) struct Stranger(pub(crate) Child);

impl Drop for Stranger {
    fn drop(&mut self) {
        // If it is gone already, the test has failed.
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Returns a process with exactly this pid; `None` if pids cannot be chosen.
pub(crate) fn stranger(number: u32) -> Option<Stranger> {
    const LAST: &str = "/proc/sys/kernel/ns_last_pid";
    const TRIES: usize = 50;
    for _ in 0..TRIES {
        let last = std::fs::read(LAST).ok()?;
        std::fs::write(LAST, (number - 1).to_string()).ok()?;
        let child = Stranger(Command::new("setsid").args(["sleep", "1000"]).spawn().unwrap());
        // Other processes must not get pids that were in use a moment ago.
        std::fs::write(LAST, last).unwrap();
        if child.0.id() == number {
            return Some(child);
        }
    }
    None
}

#[test]
fn a_stranger_with_the_number_of_a_dead_service_is_left_alone() {
    let home = up(&services(&[service("web", &[], "restart_policy: never")]));
    let web = pid(&home, "web");
    kill_proctor(&home);
    kill9(web);
    wait_until("it is reaped", LIMIT, || !std::path::Path::new(&format!("/proc/{web}")).exists());
    let Some(stranger) = stranger(web) else {
        // Not root, or a kernel that chooses pids freely.
        return;
    };
    home.ok(["daemon", "start"]);
    let now = status(&home, "web");
    assert_eq!((&now["state"], &now["pid"]), (&"failed".into(), &Value::Null), "{now:#}");
    home.ok(["stop", "web"]);
    home.fail(["signal", "web", "KILL"]);
    home.ok(["start", "web"]);
    home.ok(["down"]);
    assert!(alive(stranger.0.id()), "it was none of Proctor's");
}

#[test]
fn success_is_what_the_exit_code_says_and_output_is_never_in_the_way() {
    // More than any pipe holds, on both streams, from a program that fails.
    let script = "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; exit 3";
    let home = Home::new();
    let output = home.run(["run", "--name", "job", "--", "/bin/sh", "-c", script]);
    assert_eq!(output.status.code(), Some(3));
    // A missing last line end is added.
    assert_eq!(output.stdout.iter().filter(|byte| **byte == 0).count(), 3_000_000);
    assert_eq!(output.stderr.iter().filter(|byte| **byte == 0).count(), 3_000_000);
}

#[test]
fn words_are_split_as_a_shell_does_and_a_list_is_taken_as_it_is() {
    let home = Home::new();
    let print = "printf '<%s>' \"$@\"; echo";
    home.write(
        "proctor.yaml",
        &format!(
            "supervisor:\n  services:\n    text:\n      command: sh -c {} -- a 'b  c' \"d 'e'\" f\\ g ''\n      restart_policy: one_shot\n    list:\n      command: [sh, -c, {}, --, \"a 'b\", \"$$HOME\", \"c  d\"]\n      restart_policy: one_shot\n    shell:\n      command: echo one && echo \"$$1-$$2\"\n      shell: true\n      args: [x y, z]\n      restart_policy: one_shot\n",
            serde_json::to_string(&print.replace('$', "$$")).unwrap(),
            serde_json::to_string(&print.replace('$', "$$")).unwrap(),
        ),
    );
    home.ok(["up", "-d"]);
    for (name, expected) in [
        ("text", &["<a><b  c><d 'e'><f g><>"][..]),
        ("list", &["<a 'b><$HOME><c  d>"]),
        ("shell", &["one", "x y-z"]),
    ] {
        wait_state(&home, name, "stopped");
        assert_eq!(lines(&home, name, &[]), expected, "{name}");
    }
}
