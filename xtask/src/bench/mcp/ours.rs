//! Proctor's MCP front: the process of one conversation with and without a running daemon, and MCP
//! over HTTP.

use super::super::adapters::write;
use super::super::book::{Book, Measure};
use super::super::talk::Conversation;
use super::super::talk::http::Http;
use super::super::talk::pipe::Pipe;
use super::super::{interrupt, process};
use super::{Calls, Mcp, page};
use crate::served::Served;
use crate::step::output;
use anyhow::{Context as _, Result};
use serde_json::json;

/// A typical number for one project.
const SERVICES: usize = 5;

const NO_DAEMON: &str = "proctor, no daemon yet";
pub(crate) const OVER_HTTP: &str = "proctor over HTTP";
const ALONE: &str = "proctor, a conversation's process alone";
const MORE: &str = "proctor, what another conversation adds";
const RESTING: &str = "proctor, at rest";

impl Mcp<'_> {
    pub(crate) fn measure_ours(&self, who: &str, book: &mut Book) -> Result<()> {
        let served = self.served(SERVICES)?;
        let calls = Calls {
            status: ("get_process_status", json!({ "names": ["s1"] })),
            logs: ("get_process_logs", json!({ "services": ["s1"] })),
        };
        interrupt::pause(self.plan.settle)?;
        let open = || Pipe::open(served.command(&["mcp"]), &served.home);
        self.starts(who, open, &calls.status, book)?;
        let mut conversation = Conversation::begin(open()?)?;
        self.calls(who, &mut conversation, &calls, book)?;
        self.memory(who, &served, conversation, &calls, book)?;
        self.over_http(&served, &calls, book)?;
        drop(served);
        self.without_daemon(book)
    }

    /// One service writes a page, the others do nothing.
    fn served(&self, services: usize) -> Result<Served> {
        let folder = self.scratch.fresh("mcp-page")?;
        write(&folder.join("page.txt"), &page())?;
        let mut config = "supervisor:\n  port: off\n  http: { port: 0 }\n".to_owned();
        config += if services > 0 {
            "  services:\n"
        } else {
            "  services: { none: { command: sleep, autostart: false } }\n"
        };
        for number in 1..=services {
            let script = format!("cat {}/page.txt; exec sleep 100000", folder.display());
            config += &format!("    s{number}: {{ command: [sh, -c, {script:?}] }}\n");
        }
        Served::start(&self.scratch.proctor, "bench", &config, &[])
    }

    /// Memory of all of Proctor: the conversation's process, the daemon, the keeper.
    fn memory(
        &self,
        who: &str,
        served: &Served,
        first: Conversation<Pipe>,
        calls: &Calls,
        book: &mut Book,
    ) -> Result<()> {
        let status = served.json(&["daemon", "status"])?;
        let pid = |role: &str| {
            let pid = status[role]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
            pid.with_context(|| format!("the {role} has no pid"))
        };
        let mut all = vec![pid("keeper")?, pid("daemon")?, first.wire.pid()];
        let sum = |all: &[u32]| all.iter().copied().map(process::pss).sum::<u64>() as f64;
        let one = sum(&all);
        book.add(Measure::McpMemory, who, one);
        book.add(Measure::McpMemory, ALONE, process::pss(first.wire.pid()) as f64);
        let mut second = Conversation::begin(Pipe::open(served.command(&["mcp"]), &served.home)?)?;
        second.ask("tools/list", &json!({}))?;
        for (tool, arguments) in [&calls.status, &calls.logs] {
            second.call(tool, arguments)?;
        }
        all.push(second.wire.pid());
        book.add(Measure::McpMemory, MORE, sum(&all) - one);
        drop(second);
        all.pop();
        interrupt::pause(self.plan.settle)?;
        book.add(Measure::McpMemory, RESTING, sum(&all));
        Ok(())
    }

    fn over_http(&self, served: &Served, calls: &Calls, book: &mut Book) -> Result<()> {
        let (address, token) = (served.address()?, served.token("bench", "admin")?);
        let connect = || Http::connect(&address, &token);
        self.starts(OVER_HTTP, connect, &calls.status, book)?;
        self.calls(OVER_HTTP, &mut Conversation::begin(connect()?)?, calls, book)
    }

    /// The first call starts the daemon.
    fn without_daemon(&self, book: &mut Book) -> Result<()> {
        let served = self.served(0)?;
        let stop = || output(served.command(&["daemon", "stop"])).map(drop);
        let open = || Pipe::open(served.command(&["mcp"]), &served.home);
        self.starts_after(stop, NO_DAEMON, open, &("list_processes", json!({})), book)
    }
}
