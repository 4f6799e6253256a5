//! A change is reverted where it was made, whatever its path means by then.

use super::*;
use crate::files::Roots;
use proctor_core::config::roots::RootDef;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Applies a diff with `hold`.
#[track_caller]
fn held(scene: &Scene, text: &str) -> Vec<FileOutcome> {
    let query = DiffQuery { text: text.into(), ..DiffQuery::default() };
    scene.run(scene.files.apply_diff(query, ExpectedState { hold: true, ..wish() })).unwrap()
}

#[track_caller]
fn take_back(scene: &Scene, changes: Vec<FileOutcome>) {
    let left = scene.run(scene.files.take_back(changes, wish())).unwrap();
    assert!(left.is_empty(), "{left:?}");
    scene.is_tidy();
}

fn declare(scene: &Scene, paths: &[&str]) {
    let defs: Vec<RootDef> =
        paths.iter().map(|path| RootDef::of(scene.place.path(path).to_str().unwrap())).collect();
    scene.files.shared.registry.set_roots(std::sync::Arc::new(Roots::open(&defs)));
}

#[test]
fn a_name_that_looks_like_a_root_is_that_of_a_file() {
    let scene = Scene::new();
    scene.place.write("x", "new\n");
    let changes = held(&scene, "--- /dev/null\n+++ b/app:x\n@@ -0,0 +1 @@\n+new\n");
    assert_eq!(changes[0].path, "app:app:x");
    assert_eq!(scene.read("app:x").as_deref(), Some("new\n"));
    let read = crate::files::ReadQuery::default();
    let read = scene.run(scene.files.read(vec![changes[0].path.clone()], read)).unwrap();
    assert_eq!(read[0].as_ref().unwrap().path, changes[0].path, "it is found by what it is called");
    take_back(&scene, changes);
    assert_eq!((scene.read("x").as_deref(), scene.read("app:x")), (Some("new\n"), None));
}

#[test]
fn an_undo_does_not_bring_back_what_was_taken_back() {
    let scene = Scene::new();
    scene.place.write("a", "first\n");
    let edit = |from: &str, to: &str| format!("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-{from}\n+{to}\n");
    drop(held(&scene, &edit("first", "second")));
    let bad = held(&scene, &edit("second", "bad"));
    take_back(&scene, bad);
    assert_eq!(scene.read("a").as_deref(), Some("second\n"));
    scene.run(scene.files.undo("a".into(), None, wish())).unwrap();
    assert_eq!(scene.read("a").as_deref(), Some("first\n"), "not the change that was taken back");
}

#[test]
fn a_name_that_is_no_text_is_found_again() {
    let scene = Scene::new();
    let path = scene.place.path("app").join(OsStr::from_bytes(b"n\xff"));
    fs::write(&path, "old\n").unwrap();
    let names = "diff --git \"a/n\\377\" \"b/n\\377\"\n--- \"a/n\\377\"\n+++ \"b/n\\377\"\n";
    let changes = held(&scene, &format!("{names}@@ -1 +1 @@\n-old\n+new\n"));
    assert_eq!(fs::read(&path).unwrap(), b"new\n");
    take_back(&scene, changes);
    assert_eq!(fs::read(&path).unwrap(), b"old\n");
}

#[test]
fn roots_that_are_declared_meanwhile_change_nothing_about_it() {
    for roots in [&["app", "outside"][..], &["outside"], &["app/sub"], &["app"]] {
        let scene = Scene::new();
        scene.place.write("sub/a", "old\n");
        let change = "--- a/sub/a\n+++ b/sub/a\n@@ -1 +1 @@\n-old\n+new\n";
        let made = "--- /dev/null\n+++ b/one/two/b\n@@ -0,0 +1 @@\n+b\n";
        let changes = held(&scene, &format!("{change}{made}"));
        declare(&scene, roots);
        take_back(&scene, changes);
        assert_eq!(scene.read("sub/a").as_deref(), Some("old\n"), "{roots:?}");
        assert!(!scene.place.path("app/one").exists(), "{roots:?}");
    }
}

#[test]
fn a_file_by_two_roots_is_one_file() {
    let scene = Scene::new();
    scene.place.write("inner/f", "a b\n");
    declare(&scene, &["app", "app/inner"]);
    let edit = |old: &str, new: &str| vec![Edit { old: old.into(), new: new.into(), all: false }];
    let edits = |one: &str, other: &str| {
        vec![(one.to_owned(), edit("a", "A")), (other.to_owned(), edit("b", "B"))]
    };
    for dry_run in [true, false] {
        let wish = ExpectedState { dry_run, ..wish() };
        let edits = edits("app:inner/f", "inner:f");
        let refused = scene.run(scene.files.edit_several(edits, wish)).unwrap_err();
        assert_eq!(refused, "'inner:f' is named twice, as 'app:inner/f'");
    }
    assert_eq!(scene.read("inner/f").as_deref(), Some("a b\n"));
}
