//! The environment of programs that Proctor runs for itself (`getent`, another binary's version): a
//! few of its own variables, and none that may hold a secret.

use std::ffi::OsString;

/// Variables such a program may need to be found, to load its libraries and to print text.
const PASSED: [&str; 6] = ["PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TZ"];

/// The variables for a command whose environment was cleared.
pub fn variables() -> impl Iterator<Item = (&'static str, OsString)> {
    PASSED.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)))
}
