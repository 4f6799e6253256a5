//! Standard input of `run`: bytes passed to the program through a FIFO.

use proctor_core::home::Home;
use proctor_core::name::ServiceName;
use proctor_sys::input_fifo::OfferedInput;
use proctor_sys::small_file;
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Bytes read at once: the default capacity of a pipe.
const CHUNK: usize = 64 << 10;

/// Polling interval while this process is in the background of its terminal, whose input belongs to others.
const BACKGROUND_INTERVAL: Duration = Duration::from_millis(500);

/// Input of a program that is about to start.
pub(super) struct Input {
    path: PathBuf,
}

impl Input {
    /// Offers the FIFO, and copies the input in a thread as soon as the program has opened it. The thread ends with
    /// our input, with
    /// the program, or with this process.
    pub(super) fn offer(home: &Home, name: &ServiceName) -> io::Result<Input> {
        let path = home.input(name);
        let offer = OfferedInput::make(&path)?;
        std::thread::spawn(move || offer.taken().and_then(|writer| pass_on(&writer)));
        Ok(Input { path })
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        // The reader has removed it already.
        let _ = small_file::remove(&self.path);
    }
}

/// Returns true if the input is a terminal.
pub(super) fn is_typed() -> bool {
    rustix::termios::isatty(rustix::stdio::stdin())
}

/// Returns true if another process group reads the terminal now. A terminal that is not our controlling one does not stop us.
pub(super) fn is_in_background() -> bool {
    let reads = rustix::termios::tcgetpgrp(rustix::stdio::stdin());
    reads.is_ok_and(|group| group != rustix::process::getpgrp())
}

fn pass_on(mut writer: &File) -> io::Result<()> {
    let (is_typed, mut input) = (is_typed(), io::stdin().lock());
    let mut chunk = vec![0; CHUNK];
    loop {
        if is_typed {
            wait_for_turn()?;
        }
        let length = input.read(&mut chunk)?;
        if length == 0 {
            return Ok(());
        }
        writer.write_all(&chunk[..length])?;
    }
}

/// Waits until the terminal has input and we are in its foreground: the kernel stops a background process that reads.
fn wait_for_turn() -> io::Result<()> {
    let terminal = rustix::stdio::stdin();
    loop {
        poll(&mut [PollFd::new(&terminal, PollFlags::IN)], None)?;
        if !is_in_background() {
            return Ok(());
        }
        std::thread::sleep(BACKGROUND_INTERVAL);
    }
}
