//! Where hunks match, and the reports about those that do not.

use super::super::{
    Applied, ComparisonBudget, HunkOutcome, MatchMode, Reading, apply, apply_with, parse,
};

/// One line for each word.
fn text(words: &str) -> String {
    words.split(' ').filter(|word| !word.is_empty()).map(|word| format!("{word}\n")).collect()
}

fn applied(content: &str, hunks: &str, how: MatchMode) -> Result<Applied, Vec<HunkOutcome>> {
    let exact = how == MatchMode::AsGit || how == MatchMode::default();
    let reading = if exact { Reading::Strict } else { Reading::Lenient };
    let diff = format!("--- f\n+++ f\n{hunks}");
    let patches = parse(diff.as_bytes(), reading).unwrap();
    apply(content.as_bytes(), &patches[0].hunks, how)
}

const ANY_ENDS: MatchMode = MatchMode::AsPatch { fuzz: 0, any_ends: true };

#[track_caller]
fn check(content: &str, hunks: &str, fuzz: usize, expected: Option<&str>) -> Option<Applied> {
    let found = applied(&text(content), hunks, MatchMode::AsPatch { fuzz, any_ends: false }).ok();
    let shown = found.as_ref().map(|found| String::from_utf8(found.content.clone()).unwrap());
    assert_eq!(shown, expected.map(text), "{content} {hunks}");
    found
}

const CHANGE: &str = "@@ -3,3 +3,3 @@\n c\n-d\n+D\n e\n";

#[test]
fn a_hunk_is_where_it_says_or_nearby() {
    check("a b c d e f", CHANGE, 0, Some("a b c D e f"));
    let moved = check("x y z a b c d e f", CHANGE, 0, Some("x y z a b c D e f")).unwrap();
    assert_eq!((moved.hunks[0].line, moved.hunks[0].offset), (6, 3));
    let up = check("c d e f", CHANGE, 0, Some("c D e f")).unwrap();
    assert_eq!(up.hunks[0].offset, -2);
    // The nearest of two places; of two equally near ones, the lower.
    check("c d e c d e 3 4 5", CHANGE, 0, Some("c d e c D e 3 4 5"));
    check("a b x d e", CHANGE, 0, None);
}

#[test]
fn hunks_after_it_move_along_and_never_overlap() {
    let hunks = "@@ -1,2 +1,2 @@\n-a\n+A\n b\n@@ -5,2 +5,2 @@\n-a\n+A\n b\n";
    let two = check("a b 1 2 a b 3", hunks, 2, Some("A b 1 2 A b 3")).unwrap();
    assert_eq!(two.hunks.iter().map(|hunk| hunk.line).collect::<Vec<_>>(), [1, 5]);
    let both = "@@ -1,3 +1,3 @@\n x\n-a\n+A\n y\n@@ -1,3 +1,3 @@\n x\n-a\n+B\n y\n";
    check("x a y x a y", both, 0, Some("x A y x B y"));
    check("x a y", both, 0, None);
}

#[test]
fn fuzz_overlooks_lines_around_a_change_and_keeps_what_is_there() {
    let hunk = "@@ -1,5 +1,5 @@\n a\n b\n-c\n+C\n d\n e\n";
    check("X b c d Y", hunk, 0, None);
    let fuzzy = check("X b c d Y", hunk, 1, Some("X b C d Y")).unwrap();
    assert_eq!(fuzzy.hunks[0].fuzz, 1);
    check("X Y c Z W", hunk, 1, None);
    check("X Y c Z W", hunk, 2, Some("X Y C Z W"));
    check("X Y q Z W", hunk, 3, None);
}

#[test]
fn a_hunk_of_the_beginning_is_there_and_one_of_the_end_is_there() {
    let first = "@@ -1,2 +1,3 @@\n+new\n a\n b\n";
    check("a b c", first, 0, Some("new a b c"));
    check("x a b c", first, 0, None);
    let last = "@@ -2,2 +2,3 @@\n b\n c\n+new\n";
    check("a b c", last, 0, Some("a b c new"));
    check("a b c x", last, 0, None);
    check("a b c x", last, 2, Some("a b c new x"));
}

#[test]
fn without_lines_to_look_for_it_is_where_it_says() {
    check("", "@@ -0,0 +1 @@\n+x\n", 0, Some("x"));
    check("a b", "@@ -1,0 +2 @@\n+x\n", 0, Some("a x b"));
    check("a", "@@ -5,0 +6 @@\n+x\n", 0, None);
    check("a b", "@@ -2 +1,0 @@\n-b\n", 0, Some("a"));
}

