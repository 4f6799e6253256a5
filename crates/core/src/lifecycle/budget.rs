//! The restart budget: the number and the pace of restarts after crashes.

use crate::spec::RestartSpec;
use crate::time::{Millis, Mono};

/// Maximum number of remembered restarts, which bounds the memory of a service. The configuration
/// allows no higher `max_restarts`; without a limit nothing is remembered.
const MAX_REMEMBERED: usize = RestartSpec::MAX_RESTARTS as usize;

/// The crash restarts of a service: those in the window, and the number in a row without a stable
/// run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Budget {
    pub(crate) recent: Vec<Mono>,
    pub(crate) streak: u32,
}

impl Budget {
    /// Resets the budget because a person requested a start.
    pub(super) fn forgive(&mut self) {
        *self = Budget::default();
    }

    /// Restarts the ladder of waits after a stable run; the window is kept.
    pub(super) fn stable(&mut self) {
        self.streak = 0;
    }

    /// Requests one more restart at `now`. Returns the wait before it, or `None` if the budget is
    /// spent. [`Budget::made`] charges the budget after the wait. A cancelled restart therefore
    /// costs nothing, and long waits cannot carry more restarts into a window than it allows.
    pub(super) fn ask(&mut self, now: Mono, spec: &RestartSpec, seed: u64) -> Option<Millis> {
        // Without a limit nothing needs to be remembered.
        self.recent.retain(|at| spec.max_restarts.is_some() && now.since(*at) < spec.window);
        let allowed = spec.max_restarts.map_or(usize::MAX, |n| (n as usize).min(MAX_REMEMBERED));
        if self.recent.len() >= allowed {
            return None;
        }
        let wait = with_jitter(ladder(self.streak, spec), spec, seed);
        self.streak = self.streak.saturating_add(1);
        Some(wait)
    }

    /// Charges the requested restart, which is made at `now`.
    pub(super) fn made(&mut self, now: Mono) {
        if self.recent.len() >= MAX_REMEMBERED {
            self.recent.remove(0);
        }
        self.recent.push(now);
    }

    /// Refunds the last restart, which failed because the machine lacked a resource.
    pub(super) fn unmade(&mut self) {
        self.recent.pop();
    }

    pub(super) fn spent(&self) -> u32 {
        self.recent.len() as u32
    }
}

/// The wait before restart number `streak` (from 0) in a row.
fn ladder(streak: u32, spec: &RestartSpec) -> Millis {
    let (first, steps) = match (spec.delay, streak) {
        // Handled here because zero times an infinite factor is NaN.
        (Some(Millis::ZERO), _) => return Millis::ZERO,
        (Some(delay), steps) => (delay, steps),
        (None, 0) => return Millis::ZERO,
        (None, steps) => (RestartSpec::FIRST_STEP, steps - 1),
    };
    let factor = spec.backoff.max(1.0).powi(steps.min(64) as i32);
    let wait = (first.0 as f64 * factor).min(spec.max_delay.0 as f64);
    Millis(wait as u64)
}

/// Shortens the wait by a random share of up to `jitter`, so that services that crashed together do
/// not restart together.
fn with_jitter(wait: Millis, spec: &RestartSpec, seed: u64) -> Millis {
    let share = (mix(seed) >> 11) as f64 / (1u64 << 53) as f64;
    Millis((wait.0 as f64 * (1.0 - spec.jitter.clamp(0.0, 1.0) * share)) as u64)
}

/// The finaliser of SplitMix64: spreads a counter over all bits (Steele, Lea, Flood 2014).
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
