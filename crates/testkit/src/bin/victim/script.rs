//! The command line of the victim; each flag is declared once with its effect.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The role of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Main,
    /// Created by `--fork`: same session, same group.
    Child,
    /// Created by `--setsid`: its own session.
    Session,
    /// Created by `--double-fork`: makes a session, starts the daemon, exits.
    Middle,
    /// Its child, orphaned, with its streams at `/dev/null`.
    Daemon,
    /// Created by `--hold-fd`: starts the holder, exits.
    HolderMiddle,
    /// Its child, in the group of main; keeps its stdout and stderr open.
    Holder,
    /// Created by `--fork-storm`: exits at once.
    Brief,
}

impl Role {
    const ALL: [Role; 8] = [
        Role::Main,
        Role::Child,
        Role::Session,
        Role::Middle,
        Role::Daemon,
        Role::HolderMiddle,
        Role::Holder,
        Role::Brief,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Role::Main => "main",
            Role::Child => "child",
            Role::Session => "session",
            Role::Middle => "middle",
            Role::Daemon => "daemon",
            Role::HolderMiddle => "holder-middle",
            Role::Holder => "holder",
            Role::Brief => "brief",
        }
    }

    /// Exits by itself after it has started its own child.
    pub(crate) fn passes_by(self) -> bool {
        matches!(self, Role::Middle | Role::HolderMiddle | Role::Brief)
    }

    /// Leaves the session of main; `--clear-env` also clears its environment.
    pub(crate) fn escapes(self) -> bool {
        matches!(self, Role::Session | Role::Middle | Role::Daemon)
    }
}

/// Performed in the order of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Lines(u64),
    Spam,
    Raw(Vec<u8>),
    LongLine(u64),
    CloseStdout,
    ReopenStdout,
    PrintEnv,
    PrintCwd,
    PrintFds,
    PrintIds,
    Fork(u32),
    Setsid,
    DoubleFork,
    HoldFd,
    ForkStorm,
    Http(u16),
    Eat(usize),
    StopSelf,
    Touch(PathBuf),
    ReadyFile(PathBuf),
    WaitFile(PathBuf),
}

/// The behaviour after the last action; by default it waits for signals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) after: Option<Duration>,
    pub(crate) exit: Option<u8>,
    pub(crate) signal: Option<i32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) role: Role,
    pub(crate) ignore_term: bool,
    pub(crate) term_exit: Option<u8>,
    pub(crate) term_delay: Option<Duration>,
    pub(crate) pid_file: Option<PathBuf>,
    pub(crate) clear_env: bool,
    pub(crate) stderr: bool,
    pub(crate) line_prefix: String,
    pub(crate) every: Option<Duration>,
    pub(crate) batch: u64,
    pub(crate) http_status: u16,
    pub(crate) http_fail_after: Option<u64>,
    pub(crate) actions: Vec<Action>,
    pub(crate) ending: Ending,
}

impl Script {
    pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Script, String> {
        let mut script = Script {
            role: Role::Main,
            ignore_term: false,
            term_exit: None,
            term_delay: None,
            pid_file: None,
            clear_env: false,
            stderr: false,
            line_prefix: String::new(),
            every: None,
            batch: 1,
            http_status: 200,
            http_fail_after: None,
            actions: Vec::new(),
            ending: Ending::default(),
        };
        let mut words = Words { flag: String::new(), rest: words };
        while let Some(word) = words.rest.next() {
            words.flag =
                word.into_string().map_err(|word| format!("{} is not a flag", word.display()))?;
            if !script.setting(&mut words)? {
                script.actions.push(action(&mut words)?);
            }
        }
        script.checked()
    }

