//! The bare kernel: C loops that do the minimum of the measured task, and nothing else.

use super::super::adapter::{Adapter, Case, Stop, sorted_files};
use super::super::options::Part;
use super::super::scratch::Scratch;
use anyhow::{Context as _, Result};
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::Command;

pub(crate) fn kernel(scratch: &Scratch) -> Result<Box<dyn Adapter>> {
    let program = scratch.compile("loop", include_str!("../c/loop.c"), &[])?;
    Ok(Box::new(Kernel { program }))
}

pub(crate) fn read_write(scratch: &Scratch) -> Result<Box<dyn Adapter>> {
    copy(scratch, "read")
}

pub(crate) fn splice(scratch: &Scratch) -> Result<Box<dyn Adapter>> {
    copy(scratch, "splice")
}

fn copy(scratch: &Scratch, way: &'static str) -> Result<Box<dyn Adapter>> {
    let program = scratch.compile("copy", include_str!("../c/copy.c"), &[])?;
    Ok(Box::new(Copy { program, way }))
}

/// Spawns, respawns, signals and reaps.
struct Kernel {
    program: PathBuf,
}

impl Adapter for Kernel {
    fn settings(&self) -> &'static str {
        "a C loop of posix_spawn, waitpid and kill; no logs, no sessions, no records"
    }

    fn takes(&self, part: Part) -> bool {
        !matches!(part, Part::Logs | Part::Hostile | Part::Rest)
    }

    fn prepare(&self, _case: &Case) -> Result<()> {
        Ok(())
    }

    fn launch(&self, case: &Case) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(case.services.to_string()).args(&case.command);
        command
    }

    fn stop(&self, _case: &Case) -> Stop {
        Stop::Signal(Signal::TERM)
    }

    fn logs(&self, _case: &Case, _service: usize) -> Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// Copies pipes into files.
struct Copy {
    program: PathBuf,
    way: &'static str,
}

impl Adapter for Copy {
    fn settings(&self) -> &'static str {
        "a C loop of epoll and one copy of up to 1 MiB at a time from pipes of 1 MiB; no index, no time"
    }

    fn takes(&self, part: Part) -> bool {
        matches!(part, Part::Logs)
    }

    fn prepare(&self, case: &Case) -> Result<()> {
        (0..case.services).try_for_each(|service| {
            let folder = case.folder.join(service.to_string());
            std::fs::create_dir(&folder)
                .with_context(|| format!("cannot make {}", folder.display()))
        })
    }

    fn launch(&self, case: &Case) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(self.way).arg(case.rotate.to_string()).arg(&case.folder);
        command.arg(case.services.to_string()).args(&case.command);
        command
    }

    fn stop(&self, _case: &Case) -> Stop {
        Stop::Signal(Signal::TERM)
    }

    fn logs(&self, case: &Case, service: usize) -> Result<Vec<PathBuf>> {
        Ok(sorted_files(&case.folder.join(service.to_string()), |name| name.ends_with(".log")))
    }
}
