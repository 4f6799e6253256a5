//! Messages between daemon and keeper, and their framing.
//!
//! The keeper sends state as whole [`ServiceState`]s, never as differences. It may skip a message
//! when a newer one replaces it, so a slow daemon costs the keeper no memory. Log bytes never
//! travel here; both sides know the files.

use crate::lifecycle::{Exit, FailReason, Wish};
use crate::name::{RunId, ServiceName};
use crate::spec::{EnvId, ServiceSpec};
use crate::stored::StoredError;
use crate::time::{Mono, Wall};

/// The version of the protocol. A new field or a new kind of message is no new version: who does not know it skips it
/// ([`crate::stored`]). A keeper that meets a daemon of another version replaces it by one from its own binary.
pub const PROTOCOL: u32 = 2;

/// Maximum frame size. An environment may hold a few megabytes; nothing else comes near.
pub const MAX_FRAME: usize = 16 << 20;

#[derive(Debug, Clone, PartialEq)]
pub enum ToKeeper {
    /// First message of a daemon.
    Hello {
        protocol: u32,
        pid: u32,
    },
    /// Sends a shared environment before a spec refers to it.
    Environment {
        id: EnvId,
        vars: Vec<(String, String)>,
    },
    /// Defines a service or replaces its settings; a running one keeps its run.
    Define {
        request: u64,
        spec: Box<ServiceSpec>,
    },
    /// Stops the service if it runs, then forgets it.
    Remove {
        request: u64,
        name: ServiceName,
    },
    SetWish {
        request: u64,
        name: ServiceName,
        wish: Wish,
    },
    Restart {
        request: u64,
        name: ServiceName,
    },
    Signal {
        request: u64,
        name: ServiceName,
        signal: i32,
        whom: Whom,
    },
    /// A probe failed for this run: restart it within the budget.
    Unhealthy {
        name: ServiceName,
        run: RunId,
    },
    /// Shuts Proctor down in order.
    Shutdown {
        request: u64,
    },
    /// Replaces the keeper's program with this binary, in place.
    Upgrade {
        request: u64,
        binary: String,
    },
    /// Restarts with these extra variables, which override the service's own for the next run only.
    RestartWith {
        request: u64,
        name: ServiceName,
        env: Vec<(String, String)>,
    },
    /// A message of a newer daemon, of a kind that this version does not have.
    Unknown {
        /// The daemon waits for an answer to this.
        request: Option<u64>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    Main,
    /// Every process of the tree.
    Tree,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FromKeeper {
    /// First message of a keeper; `services` states follow, then `SnapshotEnd`.
    Hello {
        protocol: u32,
        pid: u32,
        started: Wall,
        tracking: Tracking,
        services: u32,
    },
    State(Box<ServiceState>),
    SnapshotEnd,
    Removed {
        name: ServiceName,
    },
    Reply {
        request: u64,
        result: Result<(), Refusal>,
    },
    /// The keeper is ending (true) or being replaced in place (false); the daemon should exit.
    Ending {
        for_good: bool,
    },
    /// A message of a newer keeper, of a kind that this version does not have.
    Unknown,
}

/// The method that finds the processes of a tree; decided once when the keeper starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracking {
    /// A writable cgroup v2 hierarchy with controllers.
    CgroupV2,
    /// A cgroup v2 hierarchy beside v1 controllers: tracking and kill only.
    CgroupHybrid,
    /// Process groups, parents and marks in the environment.
    Processes,
}

/// The reason the keeper refused a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("no service '{0}'")]
    UnknownService(ServiceName),
    #[error("service '{0}' is not running")]
    NotRunning(ServiceName),
    #[error("Proctor is shutting down")]
    ShuttingDown,
    #[error("{0}")]
    Failed(String),
}

/// Everything known about a service besides its spec.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceState {
    pub name: ServiceName,
    pub wish: Wish,
    pub phase: PhaseView,
    /// Start of the phase.
    pub since: Wall,
    /// Restarts made by the policy; restarts requested by a person are not counted.
    pub restarts: u64,
    pub last_exit: Option<LastExit>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum PhaseView {
    Down,
    Held,
    Backoff {
        until: Mono,
    },
    Starting {
        run: RunView,
    },
    Up {
        run: RunView,
    },
    /// `kill_at` is `None` after the tree was killed; `left` counts the processes that are still
    /// alive.
    Stopping {
        run: RunView,
        kill_at: Option<Mono>,
        left: u32,
    },
    Failed {
        why: FailReason,
    },
    Cooling {
        until: Mono,
    },
}

