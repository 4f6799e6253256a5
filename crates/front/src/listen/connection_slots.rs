//! Connection slots of a listener, and the choice of the connection to close when all are in use.

use rustix::process::{Resource, getrlimit};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use tokio::sync::{Notify, watch};

/// Maximum connections of a listener. Each costs a task and a buffer of a few KiB.
const MAX_CONNECTIONS: usize = 512;

/// Divisor of the open files that one listener may use; the rest is for services, logs and the unix socket.
const SHARE: usize = 8;

/// Maximum connections that were told to leave and have not left. Beyond it, nobody is accepted for the moment.
const LEAVING: usize = 64;

/// When to end a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseWhen {
    /// After the request in progress: the listener moves.
    AfterThis,
    /// At once: another connection needs the slot.
    Now,
}

/// All slots of a listener. Dropping it asks every connection to leave.
pub(crate) struct ConnectionSlots {
    hall: Arc<SlotTable>,
}

struct SlotTable {
    most: usize,
    taken: Mutex<UsedSlots>,
    freed: Notify,
}

#[derive(Default)]
struct UsedSlots {
    next: u64,
    /// Slots in use, by arrival.
    seats: BTreeMap<u64, SlotState>,
}

struct SlotState {
    /// `None` while a request is in progress.
    idle_since: Option<Instant>,
    leave: watch::Sender<Option<CloseWhen>>,
}

/// Slot of a connection; dropping it frees the slot.
pub struct ConnectionSlot {
    hall: Arc<SlotTable>,
    number: u64,
    leave: watch::Receiver<Option<CloseWhen>>,
}

/// While this exists, the connection is not idle.
pub struct BusyGuard {
    hall: Arc<SlotTable>,
    number: u64,
}

impl Default for ConnectionSlots {
    fn default() -> ConnectionSlots {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        ConnectionSlots::of(MAX_CONNECTIONS.min(files / SHARE).max(1))
    }
}

impl ConnectionSlots {
    pub(crate) fn of(most: usize) -> ConnectionSlots {
        ConnectionSlots {
            hall: Arc::new(SlotTable { most, taken: Mutex::default(), freed: Notify::new() }),
        }
    }

    /// Waits until most connections that were told to leave have left.
    pub(super) async fn room(&self) {
        while self.hall.taken().seats.len() >= self.hall.most + LEAVING {
            self.hall.freed.notified().await;
        }
    }

    /// Takes a free slot, or that of the connection idle longest. Returns `None` while all are busy.
    pub(crate) fn take(&self) -> Option<ConnectionSlot> {
        let mut taken = self.hall.taken();
        let staying = taken.seats.values().filter(|one| one.stays());
        if staying.count() >= self.hall.most {
            let idle = taken.seats.values().filter(|one| one.stays() && one.idle_since.is_some());
            let longest = idle.min_by_key(|one| one.idle_since)?;
            longest.leave.send_replace(Some(CloseWhen::Now));
        }
        let (leave, told) = watch::channel(None);
        let number = taken.next;
        taken.next += 1;
        taken.seats.insert(number, SlotState { idle_since: Some(Instant::now()), leave });
        Some(ConnectionSlot { hall: Arc::clone(&self.hall), number, leave: told })
    }
}

impl Drop for ConnectionSlots {
    fn drop(&mut self) {
        for one in self.hall.taken().seats.values() {
            one.leave.send_if_modified(|leave| {
                let stays = leave.is_none();
                leave.get_or_insert(CloseWhen::AfterThis);
                stays
            });
        }
    }
}

impl SlotState {
    fn stays(&self) -> bool {
        self.leave.borrow().is_none()
    }
}

impl SlotTable {
    fn taken(&self) -> MutexGuard<'_, UsedSlots> {
        self.taken.lock().expect("nothing panics while it changes the seats")
    }

    fn set_idle(&self, number: u64, since: Option<Instant>) {
        if let Some(one) = self.taken().seats.get_mut(&number) {
            one.idle_since = since;
        }
    }
}

impl ConnectionSlot {
    /// Marks a request in progress until the result is dropped.
    pub fn busy(&self) -> BusyGuard {
        self.hall.set_idle(self.number, None);
        BusyGuard { hall: Arc::clone(&self.hall), number: self.number }
    }

    /// Waits until the connection has to end.
    pub async fn leave(&self) -> CloseWhen {
        match self.leave.clone().wait_for(Option::is_some).await.as_deref() {
            Ok(Some(leave)) => *leave,
            Ok(None) | Err(_) => CloseWhen::Now,
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.hall.taken().seats.remove(&self.number);
        self.hall.freed.notify_one();
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.hall.set_idle(self.number, Some(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(seat: &ConnectionSlot) -> Option<CloseWhen> {
        *seat.leave.borrow()
    }

    #[test]
    fn the_one_that_was_idle_longest_goes_when_another_comes() {
        let seats = ConnectionSlots::of(2);
        let (first, second) = (seats.take().unwrap(), seats.take().unwrap());
        drop(first.busy());
        let third = seats.take().unwrap();
        assert_eq!([&first, &second, &third].map(told), [None, Some(CloseWhen::Now), None]);
        drop(second);
        let fourth = seats.take().unwrap();
        assert_eq!([&first, &third, &fourth].map(told), [Some(CloseWhen::Now), None, None]);
    }

    #[test]
    fn nobody_who_is_busy_goes() {
        let seats = ConnectionSlots::of(2);
        let (first, second) = (seats.take().unwrap(), seats.take().unwrap());
        let (busy, _also) = (first.busy(), second.busy());
        assert!(seats.take().is_none(), "a busy one lost its seat");
        drop(busy);
        assert!(seats.take().is_some());
        assert_eq!([&first, &second].map(told), [Some(CloseWhen::Now), None]);
    }

    #[test]
    fn everybody_is_asked_to_leave_when_the_listener_goes() {
        let seats = ConnectionSlots::of(1);
        let first = seats.take().unwrap();
        let second = seats.take().unwrap();
        drop(seats);
        assert_eq!([&first, &second].map(told), [Some(CloseWhen::Now), Some(CloseWhen::AfterThis)]);
    }
}
