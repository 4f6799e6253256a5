//! Counts calls, results and durations of each operation.

use crate::error::{Code, TABLE as CODES};
use crate::table::TABLE;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the latency classes in milliseconds; the last class has none.
pub const CLASSES: [u64; 8] = [1, 5, 25, 100, 500, 2_500, 10_000, 60_000];

/// Counts of all operations since the daemon started.
pub struct Counters {
    operations: Box<[Counts]>,
}

struct Counts {
    good: AtomicU64,
    /// Ordered like the table of codes.
    bad: Box<[AtomicU64]>,
    classes: [AtomicU64; CLASSES.len() + 1],
    micros: AtomicU64,
}

/// Counts of one operation at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    pub operation: &'static str,
    /// Counts by result, without zeros; `None` is success.
    pub results: Vec<(Option<Code>, u64)>,
    /// Counts for each class of [`CLASSES`]; the last one is for longer calls.
    pub classes: [u64; CLASSES.len() + 1],
    pub micros: u64,
}

impl Default for Counters {
    fn default() -> Counters {
        let counts = |_| Counts {
            good: AtomicU64::new(0),
            bad: CODES.iter().map(|_| AtomicU64::new(0)).collect(),
            classes: Default::default(),
            micros: AtomicU64::new(0),
        };
        Counters { operations: TABLE.iter().map(counts).collect() }
    }
}

impl Counters {
    /// Counts a finished call.
    pub(crate) fn count(&self, operation: &str, code: Option<Code>, took: Duration) {
        let Some(at) = TABLE.iter().position(|entry| entry.meta.name == operation) else { return };
        let counts = &self.operations[at];
        let result = match code {
            None => Some(&counts.good),
            Some(code) => CODES.iter().position(|row| row.code == code).map(|row| &counts.bad[row]),
        };
        let class = CLASSES.iter().position(|end| took.as_millis() <= u128::from(*end));
        for counter in result.into_iter().chain([&counts.classes[class.unwrap_or(CLASSES.len())]]) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        counts.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns the operations that were called.
    pub fn read(&self) -> Vec<Count> {
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let count = |(at, counts): (usize, &Counts)| {
            let bad =
                CODES.iter().zip(&counts.bad).map(|(row, count)| (Some(row.code), now(count)));
            let all = [(None, now(&counts.good))].into_iter().chain(bad);
            let results: Vec<_> = all.filter(|(_, count)| *count > 0).collect();
            (!results.is_empty()).then(|| Count {
                operation: TABLE[at].meta.name,
                results,
                classes: std::array::from_fn(|class| now(&counts.classes[class])),
                micros: now(&counts.micros),
            })
        };
        self.operations.iter().enumerate().filter_map(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_operation_result_and_class() {
        let counters = Counters::default();
        counters.count("service.list", None, Duration::from_millis(1));
        counters.count("service.list", None, Duration::from_millis(2));
        counters.count("service.list", Some(Code::Busy), Duration::from_secs(3600));
        counters.count("no.such", None, Duration::ZERO);
        let [list] = counters.read().try_into().unwrap();
        assert_eq!(list.operation, "service.list");
        assert_eq!(list.results, [(None, 2), (Some(Code::Busy), 1)]);
        assert_eq!(list.classes, [1, 1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(list.micros, 3_600_003_000);
    }
}
