//! The number of generations kept, whose they are, and which ones are removed.

use super::*;
use crate::files::Roots;
use proctor_core::config::roots::RootDef;
use std::time::{Duration, SystemTime};

struct Kept {
    scene: Scene,
    backups: Backups,
}

impl Kept {
    fn new() -> Kept {
        let scene = Scene::new();
        let backups = Backups::of(&scene.files.shared.home);
        Kept { scene, backups }
    }

    fn keep(&self, name: &str, content: &str, bytes: u64, running: &mut BackupInProgress) {
        self.scene.place.write(name, content);
        let target = Target::of(&self.scene.place.spot(name), &self.scene.place.guarded).unwrap();
        let (found, bounds) = (target.find().unwrap(), Bounds { generations: 9, bytes });
        let kept = self.backups.keep(&target.spot, found.as_ref(), "test", None, bounds, running);
        assert!(kept.unwrap().is_some());
    }

    fn total(&self) -> u64 {
        self.backups.all().iter().map(|(_, size, _)| size).sum()
    }

    fn has(&self, name: &str) -> bool {
        !self.backups.history(&self.scene.place.spot(name).real()).is_empty()
    }
}

#[test]
fn when_there_are_too_many_generations_there_is_room_for_the_next_ones_again() {
    const MAX_BYTES: u64 = 100_000;
    let kept = Kept::new();
    for number in 0..100 {
        kept.keep(
            &format!("f{number}"),
            &"x".repeat(700),
            MAX_BYTES,
            &mut BackupInProgress::default(),
        );
    }
    assert!(kept.has("f0") && kept.total() <= MAX_BYTES, "{}", kept.total());
    kept.keep("large", &"y".repeat(40_000), MAX_BYTES, &mut BackupInProgress::default());
    assert!(kept.total() <= MAX_BYTES * 9 / 10, "{}", kept.total());
    assert!(kept.total() > MAX_BYTES * 8 / 10, "{}", kept.total());
    assert!(!kept.has("f0") && kept.has("f99") && kept.has("large"));
}

#[test]
fn all_generations_are_looked_through_once_in_a_change() {
    const MAX_BYTES: u64 = 20_000;
    let (kept, mut running) = (Kept::new(), BackupInProgress::default());
    for number in 0..20 {
        kept.keep(
            &format!("f{number}"),
            &"x".repeat(1000),
            MAX_BYTES,
            &mut BackupInProgress::default(),
        );
    }
    kept.keep("a", &"a".repeat(5_000), MAX_BYTES, &mut running);
    // The oldest of all.
    kept.keep("planted", &"p".repeat(10), MAX_BYTES, &mut BackupInProgress::default());
    let (path, ..) = kept.backups.all().into_iter().max_by_key(|(_, _, at)| *at).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
    kept.keep("b", &"b".repeat(9_000), MAX_BYTES, &mut running);
    assert!(kept.has("planted") && kept.total() <= MAX_BYTES, "{}", kept.total());
    kept.keep("c", &"c".repeat(9_000), MAX_BYTES, &mut BackupInProgress::default());
    assert!(!kept.has("planted"));
}

#[test]
fn what_was_kept_for_a_change_that_failed_is_forgotten_and_nothing_else() {
    const MAX_BYTES: u64 = 20_000;
    let (kept, mut running) = (Kept::new(), BackupInProgress::default());
    kept.keep("a", "1", MAX_BYTES, &mut BackupInProgress::default());
    let before = kept.total();
    kept.keep("a", "1", MAX_BYTES, &mut running);
    kept.keep("a", "2", MAX_BYTES, &mut running);
    kept.keep("b", "3", MAX_BYTES, &mut running);
    kept.backups.forget(&running);
    assert!(kept.has("a") && !kept.has("b"));
    assert_eq!(kept.total(), before);
}

