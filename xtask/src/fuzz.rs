//! `cargo xtask fuzz`: every decoder under libFuzzer, from its seeds, for as long as asked.
//!
//! The targets are in `fuzz/`, what must hold is in `crates/decoders`. The address sanitizer, which also refuses a single
//! absurd allocation, is not for stable compilers; `RUSTC_BOOTSTRAP` asks ours for it all the same.

use crate::step::{root, succeed};
use crate::tool;
use anyhow::{Context as _, Result, bail};
use proctor_decoders::{DECODERS, Decoder};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const USAGE: &str = "\
usage: cargo xtask fuzz [--seconds N] [TARGET…]

  --seconds N   for each target; 60 if not given
  TARGET        only these; all, if none is named";

const USUAL_SECONDS: u32 = 60;

/// A fuzzer for every input: one that takes this long hangs.
const INPUT_SECONDS: u32 = 10;

/// Nothing that we decode from so few bytes needs more at once, or in all.
const LARGEST_ALLOCATION: &str = "-malloc_limit_mb=64";
const LARGEST_MEMORY: &str = "-rss_limit_mb=1024";

/// Longer inputs are slower and find nothing new.
const LONGEST_INPUT: &str = "-max_len=4096";

/// What libFuzzer says of itself at the end.
const INPUTS_TRIED: &str = "stat::number_of_executed_units:";

/// Lines of a failed fuzzer that are shown: the panic, the stack and the input.
const LAST_WORDS: usize = 60;

#[derive(Debug, PartialEq, Eq)]
struct Options {
    seconds: u32,
    targets: Vec<&'static str>,
}

pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = parse(words)?;
    let folder = root()?.join("fuzz");
    println!("== building the targets");
    succeed(fuzzer(&["build"])?)?;
    let mut failed = Vec::new();
    for decoder in DECODERS.iter().filter(|it| options.targets.contains(&it.name)) {
        match one(decoder, &folder, options.seconds)? {
            Ok(inputs) => println!("== {}: {inputs} inputs in {} s", decoder.name, options.seconds),
            Err(said) => {
                println!("{said}\n== {}: FAILED", decoder.name);
                failed.push(decoder.name);
            }
        }
    }
    if !failed.is_empty() {
        bail!("these broke their promises: {}", failed.join(", "));
    }
    Ok(())
}

fn parse(words: &[&str]) -> Result<Options> {
    let mut options = Options { seconds: USUAL_SECONDS, targets: Vec::new() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if *word == "--seconds" {
            let number = words.next().context("--seconds wants a number")?;
            options.seconds = number.parse().with_context(|| format!("--seconds {number}"))?;
            continue;
        }
        let Some(decoder) = proctor_decoders::find(word) else {
            let known: Vec<&str> = DECODERS.iter().map(|decoder| decoder.name).collect();
            bail!("no target '{word}'; there are {}\n{USAGE}", known.join(", "));
        };
        options.targets.push(decoder.name);
    }
    if options.targets.is_empty() {
        options.targets = DECODERS.iter().map(|decoder| decoder.name).collect();
    }
    Ok(options)
}

/// How many inputs were tried, or what the fuzzer said last and the inputs it stumbled over.
fn one(decoder: &Decoder, folder: &Path, seconds: u32) -> Result<Result<String, String>> {
    let corpus = folder.join("corpus").join(decoder.name);
    write_seeds(decoder, &corpus)?;
    let artifacts = folder.join("artifacts").join(decoder.name);
    let before = files(&artifacts);
    let mut command = fuzzer(&["run", decoder.name, "--"])?;
    command
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={INPUT_SECONDS}"))
        .args([LARGEST_ALLOCATION, LARGEST_MEMORY, LONGEST_INPUT, "-print_final_stats=1"]);
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        let count = said.lines().find_map(|line| line.strip_prefix(INPUTS_TRIED));
        return Ok(Ok(count.unwrap_or("an unknown number of").trim().to_owned()));
    }
    let mut last: Vec<&str> = said.lines().rev().take(LAST_WORDS).collect();
    last.reverse();
    let found = files(&artifacts);
    let inputs = found.difference(&before).map(|file| reproducer(decoder.name, file));
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

/// Real values for the fuzzer to begin from; what it has found itself stays.
fn write_seeds(decoder: &Decoder, corpus: &Path) -> Result<()> {
    std::fs::create_dir_all(corpus).with_context(|| format!("cannot make {}", corpus.display()))?;
    for (number, seed) in (decoder.seeds)().iter().enumerate() {
        let file = corpus.join(format!("seed-{number:02}"));
        std::fs::write(&file, seed).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
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
        let all = parse(&[]).unwrap();
        assert_eq!((all.seconds, all.targets.len()), (USUAL_SECONDS, DECODERS.len()));
        let some = parse(&["views", "--seconds", "5", "env_file"]).unwrap();
        assert_eq!(some, Options { seconds: 5, targets: vec!["views", "env_file"] });
        for wrong in [&["--seconds"] as &[&str], &["--seconds", "x"], &["nothing"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn every_decoder_has_a_fuzz_target_and_every_target_a_decoder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        for decoder in DECODERS {
            let name = decoder.name;
            assert!(manifest.contains(&format!("[[bin]]\nname = \"{name}\"\n")), "{name}");
            let text = std::fs::read_to_string(folder.join(format!("fuzz_targets/{name}.rs")));
            let call = format!("proctor_decoders::check(\"{name}\", bytes)");
            assert!(text.unwrap().contains(&call), "{name}");
        }
        assert_eq!(files(&folder.join("fuzz_targets")).len(), DECODERS.len());
    }
}
