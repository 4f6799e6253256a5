//! Variables that hold Proctor's own secrets. Services, commands and all other programs that Proctor starts never
//! inherit them, whether they come from the caller's environment, from `.env` or from an env file.
//!
//! A secret is known by its origin (a variable that the `security` block uses), by its name (`SUPERVISOR_…`, `PROCTOR_…`)
//! and by its value (a token). A service gets one only if its own `env` sets it.

use super::secret::has_proctor_token;
use std::collections::BTreeSet;
use std::fmt;

/// Prefixes of the names that belong to Proctor.
const PREFIXES: [&str; 2] = ["SUPERVISOR_", "PROCTOR_"];

/// Variables of Proctor that hold no secret and are inherited. Others with such names are not.
const HARMLESS: [&str; 8] = [
    "PROCTOR_CONFIG",
    "PROCTOR_HTTP_HOST",
    "PROCTOR_HTTP_PORT",
    "PROCTOR_NO_CGROUPS",
    "PROCTOR_RUNTIME_MODE",
    "SUPERVISOR_HOST",
    "SUPERVISOR_LOG_LEVEL",
    "SUPERVISOR_PORT",
];

/// Variables whose values are tokens of Proctor.
const TOKENS: [&str; 2] = ["SUPERVISOR_TOKEN", "PROCTOR_TOKEN"];

/// Variables of every session. They do not become secret when a path in the `security` block begins
/// with `${HOME}`.
const ORDINARY: [&str; 10] =
    ["HOME", "PATH", "USER", "LOGNAME", "SHELL", "LANG", "PWD", "TMPDIR", "HOSTNAME", "TERM"];

/// Minimum length of a configured token. Shorter values are not compared.
const MIN_TOKEN: usize = 8;

/// The variables that are not inherited, besides those with Proctor's prefixes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OwnSecrets {
    names: BTreeSet<String>,
    values: BTreeSet<String>,
}

impl OwnSecrets {
    /// Creates a set of secrets known only by the names of their variables.
    pub fn named(names: BTreeSet<String>) -> OwnSecrets {
        OwnSecrets { names, values: BTreeSet::new() }
    }

    pub fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// Returns true if a program that Proctor starts must not inherit this variable.
    pub fn holds(&self, name: &str, value: &str) -> bool {
        let ours = PREFIXES.iter().any(|prefix| begins_with(name, prefix));
        (ours && !HARMLESS.contains(&name))
            || self.names.contains(name)
            || has_proctor_token(value)
            || self.values.iter().any(|secret| value.contains(secret.as_str()))
    }

    /// Adds the tokens in an environment, so that a copy under another name is found too.
    #[must_use]
    pub fn with_tokens_of<'a>(
        mut self,
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> OwnSecrets {
        for (name, value) in variables {
            if TOKENS.contains(&name) {
                self.add_value(value);
            }
        }
        self
    }

    /// Adds the variables that a key of the `security` block uses.
    pub(super) fn add_names(&mut self, names: &[String], is_secret_key: bool) {
        let secret = |name: &&String| is_secret_key || !ORDINARY.contains(&name.as_str());
        self.names.extend(names.iter().filter(secret).cloned());
    }

    pub(super) fn add_value(&mut self, value: &str) {
        if value.len() >= MIN_TOKEN {
            self.values.insert(value.into());
        }
    }
}

/// Shows names only: the values are secrets.
impl fmt::Debug for OwnSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnSecrets").field(&self.names).finish()
    }
}

fn begins_with(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "proctor_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    #[test]
    fn own_secrets_are_known_by_name_origin_and_value() {
        let mut secrets = OwnSecrets::default()
            .with_tokens_of([("SUPERVISOR_TOKEN", "chosen-by-hand"), ("A", "visible-to-all")]);
        secrets.add_names(&["DEPLOY_SECRET".into(), "HOME".into()], false);
        for (name, value) in [
            ("SUPERVISOR_TOKEN", ""),
            ("supervisor_token", "x"),
            ("PROCTOR_TOKEN", "x"),
            ("SUPERVISOR_ANYTHING", "x"),
            ("PROCTOR_ADMIN_PASSWORD", "x"),
            ("DEPLOY_SECRET", "x"),
            ("COPY", "chosen-by-hand"),
            ("HEADER", "Bearer chosen-by-hand"),
            ("CI", TOKEN),
            ("URL", &format!("http://x/?t={TOKEN}")),
        ] {
            assert!(secrets.holds(name, value), "{name} is inherited");
        }
        for (name, value) in [
            ("PATH", "/bin"),
            ("HOME", "/home/me"),
            ("A", "visible-to-all"),
            ("SUPERVISOR_PORT", "3000"),
            ("PROCTOR_HTTP_PORT", "3001"),
            ("PROCTORS", "2"),
            ("API_KEY", "of the service"),
            ("NAME", "proctor_short"),
        ] {
            assert!(!secrets.holds(name, value), "{name} is not inherited");
        }
        secrets.add_names(&["HOME".into()], true);
        assert!(secrets.holds("HOME", "/home/me"));
    }

    #[test]
    fn debug_output_shows_no_value() {
        let mut secrets = OwnSecrets::default();
        secrets.add_value("not-for-anybody");
        assert!(!format!("{secrets:?}").contains("not-for"));
    }
}
