//! Which file is meant where there are several names for it.

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
    assert!(scene.diff(&copied("")).unwrap_err().contains("b: it is to be made, and is there"));
}
