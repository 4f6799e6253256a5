//! `cargo xtask check`: everything that must hold before a change is merged, each step named and
//! timed.

use crate::step::{cargo, succeed};
use crate::tidy;
use anyhow::{Result, bail};
use std::time::Instant;

/// The README's command that runs all tests.
const TEST_COMMAND: &[&str] = &["test", "--workspace"];

/// CI runs the tests as a separate step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tests {
    Run,
    Skip,
}

type Step = (&'static str, fn() -> Result<()>);

const STEPS: &[Step] = &[("format", format), ("tidy", tidy::run), ("lints", lints), ("docs", docs)];

/// Runs all steps, even after one has failed: a person wants to see every error.
pub(crate) fn run(tests: Tests) -> Result<()> {
    let mut steps = STEPS.to_vec();
    if tests == Tests::Run {
        steps.push(("tests", test));
    }
    let failed: Vec<&str> =
        steps.iter().filter(|step| !passes(step)).map(|(name, _)| *name).collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn passes((name, run): &Step) -> bool {
    println!("== {name}");
    let begin = Instant::now();
    let result = run();
    let seconds = begin.elapsed().as_secs_f64();
    match &result {
        Ok(()) => println!("== {name}: ok, {seconds:.1} s"),
        Err(why) => println!("{why:#}\n== {name}: FAILED, {seconds:.1} s"),
    }
    result.is_ok()
}

fn format() -> Result<()> {
    succeed(cargo(&["fmt", "--all", "--", "--check"])?)
}

fn lints() -> Result<()> {
    succeed(cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?)
}

fn docs() -> Result<()> {
    let mut command = cargo(&["doc", "--workspace", "--no-deps"])?;
    command.env("RUSTDOCFLAGS", "-D warnings");
    succeed(command)
}

pub(crate) fn test() -> Result<()> {
    succeed(cargo(TEST_COMMAND)?)
}

/// Writes the files that are generated from the code. A test in the crate that knows them does the
/// work, so that xtask links nothing of the product.
pub(crate) fn generate() -> Result<()> {
    let mut command =
        cargo(&["test", "--quiet", "--package", "proctor-front", "--test", "it", "generated::"])?;
    command.env("UPDATE_GENERATED", "1");
    succeed(command)
}
