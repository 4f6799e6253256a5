//! A Proctor of a test's own: a fresh home, the real binary, and nothing left when the test is over.

use crate::binary;
use crate::groups;
use crate::process;
use crate::sweep::Sweep;
use crate::wait;
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// No command of the command line may take longer, whatever it waits for.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
const SWEEP_LIMIT: Duration = Duration::from_secs(20);
/// Of Proctor's own log, shown when a test fails.
const SHOWN_LINES: usize = 60;

/// Where a program that counts its own lines puts the counts. Set by `cargo xtask coverage` alone.
const PROFILE: &str = "LLVM_PROFILE_FILE";

/// Tests run beside each other and beside a Proctor that somebody uses: none listens unless its test asks for it, and then
/// on any port that is free.
const PORTS: [&str; 2] = ["SUPERVISOR_PORT", "PROCTOR_HTTP_PORT"];

/// A home under a temporary folder. Dropping it kills the keeper, the daemon, the guard and every service in it.
pub struct Home {
    folder: TempDir,
    /// Of every listener on the network: `off`, or 0 for any that is free.
    port: &'static str,
}

impl Home {
    /// A path short enough for a socket's address (108 bytes), whatever `TMPDIR` says.
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "it makes a folder; that should be seen")]
    pub fn new() -> Home {
        Home::named("p-")
    }

    /// A home whose folder's name begins like this: to see that every name works.
    #[track_caller]
    pub fn named(beginning: &str) -> Home {
        let folder = tempfile::Builder::new().prefix(beginning).tempdir_in("/tmp");
        Home { folder: folder.expect("/tmp can be written"), port: "off" }
    }

    /// One whose daemon listens on the network, on ports of its own: [`Home::port`].
    #[track_caller]
    pub fn listening() -> Home {
        let mut home = Home::new();
        home.port = "0";
        home
    }

    /// Where the running daemon listens for this front: `tcp` or `http`.
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

    /// `proctor --home … ARGS` with an environment of its own: `PATH`, `HOME`, UTC and plain text.
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

    /// Run to the end, whatever it says.
    #[track_caller]
    pub fn run<Word: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = Word>) -> Output {
        process::finish(&mut self.command(args), COMMAND_LIMIT)
    }

    /// What it prints; panics with everything it said unless it exits with 0.
    #[track_caller]
    pub fn ok<Word: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = Word>) -> String {
        let mut command = self.command(args);
        let output = process::finish(&mut command, COMMAND_LIMIT);
        assert!(output.status.success(), "{}", told(&command, &output));
        text(&output.stdout)
    }

    /// Its exit code and what it says on stderr; panics if it exits with 0 or dies of a signal.
    #[track_caller]
    pub fn fail<Word: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = Word>) -> (i32, String) {
        let mut command = self.command(args);
        let output = process::finish(&mut command, COMMAND_LIMIT);
        match output.status.code() {
            Some(code) if code != 0 => (code, text(&output.stderr)),
            Some(_) | None => panic!("a failure was expected: {}", told(&command, &output)),
        }
    }

    /// The document it prints with `--json`.
    #[track_caller]
    pub fn json<Word: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = Word>) -> Value {
        let mut words = vec!["--json".into()];
        words.extend(args.into_iter().map(|word| word.as_ref().to_owned()));
        let printed = self.ok(words);
        serde_json::from_str(&printed).unwrap_or_else(|why| panic!("not JSON ({why}):\n{printed}"))
    }

    /// Write a file below the home; its folders are made.
    #[track_caller]
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path().join(name);
        let folder = path.parent().expect("a file in the home has a folder");
        std::fs::create_dir_all(folder).expect("a folder can be made in the home");
        std::fs::write(&path, content).expect("a file can be written in the home");
        path
    }

    /// Of the running keeper, as it says itself.
    #[track_caller]
    pub fn keeper_pid(&self) -> u32 {
        self.own_pid("keeper")
    }

    /// The same while keepers come and go: `None` if no daemon answers, or one that is about to notice.
    #[track_caller]
    pub fn living_keeper(&self) -> Option<u32> {
        let output = self.run(["--json", "daemon", "status"]);
        let status: Value = serde_json::from_slice(&output.stdout).ok()?;
        let pid = u32::try_from(status["keeper"]["pid"].as_u64()?).ok()?;
        process::alive(pid).then_some(pid)
    }

    /// Of the running daemon, as it says itself.
    #[track_caller]
    pub fn daemon_pid(&self) -> u32 {
        self.own_pid("daemon")
    }

    /// Of the guard; waits for it, because the keeper starts it last.
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

    /// What keeper and daemon wrote about themselves.
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
            // A second panic would hide the first: sweep as well as can be, without a word.
            let _swept = std::panic::catch_unwind(|| sweep_all(&sweep));
        } else {
            sweep_all(&sweep);
        }
        groups::remove_of(self.path());
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
