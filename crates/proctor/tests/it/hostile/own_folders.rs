//! Every folder of ours with a pipe, a file, a link or nothing in its place, and with modes that keep us out or let everybody in,
//! under a living Proctor and under one that was killed: no command hangs, stopping always works, the next start succeeds, a
//! folder that a link names stays as it is, and what was moved aside is kept.

use crate::support::{LIMIT, services, shell};
use proctor_testkit::{Home, alive, finish, kill9, proctor, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const NOBODY: u32 = 65_534;

/// Cells that are worked on at once.
const AT_ONCE: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Pipe,
    File,
    Link,
    Missing,
    /// Mode 0000.
    Closed,
    /// Mode 0777.
    Open,
}

const DAMAGES: [Damage; 6] =
    [Damage::Pipe, Damage::File, Damage::Link, Damage::Missing, Damage::Closed, Damage::Open];

/// A home with one service, and the user that its Proctor runs as: a mode means nothing to root.
struct Scene {
    home: Home,
    user: Option<u32>,
}

impl Scene {
    fn new(damage: Damage) -> Scene {
        let is_root = rustix::process::geteuid().is_root();
        let of_mode = matches!(damage, Damage::Closed | Damage::Open);
        let scene = Scene { home: Home::new(), user: (is_root && of_mode).then_some(NOBODY) };
        let config = services(&[shell("web", "echo hello; exec sleep 100000", "")]);
        scene.home.write("proctor.yaml", &config);
        for name in [
            "backups/0123abcd/00000001",
            "changes/x",
            "run/commands/y",
            "run/indexes/z",
            "run/mcp/s",
        ] {
            scene.home.write(name, "");
        }
        scene.home.write("elsewhere/theirs", "theirs\n");
        for name in [
            "state",
            "stdout.00000001.log",
            "services/web/notes",
            "web/notes",
            "00000001.jsonl",
            "x.json",
        ] {
            scene.home.write(&format!("elsewhere/{name}"), "theirs\n");
        }
        private(&scene.home.path().join("elsewhere"));
        for name in ["backups", "changes", "run"] {
            private(&scene.home.path().join(name));
        }
        scene.give(scene.home.path());
        scene.ok(&["up", "-d"]);
        let log = scene.home.path().join("logs/web/stdout.00000001.log");
        wait_until("its first line", LIMIT, || fs::read(&log).is_ok_and(|it| !it.is_empty()));
        scene
    }

    /// Give something, and all that is in it, to the user of this Proctor.
    fn give(&self, path: &Path) {
        let Some(user) = self.user else { return };
        chown(path, Some(user), Some(user)).unwrap();
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            self.give(&entry.path());
        }
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = self.home.command(words);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        finish(&mut command, LIMIT)
    }

    fn try_run(&self, words: &[&str]) -> Result<String, String> {
        let output = self.run(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            Ok(printed + &said)
        } else {
            Err(format!("{words:?}: {said}"))
        }
    }

    #[track_caller]
    fn ok(&self, words: &[&str]) -> String {
        self.try_run(words).unwrap_or_else(|why| panic!("{why}"))
    }

    fn number(&self, words: &[&str], pointer: &str) -> u32 {
        let words = [&["--json"], words].concat();
        let answer: Value = serde_json::from_slice(&self.run(&words).stdout).unwrap();
        let number = answer.pointer(pointer).and_then(Value::as_u64);
        number.unwrap_or_else(|| panic!("no {pointer} in {answer:#}")) as u32
    }

    fn web(&self) -> u32 {
        self.number(&["status", "web"], "/services/0/pid")
    }

    /// Kill keeper, daemon and guard, none of which may see another die.
    fn kill(&self) {
        let keeper = self.number(&["daemon", "status"], "/keeper/pid");
        let daemon = self.number(&["daemon", "status"], "/daemon/pid");
        let all = [self.home.guard_pid(), daemon, keeper];
        for pid in all {
            kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::STOP).unwrap();
        }
        all.into_iter().for_each(kill9);
        wait_until("Proctor is gone", LIMIT, || !all.into_iter().any(alive));
    }

    /// Do the damage. A living Proctor may make a missing folder anew in between.
    fn damage(&self, path: &Path, damage: Damage) {
        wait_until("the damage is done", LIMIT, || self.try_damage(path, damage).is_ok());
    }

    fn try_damage(&self, path: &Path, damage: Damage) -> io::Result<()> {
        let mode = |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        match damage {
            Damage::Closed => return mode(0),
            Damage::Open => return mode(0o777),
            Damage::Link => return self.swap_for_link(path),
            Damage::Pipe | Damage::File | Damage::Missing => clear(path)?,
        }
        match damage {
            Damage::Pipe => {
                let kind = rustix::fs::FileType::Fifo;
                let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
                Ok(rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0)?)
            }
            Damage::File => fs::File::create_new(path).map(drop),
            Damage::Link | Damage::Missing | Damage::Closed | Damage::Open => Ok(()),
        }
    }

    /// Puts a link in the place of a folder in one step. In two, a living Proctor would write the folder again in between, and
    /// the link would come while it writes: that race is documented in docs/security.md.
    fn swap_for_link(&self, path: &Path) -> io::Result<()> {
        let link = self.home.path().join("link");
        clear(&link)?;
        symlink(self.home.path().join("elsewhere"), &link)?;
        let (here, flags) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
        match rustix::fs::renameat_with(here, &link, here, path, flags) {
            Ok(()) => clear(&link),
            Err(rustix::io::Errno::NOENT) => fs::rename(&link, path),
            Err(error) => Err(error.into()),
        }
    }

    /// A link in the place of a folder that grows large is used, if nobody else can write what it names.
    fn elsewhere(&self, name: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        collect(&self.home.path().join("elsewhere"), &mut found);
        if ["logs", "backups"].contains(&name) {
            found.retain(|_, content| content == b"theirs\n");
        }
        found
    }

    fn was_moved_aside(&self, name: &str) -> bool {
        let path = self.home.path().join(name);
        let start = format!("{}.damaged-", path.file_name().unwrap().display());
        let beside = fs::read_dir(path.parent().unwrap()).into_iter().flatten().flatten();
        beside.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(&start))
    }
}

