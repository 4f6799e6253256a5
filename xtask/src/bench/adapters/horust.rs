//! horust, from crates.io.

use super::super::adapter::{Adapter, Case, Stop};
use super::super::scratch::Scratch;
use super::write;
use anyhow::Result;
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::Command;

pub(crate) fn install(scratch: &Scratch) -> Result<Box<dyn Adapter>> {
    let folder = scratch.rust("horust")?;
    Ok(Box::new(Horust { program: folder.join("bin/horust") }))
}

struct Horust {
    program: PathBuf,
}

impl Adapter for Horust {
    fn settings(&self) -> &'static str {
        "no start delay, restart always with no backoff (it looks for dead processes at ticks of its own, which cannot be set); stdout is captured, stderr goes where its own goes"
    }

    /// It exits when there is nothing to run.
    fn runs_empty(&self) -> bool {
        false
    }

    fn prepare(&self, case: &Case) -> Result<()> {
        std::fs::create_dir_all(case.folder.join("services"))?;
        std::fs::create_dir_all(case.folder.join("control"))?;
        for name in case.names() {
            let text = format!(
                "command = {:?}\nstart-delay = \"0s\"\nstdout = {:?}\nstdout-rotate-size = \"{} B\"\n\
                 [restart]\nstrategy = \"always\"\nbackoff = \"0s\"\nattempts = 1000000\n",
                case.line(),
                case.path(&format!("{name}.log")),
                case.rotate
            );
            write(&case.folder.join("services").join(format!("{name}.toml")), &text)?;
        }
        Ok(())
    }

    fn launch(&self, case: &Case) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--services-path").arg(case.folder.join("services"));
        command.arg("--uds-folder-path").arg(case.folder.join("control"));
        command.env("HORUST_LOG", "error");
        command
    }

    fn stop(&self, _case: &Case) -> Stop {
        Stop::Signal(Signal::TERM)
    }

    /// `NAME`, `NAME.1`, `NAME.2`: the last is the newest.
    fn logs(&self, case: &Case, service: usize) -> Result<Vec<PathBuf>> {
        let first = case.path(&format!("{}.log", case.name(service)));
        let later = (1..).map(|number| PathBuf::from(format!("{first}.{number}")));
        let mut files = vec![PathBuf::from(&first)];
        files.extend(later.take_while(|path| path.exists()));
        Ok(files)
    }
}
