//! Changes of real files.

mod copies;
mod encoded;
mod failed;
mod hostile;
mod kept;
mod large;
mod likeness;
mod meant;
mod moved;
mod races;
mod reference;
mod safety;
mod slow;
mod taken_back;

use super::*;
use crate::files::tests::Place;
use proctor_core::config::backups::Backups as Bounds;
use proctor_core::edit::Edit;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

struct Scene {
    place: Place,
    files: Files,
    runtime: tokio::runtime::Runtime,
}

impl Scene {
    fn new() -> Scene {
        let place = Place::new();
        let home = Home { state: place.path("app/.state"), runtime: place.path("app/.state/run") };
        let registry = std::sync::Arc::new(crate::registry::Registry::new());
        let root = proctor_core::config::roots::RootDef::of(place.path("app").to_str().unwrap());
        registry.set_roots(std::sync::Arc::new(crate::files::Roots::open(&[root])));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Scene { files: Files::new(home, registry), place, runtime }
    }

    fn run<T>(
        &self,
        work: impl Future<Output = Result<T, crate::error::EngineError>>,
    ) -> Result<T, String> {
        self.runtime.block_on(work).map_err(|error| error.to_string())
    }

    fn write(&self, path: &str, content: &str) -> Result<FileOutcome, String> {
        let written = WriteRequest { content: content.into(), ..WriteRequest::default() };
        self.run(self.files.write(path.into(), written, wish()))
    }

    fn edit(
        &self,
        path: &str,
        old: &str,
        new: &str,
        wish: ExpectedState,
    ) -> Result<FileOutcome, String> {
        let edit = Edit { old: old.into(), new: new.into(), all: false };
        self.run(self.files.edit(path.into(), vec![edit], wish))
    }

    fn diff(&self, text: &str) -> Result<Vec<FileOutcome>, String> {
        let query = DiffQuery { text: text.into(), ..DiffQuery::default() };
        self.run(self.files.apply_diff(query, wish()))
    }

