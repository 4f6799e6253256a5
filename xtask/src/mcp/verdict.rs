//! Compares the results of a suite with the expectation. Warnings count as failures; skipped checks
//! are listed here.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// Everything that needs no tool, prompt or resource of the suites.
    AsUsersGetIt,
    /// Everything.
    WithFixtures,
}

impl Expected {
    pub(super) fn words(self) -> &'static str {
        match self {
            Expected::AsUsersGetIt => "as users get it",
            Expected::WithFixtures => "with fixtures",
        }
    }
}

/// Scenarios that need only standard features.
const GENERIC: &[&str] = &[
    "caching",
    "completion-complete",
    "dns-rebinding-protection",
    "http-header-validation",
    "input-required-result-unsupported-methods",
    "logging-set-level",
    "ping",
    "prompts-list",
    "resources-list",
    "sep-2164-resource-not-found",
    "server-initialize",
    "server-session-lifecycle",
    "server-sse-multiple-streams",
    "server-stateless",
    "tools-list",
];

/// Checks of `server-stateless` that call one of the suite's own tools.
const OWN_TOOLS: &[&str] = &[
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-missing-capability-http-400",
    "sep-2575-server-no-log-without-loglevel",
    "sep-2575-server-rejects-undeclared-capability",
];

/// Scenarios that skip checks by themselves: an extension that Proctor does not have, and one that
/// the suite has not written yet.
const SKIP_THEMSELVES: &[&str] = &[
    "sep-2640-skills-directory",
    "sep-2640-skills-enumeration",
    "sep-2640-skills-manifest",
    "tasks-status-notifications",
];

/// Scenarios that do not apply to a server without list change notifications.
const WITHOUT_CHANGES: &[&str] = &[
    "sep-2575-server-sends-prompts-list-changed-on-subscription",
    "sep-2575-server-sends-tools-list-changed-on-subscription",
];

/// Returns the number of failed checks and prints each.
pub(super) fn judge(results: &Path, expected: Expected) -> Result<usize> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut scenarios, mut left_out, mut wrong) = (0, 0, 0);
    for (scenario, checks) in scenarios_of(results)? {
        if expected == Expected::AsUsersGetIt && !GENERIC.contains(&scenario.as_str()) {
            left_out += 1;
            continue;
        }
        scenarios += 1;
        for check in &checks {
            let verdict = verdict(&scenario, check, expected);
            *counts.entry(verdict.words()).or_default() += 1;
            if verdict == Verdict::Wrong {
                wrong += 1;
                println!("   {scenario}: {}", told(check));
            }
        }
    }
    ensure!(scenarios > 0 || left_out > 0, "the suite ran no scenario");
    let counts: Vec<String> =
        counts.iter().map(|(words, count)| format!("{count} {words}")).collect();
    println!("   {scenarios} scenarios ({left_out} need fixtures): {}", counts.join(", "));
    Ok(wrong)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    /// Informational.
    Said,
    /// Not applicable, as expected.
    Skipped,
    NeedsFixture,
    Wrong,
}

impl Verdict {
    fn words(self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Said => "for information",
            Verdict::Skipped => "skipped",
            Verdict::NeedsFixture => "need fixtures",
            Verdict::Wrong => "WRONG",
        }
    }
}

fn verdict(scenario: &str, check: &Value, expected: Expected) -> Verdict {
    let id = check["id"].as_str().unwrap_or_default();
    let as_users_get_it = expected == Expected::AsUsersGetIt;
    match check["status"].as_str() {
        Some("SUCCESS") => Verdict::Passed,
        Some("INFO") => Verdict::Said,
        Some("SKIPPED") if SKIP_THEMSELVES.contains(&scenario) => Verdict::Skipped,
        Some("SKIPPED") if as_users_get_it && WITHOUT_CHANGES.contains(&id) => Verdict::Skipped,
        Some("FAILURE") if as_users_get_it && OWN_TOOLS.contains(&id) => Verdict::NeedsFixture,
        _ => Verdict::Wrong,
    }
}

fn told(check: &Value) -> String {
    let word = |field: &str| check[field].as_str().unwrap_or_default().to_owned();
    let details = &check["details"];
    let more = if details.is_null() { String::new() } else { format!("\n      {details}") };
    format!("{} {}: {}{more}", word("status"), word("id"), word("errorMessage"))
}

/// The checks of each scenario by name: a folder `server-NAME-TIME` for each.
fn scenarios_of(results: &Path) -> Result<BTreeMap<String, Vec<Value>>> {
    let mut all = BTreeMap::new();
    let folders = std::fs::read_dir(results).context("the suite wrote no results")?;
    for folder in folders {
        let folder = folder?;
        let name = folder.file_name().into_string().unwrap_or_default();
        let name = name.strip_prefix("server-").context("a result of no server scenario")?;
        let time = name.len().checked_sub("-2026-01-01T00-00-00-000Z".len());
        let name = time.and_then(|at| name.get(..at)).context("a result without a time")?;
        // Without the file the scenario did not finish.
        let text = std::fs::read_to_string(folder.path().join("checks.json"))
            .with_context(|| format!("{name} did not finish"))?;
        let checks = serde_json::from_str(&text).with_context(|| format!("of {name}"))?;
        all.insert(name.to_owned(), checks);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(
        scenario: &str,
        id: &str,
        status: &str,
        as_users_get_it: Verdict,
        with_fixtures: Verdict,
    ) {
        let check = json!({"id": id, "status": status});
        assert_eq!(verdict(scenario, &check, Expected::AsUsersGetIt), as_users_get_it, "{check}");
        assert_eq!(verdict(scenario, &check, Expected::WithFixtures), with_fixtures, "{check}");
    }

    #[test]
    fn warnings_and_what_is_left_out_without_a_reason_are_wrong() {
        check("ping", "ping", "SUCCESS", Verdict::Passed, Verdict::Passed);
        check("ping", "ping", "INFO", Verdict::Said, Verdict::Said);
        for status in ["FAILURE", "WARNING", "SKIPPED", "NEW"] {
            check("ping", "ping", status, Verdict::Wrong, Verdict::Wrong);
        }
        let own = "sep-2575-missing-capability-http-400";
        check("server-stateless", own, "FAILURE", Verdict::NeedsFixture, Verdict::Wrong);
        let skills = "sep-2640-skills-manifest";
        check(skills, "any", "SKIPPED", Verdict::Skipped, Verdict::Skipped);
        check(skills, "any", "FAILURE", Verdict::Wrong, Verdict::Wrong);
    }

    #[test]
    fn a_result_belongs_to_its_scenario() {
        let folder = tempfile::tempdir().unwrap();
        let one = folder.path().join("server-server-sse-polling-2026-11-15T15-12-53-088Z");
        std::fs::create_dir(&one).unwrap();
        assert!(scenarios_of(folder.path()).is_err(), "it has not come to its end");
        std::fs::write(one.join("checks.json"), r#"[{"id":"x","status":"FAILURE"}]"#).unwrap();
        let all = scenarios_of(folder.path()).unwrap();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["server-sse-polling"]);
        assert_eq!(judge(folder.path(), Expected::WithFixtures).unwrap(), 1);
        assert_eq!(judge(folder.path(), Expected::AsUsersGetIt).unwrap(), 0);
    }
}
