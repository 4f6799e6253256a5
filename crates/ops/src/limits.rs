//! How much callers may ask of Proctor: at once, and in a row.
//!
//! The unix socket has places of its own, so that whatever comes over the network, the owner gets in. Over the network each
//! token, or each address where there is none, has a share. Reading is not limited in a row: it costs little, and a page
//! that shows everything asks often.

mod bucket;

use self::bucket::{Bucket, Rate};
use crate::error::{Code, OpError};
use crate::operation::{Caller, Effect, Principal, TokenId};
use serde_json::json;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Long polls are cheap, but each holds a connection and a task.
const MOST_READS: u32 = 512;
/// A script may start a few hundred services, each with a command of its own.
const MOST_CHANGES: u32 = 256;
/// Of one caller over the network, so that it leaves some to others.
const READS_OF_ONE: u32 = 256;
const CHANGES_OF_ONE: u32 = 64;

/// Changes over the network in a row: more than a person or a deployment needs.
const CHANGES: Rate = Rate { each_second: 50.0, burst: 500.0 };
/// Wrong tokens from one address: a badly chosen one is not guessed at this pace.
const GUESSES: Rate = Rate { each_second: 10.0, burst: 20.0 };
/// Refusals of one caller that are written down one by one: more would bury the rest of the audit.
const REFUSALS: Rate = Rate { each_second: 10.0, burst: 100.0 };
/// … of all who have no token, however many addresses they have: at this pace the audit goes back for weeks.
const REFUSALS_OF_NAMELESS: Rate = Rate { each_second: 1.0, burst: 200.0 };

/// Callers that are remembered. Beyond them, all share one place.
const MOST_CALLERS: usize = 4096;

#[derive(Default)]
pub struct Limits {
    state: Mutex<State>,
}

struct State {
    local: Load,
    network: Load,
    callers: HashMap<Key, Share>,
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

/// Operations under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Load {
    reads: u32,
    changes: u32,
}

/// Who shares a limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Token(TokenId),
    Address(IpAddr),
    /// Those for whom there is no room.
    Others,
}

struct Share {
    load: Load,
    changes: Bucket,
    guesses: Bucket,
    refusals: Bucket,
}

impl Share {
    fn new(now: Instant) -> Share {
        let full = |rate| Bucket::full(rate, now);
        Share {
            load: Load::default(),
            changes: full(CHANGES),
            guesses: full(GUESSES),
            refusals: full(REFUSALS),
        }
    }

    /// Nothing of it would be missed.
    fn is_idle(&self, now: Instant) -> bool {
        let full = [&self.changes, &self.guesses, &self.refusals];
        self.load == Load::default() && full.iter().all(|bucket| bucket.is_full(now))
    }
}

/// A place, until it is dropped.
pub(crate) struct Permit {
    limits: Arc<Limits>,
    key: Option<Key>,
    effect: Effect,
}

impl Limits {
    /// May one more begin?
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

    /// May this address present another token that may be wrong? `Err`: not for so long.
    pub(crate) fn may_guess(&self, caller: &Caller) -> Result<(), Duration> {
        let mut state = self.state();
        // The same place in which a wrong one is counted.
        let key = room_for(&mut state.callers, address(caller));
        let share = state.callers.get(&key);
        share.map_or(Ok(()), |share| share.guesses.look(Instant::now()))
    }

    pub(crate) fn guessed_wrong(&self, caller: &Caller) {
        let now = Instant::now();
        let mut state = self.state();
        let key = room_for(&mut state.callers, address(caller));
        let share = share(&mut state.callers, &key, now);
        // Beyond the last it stays empty.
        let _ = share.guesses.take(now);
    }

    /// Is one more refusal of this caller written down, or only counted?
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
    if effect == Effect::Read { MOST_READS } else { MOST_CHANGES }
}

fn key(caller: &Caller) -> Key {
    match &caller.principal {
        Principal::Token { id, .. } => Key::Token(id.clone()),
        Principal::Local { .. } | Principal::Anonymous | Principal::Stranger => address(caller),
    }
}

/// Of IPv6 the network: one machine may have all addresses of it. Of this machine one for all: every program here may call
/// from any of them.
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

/// The caller's own place, or, when there are too many of whom there is something to remember, the one of all others.
fn room_for(callers: &mut HashMap<Key, Share>, key: Key) -> Key {
    if callers.len() < MOST_CALLERS || callers.contains_key(&key) {
        return key;
    }
    let now = Instant::now();
    callers.retain(|_, share| !share.is_idle(now));
    if callers.len() < MOST_CALLERS { key } else { Key::Others }
}

fn share<'a>(callers: &'a mut HashMap<Key, Share>, key: &Key, now: Instant) -> &'a mut Share {
    callers.entry(key.clone()).or_insert_with(|| Share::new(now))
}

fn busy() -> OpError {
    OpError::new(Code::Busy, "too many requests at once").help("try again in a moment")
}

pub(crate) fn limited(what: &str, wait: Duration) -> OpError {
    let seconds = wait.as_secs_f64().max(0.001);
    OpError::new(Code::RateLimited, format!("{what} in a row"))
        .help(format!("try again in {seconds:.1} s"))
        .details(json!({ "retry_after_seconds": seconds }))
}

#[cfg(test)]
mod tests;