#[test]
fn ends_of_lines_are_kept_where_they_may_differ() {
    let how = ANY_ENDS;
    let found = applied("a\r\nb\r\nc\r\n", "@@ -1,3 +1,4 @@\n a\n-b\n+B\n+N\n c\n", how).unwrap();
    assert_eq!(found.content, b"a\r\nB\r\nN\r\nc\r\n");
    for (hunk, expected) in [
        ("@@ -1 +1,2 @@\n a\r\n+b\n", &b"a\r\nb\n"[..]),
        ("@@ -1 +1 @@\n-a\r\n+a\n", b"a\n"),
        ("@@ -1 +1,2 @@\n a\n+b\r\n", b"a\r\nb\r\n"),
    ] {
        assert_eq!(applied("a\r\n", hunk, how).unwrap().content, expected, "it says so itself");
    }
    let found = applied("a\nb", "@@ -1,2 +1,3 @@\n a\n b\n+c\n", how).unwrap();
    assert_eq!(found.content, b"a\nb\nc\n");
    assert!(applied("a\r\nb\r\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n", MatchMode::default()).is_err());
}

#[test]
fn a_line_without_an_end_is_joined_with_none_that_follows() {
    let hunk = "@@ -1 +1 @@\n-x\n+y\n\\ No newline at end of file\n";
    let check = |content: &str, hunks: &str, expected: &str| {
        let found = applied(content, hunks, ANY_ENDS).unwrap();
        assert_eq!(String::from_utf8(found.content).unwrap(), expected, "{content:?} {hunks}");
    };
    check("x\nnext line\n", hunk, "y\nnext line\n");
    check("x\r\nnext line\r\n", hunk, "y\r\nnext line\r\n");
    check("x\n", hunk, "y");
    let two = format!("{hunk}@@ -3 +3 @@\n-z\n+Z\n");
    check("x\nnext line\nz\n", &two, "y\nnext line\nZ\n");
}

#[test]
fn other_ends_are_looked_for_only_where_it_fits_nowhere_as_it_is() {
    let check = |content: &str, hunks: &str, expected: Option<&str>| {
        let found = applied(content, hunks, ANY_ENDS).ok();
        let found = found.map(|found| String::from_utf8(found.content).unwrap());
        assert_eq!(found.as_deref(), expected, "{content:?} {hunks}");
    };
    let last = "\\ No newline at end of file\n";
    // A line without an ending is the last one, whatever line the hunk states.
    let gone = format!("@@ -8 +7,0 @@\n-a\n{last}");
    let words = "d\na\na\nnew1\na\nc\nb\na\n\n\n";
    check(&format!("{words}a"), &gone, Some(words));
    check(&format!("{words}a\n"), &gone, Some(words));
    check(&format!("{words}b"), &gone, None);
    check(&format!("{words}a\r"), &gone, None);
    // Exact match far away; nearby match with other endings.
    let change = "@@ -1 +1 @@\n-a\n+A\n";
    check("a\r\nb\r\na\n", change, Some("a\r\nb\r\nA\n"));
    check("a\r\nb\r\na\r\n", change, Some("A\r\nb\r\na\r\n"));
    check("b\na", change, Some("b\nA\n"));
}

#[test]
fn a_line_without_an_end_before_an_empty_one_keeps_it() {
    let hunk = "@@ -1,2 +1,3 @@\n a\n b\n+\n";
    let found = applied("a\r\nb", hunk, ANY_ENDS).unwrap();
    assert_eq!(found.content, b"a\r\nb\r\n\r\n");
}

#[track_caller]
fn check_as_git(content: &str, hunks: &str, expected: Option<&str>) {
    let found = applied(content, hunks, MatchMode::AsGit).ok();
    let found = found.map(|found| String::from_utf8(found.content).unwrap());
    assert_eq!(found.as_deref(), expected, "{content:?} {hunks}");
}

#[test]
fn as_git_has_it_hunks_of_the_beginning_and_of_the_end_are_there() {
    // A hunk without context is the whole file or its end.
    check_as_git("34\n33\n1\n6\n", "@@ -1 +0,0 @@\n-6\n", None);
    check_as_git("6\n", "@@ -1 +0,0 @@\n-6\n", Some(""));
    check_as_git("34\n6\n", "@@ -2 +1,0 @@\n-6\n", Some("34\n"));
    check_as_git("6\n34\n", "@@ -2 +1,0 @@\n-6\n", None);
    check_as_git("a\n", "@@ -0,0 +1 @@\n+x\n", None);
    check_as_git("a\n", "@@ -1,0 +2 @@\n+x\n", None);
    check_as_git("", "@@ -0,0 +1 @@\n+x\n", Some("x\n"));
    check_as_git("", "@@ -0,0 +1 @@\n+x\n@@ -0,0 +1 @@\n+y\n", None);
    // With context, a hunk for line 1 stays there.
    let first = "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n";
    check_as_git("a\nb\nc\nd\n", first, Some("a\nB\nc\nd\n"));
    check_as_git("x\na\nb\nc\nd\n", first, None);
    let second = "@@ -2,3 +2,3 @@\n a\n-b\n+B\n c\n";
    check_as_git("x\ny\na\nb\nc\nd\n", second, Some("x\ny\na\nB\nc\nd\n"));
    check_as_git("a\nb\nc\nd\n", second, Some("a\nB\nc\nd\n"));
}

