//! Everyday questions as markdown: the cost of each, and its calls.

use super::{Asking, Question};

const ABOUT: &str = "\
A scripted assistant asks about five services, of which one crashed with a stack trace after some hundred lines, in the way \
that takes the fewest calls and bytes. Bytes are those of whole requests and results of `tools/call`; an answer counts only \
if what must be known is in it. process-compose could not be asked: it is in none of the places that this benchmark installs \
from (crates.io, npm, PyPI, Debian).
";

pub(crate) fn render(askings: &[Asking]) -> String {
    if askings.is_empty() {
        return String::new();
    }
    let mut text = format!("## Everyday questions of an assistant\n\n{ABOUT}\n| |");
    for asking in askings {
        text += &format!(" {}, calls | bytes |", asking.who);
    }
    text += &format!("\n|---|{}\n", "---:|---:|".repeat(askings.len()));
    for question in Question::ALL {
        text += &row(question.text(), askings, |asking| {
            let (_, tally) = asking.answers.iter().find(|(asked, _)| *asked == question)?;
            Some((tally.calls.len().to_string(), tally.bytes))
        });
    }
    let all = |asking: &Asking| Some((asking.calls().to_string(), asking.bytes()));
    text += &row("all of them", askings, all);
    let offer = |asking: &Asking| Some((format!("{} tools", asking.tools), asking.offer));
    text += &row("before that: handshake and list of tools", askings, offer);
    text += "\nWhat was called:\n\n";
    for asking in askings {
        for (question, tally) in &asking.answers {
            text += &format!("- {}, {}\n", asking.who, question.text());
            text += &called(&tally.calls);
        }
    }
    text + "\n"
}

fn row(
    name: &str,
    askings: &[Asking],
    figures: impl Fn(&Asking) -> Option<(String, usize)>,
) -> String {
    let cells = askings.iter().map(|asking| match figures(asking) {
        Some((calls, bytes)) => format!(" {calls} | {bytes} |"),
        None => " – | – |".to_owned(),
    });
    format!("| {name} |{}\n", cells.collect::<String>())
}

/// Groups repeated calls into one line.
fn called(calls: &[String]) -> String {
    let mut text = String::new();
    for same in calls.chunk_by(|one, next| one == next) {
        let times = if same.len() > 1 { format!(", {} times", same.len()) } else { String::new() };
        text += &format!("  - `{}`{times}\n", same[0]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::Tally;
    use super::*;

    #[test]
    fn what_was_not_asked_has_no_figure() {
        let tally =
            Tally { calls: vec!["a {}".into(), "a {}".into()], bytes: 70, ..Tally::default() };
        let asking = |answers| Asking { who: "x".into(), tools: 3, offer: 400, answers };
        let text = render(&[asking(vec![(Question::WhatRuns, tally)]), asking(vec![])]);
        for expected in [
            "| what runs? | 2 | 70 | – | – |\n",
            "| all of them | 2 | 70 | 0 | 0 |\n",
            "list of tools | 3 tools | 400 | 3 tools | 400 |\n",
            "- x, what runs?\n  - `a {}`, 2 times\n",
        ] {
            assert!(text.contains(expected), "{expected} is not in {text}");
        }
        assert_eq!(render(&[]), "");
    }
}
