//! Diffs written by other programs, by people, and by chance.

use super::super::{BadDiff, DiffLine, Hunk, Patch, Reading, Relation, Sign, parse};

fn hunk(old: usize, new: usize, lines: &[&str]) -> Hunk {
    let line = |text: &&str| DiffLine {
        sign: match text.as_bytes()[0] {
            b'-' => Sign::Gone,
            b'+' => Sign::New,
            _ => Sign::Same,
        },
        text: format!("{}\n", &text[1..]).into_bytes(),
    };
    Hunk { old: Some(old), new: Some(new), lines: lines.iter().map(line).collect() }
}

fn patch(old: &str, new: &str, hunks: Vec<Hunk>) -> Patch {
    let name = |name: &str| (!name.is_empty()).then(|| name.as_bytes().to_vec());
    Patch { old: name(old), new: name(new), hunks, ..Patch::default() }
}

#[track_caller]
fn check(text: &str, expected: &[Patch]) {
    assert_eq!(parse(text.as_bytes(), Reading::Strict).unwrap(), expected, "{text}");
    assert_eq!(parse(text.as_bytes(), Reading::Lenient).unwrap(), expected, "leniently: {text}");
}

#[test]
fn diffs_of_programs_are_understood() {
    let change = || vec![hunk(1, 1, &["-a", "+b"])];
    check("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n", &[patch("f", "f", change())]);
    check(
        "--- old/f\t2026-01-01 00:00:00\n+++ new/f\t2026-01-02 00:00:00\n@@ -1 +1 @@ fn x()\n-a\n+b\n",
        &[patch("old/f", "new/f", change())],
    );
    check(
        "some words\ndiff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\nmore words\n",
        &[patch("f", "f", change())],
    );
    check(
        "--- \"a/\\303\\244 \\\"x\\\"\"\n+++ \"b/\\303\\244 \\\"x\\\"\"\n@@ -1 +1 @@\n-a\n+b\n",
        &[patch("ä \"x\"", "ä \"x\"", change())],
    );
    check(
        "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+b\n",
        &[patch("", "f", vec![hunk(0, 1, &["+b"])])],
    );
    check(
        "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n",
        &[patch("f", "", vec![hunk(1, 0, &["-b"])])],
    );
    check("", &[]);
    check("nothing at all\n", &[]);
}

#[test]
fn what_git_says_without_hunks_is_understood() {
    check(
        "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n",
        &[Patch { relation: Relation::Moved, ..patch("x", "y", vec![]) }],
    );
    check(
        "diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n",
        &[Patch { relation: Relation::Copied, ..patch("x", "y", vec![]) }],
    );
    check(
        "diff --git a/x b/x\nnew file mode 100755\nindex 0..0\n",
        &[Patch { mode: Some(0o100_755), ..patch("", "x", vec![]) }],
    );
    check("diff --git a/x b/x\ndeleted file mode 100644\nindex 0..0\n", &[patch("x", "", vec![])]);
    check(
        "diff --git a/x b/x\nold mode 100644\nnew mode 100755\ndiff --git a/z b/z\ndeleted file mode 100644\n",
        &[Patch { mode: Some(0o100_755), ..patch("x", "x", vec![]) }, patch("z", "", vec![])],
    );
    check(
        "diff --git a/x b/y\nrename from x\nrename to y\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n",
        &[Patch { relation: Relation::Moved, ..patch("x", "y", vec![hunk(1, 1, &["-a", "+b"])]) }],
    );
    check(
        "--- x\n+++ y\n@@ -1 +1 @@\n-a\n+b\n",
        &[patch("x", "y", vec![hunk(1, 1, &["-a", "+b"])])],
    );
}

#[test]
fn what_stands_for_a_side_is_no_folder() {
    let hunk_of = || vec![hunk(1, 1, &["-a", "+b"])];
    let change = "@@ -1 +1 @@\n-a\n+b\n";
    for (one, other) in
        [("a", "b"), ("i", "w"), ("c", "i"), ("c", "w"), ("o", "w"), ("w", "c"), ("1", "2")]
    {
        let git = format!("diff --git {one}/d/f {other}/d/f\n");
        check(
            &format!("{git}--- {one}/d/f\n+++ {other}/d/f\n{change}"),
            &[patch("d/f", "d/f", hunk_of())],
        );
        check(&format!("{git}deleted file mode 100644\nindex 1..0\n"), &[patch("d/f", "", vec![])]);
        check(
            &format!(
                "{git}deleted file mode 100644\n--- {one}/d/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
            ),
            &[patch("d/f", "", vec![hunk(1, 0, &["-a"])])],
        );
        let mode = Some(0o100_644);
        check(
            &format!(
                "{git}new file mode 100644\n--- /dev/null\n+++ {other}/d/f\n@@ -0,0 +1 @@\n+a\n"
            ),
            &[Patch { mode, ..patch("", "d/f", vec![hunk(0, 1, &["+a"])]) }],
        );
        check(
            &format!(
                "diff --git {one}/x {other}/b/y\nrename from x\nrename to b/y\n--- {one}/x\n+++ {other}/b/y\n{change}"
            ),
            &[Patch { relation: Relation::Moved, ..patch("x", "b/y", hunk_of()) }],
        );
    }
}

