//! The owner and the lease of an added service: one tenure for all its instances, until it is defined again.
//!
//! Reading and renewing it touch no disk and never wait. The owner of the state (`lease`) stores leases that
//! have moved far enough, and ends expired ones.

use crate::registry::Registry;
use proctor_core::access::ClientName;
use proctor_core::lease::{KeptLease, Lease};
use proctor_core::time::{Millis, Mono};
use std::sync::{Arc, Mutex, MutexGuard};

#[derive(Debug, Default)]
pub struct Ownership {
    owner: Option<ClientName>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lease: Option<Lease>,
    /// The lease as stored in `services.json`.
    kept: Option<KeptLease>,
    /// Number of requests of its owner in progress.
    uses: u32,
}

impl Ownership {
    pub(crate) fn new(owner: Option<ClientName>, lease: Option<(Lease, KeptLease)>) -> Ownership {
        let tenure = Ownership { owner, state: Mutex::default() };
        tenure.set(lease);
        tenure
    }

    /// The program that started it; `None`: a person did.
    pub fn owner(&self) -> Option<&ClientName> {
        self.owner.as_ref()
    }

    /// Time left if nobody uses it any more; `None`: until it is removed.
    pub fn left(&self, now: Mono) -> Option<Millis> {
        let state = self.state();
        let lease = state.lease?;
        Some(if state.uses > 0 { lease.length() } else { lease.left(now) })
    }

    pub(crate) fn lease(&self) -> Option<Lease> {
        self.state().lease
    }

    /// Replaces the lease and its stored form.
    pub(crate) fn set(&self, lease: Option<(Lease, KeptLease)>) {
        let mut state = self.state();
        (state.lease, state.kept) = lease.unzip();
    }

    pub(crate) fn written(&self, kept: Option<KeptLease>) {
        self.state().kept = kept;
    }

    /// Returns true if the lease has expired. A lease in use never has: it is renewed.
    pub(crate) fn is_over(&self, now: Mono) -> bool {
        let mut state = self.state();
        let over = state.lease.is_some_and(|lease| lease.is_over(now));
        if over && state.uses > 0 {
            state.renew(now);
        }
        over && state.uses == 0
    }

    /// The lease, if its stored form is too old.
    pub(crate) fn unwritten(&self) -> Option<Lease> {
        let state = self.state();
        state.lease.filter(|lease| state.kept.as_ref().is_none_or(|kept| kept.is_old(*lease)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds a tenure")
    }
}

impl State {
    fn renew(&mut self, now: Mono) {
        self.lease = self.lease.map(|lease| lease.renewed(now));
    }
}

/// A use of a service by its owner, until this is dropped. It renews the lease.
#[must_use]
pub struct OwnerUse {
    tenure: Arc<Ownership>,
    registry: Arc<Registry>,
}

impl OwnerUse {
    pub(crate) fn begin(tenure: Arc<Ownership>, registry: Arc<Registry>) -> OwnerUse {
        tenure.state().uses += 1;
        let using = OwnerUse { tenure, registry };
        using.renew();
        using
    }

    fn renew(&self) {
        self.tenure.state().renew(proctor_sys::clock::now().mono);
        if self.tenure.unwritten().is_some() {
            self.registry.renewed();
        }
    }
}

impl Drop for OwnerUse {
    fn drop(&mut self) {
        self.renew();
        self.tenure.state().uses -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::record_encoding::BootId;
    use proctor_core::time::{Now, Wall};

    /// A lease of 100 seconds with `left` seconds to go.
    fn tenure(left: u64) -> Arc<Ownership> {
        let now = proctor_sys::clock::now().mono;
        let lease = Lease::begin(Millis::seconds(100), Mono(now.0 - (100 - left) * 1_000_000));
        let kept = lease.keep(Now { mono: now, wall: Wall(0) }, BootId([1; 16]));
        Arc::new(Ownership::new(ClientName::parse("a"), Some((lease, kept))))
    }

    /// Makes the last use long ago.
    fn forget(tenure: &Ownership) {
        let mut state = tenure.state();
        state.lease = Some(Lease::begin(Millis::seconds(1), Mono(0)));
    }

    fn left(tenure: &Ownership) -> u64 {
        tenure.left(proctor_sys::clock::now().mono).unwrap().0.div_ceil(1000)
    }

    fn over(tenure: &Ownership) -> bool {
        tenure.is_over(proctor_sys::clock::now().mono)
    }

    #[test]
    fn what_is_used_gets_its_whole_time_again() {
        let (registry, tenure) = (Arc::new(Registry::new()), tenure(50));
        assert_eq!((left(&tenure), tenure.unwritten()), (50, None));
        drop(OwnerUse::begin(Arc::clone(&tenure), registry));
        assert_eq!(left(&tenure), 100);
        assert!(tenure.unwritten().is_some(), "it moved by more than a tenth");
    }

    #[test]
    fn nothing_ends_while_it_is_used() {
        let (registry, tenure) = (Arc::new(Registry::new()), tenure(0));
        let using = OwnerUse::begin(Arc::clone(&tenure), Arc::clone(&registry));
        forget(&tenure);
        assert!(!over(&tenure), "it is renewed instead");
        forget(&tenure);
        let another = OwnerUse::begin(Arc::clone(&tenure), registry);
        drop(using);
        forget(&tenure);
        assert!(!over(&tenure), "somebody uses it still");
        drop(another);
        assert!(!over(&tenure), "its time begins when the last use has ended");
        forget(&tenure);
        assert!(over(&tenure));
    }

    #[test]
    fn what_has_no_lease_stays() {
        let tenure = Ownership::default();
        assert_eq!((tenure.left(Mono(u64::MAX)), tenure.unwritten()), (None, None));
        assert!(!tenure.is_over(Mono(u64::MAX)));
    }
}
