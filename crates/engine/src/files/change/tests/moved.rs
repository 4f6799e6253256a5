//! Undone moves, and the history of files that had another name.

use super::*;
use crate::files::Roots;
use proctor_core::config::roots::RootDef;
use proctor_core::config::security::Security;

impl Scene {
    fn rename(&self, from: &str, to: &str, replace: bool) {
        self.run(self.files.rename(from.into(), to.into(), replace, wish())).unwrap();
    }

    fn undo(&self, path: &str, number: Option<u64>) -> Result<Vec<String>, String> {
        let undone = self.run(self.files.undo(path.into(), number, wish()))?;
        Ok(undone.into_iter().map(|changed| changed.path).collect())
    }

    /// Limits the total size of generations.
    fn bound(&self, bytes: u64) {
        let backups = Bounds { generations: 20, bytes };
        self.files.shared.registry.set_security(Security { backups, ..Security::CLOSED });
    }

    fn generations(&self, path: &str) -> usize {
        self.run(self.files.history(path.into())).unwrap().len()
    }

    /// Checks the contents of these files.
    #[track_caller]
    fn check(&self, expected: &[(&str, Option<&str>)]) {
        for (path, content) in expected {
            assert_eq!(self.read(path).as_deref(), *content, "{path}");
        }
        self.is_tidy();
    }
}

#[test]
fn a_move_is_taken_back_by_either_name_and_made_again() {
    for path in ["a", "d/b"] {
        let scene = Scene::new();
        scene.place.write("a", "1\n");
        fs::create_dir(scene.place.path("app/d")).unwrap();
        let before = fs::metadata(scene.place.path("app/a")).unwrap();
        scene.rename("a", "d/b", false);
        scene.check(&[("a", None), ("d/b", Some("1\n"))]);
        assert_eq!(scene.undo(path, None).unwrap(), ["a", "d/b"]);
        scene.check(&[("a", Some("1\n")), ("d/b", None)]);
        let after = fs::metadata(scene.place.path("app/a")).unwrap();
        assert_eq!(after.ino(), before.ino(), "it is the same file");
        scene.undo(path, None).unwrap();
        scene.check(&[("a", None), ("d/b", Some("1\n"))]);
        scene.undo(path, None).unwrap();
        scene.check(&[("a", Some("1\n")), ("d/b", None)]);
    }
}

#[test]
fn what_a_moved_file_was_is_known_by_both_names() {
    let scene = Scene::new();
    scene.write("a", "1\n").unwrap();
    scene.write("a", "2\n").unwrap();
    scene.rename("a", "b", false);
    let history = |path: &str| scene.run(scene.files.history(path.into())).unwrap();
    let real = |path: &str| {
        scene.place.path("app").canonicalize().unwrap().join(path).to_str().unwrap().to_owned()
    };
    let (old, new) = (history("a"), history("b"));
    assert_eq!((old.len(), new.len()), (3, 1));
    assert_eq!(old[0].moved, Some(MovedPath::To(real("b"))));
    assert_eq!(old[0].file.as_ref().unwrap().sha256, file_info::sha256(b"2\n"));
    assert_eq!((&new[0].moved, &new[0].file), (&Some(MovedPath::From(real("a"))), &None));
    // After another rename, too.
    scene.rename("b", "c", false);
    scene.undo("c", None).unwrap();
    scene.undo("b", Some(1)).unwrap();
    scene.check(&[("a", Some("2\n")), ("b", None), ("c", None)]);
    scene.undo("a", Some(2)).unwrap();
    scene.check(&[("a", Some("1\n"))]);
}

#[test]
fn what_was_replaced_comes_back_with_what_replaced_it_and_goes_again() {
    for (first, second) in [("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")] {
        for replaced in ["b\n", "a\n"] {
            let scene = Scene::new();
            scene.place.write("a", "a\n");
            scene.place.write("b", replaced);
            scene.rename("a", "b", true);
            for _ in 0..3 {
                scene.check(&[("a", None), ("b", Some("a\n"))]);
                assert_eq!(scene.undo(first, None).unwrap(), ["a", "b"]);
                scene.check(&[("a", Some("a\n")), ("b", Some(replaced))]);
                assert_eq!(scene.undo(second, None).unwrap(), ["b", "a"]);
            }
            scene.undo(first, None).unwrap();
            // A file written there later is not the restored one.
            fs::write(scene.place.path("app/b"), "theirs\n").unwrap();
            assert!(scene.undo("a", None).unwrap_err().contains("'b' exists"));
            scene.check(&[("a", Some("a\n")), ("b", Some("theirs\n"))]);
        }
    }
}

#[test]
fn a_move_that_replaced_another_name_of_the_file_is_taken_back() {
    let scene = Scene::new();
    scene.place.write("a", "x\n");
    fs::hard_link(scene.place.path("app/a"), scene.place.path("app/b")).unwrap();
    scene.rename("a", "b", true);
    scene.undo("b", None).unwrap();
    scene.check(&[("a", Some("x\n")), ("b", Some("x\n"))]);
}

