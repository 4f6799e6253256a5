//! Parts of a diff that refer to each other's files give the same result as with git.

use super::*;

/// Applies a diff and checks the contents; `-` means no file.
#[track_caller]
fn check(before: &[(&str, &str)], diff: &str, after: &[(&str, &str)]) {
    let scene = Scene::new();
    before.iter().for_each(|(name, content)| scene.place.write(name, content));
    scene.diff(diff).unwrap();
    for (name, content) in after {
        assert_eq!(scene.read(name).unwrap_or("-".into()), *content, "{name}: {diff}");
    }
    scene.is_tidy();
}

fn relation(word: &str, from: &str, to: &str) -> String {
    format!("diff --git a/{from} b/{to}\n{word} from {from}\n{word} to {to}\n")
}

fn change(name: &str, old: &str, new: &str) -> String {
    format!(
        "diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-{old}\n+{new}\n"
    )
}

fn removed(name: &str, old: &str) -> String {
    format!(
        "diff --git a/{name} b/{name}\ndeleted file mode 100644\n--- a/{name}\n+++ /dev/null\n@@ -1 +0,0 @@\n-{old}\n"
    )
}

const MAIL: &str = "From 0123456789abcdef0123456789abcdef01234567 Mon Sep 17 00:00:00 2001\n\n";

#[test]
fn what_is_copied_or_moved_is_what_was_there_before_the_diff() {
    let (one, two) = (("a", "1\n"), ("b", "2\n"));
    let [copy, to_b, to_a, to_c] =
        [("copy", "a", "b"), ("rename", "a", "b"), ("rename", "b", "a"), ("rename", "b", "c")]
            .map(|(word, from, to)| relation(word, from, to));
    check(&[one], &[change("a", "1", "x"), copy.clone()].concat(), &[("a", "x\n"), ("b", "1\n")]);
    check(&[one], &[copy.clone(), change("a", "1", "x")].concat(), &[("a", "x\n"), ("b", "1\n")]);
    check(&[one, two], &[to_b.clone(), to_a].concat(), &[("a", "2\n"), ("b", "1\n")]);
    for parts in [[to_b.clone(), to_c.clone()], [to_c, to_b.clone()]] {
        check(&[one, two], &parts.concat(), &[("a", "-"), ("b", "1\n"), ("c", "2\n")]);
    }
    for parts in [[to_b.clone(), removed("b", "2")], [removed("b", "2"), to_b.clone()]] {
        check(&[one, two], &parts.concat(), &[("a", "-"), ("b", "1\n")]);
    }
    let copied_away = [to_b.clone(), relation("copy", "a", "c")].concat();
    check(&[one], &copied_away, &[("a", "-"), ("b", "1\n"), ("c", "1\n")]);
    let made = "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+1\n".to_owned();
    check(&[], &[made, copy].concat(), &[("a", "1\n"), ("b", "1\n")]);
    let scene = Scene::new();
    [one, two].iter().for_each(|(name, content)| scene.place.write(name, content));
    assert!(scene.diff(&to_b).unwrap_err().contains("b: the diff creates it, but it exists"));
}

#[test]
fn what_another_diff_says_is_about_what_the_one_before_it_left() {
    let (one, changed) = (("a", "1\n"), change("a", "1", "x"));
    for word in ["copy", "rename"] {
        let series = [MAIL, &changed, MAIL, &relation(word, "a", "b"), &change("b", "x", "y")];
        let old = if word == "copy" { "x\n" } else { "-" };
        check(&[one], &series.concat(), &[("a", old), ("b", "y\n")]);
    }
    // Nothing marks the second diff, but no single diff moves a file that it also changes in place.
    let series = [changed, relation("rename", "a", "b")].concat();
    check(&[one], &series, &[("a", "-"), ("b", "x\n")]);
}

#[test]
fn permissions_go_along_with_what_is_moved_after_they_changed() {
    let scene = Scene::new();
    scene.place.write("a", "1\n");
    let mode = "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n";
    scene.diff(&[MAIL, mode, MAIL, &relation("rename", "a", "b")].concat()).unwrap();
    let mode = fs::metadata(scene.place.path("app/b")).unwrap().mode();
    assert_eq!(mode & 0o111, 0o111, "{mode:o}");
}
