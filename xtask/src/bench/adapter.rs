//! The interface to a supervisor under measurement, and the list of supervisors.
//!
//! An adapter configures, launches and stops; it measures nothing and waits for nothing.
//! [`Session`](super::session::Session) finds and ends everything it launches.

use super::adapters::{bare, circus, horust, pitchfork, pm2, proctor, runit, s6, supervisord};
use super::options::Part;
use super::scratch::Scratch;
use anyhow::Result;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Installs a supervisor, or fails with the reason.
type Install = fn(&Scratch) -> Result<Box<dyn Adapter>>;

/// Always measured; if one of these breaks, the benchmark has failed.
pub(crate) const OWN: &[(&str, Install)] = &[
    ("bare", bare::kernel),
    ("bare read/write", bare::read_write),
    ("bare splice", bare::splice),
    ("proctor", proctor::install),
];

pub(crate) const PEERS: &[(&str, Install)] = &[
    ("supervisord", supervisord::install),
    ("circus", circus::install),
    ("runit", runit::install),
    ("s6", s6::install),
    ("pm2", pm2::install),
    ("horust", horust::install),
    ("pitchfork", pitchfork::install),
];

/// One set of services under one supervisor, in its own folder.
pub(crate) struct Case {
    pub(crate) folder: PathBuf,
    pub(crate) services: usize,
    /// The command of each service. No word contains a space or a quote.
    pub(crate) command: Vec<String>,
    /// Size at which a log file is closed; none is ever deleted.
    pub(crate) rotate: u64,
}

impl Case {
    pub(crate) fn name(&self, service: usize) -> String {
        format!("s{service:04}")
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        (0..self.services).map(|service| self.name(service))
    }

    /// The command as one string, for configurations that need it.
    pub(crate) fn line(&self) -> String {
        self.command.join(" ")
    }

    /// Number of files to keep, for configurations that need it: more than can exist.
    pub(crate) fn files(&self) -> u64 {
        1000
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

/// The way to stop everything in order. A documented signal if there is one, because it is faster
/// than a command.
pub(crate) enum Stop {
    Signal(Signal),
    Command(Command),
}

pub(crate) trait Adapter {
    /// The settings, their reasons and the limits of this supervisor, as a sentence for readers of
    /// the table.
    fn settings(&self) -> &'static str;

    fn takes(&self, part: Part) -> bool {
        !matches!(part, Part::Hostile | Part::Rest)
    }

    /// Whether it keeps running without any service.
    fn runs_empty(&self) -> bool {
        true
    }

    /// Writes the configuration into the folder of the case.
    fn prepare(&self, case: &Case) -> Result<()>;

    /// The command that starts it with all services.
    fn launch(&self, case: &Case) -> Command;

    /// Whether the launched command returns when everything is up. Otherwise it is the supervisor
    /// itself.
    fn detaches(&self) -> bool {
        false
    }

    /// The root process of everything.
    fn main(&self, _case: &Case, launched: u32) -> Result<u32> {
        Ok(launched)
    }

    fn stop(&self, case: &Case) -> Stop;

    /// The files with a service's standard output, in the order in which they were written.
    fn logs(&self, case: &Case, service: usize) -> Result<Vec<PathBuf>>;

    /// Whether the log has more bytes than the service wrote.
    fn adds_to_lines(&self) -> bool {
        false
    }

    /// A command that shows one service.
    fn status(&self, _case: &Case, _service: usize) -> Option<Command> {
        None
    }

    /// A command that reports its own status and addresses as JSON.
    fn own_status(&self, _case: &Case) -> Option<Command> {
        None
    }

    /// A command that shows all services.
    fn list(&self, _case: &Case) -> Option<Command> {
        None
    }
}

/// `NAME.2`, `NAME.1`, `NAME`: the numbering of Python's and other rotating files.
pub(crate) fn numbered_backups(file: &Path, most: u64) -> Vec<PathBuf> {
    let backup = |number: u64| PathBuf::from(format!("{}.{number}", file.display()));
    let count = (1..=most).take_while(|&number| backup(number).exists()).count() as u64;
    let backups = (1..=count).rev().map(backup);
    backups.chain(std::iter::once(file.to_path_buf())).collect()
}

/// The matching files of a folder, sorted by name.
pub(crate) fn sorted_files(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut files: Vec<PathBuf> = paths
        .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(&wanted))
        .collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the names of the found files, oldest first.
    #[track_caller]
    fn check(made: &[&str], find: impl Fn(&Path) -> Vec<PathBuf>, expected: &[&str]) {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        for name in made {
            std::fs::write(folder.path().join(name), "").expect("a file can be written");
        }
        let found = find(folder.path());
        let names: Vec<_> = found.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        assert_eq!(names, expected, "{made:?}");
    }

    #[test]
    fn log_files_come_in_the_order_in_which_they_were_written() {
        let numbered = |folder: &Path| numbered_backups(&folder.join("a"), 3);
        check(&["a"], numbered, &["a"]);
        check(&["a", "a.1", "a.2", "b.1"], numbered, &["a.2", "a.1", "a"]);
        check(&["a", "a.1", "a.3"], numbered, &["a.1", "a"]);
        let sorted = |folder: &Path| sorted_files(folder, |name| name.starts_with('@'));
        check(&["@2", "@1", "current"], sorted, &["@1", "@2"]);
        check(&[], sorted, &[]);
    }
}
