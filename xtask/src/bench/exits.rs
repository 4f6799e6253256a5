//! Detects the exit of the last of many processes by their pidfds.

use super::clock::{Nanoseconds, now};
use super::{interrupt, process};
use anyhow::{Context as _, Result};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::process::{PidfdFlags, pidfd_open};
use std::collections::HashMap;
use std::time::{Duration, Instant};

const EVENTS: usize = 256;

pub(crate) struct Exits {
    epoll: OwnedFd,
    /// Live processes; a closed pidfd is no longer watched.
    alive: HashMap<u64, OwnedFd>,
}

impl Exits {
    /// Ignores processes that are already gone.
    pub(crate) fn watch(pids: &[u32]) -> Result<Exits> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("cannot make an epoll")?;
        let mut alive = HashMap::new();
        for &number in pids {
            let Ok(handle) = pidfd_open(process::pid(number)?, PidfdFlags::empty()) else {
                continue;
            };
            let data = epoll::EventData::new_u64(number.into());
            epoll::add(&epoll, &handle, data, epoll::EventFlags::IN)
                .with_context(|| format!("cannot watch process {number}"))?;
            alive.insert(u64::from(number), handle);
        }
        Ok(Exits { epoll, alive })
    }

    /// The moment at which the last one was seen to be gone; `None` if none exited for `patience`.
    pub(crate) fn last(&mut self, patience: Duration) -> Result<Option<Nanoseconds>> {
        let mut progress = Instant::now();
        let look = Timespec::try_from(interrupt::LOOK).expect("a part of a second fits");
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        while !self.alive.is_empty() {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&look)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(why) => return Err(why).context("cannot wait for processes to end"),
            }
            for event in &events {
                let data = event.data;
                self.alive.remove(&data.u64());
                progress = Instant::now();
            }
            interrupt::check()?;
            if progress.elapsed() > patience {
                return Ok(None);
            }
        }
        Ok(Some(now()))
    }

    pub(crate) fn left(&self) -> usize {
        self.alive.len()
    }
}