#[test]
fn as_git_has_it_only_the_last_line_of_a_file_has_no_end() {
    let last = "\\ No newline at end of file\n";
    let hunk = format!("@@ -1 +1 @@\n-x\n+y\n{last}");
    check_as_git("x\nnext line\n", &hunk, None);
    check_as_git("x\n", &hunk, Some("y"));
    check_as_git("x\nz", &format!("@@ -1,2 +1,2 @@\n-x\n+y\n z\n{last}"), Some("y\nz"));
    check_as_git("x\nz\n", &format!("@@ -1,2 +1,2 @@\n-x\n+y\n z\n{last}"), None);
}

#[test]
fn each_hunk_that_does_not_fit_says_where_it_comes_nearest() {
    let hunks = format!("@@ -1 +1 @@\n-1\n+one\n{CHANGE}@@ -9,2 +9,2 @@\n y\n-z\n+Z\n");
    let outcomes = applied(&text("1 2 c X e 6 7"), &hunks, MatchMode::default()).unwrap_err();
    assert!(matches!(outcomes[0], HunkOutcome::Fits(_)));
    let HunkOutcome::Misses(missed) = &outcomes[1] else { panic!("{outcomes:?}") };
    let near = missed.nearest.as_ref().unwrap();
    assert_eq!((missed.line, near.line, near.same, near.of, near.differs), (Some(3), 3, 2, 3, 4));
    assert_eq!((near.expected.as_slice(), near.found.as_deref()), (&b"d\n"[..], Some(&b"X\n"[..])));
    let HunkOutcome::Misses(missed) = &outcomes[2] else { panic!("{outcomes:?}") };
    assert_eq!((missed.line, &missed.nearest), (Some(9), &None));
}

#[test]
fn any_number_of_a_line_is_looked_for_in_as_many_lines_as_there_are() {
    for line in [usize::MAX, usize::MAX - 1, usize::MAX / 2, 1 << 40, 7] {
        let hunk = format!("@@ -{line},3 +{line},3 @@\n c\n-d\n+D\n e\n");
        check("a b c d e f", &hunk, 0, Some("a b c D e f"));
        check("a b x d e f", &hunk, 0, None);
    }
}

#[test]
fn of_very_many_hunks_that_do_not_fit_some_are_told() {
    let hunks = "@@ -1,1 +1,1 @@\n-no\n+yes\n".repeat(1000);
    let missed = applied(&text("a b c"), &hunks, MatchMode::default()).unwrap_err();
    assert_eq!(missed.len(), 100);
}

#[test]
fn hunks_are_looked_for_elsewhere_until_the_effort_is_spent() {
    let words: Vec<String> = (1..=1000).map(|number| format!("w{number}")).collect();
    let content = text(&words.join(" "));
    let hunk = |said: usize, line: usize| {
        let [before, behind] = [line - 1, line + 1];
        format!("@@ -{said},3 +{said},3 @@\n w{before}\n-w{line}\n+x\n w{behind}\n")
    };
    // At the stated line; far away; at the same offset; further away.
    let diff = [hunk(10, 11), hunk(20, 501), hunk(120, 601), hunk(200, 901)].concat();
    let patches = parse(format!("--- f\n+++ f\n{diff}").as_bytes(), Reading::Strict).unwrap();
    let check = |away: usize, expected: [Option<usize>; 4]| {
        let mut effort = ComparisonBudget { away, ..ComparisonBudget::default() };
        let how = MatchMode::default();
        let outcomes = match apply_with(content.as_bytes(), &patches[0].hunks, how, &mut effort) {
            Ok(applied) => applied.hunks.into_iter().map(HunkOutcome::Fits).collect(),
            Err(outcomes) => outcomes,
        };
        for (outcome, expected) in outcomes.iter().zip(expected) {
            match outcome {
                HunkOutcome::Fits(fitted) => assert_eq!(Some(fitted.line), expected, "{away}"),
                HunkOutcome::Misses(missed) => {
                    assert!(missed.spent && expected.is_none(), "{missed:?}")
                }
            }
        }
        effort.away
    };
    let left = check(1000, [Some(10), Some(500), Some(600), Some(900)]);
    assert!((100..300).contains(&left), "{left}");
    assert_eq!(check(600, [Some(10), Some(500), Some(600), None]), 0);
    assert_eq!(check(0, [Some(10), None, None, None]), 0);
    let nowhere =
        applied(&text("a b c"), "@@ -1 +1 @@\n-no\n+x\n", MatchMode::default()).unwrap_err();
    assert!(matches!(&nowhere[..], [HunkOutcome::Misses(missed)] if !missed.spent));
}
