//! Searches of the whole tree as whole commands: ours and ripgrep, in turn.

use super::super::book::{Book, Measure, Search};
use super::super::clock::{milliseconds, now};
use super::super::scratch::Scratch;
use super::super::{OURS, mcp};
use super::{Code, Tree};
use crate::served::Served;
use crate::step::output;
use anyhow::{Context as _, Result, ensure};
use std::path::PathBuf;
use std::process::Command;

pub(crate) const RG: &str = "rg";

/// From crates.io.
pub(crate) struct Ripgrep {
    program: PathBuf,
    pub(crate) settings: String,
}

impl Ripgrep {
    pub(crate) fn install(scratch: &Scratch) -> Result<Ripgrep> {
        let program = scratch.rust("ripgrep")?.join("bin/rg");
        let mut version = Command::new(&program);
        version.arg("--version");
        let version = output(version)?;
        let first = version.lines().next().unwrap_or_default();
        let settings = format!("{first}, without a configuration, with numbers of lines");
        Ok(Ripgrep { program, settings })
    }

    fn command(&self, tree: &Tree, search: Search) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--no-config", "--line-number", "--no-heading"]).current_dir(&tree.folder);
        let (pattern, flags): (&str, &[&str]) = match search {
            Search::Text => ("mark_of_the_tree", &["--fixed-strings"]),
            Search::Pattern => (r"fn handle_\w+_\d{5}\(", &[]),
            Search::AnyCase => ("MARK_OF|Handle_Ledger", &["--ignore-case"]),
            Search::Nothing => (r"[0-9]{7}\); // [a-z]+$", &[]),
        };
        command.args(flags).args(["--", pattern, "."]);
        command
    }
}

fn ours(search: Search) -> Vec<&'static str> {
    let words: &[&str] = match search {
        Search::Text => &["mark_of_the_tree", "--literal"],
        Search::Pattern => &[r"fn handle_\w+_\d{5}\("],
        Search::AnyCase => &["MARK_OF|Handle_Ledger", "--case", "insensitive"],
        Search::Nothing => &[r"[0-9]{7}\); // [a-z]+$"],
    };
    // Suppresses the message that nothing was found.
    [&["--quiet", "file", "search", "--most", "10000"], words].concat()
}

impl Code<'_> {
    /// Both run the same search with the same result.
    pub(super) fn searches(
        &self,
        served: &Served,
        ripgrep: Option<&Ripgrep>,
        book: &mut Book,
    ) -> Result<()> {
        for search in Search::ALL {
            let words = ours(search);
            let found = served.json(&words)?;
            let found = found["matches"].as_u64().context("no number of matches")?;
            if let Some(ripgrep) = ripgrep {
                let lines = lines(ripgrep.command(self.tree, search))?;
                ensure!(lines == found, "{search:?}: rg finds {lines} lines, we find {found}");
            }
            let (mut own, mut theirs) = (Vec::new(), Vec::new());
            mcp::again(self.plan, || {
                own.push(time(served.command(&words))?);
                if let Some(ripgrep) = ripgrep {
                    theirs.push(time(ripgrep.command(self.tree, search))?);
                }
                Ok(())
            })?;
            book.add(Measure::CodeSearch(search), OURS, mcp::median(&mut own));
            if ripgrep.is_some() {
                book.add(Measure::CodeSearch(search), RG, mcp::median(&mut theirs));
            }
        }
        Ok(())
    }
}

/// An empty result is not a failure.
fn time(mut command: Command) -> Result<f64> {
    let begin = now();
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let end = now();
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(matches!(output.status.code(), Some(0 | 1)) && said.is_empty(), "{command:?}: {said}");
    Ok(milliseconds(end - begin))
}

fn lines(mut command: Command) -> Result<u64> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    Ok(output.stdout.iter().filter(|byte| **byte == b'\n').count() as u64)
}
