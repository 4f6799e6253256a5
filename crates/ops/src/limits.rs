//! Limits for callers: on concurrent requests, and on their rate.
//!
//! The unix socket has slots of its own, so the owner gets in whatever comes over the network. Over the network each token, or
//! each address without a token, has a share. The rate of reads is not limited: they are cheap, and a dashboard reads
//! often.

mod bucket;

use self::bucket::{Bucket, Rate};
use crate::error::{Code, OpError};
use crate::operation::{Caller, Effect, Principal, TokenId};
use serde_json::json;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Maximum concurrent reads. Long polls are cheap, but each holds a connection and a task.
const MAX_READS: u32 = 512;
/// Maximum concurrent changes. A script may start a few hundred services, each with its own command.
const MAX_CHANGES: u32 = 256;
/// Maximum concurrent reads of one network caller, so others have slots left.
const READS_OF_ONE: u32 = 256;
const CHANGES_OF_ONE: u32 = 64;

/// Rate of changes over the network: more than a person or a deployment needs.
const CHANGES: Rate = Rate { each_second: 50.0, burst: 500.0 };
/// Rate of invalid tokens from one address: too slow to guess even a weak one.
const GUESSES: Rate = Rate { each_second: 10.0, burst: 20.0 };
/// Rate of recorded refusals of one caller: more would bury the rest of the audit log.
const REFUSALS: Rate = Rate { each_second: 10.0, burst: 100.0 };
/// Rate of recorded refusals of all callers without a token: at this rate the log covers weeks.
const REFUSALS_OF_NAMELESS: Rate = Rate { each_second: 1.0, burst: 200.0 };

/// Maximum callers with a share of their own. All others have one in common.
const MAX_CALLERS: usize = 4096;

#[derive(Default)]
pub struct Limits {
    state: Mutex<State>,
}

struct State {
    local: Load,
    network: Load,
    callers: HashMap<Key, CallerShare>,
    refusals_of_nameless: Bucket,
}

impl Default for State {
    fn default() -> State {
        State {
            local: Load::default(),
            network: Load::default(),
            callers: HashMap::new(),
            refusals_of_nameless: Bucket::full(REFUSALS_OF_NAMELESS, Instant::now()),
        }
    }
}

/// Operations in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Load {
    reads: u32,
    changes: u32,
}

/// Key of a shared limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Token(TokenId),
    Address(IpAddr),
    /// Callers beyond the maximum.
    Others,
}

struct CallerShare {
    load: Load,
    changes: Bucket,
    guesses: Bucket,
    refusals: Bucket,
}

impl CallerShare {
    fn new(now: Instant) -> CallerShare {
        let full = |rate| Bucket::full(rate, now);
        CallerShare {
            load: Load::default(),
            changes: full(CHANGES),
            guesses: full(GUESSES),
            refusals: full(REFUSALS),
        }
    }

    /// Returns true if the entry holds no state worth keeping.
    fn is_idle(&self, now: Instant) -> bool {
        let full = [&self.changes, &self.guesses, &self.refusals];
        self.load == Load::default() && full.iter().all(|bucket| bucket.is_full(now))
    }
}

/// A slot; dropping it frees the slot.
pub(crate) struct Permit {
    limits: Arc<Limits>,
    key: Option<Key>,
    effect: Effect,
}

impl Limits {
    /// Takes a slot for one more operation, or returns an error.
    pub(crate) fn admit(
        self: &Arc<Limits>,
        caller: &Caller,
        effect: Effect,
    ) -> Result<Permit, OpError> {
        let mut state = self.state();
        let state = &mut *state;
        let key = caller.is_network().then(|| room_for(&mut state.callers, key(caller)));
        if let Some(key) = &key {
            let now = Instant::now();
            let share = share(&mut state.callers, key, now);
            if share.load.of(effect) >= of_one(effect) {
                return Err(busy());
            }
            if effect != Effect::Read
                && let Err(wait) = share.changes.take(now)
            {
                return Err(limited("too many changes", wait));
            }
        }
        let all = if key.is_some() { &mut state.network } else { &mut state.local };
        if all.of(effect) >= of_all(effect) {
            return Err(busy());
        }
        all.add(effect, 1);
        if let Some(share) = key.as_ref().and_then(|key| state.callers.get_mut(key)) {
            share.load.add(effect, 1);
        }
        Ok(Permit { limits: Arc::clone(self), key, effect })
    }

