//! Locks on names. Two changes that share a name run one after the other.

use super::super::error::FileError;
use proctor_sys::beneath::Id;
use std::collections::HashSet;
use std::ffi::OsString;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A folder and a name in it.
pub(crate) type Key = (Id, OsString);

/// Interval at which a waiting change checks that its caller still waits.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(crate) struct Locks {
    taken: Mutex<HashSet<Key>>,
    freed: Condvar,
}

/// Locked names, until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldLocks<'a> {
    locks: &'a Locks,
    keys: HashSet<Key>,
}

impl Locks {
    /// Locks all names at once, so that there is no deadlock.
    pub(crate) fn hold(
        &self,
        keys: impl IntoIterator<Item = Key>,
        stop: &dyn Fn() -> bool,
    ) -> Result<HeldLocks<'_>, FileError> {
        let keys: HashSet<Key> = keys.into_iter().collect();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while !taken.is_disjoint(&keys) {
            if stop() {
                return Err(FileError::Cancelled);
            }
            let waited = self.freed.wait_timeout(taken, LOOK_AGAIN);
            (taken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        taken.extend(keys.iter().cloned());
        Ok(HeldLocks { locks: self, keys })
    }
}

impl Drop for HeldLocks<'_> {
    fn drop(&mut self) {
        let mut taken = self.locks.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|key| !self.keys.contains(key));
        self.locks.freed.notify_all();
    }
}
