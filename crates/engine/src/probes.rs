//! Which runs have their health checked, and what follows from the results.
//!
//! One task for each service that has a check and is up; it ends with the run. The first look comes after two
//! seconds, or after the interval if that is shorter: a developer sees soon whether a service works, and a service
//! that takes longer than that to start has `retries` intervals before anything happens to it.

use crate::api::Health;
use crate::link::Link;
use crate::probe;
use crate::registry::Registry;
use proctor_core::config::HealthCheck;
use proctor_core::name::{RunId, ServiceName};
use proctor_core::wire::ToKeeper;
use proctor_sys::clock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};

/// Longest wait before the first check of a run.
const FIRST_AFTER: Duration = Duration::from_secs(2);

/// A check that is going on.
struct Checking {
    run: RunId,
    check: HealthCheck,
    task: AbortHandle,
}

/// Keep the checks in step with what runs, for ever.
pub(crate) async fn run(registry: Arc<Registry>, link: Link) {
    let mut tasks = JoinSet::new();
    let mut checking: BTreeMap<ServiceName, Checking> = BTreeMap::new();
    loop {
        for name in registry.probes_to_look_at().await {
            let wanted = registry.probe_of(&name);
            let same = |now: &Checking| {
                wanted.as_ref().is_some_and(|(run, check)| now.run == *run && now.check == *check)
            };
            if checking.get(&name).is_some_and(same) {
                continue;
            }
            if let Some(old) = checking.remove(&name) {
                old.task.abort();
            }
            if let Some((run, check)) = wanted {
                let watch =
                    watch(name.clone(), run, check.clone(), Arc::clone(&registry), link.clone());
                checking.insert(name, Checking { run, check, task: tasks.spawn(watch) });
            }
        }
        // Aborted ones are done; collecting them keeps the set as small as the number of checks.
        while tasks.try_join_next().is_some() {}
    }
}

/// Check one run until somebody ends this task. The keeper is told once for each run; until it has ended the run, the
/// checks go on, for what they show.
async fn watch(
    name: ServiceName,
    run: RunId,
    check: HealthCheck,
    registry: Arc<Registry>,
    link: Link,
) {
    let interval = Duration::from_millis(check.interval.0.max(1));
    let patience = Duration::from_millis(check.timeout.0);
    let (mut failures, mut told) = (0u32, false);
    tokio::time::sleep(interval.min(FIRST_AFTER)).await;
    loop {
        let result = probe::check(&check.url, patience).await;
        let at = clock::now().wall;
        failures = if result.is_ok() { 0 } else { failures.saturating_add(1) };
        let health = match result {
            Ok(()) => Health::Healthy { at },
            Err(why) => Health::Failing { at, failures, why },
        };
        registry.set_health(&name, run, health);
        if failures >= check.retries.max(1) && !told {
            told = true;
            tracing::warn!(service = %name, %run, failures, "unhealthy: the keeper is to restart it");
            if let Err(error) = link.tell(&ToKeeper::Unhealthy { name: name.clone(), run }).await {
                tracing::error!(service = %name, %error, "the keeper could not be told");
            }
        }
        tokio::time::sleep(interval).await;
    }
}
