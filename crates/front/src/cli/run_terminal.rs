//! The terminal of a `run` at a terminal: the program has a pseudo terminal of its own, and ours passes everything on.
//!
//! Our terminal is in raw mode meanwhile, so Ctrl-C, Ctrl-Z and Ctrl-D are bytes, which the terminal of the program turns into what
//! they mean there. What the program shows goes to our terminal at once, without the daemon, and a copy into the run's log. The
//! terminal of the program ends with this process: the program is hung up, as by a window that is closed.

use proctor_core::home::Home;
use proctor_core::name::ServiceName;
use proctor_sys::signal::{SIGCONT, SIGTSTP, SIGWINCH, Signals};
use proctor_sys::terminal_offer::{OfferPaths, TerminalOffer, copy_size};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{self, OptionalActions, Termios};
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Bytes read at once: a terminal gives no more.
const CHUNK: usize = 4096;

/// Once nothing of the program is left, its last output is here within moments. If somebody else still holds its terminal open, this
/// much silence is its end.
const LAST_OUTPUT_TIMEOUT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Returns true if somebody sits at a terminal that is ours to use, for input and output.
pub(super) fn is_wanted() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal() && !super::run_input::is_in_background()
}

/// A terminal for a program that is about to be started.
pub(super) struct TerminalForRun {
    files: OfferFiles,
    offer: TerminalOffer,
    changes: Signals,
    with_stderr: bool,
}

impl TerminalForRun {
    /// Make it like ours and offer it.
    pub(super) fn offer(home: &Home, name: &ServiceName) -> io::Result<TerminalForRun> {
        let paths =
            OfferPaths { terminal: home.terminal(name), output: home.terminal_output(name) };
        let files = OfferFiles(paths);
        let with_stderr = io::stderr().is_terminal();
        // Before there is a thread that one of them could reach. TSTP from elsewhere would leave the terminal raw.
        let changes = Signals::new(&[SIGWINCH, SIGCONT, SIGTSTP])?;
        let offer = TerminalOffer::make(&files.0, io::stdin(), with_stderr)?;
        Ok(TerminalForRun { files, offer, changes, with_stderr })
    }

    /// The program has begun: make our terminal raw and pass everything on, until this is dropped.
    pub(super) fn begin(self) -> io::Result<TerminalInUse> {
        let TerminalForRun { files, offer, changes, with_stderr } = self;
        let TerminalOffer { master, terminal, output } = offer;
        let raw = RawMode::enter()?;
        let (done, finish) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let typed = master.try_clone()?;
        std::thread::spawn(move || pass_typed(&typed));
        let again = Arc::clone(&raw.settings);
        let screen = Screen { master, terminal: Some(terminal), log: LogCopy::new(output), done };
        let thread = std::thread::spawn(move || screen.show(&changes, &again));
        let parts = Some((finish, thread));
        Ok(TerminalInUse { parts, _raw: raw, _files: files, with_stderr })
    }
}

/// A terminal that a program has. Our own is as it was when this is dropped.
pub(super) struct TerminalInUse {
    parts: Option<(OwnedFd, JoinHandle<()>)>,
    _raw: RawMode,
    _files: OfferFiles,
    /// The standard error of the program is on the terminal, too.
    pub(super) with_stderr: bool,
}

impl TerminalInUse {
    /// Nothing of the program is left: show the last of what it wrote.
    pub(super) fn finish(mut self) {
        if let Some((finish, thread)) = self.parts.take() {
            drop(finish);
            // It has nothing to tell.
            let _ = thread.join();
        }
    }
}

/// The files of an offer. The keeper that takes it has removed them; what is left goes with this.
struct OfferFiles(OfferPaths);

impl Drop for OfferFiles {
    fn drop(&mut self) {
        self.0.remove();
    }
}

/// Our own terminal, raw until this is dropped or the process panics.
struct RawMode {
    settings: Arc<Settings>,
}

struct Settings {
    before: Termios,
    raw: Termios,
}

impl RawMode {
    fn enter() -> io::Result<RawMode> {
        let before = termios::tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        let settings = Arc::new(Settings { before, raw });
        // A release build aborts on a panic and drops nothing.
        let (usual, known) = (std::panic::take_hook(), Arc::clone(&settings));
        std::panic::set_hook(Box::new(move |panic| {
            known.restore();
            usual(panic);
        }));
        termios::tcsetattr(io::stdin(), OptionalActions::Drain, &settings.raw)?;
        Ok(RawMode { settings })
    }
}

