//! `run`: one program in the foreground with all features of a service. Its streams are separate, its exit code is ours, and no
//! process is left afterwards.

use super::interrupt::{FirstEvent, Interrupts};
use super::run_input::{self, Input};
use super::run_terminal::{self, TerminalForRun, TerminalInUse};
use super::session::Session;
use super::{CommandResult, Failure, caller, logs};
use crate::client::{Breaker, CallError, Client};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use proctor_core::name::ServiceName;
use proctor_ops::error::{Code, OpError};
use proctor_ops::log_lines::{Item, Kind, StreamWord};
use proctor_ops::operations::service::wait;
use proctor_ops::status::{ExitKind, ExitStatus};
use proctor_ops::timestamps::rfc3339;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum silence after the program has ended. Its last output is stored within moments.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Read timeout, longer than a long poll.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(90);

/// Timeout for stopping processes that the program left running: signal, grace, kill.
const END_SECONDS: u64 = 120;

/// Seconds of one wait for the end: a day, the maximum. Then it is repeated.
const WATCH_SECONDS: u64 = 24 * 60 * 60;

/// Maximum reconnections to a replaced daemon.
const MAX_CONNECTIONS: usize = 100;

#[derive(Args, Debug, Default)]
pub(crate) struct Options {
    /// Name of the service; the program's name and our pid if omitted
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Environment variable KEY=VALUE; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    env: Vec<String>,
    /// Working folder; the current folder if omitted
    #[arg(long, value_name = "DIR")]
    working_dir: Option<String>,
    /// Program and arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    argv: Vec<String>,
}

pub(crate) fn command() -> Command {
    Command::new("run")
        .about("Run a program in the foreground, supervised")
        .after_help(
            "\
Ctrl-C stops the program with all its processes. It is not restarted, and the service is removed at its end. It is listed by \
`proctor list` while it runs.

At a terminal the program has a terminal of its own, of the same size: shells, editors and colours work, and Ctrl-C, Ctrl-Z and \
Ctrl-D reach the program. To stop it from elsewhere, use `proctor stop NAME`, or send TERM to this command. If this command is \
killed, the program gets a hangup, as when a window is closed.

If standard input or output is not a terminal, both are pipes. The program reads the standard input of this command to its end: \
`echo x | proctor run -- cat`. In a loop that reads lines itself, use `< /dev/null`. If this command is killed, the program keeps \
running, and its input ends.

Examples:
  proctor run -- ./import --all
  proctor run -- bash
  pg_dump shop | proctor run -- gzip > shop.gz
  proctor run --name import --env MODE=test -- python3 import.py",
        )
        .defer(Options::augment_args)
}

pub(crate) fn run(session: &mut Session<'_>, arguments: &ArgMatches) -> CommandResult {
    let options = Options::from_arg_matches(arguments)
        .map_err(|error| OpError::bad_input(error.to_string()))?;
    let name = options.name.clone().unwrap_or_else(|| name_for(&options.argv));
    session.connect(true)?;
    let is_at_terminal = run_terminal::is_wanted();
    let interrupts = if is_at_terminal { Interrupts::catch_all()? } else { Interrupts::catch()? };
    let since = rfc3339(proctor_sys::clock::now().wall);
    // The start rejects an invalid name.
    let legal = ServiceName::parse(&name).ok();
    let offer = |name| TerminalForRun::offer(&session.home, name);
    let terminal = legal.as_ref().filter(|_| is_at_terminal).map(offer).transpose()?;
    let offer = |name| Input::offer(&session.home, name);
    let input = legal.as_ref().filter(|_| !is_at_terminal).map(offer).transpose()?;
    session.call("service.start", &definition(&options, &name))?;
    if run_input::is_typed() && !is_at_terminal && !run_input::is_in_background() {
        session.terminal.note(&format!(
            "{name} reads the lines you type here; Ctrl-D ends its input, Ctrl-C stops it"
        ));
    }
    let terminal = terminal.map(TerminalForRun::begin).transpose()?;
    let mut output = Output::new(&name, &since, terminal.as_ref());
    let left = !output.follow(session, &interrupts, &name)?;
    drop(input);
    match terminal {
        Some(terminal) if !left => terminal.finish(),
        terminal => drop(terminal),
    }
    if left {
        session.terminal.note_over(&format!(
            "left: Proctor continues to stop {name}; remove it with `proctor remove {name}`"
        ));
        return Ok(Code::Timeout.exit());
    }
    let exit = last_exit(session, &name)?;
    session.call("service.remove", &json!({ "names": [name], "purge": true }))?;
    if let Some(exit) = exit.as_ref().filter(|exit| exit.kind != ExitKind::Code) {
        session.terminal.note_over(&format!("{name}: {}", exit.text));
    }
    Ok(exit.as_ref().map_or(1, exit_code))
}

fn definition(options: &Options, name: &str) -> Value {
    let mut input = json!({
        "name": name, "argv": options.argv, "env": options.env, "once": true, "restart_policy": "never", "no_wait": true,
    });
    if let Some(folder) = &options.working_dir {
        input["working_dir"] = json!(folder);
    }
    caller::fill(&mut input);
    input
}