#[test]
fn without_one_a_folder_is_no_side() {
    let change = "@@ -1 +1 @@\n-a\n+b\n";
    let hunk_of = || vec![hunk(1, 1, &["-a", "+b"])];
    for name in ["f", "a/b", "b/c/d", "w/x y"] {
        let git = format!("diff --git {name} {name}\n");
        check(&format!("{git}--- {name}\n+++ {name}\n{change}"), &[patch(name, name, hunk_of())]);
        check(
            &format!("{git}old mode 100644\nnew mode 100755\n"),
            &[Patch { mode: Some(0o100_755), ..patch(name, name, vec![]) }],
        );
        check(&format!("{git}deleted file mode 100644\nindex 1..0\n"), &[patch(name, "", vec![])]);
        check(
            &format!(
                "{git}deleted file mode 100644\n--- {name}\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
            ),
            &[patch(name, "", vec![hunk(1, 0, &["-a"])])],
        );
    }
    let moved = "diff --git a/x b/x\nrename from a/x\nrename to b/x\n--- a/x\n+++ b/x\n";
    check(
        &format!("{moved}{change}"),
        &[Patch { relation: Relation::Moved, ..patch("a/x", "b/x", hunk_of()) }],
    );
    // Git header lines that do not match the names below them, as people write them.
    for git in
        ["diff --git f f", "diff --git a/g b/g", "diff --git a/f a/f", "diff --git old/f new/f"]
    {
        check(&format!("{git}\n--- a/f\n+++ b/f\n{change}"), &[patch("f", "f", hunk_of())]);
    }
}

#[test]
fn a_mail_after_another_begins_another_diff() {
    let hash = "0123456789abcdef0123456789abcdef01234567";
    let part =
        |name: &str| format!("diff --git a/{name} b/{name}\nold mode 100644\nnew mode 100755\n");
    let mail = |names: [&str; 2]| {
        format!("From {hash} Mon Sep 17 00:00:00 2001\nSubject: x\n\n{}", names.map(part).concat())
    };
    let text = [mail(["a", "b"]), mail(["c", "d"])].concat();
    let begins = |text: &str| -> Vec<bool> {
        let patches = parse(text.as_bytes(), Reading::Strict).unwrap();
        patches.iter().map(|patch| patch.begins).collect()
    };
    assert_eq!(begins(&text), [true, false, true, false]);
    assert_eq!(begins(&text.replace("From ", "commit ")), [true, false, true, false]);
    assert_eq!(begins(&text.replace("From ", "From: ")), [false; 4]);
    assert_eq!(begins(&text.replace(hash, "me")), [false; 4]);
}

#[test]
fn lines_without_an_end_are_marked() {
    let text = b"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n x\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n";
    let patches = parse(text, Reading::Strict).unwrap();
    let texts: Vec<&[u8]> =
        patches[0].hunks[0].lines.iter().map(|line| line.text.as_slice()).collect();
    assert_eq!(texts, [&b"x\n"[..], b"a", b"b"]);
}

#[test]
fn a_line_that_looks_like_the_next_file_is_one_of_the_hunk() {
    let text = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n--- x\n-a\n+++ y\n+b\n";
    let expected = [patch("f", "f", vec![hunk(1, 1, &["--- x", "-a", "+++ y", "+b"])])];
    assert_eq!(parse(text.as_bytes(), Reading::Strict).unwrap(), expected);
}

