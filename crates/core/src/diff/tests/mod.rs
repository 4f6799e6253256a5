//! Round trips: diffs are made, written, read and applied.

mod applying;
mod reading;

use super::{FileNames, MatchMode, Reading, apply, compare, lines, parse, unified};
use proptest::prelude::*;

/// Contents of few different lines, so that they have much in common, with all kinds of endings and
/// with non-text bytes.
pub(super) fn contents() -> impl Strategy<Value = Vec<u8>> {
    let line = prop::sample::select(vec![
        &b"a\n"[..],
        b"b\n",
        b"c\r\n",
        b"\n",
        b"-d\n",
        b"+e\n",
        b"--- x\n",
        b"\\ f\n",
        b"\xff\xfe\n",
        b" g \n",
        b"a\r\n",
    ]);
    let last = prop::sample::select(vec![&b""[..], b"end", b"end\n", b"\r", b"\xe4"]);
    (prop::collection::vec(line, 0..14), last)
        .prop_map(|(lines, last)| [lines.concat(), last.to_vec()].concat())
}

proptest! {
    #[test]
    fn what_differs_is_all_that_differs(old in contents(), new in contents()) {
        let (before, after) = (lines(&old), lines(&new));
        let (mut at, mut there) = (0, 0);
        for block in compare(&old, &new) {
            prop_assert_eq!(&before[at..block.old.start], &after[there..block.new.start]);
            prop_assert!(!block.old.is_empty() || !block.new.is_empty());
            (at, there) = (block.old.end, block.new.end);
        }
        prop_assert_eq!(&before[at..], &after[there..]);
    }

    #[test]
    fn a_diff_makes_one_of_the_other_in_both_directions(old in contents(), new in contents(), around in 0usize..4) {
        let text = unified(FileNames::Changed("f"), &old, &new, around);
        prop_assert_eq!(old == new, text.is_empty());
        let patches = parse(&text, Reading::Strict).unwrap();
        for patch in &patches {
            let applied = apply(&old, &patch.hunks, MatchMode::default()).unwrap();
            prop_assert_eq!(&applied.content, &new);
            prop_assert!(applied.hunks.iter().all(|hunk| hunk.offset == 0 && hunk.fuzz == 0));
            prop_assert_eq!(super::write(std::slice::from_ref(patch)).len(), text.len() - 4, "written without a/ and b/");
        }
        let back = unified(FileNames::Changed("f"), &new, &old, around);
        for patch in parse(&back, Reading::Strict).unwrap() {
            prop_assert_eq!(&apply(&new, &patch.hunks, MatchMode::default()).unwrap().content, &old);
        }
    }

    #[test]
    fn being_lenient_changes_nothing_about_what_is_right(old in contents(), new in contents()) {
        let text = unified(FileNames::Changed("f"), &old, &new, 3);
        prop_assume!(!text.windows(2).any(|pair| pair == b"\n\n"));
        prop_assert_eq!(parse(&text, Reading::Lenient), parse(&text, Reading::Strict));
    }
}

#[test]
fn the_fewest_lines_change() {
    let count = |old: &str, new: &str| -> usize {
        let blocks = compare(old.as_bytes(), new.as_bytes());
        blocks.iter().map(|block| block.old.len() + block.new.len()).sum()
    };
    let lines =
        |letters: &str| letters.chars().map(|letter| format!("{letter}\n")).collect::<String>();
    assert_eq!(count(&lines("abcabba"), &lines("cbabac")), 5);
    assert_eq!(count(&lines("abcdef"), &lines("abcdef")), 0);
    assert_eq!(count("", &lines("ab")), 2);
    assert_eq!(count(&lines("axbxcxdx"), &lines("abcd")), 4);
}

#[test]
fn contents_that_have_nothing_in_common_end_soon() {
    let many = |letter: char| (0..30_000).map(|n| format!("{letter}{n}\n")).collect::<String>();
    let (old, new) = (many('a'), many('b'));
    assert_eq!(compare(old.as_bytes(), new.as_bytes()).len(), 1);
}

#[test]
fn a_diff_reads_as_people_know_it() {
    let old = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n";
    let new = "one\nTWO\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten";
    let text = unified(FileNames::Changed("src/a b.rs"), old.as_bytes(), new.as_bytes(), 1);
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "--- a/src/a b.rs\t\n+++ b/src/a b.rs\t\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n\
         @@ -9 +9,2 @@\n nine\n+ten\n\\ No newline at end of file\n"
    );
    let made = unified(FileNames::Made("n"), b"", b"x\n", 3);
    assert_eq!(String::from_utf8(made).unwrap(), "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n");
    let removed = unified(FileNames::Removed("n"), b"x\n", b"", 3);
    assert_eq!(String::from_utf8(removed).unwrap(), "--- a/n\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n");
    let odd = unified(FileNames::Moved("a\"b", "ä"), b"x\n", b"y\n", 3);
    assert!(odd.starts_with(b"--- \"a/a\\\"b\"\n+++ \"b/\\303\\244\"\n"), "{}", odd.escape_ascii());
}
