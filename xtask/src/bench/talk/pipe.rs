//! A server as a child process: one message a line on its stdin and stdout.

use super::super::session::outside;
use super::super::{interrupt, process};
use super::{SILENCE, Wire};
use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// File for the server's stderr.
const ERRORS: &str = "errors.txt";

/// Grace period of a server after its input has ended.
const FAREWELL: Duration = Duration::from_secs(2);

pub(crate) struct Pipe {
    server: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    errors: PathBuf,
}

impl Pipe {
    /// Starts the server in this folder, which is also its home.
    pub(crate) fn open(command: Command, folder: &Path) -> Result<Pipe> {
        let errors = folder.join(ERRORS);
        let mut command = outside(command, folder);
        let file = File::create(&errors).context("cannot make a file")?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        let mut server = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
        let output = BufReader::new(server.stdout.take().context("its output is a pipe")?);
        Ok(Pipe { input: server.stdin.take(), output, errors, server })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.server.id()
    }

    /// Waits until there is something to read, including buffered data.
    fn wait(&self) -> Result<()> {
        let begin = Instant::now();
        let look = Timespec::try_from(interrupt::LOOK).expect("a part of a second fits");
        while self.output.buffer().is_empty() {
            let mut readable = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
            match poll(&mut readable, Some(&look)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => interrupt::check()?,
                Ok(_) => return Ok(()),
                Err(why) => return Err(why).context("cannot wait for a server"),
            }
            if begin.elapsed() > SILENCE {
                bail!("no answer for {} s\n{}", SILENCE.as_secs(), self.errors());
            }
        }
        Ok(())
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap_or_default()
    }
}

impl Wire for Pipe {
    fn say(&mut self, message: &str) -> Result<()> {
        let input = self.input.as_mut().context("its input is open until the end")?;
        let line = format!("{message}\n");
        input
            .write_all(line.as_bytes())
            .with_context(|| format!("it does not listen\n{}", self.errors()))
    }

    fn hear(&mut self) -> Result<String> {
        let mut line = String::new();
        while !line.ends_with('\n') {
            self.wait()?;
            if self.output.read_line(&mut line).context("cannot read an answer")? == 0 {
                bail!("it is gone\n{}", self.errors());
            }
        }
        line.pop();
        Ok(line)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        drop(self.input.take());
        let begin = Instant::now();
        while begin.elapsed() < FAREWELL {
            if self.server.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // Kills it with everything it started; processes that are gone need no signal.
        for pid in process::tree(self.server.id()).unwrap_or_default() {
            let _ = process::signal(pid, Signal::KILL);
        }
        let _ = self.server.wait();
    }
}
