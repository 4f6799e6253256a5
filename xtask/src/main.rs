//! `cargo xtask …`: commands for contributors and CI. Checks, generated files, measurements.
//!
//! Nothing here is part of the product. It may call `cargo` and `git`; `coverage` also `rustup`,
//! `schemathesis` and `mcp` Python, and only `bench` other supervisors, other MCP servers and their
//! installers.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command for people at a terminal"
)]

mod bench;
mod check;
mod coverage;
mod fuzz;
mod mcp;
mod node;
mod schemathesis;
mod served;
mod step;
mod tidy;
mod tool;
mod torture;

use anyhow::{Result, bail};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  check [--no-test]   every check of CI: format, lints, tidy, docs, tests
  test                all tests
  tidy                the rules of this repository that no compiler checks
  gen                 write the generated files; a test of the workspace fails if they are stale
  coverage            line coverage of the tests; fails if it is too low
  fuzz [--seconds N] [TARGET…]
                      run every decoder under a fuzzer; see `fuzz --help`
  bench [--quick]     compare a release build with other supervisors and the bare kernel; see `bench --help`
  mcp [--built] [PART…]
                      the official conformance suites, Inspector and clients against the MCP front; see `mcp --help`
  schemathesis [--built]
                      test the real server with requests generated from its OpenAPI description; see `schemathesis --help`
  torture [--rounds N]
                      kill Proctor's processes at every failpoint and at random moments; see `torture --help`";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match perform(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why:#}");
            ExitCode::FAILURE
        }
    }
}

fn perform(words: &[&str]) -> Result<()> {
    match words {
        ["check"] => check::run(check::Tests::Run),
        ["check", "--no-test"] => check::run(check::Tests::Skip),
        ["test"] => check::test(),
        ["tidy"] => tidy::run(),
        ["gen"] => check::generate(),
        ["coverage"] => coverage::run(),
        ["fuzz", "--help"] => {
            println!("{}", fuzz::USAGE);
            Ok(())
        }
        ["fuzz", options @ ..] => fuzz::run(options),
        ["bench", "--help"] => {
            println!("{}", bench::USAGE);
            Ok(())
        }
        ["bench", options @ ..] => bench::run(options),
        ["mcp", "--help"] => {
            println!("{}", mcp::USAGE);
            Ok(())
        }
        ["mcp", options @ ..] => mcp::run(options),
        ["schemathesis", "--help"] => {
            println!("{}", schemathesis::USAGE);
            Ok(())
        }
        ["schemathesis", options @ ..] => schemathesis::run(options),
        ["torture", "--help"] => {
            println!("{}", torture::USAGE);
            Ok(())
        }
        ["torture", options @ ..] => torture::run(options),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        [] => bail!("missing command\n{USAGE}"),
        unknown => bail!("unknown: {}\n{USAGE}", unknown.join(" ")),
    }
}
