//! The cost of everyday questions for an assistant: number of calls, and bytes of requests and
//! responses.
//!
//! A scripted assistant asks each server the same questions about the same services, with the best
//! tools. It accepts a response only if it contains the required facts. If no tool waits, it asks
//! again every second.

mod commander;
mod ours;
mod pitchfork;
mod shop;
pub(super) mod table;

use super::book::{Book, Measure};
use super::measure::Programs;
use super::scratch::Scratch;
use super::talk::Conversation;
use super::talk::pipe::Pipe;
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use shop::Shop;

/// A server and its setup. The first is ours.
type SetUp = fn(&Scratch, Shop) -> Result<Box<dyn Asked>>;

pub(crate) const ASKED: &[(&str, SetUp)] = &[
    (super::OURS, ours::set_up),
    ("pitchfork", pitchfork::set_up),
    (super::mcp::peers::COMMANDER, commander::set_up),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    WhatRuns,
    WhyFailed,
    LastErrors,
    UntilReady,
    Restart,
}

impl Question {
    pub(crate) const ALL: [Question; 5] = [
        Question::WhatRuns,
        Question::WhyFailed,
        Question::LastErrors,
        Question::UntilReady,
        Question::Restart,
    ];

    pub(crate) fn text(self) -> &'static str {
        match self {
            Question::WhatRuns => "what runs?",
            Question::WhyFailed => "why did web fail?",
            Question::LastErrors => "what were the last errors?",
            Question::UntilReady => "site was just restarted: when is it ready?",
            Question::Restart => "restart site and check it",
        }
    }
}

/// One server with the services.
pub(crate) trait Asked {
    fn conversation(&mut self) -> &mut Conversation<Pipe>;

    fn shop(&self) -> &Shop;

    /// Finds the answer to a question.
    fn ask(&mut self, question: Question, tally: &mut Tally) -> Result<()>;

    /// Restarts `site` from outside; it is not ready yet.
    fn restart_site(&mut self) -> Result<()>;
}

/// The cost of an answer.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tally {
    /// Tools with their arguments.
    pub(crate) calls: Vec<String>,
    pub(crate) bytes: usize,
    told: String,
}

impl Tally {
    fn call(
        &mut self,
        conversation: &mut Conversation<Pipe>,
        tool: &str,
        arguments: &Value,
    ) -> Result<Value> {
        let reply = conversation.call(tool, arguments)?;
        self.calls.push(format!("{tool} {}", nameless(arguments)));
        self.bytes += reply.bytes;
        self.told += &reply.result.to_string();
        Ok(reply.result)
    }

    fn has(&self, facts: &[&str]) -> bool {
        facts.iter().all(|fact| self.told.contains(fact))
    }

    fn knows(&self, facts: &[&str]) -> Result<()> {
        ensure!(self.has(facts), "{facts:?} is not in the answer: {}", self.told);
        Ok(())
    }
}

/// Removes pids, which differ each time.
fn nameless(arguments: &Value) -> Value {
    let mut arguments = arguments.clone();
    if let Some(pid) = arguments.get_mut("pid") {
        *pid = json!("PID");
    }
    // Shortens a program to its name, because its folder depends on this machine.
    if let Some(Value::String(command)) = arguments.get_mut("command")
        && let Some((before, path)) = command.split_once('/')
    {
        *command = format!("{before}{}", path.rsplit('/').next().unwrap_or(path));
    }
    arguments
}

/// All questions to one server.
#[derive(Debug, Clone)]
pub(crate) struct Asking {
    pub(crate) who: String,
    pub(crate) tools: usize,
    /// Size of the tool list and of the server's self-description.
    pub(crate) offer: usize,
    pub(crate) answers: Vec<(Question, Tally)>,
}

impl Asking {
    pub(crate) fn calls(&self) -> usize {
        self.answers.iter().map(|(_, tally)| tally.calls.len()).sum()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.answers.iter().map(|(_, tally)| tally.bytes).sum()
    }
}

pub(crate) struct Replies<'a> {
    pub(crate) scratch: &'a Scratch,
    pub(crate) programs: &'a Programs,
}

impl Replies<'_> {
    pub(crate) fn measure(&self, who: &str, set_up: SetUp, book: &mut Book) -> Result<()> {
        let folder = self.scratch.fresh("shop")?;
        let mut asked = set_up(self.scratch, Shop::open(&folder, &self.programs.serve)?)?;
        let offered = asked.conversation().ask("tools/list", &json!({}))?;
        let tools = offered.result["tools"].as_array().context("there are no tools")?.len();
        let offer = offered.bytes + asked.conversation().welcome.bytes;
        let mut answers = Vec::new();
        for question in Question::ALL {
            asked.shop().wait()?;
            if question == Question::UntilReady {
                asked.restart_site()?;
                ensure!(!asked.shop().is_ready(), "it was ready before the question");
            }
            let mut tally = Tally::default();
            asked.ask(question, &mut tally).with_context(|| question.text().to_owned())?;
            if matches!(question, Question::UntilReady | Question::Restart) {
                ensure!(asked.shop().is_ready(), "it is reported as ready, but is not");
            }
            answers.push((question, tally));
        }
        let asking = Asking { who: who.to_owned(), tools, offer, answers };
        book.add(Measure::ReplyCalls, who, asking.calls() as f64);
        book.add(Measure::ReplyBytes, who, asking.bytes() as f64);
        book.askings.push(asking);
        Ok(())
    }
}
