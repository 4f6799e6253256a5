//! Files cut at any byte by a crash, or replaced with anything: running services are kept, once, and the damage is reported.

use crate::support::{LIMIT, lines, pid, services, shell, wait_state};
use crate::survival::kill_proctor;
use proctor_testkit::{Home, kill9, wait_until, with_variable};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Services of one home; each gets another damage.
const MANY: usize = 120;

fn name(number: usize) -> String {
    format!("s{number}")
}

fn many() -> Home {
    let home = Home::new();
    let all: Vec<String> =
        (0..MANY).map(|number| shell(&name(number), "exec sleep 100000", "")).collect();
    home.write("proctor.yaml", &services(&all));
    home.ok(["up", "-d"]);
    home
}

/// Returns process, run, state and restarts of every service.
#[track_caller]
fn picture(home: &Home) -> BTreeMap<String, String> {
    let answer = home.json(["status"]);
    let services = answer["services"].as_array().unwrap();
    let of = |one: &Value| {
        let parts = ["pid", "run", "state", "restarts"].map(|key| one[key].to_string());
        (one["name"].as_str().unwrap().to_owned(), parts.join(" "))
    };
    services.iter().map(of).collect()
}

/// Returns the file of a service with this name, or a pipe of its run.
fn file(home: &Home, number: usize, kind: &str) -> PathBuf {
    let folder = home.path().join("run/services").join(name(number));
    let found = std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path());
    let mut found = found.filter(|path| path.to_str().unwrap().ends_with(kind));
    found.next().unwrap_or_else(|| panic!("{} has no {kind}", folder.display()))
}

/// While no Proctor lives, `meddle` damages files of services and returns whose. Afterwards all is as before, and each of them is
/// reported.
#[track_caller]
fn check_kept(home: &Home, meddle: impl FnOnce() -> Vec<usize>) {
    let before = picture(home);
    assert_eq!(before.len(), MANY);
    kill_proctor(home);
    let said_before = home.own_log().len();
    let harmed = meddle();
    home.ok(["daemon", "start"]);
    wait_until("all are as before", LIMIT, || picture(home) == before);
    let mark = format!("PROCTOR_HOME={}", home.path().display());
    assert_eq!(with_variable(&mark).len(), MANY, "nothing is doubled");
    let said = home.own_log()[said_before..].to_owned();
    for number in harmed {
        let mentioned = |line: &str| {
            line.contains(&format!("/services/{}/", name(number)))
                || line.contains(&format!("{}: ", name(number)))
        };
        assert!(said.lines().any(mentioned), "nothing is said of {}:\n{said}", name(number));
    }
}

#[test]
fn every_cut_of_every_file_keeps_every_service() {
    let home = many();
    for kind in ["/state", "/spec"] {
        let longest =
            (0..MANY).map(|number| file(&home, number, kind)).map(|path| size(&path)).max();
        let mut lengths = 0..longest.unwrap();
        while !lengths.is_empty() {
            check_kept(&home, || {
                let harmed: Vec<(usize, u64)> = (0..MANY).zip(&mut lengths).collect();
                harmed.iter().for_each(|(number, length)| {
                    let path = file(&home, *number, kind);
                    let file = std::fs::File::options().write(true).open(&path).unwrap();
                    file.set_len(*length.min(&(size(&path) - 1))).unwrap();
                });
                harmed.into_iter().map(|(number, _)| number).collect()
            });
        }
    }
    home.ok(["down"]);
    assert_eq!(with_variable(&format!("PROCTOR_HOME={}", home.path().display())), [0; 0]);
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

/// Damage to a file.
type Damage = fn(&Path, &Path);

const DAMAGES: [Damage; 10] = [
    |path, _| std::fs::write(path, noise(777)).unwrap(),
    |path, _| std::fs::write(path, vec![0; size(path) as usize]).unwrap(),
    |path, _| std::fs::write(path, b"").unwrap(),
    // Another version.
    |path, _| change(path, |bytes| bytes[4] ^= 0x7f),
    |path, _| change(path, |bytes| bytes.reverse()),
    // The file of another service.
    |path, other| std::fs::write(path, std::fs::read(other).unwrap()).unwrap(),
    |path, other| {
        std::fs::remove_file(path).unwrap();
        std::os::unix::fs::symlink(other, path).unwrap();
    },
    |path, _| {
        std::fs::remove_file(path).unwrap();
        std::fs::create_dir(path).unwrap();
    },
    |path, _| {
        std::fs::remove_file(path).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path, fifo, mode, 0).unwrap();
    },
    // 1 TiB of zeros.
    |path, _| std::fs::File::options().write(true).open(path).unwrap().set_len(1 << 40).unwrap(),
];

