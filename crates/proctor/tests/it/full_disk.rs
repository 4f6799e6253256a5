//! A full disk: no process of ours dies, nothing is started twice, and lost output is reported.

use crate::support::{LIMIT, lines, pid, replace_keeper, service, services, shell, status};
use crate::survival::kill_proctor;
use proctor_testkit::{Home, alive, kill9, wait_until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// A small disk mounted on a home. It is unmounted before the home is removed; running processes keep their open files.
struct Disk<'a>(&'a Path);

impl<'a> Disk<'a> {
    /// Returns `None` if mounting is not permitted.
    fn on(home: &'a Home) -> Option<Disk<'a>> {
        let options = ["-t", "tmpfs", "-o", "size=4m", "none"];
        let mounted = Command::new("mount").args(options).arg(home.path()).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Disk(home.path()))
    }

    /// Reserves half of it, to be freed later.
    fn reserve(&self) {
        std::fs::write(self.0.join("reserve"), vec![b'x'; 2 << 20]).unwrap();
    }

    fn fill(&self) {
        let options = std::fs::File::options().create(true).append(true).clone();
        let mut file = options.open(self.0.join("fill")).unwrap();
        while file.write_all(&[b'x'; 4096]).is_ok() {}
    }

    fn make_room(&self) {
        std::fs::remove_file(self.0.join("reserve")).unwrap();
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg("--lazy").arg(self.0).output();
    }
}

#[test]
fn on_a_full_disk_services_run_on_and_keepers_take_over() {
    let home = Home::new();
    let Some(disk) = Disk::on(&home) else { return };
    disk.reserve();
    let services = [
        service("talker", &["--lines", "100000000", "--every", "2"], ""),
        service("spammer", &["--spam"], ""),
    ];
    home.write("proctor.yaml", &format!("supervisor:\n  services:\n{}", services.concat()));
    home.ok(["up", "-d"]);
    let before = [pid(&home, "talker"), pid(&home, "spammer")];
    disk.fill();
    for both in [false, true, false] {
        let (keeper, daemon) = (home.keeper_pid(), home.daemon_pid());
        let victims = if both { vec![keeper, daemon] } else { vec![keeper] };
        for victim in &victims {
            kill9(*victim);
        }
        wait_until("they are gone", LIMIT, || !victims.iter().any(|pid| alive(*pid)));
        if both {
            home.ok(["daemon", "start"]);
        }
        // If only the keeper died, the daemon takes its place by itself.
        wait_until("a new keeper", LIMIT, || {
            let asked = home.run(["--json", "daemon", "status"]);
            let answer: Value = serde_json::from_slice(&asked.stdout).unwrap_or_default();
            answer["keeper"]["pid"].as_u64().is_some_and(|pid| pid != u64::from(keeper))
        });
        assert_eq!(before, [pid(&home, "talker"), pid(&home, "spammer")]);
    }
    // It would fill the disk again.
    home.ok(["signal", "spammer", "STOP"]);
    disk.make_room();
    let stored = lines(&home, "talker", &[]).len();
    wait_until("more lines", LIMIT, || lines(&home, "talker", &[]).len() > stored + 20);
    home.ok(["stop", "spammer"]);
    let dropped = marks(&home, "spammer", 3);
    assert!((1..50).contains(&dropped), "{dropped} marks of dropped output");
    assert_eq!(status(&home, "talker")["restarts"], 0);
}

/// Returns the sizes of the files of a service's stream, by name.
fn stored_files(home: &Home, name: &str, stream: &str) -> BTreeMap<String, u64> {
    let files = std::fs::read_dir(home.path().join("logs").join(name)).unwrap().flatten();
    let named = files.map(|entry| (entry.file_name().into_string().unwrap(), entry));
    named
        .filter(|(file, _)| file.starts_with(stream) && file.ends_with(".log"))
        .map(|(file, entry)| (file, entry.metadata().unwrap().len()))
        .collect()
}

/// Each service writes some lines on standard error and some files of standard output, then floods the full disk.
#[test]
fn on_a_full_disk_a_change_of_keeper_deletes_no_newest_file_and_nothing_of_one_that_waits() {
    let home = Home::new();
    let Some(disk) = Disk::on(&home) else { return };
    let full = home.path().join("fill");
    let flood = format!(
        "seq -f 'error %g' 50 >&2; for n in $(seq 12); do yes 'a line' | head -c 70000; sleep 0.05; done; \
         until [ -e '{}' ]; do sleep 0.05; done; exec yes 'a line'",
        full.display()
    );
    let logs =
        |on_full: &str| format!("logs: {{ max_size: 65536, max_files: 1000, on_full: {on_full} }}");
    let waits = shell("waits", &flood, &logs("block"));
    home.write("proctor.yaml", &services(&[waits, shell("drops", &flood, &logs("drop"))]));
    home.ok(["up", "-d"]);
    wait_until("closed files", LIMIT, || {
        let written = |name| stored_files(&home, name, "stdout").values().sum::<u64>() >= 840_000;
        written("waits") && written("drops")
    });
    assert!(stored_files(&home, "waits", "stdout").len() > 1);
    disk.fill();
    let errors =
        || ["waits", "drops"].map(|name| lines(&home, name, &["--stream", "stderr"]).len());
    assert_eq!(errors(), [50, 50]);
    let before = stored_files(&home, "waits", "stdout");
    for change in 1..=6 {
        if change % 2 == 0 {
            kill_proctor(&home);
            home.ok(["daemon", "start"]);
        } else {
            replace_keeper(&home);
        }
        // The new keeper has seen both when the one that may drop output continues.
        let reads =
            || std::fs::read_to_string(format!("/proc/{}/io", pid(&home, "drops"))).unwrap();
        let written = reads();
        wait_until("the flood goes on", LIMIT, || reads() != written);
        assert_eq!(errors(), [50, 50], "after change {change}");
        let now = stored_files(&home, "waits", "stdout");
        let kept = |(file, size): (&String, &u64)| now.get(file).is_some_and(|now| now >= size);
        assert!(before.iter().all(kept), "after change {change}: {before:?} {now:?}");
    }
}