    fn read(&self, path: &str) -> Option<String> {
        let bytes = fs::read(self.place.path("app").join(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Checks that there are no temporary files and no records.
    #[track_caller]
    fn is_tidy(&self) {
        let names = all_names(&self.place.path("app"));
        let stray = names.iter().find(|name| name.contains(".proctor-") || name.ends_with(".tmp"));
        assert_eq!(stray, None);
        let changes = fs::read_dir(self.place.path("app/.state/changes"));
        assert_eq!(changes.into_iter().flatten().count(), 0);
    }
}

fn all_names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        names.push(path.to_string_lossy().into_owned());
        if path.is_dir() && !path.is_symlink() {
            names.extend(all_names(&path));
        }
    }
    names
}

fn wish() -> ExpectedState {
    ExpectedState { by: "test", ..ExpectedState::default() }
}

#[test]
fn a_file_is_made_with_its_folders_and_written_again_with_what_it_was() {
    let scene = Scene::new();
    let made = scene.write("src/deep/a.txt", "one\n").unwrap();
    assert_eq!((made.before, made.added, made.generation), (None, 1, Some(1)));
    let path = scene.place.path("app/src/deep/a.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    let before = fs::metadata(&path).unwrap();
    let again = scene.write("src/deep/a.txt", "two").unwrap();
    assert_eq!(scene.read("src/deep/a.txt").as_deref(), Some("two\n"), "its last line ends");
    assert_eq!((again.generation, again.before), (Some(2), made.after));
    assert!(again.diff.is_empty(), "the diff is only for callers that request it");
    let after = fs::metadata(&path).unwrap();
    assert_eq!(
        (after.mode(), after.uid(), after.gid()),
        (before.mode(), before.uid(), before.gid())
    );
    assert_ne!(after.ino(), before.ino(), "it took the place of the other");
    scene.is_tidy();
}

#[test]
fn ends_of_lines_stay_and_exact_is_exact() {
    let scene = Scene::new();
    scene.place.write("w.txt", "a\r\nb\r\n");
    scene.write("w.txt", "x\ny").unwrap();
    assert_eq!(scene.read("w.txt").as_deref(), Some("x\r\ny\r\n"));
    scene.edit("w.txt", "x\ny", "1\n2\n3", wish()).unwrap();
    assert_eq!(scene.read("w.txt").as_deref(), Some("1\r\n2\r\n3\r\n"));
    for (old, new, expected) in [
        ("a\r\nb\r\n", "x\r\ny\n", "x\r\ny\r\n"),
        ("a\nb\n", "x\r\ny\r\n", "x\ny\n"),
        ("a\nb\n", "x\r\ny", "x\ny\n"),
        ("a\nb", "x\ny\n", "x\ny\n"),
        ("a\nb", "x\ny", "x\ny"),
        ("a\r\nb\n", "x\r\ny\n", "x\r\ny\n"),
        ("a", "x\r\ny", "x\r\ny"),
        ("a\n", "x\ry\n", "x\ry\n"),
    ] {
        scene.place.write("v.txt", old);
        scene.write("v.txt", new).unwrap();
        assert_eq!(scene.read("v.txt").as_deref(), Some(expected), "{new:?} for {old:?}");
    }
    let exact = WriteRequest { content: b"q\n\xff".to_vec(), exact: true, only_new: false };
    scene.run(scene.files.write("w.txt".into(), exact, wish())).unwrap();
    assert_eq!(fs::read(scene.place.path("app/w.txt")).unwrap(), b"q\n\xff");
    let new = WriteRequest { content: b"x".to_vec(), only_new: true, ..WriteRequest::default() };
    let refused = scene.run(scene.files.write("w.txt".into(), new, wish())).unwrap_err();
    assert!(refused.contains("exists"), "{refused}");
}

#[test]
fn a_dry_run_tells_and_changes_nothing() {
    let scene = Scene::new();
    scene.place.write("a", "1\n2\n");
    let dry = ExpectedState { dry_run: true, ..wish() };
    let told = scene.edit("a", "2", "two", dry.clone()).unwrap();
    assert_eq!(
        String::from_utf8(told.diff).unwrap(),
        "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n 1\n-2\n+two\n"
    );
    let new = WriteRequest { content: b"x".to_vec(), ..WriteRequest::default() };
    let told = scene.run(scene.files.write("new/folder/x".into(), new, dry)).unwrap();
    assert_eq!((told.added, told.generation), (1, None));
    assert_eq!(scene.read("a").as_deref(), Some("1\n2\n"));
    assert!(!scene.place.path("app/new").exists());
    assert_eq!(scene.run(scene.files.history("a".into())).unwrap(), []);
    scene.is_tidy();
}

#[test]
fn who_saw_something_else_is_told() {
    let scene = Scene::new();
    scene.place.write("a", "1\n");
    let hash = file_info::sha256(b"1\n");
    let seen = |hash: &str| ExpectedState { if_hash: Some(hash.to_owned()), ..wish() };
    scene.edit("a", "1", "2", seen(&hash.to_uppercase())).unwrap();
    let stale = scene.edit("a", "2", "3", seen(&hash)).unwrap_err();
    assert!(stale.contains("changed since you read it"), "{stale}");
    let none = scene.edit("none", "2", "3", seen(&hash)).unwrap_err();
    assert!(none.contains("the file does not exist"), "{none}");
    let gone = scene.run(scene.files.delete("a".into(), seen(&hash))).unwrap_err();
    assert!(gone.contains("changed since you read it"), "{gone}");
    assert_eq!(scene.read("a").as_deref(), Some("2\n"));
    let apply = |text: &str, hash: &str| {
        let query = DiffQuery { text: text.into(), ..DiffQuery::default() };
        scene.run(scene.files.apply_diff(query, seen(hash)))
    };
    let (one, now) = ("--- x/a\n+++ y/a\n@@ -1 +1 @@\n-2\n+3\n", file_info::sha256(b"2\n"));
    let made = "--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+b\n";
    for (text, hash, part) in [
        (one, &hash, "changed since you read it"),
        (made, &now, "the file does not exist"),
        (&format!("{one}{made}"), &now, "for a diff of one file, and this has 2"),
    ] {
        let refused = apply(text, hash).unwrap_err();
        assert!(refused.contains(part), "{refused}");
    }
    assert_eq!(scene.read("a").as_deref(), Some("2\n"));
    apply(one, &now).unwrap();
    assert_eq!((scene.read("a").as_deref(), scene.read("b")), (Some("3\n"), None));
}

#[test]
fn generations_come_back_and_so_does_what_was_there_before_them() {
    let scene = Scene::new();
    for content in ["1\n", "2\n", "3\n"] {
        scene.write("a", content).unwrap();
    }
    let history = scene.run(scene.files.history("a".into())).unwrap();
    assert_eq!(history.iter().map(|it| it.number).collect::<Vec<_>>(), [3, 2, 1]);
    assert_eq!(history[2].file, None, "first there was none");
    let undo = |number| scene.run(scene.files.undo("a".into(), number, wish()));
    undo(None).unwrap();
    assert_eq!(scene.read("a").as_deref(), Some("2\n"));
    undo(None).unwrap();
    assert_eq!(scene.read("a").as_deref(), Some("3\n"), "a second undo brings it back");
    undo(Some(2)).unwrap();
    assert_eq!(scene.read("a").as_deref(), Some("1\n"));
    undo(Some(1)).unwrap();
    assert_eq!(scene.read("a"), None);
    undo(Some(2)).unwrap();
    assert_eq!(scene.read("a").as_deref(), Some("1\n"), "also what is deleted");
    assert!(undo(Some(99)).unwrap_err().contains("no earlier generation 99"));
    scene.is_tidy();
}

#[test]
fn generations_are_bounded_by_number_and_by_bytes() {
    let scene = Scene::new();
    let backups = Backups::of(&scene.files.shared.home);
    let keep = |name: &str, content: String, bounds: Bounds| {
        scene.place.write(name, content);
        let target = Target::of(&scene.place.spot(name), &scene.place.guarded).unwrap();
        let found = target.find().unwrap();
        let mut running = BackupInProgress::default();
        backups.keep(&target.spot, found.as_ref(), "test", None, bounds, &mut running).unwrap()
    };
    let few = Bounds { generations: 3, bytes: 1 << 20 };
    let numbers = |name: &str| {
        let history = backups.history(&scene.place.spot(name).real());
        history.iter().map(|it| it.number).collect::<Vec<_>>()
    };
    for number in 1..=5 {
        assert_eq!(keep("a", number.to_string(), few), Some(number));
        assert_eq!(keep("a", number.to_string(), few), Some(number), "the same is kept once");
    }
    assert_eq!(numbers("a"), [5, 4, 3]);
    let small = Bounds { generations: 100, bytes: 2000 };
    for number in 0..10 {
        keep("b", format!("{number}").repeat(500), small);
    }
    let total: u64 = backups.all().iter().map(|it| it.1).sum();
    assert!(total <= 2000 && !numbers("b").is_empty(), "{total}");
    assert_eq!(numbers("a"), [0; 0], "the oldest went first");
    assert_eq!(keep("c", "x".repeat(3000), small), None, "larger than all may be");
    assert_eq!(keep("c", "x".into(), Bounds { generations: 0, bytes: 99 }), None);
}

#[test]
fn a_diff_changes_all_files_or_none() {
    let scene = Scene::new();
    scene.place.write("a", "1\n2\n3\n");
    scene.place.write("b", "x\n");
    scene.place.write("gone", "bye\n");
    let good = "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n--- /dev/null\n+++ b/new/n\n@@ -0,0 +1 @@\n+n\n\
                --- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n";
    let bad = format!("{good}--- a/b\n+++ b/b\n@@ -1 +1 @@\n-y\n+z\n");
    let refused = scene.diff(&bad).unwrap_err();
    assert!(refused.contains("b: hunk 1"), "{refused}");
    assert_eq!(scene.read("a").as_deref(), Some("1\n2\n3\n"));
    assert!(!scene.place.path("app/new").exists());
    let changed = scene.diff(good).unwrap();
    assert_eq!(
        changed.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(),
        ["a", "new/n", "gone"]
    );
    assert_eq!(scene.read("a").as_deref(), Some("1\ntwo\n3\n"));
    assert_eq!((scene.read("new/n").as_deref(), scene.read("gone")), (Some("n\n"), None));
    let again = scene.diff(good).unwrap_err();
    for part in ["a: hunk 1", "new/n: the diff creates it", "gone: the file does not exist"] {
        assert!(again.contains(part), "{again}");
    }
    scene.is_tidy();
}

#[test]
fn a_diff_moves_files_and_understands_other_names() {
    let scene = Scene::new();
    scene.place.write("old.rs", "a\nb\n");
    let moved = "diff --git a/old.rs b/new.rs\nrename from old.rs\nrename to new.rs\n--- a/old.rs\n+++ b/new.rs\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n";
    scene.diff(moved).unwrap();
    assert_eq!((scene.read("old.rs"), scene.read("new.rs").as_deref()), (None, Some("a\nB\n")));
    scene.place.write("sub/f", "a\n");
    scene.diff("--- before/sub/f\n+++ after/sub/f\n@@ -1 +1 @@\n-a\n+b\n").unwrap();
    assert_eq!(scene.read("sub/f").as_deref(), Some("b\n"));
    scene.diff("diff --git a/sub/f b/sub/f\nold mode 100644\nnew mode 100755\n").unwrap();
    let mode = fs::metadata(scene.place.path("app/sub/f")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    for out in ["../out", "/etc/passwd", "a/../../x"] {
        let diff = format!("--- {out}\n+++ {out}\n@@ -0,0 +1 @@\n+x\n");
        assert!(scene.diff(&diff).unwrap_err().contains("leads out"), "{out}");
    }
    scene.is_tidy();
}

#[test]
fn places_are_found_and_counted_before_they_are_replaced() {
    let scene = Scene::new();
    scene.place.write("a", "x1 x2\r\nx3\r\n");
    let change = |wanted: Replacement| scene.run(scene.files.replace("a".into(), wanted, wish()));
    let find = |find: &str, put: &str| Replacement {
        find: find.into(),
        put: put.into(),
        ..Replacement::default()
    };
    let regex = |find_: &str, put: &str| Replacement { regex: true, ..find(find_, put) };
    assert_eq!(
        change(Replacement { nth: Some(2), ..regex("x(\\d)", "<$1>") }).unwrap().places,
        Some(1)
    );
    assert_eq!(scene.read("a").as_deref(), Some("x1 <2>\r\nx3\r\n"));
    let counted = change(Replacement { expect: Some(3), ..find("x", "y") }).unwrap_err();
    assert!(counted.contains("found 2 matches, on line 1, 2"), "{counted}");
    assert!(change(find("none", "y")).unwrap_err().contains("text not found"));
    assert!(change(Replacement { nth: Some(3), ..find("x", "y") }).is_err());
    assert!(change(regex("(", "y")).unwrap_err().contains("invalid pattern"));
    change(find("<2>\nx", "$1\n\n")).unwrap();
    assert_eq!(scene.read("a").as_deref(), Some("x1 $1\r\n\r\n3\r\n"));
    change(Replacement { any_case: true, ..regex("^X(?P<n>.*)$", "${n}") }).unwrap();
    assert_eq!(scene.read("a").as_deref(), Some("1 $1\r\n\r\n3\r\n"));
}

#[test]
fn files_and_folders_are_moved_deleted_and_made() {
    let scene = Scene::new();
    scene.place.write("d/a", "1\n");
    scene.place.write("b", "2\n");
    let rename = |from: &str, to: &str, replace| {
        scene.run(scene.files.rename(from.into(), to.into(), replace, wish()))
    };
    let delete = |path: &str| scene.run(scene.files.delete(path.into(), wish()));
    assert!(rename("d/a", "b", false).unwrap_err().contains("'b' exists"));
    rename("d/a", "b", true).unwrap();
    assert_eq!(scene.read("b").as_deref(), Some("1\n"));
    scene.run(scene.files.undo("b".into(), None, wish())).unwrap();
    assert_eq!(scene.read("b").as_deref(), Some("2\n"), "what was replaced comes back");
    rename("d", "e", false).unwrap();
    assert_eq!(scene.run(scene.files.make_folder("x/y/z".into())).unwrap(), ("x/y/z".into(), true));
    assert_eq!(
        scene.run(scene.files.make_folder("x/y/z".into())).unwrap(),
        ("x/y/z".into(), false)
    );
    assert!(scene.run(scene.files.make_folder("b/c".into())).is_err());
    assert!(delete("x").unwrap_err().contains("not empty"));
    delete("x/y/z").unwrap();
    let gone = delete("b").unwrap();
    assert_eq!((scene.read("b"), gone.generation.is_some()), (None, true));
    symlink("e", scene.place.path("app/link")).unwrap();
    delete("link").unwrap();
    assert!(scene.place.path("app/e").exists(), "only the link is gone");
    assert!(delete("b").unwrap_err().contains("does not exist"));
    scene.is_tidy();
}

#[test]
fn what_is_gits_proctors_or_read_only_is_never_written() {
    let scene = Scene::new();
    scene.place.write(".git/HEAD", "ref: refs/heads/main\n");
    for folder in ["bare.git/objects", "bare.git/refs", "sub/.git"] {
        fs::create_dir_all(scene.place.path("app").join(folder)).unwrap();
    }
    scene.place.write("bare.git/HEAD", "ref: refs/heads/main\n");
    scene.place.write("plain", "x\n");
    for path in [
        ".git/config",
        ".git/hooks/x",
        ".git",
        ".GIT/config",
        "sub/.git/config",
        "bare.git/config",
        "bare.git",
        ".state/token",
        ".state/changes/x",
        ".state/run/x",
        ".state",
    ] {
        let refused = [
            scene.write(path, "x").unwrap_err(),
            scene.run(scene.files.delete(path.into(), wish())).unwrap_err(),
            scene.run(scene.files.rename(path.into(), "other".into(), true, wish())).unwrap_err(),
            scene.run(scene.files.rename("plain".into(), path.into(), true, wish())).unwrap_err(),
            scene.run(scene.files.make_folder(format!("{path}/n"))).unwrap_err(),
            scene.diff(&format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n")).unwrap_err(),
        ];
        for text in refused {
            assert!(text.contains("own") || text.contains("does not exist"), "{path}: {text}");
        }
    }
    let mut root =
        proctor_core::config::roots::RootDef::of(scene.place.path("app").to_str().unwrap());
    root.write = false;
    scene.files.shared.registry.set_roots(std::sync::Arc::new(crate::files::Roots::open(&[root])));
    for refused in
        [scene.write("plain", "y").unwrap_err(), scene.edit("plain", "x", "y", wish()).unwrap_err()]
    {
        assert!(refused.contains("read only"), "{refused}");
    }
    assert_eq!(scene.read("plain").as_deref(), Some("x\n"));
}

#[test]
fn a_folder_around_proctors_own_is_not_moved() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("app/lib/home/run")).unwrap();
    let home = Home { state: path("app/lib/home"), runtime: path("app/lib/home/run") };
    let registry = std::sync::Arc::new(crate::registry::Registry::new());
    let root = proctor_core::config::roots::RootDef::of(path("app").to_str().unwrap());
    registry.set_roots(std::sync::Arc::new(crate::files::Roots::open(&[root])));
    let files = Files::new(home, registry);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let moved = runtime.block_on(files.rename("lib".into(), "other".into(), false, wish()));
    assert!(moved.unwrap_err().to_string().contains("around Proctor's own"));
}

#[test]
fn links_are_not_written_through() {
    let scene = Scene::new();
    scene.place.write("plain", "x\n");
    fs::write(scene.place.path("outside/o"), "out\n").unwrap();
    for (link, to) in [("l", "plain"), ("out", "../outside/o"), ("dir", "../outside")] {
        symlink(to, scene.place.path("app").join(link)).unwrap();
    }
    for path in ["l", "out", "dir/o", "dir/new"] {
        let refused = scene.write(path, "y").unwrap_err();
        assert!(refused.contains("link"), "{path}: {refused}");
    }
    assert!(scene.edit("out", "out", "in", wish()).is_err());
    assert_eq!(fs::read_to_string(scene.place.path("outside/o")).unwrap(), "out\n");
    assert_eq!(scene.read("plain").as_deref(), Some("x\n"));
    fs::hard_link(scene.place.path("outside/o"), scene.place.path("app/hard")).unwrap();
    scene.write("hard", "mine\n").unwrap();
    assert_eq!(
        fs::read_to_string(scene.place.path("outside/o")).unwrap(),
        "out\n",
        "it has its own now"
    );
}

#[test]
fn of_many_at_once_every_edit_is_made_or_told() {
    let scene = Scene::new();
    scene.place.write("n", "0\n");
    let (files, runtime) = (&scene.files, &scene.runtime);
    let hash = file_info::sha256(b"0\n");
    let tries: Vec<_> = (1..=16)
        .map(|number| {
            let wish = ExpectedState { if_hash: Some(hash.clone()), ..wish() };
            let written = WriteRequest {
                content: format!("{number}\n").into_bytes(),
                ..WriteRequest::default()
            };
            let files = files.clone();
            runtime.spawn(async move { files.write("n".into(), written, wish).await.is_ok() })
        })
        .collect();
    let won = tries.into_iter().map(|it| runtime.block_on(it).unwrap()).filter(|it| *it).count();
    assert_eq!(won, 1, "one wins");
    scene.place.write("list", "");
    let tries: Vec<_> = (1..=16)
        .map(|number| {
            let files = files.clone();
            let wanted = Replacement {
                find: "\\z".into(),
                put: format!("{number};"),
                regex: true,
                ..Replacement::default()
            };
            runtime.spawn(async move { files.replace("list".into(), wanted, wish()).await.is_ok() })
        })
        .collect();
    assert!(tries.into_iter().all(|it| runtime.block_on(it).unwrap()));
    assert_eq!(scene.read("list").unwrap().matches(';').count(), 16, "none is lost");
    scene.is_tidy();
}
