//! pitchfork, with `pitchfork mcp`. It does not report readiness, and waits only for processes it
//! starts itself.

use super::super::adapters::write;
use super::super::scratch::Scratch;
use super::super::session::outside;
use super::super::talk::Conversation;
use super::super::talk::pipe::Pipe;
use super::super::{interrupt, process};
use super::shop::{CRASH, ERRORS, NAMES, READY, Shop};
use super::{Asked, Question, Tally};
use anyhow::{Context as _, Result};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Pause of an assistant before it asks again.
const PAUSE: Duration = Duration::from_secs(1);

struct Pitchfork {
    conversation: Conversation<Pipe>,
    program: PathBuf,
    folder: PathBuf,
    shop: Shop,
}

pub(super) fn set_up(scratch: &Scratch, shop: Shop) -> Result<Box<dyn Asked>> {
    let program = scratch.rust("pitchfork-cli")?.join("bin/pitchfork");
    let folder = scratch.fresh("pitchfork")?;
    let mut config = String::new();
    for name in NAMES {
        config += &format!("[daemons.{name}]\nrun = {:?}\nboot_start = true\n", shop.command(name));
        config += if name == "site" { "ready_output = \"ready in\"\n" } else { "" };
    }
    write(&folder.join("config/config.toml"), &config)?;
    let supervisor = command(&program, &folder, &["supervisor", "run", "--boot"]);
    outside(supervisor, &folder).spawn().context("cannot run pitchfork")?;
    let begun = shop.wait().and_then(|()| {
        Conversation::begin(Pipe::open(command(&program, &folder, &["mcp"]), &folder)?)
    });
    match begun {
        Ok(conversation) => Ok(Box::new(Pitchfork { conversation, program, folder, shop })),
        Err(why) => {
            process::end_all()?;
            Err(why)
        }
    }
}

fn command(program: &Path, folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words).env("PITCHFORK_CONFIG_DIR", folder.join("config"));
    command.env("PITCHFORK_STATE_DIR", folder.join("state")).env("PITCHFORK_LOG", "warn");
    command
}

impl Asked for Pitchfork {
    fn conversation(&mut self) -> &mut Conversation<Pipe> {
        &mut self.conversation
    }

    fn shop(&self) -> &Shop {
        &self.shop
    }

    fn ask(&mut self, question: Question, tally: &mut Tally) -> Result<()> {
        let conversation = &mut self.conversation;
        let mut call = |tool: &str, arguments| tally.call(conversation, tool, &arguments);
        match question {
            Question::WhatRuns => {
                call("pitchfork_status", json!({}))?;
                tally.knows(&NAMES)
            }
            Question::WhyFailed => {
                call("pitchfork_logs", json!({ "id": ["web"] }))?;
                tally.knows(&CRASH)
            }
            Question::LastErrors => {
                // It counts lines over all services, so that a verbose one hides the others.
                for name in NAMES {
                    call("pitchfork_logs", json!({ "id": [name] }))?;
                }
                tally.knows(&[ERRORS[0], ERRORS[1], CRASH[0]])
            }
            Question::UntilReady => {
                // Output from before the restart is among its last lines too.
                while !(tally.has(&[READY]) && self.shop.is_ready()) {
                    interrupt::pause(PAUSE)?;
                    let logs = json!({ "id": ["site"], "n": 5 });
                    tally.call(conversation, "pitchfork_logs", &logs)?;
                }
                Ok(())
            }
            Question::Restart => {
                call("pitchfork_restart", json!({ "id": ["site"] }))?;
                call("pitchfork_status", json!({}))?;
                tally.knows(&["site", "running"])
            }
        }
    }

    /// The command waits until it is ready; nobody waits for the command.
    fn restart_site(&mut self) -> Result<()> {
        let restart = command(&self.program, &self.folder, &["restart", "site"]);
        outside(restart, &self.folder).spawn().context("cannot run pitchfork")?;
        while self.shop.is_ready() {
            interrupt::pause(interrupt::LOOK / 10)?;
        }
        Ok(())
    }
}

impl Drop for Pitchfork {
    fn drop(&mut self) {
        if let Err(why) = process::end_all() {
            println!("not everything could be ended: {why:#}");
        }
    }
}
