//! The measurements. Each drives a session and writes its samples into the book.

pub(super) mod cli;
pub(super) mod crowd;
pub(super) mod life;
pub(super) mod logs;
pub(super) mod rest;

use super::scratch::Scratch;
use anyhow::Result;
use std::path::PathBuf;

/// Size at which log files are closed, for all supervisors.
pub(super) const ROTATE: u64 = 16 << 20;
/// Length of a line with its newline.
const LINE: u64 = 128;

/// The small programs that measurements need.
pub(super) struct Programs {
    service: PathBuf,
    timer: PathBuf,
    verify: PathBuf,
    cpu: PathBuf,
    /// Exits at once; without libc, and with it.
    nothing: PathBuf,
    nothing_with_libc: PathBuf,
    /// A dev server.
    pub(super) serve: PathBuf,
}

impl Programs {
    pub(super) fn compile(scratch: &Scratch) -> Result<Programs> {
        let nothing = include_str!("../c/nothing.c");
        let nothing_with_libc = scratch.compile("nothing-libc", nothing, &["-DWITH_LIBC"])?;
        Ok(Programs {
            service: scratch.compile("svc", include_str!("../c/svc.c"), &[])?,
            timer: scratch.compile("timer", include_str!("../c/timer.c"), &[])?,
            verify: scratch.compile("verify", include_str!("../c/verify.c"), &[])?,
            cpu: scratch.compile("cpu", include_str!("../c/cpu.c"), &[])?,
            nothing: scratch.compile("nothing", nothing, &["-nostdlib", "-nostartfiles"])?,
            nothing_with_libc,
            serve: scratch.compile("serve", include_str!("../c/serve.c"), &[])?,
        })
    }

    fn idle(&self, socket: &str) -> Vec<String> {
        vec![self.service.display().to_string(), "idle".to_owned(), socket.to_owned()]
    }

    fn spam(&self, socket: &str, bytes: u64) -> Vec<String> {
        let service = self.service.display().to_string();
        vec![service, "spam".to_owned(), socket.to_owned(), bytes.to_string(), LINE.to_string()]
    }
}
