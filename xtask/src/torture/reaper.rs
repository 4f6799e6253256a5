//! Acts as init: adopts and reaps the orphans of the Proctors under test. In a container the first
//! process may not do that, and ten thousand killed keepers would stay as zombies.

use super::process::children;
use anyhow::{Context as _, Result};
use rustix::process::{Pid, WaitOptions, waitpid};
use std::collections::HashSet;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Interval between two checks: a notification would take children from those who wait for their
/// own.
const LOOK: Duration = Duration::from_millis(5);

/// Our own commands; their starters wait for them.
static COMMANDS: Mutex<Option<HashSet<u32>>> = Mutex::new(None);

/// Starts the reaper.
pub(crate) fn start() -> Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .context("cannot become a subreaper")?;
    let builder = std::thread::Builder::new().name("reaper".into());
    builder.spawn(reap_for_ever).context("cannot start a thread")?;
    Ok(())
}

/// Starts a command that the reaper ignores.
pub(crate) fn spawn(command: &mut Command) -> Result<Child> {
    let mut commands = COMMANDS.lock().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
    commands.get_or_insert_default().insert(child.id());
    Ok(child)
}

/// The command was waited for; its pid may be reused.
pub(crate) fn forget(pid: u32) {
    let mut commands = COMMANDS.lock().unwrap_or_else(PoisonError::into_inner);
    commands.get_or_insert_default().remove(&pid);
}

fn reap_for_ever() {
    loop {
        {
            let commands = COMMANDS.lock().unwrap_or_else(PoisonError::into_inner);
            let is_command = |pid: &u32| commands.as_ref().is_some_and(|all| all.contains(pid));
            for pid in children(std::process::id()).into_iter().filter(|pid| !is_command(pid)) {
                let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
                // A live child is checked again later.
                let _ = pid.map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
            }
        }
        std::thread::sleep(LOOK);
    }
}
