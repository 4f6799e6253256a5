//! Failed and interrupted changes leave nothing that blocks the next one.

use super::*;
use crate::files::error::{Conflict, PatchMismatch};
use crate::files::list::cursor;
use proctor_core::diff::{HunkOutcome, RejectedHunk};
use proctor_sys::beneath::OverwriteMode;
use std::path::PathBuf;

impl Scene {
    fn target(&self, path: &str) -> Target {
        Target::of(&self.place.spot(path), &self.place.guarded).unwrap()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.place.path("app").join(path)
    }
}

#[test]
fn what_a_change_that_failed_would_have_changed_is_not_undone() {
    let scene = Scene::new();
    for content in ["one\n", "two\n"] {
        scene.write("a", content).unwrap();
    }
    let over = std::cell::Cell::new(false);
    let new = |_: &[OldContents<'_>]| {
        over.set(true);
        Ok(vec![PlannedFile::content(b"three\n".to_vec())])
    };
    let spots = [scene.place.spot("a")];
    let failed = scene.files.change(&spots, &wish(), &|| over.get(), new).unwrap_err();
    assert!(matches!(failed, FileError::Cancelled), "{failed}");
    let history = scene.run(scene.files.history("a".into())).unwrap();
    assert_eq!(
        history[0].file.as_ref().unwrap().sha256,
        file_info::sha256(b"two\n"),
        "it was kept"
    );
    let undone = scene.run(scene.files.undo("a".into(), None, wish())).unwrap();
    assert_eq!(scene.read("a").as_deref(), Some("one\n"));
    assert!(undone[0].differs());
    scene.is_tidy();
}

#[test]
fn what_somebody_changed_after_it_was_read_is_not_moved_or_replaced() {
    let scene = Scene::new();
    let moved = |change: &str| {
        scene.place.write("from", "from\n");
        scene.place.write("to", "to\n");
        let (from, to) = (scene.target("from"), scene.target("to"));
        let (before, there) = (from.find().unwrap(), to.find().unwrap());
        if !change.is_empty() {
            fs::write(scene.path(change), "theirs\n").unwrap();
        }
        let onto = OverwriteMode::Anything;
        move_and_delete::give_name((&from, before.as_ref()), (&to, there.as_ref()), onto)
            .map_err(|error| error.to_string())
    };
    for change in ["from", "to"] {
        let refused = moved(change).unwrap_err();
        assert!(refused.contains(&format!("'{change}' changed meanwhile")), "{refused}");
        assert!(scene.path("from").exists() && scene.path("to").exists());
        assert_eq!(scene.read(change).as_deref(), Some("theirs\n"));
    }
    moved("").unwrap();
    assert_eq!((scene.read("from"), scene.read("to").as_deref()), (None, Some("from\n")));
}

#[test]
fn folders_made_for_a_change_that_failed_go_again() {
    let scene = Scene::new();
    fs::create_dir(scene.path("empty")).unwrap();
    // A forbidden name shows only after the folders above it exist.
    for path in ["new/deep/.git/x", "empty/deep/.git/x"] {
        let refused = scene.write(path, "x").unwrap_err();
        assert!(refused.contains("git's own"), "{refused}");
    }
    let made = |path: &str| format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n");
    let several = [made("one/a"), made("one/two/b"), made("three/.git/x")].concat();
    scene.diff(&several).unwrap_err();
    assert_eq!(all_folders(&scene), ["empty"]);
    // A folder in use by somebody else stays, with those above it.
    let spots = ["new/x", "used/deep/x"].map(|path| scene.place.spot(path));
    let new = |_: &[OldContents<'_>]| {
        if scene.path("used/deep").exists() {
            fs::write(scene.path("used/theirs"), "theirs\n").unwrap();
        }
        Ok(vec![PlannedFile::content(b"x\n".to_vec()), PlannedFile::content(b"x\n".to_vec())])
    };
    let over = || scene.path("used/theirs").exists();
    scene.files.change(&spots, &wish(), &over, new).unwrap_err();
    assert_eq!(all_folders(&scene), ["empty", "used"]);
    assert_eq!(scene.read("used/theirs").as_deref(), Some("theirs\n"));
    scene.is_tidy();
}

fn all_folders(scene: &Scene) -> Vec<String> {
    let root = scene.path("");
    let names = all_names(&root).into_iter().filter(|name| Path::new(name).is_dir());
    let below = names.map(|name| name[root.to_str().unwrap().len()..].to_owned());
    let mut folders: Vec<String> = below.filter(|name| !name.starts_with(".state")).collect();
    folders.sort();
    folders
}

