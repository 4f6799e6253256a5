//! Floods: endless lines, countless lines, countless runs. The usual test run is small; variables make it as large as one likes.

use super::load::{Used, cpu_seconds, size};
use crate::stored_bytes::{check_same, wild_lines};
use crate::support::{LIMIT, lines, pid, service, services, shell, status, up, wait_state};
use proctor_testkit::{Home, alive, finish, proctor, wait_until};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Deadline for large amounts.
const LONG: Duration = Duration::from_secs(3600);

/// Returns the segments of a service's output, oldest first.
fn segments(home: &Home, name: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(home.path().join("logs").join(name)).unwrap().flatten();
    let is_log = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("stdout") && name.ends_with(".log")
    };
    let mut found: Vec<PathBuf> = files.map(|entry| entry.path()).filter(is_log).collect();
    found.sort();
    found
}

/// Returns the bytes stored now.
fn stored(home: &Home, name: &str) -> u64 {
    segments(home, name).iter().map(|path| std::fs::metadata(path).map_or(0, |m| m.len())).sum()
}

#[test]
fn a_million_wild_lines_are_stored_byte_for_byte_across_rotations() {
    let home = Home::new();
    let expected = wild_lines(size("HOSTILE_LINES", 1_000_000));
    let file = home.path().join("wild");
    std::fs::write(&file, &expected).unwrap();
    let keys =
        "restart_policy: one_shot\nlogs: { max_size: 1MiB, max_files: 10000, max_total: 64G }";
    let script = format!("cat '{}'", file.display());
    home.write("proctor.yaml", &services(&[shell("web", &script, keys)]));
    home.ok(["up", "-d"]);
    wait_until("it has ended", LONG, || status(&home, "web")["state"] == "stopped");
    let segments = segments(&home, "web");
    assert!(segments.len() > 5, "{}", segments.len());
    let stored: Vec<u8> =
        segments.iter().flat_map(|segment| std::fs::read(segment).unwrap()).collect();
    check_same(&stored, &expected);
    // Requested output is the same, also across files.
    let shown = home.run(["logs", "web", "--raw", "-n", "20000"]).stdout;
    assert!(shown.len() > 200_000, "{}", shown.len());
    check_same(&shown, &expected[expected.len() - shown.len()..]);
}

/// Another service next to a flood, which must not be affected.
fn talker() -> String {
    service("talker", &["--lines", "100000000", "--every", "5"], "")
}

#[track_caller]
fn check_served(home: &Home, pid_before: u32) {
    let seen = lines(home, "talker", &["--since", "1m"]).len();
    wait_until("more lines", LIMIT, || lines(home, "talker", &["--since", "1m"]).len() > seen + 10);
    let now = status(home, "talker");
    assert_eq!((&now["pid"], &now["restarts"]), (&pid_before.into(), &0.into()), "{now:#}");
}

#[test]
fn a_line_without_end_costs_no_memory_and_nobody_waits_for_it() {
    let bytes = size("HOSTILE_LINE_BYTES", 256 << 20);
    let script = format!(
        "while [ ! -e go ]; do sleep 0.05; done; head -c {bytes} /dev/zero; touch done; \
         while [ ! -e end ]; do sleep 0.05; done; echo; echo end; exec sleep 100000"
    );
    let keys = "logs: { max_size: 16MiB, max_files: 4, max_total: 128MiB }";
    let home = up(&services(&[shell("long", &script, keys), talker()]));
    let talker = pid(&home, "talker");
    // Every request was made once.
    for words in [&["logs", "talker", "-n", "100"][..], &["logs", "talker", "--grep", "7"]] {
        home.ok(words);
    }
    let (keeper, daemon) = (home.keeper_pid(), home.daemon_pid());
    let before = [keeper, daemon].map(|pid| Used::by(pid).memory_peak);
    let mut follower = home.command(["logs", "long", "-f"]);
    let mut follower = follower.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    home.write("go", "");
    let begun =
        || segments(&home, "long").last().is_some_and(|last| !last.ends_with("00000001.log"));
    wait_until("a second file", LIMIT, begun);
    check_served(&home, talker);
    home.ok(["logs", "long", "-n", "1"]);
    home.ok(["logs", "long", "-n", "10", "--grep", "nothing like it"]);
    wait_until("all of it is written", LONG, || home.path().join("done").exists());
    home.write("end", "");
    wait_until("its end is stored", LONG, || home.ok(["logs", "long", "-n", "1"]) == "end\n");
    home.ok(["logs", "long", "-n", "2", "--grep", "nothing like it"]);
    check_served(&home, talker);
    let grown: Vec<u64> = [keeper, daemon]
        .iter()
        .zip(before)
        .map(|(pid, before)| Used::by(*pid).memory_peak.saturating_sub(before) >> 20)
        .collect();
    let followed = Used::by(follower.id()).memory_peak >> 20;
    assert!(grown[0] <= 4 && grown[1] <= 64 && followed <= 64, "MiB: {grown:?}, {followed}");
    assert_eq!((home.keeper_pid(), home.daemon_pid()), (keeper, daemon));
    follower.kill().unwrap();
    follower.wait().unwrap();
    let kept = stored(&home, "long");
    assert!(kept <= 128 << 20, "{kept} bytes");
}

