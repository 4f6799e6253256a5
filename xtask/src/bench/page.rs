//! Updates the measured parts of a page; the others stay.

use anyhow::{Result, ensure};

const GOALS: &str = "Goals";
const SETTINGS: &str = "Settings";
const NOT_MEASURED: &str = "| not measured |";

/// Returns the page with `new` merged in. One page never mixes figures of two machines.
pub(crate) fn joined(old: &str, new: &str) -> Result<String> {
    let ((old_begin, mut sections), (begin, measured)) = (split(old), split(new));
    ensure!(
        machine(old_begin) == machine(begin),
        "the page is of another machine ({}): measure everything",
        machine(old_begin)
    );
    for (title, body) in measured {
        let end = sections.iter().position(|(title, _)| *title == SETTINGS);
        match sections.iter_mut().find(|(known, _)| *known == title) {
            Some((_, there)) if title == GOALS => *there = rows(there, &body),
            Some((_, there)) if title == SETTINGS => *there = items(there, &body),
            Some((_, there)) => *there = body,
            None => sections.insert(end.unwrap_or(sections.len()), (title, body)),
        }
    }
    let sections = sections.iter().map(|(title, body)| format!("\n## {title}\n{body}"));
    Ok(begin.to_owned() + &sections.collect::<String>())
}

/// The text before the first title, and each title with its text.
fn split(page: &str) -> (&str, Vec<(&str, String)>) {
    let mut parts = page.split("\n## ");
    let begin = parts.next().unwrap_or_default();
    let sections = parts.map(|part| {
        let (title, body) = part.split_once('\n').unwrap_or((part, ""));
        (title, body.to_owned())
    });
    (begin, sections.collect())
}

/// The text in the first pair of brackets.
fn machine(begin: &str) -> &str {
    let inside = begin.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    inside.map_or("", |(machine, _)| machine)
}

/// Goals that were not measured keep their figure.
fn rows(old: &str, new: &str) -> String {
    let goal = |line: &str| line.split('|').nth(1).map(str::to_owned);
    let kept = |line: &str| {
        let before = old.lines().find(|before| goal(before) == goal(line));
        before.filter(|_| line.ends_with(NOT_MEASURED)).unwrap_or(line).to_owned()
    };
    new.lines().map(|line| kept(line) + "\n").collect()
}

/// One line for each name; the newer one wins.
fn items(old: &str, new: &str) -> String {
    let name = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
    let mut lines: Vec<&str> = old.lines().collect();
    for line in new.lines().filter(|line| !line.is_empty()) {
        match lines.iter_mut().find(|before| name(before) == name(line)) {
            Some(before) => *before = line,
            None => lines.push(line),
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "# B\n\non (m 1). 3 times.\n\n## Goals\n\n| a | 1 | ok |\n| b | 2 | ok |\n\n## A\n\nold a\n\n\
        ## B\n\nold b\n\n## Settings\n\n- x: 1.\n- y: 2.\n";

    #[test]
    fn what_was_measured_replaces_what_was_there() {
        let new = "# B\n\non (m 1). Once.\n\n## Goals\n\n| a | – | not measured |\n| b | 3 | not yet |\n| c | 4 | ok |\n\n\
            ## B\n\nnew b\n\n## C\n\nnew c\n\n## Settings\n\n- y: 3.\n- z: 4.\n";
        let expected = "# B\n\non (m 1). Once.\n\n## Goals\n\n| a | 1 | ok |\n| b | 3 | not yet |\n| c | 4 | ok |\n\n\
            ## A\n\nold a\n\n## B\n\nnew b\n\n## C\n\nnew c\n\n## Settings\n\n- x: 1.\n- y: 3.\n- z: 4.\n";
        assert_eq!(joined(OLD, new).unwrap(), expected);
        assert_eq!(joined(OLD, OLD).unwrap(), OLD);
    }

    #[test]
    fn two_machines_are_two_pages() {
        let error = joined(OLD, "# B\n\non (m 2).\n").unwrap_err().to_string();
        assert!(error.contains("(m 1)"), "{error}");
    }
}
