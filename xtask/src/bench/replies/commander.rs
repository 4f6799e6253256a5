//! desktop-commander. Its processes belong to the conversation that started them. It knows them
//! only by pid.

use super::super::mcp::peers::{COMMANDER, Commander};
use super::super::scratch::Scratch;
use super::super::talk::Conversation;
use super::super::talk::pipe::Pipe;
use super::shop::{CRASH, ERRORS, NAMES, READY, Shop};
use super::{Asked, Question, Tally};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Lines from the end; the default of other servers.
const TAIL: i64 = -50;

/// Time it waits for output, in milliseconds: short, and long enough for `site` to be ready.
const MOMENT: u64 = 200;
const LONG: u64 = 5000;

struct Asking {
    conversation: Conversation<Pipe>,
    pids: BTreeMap<&'static str, u64>,
    shop: Shop,
}

pub(super) fn set_up(scratch: &Scratch, shop: Shop) -> Result<Box<dyn Asked>> {
    let commander = Commander::install(scratch)?;
    let folder = scratch.fresh(COMMANDER)?;
    Commander::settle_in(&folder, &[&folder])?;
    let conversation = Conversation::begin(Pipe::open(commander.command(), &folder)?)?;
    let mut asking = Asking { conversation, pids: BTreeMap::new(), shop };
    for name in NAMES {
        asking.start(name, MOMENT, &mut Tally::default())?;
    }
    Ok(Box::new(asking))
}

impl Asking {
    fn start(&mut self, name: &'static str, wait: u64, tally: &mut Tally) -> Result<()> {
        // It ends the shell that it started, but not the shell's children.
        let command = format!("exec {}", self.shop.command(name));
        let arguments = json!({ "command": command, "timeout_ms": wait });
        let result = tally.call(&mut self.conversation, "start_process", &arguments)?;
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        let pid = text.strip_prefix("Process started with PID ");
        let pid = pid.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        self.pids.insert(name, pid.with_context(|| format!("no pid: {text}"))?);
        Ok(())
    }

    fn end(&mut self, name: &str, tally: &mut Tally) -> Result<()> {
        let pid = json!({ "pid": self.pids[name] });
        tally.call(&mut self.conversation, "force_terminate", &pid).map(drop)
    }

    fn read(&mut self, name: &str, how: (&str, Value), tally: &mut Tally) -> Result<()> {
        let arguments = json!({ "pid": self.pids[name], how.0: how.1 });
        tally.call(&mut self.conversation, "read_process_output", &arguments).map(drop)
    }

    /// Reads until it reports that it is ready; each read waits for something new.
    fn until_ready(&mut self, tally: &mut Tally) -> Result<()> {
        while !tally.has(&[READY]) {
            self.read("site", ("timeout_ms", json!(LONG)), tally)?;
        }
        Ok(())
    }
}

impl Asked for Asking {
    fn conversation(&mut self) -> &mut Conversation<Pipe> {
        &mut self.conversation
    }

    fn shop(&self) -> &Shop {
        &self.shop
    }

    fn ask(&mut self, question: Question, tally: &mut Tally) -> Result<()> {
        match question {
            Question::WhatRuns => {
                tally.call(&mut self.conversation, "list_sessions", &json!({}))?;
                for name in NAMES {
                    let is_told = tally.has(&[&self.pids[name].to_string()]);
                    ensure!(is_told != (name == "web"), "{name}: {}", tally.told);
                }
                Ok(())
            }
            Question::WhyFailed => {
                // Output of a process that ended during its start was returned then, and is not
                // returned again.
                self.start("web", MOMENT, tally)?;
                tally.knows(&CRASH)
            }
            Question::LastErrors => {
                for name in NAMES.into_iter().filter(|name| *name != "web") {
                    self.read(name, ("offset", json!(TAIL)), tally)?;
                }
                self.start("web", MOMENT, tally)?;
                tally.knows(&[ERRORS[0], ERRORS[1], CRASH[0]])
            }
            // It waits only while it starts something.
            Question::UntilReady => {
                self.start("site", LONG, tally)?;
                self.until_ready(tally)
            }
            Question::Restart => {
                self.end("site", tally)?;
                self.start("site", LONG, tally)?;
                self.until_ready(tally)
            }
        }
    }

    /// The question itself starts it.
    fn restart_site(&mut self) -> Result<()> {
        self.end("site", &mut Tally::default())
    }
}