#[test]
fn fifty_services_that_end_at_once_again_and_again_are_in_nobodys_way() {
    let keys = "restart_policy: always\nmax_restarts: unlimited\nrestart: { delay: 0 }";
    let mut all: Vec<String> = (0..50)
        .map(|number| shell(&format!("s{number}"), &format!("exit {}", number % 2), keys))
        .collect();
    all.push(talker());
    let home = Home::new();
    home.write("proctor.yaml", &services(&all));
    // Some end before they were seen running, which is reported.
    home.run(["up", "-d"]);
    let (keeper, talker) = (home.keeper_pid(), pid(&home, "talker"));
    check_served(&home, talker);
    wait_until("each has been started again and again", LIMIT, || {
        let answer = home.json(["status"]);
        let services = answer["services"].as_array().unwrap();
        services.iter().all(|one| one["name"] == "talker" || one["restarts"].as_u64() > Some(5))
    });
    home.ok(["restart", "talker"]);
    let names: Vec<String> = (0..50).map(|number| format!("s{number}")).collect();
    home.ok(["stop"].into_iter().map(str::to_owned).chain(names.clone()));
    for name in names {
        assert_eq!(status(&home, &name)["state"], "stopped");
    }
    assert_eq!(home.keeper_pid(), keeper);
    let began = (std::time::Instant::now(), cpu_seconds(keeper));
    check_served(&home, pid(&home, "talker"));
    let (passed, used) = (began.0.elapsed().as_secs_f64(), cpu_seconds(keeper) - began.1);
    assert!(used < passed / 2.0, "{used} s of {passed} s: it rests when they do");
    home.ok(["down"]);
    assert!(!alive(keeper));
}

/// A separate pid namespace, in which a pid is reused as soon as its last process is reaped.
const REUSED: &str = r#"
proctor --home "$0" up -d >/dev/null 2>&1
for turn in $(seq 400); do
    echo 300 > /proc/sys/kernel/ns_last_pid || exit 77
    /bin/true
done
proctor --home "$0" stop all --timeout 30 >/dev/null
proctor --home "$0" --json list
proctor --home "$0" down >/dev/null
"#;

#[test]
fn a_number_that_is_given_again_at_once_is_not_taken_for_who_had_it() {
    let keys = "restart_policy: always\nmax_restarts: unlimited\nrestart: { delay: 0 }";
    let ends = |number: usize| shell(&format!("s{number}"), &format!("exit {}", number % 2), keys);
    let home = Home::new();
    home.write("proctor.yaml", &services(&(0..20).map(ends).collect::<Vec<_>>()));
    let folder = proctor().parent().unwrap().display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    let mut command = Command::new("unshare");
    let world = ["--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", REUSED];
    command.args(world).arg(home.path()).current_dir(home.path()).env("PATH", path);
    command.env("SUPERVISOR_PORT", "off").env("PROCTOR_HTTP_PORT", "off");
    let output = finish(&mut command, LONG);
    let Ok(list) = serde_json::from_slice::<Value>(&output.stdout) else {
        // Not root, or a kernel that chooses pids freely.
        return;
    };
    let all = list["services"].as_array().unwrap();
    assert!(all.len() == 20 && all.iter().all(|it| it["state"] == "stopped"), "{list:#}");
    assert!(all.iter().any(|it| it["restarts"].as_u64() > Some(5)), "{list:#}");
}

