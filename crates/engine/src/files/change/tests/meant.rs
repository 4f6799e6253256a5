//! The choice of a file if a diff has several names for it.

use super::*;

#[test]
fn two_names_in_a_diff_are_no_move_if_it_does_not_say_so() {
    let check = |there: &[&str], old: &str, new: &str, meant: &str| {
        let scene = Scene::new();
        there.iter().for_each(|name| scene.place.write(name, "a\n"));
        scene.diff(&format!("--- {old}\n+++ {new}\n@@ -1 +1 @@\n-a\n+b\n")).unwrap();
        for name in there {
            let expected = if *name == meant { "b\n" } else { "a\n" };
            assert_eq!(
                scene.read(name).as_deref(),
                Some(expected),
                "{there:?} {old} {new}: {name}"
            );
        }
        for name in [old, new].into_iter().filter(|name| !there.contains(name)) {
            assert_eq!(scene.read(name), None, "{name}");
        }
    };
    check(&["main.c"], "main.c", "main.c.new", "main.c");
    check(&["main.c", "main.c.new"], "main.c", "main.c.new", "main.c");
    check(&["main.c", "main.c.orig"], "main.c.orig", "main.c", "main.c");
    check(&["main.c"], "main.c.orig", "main.c", "main.c");
    check(&["sub/f"], "before/sub/f", "after/sub/f", "sub/f");
    check(&["main.c", "old/main.c"], "old/main.c", "main.c", "main.c");
}

#[test]
fn a_diff_that_says_so_copies() {
    let scene = Scene::new();
    scene.place.write("a", "a\n");
    scene.place.write("c", "c\n");
    let copied = |hunk: &str| format!("diff --git a/a b/b\ncopy from a\ncopy to b\n{hunk}");
    scene.diff(&copied("--- a/a\n+++ b/b\n@@ -1 +1 @@\n-a\n+b\n")).unwrap();
    let read = |name: &str| scene.read(name).unwrap();
    assert_eq!((read("a"), read("b")), ("a\n".into(), "b\n".into()));
    assert!(scene.diff(&copied("")).unwrap_err().contains("b: the diff creates it, but it exists"));
}

#[test]
fn a_file_that_is_deleted_without_its_lines_is_an_empty_one_if_one_is_strict() {
    let scene = Scene::new();
    scene.place.write("a", "a\n");
    let text = "diff --git a/a b/a\ndeleted file mode 100644\nindex e69de29..0000000\n";
    let strict = DiffQuery { text: text.into(), strict: true, ..DiffQuery::default() };
    let refused = scene.run(scene.files.apply_diff(strict.clone(), wish())).unwrap_err();
    assert!(refused.contains("a: the diff deletes it, but it contains more"), "{refused}");
    scene.diff(text).unwrap();
    assert_eq!(scene.read("a"), None);
    scene.place.write("a", "");
    scene.run(scene.files.apply_diff(strict, wish())).unwrap();
    assert_eq!(scene.read("a"), None);
}

#[test]
fn where_roots_lie_in_each_other_a_file_has_one_history_whichever_is_named() {
    let scene = Scene::new();
    fs::create_dir(scene.place.path("app/api")).unwrap();
    symlink("app", scene.place.path("link")).unwrap();
    let def = |name: &str, path: &str| {
        let path = scene.place.path(path).to_str().unwrap().to_owned();
        proctor_core::config::roots::RootDef { name: name.into(), path, write: true }
    };
    let defs = [def("code", "app"), def("api", "app/api"), def("link", "link")];
    let roots = std::sync::Arc::new(crate::files::Roots::open(&defs));
    scene.files.shared.registry.set_roots(roots);
    let undo = |path: &str| scene.run(scene.files.undo(path.into(), None, wish())).unwrap();
    let numbers = |path: &str| -> Vec<u64> {
        let history = scene.run(scene.files.history(path.into())).unwrap();
        history.iter().map(|it| it.number).collect()
    };
    scene.place.write("api/x", "1\n");
    assert_eq!(scene.write("code:api/x", "2\n").unwrap().generation, Some(1));
    assert_eq!(undo("api:x")[0].path, "api:x");
    assert_eq!(scene.read("api/x").as_deref(), Some("1\n"));
    assert_eq!(scene.write("api:x", "3\n").unwrap().generation, Some(3));
    undo("code:api/x");
    assert_eq!(scene.read("api/x").as_deref(), Some("1\n"));
    scene.run(scene.files.delete("link:api/x".into(), wish())).unwrap();
    undo("api:x");
    assert_eq!(scene.read("api/x").as_deref(), Some("1\n"));
    for path in ["code:api/x", "link:api/x"] {
        assert_eq!((numbers(path), numbers(path).len()), (numbers("api:x"), 6), "{path}");
    }
    scene.write("code:y", "1\n").unwrap();
    assert_eq!(
        (numbers("code:y"), numbers("link:y"), numbers("api:y")),
        (vec![1], vec![1], vec![])
    );
}

#[test]
fn a_file_that_becomes_a_folder_or_the_reverse_is_refused_in_words() {
    let scene = Scene::new();
    scene.place.write("foo", "1\n");
    scene.place.write("bar/x", "1\n");
    let gone = |name: &str| format!("--- a/{name}\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n");
    let made = |name: &str| format!("--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+1\n");
    for (old, new, why) in [
        ("foo", "foo/mod", "cannot apply a diff in which a file becomes a folder: 'foo/mod'"),
        ("bar/x", "bar", "cannot apply a diff in which a folder becomes a file: 'bar'"),
    ] {
        for diff in [gone(old) + &made(new), made(new) + &gone(old)] {
            let refused = scene.diff(&diff).unwrap_err();
            assert!(refused.starts_with(why), "{refused}");
        }
    }
    assert_eq!(scene.read("foo").as_deref(), Some("1\n"));
    scene.is_tidy();
}