    /// Checks whether this address may present another token. Returns the remaining wait as an error.
    pub(crate) fn may_guess(&self, caller: &Caller) -> Result<(), Duration> {
        let mut state = self.state();
        // A wrong token is counted in this entry, too.
        let key = room_for(&mut state.callers, address(caller));
        let share = state.callers.get(&key);
        share.map_or(Ok(()), |share| share.guesses.look(Instant::now()))
    }

    pub(crate) fn guessed_wrong(&self, caller: &Caller) {
        let now = Instant::now();
        let mut state = self.state();
        let key = room_for(&mut state.callers, address(caller));
        let share = share(&mut state.callers, &key, now);
        // Beyond the last token the bucket stays empty.
        let _ = share.guesses.take(now);
    }

    /// Returns true if another refusal of this caller is recorded, false if it is only counted.
    pub(crate) fn notes_refusal(&self, caller: &Caller) -> bool {
        if !caller.is_network() {
            return true;
        }
        let now = Instant::now();
        let mut state = self.state();
        let key = room_for(&mut state.callers, key(caller));
        let own = share(&mut state.callers, &key, now).refusals.take(now);
        let nameless = !matches!(caller.principal, Principal::Token { .. });
        own.is_ok() && (!nameless || state.refusals_of_nameless.take(now).is_ok())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it counts")
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.limits.state();
        let all = if self.key.is_some() { &mut state.network } else { &mut state.local };
        all.add(self.effect, -1);
        if let Some(share) = self.key.as_ref().and_then(|key| state.callers.get_mut(key)) {
            share.load.add(self.effect, -1);
        }
    }
}

impl Load {
    fn place(&mut self, effect: Effect) -> &mut u32 {
        match effect {
            Effect::Read => &mut self.reads,
            Effect::Write | Effect::Exec | Effect::Admin => &mut self.changes,
        }
    }

    fn of(mut self, effect: Effect) -> u32 {
        *self.place(effect)
    }

    fn add(&mut self, effect: Effect, more: i32) {
        let place = self.place(effect);
        *place = place.saturating_add_signed(more);
    }
}

fn of_one(effect: Effect) -> u32 {
    if effect == Effect::Read { READS_OF_ONE } else { CHANGES_OF_ONE }
}

fn of_all(effect: Effect) -> u32 {
    if effect == Effect::Read { MAX_READS } else { MAX_CHANGES }
}

fn key(caller: &Caller) -> Key {
    match &caller.principal {
        Principal::Token { id, .. } => Key::Token(id.clone()),
        Principal::Local { .. } | Principal::Anonymous | Principal::Stranger => address(caller),
    }
}

/// An IPv6 address is reduced to its network, because one machine may have all its addresses. All loopback addresses are one,
/// because every local program may call from any of them.
fn address(caller: &Caller) -> Key {
    match caller.peer.map(|peer| peer.ip().to_canonical()) {
        Some(ip) if ip.is_loopback() => Key::Address(Ipv4Addr::LOCALHOST.into()),
        Some(IpAddr::V6(ip)) => {
            let [a, b, c, d, ..] = ip.segments();
            Key::Address(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
        }
        Some(ip) => Key::Address(ip),
        None => Key::Others,
    }
}

/// Returns the caller's own entry, or the common one if there are too many entries in use.
fn room_for(callers: &mut HashMap<Key, CallerShare>, key: Key) -> Key {
    if callers.len() < MAX_CALLERS || callers.contains_key(&key) {
        return key;
    }
    let now = Instant::now();
    callers.retain(|_, share| !share.is_idle(now));
    if callers.len() < MAX_CALLERS { key } else { Key::Others }
}

fn share<'a>(
    callers: &'a mut HashMap<Key, CallerShare>,
    key: &Key,
    now: Instant,
) -> &'a mut CallerShare {
    callers.entry(key.clone()).or_insert_with(|| CallerShare::new(now))
}

fn busy() -> OpError {
    OpError::new(Code::Busy, "too many requests at once").help("retry in a moment")
}

pub(crate) fn limited(what: &str, wait: Duration) -> OpError {
    let seconds = wait.as_secs_f64().max(0.001);
    OpError::new(Code::RateLimited, format!("{what} in a short time"))
        .help(format!("retry in {seconds:.1} s"))
        .details(json!({ "retry_after_seconds": seconds }))
}

#[cfg(test)]
mod tests;
