//! One thread swaps a folder for a link that leads out, and a file for a link or a pipe, as fast as
//! it can; others try every operation. `PROCTOR_RACES` is the number of attempts for each method of
//! resolution; the default takes a second or two.

use super::scene::{ACTS, Act, SECRET, Scene};
use proctor_sys::beneath::ResolveMethod;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const USUAL: u64 = 20_000;
const TRYING: u64 = 3;

/// Names that alternate between our entry and one that leads out or blocks.
const SWAPPED: &[(&str, &str)] =
    &[("a/swap", "a/swap-link"), ("a/last", "a/last-link"), ("a/file", "pipe")];

/// The attempts: through a swapped folder, and with a swapped last name.
const PATHS: &[&str] = &[
    "a/swap/x",
    "a/swap",
    "a/swap/dir/inner",
    "a/swap/new",
    "a/swap/shared",
    "a/swap-link/x",
    "a/last",
    "a/last-link",
    "a/file",
];

fn attempts() -> u64 {
    std::env::var("PROCTOR_RACES").ok().and_then(|text| text.parse().ok()).unwrap_or(USUAL)
}

#[derive(Default)]
struct Count {
    done: AtomicU64,
    refused: AtomicU64,
    swaps: AtomicU64,
    over: AtomicBool,
}

fn prepare() -> Scene {
    let scene = Scene::new();
    let root = scene.path("base");
    fs::create_dir_all(root.join("a/swap/dir")).unwrap();
    for file in ["a/swap/x", "a/swap/dir/inner", "a/last", "a/file"] {
        fs::write(root.join(file), "inside").unwrap();
    }
    symlink("../../outside", root.join("a/swap-link")).unwrap();
    symlink("../../outside/x", root.join("a/last-link")).unwrap();
    scene
}

/// Restores what an attempt moved or removed, so that there is always something to swap.
fn swap(scene: &Scene, count: &Count) {
    let root = scene.path("base");
    while !count.over.load(Ordering::Relaxed) {
        for (one, other) in SWAPPED {
            let [one, other] = [one, other].map(|name| root.join(name));
            if renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).is_ok() {
                count.swaps.fetch_add(1, Ordering::Relaxed);
            }
        }
        if count.swaps.load(Ordering::Relaxed).is_multiple_of(8) {
            restore(&root);
        }
    }
}

/// Only this thread creates links, so a folder that it sees stays one until it is done here.
fn restore(root: &Path) {
    let missing = |name: &str| fs::symlink_metadata(root.join(name)).is_err();
    let file = |name: &str| {
        if missing(name) {
            fs::write(root.join("spare"), "inside").ok();
            fs::rename(root.join("spare"), root.join(name)).ok();
        }
    };
    fs::remove_file(root.join("sub/away")).ok();
    fs::remove_dir_all(root.join("sub/away")).ok();
    fs::create_dir(root.join("a/swap")).ok();
    symlink("../../outside", root.join("a/swap-link")).ok();
    symlink("../../outside/x", root.join("a/last-link")).ok();
    for name in ["a/last", "a/file", "sub/x"] {
        file(name);
    }
    if fs::symlink_metadata(root.join("a/swap")).is_ok_and(|data| data.is_dir()) {
        fs::create_dir(root.join("a/swap/dir")).ok();
        file("a/swap/x");
    }
    if missing("pipe") {
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
        rustix::fs::mknodat(CWD, root.join("pipe"), kind, mode, 0).ok();
    }
}

fn attempt(scene: &Scene, way: ResolveMethod, begin: u64, count: &Count, most: u64) {
    let root = scene.root(way);
    for number in (begin..most).step_by(TRYING as usize) {
        let act = ACTS[number as usize % ACTS.len()];
        let path = PATHS[(number as usize / ACTS.len()) % PATHS.len()];
        match act.attempt(&root, path) {
            Ok(learnt) => {
                let learnt = String::from_utf8_lossy(&learnt).into_owned();
                assert!(!learnt.contains(SECRET), "{way:?} {act:?} {path} told {learnt:?}");
                count.done.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => drop(count.refused.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

/// Returns a summary.
fn race(way: ResolveMethod) -> String {
    let scene = prepare();
    let before = scene.outsiders();
    let (count, most) = (Count::default(), attempts());
    std::thread::scope(|scope| {
        let swapping = scope.spawn(|| swap(&scene, &count));
        let trying: Vec<_> = (0..TRYING)
            .map(|begin| {
                scope.spawn({
                    let (scene, count) = (&scene, &count);
                    move || attempt(scene, way, begin, count, most)
                })
            })
            .collect();
        let results: Vec<_> = trying.into_iter().map(|thread| thread.join()).collect();
        count.over.store(true, Ordering::Relaxed);
        swapping.join().unwrap();
        assert!(results.into_iter().all(|result| result.is_ok()));
    });
    assert_eq!(scene.outsiders(), before, "{way:?}: something happened outside");
    let [done, refused, swaps] =
        [&count.done, &count.refused, &count.swaps].map(|number| number.load(Ordering::Relaxed));
    assert_eq!(done + refused, most);
    assert!(done > most / 100 && refused > most / 100 && swaps > most / 100, "no race was run");
    assert!(Act::Read.attempt(&scene.root(way), "plain.txt").is_ok());
    format!("{way:?}: {done} done, {refused} refused, {swaps} swaps, 0 escapes")
}

#[test]
fn a_swapped_link_is_never_followed_by_the_kernel() {
    println!("{}", race(ResolveMethod::Kernel));
}

#[test]
fn a_swapped_link_is_never_followed_name_by_name() {
    println!("{}", race(ResolveMethod::Names));
}
