//! Role of the guard: the keeper's socket at 3, then a loop that outlives keeper and daemon.

use crate::keeper::{self, Arguments, SELF};
use anyhow::{Context, Result};
use proctor_sys::{allocator, inherited_fds};

pub(crate) const ROLE: &str = "__guard";

/// First argument of its command line, for process listings.
pub(crate) const TITLE: &str = "proctor: guard";

/// Descriptor of the socket from the keeper.
const KEEPER: i32 = 3;

pub(crate) fn main() -> Result<()> {
    let Arguments { home, manner, .. } = Arguments::parse(std::env::args_os().skip(2))?;
    let link = inherited_fds::take(KEEPER).context("the keeper's socket is missing")?;
    allocator::share_one_heap();
    proctor_keeper::run_guard(proctor_keeper::GuardOptions {
        keeper: keeper::command(keeper::TITLE, keeper::ROLE, &home, &manner),
        program: SELF.into(),
        foreground: manner.foreground,
        home,
        link,
    })?;
    Ok(())
}