fn private(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
}

fn clear(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

fn collect(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => collect(&entry.path(), found),
            false => drop(found.insert(entry.path(), fs::read(entry.path()).unwrap_or_default())),
        }
    }
}

fn gone(what: &str, web: u32) -> Result<(), String> {
    if alive(web) { Err(format!("{what} left a process")) } else { Ok(()) }
}

/// One folder with one damage, done to a living Proctor.
fn living(name: &str, damage: Damage) -> Result<(), String> {
    let scene = Scene::new(damage);
    let (web, before) = (scene.web(), scene.elsewhere(name));
    scene.damage(&scene.home.path().join(name), damage);
    scene.try_run(&["status", "web"])?;
    scene.try_run(&["stop", "web"])?;
    gone("stop", web)?;
    scene.try_run(&["daemon", "stop"])?;
    after(&scene, name, &before, &["up", "-d"])
}

/// One folder with one damage, done after Proctor was killed and left a service.
fn killed(name: &str, damage: Damage) -> Result<(), String> {
    let scene = Scene::new(damage);
    let (web, before) = (scene.web(), scene.elsewhere(name));
    scene.kill();
    if !alive(web) {
        return Err("the service died with Proctor".into());
    }
    scene.damage(&scene.home.path().join(name), damage);
    let said = scene.try_run(&["down"])?;
    gone(&format!("down ({said})"), web)?;
    after(&scene, name, &before, &["daemon", "start"])?;
    let replaced = matches!(damage, Damage::Pipe | Damage::File | Damage::Link);
    let is_used = damage == Damage::Link && ["logs", "backups"].contains(&name);
    // A folder of backups is looked at when its file is changed again.
    let is_asked_for = !name.starts_with("backups/");
    if replaced && !is_used && is_asked_for && !scene.was_moved_aside(name) {
        return Err("what was in its place is not kept".into());
    }
    Ok(())
}

/// The next start succeeds, can be stopped, and nothing was changed that is not ours.
fn after(
    scene: &Scene,
    name: &str,
    before: &BTreeMap<PathBuf, Vec<u8>>,
    start: &[&str],
) -> Result<(), String> {
    scene.try_run(start)?;
    scene.try_run(&["status"])?;
    scene.try_run(&["daemon", "stop"])?;
    let mut now = scene.elsewhere(name);
    let lost: Vec<_> =
        before.iter().filter(|(path, was)| now.remove(*path).as_ref() != Some(was)).collect();
    match lost.is_empty() && now.is_empty() {
        true => Ok(()),
        false => Err(format!("the target of the link was changed: lost {lost:?}, new {now:?}")),
    }
}