#[test]
fn a_folder_that_another_change_removes_is_made_again() {
    let kept = Kept::new();
    // Each has room for one, so each removes the other's.
    let both = |name: &str| {
        for round in 0..800 {
            kept.keep(name, &format!("{round:0600}"), 1000, &mut BackupInProgress::default());
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| both("one"));
        both("other");
    });
}

#[test]
fn who_stops_waiting_has_no_more_files_kept() {
    let scene = Scene::new();
    let spots: Vec<PathInRoot> = ["a", "b", "c"].map(|name| scene.place.spot(name)).into();
    for name in ["a", "b", "c"] {
        scene.place.write(name, "old\n");
    }
    let planned = std::cell::Cell::new(false);
    let make = |before: &[OldContents<'_>]| {
        planned.set(true);
        Ok(before.iter().map(|_| PlannedFile::content(b"new\n".to_vec())).collect())
    };
    let failed = scene.files.change(&spots, &wish(), &|| planned.get(), make).unwrap_err();
    assert!(matches!(failed, FileError::Cancelled), "{failed}");
    let kept = |name: &str| scene.run(scene.files.history(name.into())).unwrap().len();
    assert_eq!((kept("a"), kept("b"), kept("c")), (1, 0, 0));
    assert_eq!(scene.read("a").as_deref(), Some("old\n"));
}

#[test]
fn generations_are_the_files_own_when_another_root_is_declared() {
    let scene = Scene::new();
    scene.place.write("inner/f", "1\n");
    scene.edit("inner/f", "1", "2", wish()).unwrap();
    let def = |path: &str| RootDef::of(scene.place.path(path).to_str().unwrap());
    let declare = |defs: &[RootDef]| {
        scene.files.shared.registry.set_roots(std::sync::Arc::new(Roots::open(defs)));
    };
    declare(&[def("app"), def("app/inner")]);
    for path in ["app:inner/f", "inner:f"] {
        assert_eq!(scene.run(scene.files.history(path.into())).unwrap().len(), 1, "{path}");
    }
    scene.run(scene.files.undo("inner:f".into(), None, wish())).unwrap();
    assert_eq!(scene.read("inner/f").as_deref(), Some("1\n"));
    declare(&[def("app/inner")]);
    assert_eq!(scene.run(scene.files.history("f".into())).unwrap().len(), 2);
}

#[test]
fn a_dry_run_tells_what_would_be_deleted_or_made() {
    let scene = Scene::new();
    scene.place.write("d/a", "1\n2\n");
    scene.place.write("b", "x");
    symlink("d", scene.place.path("app/link")).unwrap();
    fs::create_dir(scene.place.path("app/.git")).unwrap();
    fs::create_dir(scene.place.path("app/empty")).unwrap();
    let dry = || ExpectedState { dry_run: true, ..wish() };
    let delete = |path: &str| scene.run(scene.files.delete(path.into(), dry()));
    let told = delete("d/a").unwrap();
    let diff = String::from_utf8(told.diff).unwrap();
    assert_eq!(diff, "--- a/d/a\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-1\n-2\n");
    assert_eq!((told.removed, told.generation), (2, None));
    assert!(delete("d").unwrap_err().contains("not empty"));
    delete("empty").unwrap();
    delete("link").unwrap();
    let look = |path: &str| scene.run(scene.files.look_for_folder(path.into()));
    for (path, made) in [("d", false), ("d/new/deep", true), ("", false)] {
        assert_eq!(look(path).unwrap().1, made, "{path}");
    }
    for path in ["b", "b/c", "d/a/x/y", "link", "link/x", ".git/x", ".state/x"] {
        let made = scene.run(scene.files.make_folder(path.into()));
        assert!(look(path).is_err() && made.is_err(), "{path}: {made:?}");
    }
    assert_eq!(scene.read("d/a").as_deref(), Some("1\n2\n"));
    assert!(scene.place.path("app/empty").exists() && !scene.place.path("app/d/new").exists());
}