/// The mark of a process that cannot exist.
const GONE: &str = "4294967295-1-0";

/// The record of a daemon that was killed after the first of two files got its new content.
fn half_done(scene: &Scene, home: &Home) -> PathBuf {
    scene.place.write("sub/a", "new a\n");
    scene.place.write(&format!("sub/.proctor-{GONE}-0.old"), "old a\n");
    scene.place.write("sub/b", "old b\n");
    scene.place.write(&format!("sub/.proctor-{GONE}-1.new"), "new b\n");
    let id = |path: &str| {
        let about = fs::metadata(scene.path(path)).unwrap();
        (about.dev(), about.ino())
    };
    let noted = |number: usize, name: &str| {
        serde_json::json!({
            "root": scene.path(""), "root_folder": id(""), "folder": id("sub"),
            "path": cursor(format!("sub/{name}").as_bytes()),
            "new": format!(".proctor-{GONE}-{number}.new"), "old": format!(".proctor-{GONE}-{number}.old"),
            "before": file_info::sha256(format!("old {name}\n").as_bytes()),
            "after": file_info::sha256(format!("new {name}\n").as_bytes()),
        })
    };
    let record = home.changes().join(format!("{GONE}.json"));
    let files = [noted(0, "a"), noted(1, "b")];
    let text = serde_json::json!({ "version": 1, "settled": false, "files": files });
    fs::create_dir_all(home.changes()).unwrap();
    fs::write(&record, text.to_string()).unwrap();
    record
}

#[test]
fn what_was_cut_off_in_a_root_that_is_not_there_is_put_right_when_it_is() {
    let scene = Scene::new();
    let (state, runtime) = (scene.place.path("home"), scene.place.path("home/run"));
    let home = Home { state, runtime };
    let record = half_done(&scene, &home);
    let (root, away) = (scene.path(""), scene.place.path("away"));
    fs::rename(&root, &away).unwrap();
    recover(&home);
    assert!(record.exists(), "forgotten while the root was away");
    // Like a disk that is not mounted.
    fs::create_dir(&root).unwrap();
    recover(&home);
    assert!(record.exists(), "forgotten because of an empty folder in its place");
    fs::remove_dir(&root).unwrap();
    fs::rename(&away, &root).unwrap();
    recover(&home);
    assert!(!record.exists());
    assert_eq!(scene.read("sub/a").as_deref(), Some("old a\n"));
    assert_eq!(scene.read("sub/b").as_deref(), Some("old b\n"));
    scene.is_tidy();
}

#[test]
fn a_folder_that_is_gone_for_good_is_not_waited_for() {
    let scene = Scene::new();
    let (state, runtime) = (scene.place.path("home"), scene.place.path("home/run"));
    let home = Home { state, runtime };
    let record = half_done(&scene, &home);
    fs::remove_dir_all(scene.path("sub")).unwrap();
    recover(&home);
    assert!(!record.exists());
}

#[test]
fn one_file_that_cannot_be_put_right_does_not_keep_the_others_from_it() {
    let scene = Scene::new();
    let (state, runtime) = (scene.place.path("home"), scene.place.path("home/run"));
    let home = Home { state, runtime };
    let record = half_done(&scene, &home);
    let beside = |number: usize| format!("sub/.proctor-{GONE}-{number}.old");
    fs::rename(scene.path(&format!("sub/.proctor-{GONE}-1.new")), scene.path("sub/b")).unwrap();
    scene.place.write(&beside(1), "old b\n");
    fs::remove_file(scene.path("sub/a")).unwrap();
    fs::create_dir(scene.path("sub/a")).unwrap();
    let odd = record::finish(&record).unwrap_err().to_string();
    assert!(odd.contains(&format!("'{}' is a folder", scene.path("sub/a").display())), "{odd}");
    assert_eq!(scene.read("sub/b").as_deref(), Some("old b\n"));
    assert_eq!(scene.read(&beside(1)), None);
    assert_eq!(scene.read(&beside(0)).as_deref(), Some("old a\n"), "nobody else has it");
    let left = fs::read_to_string(&record).unwrap();
    assert!(left.contains(&cursor(b"sub/a")) && !left.contains(&cursor(b"sub/b")), "{left}");
    // It is recovered when that is possible; a later change of the other file stays.
    fs::remove_dir(scene.path("sub/a")).unwrap();
    scene.place.write("sub/a", "new a\n");
    scene.place.write("sub/b", "new b\n");
    recover(&home);
    assert!(!record.exists());
    assert_eq!(scene.read("sub/a").as_deref(), Some("old a\n"));
    assert_eq!(scene.read("sub/b").as_deref(), Some("new b\n"));
    scene.is_tidy();
}

