//! Proctor is killed at random moments while a request changes many files: all of them are old or all are new, and nothing lies
//! beside them.
//!
//! `CHANGE_KILLS` (a number) is how often, and `CHANGE_SEED` throws the same dice again.

use crate::support::LIMIT;
use proctor_testkit::{Home, kill9, signal, wait_until};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// Files that a diff changes; as many again are made or deleted as there are [`FOLDERS`].
const FILES: usize = 60;
const FOLDERS: usize = 5;

/// Kills without `CHANGE_KILLS`.
const DEFAULT_KILLS: u64 = 8;

/// Kills come within so many times what an undisturbed change takes: a daemon that has just begun is slower.
const SPREAD: u64 = 2;

/// Every fourth change is an edit of one file.
const EDIT_EVERY: u64 = 4;

type Tree = BTreeMap<PathBuf, String>;

/// One of the two contents that the folder may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    diff: bool,
    edit: bool,
}

fn line(is_new: bool) -> &'static str {
    if is_new { "new line" } else { "old line" }
}

fn text(name: &str, is_new: bool) -> String {
    format!("{name}\n{}\nlast\n", line(is_new))
}

fn changed() -> impl Iterator<Item = String> {
    (0..FILES).map(|number| format!("d{}/f{number}", number % FOLDERS))
}

/// Files that are there before the diff only, and those after it only, which are in folders of their own.
fn single(is_new: bool) -> impl Iterator<Item = String> {
    let folder = if is_new { "made" } else { "gone" };
    (0..FOLDERS).map(move |number| format!("{folder}{number}/deep/s{number}"))
}

impl Version {
    fn tree(self) -> Tree {
        let changed = changed().map(|name| (text(&name, self.diff), name));
        let single = single(self.diff).map(|name| (text(&name, false), name));
        let edited = (text("edited", self.edit), "edited".to_owned());
        changed.chain(single).chain([edited]).map(|(text, name)| (name.into(), text)).collect()
    }

    fn after(self, is_edit: bool) -> Version {
        match is_edit {
            true => Version { edit: !self.edit, ..self },
            false => Version { diff: !self.diff, ..self },
        }
    }

    /// The diff that turns it into the other one.
    fn diff(self) -> String {
        let (old, new) = (line(self.diff), line(!self.diff));
        let mut diff = String::new();
        for name in changed() {
            let _ = write!(
                diff,
                "--- a/{name}\n+++ b/{name}\n@@ -1,3 +1,3 @@\n {name}\n-{old}\n+{new}\n last\n"
            );
        }
        for name in single(self.diff) {
            let lines =
                text(&name, false).lines().fold(String::new(), |all, l| all + "-" + l + "\n");
            let _ = write!(diff, "--- a/{name}\n+++ /dev/null\n@@ -1,3 +0,0 @@\n{lines}");
        }
        for name in single(!self.diff) {
            let lines =
                text(&name, false).lines().fold(String::new(), |all, l| all + "+" + l + "\n");
            let _ = write!(diff, "--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,3 @@\n{lines}");
        }
        diff
    }
}

fn read(folder: &Path, below: &Path, tree: &mut Tree) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, below, tree);
        } else {
            let name = path.strip_prefix(below).unwrap().to_owned();
            tree.insert(name, std::fs::read_to_string(&path).unwrap());
        }
    }
}

