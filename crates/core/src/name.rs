//! Names of services and ids of runs, parsed once at the border and trusted inside.
//!
//! A name becomes a folder, a cgroup and a word on a command line, so its alphabet is small.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Long enough for `team-product-component@99`, short enough for every file system and column.
pub const MAX_NAME: usize = 64;

/// The name of one supervised process: `web`, or `web@2` for the second instance of `web`. Clones
/// share the text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServiceName(Arc<str>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("a service name cannot be empty")]
    Empty,
    #[error("service name '{0}' is longer than {MAX_NAME} characters")]
    TooLong(String),
    #[error(
        "service name '{0}' may use letters, digits, '.', '_' and '-' and must begin with a letter or digit"
    )]
    BadCharacter(String),
    #[error("service name '{0}': an instance is a number from 1, as in 'web@2'")]
    BadInstance(String),
}

impl ServiceName {
    pub fn parse(text: &str) -> Result<ServiceName, NameError> {
        let (base, instance) = match text.split_once('@') {
            Some((base, instance)) => (base, Some(instance)),
            None => (text, None),
        };
        check_base(base, text)?;
        if let Some(digits) = instance {
            let number = digits.parse::<u32>().ok().filter(|n| *n > 0);
            if number.is_none_or(|n| n.to_string() != digits) {
                return Err(NameError::BadInstance(text.into()));
            }
        }
        Ok(ServiceName(text.into()))
    }

    /// The name of instance `number` of this service.
    pub(crate) fn instance_of(&self, number: u32) -> ServiceName {
        ServiceName(format!("{}@{number}", self.base()).into())
    }

    /// The configured name, without the instance: `web` of `web@2`.
    pub fn base(&self) -> &str {
        self.0.split('@').next().unwrap_or(&self.0)
    }

    pub fn instance(&self) -> Option<u32> {
        self.0.split_once('@').and_then(|(_, n)| n.parse().ok())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns a copy with its own allocation. Use it for a name that outlives the data it came
    /// with: one small piece that stays among many freed ones leaves a hole in the heap.
    pub fn apart(&self) -> ServiceName {
        ServiceName(Arc::from(self.as_str()))
    }
}

fn check_base(base: &str, whole: &str) -> Result<(), NameError> {
    if base.is_empty() {
        return Err(NameError::Empty);
    }
    if whole.len() > MAX_NAME {
        return Err(NameError::TooLong(whole.chars().take(MAX_NAME).collect()));
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !base.starts_with(|c: char| c.is_ascii_alphanumeric()) || !base.chars().all(legal) {
        return Err(NameError::BadCharacter(whole.into()));
    }
    Ok(())
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for ServiceName {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        ServiceName::parse(&text)
    }
}

impl From<ServiceName> for String {
    fn from(name: ServiceName) -> String {
        name.0.as_ref().into()
    }
}

/// The id of one execution of a service. It grows with every run, across restarts of Proctor and of
/// the machine, because it starts from the wall clock; see [`RunId::after`].
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
pub struct RunId(pub u64);

impl RunId {
    /// The id before the first; means that there is no run.
    pub const NONE: RunId = RunId(0);

    /// Returns the next id: the wall clock in microseconds, or the last id plus one if the clock
    /// stood still or jumped back.
    pub fn after(self, wall: crate::time::Wall) -> RunId {
        RunId(wall.0.max(0).unsigned_abs().max(self.0.saturating_add(1)))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Wall;

    #[test]
    fn names_that_are_folders_options_or_paths_are_refused() {
        for good in ["web", "web@1", "a", "Api_v2.1-x", "web@12"] {
            assert_eq!(ServiceName::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "", "@1", "../x", "a/b", "-rf", ".", "..", "we b", "web@", "web@0", "web@01", "web@x",
            "wéb", "a\0",
        ] {
            assert!(ServiceName::parse(bad).is_err(), "{bad:?} was taken");
        }
        assert!(ServiceName::parse(&"x".repeat(MAX_NAME + 1)).is_err());
    }

    #[test]
    fn run_ids_grow_even_when_the_clock_jumps_back() {
        let first = RunId::NONE.after(Wall(1_000_000));
        assert_eq!(first.after(Wall(5)), RunId(1_000_001));
        assert_eq!(first.after(Wall(-7)), RunId(1_000_001));
    }
}
