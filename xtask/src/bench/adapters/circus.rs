//! circus, from PyPI.

use super::super::adapter::{Adapter, Case, Stop, numbered_backups};
use super::super::scratch::Scratch;
use super::write;
use anyhow::Result;
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::Command;

pub(crate) fn install(scratch: &Scratch) -> Result<Box<dyn Adapter>> {
    let folder = scratch.python("circus")?;
    Ok(Box::new(Circus { bin: folder.join("bin") }))
}

struct Circus {
    bin: PathBuf,
}

impl Circus {
    fn control(&self, case: &Case, words: &[&str]) -> Command {
        let mut command = Command::new(self.bin.join("circusctl"));
        command.arg("--endpoint").arg(endpoint(case)).args(words);
        command
    }
}

fn endpoint(case: &Case) -> String {
    format!("ipc://{}", case.path("control"))
}

impl Adapter for Circus {
    fn settings(&self) -> &'static str {
        "check_delay=1 instead of 5 (it looks for dead processes that often; less costs idle CPU), no warm-up delays, no statistics"
    }

    fn prepare(&self, case: &Case) -> Result<()> {
        let mut text = format!(
            "[circus]\nendpoint = {}\npubsub_endpoint = ipc://{}\ncheck_delay = 1\n\
             warmup_delay = 0\nstatsd = False\n",
            endpoint(case),
            case.path("events")
        );
        for name in case.names() {
            text += &format!(
                "[watcher:{name}]\ncmd = {}\nnumprocs = 1\nwarmup_delay = 0\n\
                 stdout_stream.class = FileStream\nstdout_stream.filename = {}\n\
                 stdout_stream.max_bytes = {}\nstdout_stream.backup_count = {}\n",
                case.line(),
                case.path(&format!("{name}.log")),
                case.rotate,
                case.files()
            );
        }
        write(&case.folder.join("circus.ini"), &text)
    }

    fn launch(&self, case: &Case) -> Command {
        let mut command = Command::new(self.bin.join("circusd"));
        command.arg("--log-level").arg("warning").arg(case.folder.join("circus.ini"));
        command
    }

    fn stop(&self, _case: &Case) -> Stop {
        Stop::Signal(Signal::TERM)
    }

    fn logs(&self, case: &Case, service: usize) -> Result<Vec<PathBuf>> {
        let file = case.folder.join(format!("{}.log", case.name(service)));
        Ok(numbered_backups(&file, case.files()))
    }

    fn status(&self, case: &Case, service: usize) -> Option<Command> {
        Some(self.control(case, &["status", &case.name(service)]))
    }

    fn list(&self, case: &Case) -> Option<Command> {
        Some(self.control(case, &["status"]))
    }
}
