//! `cargo xtask fuzz`: runs every decoder under libFuzzer, from its seeds, for the requested time.
//!
//! The targets are in `fuzz/`, the invariants in `crates/decoders`. The address sanitizer, which
//! also refuses a single absurd allocation, needs a nightly compiler; `RUSTC_BOOTSTRAP` enables it
//! in ours.

use crate::step::{cargo, root, succeed};
use crate::tool;
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const USAGE: &str = "\
usage: cargo xtask fuzz [--seconds N] [TARGET…]

  --seconds N   time for each target; default: 60
  TARGET        run only these targets; default: all";

const USUAL_SECONDS: u32 = 60;

/// Timeout of one input; a slower one counts as a hang.
const INPUT_SECONDS: u32 = 10;

/// Maximum allocation, single and total; no decoder needs more for so few bytes.
const MAX_ALLOCATION: &str = "-malloc_limit_mb=64";
const MAX_MEMORY: &str = "-rss_limit_mb=1024";

/// Longer inputs are slower and find nothing new.
const MAX_INPUT: &str = "-max_len=4096";

/// The prefix of libFuzzer's statistics.
const INPUTS_TRIED: &str = "stat::number_of_executed_units:";

/// Lines of a failed fuzzer to show: the panic, the stack and the input.
const LAST_WORDS: usize = 60;

#[derive(Debug, PartialEq, Eq)]
struct Options {
    seconds: u32,
    targets: Vec<String>,
}

pub(crate) fn run(words: &[&str]) -> Result<()> {
    let folder = root()?.join("fuzz");
    let options = parse(words, &targets(&folder)?)?;
    write_seeds(&folder.join("corpus"))?;
    println!("== building the targets");
    succeed(fuzzer(&["build"])?)?;
    let mut failed = Vec::new();
    for target in &options.targets {
        match one(target, &folder, options.seconds)? {
            Ok(inputs) => println!("== {target}: {inputs} inputs in {} s", options.seconds),
            Err(said) => {
                println!("{said}\n== {target}: FAILED");
                failed.push(target.as_str());
            }
        }
    }
    if !failed.is_empty() {
        bail!("these decoders failed: {}", failed.join(", "));
    }
    Ok(())
}

/// The names of the fuzz targets. A test of `proctor-decoders` compares them with its table.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let folder = folder.join("fuzz_targets");
    ensure!(folder.is_dir(), "no folder {}", folder.display());
    let stems = files(&folder).into_iter().filter_map(|file| Some(file.file_stem()?.to_owned()));
    Ok(stems.filter_map(|stem| stem.into_string().ok()).collect())
}

fn parse(words: &[&str], known: &[String]) -> Result<Options> {
    let mut options = Options { seconds: USUAL_SECONDS, targets: Vec::new() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if *word == "--seconds" {
            let number = words.next().context("--seconds needs a number")?;
            options.seconds = number.parse().with_context(|| format!("--seconds {number}"))?;
            continue;
        }
        if !known.iter().any(|name| name == word) {
            bail!("no target '{word}'; there are {}\n{USAGE}", known.join(", "));
        }
        options.targets.push((*word).to_owned());
    }
    if options.targets.is_empty() {
        options.targets = known.to_vec();
    }
    Ok(options)
}

/// Returns the number of tried inputs, or the last output of the fuzzer and the failing inputs.
fn one(target: &str, folder: &Path, seconds: u32) -> Result<Result<String, String>> {
    let artifacts = folder.join("artifacts").join(target);
    let before = files(&artifacts);
    let mut command = fuzzer(&["run", target, "--"])?;
    command
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={INPUT_SECONDS}"))
        .args([MAX_ALLOCATION, MAX_MEMORY, MAX_INPUT, "-print_final_stats=1"]);
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        let count = said.lines().find_map(|line| line.strip_prefix(INPUTS_TRIED));
        return Ok(Ok(count.unwrap_or("an unknown number of").trim().to_owned()));
    }
    let mut last: Vec<&str> = said.lines().rev().take(LAST_WORDS).collect();
    last.reverse();
    let found = files(&artifacts);
    let inputs = found.difference(&before).map(|file| reproducer(target, file));
    Ok(Err(last.into_iter().map(str::to_owned).chain(inputs).collect::<Vec<_>>().join("\n")))
}

fn fuzzer(args: &[&str]) -> Result<Command> {
    let mut command = tool::subcommand("fuzz", args)?;
    command.env("RUSTC_BOOTSTRAP", "1");
    Ok(command)
}

fn reproducer(target: &str, file: &Path) -> String {
    let bytes = std::fs::read(file).unwrap_or_default();
    let again = format!("RUSTC_BOOTSTRAP=1 cargo fuzz run {target} {}", file.display());
    format!("   not decoded as promised: b\"{}\"\n   again: {again}", bytes.escape_ascii())
}

/// Writes real values as seeds. Inputs that the fuzzer found itself stay.
fn write_seeds(corpus: &Path) -> Result<()> {
    let test = ["test", "--quiet", "--package", "proctor-decoders", "--test", "it", "seeds::"];
    let mut command = cargo(&test)?;
    command.env("WRITE_SEEDS", corpus);
    succeed(command)
}

fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_targets_are_understood() {
        let known = ["views".to_owned(), "env_file".to_owned()];
        let all = parse(&[], &known).unwrap();
        assert_eq!(all, Options { seconds: USUAL_SECONDS, targets: known.to_vec() });
        let some = parse(&["views", "--seconds", "5"], &known).unwrap();
        assert_eq!(some, Options { seconds: 5, targets: vec!["views".to_owned()] });
        for wrong in [&["--seconds"] as &[&str], &["--seconds", "x"], &["nothing"]] {
            assert!(parse(wrong, &known).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_folder_of_targets_is_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        assert!(targets(&folder).unwrap().contains(&"views".to_owned()));
        assert!(targets(Path::new("nowhere")).is_err());
    }
}
