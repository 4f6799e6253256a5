//! Shows a change as `diff -u` does. A change is in one place, so the diff has one hunk.

use std::fmt::Write as _;
use std::path::Path;

/// Context lines before and after a change.
const CONTEXT: usize = 3;

/// Maximum width of a line; of a longer one only the changed part is shown.
const WIDEST: usize = 300;

pub(super) fn unified(path: &Path, old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let (before, after): (Vec<&str>, Vec<&str>) = (lines(old), lines(new));
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let head = before.iter().zip(&after).take_while(same).count();
    let tail = before[head..].iter().rev().zip(after[head..].iter().rev()).take_while(same).count();
    let (gone, come) = (&before[head..before.len() - tail], &after[head..after.len() - tail]);
    let from = head.saturating_sub(CONTEXT);
    let rest = &before[before.len() - tail..];
    let rest = &rest[..rest.len().min(CONTEXT)];
    let mut out = format!("--- {0}\n+++ {0}\n", path.display());
    if gone.iter().chain(come).any(|line| line.len() > WIDEST) {
        return out + &inline(old, new, head + 1);
    }
    let around = (head - from) + rest.len();
    let begin = |count: usize| if count == 0 { 0 } else { from + 1 };
    let (old_count, new_count) = (around + gone.len(), around + come.len());
    // Writing to a String cannot fail.
    let _ =
        writeln!(out, "@@ -{},{old_count} +{},{new_count} @@", begin(old_count), begin(new_count));
    for (mark, lines) in [(' ', &before[from..head]), ('-', gone), ('+', come), (' ', rest)] {
        for line in lines {
            let _ = write!(out, "{mark}{line}");
            if !line.ends_with('\n') {
                out.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    out
}

/// Shows a file of one line: only the changed bytes.
fn inline(old: &str, new: &str, line: usize) -> String {
    let head = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
    let head = old.floor_char_boundary(head);
    let tail = old[head..]
        .bytes()
        .rev()
        .zip(new[head..].bytes().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let gone = &old[head..old.ceil_char_boundary(old.len() - tail)];
    let come = &new[head..new.ceil_char_boundary(new.len() - tail)];
    let mut out = format!("@@ in line {line}, from byte {head} on @@\n");
    for (mark, text) in [('-', gone), ('+', come)] {
        if !text.is_empty() {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{mark}{}", text.trim_end_matches('\n'));
        }
    }
    out
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str, expected: &str) {
        assert_eq!(unified(Path::new("f"), old, new), expected, "\n{old}\n{new}");
    }

    #[test]
    fn a_change_is_shown_with_what_is_around_it() {
        check("a\n", "a\n", "");
        check("", "a\nb\n", "--- f\n+++ f\n@@ -0,0 +1,2 @@\n+a\n+b\n");
        check("a\n", "", "--- f\n+++ f\n@@ -1,1 +0,0 @@\n-a\n");
        check(
            "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
            "1\n2\n3\n4\nx\ny\n6\n7\n8\n9\n",
            "--- f\n+++ f\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+x\n+y\n 6\n 7\n 8\n",
        );
        check(
            "a",
            "a\nb",
            "--- f\n+++ f\n@@ -1,1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n\\ No newline at end of file\n",
        );
    }

    #[test]
    fn of_a_long_line_only_what_changes_is_shown() {
        let line = "ä".repeat(WIDEST);
        check(
            &format!("{line}{{}}\n"),
            &format!("{line}{{ü}}\n"),
            &format!("--- f\n+++ f\n@@ in line 1, from byte {} on @@\n+ü\n", 2 * WIDEST + 1),
        );
        check(
            &format!("{line}ä\n"),
            &format!("{line}ö\n"),
            &format!("--- f\n+++ f\n@@ in line 1, from byte {} on @@\n-ä\n+ö\n", 2 * WIDEST),
        );
    }
}