impl Settings {
    fn restore(&self) {
        // A terminal that is gone needs nothing.
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Drain, &self.before);
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        self.settings.restore();
    }
}

/// Pass on what is typed until the terminal or the program is gone.
fn pass_typed(mut master: &File) {
    let mut chunk = [0; CHUNK];
    // Locked by nobody else: this command reads nothing else.
    while let Ok(length @ 1..) = io::stdin().lock().read(&mut chunk) {
        if master.write_all(&chunk[..length]).is_err() {
            return;
        }
    }
}

/// Output of the program, on its way to our terminal and into the log.
struct Screen {
    master: File,
    /// Without any process that has the terminal open, the master would be at its end before the program begins.
    terminal: Option<OwnedFd>,
    log: LogCopy,
    /// At its end when the program is over.
    done: OwnedFd,
}

impl Screen {
    fn show(mut self, changes: &Signals, settings: &Settings) {
        let mut chunk = [0; CHUNK];
        let mut is_seen = true;
        while self.wait(changes, settings) {
            match self.master.read(&mut chunk) {
                Ok(0) => return,
                Ok(length) => {
                    let shown = show_bytes(&chunk[..length]);
                    self.log.write(&chunk[..length]);
                    if shown.is_err() && is_seen {
                        // Our terminal is gone. Whoever waits for signals stops the program.
                        is_seen = false;
                        let _ = kill_process(getpid(), Signal::HUP);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Nobody has the terminal open any more, and everything was read.
                Err(_) => return,
            }
        }
    }

    /// Wait for something to show; false if there will be nothing any more.
    fn wait(&mut self, changes: &Signals, settings: &Settings) -> bool {
        loop {
            let is_over = self.terminal.is_none();
            let mut fds = vec![
                PollFd::new(&self.master, PollFlags::IN),
                PollFd::from_borrowed_fd(changes.as_fd(), PollFlags::IN),
            ];
            if !is_over {
                fds.push(PollFd::new(&self.done, PollFlags::IN));
            }
            let came = poll(&mut fds, is_over.then_some(&LAST_OUTPUT_TIMEOUT));
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            match came {
                Ok(0) => return false,
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return false,
            }
            if ready[1] {
                self.follow_change(changes, settings);
            }
            if ready.get(2) == Some(&true) {
                self.terminal = None;
            }
            if ready[0] {
                return true;
            }
        }
    }

    /// Our terminal has another size, or somebody stopped us and had it meanwhile.
    fn follow_change(&self, changes: &Signals, settings: &Settings) {
        if changes.take() == Some(SIGCONT) {
            let _ = termios::tcsetattr(io::stdin(), OptionalActions::Drain, &settings.raw);
        }
        copy_size(io::stdin(), &self.master);
    }
}

fn show_bytes(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// The copy of what a program shows, with the ends of lines as it wrote them: its terminal made `\r\n` of each `\n`.
struct LogCopy {
    output: File,
    /// The last byte was a `\r`, which waits for what follows it.
    after_return: bool,
}

impl LogCopy {
    fn new(output: File) -> LogCopy {
        LogCopy { output, after_return: false }
    }

    fn write(&mut self, bytes: &[u8]) {
        let copy = self.plain(bytes);
        // A FIFO that we hold open ourselves is always there.
        let _ = self.output.write_all(&copy);
    }

    fn plain(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::with_capacity(bytes.len() + 1);
        for &byte in bytes {
            if std::mem::replace(&mut self.after_return, byte == b'\r') && byte != b'\n' {
                plain.push(b'\r');
            }
            if byte != b'\r' {
                plain.push(byte);
            }
        }
        plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_lines_as_the_program_wrote_them() {
        for (chunks, expected) in [
            (vec!["one\r\ntwo\r\n"], "one\ntwo\n"),
            (vec!["one\r", "\ntwo"], "one\ntwo"),
            (vec!["10%\r20%\r", "\r\n"], "10%\r20%\r\n"),
            (vec!["a\nb\r", "c"], "a\nb\rc"),
        ] {
            let mut copy = LogCopy::new(tempfile::tempfile().unwrap());
            let written: Vec<u8> =
                chunks.iter().flat_map(|chunk| copy.plain(chunk.as_bytes())).collect();
            assert_eq!(String::from_utf8(written).unwrap(), expected, "{chunks:?}");
        }
    }
}