/// A completely full disk, with two services that write and one that is stopped.
#[test]
fn on_a_full_disk_a_crash_is_followed_by_a_restart_and_commands_do_what_they_say() {
    let home = Home::new();
    let Some(disk) = Disk::on(&home) else { return };
    let keys = "max_restarts: 3\nrestart: { delay: 0 }";
    let services = [
        service("web", &[], keys),
        service("spammer", &["--spam"], keys),
        service("idle", &["--lines", "1"], keys),
    ];
    home.write("proctor.yaml", &format!("supervisor:\n  services:\n{}", services.concat()));
    home.ok(["up", "-d"]);
    home.ok(["stop", "idle"]);
    disk.fill();
    for name in ["web", "spammer"] {
        for round in 1..=3 {
            let before = pid(&home, name);
            kill9(before);
            wait_until("it is restarted", LIMIT, || {
                let now = status(&home, name);
                now["state"] == "running" && now["pid"] != before
            });
            assert_eq!(status(&home, name)["restarts"], round);
        }
    }
    home.ok(["stop", "spammer"]);
    home.ok(["start", "idle"]);
    home.ok(["restart", "web"]);
    let before = [pid(&home, "web"), pid(&home, "idle")];
    kill_proctor(&home);
    home.ok(["daemon", "start"]);
    assert_eq!(before, [pid(&home, "web"), pid(&home, "idle")]);
    assert_eq!(status(&home, "spammer")["state"], "stopped", "the wish was written");
    home.ok(["down"]);
    assert!(!before.iter().any(|pid| alive(*pid)));
}

/// The audit log reserves space. When that is used up, only stopping works, and services keep running.
#[test]
fn on_a_full_disk_all_but_stopping_is_refused_when_the_audit_has_no_room_left() {
    let home = Home::new();
    let Some(disk) = Disk::on(&home) else { return };
    disk.reserve();
    home.write("proctor.yaml", &format!("supervisor:\n  services:\n{}", service("web", &[], "")));
    home.ok(["up", "-d"]);
    let before = pid(&home, "web");
    disk.fill();
    let signal = || home.run(["--json", "signal", "web", "CONT"]);
    let mut last = signal();
    for _ in 0..1000 {
        if !last.status.success() {
            break;
        }
        last = signal();
    }
    let said: Value = serde_json::from_slice(&last.stderr).unwrap();
    assert_eq!(said["error"]["code"], "audit_unavailable", "{said}");
    assert!(said["error"]["help"].as_str().unwrap().contains("free space"), "{said}");
    let (_, refused) = home.fail(["restart", "web"]);
    assert!(refused.contains("the audit cannot be written"), "{refused}");
    assert_eq!((pid(&home, "web"), &status(&home, "web")["state"]), (before, &"running".into()));
    // Stopping is never refused; an unrecorded stop is reported, and recorded when there is room.
    let stopped = home.json(["stop", "web"]);
    let said = stopped["unrecorded"][0].as_str().unwrap();
    assert!(said.contains("the audit cannot be written"), "{stopped:#}");
    assert!(!alive(before));
    disk.make_room();
    let stops = || {
        let read = home.json(["audit", "read", "-n", "1000"]);
        let entries = read["entries"].as_array().unwrap().clone();
        entries.into_iter().filter(|it| it["operation"] == "service.stop").collect::<Vec<_>>()
    };
    wait_until("it is in the audit", LIMIT, || stops().len() == 1);
    assert_eq!(stops()[0]["code"], "ok", "{:#}", stops()[0]);
    let verdict = home.json(["audit", "verify"]);
    assert_eq!(verdict["intact"], true, "{verdict:#}");
}

/// Proctor had room only for the files it cannot start without.
#[test]
fn on_a_disk_that_was_full_from_the_start_everything_can_be_stopped() {
    for last in [&["down"][..], &["daemon", "stop"]] {
        let home = Home::new();
        let Some(disk) = Disk::on(&home) else { return };
        let services_yaml = services(&[service("web", &[], ""), service("db", &[], "")]);
        home.write("proctor.yaml", &services_yaml);
        home.ok(["up", "-d"]);
        let pids = ["web", "db"].map(|name| pid(&home, name));
        let keeper = home.keeper_pid();
        // No spare and no reserve from before is left.
        let _ = std::fs::remove_file(home.path().join(".services.json.spare"));
        std::fs::remove_dir_all(home.path().join("audit")).unwrap();
        std::fs::remove_file(home.path().join("audit.head")).unwrap();
        disk.fill();
        // This fails and closes the audit log, which frees its reserve.
        home.fail(["signal", "web", "CONT"]);
        disk.fill();
        let stopped = home.json(["stop", "web"]);
        assert_eq!(stopped["unrecorded"].as_array().unwrap().len(), 2, "{stopped:#}");
        assert!(!alive(pids[0]));
        let answer = home.json(last.iter().copied());
        assert!(!answer["unrecorded"].as_array().unwrap().is_empty(), "{answer:#}");
        wait_until("it has ended", LIMIT, || !alive(keeper) && !alive(pids[1]));
    }
}

/// Counts the index entries of this kind in a service's output. The format is a promise.
fn marks(home: &Home, name: &str, kind: u8) -> usize {
    let index = std::fs::read(home.path().join("logs").join(name).join("stdout.00000001.idx"));
    index.unwrap().chunks_exact(32).filter(|entry| entry[24] == kind).count()
}