fn noise(length: usize) -> Vec<u8> {
    let mut seed = 0x9e37_79b9_u32;
    let mut next = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn change(path: &Path, how: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    how(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn every_kind_of_garbage_in_every_file_keeps_every_service() {
    let home = many();
    check_kept(&home, || {
        let kinds = ["/state", "/spec"];
        let mut harmed = Vec::new();
        for (number, damage) in DAMAGES.iter().cycle().take(DAMAGES.len() * kinds.len()).enumerate()
        {
            let kind = kinds[number / DAMAGES.len()];
            damage(&file(&home, number, kind), &file(&home, MANY - 1, kind));
            harmed.push(number);
        }
        harmed
    });
    // All files of a service at once.
    check_kept(&home, || {
        for number in 40..60 {
            for kind in ["/state", "/spec", ".out", ".err"] {
                let path = file(&home, number, kind);
                if kind.starts_with('/') {
                    DAMAGES[number % 2](&path, &path);
                } else {
                    std::fs::remove_file(&path).unwrap();
                    std::fs::write(&path, "not a pipe").unwrap();
                }
            }
        }
        (40..60).collect()
    });
}

#[test]
fn environments_that_are_damaged_are_sent_again_before_anything_starts_without_them() {
    let home = Home::new();
    let keys = "restart: { delay: 0 }";
    let echo = |name: &str| shell(name, "echo $FLAVOUR; exec sleep 100000", keys);
    home.write("proctor.yaml", &services(&[echo("a"), echo("b")]));
    let up = home.command(["up", "-d"]).env("FLAVOUR", "sweet").output().unwrap();
    assert!(up.status.success(), "{}", String::from_utf8_lossy(&up.stderr));
    let kept = pid(&home, "b");
    let damages = [DAMAGES[0], DAMAGES[6], DAMAGES[7], DAMAGES[8]];
    for damage in damages {
        let ends = pid(&home, "a");
        kill_proctor(&home);
        for entry in std::fs::read_dir(home.path().join("run/env")).unwrap().flatten() {
            if entry.path().is_file() {
                damage(&entry.path(), &home.path().join("run/services/a/spec"));
            }
        }
        // It ends meanwhile: the new keeper wants to restart it at once, and cannot.
        kill9(ends);
        home.ok(["daemon", "start"]);
        let now = wait_state(&home, "a", "running");
        assert_ne!(now["pid"], ends);
        assert_eq!(pid(&home, "b"), kept);
        assert!(home.own_log().contains("do not start until the daemon sends it again"));
    }
    let runs = damages.len() + 1;
    wait_until("all runs", LIMIT, || lines(&home, "a", &[]).len() == runs);
    assert_eq!(lines(&home, "a", &[]), vec!["sweet"; runs]);
}

#[test]
fn a_list_of_services_that_is_damaged_stops_none_and_doubles_none_and_is_said_to_be() {
    let home = Home::new();
    home.write("proctor.yaml", &services(&[shell("a", "exec sleep 100000", "")]));
    home.ok(["up", "-d"]);
    home.ok(["add", "b", "--start", "--", "sleep", "100000"]);
    let before = picture(&home);
    let file = home.path().join("services.json");
    for damage in [DAMAGES[0], DAMAGES[2], DAMAGES[6], DAMAGES[7], DAMAGES[8]] {
        kill_proctor(&home);
        damage(&file, &home.path().join("nowhere"));
        home.ok(["daemon", "start"]);
        assert_eq!(picture(&home), before);
        let mark = format!("PROCTOR_HOME={}", home.path().display());
        assert_eq!(with_variable(&mark).len(), 2, "nothing is doubled");
        let said = home.json(["daemon", "status"])["problems"].to_string();
        assert!(said.contains("services.json"), "{said}");
        assert!(said.contains("running services are kept"), "{said}");
    }
    // Once it is defined again, all is fine.
    home.ok(["remove", "b"]);
    home.ok(["up", "-d"]);
    assert_eq!(picture(&home)["a"], before["a"]);
    kill_proctor(&home);
    home.ok(["daemon", "start"]);
    assert_eq!(home.json(["daemon", "status"])["problems"], serde_json::json!([]));
}
