//! Checks the runs of a service that starts and stops, as `proctor logs` shows them: each begins,
//! prints its three lines and ends with its true exit code, before the next begins.

use super::scene::Scene;
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;

/// More lines than the runs between two checks have.
const LINES: &str = "600";

/// The output of a run of these services.
const PRINTED: [&str; 3] = ["line 1", "line 2", "line 3"];

/// The text for a run whose end is unknown.
const NOT_KNOWN: &str = "exit status unknown";

/// Runs that ended without a witness.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Unseen {
    /// Runs whose exit is unknown.
    pub(crate) ends: u64,
    /// Runs whose exit is known, but whose last output was lost with their pipes.
    pub(crate) words: u64,
}

/// Runs that were checked to their end.
#[derive(Debug)]
pub(crate) struct Runs {
    service: &'static str,
    /// The exit of a run that printed everything.
    true_end: &'static str,
    last: String,
    /// Runs that exited by themselves, but whose output is incomplete.
    cut_short: u64,
    /// Exits and their counts.
    pub(crate) ends: BTreeMap<String, u64>,
}

/// One run in the log.
#[derive(Debug, Default)]
struct Told {
    run: String,
    begun: bool,
    printed: Vec<String>,
    end: Option<String>,
}

impl Runs {
    pub(crate) fn new(service: &'static str, true_end: &'static str) -> Runs {
        Runs { service, true_end, last: String::new(), cut_short: 0, ends: BTreeMap::new() }
    }

    /// Checks the new entries.
    pub(crate) fn read(&mut self, scene: &mut Scene) -> Result<Unseen> {
        let before = self.unseen();
        let said = scene.must(&["--json", "logs", self.service, "-n", LINES])?;
        let answer: Value =
            serde_json::from_str(&said).with_context(|| format!("logs of {}", self.service))?;
        let items = answer["items"].as_array().context("logs without items")?;
        let told = told(items)?;
        // The first may have begun before the first item; the last may continue.
        for run in told.iter().skip(1) {
            if run.run > self.last && run.end.is_some() {
                self.check(run).with_context(|| format!("{}, run {}", self.service, run.run))?;
                self.last.clone_from(&run.run);
            }
        }
        let now = self.unseen();
        Ok(Unseen { ends: now.ends - before.ends, words: now.words - before.words })
    }

    fn unseen(&self) -> Unseen {
        let ends = self.ends.get(NOT_KNOWN).copied().unwrap_or(0);
        Unseen { ends, words: self.cut_short }
    }

    fn check(&mut self, run: &Told) -> Result<()> {
        let end = run.end.clone().unwrap_or_default();
        let never = end.starts_with("could not be started");
        ensure!(run.begun || never, "its start is not marked: {run:?}");
        let printed: Vec<&str> = run.printed.iter().map(String::as_str).collect();
        ensure!(PRINTED.starts_with(&printed), "its stored lines differ from its output: {run:?}");
        // A run that was killed, or whose end is unknown, may have printed less.
        let whole = printed.len() == PRINTED.len();
        ensure!(end == self.true_end || end == NOT_KNOWN || !whole, "an invented end: {run:?}");
        self.cut_short += u64::from(!whole && end == "exit code 7");
        *self.ends.entry(end).or_default() += 1;
        Ok(())
    }
}

/// Groups the items of a log into runs.
fn told(items: &[Value]) -> Result<Vec<Told>> {
    let mut runs: Vec<Told> = Vec::new();
    for item in items {
        let word = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
        let run = word("run");
        if runs.last().is_none_or(|last| last.run != run) {
            ensure!(
                !runs.iter().any(|known| known.run == run),
                "run {run} continues after another"
            );
            runs.push(Told { run: run.clone(), ..Told::default() });
        }
        let Some(told) = runs.last_mut() else { continue };
        ensure!(told.end.is_none(), "run {run} continues after its end");
        match word("kind").as_str() {
            "started" => {
                ensure!(!told.begun && told.printed.is_empty(), "run {run} begins twice");
                told.begun = true;
            }
            "line" => told.printed.push(word("text")),
            "exited" => told.end = Some(word("text")),
            other => bail!("run {run}: {other} in the log"),
        }
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TRUE_END: &str = "exit code 7";

    fn item(run: &str, kind: &str, text: &str) -> Value {
        json!({ "run": run, "kind": kind, "text": text })
    }

    fn whole(run: &str, lines: usize, end: &str) -> Vec<Value> {
        let lines = PRINTED[..lines].iter().map(|line| item(run, "line", line));
        let mut items = vec![item(run, "started", "")];
        items.extend(lines);
        items.push(item(run, "exited", end));
        items
    }

    #[track_caller]
    fn check(items: &[Value], well: bool) {
        let mut runs = Runs::new("web", TRUE_END);
        let result = told(items).and_then(|told| told.iter().try_for_each(|run| runs.check(run)));
        assert_eq!(result.is_ok(), well, "{items:?}: {result:?}");
    }

    #[test]
    fn a_run_that_ended_by_itself_and_lost_a_line_is_counted() {
        let mut runs = Runs::new("web", TRUE_END);
        for (lines, end) in [(3, TRUE_END), (2, TRUE_END), (0, "signal 9"), (1, NOT_KNOWN)] {
            runs.check(&told(&whole("1", lines, end)).unwrap()[0]).unwrap();
        }
        assert_eq!(runs.unseen(), Unseen { ends: 1, words: 1 });
    }

    #[test]
    fn a_run_prints_everything_before_it_ends_and_the_next_begins() {
        check(&[whole("1", 3, TRUE_END), whole("2", 3, TRUE_END)].concat(), true);
        check(&whole("1", 2, "signal 9"), true);
        check(&whole("1", 3, "signal 9"), false);
        check(&whole("1", 3, NOT_KNOWN), true);
        check(&whole("1", 3, TRUE_END)[1..], false);
        let mut doubled = whole("1", 3, TRUE_END);
        doubled.insert(2, doubled[1].clone());
        check(&doubled, false);
        let mut after = whole("1", 3, TRUE_END);
        after.push(item("1", "line", "line 1"));
        check(&after, false);
        let (one, two) = (whole("1", 3, TRUE_END), whole("2", 3, TRUE_END));
        check(&[&one[..2], &two[..], &one[2..]].concat(), false);
    }
}
