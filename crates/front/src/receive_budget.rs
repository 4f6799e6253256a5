//! Memory budget for received data that is not processed yet, shared by all clients.
//!
//! Memory is counted as bytes arrive, not as they are announced, so an announcement alone costs nothing.

use proctor_ops::error::{Code, OpError};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const KIB: usize = 1024;

/// Share of one client.
pub(crate) struct ReceiveBudget {
    all: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
    /// Bytes that are not counted.
    free: usize,
}

impl ReceiveBudget {
    pub(crate) fn new(all: Arc<Semaphore>, free: usize) -> ReceiveBudget {
        ReceiveBudget { all, held: None, free }
    }

    /// Holds room for exactly this many bytes; returns false if there is none.
    pub(crate) fn hold(&mut self, bytes: usize) -> bool {
        let wanted = if bytes > self.free { bytes.div_ceil(KIB) } else { 0 };
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if wanted <= held {
            drop(self.held.as_mut().and_then(|held_now| held_now.split(held - wanted)));
            return true;
        }
        let Ok(missing) = u32::try_from(wanted - held) else { return false };
        let Ok(more) = Arc::clone(&self.all).try_acquire_many_owned(missing) else { return false };
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        true
    }
}

/// Returns the error for a client without room.
pub(crate) fn none() -> OpError {
    OpError::new(Code::Busy, "too much data is being sent at once").help("retry in a moment")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_held_for_what_is_there_and_given_back() {
        let all = Arc::new(Semaphore::new(8));
        let mut first = ReceiveBudget::new(Arc::clone(&all), KIB);
        let mut second = ReceiveBudget::new(Arc::clone(&all), KIB);
        for (bytes, left) in [(0, 8), (KIB, 8), (KIB + 1, 6), (6 * KIB, 2), (3 * KIB, 5)] {
            assert!(first.hold(bytes));
            assert_eq!(all.available_permits(), left, "{bytes}");
        }
        assert!(second.hold(5 * KIB));
        assert!(!first.hold(3 * KIB + 1) && !second.hold(9 * KIB));
        assert_eq!(all.available_permits(), 0, "the held room is still held");
        assert!(second.hold(0));
        drop(first);
        assert_eq!(all.available_permits(), 8);
    }
}
