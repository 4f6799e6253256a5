//! runit with svlogd, from Debian's package, unpacked.

use super::super::adapter::{Adapter, Case, Stop, sorted_files};
use super::super::scratch::Scratch;
use super::{write, write_script};
use anyhow::Result;
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::Command;

pub(crate) fn install(scratch: &Scratch) -> Result<Box<dyn Adapter>> {
    let folder = scratch.debian("runit", &[])?;
    Ok(Box::new(Runit { bin: folder.join("usr/bin") }))
}

struct Runit {
    bin: PathBuf,
}

impl Adapter for Runit {
    fn settings(&self) -> &'static str {
        "one svlogd for each service; it looks for new services every 5 s, and waits a second between two starts of one (neither can be set)"
    }

    /// `services/NAME/{run,log/run}`; the logs are elsewhere, because it watches every folder below
    /// `services`.
    fn prepare(&self, case: &Case) -> Result<()> {
        std::fs::create_dir_all(case.folder.join("services"))?;
        for name in case.names() {
            let service = case.folder.join("services").join(&name);
            write_script(&service.join("run"), &format!("#!/bin/sh\nexec {}\n", case.line()))?;
            let logs = case.folder.join("logs").join(&name);
            let logger = self.bin.join("svlogd");
            write_script(
                &service.join("log/run"),
                &format!("#!/bin/sh\nexec {} {}\n", logger.display(), logs.display()),
            )?;
            // n0: nothing is ever deleted.
            write(&logs.join("config"), &format!("s{}\nn0\n", case.rotate))?;
        }
        Ok(())
    }

    fn launch(&self, case: &Case) -> Command {
        let mut command = Command::new(self.bin.join("runsvdir"));
        command.arg(case.folder.join("services"));
        // It runs its helpers by name.
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.bin.display()));
        command
    }

    /// HUP also stops the services; TERM leaves them.
    fn stop(&self, _case: &Case) -> Stop {
        Stop::Signal(Signal::HUP)
    }

    fn logs(&self, case: &Case, service: usize) -> Result<Vec<PathBuf>> {
        let folder = case.folder.join("logs").join(case.name(service));
        let mut files = sorted_files(&folder, |name| name.starts_with('@'));
        files.push(folder.join("current"));
        Ok(files)
    }

    fn status(&self, case: &Case, service: usize) -> Option<Command> {
        let mut command = Command::new(self.bin.join("sv"));
        command.arg("status").arg(case.folder.join("services").join(case.name(service)));
        Some(command)
    }

    fn list(&self, case: &Case) -> Option<Command> {
        let mut command = Command::new(self.bin.join("sv"));
        command
            .arg("status")
            .args(case.names().map(|name| case.folder.join("services").join(name)));
        Some(command)
    }
}
