//! The benchmarks of MCP: servers side by side, the cost of their responses, and work on code.

use super::book::Book;
use super::code::{Code, RG, Ripgrep, Tree, WORKERS};
use super::mcp::{Mcp, Server, peers};
use super::measure::Programs;
use super::options::{Options, Part};
use super::replies::{ASKED, Replies};
use super::scratch::Scratch;
use super::{OURS, interrupt};
use anyhow::Result;

pub(crate) struct Assistants<'a> {
    pub(crate) options: &'a Options,
    pub(crate) scratch: &'a Scratch,
    pub(crate) programs: &'a Programs,
}

impl Assistants<'_> {
    /// Returns whether ours broke.
    pub(crate) fn measure(&self, book: &mut Book) -> Result<bool> {
        let mut broken = false;
        if self.options.wants(Part::Mcp) {
            broken |= self.servers(book)?;
        }
        if self.options.wants(Part::Replies) {
            broken |= self.replies(book)?;
        }
        if self.options.wants(Part::Code) {
            broken |= self.code(book)?;
        }
        Ok(broken)
    }

    /// Uses one tree for all servers.
    fn code(&self, book: &mut Book) -> Result<bool> {
        let plan = &self.options.plan;
        println!("a tree of {} MB", plan.tree_bytes / 1_000_000);
        let tree = Tree::make(self.scratch.fresh("code")?, plan.tree_bytes)?;
        let about = format!("{} files, {} MB", tree.files, tree.bytes / 1_000_000);
        book.settings.push(("the tree of code".to_owned(), about));
        let code = Code { scratch: self.scratch, plan, tree: &tree };
        let ripgrep = self.ripgrep(book)?;
        let mut workers = Vec::new();
        for (name, install) in WORKERS.iter().filter(|(name, _)| self.options.wants_peer(name)) {
            let installed = install(&code).map(|worker| workers.push((*name, worker)));
            self.noted(name, installed, book)?;
        }
        for (name, worker) in &workers {
            book.settings.push((format!("{name} with code"), worker.settings.clone()));
        }
        let mut broken = false;
        for round in 1..=plan.repeats {
            println!("{OURS}, code, {round} of {}", plan.repeats);
            let result = code.measure_ours(ripgrep.as_ref(), book);
            broken |= self.noted(OURS, result, book)?;
            for (name, worker) in &workers {
                println!("{name}, code, {round} of {}", plan.repeats);
                let result = code.ask(worker, book);
                self.noted(name, result, book)?;
            }
        }
        Ok(broken)
    }

    fn ripgrep(&self, book: &mut Book) -> Result<Option<Ripgrep>> {
        if !self.options.wants_peer(RG) {
            return Ok(None);
        }
        match Ripgrep::install(self.scratch) {
            Ok(ripgrep) => {
                book.settings.push((RG.to_owned(), ripgrep.settings.clone()));
                Ok(Some(ripgrep))
            }
            Err(why) => {
                self.noted(RG, Err(why.context("cannot be installed here")), book)?;
                Ok(None)
            }
        }
    }

    fn servers(&self, book: &mut Book) -> Result<bool> {
        let servers = self.install(book)?;
        let plan = &self.options.plan;
        let mcp = Mcp { scratch: self.scratch, plan };
        let mut broken = false;
        for round in 1..=plan.repeats {
            println!("{OURS}, MCP, {round} of {}", plan.repeats);
            let result = mcp.measure_ours(OURS, book);
            broken |= self.noted(OURS, result, book)?;
            // As often as ours: a call takes less than a millisecond, so other load on the machine
            // affects it.
            for server in &servers {
                println!("{}, MCP, {round} of {}", server.name, plan.repeats);
                let result = mcp.measure(server, book);
                self.noted(server.name, result, book)?;
            }
        }
        Ok(broken)
    }

    /// Installs the peers that are available.
    fn install(&self, book: &mut Book) -> Result<Vec<Server>> {
        let mut servers = Vec::new();
        for (name, install) in peers::PEERS.iter().filter(|(name, _)| self.options.wants_peer(name))
        {
            match install(self.scratch) {
                Ok(server) => {
                    book.settings.push(((*name).to_owned(), server.settings.clone()));
                    servers.push(server);
                }
                Err(why) => {
                    let why = why.context("cannot be installed here");
                    self.noted(name, Err(why), book)?;
                }
            }
        }
        Ok(servers)
    }

    /// Runs once, because the byte counts do not vary.
    fn replies(&self, book: &mut Book) -> Result<bool> {
        let replies = Replies { scratch: self.scratch, programs: self.programs };
        let mut broken = false;
        let wanted = |name: &str| name == OURS || self.options.wants_peer(name);
        for (name, set_up) in ASKED.iter().filter(|(name, _)| wanted(name)) {
            println!("{name}, everyday questions");
            let result = replies.measure(name, *set_up, book);
            broken |= self.noted(name, result, book)? && *name == OURS;
        }
        Ok(broken)
    }

    /// Records a failure in the book; returns whether there was one.
    fn noted(&self, name: &str, result: Result<()>, book: &mut Book) -> Result<bool> {
        interrupt::check()?;
        if let Err(why) = &result {
            book.note(format!("{name}: {}", self.scratch.hide(&format!("{why:#}"))));
        }
        Ok(result.is_err())
    }
}
