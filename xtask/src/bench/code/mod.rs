//! Work on code: searching beside ripgrep, and reading, listing, finding, editing and git's status over MCP beside other
//! servers. All of it is done in one tree, which is in the cache of the kernel by then.

mod searches;
mod servers;
mod tree;

pub(crate) use searches::{RG, Ripgrep};
pub(crate) use servers::WORKERS;
pub(crate) use tree::Tree;

use super::OURS;
use super::book::Book;
use super::options::Plan;
use super::scratch::Scratch;
use crate::served::Served;
use anyhow::Result;

pub(crate) struct Code<'a> {
    pub(crate) scratch: &'a Scratch,
    pub(crate) plan: &'a Plan,
    pub(crate) tree: &'a Tree,
}

impl Code<'_> {
    /// Ours, with ripgrep beside it if it can be had.
    pub(crate) fn measure_ours(&self, ripgrep: Option<&Ripgrep>, book: &mut Book) -> Result<()> {
        let root = &self.tree.folder;
        let config = format!(
            "supervisor:\n  port: off\n  http: {{ port: off }}\n  roots: [{root:?}]\n  \
             services: {{ none: {{ command: sleep, autostart: false }} }}\n"
        );
        let served = Served::start(&self.scratch.proctor, "bench-code", &config, &[])?;
        self.searches(&served, ripgrep, book)?;
        self.ask_ours(OURS, &served, book)
    }
}
