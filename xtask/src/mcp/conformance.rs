//! The official conformance suites against the real binary over HTTP: as released, and with the
//! fixtures that the suites need.

use super::Tried;
use super::verdict::{Expected, judge};
use crate::served::Served;
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Stdio;

/// Enables the fixtures that the suites need.
const FIXTURES: (&str, &str) = ("PROCTOR_MCP_FIXTURES", "1");

/// One service, so that there is a resource to read.
const CONFIG: &str = "\
supervisor:
  port: off
  http: { port: 0 }
  services:
    web: { command: [sleep, '100000'] }
";

/// One run of a suite.
struct Run {
    package: &'static str,
    /// The words that select scenarios and revision.
    words: &'static [&'static str],
    /// None of its scenarios can pass without fixtures.
    only_fixtures: bool,
}

const RUNS: &[Run] = &[
    Run { package: "conformance-latest", words: &["--suite", "all"], only_fixtures: false },
    next(&["--suite", "all", "--spec-version", "2025-03-26"]),
    next(&["--suite", "all", "--spec-version", "2025-06-18"]),
    next(&["--suite", "all", "--spec-version", "2025-11-25"]),
    next(&["--suite", "all", "--spec-version", "2026-07-28"]),
    // Extensions belong to no revision.
    Run { package: "conformance-next", words: &["--suite", "pending"], only_fixtures: true },
];

const fn next(words: &'static [&'static str]) -> Run {
    Run { package: "conformance-next", words, only_fixtures: false }
}

pub(super) fn run(tried: &Tried) -> Result<()> {
    let mut wrong = 0;
    for expected in [Expected::AsUsersGetIt, Expected::WithFixtures] {
        let environment = match expected {
            Expected::AsUsersGetIt => &[][..],
            Expected::WithFixtures => &[FIXTURES][..],
        };
        let served = Served::start(&tried.proctor, "conformance", CONFIG, environment)?;
        let before = served.daemon_pid()?;
        for run in RUNS {
            if expected == Expected::AsUsersGetIt && run.only_fixtures {
                continue;
            }
            wrong += run.judged(tried, &served, expected)?;
        }
        ensure!(served.daemon_pid()? == before, "the daemon was replaced");
    }
    ensure!(wrong == 0, "{wrong} checks did not pass");
    Ok(())
}

impl Run {
    /// Returns the number of failed checks.
    fn judged(&self, tried: &Tried, served: &Served, expected: Expected) -> Result<usize> {
        let name = format!("{} {} {}", self.package, self.words.join(" "), expected.words());
        let results = served.home.join("conformance").join(name.replace(' ', "_"));
        self.perform(tried, &format!("http://{}/mcp", served.address()?), &results)?;
        println!("-- {name}");
        judge(&results, expected)
    }

    /// Ignores its exit code: it fails if a scenario needs a fixture, and passes with warnings.
    fn perform(&self, tried: &Tried, url: &str, results: &Path) -> Result<()> {
        let script = tried.installed.modules().join(self.package).join("dist/index.js");
        let mut suite = tried.installed.node(&script);
        suite.args(["server", "--url", url, "--output-dir"]).arg(results).args(self.words);
        suite.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        suite.status()?;
        Ok(())
    }
}
