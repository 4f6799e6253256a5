//! External tools: Node, the suites, the Inspector and the clients, installed once below the target
//! folder.

use crate::node::{self, Node};
use crate::step::{root, succeed};
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Exact versions; a new one is tested before it is used. Node comes as a Python package, so that a
/// machine needs only Python.
const PYTHON: &[&str] = &[node::PYTHON_PACKAGE, "mcp==2.3.0"];

const NODE: &[&str] = &[
    "conformance-latest@npm:@modelcontextprotocol/conformance@0.1.16",
    "conformance-next@npm:@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/sdk@1.32.2",
    "@modelcontextprotocol/client@2.4.0",
];

/// The file that lists the complete installations.
const NOTE: &str = "installed";

pub(super) struct Installed {
    folder: PathBuf,
    node: Node,
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
        let installed = Installed { node: Node::of_python(&folder)?, folder };
        if !is_there {
            installed.node.install(&installed.folder.join("npm"), NODE, &[])?;
            std::fs::write(&note, wanted).context("cannot record the installation")?;
        }
        Ok(installed)
    }

    pub(super) fn python(&self) -> Command {
        Command::new(self.folder.join("bin/python"))
    }

    /// Runs a script with Node. The script finds the packages if it is below the folder, or imports
    /// them from [`Installed::modules`].
    pub(super) fn node(&self, script: &Path) -> Command {
        self.node.script(script)
    }

    /// The packages of npm.
    pub(super) fn modules(&self) -> PathBuf {
        self.folder.join("npm/node_modules")
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