/// Returns a name such as `sleep-4711`, unique while we live.
fn name_for(argv: &[String]) -> String {
    /// Leaves room for the pid in a name.
    const MAX_NAME_BYTES: usize = 40;
    let program =
        argv.first().map(|word| Path::new(word).file_name().unwrap_or_default().to_string_lossy());
    let legal: String = program
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' })
        .skip_while(|c| !c.is_ascii_alphanumeric())
        .take(MAX_NAME_BYTES)
        .collect();
    let legal = if legal.is_empty() { "run".to_owned() } else { legal };
    format!("{legal}-{}", std::process::id())
}

/// Output of the program on its way to our own streams.
struct Output {
    input: Value,
    /// True after the mark of its exit; nothing follows it.
    ended: bool,
    /// True if the terminal or the pipe was closed.
    unheard: bool,
    from_log: FromLog,
}

/// Streams of the program that we show from its log. A terminal shows what is written to it by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FromLog {
    Both,
    Stderr,
    Nothing,
}

/// Result of following over one connection.
enum FollowEnd {
    /// The program has ended.
    Over,
    /// The connection was lost; the program lives.
    Lost,
    /// A second interrupt: the user stops waiting.
    Left,
}

impl Output {
    fn new(name: &str, since: &str, terminal: Option<&TerminalInUse>) -> Output {
        let from_log = match terminal {
            None => FromLog::Both,
            Some(TerminalInUse { with_stderr: false, .. }) => FromLog::Stderr,
            Some(TerminalInUse { with_stderr: true, .. }) => FromLog::Nothing,
        };
        let mut input = json!({ "services": [name], "since": since, "raw": true });
        if from_log == FromLog::Nothing {
            // The end of the program is all that is waited for.
            input["stream"] = json!("stderr");
        }
        Output { input, ended: false, unheard: false, from_log }
    }

    /// Pass on everything until the program has ended. `false`: a second interrupt came first.
    fn follow(
        &mut self,
        session: &Session<'_>,
        interrupts: &Interrupts,
        name: &str,
    ) -> Result<bool, Failure> {
        let mut interrupted = false;
        for _ in 0..MAX_CONNECTIONS {
            self.input["wait"] = json!(logs::POLL_SECONDS);
            match self.stretch(session, interrupts, name, &mut interrupted)? {
                FollowEnd::Left => return Ok(false),
                FollowEnd::Lost => {}
                FollowEnd::Over if self.from_log == FromLog::Nothing => return Ok(true),
                FollowEnd::Over => {
                    self.last_words(&mut session.another()?, interrupts)?;
                    return Ok(true);
                }
            }
        }
        Err(OpError::from(CallError::Lost).into())
    }

    fn stretch(
        &mut self,
        session: &Session<'_>,
        interrupts: &Interrupts,
        name: &str,
        interrupted: &mut bool,
    ) -> Result<FollowEnd, Failure> {
        let mut client = session.another()?;
        let watch = Watch::begin(session, &client, name)?;
        client.send("log.read", &self.input).map_err(OpError::from)?;
        while !self.ended {
            match interrupts.wait(&client, RECONNECT_TIMEOUT)? {
                FirstEvent::Nothing => {}
                FirstEvent::Interrupt if *interrupted => return Ok(FollowEnd::Left),
                FirstEvent::Interrupt => {
                    *interrupted = true;
                    // A terminal that the program uses is not ours to write to.
                    if self.from_log == FromLog::Both {
                        session.terminal.note_over(&format!(
                            "stopping {name}; Ctrl-C again leaves that to Proctor"
                        ));
                    }
                    stop(session, name)?;
                }
                FirstEvent::Answer => match client.receive(RECONNECT_TIMEOUT) {
                    Ok(answer) => {
                        self.pass_on(answer)?;
                        if self.unheard && !*interrupted {
                            *interrupted = true;
                            stop(session, name)?;
                        }
                        client.send("log.read", &self.input).map_err(OpError::from)?;
                    }
                    Err(CallError::Lost) if watch.saw_the_end() => return Ok(FollowEnd::Over),
                    Err(CallError::Lost) => return Ok(FollowEnd::Lost),
                    Err(error) => return Err(OpError::from(error).into()),
                },
            }
        }
        Ok(FollowEnd::Over)
    }

    /// The exit is known before the last output is stored and, with much output, long before it is shown. Reads on
    /// until the mark of
    /// the exit, as long as more comes and there is a reader.
    fn last_words(&mut self, client: &mut Client, interrupts: &Interrupts) -> Result<(), Failure> {
        self.input["wait"] = json!(LAST_WORDS.as_secs_f64());
        client.send("log.read", &self.input).map_err(OpError::from)?;
        while !self.ended && !self.unheard {
            match interrupts.wait(&*client, RECONNECT_TIMEOUT)? {
                FirstEvent::Nothing => {}
                // The program is gone already; the user has seen enough.
                FirstEvent::Interrupt => return Ok(()),
                FirstEvent::Answer => {
                    let answer = client.receive(RECONNECT_TIMEOUT).map_err(OpError::from)?;
                    if !self.pass_on(answer)? {
                        return Ok(());
                    }
                    client.send("log.read", &self.input).map_err(OpError::from)?;
                }
            }
        }
        Ok(())
    }

