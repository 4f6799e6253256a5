//! pitchfork, from crates.io.

use super::super::adapter::{Adapter, Case, Stop};
use super::super::options::Part;
use super::super::scratch::Scratch;
use super::write;
use anyhow::Result;
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::Command;

pub(crate) fn install(scratch: &Scratch) -> Result<Box<dyn Adapter>> {
    let folder = scratch.rust("pitchfork-cli")?;
    Ok(Box::new(Pitchfork { program: folder.join("bin/pitchfork") }))
}

struct Pitchfork {
    program: PathBuf,
}

impl Pitchfork {
    fn command(&self, case: &Case, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).env("PITCHFORK_CONFIG_DIR", case.folder.join("config"));
        command.env("PITCHFORK_STATE_DIR", case.folder.join("state"));
        command.env("PITCHFORK_LOG", "warn");
        command
    }
}

impl Adapter for Pitchfork {
    fn settings(&self) -> &'static str {
        "no shell, no delay until a service counts as ready, endless retries looked for every second instead of every 10; logs go into a database without rotation, so capture into files is not measured"
    }

    fn takes(&self, part: Part) -> bool {
        !matches!(part, Part::Logs | Part::Hostile | Part::Rest)
    }

    /// All services are started with the supervisor, as after a boot.
    fn prepare(&self, case: &Case) -> Result<()> {
        let mut text = "[settings.general]\ninterval = \"1s\"\nready_delay = \"0s\"\n".to_owned();
        for name in case.names() {
            text += &format!(
                "[daemons.{name}]\nrun = {:?}\nboot_start = true\nretry = true\nready_delay = 0\n",
                case.command
            );
        }
        write(&case.folder.join("config/config.toml"), &text)
    }

    fn launch(&self, case: &Case) -> Command {
        self.command(case, &["supervisor", "run", "--boot"])
    }

    fn stop(&self, _case: &Case) -> Stop {
        Stop::Signal(Signal::TERM)
    }

    fn logs(&self, _case: &Case, _service: usize) -> Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }

    fn status(&self, case: &Case, service: usize) -> Option<Command> {
        Some(self.command(case, &["status", &case.name(service)]))
    }

    fn list(&self, case: &Case) -> Option<Command> {
        Some(self.command(case, &["list"]))
    }
}
