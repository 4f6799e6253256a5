//! One thread swaps a folder and a file for links that lead out, as fast as it can; others change everything
//! there. `PROCTOR_RACES` sets the number of attempts; the default takes a few seconds.

use super::super::{FileStep, NewContent, record, target::Target};
use super::{Scene, wish};
use crate::files::Files;
use crate::files::change::{DiffQuery, Replacement, WriteRequest};
use proctor_core::edit::Edit;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const USUAL: u64 = 3000;
const TRYING: u64 = 2;

/// Names that are ours and lead out in turn.
const SWAPPED: &[(&str, &str)] =
    &[("a/swap", "a/swap-link"), ("a/last", "a/last-link"), ("b", "b-link")];

const PATHS: &[&str] = &[
    "a/swap/x",
    "a/swap/new",
    "a/swap/dir/n",
    "a/last",
    "a/last-link",
    "b/x",
    "a/swap",
    "b/deep/n",
];

fn attempts() -> u64 {
    std::env::var("PROCTOR_RACES").ok().and_then(|text| text.parse().ok()).unwrap_or(USUAL)
}

fn prepare() -> Scene {
    let scene = Scene::new();
    let root = scene.place.path("app");
    restore(&root);
    fs::create_dir(scene.place.path("outside/dir")).unwrap();
    fs::create_dir(scene.place.path("outside/deep")).unwrap();
    for name in ["x", "new", "dir/n"] {
        fs::write(scene.place.path("outside").join(name), "outside\n").unwrap();
    }
    symlink("../../outside", root.join("a/swap-link")).unwrap();
    symlink("../../outside/x", root.join("a/last-link")).unwrap();
    symlink("../outside", root.join("b-link")).unwrap();
    scene
}

/// Restores the files that attempts moved or removed.
fn restore(root: &Path) {
    for folder in ["a/swap/dir", "b"] {
        let missing = fs::symlink_metadata(
            root.join(folder.split_once("/dir").map_or(folder, |(top, _)| top)),
        )
        .is_err();
        if missing {
            fs::create_dir_all(root.join(folder)).ok();
        }
    }
    for file in ["a/last"] {
        if fs::symlink_metadata(root.join(file)).is_err() {
            fs::write(root.join(file), "inside\n").ok();
        }
    }
}

fn swap(root: &Path, over: &AtomicBool, swaps: &AtomicU64) {
    while !over.load(Ordering::Relaxed) {
        for (one, other) in SWAPPED {
            let [one, other] = [one, other].map(|name| root.join(name));
            if renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).is_ok() {
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        }
        // Only this thread makes links: it recreates missing entries as our own folders or files.
        restore(root);
    }
}

async fn attempt(files: &Files, number: u64) -> bool {
    let path = PATHS[(number / 8) as usize % PATHS.len()].to_owned();
    let edit = Edit { old: b"side".to_vec(), new: b"evil side".to_vec(), all: true };
    let query = |text: String| DiffQuery { text: text.into_bytes(), ..DiffQuery::default() };
    let wanted = Replacement { find: "side".into(), put: "evil".into(), ..Replacement::default() };
    let two = format!(
        "--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+evil\n--- /dev/null\n+++ b/a/other\n@@ -0,0 +1 @@\n+evil\n"
    );
    match number % 8 {
        0 => files
            .write(
                path,
                WriteRequest { content: b"evil".to_vec(), ..WriteRequest::default() },
                wish(),
            )
            .await
            .is_ok(),
        1 => files.edit(path, vec![edit], wish()).await.is_ok(),
        2 => files.replace(path, wanted, wish()).await.is_ok(),
        3 => files.apply_diff(query(two), wish()).await.is_ok(),
        4 => files.rename(path, "a/moved".into(), true, wish()).await.is_ok(),
        5 => files.rename("a/moved".into(), path, true, wish()).await.is_ok(),
        6 => files.delete(path, wish()).await.is_ok(),
        _ => files.make_folder(path).await.is_ok(),
    }
}

#[test]
fn nothing_outside_is_changed_while_folders_are_swapped_for_links() {
    let scene = prepare();
    let (root, over, swaps) = (scene.place.path("app"), AtomicBool::new(false), AtomicU64::new(0));
    let (done, count) = (AtomicU64::new(0), attempts());
    std::thread::scope(|scope| {
        let swapping = scope.spawn(|| swap(&root, &over, &swaps));
        let trying: Vec<_> = (0..TRYING)
            .map(|who| {
                let (files, done) = (scene.files.clone(), &done);
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    for number in (who..count).step_by(TRYING as usize) {
                        let made = runtime.block_on(attempt(&files, number));
                        done.fetch_add(u64::from(made), Ordering::Relaxed);
                    }
                })
            })
            .collect();
        trying.into_iter().for_each(|thread| thread.join().unwrap());
        over.store(true, Ordering::Relaxed);
        swapping.join().unwrap();
    });
    let (done, swaps) = (done.into_inner(), swaps.into_inner());
    println!("{count} attempts, {done} of them changed something, {swaps} swaps");
    assert!(done > count / 20 && swaps > count / 20, "{done} done, {swaps} swaps");
    let mut outside = super::all_names(&scene.place.path("outside"));
    outside.sort();
    let base = scene.place.path("outside");
    let expected = ["deep", "dir", "dir/n", "new", "x"]
        .map(|name| base.join(name).to_string_lossy().into_owned());
    assert_eq!(outside, expected);
    for name in ["dir/n", "new", "x"] {
        assert_eq!(fs::read_to_string(base.join(name)).unwrap(), "outside\n", "{name}");
    }
}

#[test]
fn somebody_elses_change_in_between_is_kept() {
    let scene = Scene::new();
    scene.place.write("a", "1\n");
    let target = Target::of(&scene.place.spot("a"), &scene.place.guarded).unwrap();
    let before = target.find().unwrap();
    fs::write(scene.place.path("app/a"), "theirs\n").unwrap();
    let steps = [FileStep { target, before, after: Some(NewContent::of(b"ours\n".to_vec())) }];
    let refused = record::carry_out(&scene.files.shared.home, &steps, Vec::new()).unwrap_err();
    assert!(refused.to_string().contains("changed meanwhile"), "{refused}");
    assert_eq!(scene.read("a").as_deref(), Some("theirs\n"));
    scene.is_tidy();
}
