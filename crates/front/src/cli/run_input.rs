//! The standard input of `run`: bytes of ours that the program reads, through a FIFO that its run is made with.

use proctor_core::home::Home;
use proctor_core::name::ServiceName;
use proctor_sys::file;
use proctor_sys::input_fifo::Offer;
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Bytes read at once: as many as a pipe holds by default.
const CHUNK: usize = 64 << 10;

/// While this process is in the background of its terminal, input there is for somebody else; looked at again this often.
const BACKGROUND_INTERVAL: Duration = Duration::from_millis(500);

/// The input of a program that is about to be started.
pub(super) struct Input {
    path: PathBuf,
}

impl Input {
    /// Offer it, and pass it on in a thread of its own as soon as the program has it. The thread ends with our input, with the
    /// program, or with this process.
    pub(super) fn offer(home: &Home, name: &ServiceName) -> io::Result<Input> {
        let path = home.input(name);
        let offer = Offer::make(&path)?;
        std::thread::spawn(move || offer.taken().and_then(|writer| pass_on(&writer)));
        Ok(Input { path })
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        // Whoever took it has removed it already.
        let _ = file::remove(&self.path);
    }
}

/// Returns true if somebody types the input.
pub(super) fn is_typed() -> bool {
    rustix::termios::isatty(rustix::stdio::stdin())
}

/// Returns true if the terminal of our input is somebody else's to read now. One that does not control us stops nobody.
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

/// Wait until there is something to read on the terminal and it is ours to read: a process in the background that reads is
/// stopped by the kernel.
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
