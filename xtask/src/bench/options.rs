//! The options of `cargo xtask bench`, and the amount of measurement.

use super::adapter::PEERS;
use super::code::RG;
use super::mcp::peers;
use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench [--quick] [--only PART] [--peers a,b,c] [--scratch DIR] [--write]

  --quick        small numbers, once, to check that everything works
  --only PART    start, crash, memory, idle, logs, cli, hostile, rest, mcp, replies or code; repeatable
  --peers a,b,c  only these peers; `none` for Proctor and the bare kernel alone
  --scratch DIR  folder for installations and runs; default: target/bench-peers
  --write        also write the table to docs/benchmarks.md; with --only, only those parts";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Start,
    Crash,
    Memory,
    Idle,
    Logs,
    Cli,
    Hostile,
    Rest,
    Mcp,
    Replies,
    Code,
}

impl Part {
    /// Whether this part is about MCP servers, their tools and their work on code, not about
    /// supervisors.
    pub(crate) fn is_of_assistants(self) -> bool {
        matches!(self, Part::Mcp | Part::Replies | Part::Code)
    }
}

const PARTS: &[(&str, Part)] = &[
    ("start", Part::Start),
    ("crash", Part::Crash),
    ("memory", Part::Memory),
    ("idle", Part::Idle),
    ("logs", Part::Logs),
    ("cli", Part::Cli),
    ("hostile", Part::Hostile),
    ("rest", Part::Rest),
    ("mcp", Part::Mcp),
    ("replies", Part::Replies),
    ("code", Part::Code),
];

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) plan: Plan,
    pub(crate) parts: Vec<Part>,
    pub(crate) peers: Vec<String>,
    pub(crate) scratch: Option<PathBuf>,
    pub(crate) write: bool,
}

/// The amount of each measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) quick: bool,
    pub(crate) repeats: usize,
    pub(crate) services: usize,
    pub(crate) kills: usize,
    pub(crate) commands: usize,
    pub(crate) idle: Duration,
    /// Time for a started supervisor to settle.
    pub(crate) settle: Duration,
    pub(crate) log_bytes: u64,
    /// Number of hostile connections to one port.
    pub(crate) crowd: usize,
    /// Size of the searched tree.
    pub(crate) tree_bytes: usize,
    /// Time limit for the kills or the commands of one figure: slow ones are repeated less often.
    pub(crate) patience: Duration,
}

/// With all peers it takes about half an hour on 2 cores.
const FULL: Plan = Plan {
    quick: false,
    repeats: 5,
    services: 1000,
    kills: 200,
    commands: 200,
    idle: Duration::from_secs(15),
    settle: Duration::from_secs(2),
    log_bytes: 512 << 20,
    crowd: 5000,
    tree_bytes: 200 << 20,
    patience: Duration::from_secs(5),
};

const QUICK: Plan = Plan {
    quick: true,
    repeats: 1,
    services: 100,
    kills: 30,
    commands: 30,
    idle: Duration::from_secs(5),
    settle: Duration::from_secs(1),
    log_bytes: 64 << 20,
    crowd: 1000,
    tree_bytes: 20 << 20,
    patience: Duration::from_secs(8),
};

impl Options {
    pub(crate) fn parse(words: &[&str]) -> Result<Options> {
        let all = known().map(str::to_owned).collect();
        let mut options =
            Options { plan: FULL, parts: Vec::new(), peers: all, scratch: None, write: false };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} what?\n{USAGE}"));
            match word {
                "--quick" => options.plan = QUICK,
                "--write" => options.write = true,
                "--only" => options.parts.push(part(value()?)?),
                "--peers" => options.peers = listed(value()?)?,
                "--scratch" => options.scratch = Some(PathBuf::from(value()?)),
                unknown => bail!("unknown: {unknown}\n{USAGE}"),
            }
        }
        if options.parts.is_empty() {
            options.parts = PARTS.iter().map(|(_, part)| *part).collect();
        }
        Ok(options)
    }

    pub(crate) fn wants(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// Whether nothing is left out.
    pub(crate) fn is_complete(&self) -> bool {
        PARTS.iter().all(|(_, part)| self.wants(*part))
    }

    pub(crate) fn wants_peer(&self, name: &str) -> bool {
        self.peers.iter().any(|peer| peer == name)
    }
}

fn part(word: &str) -> Result<Part> {
    let found = PARTS.iter().find(|(name, _)| *name == word);
    found.map(|(_, part)| *part).with_context(|| format!("no part is called {word}\n{USAGE}"))
}

/// Supervisors, MCP servers and ripgrep that we compare with.
fn known() -> impl Iterator<Item = &'static str> {
    let supervisors = PEERS.iter().map(|(name, _)| *name);
    supervisors.chain(peers::PEERS.iter().map(|(name, _)| *name)).chain([RG])
}

pub(crate) fn is_peer(name: &str) -> bool {
    known().any(|peer| peer == name)
}

fn listed(list: &str) -> Result<Vec<String>> {
    let names = list.split(',').filter(|name| !name.is_empty() && *name != "none");
    names
        .map(
            |name| {
                if is_peer(name) { Ok(name.to_owned()) } else { bail!("no peer is called {name}") }
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts, number of peers, quick.
    #[track_caller]
    fn check(words: &[&str], expected: Option<(&[Part], usize, bool)>) {
        let found = Options::parse(words).ok();
        let found = found.as_ref().map(|o| (o.parts.as_slice(), o.peers.len(), o.plan.quick));
        assert_eq!(found, expected, "{words:?}");
    }

    #[test]
    fn words_say_what_is_measured() {
        let all: Vec<Part> = PARTS.iter().map(|(_, part)| *part).collect();
        check(&[], Some((&all, known().count(), false)));
        check(&["--quick"], Some((&all, known().count(), true)));
        check(&["--only", "logs"], Some((&[Part::Logs], known().count(), false)));
        check(
            &["--only", "cli", "--only", "idle"],
            Some((&[Part::Cli, Part::Idle], known().count(), false)),
        );
        check(&["--peers", "none"], Some((&all, 0, false)));
        check(&["--peers", "s6,mcp-server-git"], Some((&all, 2, false)));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        check(&["--only"], None);
        check(&["--only", "everything"], None);
        check(&["--peers", "systemd"], None);
        check(&["--fast"], None);
    }
}