#[test]
fn a_move_keeps_what_it_replaces_and_nothing_else_goes_for_it() {
    let (large, small) = ("l".repeat(50_000), "s".repeat(30_000));
    let scene = Scene::new();
    scene.bound(64 << 10);
    scene.place.write("other", "1\n");
    scene.edit("other", "1", "2", wish()).unwrap();
    scene.place.write("large", &large);
    scene.place.write("small", &small);
    scene.rename("large", "elsewhere", false);
    scene.rename("elsewhere", "small", true);
    assert_eq!(scene.generations("other"), 1);
    scene.undo("small", None).unwrap();
    scene.check(&[("elsewhere", Some(&large)), ("small", Some(&small))]);
    scene.undo("elsewhere", Some(1)).unwrap();
    scene.check(&[("large", Some(&large)), ("elsewhere", None), ("small", Some(&small))]);
}

#[test]
fn what_was_moved_away_is_had_from_where_it_went_to() {
    let scene = Scene::new();
    scene.place.write("a", "1\n");
    scene.rename("a", "b", false);
    scene.rename("b", "c", false);
    scene.edit("c", "1", "2", wish()).unwrap();
    scene.undo("a", None).unwrap();
    scene.check(&[("a", Some("1\n")), ("b", None), ("c", Some("2\n"))]);
    // Changes by others are not kept.
    scene.place.write("d", "1\n");
    scene.rename("d", "e", false);
    fs::write(scene.place.path("app/e"), "2\n").unwrap();
    let lost = scene.undo("d", None).unwrap_err();
    assert!(lost.contains("it was moved to '") && lost.contains("is no longer there"), "{lost}");
    scene.check(&[("d", None), ("e", Some("2\n"))]);
}

#[test]
fn what_is_kept_comes_back_also_if_the_other_name_cannot_be_had() {
    let blocked: [fn(&Path); 4] = [
        |other| fs::create_dir(other).unwrap(),
        |other| symlink("none", other).unwrap(),
        |other| fs::write(other, "theirs\n").unwrap(),
        |other| {
            fs::remove_dir(other.parent().unwrap()).unwrap();
            fs::write(other.parent().unwrap(), "theirs\n").unwrap();
        },
    ];
    for (number, block) in blocked.iter().enumerate() {
        let scene = Scene::new();
        // The replaced file, although the old name is in use now.
        scene.place.write("d/a", "a\n");
        scene.place.write("b", "b\n");
        scene.rename("d/a", "b", true);
        block(&scene.place.path("app/d/a"));
        assert_eq!(scene.undo("b", None).is_err(), number < 3, "{number}: the old name is taken");
        assert_eq!(scene.undo("b", Some(1)).unwrap(), ["b"], "{number}");
        assert_eq!(scene.read("b").as_deref(), Some("b\n"), "{number}");
        // The moved file, although the new name is in use now.
        scene.place.write("c", "c\n");
        scene.rename("c", "e/f", false);
        scene.run(scene.files.delete("e/f".into(), wish())).unwrap();
        block(&scene.place.path("app/e/f"));
        assert_eq!(scene.undo("c", None).unwrap(), ["c"], "{number}");
        scene.check(&[("c", Some("c\n"))]);
    }
}

#[test]
fn what_was_replaced_comes_back_also_if_the_root_of_the_other_name_is_gone() {
    let scene = Scene::new();
    let def = |path: &str| RootDef::of(scene.place.path(path).to_str().unwrap());
    let declare = |defs: &[RootDef]| {
        scene.files.shared.registry.set_roots(std::sync::Arc::new(Roots::open(defs)));
    };
    declare(&[def("app"), def("outside")]);
    scene.place.write("a", "a\n");
    fs::write(scene.place.path("outside/b"), "b\n").unwrap();
    fs::write(scene.place.path("outside/c"), "c\n").unwrap();
    scene.rename("outside:b", "app:a", true);
    scene.rename("outside:c", "app:d", false);
    declare(&[def("app")]);
    scene.undo("a", None).unwrap();
    let none = scene.undo("d", None).unwrap_err();
    assert!(none.contains("is outside the roots"), "{none}");
    scene.check(&[("a", Some("a\n")), ("d", Some("c\n"))]);
}

#[test]
fn another_file_that_has_got_the_name_since_is_not_moved() {
    let scene = Scene::new();
    scene.place.write("a", "1\n");
    scene.rename("a", "b", false);
    scene.rename("b", "c", false);
    scene.write("b", "unrelated\n").unwrap();
    assert_eq!(scene.undo("b", Some(1)).unwrap(), ["b"]);
    scene.check(&[("a", None), ("b", None), ("c", Some("1\n"))]);
    scene.undo("b", None).unwrap();
    scene.check(&[("b", Some("unrelated\n"))]);
}

