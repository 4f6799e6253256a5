//! Every file of Proctor, cut, with one bit changed, full of noise, or replaced by a pipe, a folder or a link: no command hangs,
//! stopping always works, the next start succeeds, and a link's target is unchanged.

use crate::support::{LIMIT, pid, services, shell};
use proctor_testkit::{Home, alive, kill9, wait_until};
use rustix::process::Signal;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const DAMAGES: [&str; 6] = ["cut", "flip", "noise", "pipe", "folder", "link"];

/// Files that are there only at times, as a process that was killed would leave them.
const LEFT: [(&str, &str); 8] = [
    ("run/indexes/1-1-1", "/nowhere/.git"),
    ("run/commands/1-1-1", ""),
    ("run/mcp/00000000-0000-4000-8000-000000000000", "{}"),
    ("run/services.json", "{}"),
    ("run/audit.owed", "{}\n"),
    ("changes/1-1-1.json", "{}"),
    ("backups/0123abcd/00000001", "{}\n"),
    ("trusted", "/nowhere\n"),
];

/// Content of a file that a link names.
const THEIRS: &str = "theirs\n";

/// Puts a damaged `original`, or something else, at `path`. A living Proctor may recreate a missing file in between.
fn put(path: &Path, original: &[u8], damage: &str, target: &Path) {
    let attempt = || clear(path).and_then(|()| try_put(path, original, damage, target));
    wait_until("the damage is done", LIMIT, || attempt().is_ok());
}

fn try_put(path: &Path, original: &[u8], damage: &str, target: &Path) -> io::Result<()> {
    let mut bytes = original.to_vec();
    match damage {
        "cut" => {
            bytes.truncate(original.len() / 2);
            fs::write(path, bytes)
        }
        "flip" => {
            let middle = original.len() / 2;
            if let Some(byte) = bytes.get_mut(middle) {
                *byte ^= 4;
            }
            fs::write(path, bytes)
        }
        "noise" => fs::write(path, [0x9e, 0x37, 0x79, 0xb9, 0, 255, b'\n', b'{'].repeat(100)),
        "pipe" => {
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            let fifo = rustix::fs::FileType::Fifo;
            Ok(rustix::fs::mknodat(rustix::fs::CWD, path, fifo, mode, 0)?)
        }
        "folder" => fs::create_dir_all(path.join("not-empty")),
        "link" => symlink(target, path),
        _ => unreachable!("it is one of the six"),
    }
}

fn clear(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

/// Returns the file of a name in the matrix; `/*` stands for the only file of a folder.
fn find(home: &Home, name: &str) -> PathBuf {
    let Some(folder) = name.strip_suffix("/*") else { return home.path().join(name) };
    let mut found = fs::read_dir(home.path().join(folder)).unwrap().flatten();
    found.next().unwrap_or_else(|| panic!("{folder} is empty")).path()
}

/// Damages one file of a living Proctor and of a killed one. Returns the failure.
fn attempt(home: &Home, path: &Path, damage: &str) -> Result<(), String> {
    let target = home.path().join("target");
    fs::write(&target, THEIRS).unwrap();
    home.ok(["up", "-d"]);
    let (web, keeper, daemon) = (pid(home, "web"), home.keeper_pid(), home.daemon_pid());
    let left = LEFT.iter().find(|(name, _)| path.ends_with(name));
    let original = match (fs::read(path), left) {
        (Ok(original), _) => original,
        // A living Proctor has no use for it, and removed it.
        (Err(_), Some((_, content))) => content.as_bytes().to_vec(),
        (Err(error), None) => return Err(format!("there is no such file: {error}")),
    };
    let run = |words: &[&str]| {
        let output = home.run(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or(format!("{words:?}: {said}"))
    };
    put(path, &original, damage, &target);
    run(&["status", "web"])?;
    run(&["stop", "web"])?;
    if alive(web) {
        return Err("stop left a process".into());
    }
    // The daemon is stopped first, so it does not see the keeper die and become one.
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(daemon as i32).unwrap(),
        Signal::STOP,
    )
    .unwrap();
    kill9(keeper);
    kill9(daemon);
    wait_until("Proctor is gone", LIMIT, || !alive(keeper) && !alive(daemon));
    put(path, &original, damage, &target);
    run(&["daemon", "start"])?;
    run(&["status"])?;
    run(&["down"])?;
    match fs::read(&target) {
        Ok(bytes) if bytes == THEIRS.as_bytes() => Ok(()),
        changed => Err(format!("the target of the link was changed: {changed:?}")),
    }
}

#[track_caller]
fn check(names: &[&str]) {
    let (mut attempts, mut failures) = (0, Vec::new());
    for name in names {
        for damage in DAMAGES {
            // A new home for each, without damage from before.
            let home = Home::new();
            home.write(
                "proctor.yaml",
                &services(&[shell("web", "echo hello; exec sleep 100000", "")]),
            );
            home.ok(["up", "-d"]);
            home.ok(["token", "create", "ci"]);
            let log = home.path().join("logs/web/stdout.00000001.log");
            wait_until("its first line", LIMIT, || fs::read(&log).is_ok_and(|it| !it.is_empty()));
            for (name, content) in LEFT.iter().filter(|(left, _)| left == name) {
                home.write(name, content);
            }
            let path = find(&home, name);
            attempts += 1;
            if let Err(why) = attempt(&home, &path, damage) {
                failures.push(format!("{name}, {damage}: {why}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {attempts}:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn damage_to_any_file_of_the_state_folder_keeps_nobody_from_stopping_and_starting() {
    check(&["services.json", ".services.json.spare", "tokens.json", "keeper.lock", "proctor.log"]);
}

#[test]
fn damage_to_the_audit_or_the_logs_keeps_nobody_from_stopping_and_starting() {
    let log = "logs/web/stdout.00000001";
    check(&["audit.head", "audit/*", &format!("{log}.log"), &format!("{log}.idx")]);
}

#[test]
fn damage_to_any_file_of_the_runtime_folder_keeps_nobody_from_stopping_and_starting() {
    check(&[
        "run/keeper.lock",
        "run/boot",
        "run/env/*",
        "run/services/web/state",
        "run/services/web/spec",
    ]);
}

#[test]
fn damage_to_files_that_a_killed_process_left_keeps_nobody_from_stopping_and_starting() {
    check(&LEFT.map(|(name, _)| name));
}
