//! Waits for many descriptors at once: epoll, and a bell that another thread can ring.

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Maximum number of events per wait; more come with the next.
const BATCH: usize = 128;

pub struct Poller {
    epoll: OwnedFd,
}

/// The condition under which a descriptor is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// While it is readable.
    Read,
    /// While it is readable or writable.
    ReadWrite,
    /// Once for each new arrival: the reader drains it, or remembers that it did not.
    ReadEdge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    pub token: u64,
    pub readable: bool,
    pub writable: bool,
}

impl Poller {
    pub fn new() -> io::Result<Poller> {
        Ok(Poller { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), flags(interest))?)
    }

    pub fn change(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(token), flags(interest))?)
    }

    /// Removes a descriptor that stays open elsewhere; a closed one is removed automatically.
    pub fn remove(&self, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Waits for events or the timeout, and appends the ready descriptors.
    pub fn wait(&self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let limit = timeout.map(|t| Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        let mut room = [MaybeUninit::<epoll::Event>::uninit(); BATCH];
        let events = match epoll::wait(&self.epoll, &mut room, limit.as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        ready.extend(events.iter().map(|event| {
            let seen = event.flags;
            let ended = epoll::EventFlags::HUP | epoll::EventFlags::ERR | epoll::EventFlags::RDHUP;
            Ready {
                token: event.data.u64(),
                readable: seen.intersects(epoll::EventFlags::IN | ended),
                writable: seen.intersects(epoll::EventFlags::OUT),
            }
        }));
        Ok(())
    }
}

fn flags(interest: Interest) -> epoll::EventFlags {
    match interest {
        Interest::Read => epoll::EventFlags::IN,
        Interest::ReadWrite => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        Interest::ReadEdge => epoll::EventFlags::IN | epoll::EventFlags::ET,
    }
}

/// A bell between threads: ringing makes it readable until it is silenced.
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    pub fn new() -> io::Result<Waker> {
        Ok(Waker(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub fn ring(&self) {
        // A full counter means that it is already ringing.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub fn silence(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
