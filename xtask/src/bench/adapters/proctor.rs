//! Proctor itself: the release build with default settings, except for those a case needs. Its two
//! folders are where an installed Proctor has them: state on the disk, runtime files on the runtime
//! file system.

use super::super::adapter::{Adapter, Case, Stop, sorted_files};
use super::super::options::Part;
use super::super::scratch::Scratch;
use super::write;
use anyhow::{Context as _, Result};
use std::path::PathBuf;
use std::process::Command;

pub(crate) fn install(scratch: &Scratch) -> Result<Box<dyn Adapter>> {
    let runtime = scratch.runtime.join("proctor");
    Ok(Box::new(Proctor { program: scratch.proctor.clone(), runtime }))
}

struct Proctor {
    program: PathBuf,
    runtime: PathBuf,
}

impl Proctor {
    fn command(&self, case: &Case, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--home").arg(&case.folder).args(words);
        // Another Proctor may use the default ports.
        command.env("SUPERVISOR_PORT", "0").env("PROCTOR_HTTP_PORT", "0");
        command
    }
}

impl Adapter for Proctor {
    fn settings(&self) -> &'static str {
        "default settings, except for no restart delay, no restart budget, and logs of which nothing is deleted; its \
         runtime folder is on the runtime file system, as it is where Proctor is installed"
    }

    fn takes(&self, _part: Part) -> bool {
        true
    }

    fn prepare(&self, case: &Case) -> Result<()> {
        if self.runtime.exists() {
            std::fs::remove_dir_all(&self.runtime).context("cannot empty the runtime folder")?;
        }
        std::fs::create_dir(&self.runtime).context("cannot make the runtime folder")?;
        std::os::unix::fs::symlink(&self.runtime, case.folder.join("run"))
            .context("cannot link the runtime folder")?;
        let mut text = format!(
            "supervisor:\n  max_restarts: unlimited\n  restart: {{ delay: 0 }}\n  \
             logs: {{ max_size: {}, max_files: {}, max_total: 1024GiB }}\n  services:\n",
            case.rotate,
            case.files()
        );
        for name in case.names() {
            text += &format!("    {name}: {{ command: {:?} }}\n", case.command);
        }
        write(&case.folder.join("proctor.yaml"), &text)
    }

    /// Without services there is nothing to start.
    fn launch(&self, case: &Case) -> Command {
        match case.services {
            0 => self.command(case, &["daemon", "start"]),
            _ => self.command(case, &["up", "-d"]),
        }
    }

    fn detaches(&self) -> bool {
        true
    }

    /// The keeper.
    fn main(&self, case: &Case, _launched: u32) -> Result<u32> {
        let lock = case.folder.join("run/keeper.lock");
        let text = std::fs::read_to_string(&lock)
            .with_context(|| format!("cannot read {}", lock.display()))?;
        text.trim().parse().with_context(|| format!("no pid in {}: {text}", lock.display()))
    }

    fn stop(&self, case: &Case) -> Stop {
        Stop::Command(self.command(case, &["down"]))
    }

    fn logs(&self, case: &Case, service: usize) -> Result<Vec<PathBuf>> {
        let folder = case.folder.join("logs").join(case.name(service));
        Ok(sorted_files(&folder, |name| name.starts_with("stdout.") && name.ends_with(".log")))
    }

    fn status(&self, case: &Case, service: usize) -> Option<Command> {
        Some(self.command(case, &["status", &case.name(service)]))
    }

    fn own_status(&self, case: &Case) -> Option<Command> {
        Some(self.command(case, &["--json", "daemon", "status"]))
    }

    fn list(&self, case: &Case) -> Option<Command> {
        Some(self.command(case, &["list"]))
    }
}
