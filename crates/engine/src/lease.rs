//! Leases as the owner of the state handles them: set and renewed on request, stored after they have moved far
//! enough, and ended when they expire, including those that expired while no daemon ran.

use crate::daemon_startup::Startup;
use crate::error::EngineError;
use crate::owner::{Owner, Removal};
use crate::ownership::Ownership;
use crate::service_store::AddedService;
use proctor_core::access::ClientName;
use proctor_core::lease::{KeptLease, Lease};
use proctor_core::name::ServiceName;
use proctor_core::time::Millis;
use proctor_sys::{boot_id, clock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Time until the next attempt to end a lease after a failure, such as a full disk.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// A requested change of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseChange {
    /// Renews it for the length it was given.
    Renew,
    /// Sets it to this length, starting now.
    For(Millis),
    /// Removes the lease: the service stays until it is removed.
    ForGood,
}

/// Stored leases, by the names that services were added under.
type StoredLeases = BTreeMap<ServiceName, Option<KeptLease>>;

/// The report of an expired lease.
#[derive(Debug, Clone)]
pub(crate) struct ExpiredLease {
    pub(crate) service: ServiceName,
    pub(crate) owner: Option<ClientName>,
}

/// A lease that begins now, and its stored form.
pub(crate) fn begin(length: Millis) -> (Lease, KeptLease) {
    let now = clock::now();
    let lease = Lease::begin(length, now.mono);
    (lease, lease.keep(now, boot_id::id()))
}

impl AddedService {
    /// The tenure restored from the stored entry.
    pub(crate) fn tenure(&self) -> Ownership {
        let lease = self.lease.as_ref().map(|kept| kept.resume(clock::now(), boot_id::id()));
        Ownership::new(self.owner.clone(), lease.zip(self.lease.clone()))
    }
}

impl Startup {
    /// Removes services whose lease expired while no daemon ran, before anything starts them.
    pub(crate) fn end_leases(&mut self) {
        for (key, added) in self.stored.added.clone() {
            let tenure = added.tenure();
            if tenure.is_over(clock::now().mono) {
                self.stored.drop_added(&key);
                self.over.push(ExpiredLease { service: key, owner: added.owner });
            } else {
                self.tenures.insert(key, Arc::new(tenure));
            }
        }
    }
}

impl Owner {
    /// The time when the next lease expires, if nobody renews it.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        let now = clock::now().mono;
        let leases = self.tenures.values().filter_map(|tenure| tenure.lease());
        let left = leases.map(|lease| lease.left(now)).min()?;
        // Rounded up: at that moment the lease has expired.
        let due = Instant::now() + Duration::from_millis(left.0 + 1);
        Some(self.end_again.map_or(due, |again| due.max(again)))
    }

    /// Stops and removes services whose lease expired.
    pub(crate) async fn end_leases(&mut self) {
        let now = clock::now().mono;
        self.end_again = None;
        let over = self.tenures.iter().filter(|(_, tenure)| tenure.is_over(now));
        for key in over.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            let names = self.registry.defined().into_keys();
            let names = names.filter(|name| self.stored.added_key(name).as_ref() == Some(&key));
            let names: Vec<ServiceName> = names.collect();
            if let Err(error) = self.remove(names, Removal::LeaseOver).await {
                tracing::error!(service = %key, %error, "cannot remove the service after its lease expired");
            }
            if self.tenures.contains_key(&key) {
                self.end_again = Some(Instant::now() + TRY_AGAIN);
            }
        }
        // Leases in use were renewed instead.
        self.keep_leases().await;
    }

    /// Stores leases that have moved far enough.
    pub(crate) async fn keep_leases(&mut self) {
        let (now, boot) = (clock::now(), boot_id::id());
        let moved = |(key, tenure): (&ServiceName, &Arc<Ownership>)| {
            Some((key.clone(), Some(tenure.unwritten()?.keep(now, boot))))
        };
        let moved: StoredLeases = self.tenures.iter().filter_map(moved).collect();
        if let Err(error) = self.write_leases(&moved).await {
            // The next use tries again.
            tracing::warn!(%error, "cannot store a renewed lease");
            return;
        }
        for (key, kept) in moved {
            if let Some(tenure) = self.tenures.get(&key) {
                tenure.written(kept);
            }
        }
    }

    pub(crate) async fn change_lease(
        &mut self,
        names: Vec<ServiceName>,
        change: LeaseChange,
    ) -> Result<(), EngineError> {
        let mut leases = BTreeMap::new();
        for name in &names {
            let key = self.added_key(name)?;
            let before = self.tenures.get(&key).and_then(|tenure| tenure.lease());
            let length = match change {
                LeaseChange::For(length) => Some(length),
                LeaseChange::ForGood => None,
                LeaseChange::Renew => {
                    let none = || EngineError::NoLease(name.clone());
                    Some(before.ok_or_else(none)?.length())
                }
            };
            leases.insert(key, length.map(begin));
        }
        let kept = leases.iter().map(|(key, lease)| {
            let kept = lease.as_ref().map(|(_, kept)| kept.clone());
            (key.clone(), kept)
        });
        self.write_leases(&kept.collect()).await?;
        for (key, lease) in leases {
            if let Some(tenure) = self.tenures.get(&key) {
                tenure.set(lease);
            }
        }
        self.registry.touch();
        Ok(())
    }

    async fn write_leases(&mut self, leases: &StoredLeases) -> Result<(), EngineError> {
        let mut stored = self.stored.clone();
        for (key, kept) in leases {
            if let Some(added) = stored.added.get_mut(key) {
                added.lease.clone_from(kept);
            }
        }
        Ok(self.save(stored).await?)
    }
}
