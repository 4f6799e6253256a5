//! Servers of others, installed by name and exact version. They connect to nobody but us.

use super::super::adapters::write;
use super::super::scratch::Scratch;
use super::{Calls, LINE, LINES, Server, page};
use crate::node::Node;
use crate::step::{output, succeed};
use anyhow::{Context as _, Result};
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

/// Installs a server, or fails with the reason.
type Install = fn(&Scratch) -> Result<Server>;

pub(crate) const PEERS: &[(&str, Install)] =
    &[("server-filesystem", filesystem), ("mcp-server-git", git), (COMMANDER, commander)];

/// Default number of commits in `git_log`.
const COMMITS: usize = 10;

pub(crate) const COMMANDER: &str = "desktop-commander";

/// A server that can be started repeatedly.
pub(crate) struct Program {
    pub(crate) settings: String,
    pub(crate) command: Box<dyn Fn() -> Command>,
}

/// server-filesystem, with access to this folder.
pub(crate) fn filesystem_of(scratch: &Scratch, root: &Path) -> Result<Program> {
    let (package, version) = ("@modelcontextprotocol/server-filesystem", "2026.8.31");
    let node = scratch.node_itself()?;
    let script = node_package(scratch, &node, package, version, &[])?;
    let settings = format!("{package} {version} on Node {}", node.version()?);
    let root = root.to_owned();
    let command = move || {
        let mut command = node.script(&script);
        command.arg(&root);
        command
    };
    Ok(Program { settings, command: Box::new(command) })
}

fn filesystem(scratch: &Scratch) -> Result<Server> {
    let (folder, file) = with_page(scratch, "server-filesystem")?;
    let Program { settings, command } = filesystem_of(scratch, &folder)?;
    let calls = Calls {
        status: ("list_directory", json!({ "path": folder })),
        logs: ("read_text_file", json!({ "path": file })),
    };
    let settings = format!("{settings}: {}", said(&calls));
    Ok(Server { name: "server-filesystem", settings, folder, command, calls })
}

/// mcp-server-git, with this repository.
pub(crate) fn git_of(scratch: &Scratch, repository: &Path) -> Result<Program> {
    let package = "mcp-server-git==2026.10.19";
    let environment = scratch.python(package)?;
    let mut version = Command::new(environment.join("bin/python"));
    version.arg("--version");
    let settings = format!("{package} on {}", output(version)?.trim());
    let root = repository.to_owned();
    let command = move || {
        let mut command = Command::new(environment.join("bin/mcp-server-git"));
        command.arg("--repository").arg(&root);
        command
    };
    Ok(Program { settings, command: Box::new(command) })
}

fn git(scratch: &Scratch) -> Result<Server> {
    let folder = scratch.fresh("mcp-server-git")?;
    repository(&folder)?;
    let Program { settings, command } = git_of(scratch, &folder)?;
    let calls = Calls {
        status: ("git_status", json!({ "repo_path": folder })),
        logs: ("git_log", json!({ "repo_path": folder, "max_count": COMMITS })),
    };
    let settings = format!("{settings}: {}", said(&calls));
    Ok(Server { name: "mcp-server-git", settings, folder, command, calls })
}

fn commander(scratch: &Scratch) -> Result<Server> {
    let commander = Commander::install(scratch)?;
    let (folder, file) = with_page(scratch, COMMANDER)?;
    Commander::settle_in(&folder, &[&folder])?;
    let calls = Calls {
        status: ("list_sessions", json!({})),
        logs: ("read_file", json!({ "path": file })),
    };
    let settings = format!("{}: {}", commander.settings()?, said(&calls));
    let command = Box::new(move || commander.command());
    Ok(Server { name: COMMANDER, settings, folder, command, calls })
}

/// desktop-commander, from npm.
#[derive(Clone)]
pub(crate) struct Commander {
    node: Rc<Node>,
    script: PathBuf,
}

impl Commander {
    const PACKAGE: &str = "@wonderwhy-er/desktop-commander";
    const VERSION: &str = "0.2.52";

    /// Installs its dependencies as they were some weeks after its release: later ones need
    /// packages that are not available everywhere.
    pub(crate) fn install(scratch: &Scratch) -> Result<Commander> {
        let node = scratch.node_itself()?;
        let options = ["--before", "2026-10-01"];
        let script = node_package(scratch, &node, Self::PACKAGE, Self::VERSION, &options)?;
        Ok(Commander { node: Rc::new(node), script })
    }

    /// Prepares a home in which it sends no telemetry, downloads no browser, and may access these
    /// folders.
    pub(crate) fn settle_in(home: &Path, folders: &[&Path]) -> Result<()> {
        let own = home.join(".claude-server-commander");
        let config = json!({
            "telemetryEnabled": false, "defaultShell": "/bin/sh", "allowedDirectories": folders,
        });
        write(&own.join("config.json"), &format!("{config}\n"))?;
        write(&own.join("puppeteer-cache/chrome/linux-0/chrome-linux64/chrome"), "")
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = self.node.script(&self.script);
        command.arg("--no-onboarding").env("DESKTOP_COMMANDER_DISABLE_TELEMETRY", "1");
        // It requests its feature flags there; the connection fails at once.
        command.env("DC_FLAG_URL", "http://127.0.0.1:1/");
        command
    }

    pub(crate) fn settings(&self) -> Result<String> {
        Ok(format!(
            "{} {} on Node {}, without telemetry, onboarding, feature flags and browser",
            Self::PACKAGE,
            Self::VERSION,
            self.node.version()?
        ))
    }
}

/// The server script of a package.
fn node_package(
    scratch: &Scratch,
    node: &Node,
    package: &str,
    version: &str,
    options: &[&str],
) -> Result<PathBuf> {
    let (_, name) = package.split_once('/').context("a package has a scope")?;
    let exact = format!("{package}@{version}");
    let folder = scratch.node_packages(&format!("{name}-{version}"), node, &[&exact], options)?;
    Ok(folder.join("node_modules").join(package).join("dist/index.js"))
}

fn with_page(scratch: &Scratch, name: &str) -> Result<(PathBuf, PathBuf)> {
    let folder = scratch.fresh(name)?;
    let file = folder.join("page.txt");
    write(&file, &page())?;
    Ok((folder, file))
}

/// A history whose log is about a page: few commits with long messages, which it shows fastest.
fn repository(folder: &Path) -> Result<()> {
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(folder).args(words);
        git
    };
    succeed(git(&["init", "--quiet", "--initial-branch", "main"]))?;
    let mut stream = String::new();
    for number in 1..=COMMITS {
        let message = format!("change {number:x<width$}\n", width = LINES * LINE / COMMITS);
        write!(
            stream,
            "commit refs/heads/main\ncommitter A <a@b.c> {number} +0000\ndata {}\n{message}\n",
            message.len()
        )?;
    }
    write(&folder.join(".git/stream"), &stream)?;
    let file = std::fs::File::open(folder.join(".git/stream")).context("cannot read a file")?;
    let mut import = git(&["fast-import", "--quiet"]);
    import.stdin(Stdio::from(file));
    succeed(import)
}

fn said(calls: &Calls) -> String {
    format!("{} and {}", calls.status.0, calls.logs.0)
}