#[test]
fn what_somebody_else_made_or_removed_where_it_was_not_our_turn_stays() {
    let scene = Scene::new();
    for name in ["first", "theirs", "gone"] {
        scene.place.write(name, "old\n");
    }
    let step = |name: &str, after: Option<&[u8]>| {
        let target = scene.target(name);
        let before = target.find().unwrap();
        FileStep { target, before, after: after.map(|content| NewContent::of(content.to_vec())) }
    };
    let ours = Some(&b"ours\n"[..]);
    let steps = [step("first", ours), step("theirs", ours), step("made", ours), step("gone", None)];
    // OldContents the turn of the second file.
    fs::write(scene.path("theirs"), "theirs\n").unwrap();
    fs::write(scene.path("made"), "ours\n").unwrap();
    fs::remove_file(scene.path("gone")).unwrap();
    let refused = record::carry_out(&scene.files.shared.home, &steps, Vec::new()).unwrap_err();
    assert!(refused.to_string().contains("'theirs' changed meanwhile"), "{refused}");
    let now = ["first", "theirs", "made", "gone"].map(|name| scene.read(name));
    let now = now.each_ref().map(Option::as_deref);
    assert_eq!(now, [Some("old\n"), Some("theirs\n"), Some("ours\n"), None]);
    scene.is_tidy();
}

#[test]
fn what_somebody_made_after_a_change_was_cut_off_stays() {
    let scene = Scene::new();
    let (state, runtime) = (scene.place.path("home"), scene.place.path("home/run"));
    let home = Home { state, runtime };
    let record = half_done(&scene, &home);
    let text = fs::read_to_string(&record).unwrap();
    let mut noted: serde_json::Value = serde_json::from_str(&text).unwrap();
    noted["files"][1]["before"] = serde_json::Value::Null;
    fs::write(&record, noted.to_string()).unwrap();
    // It equals the new content, but that still has its temporary name.
    scene.place.write("sub/b", "new b\n");
    recover(&home);
    assert!(!record.exists());
    assert_eq!(scene.read("sub/a").as_deref(), Some("old a\n"));
    assert_eq!(scene.read("sub/b").as_deref(), Some("new b\n"));
    scene.is_tidy();
    // After an interrupted two-step rename, the file with both names belongs to the change.
    half_done(&scene, &home);
    fs::write(&record, noted.to_string()).unwrap();
    fs::remove_file(scene.path("sub/b")).unwrap();
    let beside = scene.path(&format!("sub/.proctor-{GONE}-1.new"));
    fs::hard_link(beside, scene.path("sub/b")).unwrap();
    recover(&home);
    assert_eq!(scene.read("sub/b"), None);
    scene.is_tidy();
}

#[test]
fn of_very_many_lines_that_stay_as_they_are_none_is_added() {
    let scene = Scene::new();
    let many = "\n".repeat(MAX_COMPARED_BYTES / 2 + 1);
    scene.place.write("many", &many);
    let same = scene.write("many", &many).unwrap();
    assert_eq!((same.added, same.removed, same.differs()), (0, 0, false));
    let more = scene.write("many", &format!("{many}\n")).unwrap();
    assert_eq!((more.added, more.removed), (many.len() + 1, many.len()), "all of them");
}

#[test]
fn a_hunk_that_was_not_looked_for_everywhere_is_not_said_to_be_nowhere() {
    let missed = |spent: bool| {
        let missed = RejectedHunk { line: Some(5), nearest: None, spent };
        let why = PatchMismatch::Hunks(vec![HunkOutcome::Misses(missed)]);
        FileError::Conflicts(vec![Conflict { path: "a".into(), why }]).to_string()
    };
    assert!(missed(false).ends_with("a: hunk 1 (line 5): no similar text found"));
    let spent = missed(true);
    assert!(
        spent.contains("a: hunk 1 (line 5): not found near its position and not searched"),
        "{spent}"
    );
}