    /// Parses a flag that applies for the whole life; returns false if it is not one.
    fn setting(
        &mut self,
        words: &mut Words<impl Iterator<Item = OsString>>,
    ) -> Result<bool, String> {
        match words.flag.as_str() {
            // Catch TERM, INT and HUP and continue; descendants do the same.
            "--ignore-term" => self.ignore_term = true,
            // Exit with this code on TERM.
            "--term-exit" => self.term_exit = Some(words.number()?),
            // React to TERM after this many milliseconds.
            "--term-delay" => self.term_delay = Some(words.millis()?),
            // Append `role pid` for this process and every descendant.
            "--pid-file" => self.pid_file = Some(words.path()?),
            // Descendants that leave the session have an empty environment.
            "--clear-env" => self.clear_env = true,
            // `--lines` and `--spam` go to stderr as well.
            "--stderr" => self.stderr = true,
            // Text before each line of `--lines` and `--spam`.
            "--line-prefix" => self.line_prefix = words.text()?,
            // Milliseconds from one line of `--lines` to the next.
            "--every" => self.every = Some(words.millis()?),
            // Lines that `--lines` writes together, after one wait.
            "--batch" => self.batch = words.number::<u64>()?.max(1),
            // Status of `--http`; 200 by default.
            "--http-status" => self.http_status = words.number()?,
            // After this many responses, `--http` responds with 500.
            "--http-fail-after" => self.http_fail_after = Some(words.number()?),
            // Exit with this code after the last action.
            "--exit" => self.ending.exit = Some(words.number()?),
            // Exit this many milliseconds after the last action; with code 0 unless `--exit` or
            // `--signal-self` is given.
            "--exit-after" => self.ending.after = Some(words.millis()?),
            // Die of this signal (name or number) after the last action.
            "--signal-self" => self.ending.signal = Some(signal(&words.text()?)?),
            // Internal: the role of a descendant.
            "--role" => self.role = role(&words.text()?)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn checked(mut self) -> Result<Script, String> {
        if self.ending.exit.is_some() && self.ending.signal.is_some() {
            return Err("--exit and --signal-self: only one can be how it ends".to_owned());
        }
        if self.ignore_term && (self.term_exit.is_some() || self.term_delay.is_some()) {
            return Err(
                "--ignore-term and --term-exit or --term-delay: TERM is ignored or answered"
                    .to_owned(),
            );
        }
        if self.ending.after.is_some() && self.ending.signal.is_none() && self.ending.exit.is_none()
        {
            self.ending.exit = Some(0);
        }
        Ok(self)
    }
}

fn action(words: &mut Words<impl Iterator<Item = OsString>>) -> Result<Action, String> {
    Ok(match words.flag.as_str() {
        // Print `line 1` … `line N`.
        "--lines" => Action::Lines(words.number()?),
        // Print numbered lines as fast as possible, in the background.
        "--spam" => Action::Spam,
        // Write these bytes, given as hexadecimal digits.
        "--raw" => Action::Raw(bytes(&words.text()?)?),
        // Write this many bytes and then a line end.
        "--long-line" => Action::LongLine(words.number()?),
        // Give up stdout.
        "--close-stdout" => Action::CloseStdout,
        // Open /dev/stdout by name and write `reopened` to it.
        "--reopen-stdout" => Action::ReopenStdout,
        // `env NAME=VALUE` for each variable.
        "--print-env" => Action::PrintEnv,
        // `cwd PATH`
        "--print-cwd" => Action::PrintCwd,
        // `fd NUMBER TARGET` for each descriptor that was open at the start.
        "--print-fds" => Action::PrintFds,
        // User, groups, umask, nice, limits, session, signal masks: `name value` each.
        "--print-ids" => Action::PrintIds,
        // This many children that live until killed.
        "--fork" => Action::Fork(words.number()?),
        // A child in its own session.
        "--setsid" => Action::Setsid,
        // A daemonised grandchild: fork, setsid, fork.
        "--double-fork" => Action::DoubleFork,
        // A grandchild that keeps stdout open even after main has ended.
        "--hold-fd" => Action::HoldFd,
        // 2000 children that exit at once, in the background.
        "--fork-storm" => Action::ForkStorm,
        // An HTTP server on 127.0.0.1; port 0 takes a free one and prints `http PORT`.
        "--http" => Action::Http(words.number()?),
        // Touch this many mebibytes of memory and keep them.
        "--eat" => Action::Eat(words.number()?),
        // Send SIGSTOP to itself; continues after SIGCONT.
        "--stop-self" => Action::StopSelf,
        // Make sure that the file exists.
        "--touch" => Action::Touch(words.path()?),
        // Write the pid to this file after all earlier actions.
        "--ready-file" => Action::ReadyFile(words.path()?),
        // Wait until this file exists.
        "--wait-file" => Action::WaitFile(words.path()?),
        unknown => return Err(format!("unknown flag {unknown}")),
    })
}

/// The words of the command line after a flag.
struct Words<Rest> {
    flag: String,
    rest: Rest,
}

impl<Rest: Iterator<Item = OsString>> Words<Rest> {
    fn value(&mut self) -> Result<OsString, String> {
        self.rest.next().ok_or_else(|| format!("{} needs a value", self.flag))
    }

    fn text(&mut self) -> Result<String, String> {
        self.value()?
            .into_string()
            .map_err(|word| format!("{} {}: not UTF-8", self.flag, word.display()))
    }

    fn path(&mut self) -> Result<PathBuf, String> {
        self.value().map(PathBuf::from)
    }

    fn number<Number: std::str::FromStr>(&mut self) -> Result<Number, String> {
        let text = self.text()?;
        text.parse().map_err(|_| format!("{} {text}: not a number that fits", self.flag))
    }

    fn millis(&mut self) -> Result<Duration, String> {
        self.number().map(Duration::from_millis)
    }
}

fn role(text: &str) -> Result<Role, String> {
    Role::ALL
        .into_iter()
        .find(|role| role.as_str() == text)
        .ok_or_else(|| format!("unknown role {text}"))
}

/// `TERM`, `SIGTERM` or `15`.
fn signal(text: &str) -> Result<i32, String> {
    let name = text.strip_prefix("SIG").unwrap_or(text);
    let named = (1..=31).find(|&number| {
        signal_hook::low_level::signal_name(number).and_then(|known| known.strip_prefix("SIG"))
            == Some(name)
    });
    let number = named.or_else(|| text.parse().ok().filter(|number| (1..=64).contains(number)));
    number.ok_or_else(|| format!("unknown signal {text}"))
}

fn bytes(digits: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("--raw {digits}: pairs of hexadecimal digits are needed");
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let pairs = (0..digits.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong())).collect()
}
