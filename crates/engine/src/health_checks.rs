//! Chooses the runs whose health is checked, and acts on the results.
//!
//! There is one task for each service that has a check and is up; it ends with the run. Failures do not count
//! within `health_check.start_period`, which the first success ends. Within it a check follows every two
//! seconds, or every interval if that is shorter, so that a developer soon sees whether a service works.

use crate::api::{FailedChecks, Health};
use crate::http_probe;
use crate::keeper_link::Link;
use crate::registry::Registry;
use crate::secrets;
use crate::unhealthy_file;
use proctor_core::config::HealthCheck;
use proctor_core::home::Home;
use proctor_core::name::{RunId, ServiceName};
use proctor_core::time::Wall;
use proctor_core::wire::ToKeeper;
use proctor_sys::clock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

/// Maximum time between two checks within the start period.
const START_INTERVAL: Duration = Duration::from_secs(2);

/// A run whose health is checked.
pub(crate) struct CheckedRun {
    pub(crate) run: RunId,
    pub(crate) started: Wall,
    /// It was healthy, or its failures have begun to count: a changed definition gives it no second start
    /// period.
    pub(crate) has_started: bool,
    pub(crate) check: HealthCheck,
}

/// A running check task.
struct CheckTask {
    run: RunId,
    check: HealthCheck,
    task: AbortHandle,
}

/// Keeps the check tasks in step with the runs, for ever.
pub(crate) async fn run(home: Home, registry: Arc<Registry>, link: Link) {
    let mut tasks = JoinSet::new();
    let mut checking: BTreeMap<ServiceName, CheckTask> = BTreeMap::new();
    loop {
        for name in registry.probes_to_look_at().await {
            let wanted = registry.probe_of(&name);
            let same = |now: &CheckTask| {
                wanted.as_ref().is_some_and(|it| now.run == it.run && now.check == it.check)
            };
            if checking.get(&name).is_some_and(same) {
                continue;
            }
            if let Some(old) = checking.remove(&name) {
                old.task.abort();
            }
            if let Some(wanted) = wanted {
                let (run, check) = (wanted.run, wanted.check.clone());
                let teller = Teller {
                    home: home.clone(),
                    registry: Arc::clone(&registry),
                    link: link.clone(),
                };
                let watch = watch(name.clone(), wanted, teller);
                checking.insert(name, CheckTask { run, check, task: tasks.spawn(watch) });
            }
        }
        // Aborted tasks are finished; collecting them keeps the set as small as the number of checks.
        while tasks.try_join_next().is_some() {}
    }
}

/// Checks one run until this task is aborted. The keeper gets one message for each run. The checks continue until
/// it has ended the run, so that the view stays current.
async fn watch(name: ServiceName, checked: CheckedRun, teller: Teller) {
    let (run, check) = (checked.run, &checked.check);
    let interval = Duration::from_millis(check.interval.0.max(1));
    let patience = Duration::from_millis(check.timeout.0);
    let mut tally = FailureCount::of(&checked, clock::now().wall, Instant::now());
    let mut told = false;
    tokio::time::sleep(interval.min(START_INTERVAL)).await;
    loop {
        let asked = Instant::now();
        let result = http_probe::check(&check.url, patience).await;
        let health = tally.count(result, asked, clock::now().wall);
        teller.registry.set_health(&name, run, health.clone());
        if let Health::Failing { failures, why, .. } = health
            && failures >= check.retries.max(1)
            && !told
        {
            let url = secrets::hide(without_query(&check.url)).into_owned();
            let checks = FailedChecks { url, why, failures };
            tracing::warn!(service = %name, %run, "{checks}; asking the keeper to restart it");
            told = true;
            teller.tell(&name, run, checks).await;
        }
        let pause =
            if tally.is_starting(Instant::now()) { interval.min(START_INTERVAL) } else { interval };
        tokio::time::sleep(pause).await;
    }
}

/// Those who hear of an unhealthy run.
struct Teller {
    home: Home,
    registry: Arc<Registry>,
    link: Link,
}

