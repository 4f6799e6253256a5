//! A change must not lose the old state, write to a read-only root, exhaust memory, or lose permissions.

use super::*;

#[test]
fn a_change_is_taken_back_as_it_was_whatever_became_of_the_generations() {
    let scene = Scene::new();
    scene.place.write("a", "one\n");
    scene.place.write("b", "two\n");
    let mode = |path: &str, mode: u32| {
        let path = scene.place.path("app").join(path);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("a", 0o600);
    let edit = |old: &str, new: &str| vec![Edit { old: old.into(), new: new.into(), all: false }];
    let edits = vec![
        ("a".into(), edit("one", "1")),
        ("b".into(), edit("two", "2")),
        ("c".into(), edit("", "3")),
    ];
    let hold = ExpectedState { hold: true, ..wish() };
    let changes = scene.run(scene.files.edit_several(edits, hold)).unwrap();
    assert_eq!((scene.read("a").unwrap(), scene.read("c").unwrap()), ("1\n".into(), "3".into()));
    fs::remove_dir_all(scene.place.path("app/.state/backups")).unwrap();
    scene.run(scene.files.take_back(changes.clone(), wish())).unwrap();
    assert_eq!(scene.read("a").unwrap(), "one\n");
    assert_eq!((scene.read("b").unwrap(), scene.read("c")), ("two\n".into(), None));
    assert_eq!(fs::metadata(scene.place.path("app/a")).unwrap().mode() & 0o777, 0o600);
    let again = scene.run(scene.files.take_back(changes, wish())).unwrap();
    assert!(again.len() == 3 && again[0].to_string().contains("changed meanwhile"), "{again:?}");
    scene.is_tidy();
}

#[test]
fn what_somebody_else_has_changed_or_replaced_keeps_nothing_else_from_coming_back() {
    let scene = Scene::new();
    let edits = ["a", "b", "c", "d"].map(|name| {
        scene.place.write(name, "old\n");
        let edit = Edit { old: "old".into(), new: "new".into(), all: false };
        (name.to_owned(), vec![edit])
    });
    let hold = ExpectedState { hold: true, ..wish() };
    let changes = scene.run(scene.files.edit_several(edits.into(), hold)).unwrap();
    scene.place.write("b", "theirs\n");
    fs::remove_file(scene.place.path("app/c")).unwrap();
    fs::create_dir(scene.place.path("app/c")).unwrap();
    let left = scene.run(scene.files.take_back(changes, wish())).unwrap();
    let left: Vec<String> = left.iter().map(ToString::to_string).collect();
    let [b, c] = &left[..] else { panic!("{left:?}") };
    assert!(b.contains("'b' changed meanwhile") && c.contains("'c' is a folder"), "{left:?}");
    assert_eq!(
        (scene.read("a").unwrap(), scene.read("d").unwrap()),
        ("old\n".into(), "old\n".into())
    );
    assert_eq!(scene.read("b").unwrap(), "theirs\n");
    scene.is_tidy();
}

#[test]
fn a_root_that_is_read_only_stays_so_inside_of_another() {
    let scene = Scene::new();
    scene.place.write("docs/x", "x\n");
    let def = |name: &str, write: bool| {
        let path = scene.place.path(name);
        let def = proctor_core::config::roots::RootDef::of(path.to_str().unwrap());
        proctor_core::config::roots::RootDef { write, ..def }
    };
    let roots = crate::files::Roots::open(&[def("app", true), def("app/docs", false)]);
    scene.files.shared.registry.set_roots(Arc::new(roots));
    for path in ["app:docs/x", "app:docs/new", "app:docs/deep/new", "docs:x"] {
        let refused = scene.write(path, "y\n").unwrap_err();
        assert!(refused.contains("read only"), "{path}: {refused}");
    }
    let moved = scene.run(scene.files.rename("app:docs".into(), "app:other".into(), false, wish()));
    assert!(moved.unwrap_err().contains("read only"));
    assert_eq!(scene.read("docs/x").unwrap(), "x\n");
    assert!(!scene.place.path("app/docs/deep").exists());
    scene.write("app:y", "y\n").unwrap();
}

#[test]
fn a_root_that_is_read_only_is_not_moved_along_and_not_made_by_others() {
    let scene = Scene::new();
    scene.place.write("parent/docs/x", "x\n");
    let def = |name: &str, write: bool| {
        let path = scene.place.path(name);
        let def = proctor_core::config::roots::RootDef::of(path.to_str().unwrap());
        proctor_core::config::roots::RootDef { write, ..def }
    };
    let defs = [def("app", true), def("app/parent/docs", false), def("app/later/here", false)];
    scene.files.shared.registry.set_roots(Arc::new(crate::files::Roots::open(&defs)));
    let rename = |from: &str| {
        scene.run(scene.files.rename(from.into(), "app:other".into(), false, wish())).unwrap_err()
    };
    assert!(rename("app:parent").contains("around a read-only root"));
    // A missing read-only root still protects its path.
    for path in ["app:later/here/x", "app:later/here"] {
        let refused = scene.write(path, "x\n").unwrap_err();
        assert!(refused.contains("read only"), "{path}: {refused}");
    }
    assert!(!scene.place.path("app/later").exists());
    scene.write("app:later/there", "x\n").unwrap();
    assert!(rename("app:later").contains("around a read-only root"));
    assert_eq!(scene.read("parent/docs/x").unwrap(), "x\n");
}

#[test]
fn a_root_that_leads_elsewhere_by_now_is_written_there() {
    let scene = Scene::new();
    let path = |name: &str| scene.place.path("app").join(name);
    for release in ["one", "two"] {
        scene.place.write(&format!("{release}/x"), "x\n");
    }
    symlink("one", path("current")).unwrap();
    let def = proctor_core::config::roots::RootDef::of(path("current").to_str().unwrap());
    scene.files.shared.registry.set_roots(Arc::new(crate::files::Roots::open(&[def])));
    scene.write("x", "first\n").unwrap();
    symlink("two", path("next")).unwrap();
    fs::rename(path("next"), path("current")).unwrap();
    scene.write("x", "second\n").unwrap();
    let read = |name: &str| scene.read(name).unwrap();
    assert_eq!((read("one/x"), read("two/x")), ("first\n".into(), "second\n".into()));
    let elsewhere = scene.write(path("one/x").to_str().unwrap(), "third\n").unwrap_err();
    assert!(elsewhere.contains("is outside the roots"), "{elsewhere}");
    scene.write(path("two/x").to_str().unwrap(), "third\n").unwrap();
    assert_eq!(read("two/x"), "third\n");
    fs::remove_file(path("current")).unwrap();
    assert!(scene.write("x", "y\n").unwrap_err().contains("cannot open the root"));
}

#[test]
fn what_would_take_all_memory_is_refused() {
    let scene = Scene::new();
    scene.place.write("a", "a".repeat(1 << 20));
    let grow = |regex: bool| Replacement {
        find: "a".into(),
        put: "b".repeat(1 << 12),
        regex,
        ..Replacement::default()
    };
    for regex in [false, true] {
        let refused = scene.run(scene.files.replace("a".into(), grow(regex), wish())).unwrap_err();
        assert!(refused.contains("larger than"), "{refused}");
    }
    let edit = Edit { old: "a".into(), new: vec![b'b'; 1 << 20], all: true };
    let refused = scene.run(scene.files.edit("a".into(), vec![edit], wish())).unwrap_err();
    assert!(refused.contains("too large"), "{refused}");
}

#[test]
fn more_than_can_be_held_is_not_read() {
    let scene = Scene::new();
    let part = |name: &str| format!("--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-old\n+new\n");
    let names = ["a", "b"];
    for name in names {
        let file = fs::File::create(scene.place.path("app").join(name)).unwrap();
        file.set_len(file_info::MAX_FILE_BYTES / 2 + 1).unwrap();
    }
    let query = DiffQuery { text: names.map(part).concat().into(), ..DiffQuery::default() };
    for dry_run in [true, false] {
        let wish = ExpectedState { dry_run, ..wish() };
        let refused = scene.run(scene.files.apply_diff(query.clone(), wish)).unwrap_err();
        assert!(refused.contains("bytes in total"), "{refused}");
    }
}

#[test]
fn who_does_not_wait_any_more_has_no_file_read() {
    let scene = Scene::new();
    let spots = ["a", "b", "c"].map(|name| {
        scene.place.write(name, "old\n");
        scene.place.spot(name)
    });
    let targets = targets(&spots, &scene.place.guarded).unwrap();
    let looks = std::cell::Cell::new(0);
    let stop = || looks.replace(looks.get() + 1) == 2;
    assert!(matches!(found(&targets, &stop), Err(FileError::Cancelled)));
    assert_eq!(looks.get(), 3, "it is asked before each");
}

#[test]
fn permissions_go_along_with_a_move_and_come_back_with_a_generation() {
    let scene = Scene::new();
    scene.place.write("secret", "x\n");
    let (old, new) = (scene.place.path("app/secret"), scene.place.path("app/moved"));
    let set = |mode: u32| fs::set_permissions(&old, fs::Permissions::from_mode(mode)).unwrap();
    set(0o644);
    scene.write("secret", "y\n").unwrap();
    scene.write("secret", "x\n").unwrap();
    set(0o600);
    scene.write("secret", "z\n").unwrap();
    scene.run(scene.files.undo("secret".into(), None, wish())).unwrap();
    assert_eq!(fs::metadata(&old).unwrap().mode() & 0o777, 0o600, "as it was last");
    let diff =
        "diff --git a/secret b/moved\nsimilarity index 100%\nrename from secret\nrename to moved\n";
    scene.diff(diff).unwrap();
    assert!(!old.exists());
    assert_eq!(fs::metadata(&new).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn a_diff_of_a_link_or_a_submodule_makes_no_file() {
    let scene = Scene::new();
    scene.place.write("a", "1\n");
    let good = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n";
    for (mode, said) in
        [("120000", "it contains a symbolic link"), ("160000", "it contains a submodule")]
    {
        let made = format!(
            "diff --git a/l b/l\nnew file mode {mode}\nindex 0000000..1234567\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+a\n"
        );
        let refused = scene.diff(&format!("{good}{made}")).unwrap_err();
        assert!(refused.contains("line 7 of the diff") && refused.contains(said), "{refused}");
        assert_eq!((scene.read("a").as_deref(), scene.read("l")), (Some("1\n"), None));
    }
    scene.is_tidy();
}
