//! Cargo subcommands outside the toolchain: installed by name below the target folder if they are
//! missing.

use crate::step::{cargo, root, succeed};
use anyhow::{Context as _, Result};
use std::path::PathBuf;
use std::process::Command;

/// `cargo SUBCOMMAND …`, once `cargo-SUBCOMMAND` is on the search path or has been installed.
pub(crate) fn subcommand(name: &str, args: &[&str]) -> Result<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let program = format!("cargo-{name}");
    if !folders.iter().any(|folder| folder.join(&program).is_file()) {
        let tools = root()?.join("target/tools");
        if !tools.join("bin").join(&program).is_file() {
            println!("== installing {program} below {}", tools.display());
            let mut install = cargo(&["install", "--locked", "--root"])?;
            install.arg(&tools).arg(&program);
            succeed(install).with_context(|| format!("cannot install {program}"))?;
        }
        folders.insert(0, tools.join("bin"));
    }
    let mut command = cargo(&[name])?;
    command.args(args).env("PATH", std::env::join_paths(folders)?);
    Ok(command)
}
