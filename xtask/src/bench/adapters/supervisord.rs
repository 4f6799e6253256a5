//! supervisord, from PyPI.

use super::super::adapter::{Adapter, Case, Stop, numbered_backups};
use super::super::scratch::Scratch;
use super::write;
use anyhow::Result;
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::Command;

/// Pipe for input, pipe for output, log file, and one spare.
const DESCRIPTORS: usize = 4;
/// Descriptors of supervisord itself.
const OWN_DESCRIPTORS: usize = 64;

pub(crate) fn install(scratch: &Scratch) -> Result<Box<dyn Adapter>> {
    let folder = scratch.python("supervisor")?;
    Ok(Box::new(Supervisord { bin: folder.join("bin") }))
}

struct Supervisord {
    bin: PathBuf,
}

impl Supervisord {
    fn control(&self, case: &Case, words: &[&str]) -> Command {
        let mut command = Command::new(self.bin.join("supervisorctl"));
        command.arg("-c").arg(case.folder.join("supervisord.conf")).args(words);
        command
    }
}

impl Adapter for Supervisord {
    fn settings(&self) -> &'static str {
        "startsecs=0 (a start is not watched for a second), stderr joined to stdout, minfds no larger than needed since each start closes that many; a dead process is started again at its next tick, up to a second later (cannot be set)"
    }

    fn prepare(&self, case: &Case) -> Result<()> {
        // A child closes every number below minfds before it runs, so the number is as low as
        // possible.
        let minfds = case.services * DESCRIPTORS + OWN_DESCRIPTORS;
        let folder = case.folder.display();
        let mut text = format!(
            "[supervisord]\nlogfile={folder}/supervisord.log\npidfile={folder}/supervisord.pid\n\
             childlogdir={folder}\nminfds={minfds}\nminprocs=1\n\
             [unix_http_server]\nfile={folder}/control\n\
             [supervisorctl]\nserverurl=unix://{folder}/control\n\
             [rpcinterface:supervisor]\n\
             supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface\n"
        );
        for name in case.names() {
            text += &format!(
                "[program:{name}]\ncommand={}\nautorestart=true\nstartsecs=0\nstartretries=1000000\n\
                 redirect_stderr=true\nstdout_logfile={folder}/{name}.log\n\
                 stdout_logfile_maxbytes={}\nstdout_logfile_backups={}\n",
                case.line(),
                case.rotate,
                case.files()
            );
        }
        write(&case.folder.join("supervisord.conf"), &text)
    }

    fn launch(&self, case: &Case) -> Command {
        let mut command = Command::new(self.bin.join("supervisord"));
        command.arg("-n").arg("-c").arg(case.folder.join("supervisord.conf"));
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