    /// Returns false if there was nothing new.
    fn pass_on(&mut self, answer: Value) -> Result<bool, Failure> {
        let page = logs::page(answer)?;
        logs::go_on(&mut self.input, &page.cursor);
        for item in &page.items {
            self.ended |= item.kind == Kind::Exited;
            if self.from_log == FromLog::Both || item.stream == StreamWord::Stderr {
                self.unheard = self.unheard || write_line(item).is_err();
            }
        }
        self.unheard = self.unheard || io::stdout().lock().flush().is_err();
        Ok(page.more || !page.items.is_empty())
    }
}

fn stop(session: &Session<'_>, name: &str) -> Result<(), Failure> {
    let stop = json!({ "names": [name], "no_wait": true });
    session.another()?.call("service.stop", &stop, RECONNECT_TIMEOUT).map_err(OpError::from)?;
    Ok(())
}

/// Watches for the end of the program on its own connection, and then ends the wait for output.
struct Watch {
    ended: Arc<AtomicBool>,
    breaker: Breaker,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn begin(session: &Session<'_>, reader: &Client, name: &str) -> Result<Watch, Failure> {
        let ended = Arc::new(AtomicBool::new(false));
        let mut client = session.another()?;
        let (breaker, wake) = (client.breaker()?, reader.breaker()?);
        let input =
            json!({ "names": [name], "until": "stopped", "timeout": WATCH_SECONDS, "tail": 0 });
        let saw = ended.clone();
        let thread = std::thread::spawn(move || {
            let limit = Duration::from_secs(WATCH_SECONDS) + RECONNECT_TIMEOUT;
            while let Ok(answer) = client.call("service.wait", &input, limit) {
                if answer["reached"] == true {
                    saw.store(true, Ordering::SeqCst);
                    break;
                }
            }
            wake.end();
        });
        Ok(Watch { ended, breaker, thread: Some(thread) })
    }

    fn saw_the_end(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.breaker.end();
        if let Some(thread) = self.thread.take() {
            // The thread reports only through `ended`.
            let _ = thread.join();
        }
    }
}

fn write_line(item: &Item) -> io::Result<()> {
    if item.kind != Kind::Line {
        return Ok(());
    }
    let mut line = item.line();
    if !item.cut {
        line.push(b'\n');
    }
    match item.stream {
        StreamWord::Stdout => io::stdout().lock().write_all(&line),
        StreamWord::Stderr => io::stderr().lock().write_all(&line),
    }
}

/// Returns how the program ended, once no process of it is left.
fn last_exit(session: &mut Session<'_>, name: &str) -> Result<Option<ExitStatus>, Failure> {
    let input = json!({ "names": [name], "until": "stopped", "timeout": END_SECONDS, "tail": 0 });
    let answer = session.call("service.wait", &input)?;
    let waited: wait::Output = serde_json::from_value(answer).map_err(|error| {
        OpError::new(Code::Internal, format!("cannot decode the response: {error}"))
    })?;
    Ok(waited.services.into_iter().next().and_then(|service| service.last_exit))
}

/// Returns the exit code as a shell would.
fn exit_code(exit: &ExitStatus) -> u8 {
    /// Exit code for a program that was found but cannot be executed.
    const CANNOT_RUN: u8 = 126;
    match exit.kind {
        ExitKind::Code => exit.code.and_then(|code| u8::try_from(code & 0xff).ok()).unwrap_or(1),
        ExitKind::Signal | ExitKind::Oom => {
            exit.signal.and_then(|signal| u8::try_from(128 + signal).ok()).unwrap_or(1)
        }
        ExitKind::SpawnFailed => CANNOT_RUN,
        ExitKind::Unknown => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        let exit = |kind, code, signal| ExitStatus {
            kind,
            code,
            signal,
            text: String::new(),
            at: String::new(),
            run: String::new(),
        };
        for (given, expected) in [
            (exit(ExitKind::Code, Some(0), None), 0),
            (exit(ExitKind::Code, Some(7), None), 7),
            (exit(ExitKind::Signal, None, Some(15)), 143),
            (exit(ExitKind::Oom, None, Some(9)), 137),
            (exit(ExitKind::SpawnFailed, None, None), 126),
            (exit(ExitKind::Unknown, None, None), 1),
        ] {
            assert_eq!(exit_code(&given), expected, "{given:?}");
        }
    }

    #[test]
    fn a_program_gives_its_service_a_legal_name() {
        let pid = std::process::id();
        for (program, expected) in [
            ("/usr/bin/sleep", "sleep"),
            ("./my tool!", "my-tool-"),
            ("..", "run"),
            ("", "run"),
            ("-x", "x"),
        ] {
            let name = name_for(&[program.to_owned()]);
            assert_eq!(name, format!("{expected}-{pid}"));
            assert!(proctor_core::name::ServiceName::parse(&name).is_ok(), "{name}");
        }
    }
}
