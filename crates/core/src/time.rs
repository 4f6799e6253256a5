//! Time as data. The callers own the clocks; `core` only compares and adds.

use serde::{Deserialize, Serialize};

/// Microseconds on the monotonic clock of this boot. Comparable between processes, not between boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Mono(pub u64);

/// Microseconds since the Unix epoch. For people and log indexes; it may jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Wall(pub i64);

/// A length of time in milliseconds, as configuration gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Millis(pub u64);

/// Both clocks, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    pub mono: Mono,
    pub wall: Wall,
}

impl Mono {
    /// The moment `after` from this one; saturates at the end of time instead of wrapping.
    pub fn plus(self, after: Millis) -> Mono {
        Mono(self.0.saturating_add(after.0.saturating_mul(1000)))
    }

    /// How long it has been from `earlier` to this moment; zero if `earlier` is later.
    pub fn since(self, earlier: Mono) -> Millis {
        Millis(self.0.saturating_sub(earlier.0) / 1000)
    }
}

impl Millis {
    pub const ZERO: Millis = Millis(0);

    pub const fn seconds(seconds: u64) -> Millis {
        Millis(seconds.saturating_mul(1000))
    }
}
