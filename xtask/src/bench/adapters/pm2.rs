//! PM2, from npm.

use super::super::adapter::{Adapter, Case, Stop};
use super::super::scratch::Scratch;
use super::write;
use anyhow::{Context as _, Result};
use std::path::PathBuf;
use std::process::Command;

pub(crate) fn install(scratch: &Scratch) -> Result<Box<dyn Adapter>> {
    let folder = scratch.node("pm2")?;
    Ok(Box::new(Pm2 { program: folder.join("node_modules/.bin/pm2") }))
}

struct Pm2 {
    program: PathBuf,
}

impl Pm2 {
    fn command(&self, case: &Case, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.env("PM2_HOME", case.folder.join("pm2")).args(words);
        // The default of 2 makes it start services two at a time.
        command.env("PM2_CONCURRENT_ACTIONS", "100").env("PM2_DISABLE_VERSION_CHECK", "true");
        command
    }
}

impl Adapter for Pm2 {
    fn settings(&self) -> &'static str {
        "no interpreter, no restart delay or limit, 100 actions at a time instead of 2, no search for descendants when it stops one (treekill off); rotation is an add-on that looks every 30 s, so it captures without"
    }

    /// JSON built by hand: no word of a case needs escapes.
    fn prepare(&self, case: &Case) -> Result<()> {
        let arguments: Vec<String> =
            case.command[1..].iter().map(|word| format!("{word:?}")).collect();
        let apps: Vec<String> = case
            .names()
            .map(|name| {
                format!(
                    "{{\"name\":\"{name}\",\"script\":{:?},\"args\":[{}],\"interpreter\":\"none\",\
                     \"exec_mode\":\"fork\",\"autorestart\":true,\"restart_delay\":0,\
                     \"min_uptime\":0,\"max_restarts\":1000000,\"treekill\":false,\"pmx\":false,\
                     \"out_file\":{:?},\"error_file\":{:?}}}",
                    case.command[0],
                    arguments.join(","),
                    case.path(&format!("{name}.log")),
                    case.path(&format!("{name}.err"))
                )
            })
            .collect();
        write(&case.folder.join("bench.json"), &format!("{{\"apps\":[{}]}}\n", apps.join(",\n")))
    }

    fn launch(&self, case: &Case) -> Command {
        match case.services {
            0 => self.command(case, &["ping"]),
            _ => self.command(case, &["start", &case.path("bench.json")]),
        }
    }

    fn detaches(&self) -> bool {
        true
    }

    fn main(&self, case: &Case, _launched: u32) -> Result<u32> {
        let file = case.folder.join("pm2/pm2.pid");
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        text.trim().parse().with_context(|| format!("no pid in {}", file.display()))
    }

    fn stop(&self, case: &Case) -> Stop {
        Stop::Command(self.command(case, &["kill"]))
    }

    fn logs(&self, case: &Case, service: usize) -> Result<Vec<PathBuf>> {
        // It adds the number of the instance unless the logs of instances are merged.
        let names = [
            format!("{}.log", case.name(service)),
            format!("{}-{service}.log", case.name(service)),
        ];
        Ok(names.iter().map(|name| case.folder.join(name)).filter(|path| path.exists()).collect())
    }

    fn status(&self, case: &Case, service: usize) -> Option<Command> {
        Some(self.command(case, &["describe", &case.name(service)]))
    }

    fn list(&self, case: &Case) -> Option<Command> {
        Some(self.command(case, &["list"]))
    }
}
