//! The clocks, read together.

use proctor_core::time::{Mono, Now, Wall};
use rustix::time::{ClockId, Timespec, clock_gettime};

pub fn now() -> Now {
    let mono = micros(clock_gettime(ClockId::Monotonic));
    let wall = micros(clock_gettime(ClockId::Realtime));
    Now { mono: Mono(mono.max(0).unsigned_abs()), wall: Wall(wall) }
}

/// Clock ticks since boot, the unit of start times in `/proc/PID/stat`.
pub fn ticks_since_boot() -> u64 {
    let micros = micros(clock_gettime(ClockId::Boottime)).max(0).unsigned_abs();
    micros.saturating_mul(crate::proc::ticks_per_second()) / 1_000_000
}

/// Converts a tick since boot to wall clock time, based on the current clock.
pub fn wall_at(ticks: u64) -> Wall {
    let ago = ticks_since_boot().saturating_sub(ticks).saturating_mul(1_000_000);
    let ago = i64::try_from(ago / crate::proc::ticks_per_second()).unwrap_or(i64::MAX);
    Wall(now().wall.0.saturating_sub(ago))
}

fn micros(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1000)
}