#[test]
fn what_is_written_by_hand_is_understood_if_one_is_not_strict() {
    let lenient = |text: &str| {
        parse(text.as_bytes(), Reading::Lenient).map(|patches| patches[0].hunks.clone())
    };
    let wrong = "--- a/f\n+++ b/f\n@@ -1,9 +1,7 @@\n x\n-a\n+b\n y\n";
    assert_eq!(lenient(wrong).unwrap(), [hunk(1, 1, &[" x", "-a", "+b", " y"])]);
    assert!(parse(wrong.as_bytes(), Reading::Strict).is_err());
    let short = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n x\n-a\n+b\n@@ -7,1 +7,1 @@\n-c\n+d\n";
    assert_eq!(
        lenient(short).unwrap(),
        [hunk(1, 1, &[" x", "-a", "+b"]), hunk(7, 7, &["-c", "+d"])]
    );
    let nowhere = "--- f\n+++ f\n@@\n x\n-a\n+b\n@@ fn y() @@\n-c\n+d\n\n\n";
    let found = lenient(nowhere).unwrap();
    assert_eq!((found.len(), found[0].old, found[1].old), (2, None, None));
    assert_eq!(found[1].lines.len(), 2, "empty lines behind it are not part of it");
    let blank = "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n x\n\n-a\n+b\n";
    assert_eq!(
        lenient(blank).unwrap(),
        [hunk(1, 1, &[" x", " ", "-a", "+b"].map(|l| if l == " " { " " } else { l }))]
    );
}

#[test]
fn a_signature_below_a_hunk_is_not_part_of_it() {
    let first = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+b\n x\n";
    let expected = [patch("f", "f", vec![hunk(1, 1, &["-a", "+b", " x"])])];
    for end in ["-- \n2.43.0\n\n", "-- \n2.43.0", "-- \r\n2.43.0\r\n\r\n", "-- \n", "-- "] {
        check(&format!("{first}{end}"), &expected);
    }
    let next = format!("{first}-- \n2.43.0\n\nFrom 1234\nSubject: next\n---\n f | 2 +-\n\n{first}");
    check(&next, &[expected.clone(), expected.clone()].concat());
    // A removed list item looks like a signature if the lines below it belong to the hunk.
    let gone = format!("{first}-- \n y\n");
    let lines = parse(gone.as_bytes(), Reading::Lenient).unwrap().remove(0).hunks.remove(0).lines;
    assert_eq!(lines.len(), 5, "the counts are wrong");
    check(
        "--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n a\n-- \n",
        &[patch("f", "f", vec![hunk(1, 1, &[" a", "-- "])])],
    );
}

#[test]
fn what_is_no_regular_file_is_refused_whatever_the_diff_does_with_it() {
    let whole = "index 1234567..0000000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-a\n+b\n";
    for (mode, word) in
        [("120000", "symbolic link"), ("160000", "submodule"), ("040000", "mode"), ("644", "mode")]
    {
        for said in [
            format!("new file mode {mode}\n{whole}"),
            format!("deleted file mode {mode}\n{whole}"),
            format!("old mode {mode}\nnew mode 100644\n{whole}"),
            format!("new mode {mode}\r\n{whole}"),
            format!("index 1234567..89abcde {mode}\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-a\n+b\n"),
            format!("new file mode {mode}\n"),
        ] {
            let text = format!("diff --git a/l b/l\n{said}");
            for reading in [Reading::Strict, Reading::Lenient] {
                let BadDiff { line, why } = parse(text.as_bytes(), reading).unwrap_err();
                assert_eq!(line, 2, "{text}");
                assert!(why.contains(word), "{why}: {text}");
            }
        }
    }
    let moved = "diff --git a/x b/x\nold mode 100644\nnew mode 100755\nindex by name\nindex 1..2 100644 and so on\n";
    check(moved, &[Patch { mode: Some(0o100_755), ..patch("x", "x", vec![]) }]);
}

#[test]
fn what_makes_no_sense_is_refused_with_its_line() {
    for (text, line, word) in [
        ("@@ -1 +1 @@\n-a\n+b\n", 1, "has no file names"),
        ("--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n-a\n+b\n", 6, "fewer lines"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n-b\n", 5, "do not match the counts"),
        ("--- a/f\n+++ b/f\n@@ -x +1 @@\n-a\n", 3, "expected a hunk header"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\nwhat\n", 4, "fewer lines"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n", 1, "both names"),
        ("--- \n+++ b/f\n", 1, "cut off"),
        ("--- \"a/f\n+++ b/f\n", 1, "cut off"),
        ("diff --git a/f b/f\nBinary files a/f and b/f differ\n", 2, "binary"),
        ("diff --git a/f b/f\nGIT binary patch\n", 2, "binary"),
        ("--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n\\ No newline\n-b\n+c\n", 8, "without a newline"),
        ("--- a/f\n+++ b/f\n@@ -99999999999999999999 +1 @@\n-a\n", 3, "expected a hunk header"),
        ("--- a/f\n+++ b/f\n@@ -+1 +1 @@\n-a\n", 3, "expected a hunk header"),
    ] {
        let BadDiff { line: found, why } = parse(text.as_bytes(), Reading::Strict).unwrap_err();
        assert_eq!(found, line, "{why}: {text}");
        assert!(why.contains(word), "{why}: {text}");
    }
}
