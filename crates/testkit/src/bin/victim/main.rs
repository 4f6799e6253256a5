//! `victim`: a process that misbehaves on request, for tests that supervise it.
//!
//! Settings (`--ignore-term`, `--pid-file`, …) apply for the whole life. Actions (`--lines`,
//! `--fork`, `--ready-file`, …) run in the order of the command line, so `--ready-file R
//! --wait-file G --exit 3` reports that it is ready, waits for the file, and only then exits.
//! Without `--exit`, `--exit-after` or `--signal-self` it waits for signals afterwards. Every flag
//! is described in [`script`].
//!
//! There is no `fork` in safe Rust: descendants are this same program, started again with `--role`.

mod arm;
mod family;
mod http;
mod output;
mod report;
mod script;
mod wait;

use script::{Action, Ending, Role, Script};
use std::path::Path;
use std::process::ExitCode;

/// Exit code of a victim that failed to perform an action; no test requests it.
const FAILED: u8 = 97;

fn main() -> ExitCode {
    // Before we open any descriptor.
    let descriptors = report::descriptors();
    match live(&descriptors) {
        Ok(code) => code,
        Err(why) => {
            output::complain(&why);
            ExitCode::from(FAILED)
        }
    }
}

fn live(descriptors: &[String]) -> Result<ExitCode, String> {
    let script = Script::parse(std::env::args_os().skip(1))?;
    // Armed before it is recorded: a reader of the pid may send a signal at once.
    arm::arm(&script)?;
    family::record(&script)?;
    match script.role {
        Role::Main => {}
        Role::Child
        | Role::Session
        | Role::Middle
        | Role::Daemon
        | Role::HolderMiddle
        | Role::Holder
        | Role::Brief => return family::live(&script),
    }
    let mut memory = Vec::new();
    for action in &script.actions {
        perform(action, &script, descriptors, &mut memory)?;
    }
    let code = end(&script.ending)?;
    drop(memory);
    Ok(code)
}

fn perform(
    action: &Action,
    script: &Script,
    descriptors: &[String],
    memory: &mut Vec<Vec<u8>>,
) -> Result<(), String> {
    match action {
        Action::Lines(count) => output::lines(script, *count),
        Action::Spam => output::spam(script),
        Action::Raw(bytes) => output::raw(bytes),
        Action::LongLine(length) => output::long_line(*length),
        Action::CloseStdout => output::close_stdout(),
        Action::ReopenStdout => output::reopen_stdout(),
        Action::PrintEnv => report::environment(),
        Action::PrintCwd => report::working_dir(),
        Action::PrintFds => report::print(descriptors),
        Action::PrintIds => report::identity(),
        Action::Fork(count) => (0..*count).try_for_each(|_| family::start(script, Role::Child)),
        Action::Setsid => family::start(script, Role::Session),
        Action::DoubleFork => family::start(script, Role::Middle),
        Action::HoldFd => family::start(script, Role::HolderMiddle),
        Action::ForkStorm => family::storm(script),
        Action::Http(port) => http::serve(*port, script.http_status, script.http_fail_after),
        Action::Eat(mebibytes) => {
            memory.push(std::hint::black_box(vec![1; mebibytes << 20]));
            Ok(())
        }
        Action::StopSelf => raise(signal_hook::consts::SIGSTOP),
        Action::Touch(path) => touch(path),
        Action::ReadyFile(path) => ready(path),
        Action::WaitFile(path) => wait::for_file(path),
    }
}

fn end(ending: &Ending) -> Result<ExitCode, String> {
    if let Some(delay) = ending.after {
        wait::rest(delay);
    }
    if let Some(signal) = ending.signal {
        raise(signal)?;
        // Still alive: the signal is ignored or caught, by us or by the Rust runtime.
        signal_hook::low_level::emulate_default_handler(signal)
            .map_err(|why| format!("signal {signal}: {why}"))?;
        return Err(format!("signal {signal} did not end this process"));
    }
    match ending.exit {
        Some(code) => Ok(ExitCode::from(code)),
        None => wait::for_signals(),
    }
}

fn raise(signal: i32) -> Result<(), String> {
    signal_hook::low_level::raise(signal)
        .map_err(|why| format!("cannot send myself signal {signal}: {why}"))
}

fn touch(path: &Path) -> Result<(), String> {
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map(drop)
        .map_err(|why| format!("cannot touch {}: {why}", path.display()))
}

/// Creates the file together with its content, so that it is never empty.
fn ready(path: &Path) -> Result<(), String> {
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    std::fs::write(&draft, format!("{}\n", std::process::id()))
        .and_then(|()| std::fs::rename(&draft, path))
        .map_err(|why| format!("cannot write {}: {why}", path.display()))
}
