//! `cargo xtask bench`: compares Proctor with other supervisors and the bare kernel, on one machine
//! in one run.
//!
//! Every supervisor is an adapter, every service the same small program that reports when its main
//! begins. No result depends on the clock: slow is a figure, only a failure is an error. A peer
//! that is unavailable or breaks becomes a note. MCP is compared with other MCP servers
//! ([`assistants`]).

mod adapter;
mod adapters;
mod assistants;
mod book;
mod clock;
mod code;
mod exits;
mod goals;
pub(crate) mod interrupt;
mod machine;
mod mcp;
mod measure;
mod options;
mod page;
mod process;
mod progress;
mod replies;
mod reports;
mod scratch;
mod session;
mod table;
mod talk;

use crate::step::{cargo, output, root};
use adapter::{Adapter, OWN, PEERS};
use anyhow::{Context as _, Result, bail};
use assistants::Assistants;
use book::Book;
use measure::Programs;
use measure::crowd::Crowds;
use measure::life::Life;
use measure::logs::Capture;
use measure::rest::Rest;
pub(crate) use options::USAGE;
use options::{Options, Part};
use progress::Progress;
use scratch::Scratch;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Stdio;

const PAGE: &str = "docs/benchmarks.md";

/// Our name in every table.
pub(crate) const OURS: &str = "proctor";

pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    interrupt::watch()?;
    let proctor = built()?;
    let folder = match &options.scratch {
        Some(folder) => folder.clone(),
        None => target()?.join("bench-peers"),
    };
    let scratch = Scratch::make(&folder, proctor)?;
    process::adopt_orphans()?;
    process::raise_limits()?;
    let result = measured(&options, &scratch);
    scratch.clear()?;
    result
}

fn measured(options: &Options, scratch: &Scratch) -> Result<()> {
    let programs = Programs::compile(scratch)?;
    let mut book = Book::default();
    let adapters = install(options, scratch, &mut book)?;
    let mut broken = measure_all(options, scratch, &programs, &adapters, &mut book)?;
    let assistants = Assistants { options, scratch, programs: &programs };
    if assistants.measure(&mut book)? {
        broken.push("MCP".to_owned());
    }
    let facts = machine::facts(&scratch.folder)?;
    let text = table::render(options, &facts, &adapters, &book);
    println!("\n{text}");
    if options.write {
        write_page(options, text)?;
    }
    if !broken.is_empty() {
        bail!("broken: {}", broken.join(", "));
    }
    Ok(())
}

/// Writes the page; parts that were not measured stay.
fn write_page(options: &Options, text: String) -> Result<()> {
    let page = root()?.join(PAGE);
    let text = match std::fs::read_to_string(&page) {
        Ok(old) if !options.is_complete() => page::joined(&old, &text)?,
        _ => text,
    };
    std::fs::write(&page, text).with_context(|| format!("cannot write {PAGE}"))
}

/// The path of the release build, as cargo reports it.
fn built() -> Result<PathBuf> {
    release(&["--package", "proctor"])
}

/// Builds one of our programs as users get it.
fn release(which: &[&str]) -> Result<PathBuf> {
    let mut build = cargo(&["build", "--release"])?;
    build.args(which);
    build.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
    let messages = output(build)?;
    let executable = messages.lines().rev().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    });
    executable.context("cargo built no program")
}

/// Cargo's target folder.
fn target() -> Result<PathBuf> {
    let metadata = output(cargo(&["metadata", "--no-deps", "--format-version", "1"])?)?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo wrote no JSON")?;
    let folder = metadata["target_directory"].as_str().context("cargo has no target folder")?;
    Ok(folder.into())
}

/// Installs ours, or fails; and the peers that are available.
fn install(
    options: &Options,
    scratch: &Scratch,
    book: &mut Book,
) -> Result<Vec<(String, Box<dyn Adapter>)>> {
    let mut adapters = Vec::new();
    for (name, install) in OWN {
        adapters.push(((*name).to_owned(), install(scratch)?));
    }
    if options.parts.iter().all(|part| part.is_of_assistants()) {
        return Ok(adapters);
    }
    for (name, install) in PEERS.iter().filter(|(name, _)| options.wants_peer(name)) {
        match install(scratch) {
            Ok(adapter) => adapters.push(((*name).to_owned(), adapter)),
            Err(why) => {
                interrupt::check()?;
                let why = scratch.hide(&format!("{why:#}"));
                book.note(format!("{name} cannot be installed here: {why}"));
            }
        }
    }
    Ok(adapters)
}

/// Measures one of each in turn, repeatedly, so that other load on the machine affects all alike.
/// Returns those of ours that broke.
fn measure_all(
    options: &Options,
    scratch: &Scratch,
    programs: &Programs,
    adapters: &[(String, Box<dyn Adapter>)],
    book: &mut Book,
) -> Result<Vec<String>> {
    let life = Life { scratch, programs, options };
    let capture = Capture { scratch, programs, plan: &options.plan };
    let crowds = Crowds { scratch, programs, plan: &options.plan };
    let rest = Rest { scratch, programs, plan: &options.plan };
    let mut broken = Vec::new();
    let takes_part = |adapter: &dyn Adapter| {
        options.parts.iter().any(|&part| !part.is_of_assistants() && adapter.takes(part))
    };
    let contenders: Vec<_> =
        adapters.iter().filter(|(_, adapter)| takes_part(adapter.as_ref())).collect();
    let mut progress = Progress::begin(contenders.len() * options.plan.repeats);
    for round in 1..=options.plan.repeats {
        if options.wants(Part::Cli) {
            measure::cli::least(scratch, programs, &options.plan, book)?;
        }
        for (name, adapter) in &contenders {
            println!("{name}, {round} of {}{}", options.plan.repeats, progress.next());
            let own = OWN.iter().any(|(own, _)| own == name);
            // Peers take so much longer that once is enough.
            if !own && round > 1 {
                continue;
            }
            let mut result = life.measure(name, adapter.as_ref(), book);
            if result.is_ok() && options.wants(Part::Logs) && adapter.takes(Part::Logs) {
                result = capture.measure(name, adapter.as_ref(), book);
            }
            if result.is_ok() && options.wants(Part::Hostile) && adapter.takes(Part::Hostile) {
                result = crowds.measure(name, adapter.as_ref(), book);
            }
            if result.is_ok() && options.wants(Part::Rest) && adapter.takes(Part::Rest) {
                result = rest.measure(name, adapter.as_ref(), book);
            }
            interrupt::check()?;
            if let Err(why) = result {
                book.note(format!("{name}: {}", scratch.hide(&format!("{why:#}"))));
                if own && !broken.contains(name) {
                    broken.push(name.clone());
                }
            }
        }
    }
    Ok(broken)
}
