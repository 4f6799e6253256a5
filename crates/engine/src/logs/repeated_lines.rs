//! Folds consecutive equal lines into one.
//!
//! Equal means byte for byte, or byte for byte after a time at the beginning of both. Anything looser would
//! hide differences.

use crate::api::{LogLine, Repeats};
use proctor_core::time::Wall;
use regex::bytes::Regex;
use std::sync::LazyLock;

/// `2026-03-01T14:05:03.25Z`, `[2026/03/01 14:05:03,250]`, `14:05:03` and forms in between.
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    let (date, time) = ("[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[T ]", "[0-9]{2}:[0-9]{2}:[0-9]{2}");
    let (fraction, zone) = ("[.,][0-9]{1,9}", "Z|[+-][0-9]{2}:?[0-9]{2}");
    let pattern = format!(r"(?-u)^\[?(?:{date})?{time}(?:{fraction})?(?:{zone})?\]?");
    Regex::new(&pattern).expect("a fixed pattern is right or never was")
});

/// Maximum length of a time at the beginning of a line: `[2026/03/01 14:05:03,123456789+01:00]`.
const MAX_TIME_BYTES: usize = 37;

/// Returns true if both lines are equal.
pub(super) fn is_same(last: &LogLine, next: &LogLine) -> bool {
    let whole = !last.cut && !next.cut && last.context == next.context;
    whole
        && last.left_out == next.left_out
        && (last.bytes == next.bytes || is_same_later(&last.bytes, &next.bytes))
}

/// Counts one more repeat.
pub(super) fn add(line: &mut LogLine, wall: Wall) {
    let count = line.repeats.map_or(0, |repeats| repeats.count).saturating_add(1);
    line.repeats = Some(Repeats { count, wall });
}

fn is_same_later(last: &[u8], next: &[u8]) -> bool {
    // Most lines that differ do so after the time: comparing from the end is faster than finding a time.
    let same = last.iter().rev().zip(next.iter().rev()).take_while(|(one, other)| one == other);
    if last.len().max(next.len()) > MAX_TIME_BYTES + same.count() {
        return false;
    }
    match (without_time(last), without_time(next)) {
        (Some(last), Some(next)) => last == next,
        (None, _) | (_, None) => false,
    }
}

/// The rest of a line after the time at its beginning; `None` without a time or a rest.
fn without_time(line: &[u8]) -> Option<&[u8]> {
    line.first().filter(|first| first.is_ascii_digit() || **first == b'[')?;
    let time = TIME.find(line)?;
    Some(&line[time.end()..]).filter(|rest| !rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_time_at_the_beginning_may_differ() {
        let line = |text: &str| LogLine { bytes: text.into(), ..LogLine::default() };
        for (last, next, expected) in [
            ("tick", "tick", true),
            ("tick 1", "tick 2", false),
            ("", "", true),
            ("14:05:03 tick", "14:05:04 tick", true),
            ("14:05:03 200 OK", "14:05:03 500 OK", false),
            ("14:05:03", "14:05:04", false),
            ("[14:05:03] tick", "[23:59:59] tick", true),
            ("2026-03-01T14:05:03.250Z up", "2026-03-02T01:00:00.1Z up", true),
            ("2026/03/01 14:05:03,250 up", "2026/03/01 14:05:03,251 up", true),
            ("2026-03-01T14:05:03+01:00 up", "2026-03-01T14:05:03-0200 up", true),
            ("2026-03-01 up", "2026-03-02 up", false),
            ("at 14:05:03 up", "at 14:05:04 up", false),
            ("14:05:03.1 up", "14:05:03.1up", false),
            (
                "[2026/03/01 14:05:03,123456789+01:00] up",
                "[1999/12/31 23:59:58,987654321-02:30] up",
                true,
            ),
            ("2026-03-01T14:05:03.250Z a", "2026-03-01T14:05:04.250Z b", false),
        ] {
            assert_eq!(is_same(&line(last), &line(next)), expected, "{last} | {next}");
        }
        let cut = LogLine { cut: true, ..line("x") };
        assert!(!is_same(&cut, &line("x")) && !is_same(&line("x"), &cut));
        assert!(!is_same(&LogLine { left_out: 1, ..line("x") }, &line("x")));
    }
}