#[test]
fn a_move_to_another_file_system_is_no_part_of_the_history() {
    let scene = Scene::new();
    let other = tempfile::tempdir_in("/dev/shm").unwrap();
    let def = |path: &Path| RootDef {
        name: path.file_name().unwrap().to_str().unwrap().into(),
        ..RootDef::of(path.to_str().unwrap())
    };
    let (app, name) =
        (scene.place.path("app"), other.path().file_name().unwrap().to_str().unwrap());
    let roots = Roots::open(&[def(&app), def(other.path())]);
    scene.files.shared.registry.set_roots(std::sync::Arc::new(roots));
    scene.place.write("a", "a\n");
    let to = format!("{name}:b");
    fs::write(other.path().join("b"), "b\n").unwrap();
    for dry_run in [true, false] {
        let moved = scene.files.rename(
            "app:a".into(),
            to.clone(),
            true,
            ExpectedState { dry_run, ..wish() },
        );
        let refused = scene.run(moved).unwrap_err();
        assert!(refused.contains("are on different file systems"), "{refused}");
    }
    assert_eq!((scene.generations("app:a"), scene.generations(&to)), (0, 0));
}

#[test]
fn a_name_that_is_taken_stays_and_a_folder_that_is_gone_is_made() {
    let scene = Scene::new();
    scene.place.write("d/a", "1\n");
    scene.rename("d/a", "b", false);
    scene.place.write("d/a", "theirs\n");
    assert!(scene.undo("b", None).unwrap_err().contains("'d/a' exists"));
    scene.check(&[("d/a", Some("theirs\n")), ("b", Some("1\n"))]);
    fs::remove_dir_all(scene.place.path("app/d")).unwrap();
    for path in ["b", "b", "d/a", "d/a"] {
        let there = scene.read("b").is_some();
        scene.undo(path, None).unwrap();
        let moved = [("d/a", there.then_some("1\n")), ("b", (!there).then_some("1\n"))];
        scene.check(&moved);
        fs::remove_dir(scene.place.path("app/d")).ok();
    }
}

#[test]
fn a_file_that_was_changed_after_its_move_goes_back_by_number_and_stays_otherwise() {
    let scene = Scene::new();
    scene.place.write("a", "1\n");
    scene.rename("a", "b", false);
    scene.edit("b", "1", "2", wish()).unwrap();
    scene.undo("b", None).unwrap();
    scene.check(&[("a", None), ("b", Some("1\n"))]);
    scene.edit("b", "1", "3", wish()).unwrap();
    scene.undo("a", None).unwrap();
    scene.check(&[("a", Some("1\n")), ("b", Some("3\n"))]);
    fs::remove_file(scene.place.path("app/a")).unwrap();
    scene.undo("b", Some(1)).unwrap();
    scene.check(&[("a", Some("3\n")), ("b", None)]);
}

#[test]
fn a_move_is_taken_back_only_if_it_was_seen_and_a_dry_run_only_tells() {
    let scene = Scene::new();
    scene.place.write("a", "1\n");
    scene.rename("a", "b", false);
    let undo = |path: &str, hash: Option<&[u8]>, dry_run| {
        let if_hash = hash.map(file_info::sha256);
        scene.run(scene.files.undo(path.into(), None, ExpectedState { if_hash, dry_run, ..wish() }))
    };
    for path in ["a", "b"] {
        let stale = undo(path, Some(b"other\n"), false).unwrap_err();
        assert!(stale.contains("changed since you read it"), "{stale}");
    }
    let told = undo("b", None, true).unwrap();
    let diffs: Vec<_> = told.iter().map(|it| String::from_utf8_lossy(&it.diff)).collect();
    assert_eq!(
        diffs,
        [
            "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+1\n",
            "--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n"
        ]
    );
    scene.check(&[("a", None), ("b", Some("1\n"))]);
    undo("b", Some(b"1\n"), false).unwrap();
    scene.check(&[("a", Some("1\n")), ("b", None)]);
}

#[test]
fn what_is_moved_into_folders_that_are_not_there_has_them_made() {
    let scene = Scene::new();
    scene.place.write("b.txt", "b\n");
    fs::create_dir(scene.place.path("app/d1")).unwrap();
    let rename = |path: &str, to: &str, wish: ExpectedState| {
        scene.run(scene.files.rename(path.into(), to.into(), false, wish))
    };
    let dry = ExpectedState { dry_run: true, ..wish() };
    assert_eq!(rename("b.txt", "new/deep/c.txt", dry.clone()).unwrap().path, "new/deep/c.txt");
    for (path, to, why) in [
        ("none", "new/deep/c.txt", "'none' does not exist"),
        ("d1", "d1/d2", "cannot move 'd1' into itself, to 'd1/d2'"),
        ("d1", "d1/new/d2", "cannot move 'd1' into itself, to 'd1/new/d2'"),
        ("b.txt", "b.txt/c", "'b.txt/c' "),
    ] {
        for wish in [dry.clone(), wish()] {
            let refused = rename(path, to, wish).unwrap_err();
            assert!(refused.starts_with(why), "{refused}");
        }
    }
    assert!(!scene.place.path("app/new").exists() && !scene.place.path("app/d1/new").exists());
    rename("b.txt", "new/deep/c.txt", wish()).unwrap();
    assert_eq!(scene.read("new/deep/c.txt").as_deref(), Some("b\n"));
    scene.is_tidy();
}