fn write(home: &Home, version: Version) {
    let app = home.path().join("app");
    for entry in std::fs::read_dir(&app).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }
    for (name, text) in version.tree() {
        let path = app.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// Numbers that come again with their seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn change(home: &Home, version: Version, is_edit: bool) -> Child {
    let diff = version.diff();
    let words: Vec<&str> = match is_edit {
        true => {
            let (old, new) = (line(version.edit), line(!version.edit));
            vec!["file", "edit", "edited", "--old", old, "--new", new]
        }
        false => vec!["file", "apply-diff", &diff],
    };
    home.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Whether it succeeded; `None` if it is still under way at this moment.
fn wait_for_end(client: &mut Child, moment: Instant) -> Option<bool> {
    loop {
        if let Some(status) = client.try_wait().unwrap() {
            return Some(status.success());
        }
        if Instant::now() >= moment {
            return None;
        }
        std::thread::yield_now();
    }
}

/// Kills the daemon, or the daemon and the keeper. Who they are is asked before, because asking takes its time.
fn kill((keeper, daemon): (u32, u32), both: bool) {
    if both {
        signal(daemon, Signal::STOP);
        kill9(keeper);
    }
    kill9(daemon);
}

fn has_record(home: &Home) -> bool {
    std::fs::read_dir(home.path().join("changes")).is_ok_and(|mut entries| entries.next().is_some())
}

/// How long a change takes when nobody disturbs it; the shortest of a few, so that kills come in the middle of it.
fn undisturbed(home: &Home, is_edit: bool) -> Duration {
    let old = Version { diff: false, edit: false };
    let times = (0..3).map(|_| {
        write(home, old);
        let begun = Instant::now();
        assert!(change(home, old, is_edit).wait().unwrap().success());
        begun.elapsed()
    });
    times.min().unwrap()
}

/// Leftovers of changes: files beside the changed ones, and records.
fn leftovers(home: &Home, found: &Tree) -> Vec<String> {
    let is_stray = |path: &&PathBuf| path.to_string_lossy().contains(".proctor-");
    let beside = found.keys().filter(is_stray).map(|path| path.display().to_string());
    let records = std::fs::read_dir(home.path().join("changes")).into_iter().flatten();
    let records = records.flatten().map(|entry| entry.path().display().to_string());
    let mut backups = Tree::new();
    read(&home.path().join("backups"), home.path(), &mut backups);
    let is_hidden = |path: &&PathBuf| path.file_name().unwrap().to_string_lossy().starts_with('.');
    let hidden = backups.keys().filter(is_hidden).map(|path| path.display().to_string());
    beside.chain(records).chain(hidden).collect()
}

/// Empty folders: one that was made for a change that is taken back goes with it.
fn empty_folders(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if std::fs::read_dir(&path).unwrap().next().is_none() {
                found.push(path.clone());
            }
            empty_folders(&path, found);
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    under_way: u64,
    /// Some of these were seen to leave a record to the next daemon.
    recorded: u64,
    old: u64,
    new: u64,
    wrong: Vec<String>,
}

impl Counts {
    /// Looks at what is there after a kill of a change that said whether it succeeded.
    fn look(&mut self, home: &Home, case: &str, was: Version, is_edit: bool, said: bool) {
        let mut found = Tree::new();
        let app = home.path().join("app");
        read(&app, &app, &mut found);
        let left = leftovers(home, &found);
        if !left.is_empty() {
            self.wrong.push(format!("{case}: left {left:?}"));
        }
        let is_new = found == was.after(is_edit).tree();
        match is_new {
            true => self.new += 1,
            false => self.old += 1,
        }
        if !is_new && found != was.tree() {
            let differs = found.iter().filter(|(name, text)| was.tree().get(*name) != Some(text));
            let names: Vec<_> = differs.map(|(name, _)| name).collect();
            self.wrong.push(format!("{case}: mixed, changed are {names:?}"));
        }
        if said && !is_new {
            self.wrong.push(format!("{case}: it said that it was done"));
        }
        // Folders of files that were deleted stay; those of files that were not made do not.
        let mut empty = Vec::new();
        empty_folders(&app, &mut empty);
        let other = if was.diff { "gone" } else { "made" };
        let prefix = app.join(other).display().to_string();
        let is_wrong = |path: &&PathBuf| path.display().to_string().starts_with(&prefix);
        if let Some(path) = empty.iter().find(is_wrong)
            && !is_new
        {
            self.wrong.push(format!("{case}: the folder {} is left", path.display()));
        }
    }
}

#[test]
fn killed_at_any_moment_of_a_change_of_many_files_all_are_old_or_all_are_new() {
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = number("CHANGE_SEED").unwrap_or(clock);
    let kills = number("CHANGE_KILLS").unwrap_or(DEFAULT_KILLS);
    let mut dice = Dice(seed);
    let home = Home::new();
    home.write("proctor.yaml", "supervisor:\n  roots: [app]\n  services: {}\n");
    std::fs::create_dir(home.path().join("app")).unwrap();
    let old = Version { diff: false, edit: false };
    write(&home, old);
    home.ok(["up", "-d"]);
    let mut counts = Counts::default();
    let took = [false, true].map(|is_edit| undisturbed(&home, is_edit));
    for attempt in 1..=kills {
        let was = Version { diff: dice.below(2) == 1, edit: dice.below(2) == 1 };
        write(&home, was);
        let (is_edit, both) = (attempt % EDIT_EVERY == 0, dice.below(2) == 1);
        let bound = took[usize::from(is_edit)].as_micros() as u64 * SPREAD;
        let wait = Duration::from_micros(dice.below(bound));
        let pids = (home.keeper_pid(), home.daemon_pid());
        let mut client = change(&home, was, is_edit);
        let said = wait_for_end(&mut client, Instant::now() + wait);
        counts.under_way += u64::from(said.is_none());
        kill(pids, both);
        counts.recorded += u64::from(has_record(&home));
        let answers = || home.run(["file", "read", "edited"]).status.success();
        wait_until("Proctor is back", LIMIT, answers);
        let said = said.unwrap_or_else(|| client.wait().unwrap().success());
        let case = format!("kill {attempt} after {wait:?}, both {both}, edit {is_edit}");
        counts.look(&home, &case, was, is_edit, said);
    }
    println!(
        "kills {kills}: under way {}, recorded {}; old {}, new {}, wrong {} (seed {seed})",
        counts.under_way,
        counts.recorded,
        counts.old,
        counts.new,
        counts.wrong.len()
    );
    assert!(counts.wrong.is_empty(), "seed {seed}: {:#?}\n{}", counts.wrong, home.own_log());
}