impl Teller {
    /// Say why a run is ended, also to later daemons, and have the keeper end it.
    async fn tell(&self, name: &ServiceName, run: RunId, checks: FailedChecks) {
        if let Some(reasons) = self.registry.set_unhealthy(name, run, checks) {
            let (home, service) = (self.home.clone(), name.clone());
            let write = move || unhealthy_file::write(&home, &service, &reasons);
            if let Ok(Err(error)) = crate::blocking(write).await {
                tracing::warn!(service = %name, %error, "cannot store why a run was unhealthy; later daemons will not know");
            }
        }
        let unhealthy = ToKeeper::Unhealthy { name: name.clone(), run };
        if let Err(error) = self.link.tell(&unhealthy).await {
            tracing::error!(service = %name, %error, "the keeper could not be told");
        }
    }
}

/// The results of one run's checks.
struct FailureCount {
    /// `None`: the start period has ended.
    starting_until: Option<Instant>,
    /// Failures in a row, after the start period.
    failures: u32,
}

impl FailureCount {
    fn of(checked: &CheckedRun, wall: Wall, now: Instant) -> FailureCount {
        let age = u64::try_from(wall.0.saturating_sub(checked.started.0)).unwrap_or(0);
        let period = Duration::from_millis(checked.check.start_period.0);
        let left = period.saturating_sub(Duration::from_micros(age));
        let starting_until = (!checked.has_started).then(|| now.checked_add(left)).flatten();
        FailureCount { starting_until, failures: 0 }
    }

    fn is_starting(&self, now: Instant) -> bool {
        self.starting_until.is_some_and(|until| now < until)
    }

    /// Counts the result of a check that began at `asked`.
    fn count(&mut self, result: Result<(), String>, asked: Instant, at: Wall) -> Health {
        match result {
            Ok(()) => {
                (self.starting_until, self.failures) = (None, 0);
                Health::Healthy { at }
            }
            Err(why) if self.is_starting(asked) => Health::Starting { at, why },
            Err(why) => {
                self.failures = self.failures.saturating_add(1);
                Health::Failing { at, failures: self.failures, why }
            }
        }
    }
}

/// Removes the query of a URL, which may contain a secret.
fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::time::Millis;

    fn checked(start_period: u64, has_started: bool) -> CheckedRun {
        let url = "http://localhost/".into();
        let (interval, timeout, start_period) = (Millis(1000), Millis(1000), Millis(start_period));
        let check = HealthCheck { url, interval, timeout, retries: 3, start_period };
        CheckedRun { run: RunId(1), started: Wall(5_000_000), has_started, check }
    }

    /// Runs checks that begin so many seconds after the run did. Results are letters: `h`ealthy, `f`ailing.
    /// `expected` is `h`, the number of failures, or `s` within the start period.
    #[track_caller]
    fn check(checked: &CheckedRun, seen_after: u64, results: &[(u64, char)], expected: &str) {
        let now = Instant::now();
        let mut tally =
            FailureCount::of(checked, Wall(5_000_000 + seen_after as i64 * 1_000_000), now);
        let outcome = |&(second, result): &(u64, char)| {
            let result = if result == 'h' { Ok(()) } else { Err("no".to_owned()) };
            let asked = now + Duration::from_secs(second - seen_after);
            match tally.count(result, asked, Wall(0)) {
                Health::Healthy { .. } => "h".to_owned(),
                Health::Starting { why, .. } => why.replace("no", "s"),
                Health::Failing { failures, .. } => failures.to_string(),
                Health::Unknown => "?".to_owned(),
            }
        };
        assert_eq!(results.iter().map(outcome).collect::<String>(), expected);
    }

    #[test]
    fn failures_count_after_the_start_period_or_the_first_success() {
        let late = [(2, 'f'), (9, 'f'), (10, 'f'), (11, 'f')];
        check(&checked(10_000, false), 0, &late, "ss12");
        check(&checked(0, false), 0, &late, "1234");
        let soon = [(2, 'f'), (4, 'h'), (5, 'f'), (6, 'f'), (7, 'h'), (8, 'f')];
        check(&checked(10_000, false), 0, &soon, "sh12h1");
    }

    #[test]
    fn the_start_period_is_counted_from_the_start_of_the_run() {
        check(&checked(10_000, false), 7, &[(9, 'f'), (10, 'f')], "s1");
        check(&checked(10_000, false), 3600, &[(3602, 'f')], "1");
        check(&checked(10_000, true), 3, &[(4, 'f')], "1");
        check(&checked(u64::MAX, false), 0, &[(4, 'f'), (5, 'h'), (6, 'f')], "sh1");
    }
}