#[test]
fn who_ends_again_and_again_is_told_of_although_its_lines_cannot_be_stored() {
    let keys = "restart_policy: always\nmax_restarts: unlimited\nrestart: { delay: 0 }";
    let home = Home::new();
    home.write("proctor.yaml", &services(&[shell("loop", "echo line; sleep 0.2", keys)]));
    let armed = home.write("failpoints/nothing", "");
    let mut command = home.command(["up", "-d"]);
    // It ends before it was seen running, which is reported.
    finish(command.env("PROCTOR_FAILPOINTS", armed.parent().unwrap()), LIMIT);
    home.write("failpoints/log.index", "hold 1");
    let hit = home.path().join("failpoints/log.index.hit");
    wait_until("nothing is stored any more", LIMIT, || hit.exists());
    let restarts = || status(&home, "loop")["restarts"].as_u64().unwrap();
    let before = restarts();
    wait_until("news of later runs", LIMIT, || restarts() > before + 5);
    std::fs::remove_file(hit).unwrap();
    home.ok(["down"]);
}

/// Returns descriptors, threads and memory of keeper and daemon while they are idle.
fn used(home: &Home) -> [Used; 2] {
    // Idle threads end after a while; the connection of the last request ends at once.
    let now = || [home.keeper_pid(), home.daemon_pid()].map(Used::by);
    let mut last = now();
    wait_until("all is quiet", LIMIT, || {
        let before = std::mem::replace(&mut last, now());
        last.iter().zip(before).all(|(now, before)| {
            (now.descriptors, now.threads) == (before.descriptors, before.threads)
        })
    });
    last
}

/// Maximum noise of a memory measurement.
const NOISE: u64 = 3 << 20;

#[track_caller]
fn check_flat(before: [Used; 2], after: [Used; 2]) {
    for (before, after) in before.into_iter().zip(after) {
        let told = format!("{before:?}\n{after:?}");
        assert!(after.descriptors <= before.descriptors + 1, "{told}");
        assert!(after.threads <= before.threads + 1, "{told}");
        assert!(after.memory <= before.memory + NOISE, "{told}");
    }
}

#[test]
fn any_number_of_restarts_leaves_descriptors_threads_and_memory_as_they_were() {
    let keys = "restart_policy: always\nmax_restarts: unlimited\nrestart: { delay: 0 }\n\
                logs: { max_size: 64MiB, max_total: 1G }";
    let home = Home::new();
    home.write("proctor.yaml", &services(&[shell("web", "echo another run", keys)]));
    home.run(["up", "-d"]);
    // Counted by its output, because constant polling would be most of the work.
    let runs = || stored(&home, "web") / "another run\n".len() as u64;
    let restarts = |most: u64| {
        let begin = runs();
        home.run(["start", "web"]);
        wait_until("many restarts", LONG, || runs() >= begin + most);
        home.ok(["stop", "web"]);
        used(&home)
    };
    let before = restarts(100);
    let many = size("HOSTILE_RESTARTS", 1000);
    let after = restarts(many);
    check_flat(before, after);
    let now = status(&home, "web");
    assert!(now["restarts"].as_u64() >= Some(many), "{now:#}");
    let left = std::fs::read_dir(home.path().join("run/services/web")).unwrap().count();
    assert!(left <= 3, "{left} files");
}

#[test]
fn any_number_of_rotations_leaves_descriptors_threads_and_memory_as_they_were() {
    let keys = "logs: { max_size: 4096, max_files: 3 }";
    let script = "while :; do head -c 6000 /dev/zero | tr '\\0' '\\n'; done";
    let home = up(&services(&[shell("web", script, keys)]));
    let newest = || {
        let segments = segments(&home, "web");
        let name = segments.last().and_then(|last| last.file_name()?.to_str()?.split('.').nth(1));
        name.and_then(|number| number.parse::<u64>().ok()).unwrap_or(0)
    };
    let rotations = |most: u64| {
        let begin = newest();
        wait_until("many rotations", LONG, || newest() >= begin + most);
        used(&home)
    };
    let before = rotations(50);
    let after = rotations(size("HOSTILE_ROTATIONS", 500));
    check_flat(before, after);
    // A new one is created before the oldest is deleted.
    assert!(segments(&home, "web").len() <= 4);
    wait_state(&home, "web", "running");
}
