//! The lifetime of a service that was started for a limited time, and how it survives a restart.
//!
//! While Proctor runs, the monotonic clock ends a lease: setting the wall clock ends none. A stored
//! lease keeps counting on that clock until the machine reboots. After a reboot only the wall clock
//! is left: it ends a lease that has expired, and it never extends one beyond its original length.

use crate::record_encoding::BootId;
use crate::time::{Millis, Mono, Now, Wall};
use serde::{Deserialize, Serialize};

/// A shorter lease would end before its service can be used.
pub const SHORTEST: Millis = Millis::seconds(1);

/// A year, as for every duration in a configuration. A longer-lived service needs no lease.
pub const MAX_LEASE: Millis = Millis::seconds(366 * 24 * 3600);

/// A renewal is written to disk when it extends the lease by at least a tenth of its length.
const PARTS: u64 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    length: Millis,
    ends: Mono,
}

impl Lease {
    pub fn begin(length: Millis, now: Mono) -> Lease {
        let length = Millis(length.0.clamp(SHORTEST.0, MAX_LEASE.0));
        Lease { length, ends: now.plus(length) }
    }

    pub fn length(self) -> Millis {
        self.length
    }

    /// Extends the lease by its full length from now on.
    #[must_use]
    pub fn renewed(self, now: Mono) -> Lease {
        Lease { ends: self.ends.max(now.plus(self.length)), ..self }
    }

    pub fn left(self, now: Mono) -> Millis {
        self.ends.since(now)
    }

    pub fn is_over(self, now: Mono) -> bool {
        now >= self.ends
    }

    /// Returns the form that is written to disk.
    pub fn keep(self, now: Now, boot: BootId) -> KeptLease {
        let left = i64::try_from(self.left(now.mono).0).unwrap_or(i64::MAX);
        let until = Wall(now.wall.0.saturating_add(left.saturating_mul(1000)));
        KeptLease { length: self.length, until, boot: hex(boot), ends: self.ends }
    }
}

/// A lease as written to disk. Renewals by less than a tenth of its length are not written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptLease {
    /// Milliseconds.
    length: Millis,
    /// Microseconds since 1970.
    until: Wall,
    /// Microseconds on the monotonic clock of this boot.
    ends: Mono,
    boot: String,
}

impl KeptLease {
    /// Restores the lease. Adds a tenth of its length for a renewal that may not have been written,
    /// so that it ends late rather than early.
    pub fn resume(&self, now: Now, boot: BootId) -> Lease {
        let length = Millis(self.length.0.clamp(SHORTEST.0, MAX_LEASE.0));
        let unwritten = Millis(length.0 / PARTS);
        let left = if is_known(boot) && self.boot == hex(boot) {
            self.ends.plus(unwritten).since(now.mono)
        } else {
            let micros = self.until.0.saturating_sub(now.wall.0);
            let unwritten = i64::try_from(unwritten.0).unwrap_or(i64::MAX);
            let left = (micros / 1000).saturating_add(unwritten);
            Millis(u64::try_from(left).unwrap_or(0))
        };
        Lease { length, ends: now.mono.plus(left.min(length)) }
    }

    /// Whether the lease was extended far enough to be written again.
    pub fn is_old(&self, lease: Lease) -> bool {
        self.length != lease.length || lease.ends.since(self.ends).0 > lease.length.0 / PARTS
    }
}

/// Whether the kernel reports the id of this boot.
fn is_known(boot: BootId) -> bool {
    boot != BootId([0; 16])
}

fn hex(BootId(bytes): BootId) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: BootId = BootId([7; 16]);
    const OTHER: BootId = BootId([8; 16]);
    const UNKNOWN: BootId = BootId([0; 16]);

    /// Seconds on both clocks.
    fn at(mono: u64, wall: i64) -> Now {
        Now { mono: Mono(mono * 1_000_000), wall: Wall(wall * 1_000_000) }
    }

    fn seconds(left: Millis) -> u64 {
        left.0 / 1000
    }

    #[test]
    fn it_ends_after_its_length_and_each_renewal_gives_it_all_again() {
        let lease = Lease::begin(Millis::seconds(100), at(50, 0).mono);
        for (now, left, over) in [(50, 100, false), (149, 1, false), (150, 0, true), (999, 0, true)]
        {
            let now = at(now, 0).mono;
            assert_eq!((seconds(lease.left(now)), lease.is_over(now)), (left, over), "{now:?}");
        }
        let renewed = lease.renewed(at(120, 0).mono);
        assert_eq!(seconds(renewed.left(at(120, 0).mono)), 100);
        assert_eq!(renewed.renewed(at(60, 0).mono), renewed, "no renewal makes it shorter");
        assert_eq!(Lease::begin(Millis(0), Mono(0)).length(), SHORTEST);
        assert_eq!(Lease::begin(Millis(u64::MAX), Mono(0)).length(), MAX_LEASE);
    }

    /// Stored 10 seconds after it began, so that 90 of 100 are left; restored at `now` in `boot`.
    #[track_caller]
    fn check(now: Now, boot: BootId, left: u64) {
        let kept = Lease::begin(Millis::seconds(100), at(990, 0).mono).keep(at(1000, 5000), BOOT);
        let json = serde_json::to_string(&kept).unwrap();
        assert_eq!(serde_json::from_str::<KeptLease>(&json).unwrap(), kept);
        assert_eq!(seconds(kept.resume(now, boot).left(now.mono)), left, "{now:?} {boot:?}");
    }

    #[test]
    fn in_the_same_boot_the_wall_clock_has_no_say() {
        for wall in [5000, 0, -1, 9_000_000_000] {
            check(at(1000, wall), BOOT, 100);
            check(at(1040, wall), BOOT, 60);
            check(at(1090, wall), BOOT, 10);
            check(at(1100, wall), BOOT, 0);
        }
    }

    #[test]
    fn after_a_reboot_the_wall_clock_has_and_gives_nobody_more_than_was_given() {
        for boot in [OTHER, UNKNOWN] {
            check(at(3, 5000), boot, 100);
            check(at(3, 5060), boot, 40);
            check(at(3, 5100), boot, 0);
            check(at(3, 9_000_000_000), boot, 0);
            check(at(3, 0), boot, 100);
        }
    }

    #[test]
    fn only_a_renewal_of_more_than_a_tenth_is_written_down() {
        let lease = Lease::begin(Millis::seconds(100), Mono(0));
        let kept = lease.keep(at(0, 0), BOOT);
        for (now, old) in [(0, false), (10, false), (11, true), (90, true)] {
            assert_eq!(kept.is_old(lease.renewed(at(now, 0).mono)), old, "{now}");
        }
        assert!(kept.is_old(Lease::begin(Millis::seconds(50), Mono(0))), "another length");
    }

    #[test]
    fn no_number_in_a_file_makes_it_endless_or_panics() {
        for number in [0, 1, u64::MAX >> 1, u64::MAX] {
            let kept = KeptLease {
                length: Millis(number),
                until: Wall(number as i64),
                ends: Mono(number),
                boot: hex(BOOT),
            };
            for boot in [BOOT, OTHER] {
                for now in [at(0, 0), at(1 << 40, 1 << 40), at(0, -(1 << 40))] {
                    let lease = kept.resume(now, boot);
                    assert!(lease.left(now.mono) <= MAX_LEASE && lease.length() >= SHORTEST);
                    lease.keep(now, boot);
                }
            }
        }
    }
}
