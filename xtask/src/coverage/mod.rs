//! `cargo xtask coverage`: the lines that tests run, including those in processes that are killed.
//!
//! `cargo llvm-cov` sets up the build with counters and reads them. Counters are normally written
//! when a program exits, which a killed or replaced keeper never does. So they are kept in a file
//! that is mapped into memory (`%c`, with relocatable counters): counts are in the file at once,
//! whatever happens to the process.

mod counts;
mod scope;

use crate::step::{cargo, output, root, succeed};
use crate::tool;
use anyhow::{Context as _, Error, Result, bail};
use counts::Counts;
use std::path::Path;
use std::process::Command;

/// Minimum line coverage in percent of these crates.
const MIN_COVERAGE_PERCENT: f64 = 90.0;
const HELD_TO_IT: &[&str] = &["core", "keeper", "engine", "ops"];

/// Shown in addition.
const OTHERS: &[&str] = &["sys", "front", "proctor"];

/// One file for each binary, shared by all its processes.
const PROFILE: &str = "proctor-%m%c.profraw";
const MOVABLE_COUNTERS: &str = "-C llvm-args=-runtime-counter-relocation";

/// The builds with counters, and the counters: separate from ordinary builds.
const FOLDER: &str = "target/llvm-cov-target";

pub(crate) fn run() -> Result<()> {
    let root = root()?;
    install_llvm_tools()?;
    let (folder, host) = (root.join(FOLDER), host()?);
    let prepared = |command| prepared(command, &folder, &host);
    let cover = |args: &[&str]| Ok::<_, Error>(prepared(tool::subcommand("llvm-cov", args)?));
    let counting = environment(&output(cover(&["show-env"])?)?);
    let counted = |mut command: Command| {
        command.envs(counting.clone());
        command
    };
    // Removes old counts and old programs, whose lines belong to older files.
    succeed(counted(cover(&["clean", "--workspace"])?))?;
    let tests = prepared(cargo(&["test", "--workspace", "--no-fail-fast"])?);
    let tested = succeed(counted(tests));
    for package in std::fs::read_dir(root.join("crates"))?.flatten() {
        sweep(&package.path())?;
    }
    tested.context("the tests failed, so their coverage is useless")?;
    let lines = output(counted(cover(&["report", "--lcov"])?))?;
    report(&root, &Counts::parse(&lines)?)
}

/// The target triple of this machine. `cargo llvm-cov` does not know the alias in our
/// configuration.
fn host() -> Result<String> {
    let mut rustc = Command::new("rustc");
    rustc.arg("-vV");
    let said = output(rustc)?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not report its host")?.to_owned())
}

fn prepared(mut command: Command, folder: &Path, host: &str) -> Command {
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    command
        .env("RUSTFLAGS", format!("{flags} {MOVABLE_COUNTERS}"))
        .env("LLVM_PROFILE_FILE_NAME", PROFILE)
        .env("CARGO_TARGET_DIR", folder)
        .env("CARGO_BUILD_TARGET", host);
    command
}

/// `NAME=value` a line, quoted as for a shell.
fn environment(text: &str) -> Vec<(String, String)> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.trim_matches('\'').to_owned())).collect()
}

/// Installs the toolchain's own tools, because the counter format is that of its compiler.
fn install_llvm_tools() -> Result<()> {
    let mut rustup = Command::new("rustup");
    rustup.args(["component", "add", "llvm-tools"]);
    succeed(rustup).context("the toolchain's llvm-tools are needed")
}

/// Removes the counts that programs without our environment wrote to their working folder.
fn sweep(folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("default_") && name.ends_with(".profraw") {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn report(root: &Path, counts: &Counts) -> Result<()> {
    let mut table = String::from("crate      lines  covered  share\n");
    let mut short = Vec::new();
    for name in HELD_TO_IT.iter().chain(OTHERS) {
        let lines = scope::of_crate(root, name, counts)?;
        let covered = lines.iter().map(|file| file.covered).sum::<usize>();
        let missing = lines.iter().map(|file| file.missing.len()).sum::<usize>();
        let share = 100.0 * covered as f64 / (covered + missing).max(1) as f64;
        table += &format!("{name:<8} {:>7} {covered:>8} {share:>5.1} %\n", covered + missing);
        if HELD_TO_IT.contains(name) {
            lines
                .iter()
                .filter(|file| !file.missing.is_empty())
                .for_each(|file| println!("{file}"));
            if share < MIN_COVERAGE_PERCENT {
                short.push(*name);
            }
        }
    }
    println!("\n{table}");
    if !short.is_empty() {
        bail!("below {MIN_COVERAGE_PERCENT} % of lines: {}", short.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_of_the_tool_is_understood() {
        let text = "A='one two'\nB=three\nC='-x=1'\nnothing\n";
        let pairs = [("A", "one two"), ("B", "three"), ("C", "-x=1")];
        assert_eq!(environment(text), pairs.map(|(name, value)| (name.into(), value.into())));
    }
}
