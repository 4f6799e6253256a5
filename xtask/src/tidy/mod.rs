//! `cargo xtask tidy`: the rules of this repository that neither the compiler nor clippy checks.
//!
//! Each rule is a function from text to findings; this module passes them the tracked and the new
//! files.

mod code;
mod english;
mod features;
mod layers;
mod lock;
mod paths;
mod rust;

use crate::step;
use anyhow::{Context as _, Result, bail};
use std::fmt;
use std::path::Path;
use std::process::Command;

/// A broken rule: its place, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Relative to the root of the repository.
    pub(crate) file: String,
    /// From 1.
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.file, self.line, self.message)
    }
}

pub(crate) fn run() -> Result<()> {
    let root = step::root()?;
    let mut findings = Vec::new();
    for file in files(&root)? {
        // Binary files such as images have no lines to check.
        let Ok(text) = std::fs::read_to_string(root.join(&file)) else { continue };
        findings.extend(in_file(&file, &text));
    }
    findings.extend(layers::check(&root)?);
    findings.extend(features::check()?);
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("tidy: {} findings to fix", findings.len());
    }
    Ok(())
}

fn in_file(file: &str, text: &str) -> Vec<Finding> {
    let mut findings = paths::check(file, text);
    if file.ends_with(".rs") {
        findings.extend(rust::check(file, text));
        findings.extend(english::check(file, text));
    }
    if file.ends_with("Cargo.lock") {
        findings.extend(lock::check(file, text));
    }
    findings
}

/// Tracked files and new ones that are not ignored, without deleted ones.
fn files(root: &Path) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let listed = step::output(git).context("cannot list the files of the repository")?;
    let mut files: Vec<String> = listed.split_terminator('\0').map(str::to_owned).collect();
    files.retain(|file| root.join(file).is_file());
    Ok(files)
}
