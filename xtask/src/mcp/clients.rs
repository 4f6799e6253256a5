//! The official clients: they start, watch, wait for and stop a real service, over stdio and over HTTP, and go on after the daemon
//! was killed in the middle. What they do is in the scripts beside this; here is with whom.

use super::Tried;
use crate::served::Served;
use crate::step::root;
use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// Each script knows what it is told; `sdk` is the client's own major version.
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

pub(super) fn run(tried: &Tried) -> Result<()> {
    let mut failed = 0;
    for (script, sdk, eras) in CLIENTS {
        for era in *eras {
            for transport in TRANSPORTS {
                let name = format!("{script} {sdk} {era} {transport}");
                let result = converse(tried, script, sdk, era, transport);
                println!("-- {name}: {}", if result.is_ok() { "ok" } else { "FAILED" });
                if let Err(why) = result {
                    println!("{why:#}");
                    failed += 1;
                }
            }
        }
    }
    ensure!(failed == 0, "{failed} conversations failed");
    Ok(())
}

fn converse(tried: &Tried, script: &str, sdk: &str, era: &str, transport: &str) -> Result<()> {
    // A daemon that comes after one that was killed must be found at the same place.
    let port = free_port()?;
    let config = CONFIG.replace("PORT", &port.to_string());
    let served = Served::start(&tried.proctor, "clients", &config, &[])?;
    let told = json!({
        "sdk": sdk,
        "era": era,
        "transport": transport,
        "proctor": served.proctor,
        "home": served.home,
        "url": format!("http://127.0.0.1:{port}/mcp"),
        "token": served.token("client", "admin")?,
        "victim": tried.victim,
        "modules": tried.installed.modules(),
    });
    let path = root()?.join("xtask/src/mcp").join(script);
    let mut command = interpreter(tried, &path);
    command.arg(told.to_string()).current_dir(&served.home).env("HOME", &served.home);
    let output = command.output().with_context(|| format!("cannot run {script}"))?;
    ensure!(
        output.status.success(),
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn interpreter(tried: &Tried, script: &Path) -> Command {
    if script.extension().is_some_and(|extension| extension == "py") {
        let mut python = tried.installed.python();
        python.arg(script);
        return python;
    }
    tried.installed.node(script)
}

/// One that nobody else has had in the meantime, if luck will have it; taken again at once.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no port is free")?;
    Ok(listener.local_addr()?.port())
}
