//! Work on code: search compared with ripgrep; reading, listing, finding, editing and git status
//! over MCP compared with other servers. All of it uses one tree, which is in the kernel's cache by
//! then.

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
    /// Measures ours, and ripgrep if it is available.
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
