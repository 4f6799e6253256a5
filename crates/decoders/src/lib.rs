//! Invariants of every decoder of Proctor, for any input bytes.
//!
//! A [`Decoder`] is a check that panics if an invariant is broken, and real values to start from.
//! The fuzz targets in `fuzz/` use them, each one line long. So do this crate's own tests, which
//! try every seed and some thousand mutations of it on every run. The use of a decoded value is
//! deliberately not covered; it is tested in its own crate.

mod changes;
mod clients;
mod config;
mod control;
mod files;
mod git;
mod logs;
mod messages;
pub mod mutation;
mod proc;
mod records;
mod requests;
mod scalars;
mod views;

/// A decoder from untrusted bytes to one of our values.
pub struct Decoder {
    /// Also the name of its fuzz target.
    pub name: &'static str,
    /// Panics if an invariant is broken.
    pub check: fn(&[u8]),
    /// Real values, encoded.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

pub static DECODERS: &[Decoder] = &[
    Decoder { name: "to_keeper", check: messages::to_keeper, seeds: messages::seeds_to_keeper },
    Decoder {
        name: "from_keeper",
        check: messages::from_keeper,
        seeds: messages::seeds_from_keeper,
    },
    Decoder { name: "state_file", check: records::state, seeds: records::seeds_state },
    Decoder { name: "sealed_record", check: records::sealed, seeds: records::seeds_sealed },
    Decoder { name: "log_index", check: logs::index, seeds: logs::seeds_index },
    Decoder { name: "log_page", check: logs::page, seeds: logs::seeds_page },
    Decoder { name: "log_cursor", check: logs::cursor, seeds: logs::seeds_cursor },
    Decoder { name: "configuration", check: config::file, seeds: config::seeds_file },
    Decoder { name: "interpolation", check: config::text, seeds: config::seeds_text },
    Decoder { name: "scalars", check: scalars::check, seeds: scalars::seeds },
    Decoder { name: "env_file", check: files::env_file, seeds: files::seeds_env_file },
    Decoder { name: "services_json", check: files::services, seeds: files::seeds_services },
    Decoder { name: "tokens_json", check: files::tokens, seeds: files::seeds_tokens },
    Decoder { name: "audit_line", check: files::audit_line, seeds: files::seeds_audit_line },
    Decoder { name: "requests", check: requests::check, seeds: requests::seeds },
    Decoder { name: "control", check: control::check, seeds: control::seeds },
    Decoder { name: "client_file", check: clients::check, seeds: clients::seeds },
    Decoder { name: "views", check: views::check, seeds: views::seeds },
    Decoder { name: "outputs", check: views::output, seeds: views::seeds_output },
    Decoder { name: "proc_stat", check: proc::check, seeds: proc::seeds },
    Decoder {
        name: "unified_diff",
        check: changes::unified_diff,
        seeds: changes::seeds_unified_diff,
    },
    Decoder { name: "exact_edits", check: changes::exact_edits, seeds: changes::seeds_exact_edits },
    Decoder { name: "git_status", check: git::status, seeds: git::seeds_status },
    Decoder { name: "git_diff", check: git::diff, seeds: git::seeds_diff },
    Decoder { name: "git_log", check: git::log, seeds: git::seeds_log },
    Decoder { name: "git_blame", check: git::blame, seeds: git::seeds_blame },
    Decoder { name: "git_lists", check: git::lists, seeds: git::seeds_lists },
];

/// Finds the decoder of this name.
pub fn find(name: &str) -> Option<&'static Decoder> {
    DECODERS.iter().find(|decoder| decoder.name == name)
}

/// Runs the decoder of this name; called by the fuzz targets.
pub fn check(name: &str, bytes: &[u8]) {
    let decoder = find(name).unwrap_or_else(|| panic!("no decoder '{name}'"));
    (decoder.check)(bytes);
}

/// Splits off the first byte, which selects a variant.
fn choice(bytes: &[u8]) -> Option<(usize, &[u8])> {
    bytes.split_first().map(|(first, rest)| (usize::from(*first), rest))
}

/// Converts untrusted bytes to text; replaces invalid ones, so that every input is used.
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
