//! Runs programs of the toolchain at the root of the repository.

use anyhow::{Context as _, Result, ensure};
use std::path::PathBuf;
use std::process::Command;

/// The folder of the workspace, derived from the package folder that cargo passes.
pub(crate) fn root() -> Result<PathBuf> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    let package = PathBuf::from(package);
    Ok(package.parent().context("the package has no parent folder")?.to_path_buf())
}

/// The cargo that runs this program.
pub(crate) fn cargo(args: &[&str]) -> Result<Command> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(root()?);
    Ok(command)
}

/// Runs with output to the terminal; the exit code decides.
pub(crate) fn succeed(mut command: Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// Returns its stdout.
pub(crate) fn output(mut command: Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}\n{errors}", output.status);
    String::from_utf8(output.stdout)
        .with_context(|| format!("the output of {command:?} is not text"))
}
