//! One supervisor with its services, from launch to the exit of the last process, on every path.
//!
//! Everything that it starts descends from us (orphans are adopted); dropping a session ends all of
//! it and removes its folder. So there is only one session at a time.

use super::adapter::{Adapter, Case, Stop};
use super::clock::{Nanoseconds, now};
use super::exits::Exits;
use super::reports::{Kind, Report, Reports};
use super::{interrupt, process};
use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::Signal;
use std::collections::HashSet;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A supervisor without any sign of life for this long counts as broken, not as slow.
const SILENCE: Duration = Duration::from_secs(120);
/// A stop without any exit for this long counts as lost.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
const STOP_ATTEMPTS: usize = 4;
/// Timeout for an orderly end that is not measured.
const FAREWELL: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_secs(1);
/// Lines of a failed command's output to show.
const SHOWN_LINES: usize = 20;
const SAID: &str = "launch.out";
/// The socket; its gate is beside it.
pub(crate) const SOCKET: &str = "reports";

pub(crate) struct Session<'a> {
    adapter: &'a dyn Adapter,
    pub(crate) case: Case,
    pub(crate) reports: Reports,
    launched: Child,
    begin: Nanoseconds,
    /// Pids by order of arrival.
    pub(crate) services: Vec<u32>,
}

impl<'a> Session<'a> {
    /// Configures and launches; returns at once.
    pub(crate) fn launch(adapter: &'a dyn Adapter, case: Case) -> Result<Session<'a>> {
        let reports = Reports::listen(&case.folder.join(SOCKET))?;
        adapter.prepare(&case)?;
        let said = File::create(case.folder.join(SAID)).context("cannot make a file")?;
        let mut command = outside(adapter.launch(&case), &case.folder);
        command.stderr(said.try_clone().context("cannot use a file twice")?).stdout(said);
        let begin = now();
        let launched = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
        Ok(Session { adapter, case, reports, launched, begin, services: Vec::new() })
    }

    /// Waits for all services; returns the time from launch to the main of the last one.
    pub(crate) fn all_begun(&mut self) -> Result<Nanoseconds> {
        let mut seen = HashSet::new();
        let mut last = self.begin;
        while seen.len() < self.case.services {
            let report = self.report(Kind::Begun).with_context(|| {
                format!("{} of {} services began", seen.len(), self.case.services)
            })?;
            seen.insert(report.pid);
            last = last.max(report.begin);
        }
        self.services = seen.into_iter().collect();
        Ok(last - self.begin)
    }

    /// The next report of this kind; drops others.
    pub(crate) fn report(&mut self, kind: Kind) -> Result<Report> {
        let begin = Instant::now();
        loop {
            match self.reports.next(LOOK)? {
                Some(report) if report.kind == kind => return Ok(report),
                Some(_) => {}
                None => {
                    self.check_launched()?;
                }
            }
            if begin.elapsed() > SILENCE {
                bail!("nothing happened for {} s\n{}", SILENCE.as_secs(), self.said());
            }
        }
    }

    /// Waits until the work of the start is over.
    pub(crate) fn settle(&mut self, time: Duration) -> Result<()> {
        let begin = Instant::now();
        while self.adapter.detaches() && self.check_launched()? {
            ensure!(begin.elapsed() < SILENCE, "the launch does not end\n{}", self.said());
            interrupt::pause(interrupt::LOOK)?;
        }
        interrupt::pause(time)?;
        self.check_launched().map(|_| ())
    }

    /// Kills one service; returns the time to the main of its next run.
    pub(crate) fn crash(&mut self, service: usize) -> Result<Nanoseconds> {
        let victim = self.services[service];
        let begin = now();
        process::signal(victim, Signal::KILL)?;
        let report = self.report(Kind::Begun).context("a killed service did not come back")?;
        self.services[service] = report.pid;
        Ok(report.begin.saturating_sub(begin))
    }

    /// Stops everything; returns the time from the command to the exit of the last service.
    ///
    /// Some supervisors lose a stop while they are busy; it is sent again, and the time continues.
    pub(crate) fn stop(self) -> Result<Nanoseconds> {
        let mut exits = Exits::watch(&self.services)?;
        let main = self.main()?;
        let begin = now();
        for _ in 0..STOP_ATTEMPTS {
            self.tell_to_stop(main)?;
            if let Some(end) = exits.last(STOP_TIMEOUT)? {
                // Helpers may live for another moment; dropping the session ends them.
                return Ok(end - begin);
            }
        }
        bail!("{} services still ran after {STOP_ATTEMPTS} stops", exits.left())
    }

    fn tell_to_stop(&self, main: u32) -> Result<()> {
        match self.adapter.stop(&self.case) {
            Stop::Signal(signal) => process::signal(main, signal),
            Stop::Command(command) => {
                let mut command = outside(command, &self.case.folder);
                command.spawn().with_context(|| format!("cannot run {command:?}")).map(|_| ())
            }
        }
    }

    /// The root process of everything.
    pub(crate) fn main(&self) -> Result<u32> {
        self.adapter.main(&self.case, self.launched.id())
    }

    /// All processes that are not services: the supervisor, its helpers and loggers.
    pub(crate) fn supervisors(&self) -> Result<Vec<u32>> {
        let services: HashSet<u32> = self.services.iter().copied().collect();
        let mut pids = process::tree(self.main()?)?;
        pids.retain(|pid| !services.contains(pid));
        Ok(pids)
    }

    /// Whether the launched command still runs. Fails if it should run but does not, or if it
    /// failed.
    fn check_launched(&mut self) -> Result<bool> {
        interrupt::check()?;
        match self.launched.try_wait().context("cannot ask for a child")? {
            None => Ok(true),
            Some(status) if status.success() && self.adapter.detaches() => Ok(false),
            Some(status) => bail!("the launched command ended with {status}\n{}", self.said()),
        }
    }

    fn said(&self) -> String {
        let text = std::fs::read(self.case.folder.join(SAID)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let mut lines: Vec<&str> = text.lines().collect();
        lines.dedup();
        lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
    }
}

impl Session<'_> {
    /// Lets it clean up (sockets, cgroups) before the rest is killed. Also after an interrupt,
    /// hence the plain wait.
    fn stop_orderly(&mut self) -> Result<()> {
        let main = self.main()?;
        if !process::is_alive(main) {
            return Ok(());
        }
        self.tell_to_stop(main)?;
        let begin = Instant::now();
        while process::is_alive(main) && begin.elapsed() < FAREWELL {
            // Also reaps it.
            let _ = self.launched.try_wait();
            std::thread::sleep(interrupt::LOOK / 10);
        }
        Ok(())
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // It may be gone or broken; everything is killed afterwards.
        let _ = self.stop_orderly();
        if let Err(why) = process::end_all() {
            println!("not everything could be ended: {why:#}");
        }
        if let Err(why) = std::fs::remove_dir_all(&self.case.folder) {
            println!("cannot remove {}: {why}", self.case.folder.display());
        }
    }
}

/// Gives every supervisor the same small environment, and protects it from our Ctrl-C.
pub(crate) fn outside(mut command: Command, folder: &Path) -> Command {
    use std::os::unix::process::CommandExt as _;
    let own: Vec<_> = command
        .get_envs()
        .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
        .collect();
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    command.env_clear().env("PATH", path).env("HOME", folder).env("LANG", "C.UTF-8");
    command.envs(own).current_dir(folder).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}
