//! MCP servers compared: time to start and to respond, and memory.
//!
//! The calls are the most similar ones: a list (services, a folder, a repository, sessions), and a
//! page of text (a log, a file, a history) of the same size. One conversation sends one request
//! after another.

pub(super) mod ours;
pub(super) mod peers;

use super::book::{Book, Measure, percentile};
use super::clock::{milliseconds, now};
use super::options::Plan;
use super::process;
use super::scratch::Scratch;
use super::talk::pipe::Pipe;
use super::talk::{Conversation, Wire};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// Lines of a log page, and of comparable texts.
const LINES: usize = 100;
const LINE: usize = 120;

/// Minimum number of repetitions, however slow.
const MIN_TURNS: usize = 5;

/// A server whose program is started for one conversation.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) settings: String,
    /// Its working folder and home.
    folder: PathBuf,
    command: Box<dyn Fn() -> Command>,
    calls: Calls,
}

/// A tool and its arguments.
pub(crate) type Call = (&'static str, Value);

struct Calls {
    status: Call,
    logs: Call,
}

pub(crate) struct Mcp<'a> {
    pub(crate) scratch: &'a Scratch,
    pub(crate) plan: &'a Plan,
}

impl Mcp<'_> {
    /// Measures everything about a server that is only a program.
    pub(crate) fn measure(&self, server: &Server, book: &mut Book) -> Result<()> {
        let Server { name, folder, command, calls, .. } = server;
        self.starts(name, || Pipe::open(command(), folder), &calls.status, book)?;
        let mut conversation = Conversation::begin(Pipe::open(command(), folder)?)?;
        self.calls(name, &mut conversation, calls, book)?;
        let all = process::tree(conversation.wire.pid())?;
        let memory: u64 = all.into_iter().map(process::pss).sum();
        book.add(Measure::McpMemory, name, memory as f64);
        Ok(())
    }

    /// Time from the start to the handshake response, and to the first response of a tool.
    fn starts<W: Wire>(
        &self,
        who: &str,
        open: impl Fn() -> Result<W>,
        call: &Call,
        book: &mut Book,
    ) -> Result<()> {
        self.starts_after(|| Ok(()), who, open, call, book)
    }

    /// Like `starts`, with an unmeasured step before each start.
    fn starts_after<W: Wire>(
        &self,
        before: impl Fn() -> Result<()>,
        who: &str,
        open: impl Fn() -> Result<W>,
        (tool, arguments): &Call,
        book: &mut Book,
    ) -> Result<()> {
        let (mut starts, mut firsts) = (Vec::new(), Vec::new());
        again(self.plan, || {
            before()?;
            let begin = now();
            let mut conversation = Conversation::begin(open()?)?;
            starts.push(milliseconds(conversation.welcome.heard - begin));
            firsts.push(milliseconds(conversation.call(tool, arguments)?.heard - begin));
            Ok(())
        })?;
        book.add(Measure::McpStart, who, median(&mut starts));
        book.add(Measure::McpFirst, who, median(&mut firsts));
        Ok(())
    }

    /// Repeats the same requests in one conversation.
    fn calls<W: Wire>(
        &self,
        who: &str,
        conversation: &mut Conversation<W>,
        calls: &Calls,
        book: &mut Book,
    ) -> Result<()> {
        let mut tools = Vec::new();
        again(self.plan, || {
            tools.push(milliseconds(conversation.ask("tools/list", &json!({}))?.time()));
            Ok(())
        })?;
        book.add(Measure::McpTools, who, median(&mut tools));
        for (measure, (tool, arguments)) in
            [(Measure::McpStatus, &calls.status), (Measure::McpLogs, &calls.logs)]
        {
            let (mut times, mut shown) = (Vec::new(), 0);
            again(self.plan, || {
                let reply = conversation.call(tool, arguments)?;
                times.push(milliseconds(reply.time()));
                shown = reply.result["content"][0]["text"].as_str().map_or(0, str::len);
                Ok(())
            })?;
            book.add(measure, who, median(&mut times));
            let page = LINES * LINE;
            let whole = measure != Measure::McpLogs || (page..page * 5 / 4).contains(&shown);
            ensure!(whole, "{tool} shows {shown} bytes of a page of {page}");
        }
        Ok(())
    }
}

/// Repeats as often as commands are, unless it takes too long.
pub(crate) fn again(plan: &Plan, mut once: impl FnMut() -> Result<()>) -> Result<()> {
    let begin = Instant::now();
    let mut done = 0;
    while done < MIN_TURNS || (done < plan.commands && begin.elapsed() < plan.patience) {
        once()?;
        done += 1;
    }
    Ok(())
}

pub(crate) fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    percentile(times, 50)
}

/// A log or file whose lines are all different.
fn page() -> String {
    (1..=LINES).fold(String::new(), |page, number| {
        let line = format!("2026-03-01T12:00:00Z info GET /api/items/{number} 200 12 ms agent=");
        page + &format!("{line:x<width$}\n", width = LINE - 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_size_that_it_says() {
        assert_eq!((page().len(), page().lines().count()), (LINES * LINE, LINES));
    }
}
