//! Proctor, with a typical configuration.

use super::super::scratch::Scratch;
use super::super::talk::Conversation;
use super::super::talk::pipe::Pipe;
use super::shop::{CRASH, ERRORS, NAMES, Shop};
use super::{Asked, Question, Tally};
use crate::served::Served;
use crate::step::output;
use anyhow::Result;
use serde_json::json;

struct Ours {
    // Dropped before the server it talks to.
    conversation: Conversation<Pipe>,
    served: Served,
    shop: Shop,
}

pub(super) fn set_up(scratch: &Scratch, shop: Shop) -> Result<Box<dyn Asked>> {
    let mut config = "supervisor:\n  port: off\n  http: { port: 0 }\n  services:\n".to_owned();
    for name in NAMES {
        let more = match name {
            "web" => "restart_policy: never, autostart: false, ".to_owned(),
            "site" => format!(
                "health_check_url: \"http://127.0.0.1:{}/\", health_check_interval: 1, ",
                shop.port
            ),
            _ => String::new(),
        };
        let folder = shop.folder.display();
        config += &format!("    {name}: {{ {more}command: ./{name}, working_dir: {folder} }}\n");
    }
    let served = Served::start(&scratch.proctor, "replies", &config, &[])?;
    output(served.command(&["start", "web", "--no-wait"]))?;
    let pipe = Pipe::open(served.command(&["mcp"]), &served.home)?;
    Ok(Box::new(Ours { conversation: Conversation::begin(pipe)?, served, shop }))
}

impl Asked for Ours {
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
                call("list_processes", json!({}))?;
                tally.knows(&NAMES)
            }
            Question::WhyFailed => {
                call("get_process_status", json!({ "names": ["web"] }))?;
                if !tally.has(&CRASH) {
                    let logs = json!({ "services": ["web"], "tail": 20 });
                    tally.call(conversation, "get_process_logs", &logs)?;
                }
                tally.knows(&CRASH)
            }
            Question::LastErrors => {
                call("get_process_logs", json!({ "errors": true }))?;
                tally.knows(&[ERRORS[0], ERRORS[1], CRASH[0]])
            }
            Question::UntilReady => {
                call("wait_for_process", json!({ "names": ["site"], "until": "ready" }))?;
                tally.knows(&["\"reached\":true"])
            }
            Question::Restart => {
                call("restart_process", json!({ "names": ["site"] }))?;
                call("wait_for_process", json!({ "names": ["site"], "until": "ready" }))?;
                tally.knows(&["restarted", "\"reached\":true"])
            }
        }
    }

    fn restart_site(&mut self) -> Result<()> {
        output(self.served.command(&["restart", "site"])).map(drop)
    }
}
