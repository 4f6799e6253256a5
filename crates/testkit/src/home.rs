//! A separate Proctor for a test: a fresh home, the real binary, and nothing left when the test is
//! over.

use crate::binary;
use crate::cleanup::Sweep;
use crate::process;
use crate::process_groups;
use crate::wait;
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Timeout of any command.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
const SWEEP_LIMIT: Duration = Duration::from_secs(20);
/// Lines of Proctor's own log shown when a test fails.
const SHOWN_LINES: usize = 60;

/// Variable for the output of coverage counters. Set only by `cargo xtask coverage`.
const PROFILE: &str = "LLVM_PROFILE_FILE";

/// Tests run beside each other and beside a Proctor in use: none listens unless its test requests
/// it, and then on a free port.
const PORTS: [&str; 2] = ["SUPERVISOR_PORT", "PROCTOR_HTTP_PORT"];

/// A home under a temporary folder. Dropping it kills the keeper, the daemon, the guard and every
/// service in it.
pub struct Home {
    folder: TempDir,
    /// The port of every network listener: `off`, or 0 for any free one.
    port: &'static str,
}

impl Home {
    /// Creates a path short enough for a socket's address (108 bytes), whatever `TMPDIR` is.
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "it makes a folder; that should be seen")]
    pub fn new() -> Home {
        Home::named("p-")
    }

    /// Creates a home whose folder name starts with this text, to test unusual names.
    #[track_caller]
    pub fn named(beginning: &str) -> Home {
        let folder = tempfile::Builder::new().prefix(beginning).tempdir_in("/tmp");
        Home { folder: folder.expect("/tmp can be written"), port: "off" }
    }

    /// Creates a home whose daemon listens on its own free ports: [`Home::port`].
    #[track_caller]
    pub fn listening() -> Home {
        let mut home = Home::new();
        home.port = "0";
        home
    }

    /// The port of the running daemon for this front: `tcp` or `http`.
    #[track_caller]
    pub fn port(&self, front: &str) -> u16 {
        wait::wait_for("the daemon to listen", COMMAND_LIMIT, || {
            let status = self.json(["daemon", "status"]);
            status["listening"][front].as_str()?.rsplit_once(':')?.1.parse().ok()
        })
    }

    /// Both the home of Proctor and the working directory of its commands.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns `proctor --home … ARGS` with its own environment: `PATH`, `HOME`, UTC and plain
    /// text.
    #[track_caller]
    pub fn command<Word: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = Word>) -> Command {
        let mut command = Command::new(binary::proctor());
        command
            .arg("--home")
            .arg(self.path())
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()))
            .env("HOME", self.path())
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .envs(PORTS.map(|variable| (variable, self.port)))
            .envs(std::env::var_os(PROFILE).map(|file| (PROFILE, file)))
            .current_dir(self.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end, whatever its result.
    #[track_caller]
    pub fn run<Word: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = Word>) -> Output {
        process::finish(&mut self.command(args), COMMAND_LIMIT)
    }

    /// Returns the output; panics with all output unless it exits with 0.
    #[track_caller]
    pub fn ok<Word: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = Word>) -> String {
        let mut command = self.command(args);
        let output = process::finish(&mut command, COMMAND_LIMIT);
        assert!(output.status.success(), "{}", told(&command, &output));
        text(&output.stdout)
    }

    /// Returns the exit code and stderr; panics if it exits with 0 or dies of a signal.
    #[track_caller]
    pub fn fail<Word: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = Word>) -> (i32, String) {
        let mut command = self.command(args);
        let output = process::finish(&mut command, COMMAND_LIMIT);
        match output.status.code() {
            Some(code) if code != 0 => (code, text(&output.stderr)),
            Some(_) | None => panic!("a failure was expected: {}", told(&command, &output)),
        }
    }

    /// Returns the document that it prints with `--json`.
    #[track_caller]
    pub fn json<Word: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = Word>) -> Value {
        let mut words = vec!["--json".into()];
        words.extend(args.into_iter().map(|word| word.as_ref().to_owned()));
        let printed = self.ok(words);
        serde_json::from_str(&printed).unwrap_or_else(|why| panic!("not JSON ({why}):\n{printed}"))
    }

    /// Writes a file below the home; creates its folders.
    #[track_caller]
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path().join(name);
        let folder = path.parent().expect("a file in the home has a folder");
        std::fs::create_dir_all(folder).expect("a folder can be made in the home");
        std::fs::write(&path, content).expect("a file can be written in the home");
        path
    }

    /// The pid of the running keeper, as it reports itself.
    #[track_caller]
    pub fn keeper_pid(&self) -> u32 {
        self.own_pid("keeper")
    }

    /// Like [`Home::keeper_pid`], while keepers are being replaced: `None` if no daemon responds,
    /// or one that has lost its keeper.
    #[track_caller]
    pub fn living_keeper(&self) -> Option<u32> {
        let output = self.run(["--json", "daemon", "status"]);
        let status: Value = serde_json::from_slice(&output.stdout).ok()?;
        let pid = u32::try_from(status["keeper"]["pid"].as_u64()?).ok()?;
        process::alive(pid).then_some(pid)
    }

    /// The pid of the running daemon, as it reports itself.
    #[track_caller]
    pub fn daemon_pid(&self) -> u32 {
        self.own_pid("daemon")
    }

    /// The pid of the guard; waits for it, because the keeper starts it last.
    #[track_caller]
    pub fn guard_pid(&self) -> u32 {
        let home = self.path().display().to_string();
        let guards = || process::running(&["__guard", &home]);
        wait::wait_for("a guard", COMMAND_LIMIT, || guards().pop())
    }

    #[track_caller]
    fn own_pid(&self, who: &str) -> u32 {
        let status = self.json(["daemon", "status"]);
        let pid = status[who]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        pid.unwrap_or_else(|| panic!("no pid of the {who} in {status:#}"))
    }

    /// The log of the keeper and the daemon.
    pub fn own_log(&self) -> String {
        text(&std::fs::read(self.path().join("proctor.log")).unwrap_or_default())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let failing = std::thread::panicking();
        if failing {
            self.show_own_log();
        }
        let sweep = Sweep::new(self.path());
        if failing {
            // A second panic would hide the first: cleans up as far as possible, silently.
            let _swept = std::panic::catch_unwind(|| sweep_all(&sweep));
        } else {
            sweep_all(&sweep);
        }
        process_groups::remove_of(self.path());
    }
}

fn sweep_all(sweep: &Sweep) {
    wait::wait_until("the processes of a home to end", SWEEP_LIMIT, || sweep.round());
}

impl Home {
    #[expect(clippy::print_stderr, reason = "it is part of a failing test's message")]
    fn show_own_log(&self) {
        let log = self.own_log();
        let lines: Vec<&str> = log.lines().collect();
        let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
        eprintln!("--- the end of proctor.log ---\n{}\n---", shown.join("\n"));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn told(command: &Command, output: &Output) -> String {
    format!(
        "{command:?} ended with {}\n--- stdout\n{}--- stderr\n{}---",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    )
}
