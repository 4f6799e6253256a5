//! The book as markdown: facts, goals, figures, settings and failures.

use super::OURS;
use super::adapter::Adapter;
use super::book::{Book, Measure, Samples, Unit};
use super::code::RG;
use super::goals::{GOALS, Verdict};
use super::measure::cli::MINIMAL;
use super::measure::rest;
use super::options::{Options, Part};
use super::replies::table as replies_table;

/// Writes the sections in order.
pub(crate) fn render(
    options: &Options,
    facts: &[(&'static str, String)],
    adapters: &[(String, Box<dyn Adapter>)],
    book: &Book,
) -> String {
    let many = options.plan.services;
    let mut text = introduction(options, facts);
    text += &goals(book, many);
    for measure in Measure::all() {
        text += &figures(book, measure, many);
    }
    text += &replies_table::render(&book.askings);
    text += "## Settings\n\n";
    for (name, adapter) in adapters {
        text += &format!("- {name}: {}.\n", adapter.settings());
    }
    for (name, settings) in &book.settings {
        text += &format!("- {name}: {settings}.\n");
    }
    if !book.notes.is_empty() {
        text += "\n## What did not work\n\n";
        for note in &book.notes {
            text += &format!("- {}\n", note.trim().replace('\n', "\n  "));
        }
    }
    text
}

fn introduction(options: &Options, facts: &[(&'static str, String)]) -> String {
    let facts: Vec<String> = facts.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let quick = if options.plan.quick {
        "A quick run with small numbers: it shows that everything works, and no more.\n\n"
    } else {
        ""
    };
    let repeats = match options.plan.repeats {
        1 => "once".to_owned(),
        times => format!("{times} times"),
    };
    format!(
        "# Benchmarks\n\nWritten by `cargo xtask bench --write`: each part in one run, all on one machine ({}). \
         The ratios are what to look at; times depend on the machine. Each figure was taken {repeats} \
         (of other supervisors once); the median is compared.\n\n{quick}",
        facts.join(", ")
    )
}

fn goals(book: &Book, many: usize) -> String {
    let mut text = "## Goals\n\n| goal | figure | |\n|---|---:|---|\n".to_owned();
    for goal in GOALS {
        let (figure, verdict) = match goal.verdict(book, many) {
            Verdict::Ok(figure) => (short(figure), "ok"),
            Verdict::NotYet(figure) => (short(figure), "not yet"),
            Verdict::NotMeasured => ("–".to_owned(), "not measured"),
        };
        text += &format!("| {} | {figure} | {verdict} |\n", goal.says);
    }
    text + "\n"
}

fn figures(book: &Book, measure: Measure, many: usize) -> String {
    let entries = book.of(measure);
    if entries.is_empty() {
        return String::new();
    }
    let who = base(measure);
    let base = who.and_then(|who| book.median(measure, who));
    let mut text = format!(
        "## {}\n\n| | median{} | best | min–max | {} |\n|---|---:|---:|---:|---:|\n",
        measure.title(many),
        unit(measure.unit()),
        who.map_or_else(String::new, |who| format!("× {who}"))
    );
    for (who, samples) in entries {
        text += &row(who, samples, measure, base);
    }
    text + "\n"
}

fn row(who: &str, samples: &Samples, measure: Measure, base: Option<f64>) -> String {
    let ratio = base.map_or_else(String::new, |base| short(samples.median() / base));
    format!(
        "| {who} | {} | {} | {}–{} | {ratio} |\n",
        short(samples.median()),
        short(samples.best(measure)),
        short(samples.least()),
        short(samples.most())
    )
}

/// The figure that others are divided by. A bare loop's memory and idle CPU are close to zero, so
/// no ratio is useful.
fn base(measure: Measure) -> Option<&'static str> {
    match measure.part() {
        Part::Start | Part::Crash => Some("bare"),
        Part::Cli => Some(MINIMAL),
        Part::Logs => matches!(measure, Measure::Logs(_)).then_some("bare splice"),
        Part::Memory | Part::Idle | Part::Hostile => None,
        Part::Rest => Some(rest::BARE),
        Part::Code if matches!(measure, Measure::CodeSearch(_)) => Some(RG),
        Part::Mcp | Part::Replies | Part::Code => Some(OURS),
    }
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Milliseconds => ", ms",
        Unit::Kibibytes => ", KiB",
        Unit::Percent => ", %",
        Unit::MegabytesPerSecond => ", MB/s",
        Unit::Lines => ", lines",
        Unit::Times => ", ×",
        Unit::PerSecond => ", requests/s",
        Unit::Calls => ", calls",
        Unit::Bytes => ", bytes",
    }
}

/// Three significant digits, and at least the whole number.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: f64, expected: &str) {
        assert_eq!(short(value), expected);
    }

    #[test]
    fn numbers_have_the_digits_that_matter() {
        check(1234.56, "1235");
        check(12.345, "12.3");
        check(1.2345, "1.23");
        check(0.12345, "0.123");
        check(0.0012345, "0.0012");
        check(0.0, "0.000");
    }

    #[test]
    fn a_figure_stands_beside_the_bare_kernels() {
        let mut book = Book::default();
        book.add(Measure::Start, "bare", 10.0);
        book.add(Measure::Start, "proctor", 15.0);
        let text = figures(&book, Measure::Start, 100);
        assert!(text.contains("| proctor | 15.0 | 15.0 | 15.0–15.0 | 1.50 |"), "{text}");
        assert_eq!(figures(&book, Measure::Stop, 100), "");
    }
}
