//! `cargo xtask mcp`: tests the MCP front with the official conformance suites, the Inspector, and
//! the official clients.
//!
//! Everything is installed by name and exact version below the target folder, and connects over
//! loopback to a Proctor with its own home. The Inspector's web pages are not covered.

mod clients;
mod conformance;
mod inspector;
mod installed;
mod verdict;

use crate::served;
use anyhow::{Result, bail};
use installed::Installed;
use std::path::PathBuf;
use std::time::Instant;

pub(crate) const USAGE: &str = "\
usage: cargo xtask mcp [--built] [PART…]

  conformance   both official suites, every server scenario of every revision
  inspector     the Inspector lists and calls every tool over stdio
  clients       the official Python and TypeScript clients, over stdio and HTTP
  --built       use the binary that tests have built, instead of a new build";

type Part = (&'static str, fn(&Tried) -> Result<()>);

const INSPECTOR: &str = "inspector";

const PARTS: &[Part] =
    &[("conformance", conformance::run), (INSPECTOR, inspector::run), ("clients", clients::run)];

/// The programs under test and the tools.
struct Tried {
    installed: Installed,
    proctor: PathBuf,
    /// A process that misbehaves on request.
    victim: PathBuf,
}

pub(crate) fn run(words: &[&str]) -> Result<()> {
    let (mut parts, mut is_built) = (Vec::new(), false);
    for word in words {
        match PARTS.iter().find(|(name, _)| name == word) {
            Some(part) => parts.push(*part),
            None if *word == "--built" => is_built = true,
            None => bail!("unknown: {word}\n{USAGE}"),
        }
    }
    if parts.is_empty() {
        parts.extend(PARTS);
    }
    let tried = Tried {
        installed: Installed::get()?,
        proctor: proctor(is_built)?,
        victim: served::program("victim", "proctor-testkit", is_built)?,
    };
    // The Inspector starts once for each call, in sequence, so the other parts run meanwhile.
    let (slow, others): (Vec<Part>, Vec<Part>) =
        parts.into_iter().partition(|(name, _)| *name == INSPECTOR);
    let failed = std::thread::scope(|scope| {
        let slow = scope.spawn(|| failing(&slow, &tried));
        let mut failed = failing(&others, &tried);
        failed.extend(slow.join().expect("parts return errors and do not panic"));
        failed
    });
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// The binary with the suites' fixtures compiled in, as tests use it.
fn proctor(is_built: bool) -> Result<PathBuf> {
    if !is_built {
        let words = ["build", "--package", "proctor", "--features", "fixtures"];
        crate::step::succeed(crate::step::cargo(&words)?)?;
    }
    served::program("proctor", "proctor", true)
}

fn failing(parts: &[Part], tried: &Tried) -> Vec<&'static str> {
    parts.iter().filter(|part| !passes(part, tried)).map(|(name, _)| *name).collect()
}

fn passes((name, run): &Part, tried: &Tried) -> bool {
    println!("== {name}");
    let begin = Instant::now();
    let result = run(tried);
    let seconds = begin.elapsed().as_secs_f64();
    match &result {
        Ok(()) => println!("== {name}: ok, {seconds:.1} s"),
        Err(why) => println!("{why:#}\n== {name}: FAILED, {seconds:.1} s"),
    }
    result.is_ok()
}
