//! Values that must never be shown: tokens, and variables whose names mark them as secret.
//!
//! Values shown on purpose are masked where they are produced (`core::config::secret`). This module is the
//! safety net for texts that quote something: errors, our own log, the audit. The process has one list, because
//! it has one log.

use proctor_core::config::secret::{HIDDEN, is_secret, looks_secret};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

/// Minimum length. Shorter values occur in ordinary text, and masking them would only reveal their place.
const SHORTEST: usize = 8;

/// Maximum number of values: more than a thousand services have together. Further values are masked only where
/// they are shown on purpose.
const MAX_SECRETS: usize = 4096;

static KNOWN: RwLock<BTreeSet<Box<str>>> = RwLock::new(BTreeSet::new());

/// Masks this value in every text from now on.
pub(crate) fn learn(secret: &str) {
    let known = |set: &BTreeSet<Box<str>>| set.contains(secret) || set.len() >= MAX_SECRETS;
    if secret.len() < SHORTEST || known(&KNOWN.read().unwrap_or_else(PoisonError::into_inner)) {
        return;
    }
    KNOWN.write().unwrap_or_else(PoisonError::into_inner).insert(secret.into());
}

/// Masks the values of those variables whose names mark them as secret.
pub(crate) fn learn_variables<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) {
    for (name, value) in variables {
        if value.len() >= SHORTEST && is_secret(name, value) {
            learn(value);
        }
    }
}

/// A text with all known secrets masked.
pub fn hide(text: &str) -> Cow<'_, str> {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    hide_these(text, known.iter().map(|secret| &**secret))
}

/// A text with these values masked.
pub fn hide_these<'a, 's>(text: &'a str, secrets: impl Iterator<Item = &'s str>) -> Cow<'a, str> {
    let mut shown = Cow::Borrowed(text);
    for secret in secrets {
        if memchr::memmem::find(shown.as_bytes(), secret.as_bytes()).is_some() {
            shown = Cow::Owned(shown.replace(secret, HIDDEN));
        }
    }
    shown
}

/// Values of a request that must not be quoted back: variables, options and fields with secret names.
pub fn of_request(input: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(input, false, &mut found);
    found.retain(|secret| secret.len() >= SHORTEST);
    // Longest first: one value may be a prefix of another.
    found.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    found.dedup();
    found.truncate(MAX_SECRETS);
    found
}

fn collect(value: &Value, secret: bool, found: &mut Vec<String>) {
    match value {
        Value::String(text) if secret => found.push(text.clone()),
        Value::String(text) => words(text.split_whitespace(), found),
        Value::Array(items) => {
            items.iter().for_each(|item| collect(item, secret, found));
            words(items.iter().filter_map(Value::as_str), found);
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                collect(value, secret || looks_secret(key), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// `TOKEN=value`, `--token value`.
fn words<'a>(words: impl Iterator<Item = &'a str>, found: &mut Vec<String>) {
    let mut named = false;
    for word in words {
        if let Some((name, value)) = word.split_once('=')
            && is_secret(name, value)
        {
            found.push(value.trim_matches(['"', '\'']).to_owned());
        } else if named {
            found.push(word.trim_matches(['"', '\'']).to_owned());
        }
        named = word.starts_with('-') && !word.contains('=') && looks_secret(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_learned_is_in_no_text() {
        learn("the-first-secret");
        learn("short");
        let variables = [("MY_TOKEN", "of-the-variable"), ("MY_COLOUR", "light-yellow")];
        learn_variables(variables);
        let text = "the-first-secret, short, of-the-variable and light-yellow";
        assert_eq!(hide(text), "***, short, *** and light-yellow");
        assert!(matches!(hide("nothing in it"), Cow::Borrowed(_)));
    }

    #[test]
    fn secrets_of_a_request_are_found_wherever_they_stand() {
        let found = of_request(&json!({
            "environment": { "API_KEY": "k-11111111", "PATH": "/usr/bin:/bin" },
            "env": ["DB_PASSWORD=p-22222222", "A=b"],
            "command": "run --token t-33333333 --port 80",
            "argv": ["run", "--secret", "s-44444444", "--credential=c-55555555"],
            "token": "b-66666666",
            "auth": { "user": "u-77777777" },
            "names": ["web"],
        }));
        let expected = ["k-1", "p-2", "t-3", "s-4", "c-5", "b-6", "u-7"];
        for beginning in expected {
            assert!(found.iter().any(|it| it.starts_with(beginning)), "{beginning}: {found:?}");
        }
        assert!(!found.iter().any(|it| it.contains("bin") || it == "web"), "{found:?}");
        let same = vec!["TOKEN=b-66666666"; 1000];
        assert_eq!(of_request(&json!({ "env": same })), ["b-66666666"]);
        let many: Vec<String> = (0..2 * MAX_SECRETS).map(|n| format!("TOKEN=t-{n:08}")).collect();
        assert_eq!(of_request(&json!({ "env": many })).len(), MAX_SECRETS);
    }
}
