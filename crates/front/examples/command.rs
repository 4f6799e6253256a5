//! The command line alone, without a Proctor to start: for tests against a scripted daemon, and to measure its start.

use proctor_core::home::Home;
use proctor_front::cli::{Launch, Launching, main as command_line};
use std::process::ExitCode;

struct Nothing;

impl Launch for Nothing {
    fn launch(&self, home: &Home, _: &Launching) -> Result<u32, String> {
        Err(format!("nothing can be started in {}", home.state.display()))
    }
}

fn main() -> ExitCode {
    ExitCode::from(command_line(&Nothing))
}
