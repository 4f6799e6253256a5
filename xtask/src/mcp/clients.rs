//! The official clients: they start, watch, wait for and stop a real service, over stdio and over
//! HTTP, and continue after the daemon is killed in the middle. The scripts beside this file
//! contain the steps; this file lists the clients.

use super::Tried;
use crate::served::Served;
use crate::step::root;
use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Each script gets its parameters as arguments; `sdk` is the client's own major version.
const CLIENTS: &[(&str, &str, &[&str])] = &[
    ("client.py", "2", &["legacy", "modern"]),
    ("client.mjs", "1", &["legacy"]),
    ("client.mjs", "2", &["legacy", "modern"]),
];

const CONFIG: &str = "\
supervisor:
  port: off
  http: { port: PORT }
  services:
    idle: { command: 'true', autostart: false }
";

const TRANSPORTS: [&str; 2] = ["stdio", "http"];

/// Conversations at a time: they mostly wait.
const MAX_PARALLEL_CLIENTS: usize = 3;

struct Conversation {
    script: &'static str,
    sdk: &'static str,
    era: &'static str,
    transport: &'static str,
}

pub(super) fn run(tried: &Tried) -> Result<()> {
    let all = conversations();
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(0);
    let work = || {
        while let Some((number, conversation)) = take(&all, &next) {
            if !passes(tried, number, conversation) {
                failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..MAX_PARALLEL_CLIENTS {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner();
    ensure!(failed == 0, "{failed} conversations failed");
    Ok(())
}

fn conversations() -> Vec<Conversation> {
    let mut all = Vec::new();
    for (script, sdk, eras) in CLIENTS {
        for era in *eras {
            all.extend(TRANSPORTS.map(|transport| Conversation { script, sdk, era, transport }));
        }
    }
    all
}

fn take<'a>(all: &'a [Conversation], next: &AtomicUsize) -> Option<(usize, &'a Conversation)> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    all.get(number).map(|conversation| (number, conversation))
}

fn passes(tried: &Tried, number: usize, conversation: &Conversation) -> bool {
    let Conversation { script, sdk, era, transport } = conversation;
    let result = conversation.hold(tried, number);
    let verdict = match &result {
        Ok(()) => "ok".to_owned(),
        Err(why) => format!("FAILED\n{why:#}"),
    };
    println!("-- {script}, version {sdk}, {era}, {transport}: {verdict}");
    result.is_ok()
}

impl Conversation {
    fn hold(&self, tried: &Tried, number: usize) -> Result<()> {
        // The successor of a killed daemon must use the same port.
        let port = free_port()?;
        let config = CONFIG.replace("PORT", &port.to_string());
        let served = Served::start(&tried.proctor, &format!("client-{number}"), &config, &[])?;
        let told = json!({
            "sdk": self.sdk,
            "era": self.era,
            "transport": self.transport,
            "proctor": served.proctor,
            "home": served.home,
            "url": format!("http://127.0.0.1:{port}/mcp"),
            "token": served.token("client", "admin")?,
            "victim": tried.victim,
            "modules": tried.installed.modules(),
        });
        let mut command = interpreter(tried, &root()?.join("xtask/src/mcp").join(self.script));
        command.arg(told.to_string()).current_dir(&served.home).env("HOME", &served.home);
        let output = command.output().with_context(|| format!("cannot run {}", self.script))?;
        let (said, why) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "{}\n{said}{why}", output.status);
        Ok(())
    }
}

fn interpreter(tried: &Tried, script: &Path) -> Command {
    if script.extension().is_some_and(|extension| extension == "py") {
        let mut python = tried.installed.python();
        python.arg(script);
        return python;
    }
    tried.installed.node(script)
}

/// A port that is probably still free when it is bound again.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no port is free")?;
    Ok(listener.local_addr()?.port())
}