#[track_caller]
fn check(names: &[&'static str]) {
    let of_name = |name: &&'static str| DAMAGES.map(|damage| (*name, damage));
    let cells: Vec<_> = names.iter().flat_map(of_name).collect();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((name, damage)) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
            let results = [("living", living(name, *damage)), ("killed", killed(name, *damage))];
            for (when, why) in results.into_iter().filter_map(|(when, it)| Some((when, it.err()?)))
            {
                failures.lock().unwrap().push(format!("{name}, {damage:?}, {when}: {why}"));
            }
        }
    };
    // Most of the time each waits for something.
    thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(work))));
    let failures = failures.into_inner().unwrap();
    let of = 2 * cells.len();
    assert!(failures.is_empty(), "{} of {of}:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn damage_to_the_runtime_folder_keeps_nobody_from_stopping_and_starting() {
    check(&["run", "run/services", "run/services/web", "run/env"]);
}

#[test]
fn damage_to_the_logs_or_the_audit_keeps_nobody_from_stopping_and_starting() {
    check(&["logs", "logs/web", "audit", "backups"]);
}

#[test]
fn damage_to_the_folders_of_the_daemon_keeps_nobody_from_stopping_and_starting() {
    check(&["changes", "run/commands", "run/indexes", "run/mcp", "backups/0123abcd"]);
}

#[test]
fn a_folder_in_the_place_of_a_socket_is_moved_aside() {
    for name in ["run/proctor.sock", "run/guard.sock"] {
        for is_killed in [false, true] {
            let scene = Scene::new(Damage::File);
            let (web, path) = (scene.web(), scene.home.path().join(name));
            if is_killed {
                scene.kill();
            }
            let put = || clear(&path).and_then(|()| fs::create_dir_all(path.join("not-empty")));
            wait_until("a folder is in its place", LIMIT, || put().is_ok());
            scene.ok(&["stop", "web"]);
            assert!(!alive(web), "{name}: stop left a process");
            scene.ok(&["down"]);
            scene.ok(&["up", "-d"]);
            scene.ok(&["daemon", "stop"]);
        }
    }
}

/// An operator moves folders that grow large to another disk.
#[test]
fn a_link_of_ours_to_a_folder_of_ours_is_used_for_large_folders_and_the_home() {
    let (scene, home) = (Scene::new(Damage::Link), Home::new());
    let disk = home.path().join("disk");
    fs::create_dir(&disk).unwrap();
    private(&disk);
    scene.ok(&["daemon", "stop"]);
    let logs = scene.home.path().join("logs");
    fs::rename(&logs, disk.join("logs")).unwrap();
    symlink(disk.join("logs"), &logs).unwrap();
    scene.ok(&["up", "-d"]);
    let hellos = || scene.ok(&["logs", "web"]).matches("hello").count();
    wait_until("lines of both runs", LIMIT, || hellos() == 2);
    scene.ok(&["down"]);
    assert!(fs::symlink_metadata(&logs).unwrap().is_symlink(), "the link was replaced");
    // The whole home, below a link and by a link.
    let way = home.path().join("way");
    symlink(scene.home.path(), &way).unwrap();
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(proctor());
        command.arg("--home").arg(&way).args(words).current_dir(scene.home.path());
        command.envs([("SUPERVISOR_PORT", "off"), ("PROCTOR_HTTP_PORT", "off")]);
        let output = finish(&mut command, LIMIT);
        assert!(output.status.success(), "{output:?}");
    };
    run(&["up", "-d"]);
    run(&["daemon", "stop"]);
    // Anybody could write there by now: lines would be read that no service wrote.
    fs::set_permissions(disk.join("logs"), fs::Permissions::from_mode(0o777)).unwrap();
    scene.ok(&["up", "-d"]);
    scene.ok(&["daemon", "stop"]);
    assert!(scene.was_moved_aside("logs"));
    assert!(fs::symlink_metadata(&logs).unwrap().is_dir());
    assert!(scene.home.own_log().contains("can be written by others"), "it was not said");
}

#[test]
fn a_name_that_somebody_else_uses_is_refused_where_no_proctor_ran_yet() {
    let home = Home::new();
    home.write("run", "a script of the project");
    let (_, said) = home.fail(["daemon", "start"]);
    for part in ["/run is a file, not a folder", "--home"] {
        assert!(said.contains(part), "no '{part}' in: {said}");
    }
    assert_eq!(fs::read_to_string(home.path().join("run")).unwrap(), "a script of the project");
    fs::remove_file(home.path().join("run")).unwrap();
    home.ok(["daemon", "start"]);
    home.ok(["daemon", "stop"]);
}
