//! Unified diffs and exact-text edits, each with a content to apply them to.

use proctor_core::diff::{self, FileNames, Hunk, MatchMode, Patch, Reading, Relation, Sign};
use proctor_core::edit::{self, Edit, EditError, EditPositions};

/// The input is a content and, after a zero byte, a diff for it.
pub(crate) fn unified_diff(bytes: &[u8]) {
    let (content, text) = cut(bytes);
    for reading in [Reading::Strict, Reading::Lenient] {
        match diff::parse(text, reading) {
            Ok(patches) => patches.iter().for_each(|patch| understood(content, patch, reading)),
            Err(bad) => {
                // A diff that ends too early is reported one line after its last line.
                let lines = text.split_inclusive(|byte| *byte == b'\n').count();
                assert!((1..=lines + 1).contains(&bad.line), "{bad}");
            }
        }
    }
    made(content, text);
}

fn understood(content: &[u8], patch: &Patch, reading: Reading) {
    assert!(patch.old.is_some() || patch.new.is_some(), "nobody knows which file is meant");
    if reading == Reading::Strict && !patch.hunks.is_empty() {
        let side = |side: &[u8], name: &Option<Vec<u8>>| {
            name.as_ref().map(|name| [side, name.as_slice()].concat())
        };
        let (old, new) = (side(b"a/", &patch.old), side(b"b/", &patch.new));
        let written =
            diff::write(&[Patch { old, new, hunks: patch.hunks.clone(), ..Patch::default() }]);
        let again = diff::parse(&written, Reading::Strict).expect("what was written can be read");
        let plain = Patch { begins: false, mode: None, relation: Relation::Same, ..patch.clone() };
        assert_eq!(again, [plain]);
    }
    let exactly = [MatchMode::AsGit, MatchMode::default()];
    let other =
        (0..4).flat_map(|fuzz| [false, true].map(|any_ends| MatchMode::AsPatch { fuzz, any_ends }));
    for how in exactly.into_iter().chain(other) {
        match diff::apply(content, &patch.hunks, how) {
            Ok(applied) if exactly.contains(&how) => exact(content, &patch.hunks, &applied),
            Ok(applied) => assert_eq!(applied.hunks.len(), patch.hunks.len()),
            // If very many hunks miss, only some are reported.
            Err(outcomes) => assert!((1..=patch.hunks.len()).contains(&outcomes.len())),
        }
    }
}

/// Without fuzz, the lines that a hunk removes existed, and all others stay.
fn exact(content: &[u8], hunks: &[Hunk], applied: &diff::Applied) {
    let lines: Vec<&[u8]> = content.split_inclusive(|byte| *byte == b'\n').collect();
    let (mut expected, mut at) = (Vec::new(), 0);
    for (hunk, fitted) in hunks.iter().zip(&applied.hunks) {
        let begin = fitted.line - 1;
        assert!(begin >= at, "a hunk begins in the one before");
        extend(&mut expected, &lines[at..begin]);
        let before: Vec<&[u8]> = hunk.before().collect();
        at = begin + before.len();
        assert_eq!(&lines[begin..at], before);
        let after = hunk.lines.iter().filter(|line| line.sign != Sign::Gone);
        after.for_each(|line| extend(&mut expected, &[&line.text]));
    }
    extend(&mut expected, &lines[at..]);
    assert_eq!(applied.content, expected);
}

/// Lines after an unterminated line start a new line.
fn extend(content: &mut Vec<u8>, lines: &[&[u8]]) {
    if !lines.is_empty() && content.last().is_some_and(|last| *last != b'\n') {
        content.push(b'\n');
    }
    content.extend(lines.concat());
}

/// Applying a diff that we make turns one content into the other.
fn made(old: &[u8], new: &[u8]) {
    for around in [0, 3] {
        let text = diff::unified(FileNames::Changed("f"), old, new, around);
        let patches = diff::parse(&text, Reading::Strict).expect("what we write can be read");
        assert_eq!(patches.is_empty(), old == new);
        for patch in patches {
            let applied = diff::apply(old, &patch.hunks, MatchMode::default());
            assert_eq!(applied.expect("our own diff fits").content, new);
        }
    }
}

/// The input is a content and, each after a zero byte, texts and their replacements.
pub(crate) fn exact_edits(bytes: &[u8]) {
    let mut parts = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec);
    let content = parts.next().unwrap_or_default();
    let texts: Vec<Vec<u8>> = parts.collect();
    for all in [false, true] {
        let pair = |pair: &[Vec<u8>]| match pair {
            [old, new] => Some(Edit { old: old.clone(), new: new.clone(), all }),
            _ => None,
        };
        let edits: Vec<Edit> = texts.chunks(2).filter_map(pair).collect();
        match edit::edit(&content, &edits) {
            Ok(edited) => {
                let EditPositions { count, lines } = edited.places;
                assert!(count >= edits.len() && (all || count == edits.len()), "{edits:?}");
                assert_eq!(lines.len(), count.min(edit::MAX_MATCHES), "{edits:?}");
            }
            Err(misfit) => misfits(&content, &edits, misfit),
        }
    }
}

fn misfits(content: &[u8], edits: &[Edit], misfit: EditError) {
    let (number, fits) = match misfit {
        EditError::Empty { edit } => (edit, edits[edit].old.is_empty()),
        EditError::Same { edit } => (edit, edits[edit].old == edits[edit].new),
        EditError::TooLarge { edit } => (edit, edits[edit].all),
        EditError::Ambiguous { edit, count, lines } => (edit, count > 1 && lines.is_sorted()),
        EditError::Missing { edit, near } => {
            let sound = near.iter().all(|near| near.line > 0 && near.likeness <= 1.0);
            let old = &edits[edit].old;
            // The content that was searched is known only for the first edit.
            let there = edit == 0 && content.windows(old.len()).any(|part| part == old.as_slice());
            (edit, sound && !there)
        }
    };
    assert!(fits && number < edits.len(), "edit {number} of {edits:?}");
}

/// Splits at the first zero byte.
fn cut(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|byte| *byte == 0) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[]),
    }
}

pub(crate) fn seeds_unified_diff() -> Vec<Vec<u8>> {
    [
        "a\nb\nc\n\0--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n",
        "a\r\nb\0words\ndiff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -2 +2,2 @@ fn x()\n-b\n\\ No newline at end of file\n+b\r\n+c\n\\ No newline at end of file\n",
        "\0--- /dev/null\t2026-01-01\n+++ \"b/\\303\\244\\\"\"\n@@ -0,0 +1 @@\n+x\n",
        "x\ny\n\0diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\ndiff --git a/z b/z\nold mode 100644\nnew mode 100755\n",
        "1\n2\n3\n4\n5\n6\n7\n8\n9\n\0--- f\n+++ f\n@@\n 1\n-2\n+two\n@@ -8,9 +8,1 @@\n-8\n\n+eight\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

pub(crate) fn seeds_exact_edits() -> Vec<Vec<u8>> {
    [
        "one\ntwo\nthree\n\0two\0TWO\0three\0drei",
        "a\r\nb\r\n\0a\nb\0x\ny\nz",
        "x x x\0x\0y",
        "fn main() {\n    let x = 1;\n}\n\0let  x = 1;\0let x = 2;",
        "\0\0new\0\0",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