impl PhaseView {
    /// The run that exists in this phase.
    pub fn run(&self) -> Option<&RunView> {
        match self {
            PhaseView::Starting { run }
            | PhaseView::Up { run }
            | PhaseView::Stopping { run, .. } => Some(run),
            PhaseView::Down
            | PhaseView::Held
            | PhaseView::Backoff { .. }
            | PhaseView::Failed { .. }
            | PhaseView::Cooling { .. } => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunView {
    pub id: RunId,
    pub pid: u32,
    pub started: Wall,
    /// Folder of the tree's cgroup, if it has one.
    pub cgroup: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastExit {
    pub run: RunId,
    pub at: Wall,
    pub exit: Exit,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum WireError {
    #[error("a frame of {0} bytes exceeds the maximum of {MAX_FRAME}")]
    TooLarge(usize),
    #[error("a message {0}")]
    Garbled(#[from] StoredError),
}

/// A message as the content of a frame; the shapes are in [`crate::stored`].
pub trait Message: Sized {
    fn encode_into(&self, out: &mut Vec<u8>);

    fn decode(bytes: &[u8]) -> Result<Self, StoredError>;
}

/// Appends one framed message to `out`: length as u32 little endian, then the encoding.
pub fn encode<M: Message>(message: &M, out: &mut Vec<u8>) -> Result<(), WireError> {
    const HEAD: usize = size_of::<u32>();
    let start = out.len();
    out.extend_from_slice(&[0; HEAD]);
    message.encode_into(out);
    let length = out.len() - start - HEAD;
    if length > MAX_FRAME {
        out.truncate(start);
        return Err(WireError::TooLarge(length));
    }
    out[start..start + HEAD].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(())
}

/// Removes one message from the front of `buffer`; returns `Ok(None)` until it is complete.
pub fn decode<M: Message>(buffer: &mut Vec<u8>) -> Result<Option<M>, WireError> {
    let Some(head) = buffer.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*head) as usize;
    if length > MAX_FRAME {
        return Err(WireError::TooLarge(length));
    }
    let Some(body) = buffer.get(4..4 + length) else { return Ok(None) };
    let message = M::decode(body)?;
    buffer.drain(..4 + length);
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_whole_whatever_the_pieces() {
        let message = ToKeeper::Restart { request: 7, name: ServiceName::parse("web").unwrap() };
        let mut bytes = Vec::new();
        encode(&message, &mut bytes).unwrap();
        encode(&message, &mut bytes).unwrap();
        let mut buffer = Vec::new();
        let mut seen = 0;
        for byte in bytes {
            buffer.push(byte);
            while let Some(back) = decode::<ToKeeper>(&mut buffer).unwrap() {
                assert_eq!(back, message);
                seen += 1;
            }
        }
        assert_eq!((seen, buffer.len()), (2, 0));
    }

    #[test]
    fn an_absurd_length_and_garbage_are_errors() {
        let mut absurd = u32::MAX.to_le_bytes().to_vec();
        assert_eq!(decode::<ToKeeper>(&mut absurd), Err(WireError::TooLarge(u32::MAX as usize)));
        let binary = "x".repeat(MAX_FRAME);
        let mut out = Vec::new();
        let refused = encode(&ToKeeper::Upgrade { request: 1, binary }, &mut out);
        assert!(matches!(refused, Err(WireError::TooLarge(_))), "{refused:?}");
        assert!(out.is_empty(), "part of a message that is too large was written");
        let mut garbage = vec![3, 0, 0, 0, 0xff, 0xff, 0xff];
        assert!(matches!(decode::<ToKeeper>(&mut garbage), Err(WireError::Garbled(_))));
        let mut longer = Vec::new();
        encode(&ToKeeper::Shutdown { request: 1 }, &mut longer).unwrap();
        longer[0] += 1;
        longer.push(0);
        let why = WireError::Garbled(StoredError::Trailing(1));
        assert_eq!(decode::<ToKeeper>(&mut longer), Err(why));
    }
}