#[test]
fn one_file_in_very_many_parts_of_a_diff_is_as_much_as_very_many_files() {
    let scene = Scene::new();
    scene.place.write("a", "x\n");
    let part = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+x\n";
    let refused = scene.diff(&part.repeat(1001)).unwrap_err();
    assert!(refused.contains("more than 1000 files"), "{refused}");
    scene.diff(&part.repeat(2)).unwrap();
}

#[test]
fn so_are_edits_of_very_many_files_and_of_one_file_twice() {
    let scene = Scene::new();
    let edits = |count: usize, one: bool| -> Vec<(String, Vec<Edit>)> {
        let edit = || vec![Edit { old: Vec::new(), new: "x".into(), all: false }];
        (0..count).map(|n| (if one { "f".into() } else { format!("f{n}") }, edit())).collect()
    };
    let try_ = |edits| scene.run(scene.files.edit_several(edits, wish())).unwrap_err();
    assert!(try_(edits(1001, false)).contains("more than 1000 files"));
    assert!(try_(edits(2, true)).contains("'f' is named twice"));
}

#[test]
fn folders_made_for_a_change_that_is_taken_back_go_again() {
    let scene = Scene::new();
    fs::create_dir(scene.path("empty")).unwrap();
    let made = |path: &str| format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n");
    let text = ["one/a", "one/two/b", "empty/c", "used/deep/d"].map(made).concat();
    let query = DiffQuery { text: text.into(), ..DiffQuery::default() };
    let hold = ExpectedState { hold: true, ..wish() };
    let changes = scene.run(scene.files.apply_diff(query, hold)).unwrap();
    fs::write(scene.path("used/theirs"), "theirs\n").unwrap();
    assert!(scene.run(scene.files.take_back(changes, wish())).unwrap().is_empty());
    assert_eq!(all_folders(&scene), ["empty", "used"]);
    scene.is_tidy();
}

#[test]
fn folders_made_for_a_change_that_was_cut_off_go_again() {
    let scene = Scene::new();
    let home = &scene.files.shared.home;
    let spots = ["one/two/a", "used/deep/b"].map(|path| scene.place.spot(path));
    let above: Vec<_> = spots.iter().map(|spot| (spot, spot.rel.split().unwrap().0)).collect();
    let announced = record::announce(home, above.iter().map(|(spot, rel)| (*spot, rel))).unwrap();
    std::mem::forget(announced);
    fs::create_dir_all(scene.path("one/two")).unwrap();
    scene.place.write("used/deep/b", "theirs\n");
    recover(home);
    assert_eq!(all_folders(&scene), ["one", "one/two", "used", "used/deep"], "it may still work");
    let noted = fs::read_dir(home.changes()).unwrap().next().unwrap().unwrap().path();
    fs::rename(noted, home.changes().join(format!("{GONE}.folders.json"))).unwrap();
    recover(home);
    assert_eq!(all_folders(&scene), ["used", "used/deep"]);
    scene.is_tidy();
}

#[test]
fn of_several_files_in_one_change_every_generation_stays_or_is_not_told() {
    let scene = Scene::new();
    let (backups, mut running) =
        (Backups::of(&scene.files.shared.home), BackupInProgress::default());
    let bounds = Bounds { generations: 20, bytes: 2500 };
    let numbers: Vec<Option<u64>> = (0..4)
        .map(|number| {
            let name = format!("f{number}");
            scene.place.write(&name, "x".repeat(1000));
            let target = scene.target(&name);
            let found = target.find().unwrap();
            backups.keep(&target.spot, found.as_ref(), "test", None, bounds, &mut running).unwrap()
        })
        .collect();
    assert_eq!(numbers, [Some(1), Some(1), None, None]);
    for (number, kept) in numbers.iter().enumerate() {
        let history = backups.history(&scene.place.spot(&format!("f{number}")).real());
        assert_eq!(history.first().map(|it| it.number), *kept, "f{number}");
    }
}

#[test]
fn one_of_two_names_of_a_file_is_moved_onto_the_other() {
    let scene = Scene::new();
    scene.place.write("a", "x\n");
    fs::hard_link(scene.path("a"), scene.path("b")).unwrap();
    scene.run(scene.files.rename("a".into(), "b".into(), true, wish())).unwrap();
    assert_eq!((scene.read("a"), scene.read("b").as_deref()), (None, Some("x\n")));
    scene.run(scene.files.rename("b".into(), "b".into(), true, wish())).unwrap();
    assert_eq!(scene.read("b").as_deref(), Some("x\n"), "onto itself it stays");
}
