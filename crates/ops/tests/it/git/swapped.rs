//! Folders exchanged for links while git works in them: no outside content is reported, stored or changed.

use super::hostile::{CALLS, KINDS, models};
use super::scene::{Asker, Scene, copy, put};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Text in everything outside, and nowhere inside.
const STOLEN: &str = "stolen";

/// Default rounds of all calls; `PROCTOR_RACES` sets the total number of calls.
const USUAL_ROUNDS: usize = 1;

/// Interval between exchanges: about the start time of a git process.
const BETWEEN: Duration = Duration::from_micros(700);

fn rounds() -> usize {
    let wanted = std::env::var("PROCTOR_RACES").ok().and_then(|text| text.parse::<usize>().ok());
    wanted.map_or(USUAL_ROUNDS, |calls| calls.div_ceil(CALLS.len() * PLACES.len()))
}

/// Places where a folder becomes a link: above the repository, its git folder, a folder of its work tree.
const PLACES: [&str; 3] = ["above", "git", "work"];

/// Returns the two names that are exchanged for a repository.
fn pair(place: &str, scene: &Scene, kind: &str) -> (PathBuf, PathBuf) {
    let above = scene.root.join(place);
    match place {
        "above" => (above, scene.root.join("other")),
        "git" => (above.join(kind).join(".git"), above.join(kind).join(".other")),
        _ => (above.join(kind).join("d"), above.join(kind).join("e")),
    }
}

/// Copies all repositories into a folder of the root, and others outside, with a link to those.
fn prepare(place: &str, scene: &Scene, models: &Path) -> Vec<(PathBuf, PathBuf)> {
    let (inside, outside) = (scene.root.join(place), scene.outside.join(place));
    fs::create_dir(&inside).unwrap();
    fs::create_dir(&outside).unwrap();
    for kind in KINDS {
        let (here, there) = (inside.join(kind), outside.join(kind));
        for repo in [&here, &there] {
            copy(&models.join(kind), repo);
            put(repo, "d/x", "mine\n");
        }
        put(&here, "d/f", "mine\n");
        put(&there, "d/f", STOLEN);
        put(&there, STOLEN, STOLEN);
        put(&there, "f", STOLEN);
        scene.git(&there, &["branch", STOLEN]);
        scene.git(&there, &["config", "user.name", STOLEN]);
        scene.git(&here, &["add", "d"]);
        // As long as the content outside.
        put(&here, "d/f", "changed");
        let target = match place {
            "above" => outside.clone(),
            "git" => there.join(".git"),
            _ => there.join("d"),
        };
        let (_, link) = pair(place, scene, kind);
        if link.symlink_metadata().is_err() {
            symlink(target, link).unwrap();
        }
    }
    let mut pairs: Vec<_> = KINDS.iter().map(|kind| pair(place, scene, kind)).collect();
    pairs.dedup();
    pairs
}

/// Collects all files below a folder with their contents.
fn contents(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.symlink_metadata().unwrap().is_dir() {
            true => contents(&path, found),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap_or_default())),
        }
    }
}

fn outside(scene: &Scene) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    contents(&scene.outside, &mut found);
    found
}

async fn call_all(asker: &Asker, folder: &Path) -> u64 {
    let mut answered = 0;
    for (_, kind, name, input) in CALLS {
        let mut input: Value = serde_json::from_str(input).unwrap();
        input["repo"] = json!(folder.join(kind));
        let answer = match asker.call(name, input.clone()).await {
            Ok(answer) => {
                answered += 1;
                answer.to_string()
            }
            Err(error) => error.message,
        };
        assert!(!answer.contains(STOLEN), "{name} {input}: {answer}");
    }
    answered
}

#[test]
fn nothing_is_read_or_changed_outside_while_folders_are_exchanged_for_links() {
    // On a kernel without Landlock git uses names, and nothing is promised; the docs say so.
    if !proctor_sys::landlock::is_there() {
        return;
    }
    let scene = Scene::new();
    let models = models(&scene);
    let pairs: Vec<_> = PLACES.iter().flat_map(|place| prepare(place, &scene, &models)).collect();
    let before = outside(&scene);
    let (over, swaps, answered) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for (one, other) in &pairs {
                    let done = renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
                    swaps.fetch_add(u64::from(done.is_ok()), Ordering::Relaxed);
                }
                std::thread::park_timeout(BETWEEN);
            }
        });
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            scene.daemon("", json!({}), async |asker| {
                for _ in 0..rounds() {
                    for place in PLACES {
                        let made = call_all(&asker, &scene.root.join(place)).await;
                        answered.fetch_add(made, Ordering::Relaxed);
                    }
                }
            });
        }));
        over.store(true, Ordering::Relaxed);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let (answered, swaps) = (answered.into_inner(), swaps.into_inner());
    println!("{} calls, {answered} answered, {swaps} swaps", rounds() * CALLS.len() * PLACES.len());
    assert!(answered > 0 && swaps > 100, "{answered} answered, {swaps} swaps");
    let after = outside(&scene);
    let changed: Vec<_> =
        after.iter().filter(|(path, bytes)| before.get(*path) != Some(bytes)).collect();
    assert!(changed.is_empty() && after.len() == before.len(), "{changed:?}");
    for (one, other) in pairs {
        if one.is_symlink() {
            renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
        }
    }
    for place in PLACES {
        for kind in KINDS {
            let repo = scene.root.join(place).join(kind);
            let stored = scene.plain(&repo, &["cat-file", "--batch-all-objects", "--batch"]);
            let stored = String::from_utf8_lossy(&stored.stdout).into_owned();
            assert!(!stored.contains(STOLEN), "{place} {kind}: {stored}");
        }
    }
}
