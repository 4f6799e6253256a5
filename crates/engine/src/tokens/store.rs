//! `tokens.json`: the records of all tokens, without their secrets. Written as a whole; an unreadable file is
//! left as it is.

use super::secret::Digest;
use crate::sealed_json;
use crate::trusted_folders;
use proctor_core::access::{Role, TokenId};
use proctor_sys::{own_file, small_file};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

const VERSION: u32 = 1;

/// Maximum number of tokens. Each is compared with a presented secret, so the number is limited.
pub(super) const MAX_TOKENS: usize = 256;

/// Maximum size. The maximum number of tokens with the longest names stays far below.
const MAX_BYTES: u64 = 1 << 20;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    pub(super) id: TokenId,
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) sha256: Digest,
    /// Seconds since the Unix epoch, like the other times.
    pub(super) created: i64,
    #[serde(default)]
    pub(super) expires: Option<i64>,
    /// Updated when the file is written for another reason.
    #[serde(default)]
    pub(super) last_used: Option<i64>,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    #[serde(default)]
    sealed: bool,
    tokens: Vec<Record>,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
    #[serde(default)]
    sealed: bool,
}

/// Reads the file; `None` if it does not exist. `Err` is the rest of a sentence about the file.
pub(super) fn read(path: &Path) -> Result<Option<Vec<Record>>, String> {
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    let opened = match own_file::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(unreadable)?,
    };
    trusted_folders::check_own(path, &opened)?;
    parse(&small_file::read_opened(opened, MAX_BYTES).map_err(unreadable)?).map(Some)
}

/// Parses the version first: the fields of another version are not known.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<Record>, String> {
    let damaged = |error: serde_json::Error| format!("is damaged: {error}");
    let Version { version, sealed } = serde_json::from_slice(bytes).map_err(damaged)?;
    if version != VERSION {
        return Err(format!("has version {version}; this program knows version {VERSION}"));
    }
    sealed_json::check(bytes, sealed)?;
    let File { tokens, .. } = serde_json::from_slice(bytes).map_err(damaged)?;
    if tokens.len() > MAX_TOKENS {
        return Err(format!("has more than {MAX_TOKENS} tokens"));
    }
    let mut seen = BTreeSet::new();
    for token in &tokens {
        check_name(&token.name).map_err(|why| format!("is damaged: {why}"))?;
        if !seen.insert(&token.name) {
            return Err(format!("is damaged: token '{}' is in it twice", token.name));
        }
    }
    Ok(tokens)
}

pub(super) fn encode(tokens: &[Record]) -> Vec<u8> {
    let file = File { version: VERSION, sealed: true, tokens: tokens.to_vec() };
    sealed_json::seal(&serde_json::to_vec_pretty(&file).expect("plain data has a JSON text"))
}

/// Validates the name of a token, which appears in lists, in the audit and on command lines.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    const MAX_NAME_BYTES: usize = 64;
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !begins || name.len() > MAX_NAME_BYTES || !name.chars().all(legal) {
        return Err(format!(
            "the name of a token consists of letters, digits, '.', '_' and '-', begins with a letter or digit, and has at most \
             {MAX_NAME_BYTES} characters"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The format that version 1 promises; written by hand, never regenerated.
    const RELEASED: &str = r#"{"version": 1, "tokens": [{
        "id": "t1", "name": "ci", "role": "operator",
        "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "created": 1760000000, "expires": 1860000000, "last_used": null
    }]}"#;

    #[test]
    fn a_file_of_version_one_is_understood_and_written_again() {
        let tokens = parse(RELEASED.as_bytes()).unwrap();
        let again = parse(&encode(&tokens)).unwrap();
        for token in [&tokens[0], &again[0]] {
            assert_eq!((token.name.as_str(), token.role), ("ci", Role::Operator));
            assert_eq!(token.expires, Some(1_860_000_000));
            assert!(token.sha256.is(&Digest::of("abc")));
        }
    }

    #[test]
    fn what_is_not_understood_as_a_whole_is_not_understood_at_all() {
        let token = &RELEASED[RELEASED.find("[{").unwrap() + 1..RELEASED.len() - 2];
        let twice = format!(r#"{{"version":1,"tokens":[{token},{token}]}}"#);
        let newer = RELEASED.replace("\"version\": 1", "\"version\": 2");
        let role = RELEASED.replace("operator", "god");
        let name = RELEASED.replace("\"ci\"", "\"a\\nb\"");
        let digest = RELEASED.replace("ba78", "BA78");
        let field = RELEASED.replace("\"id\"", "\"shell\": 1, \"id\"");
        for wrong in ["", "{}", "[]", &twice, &newer, &role, &name, &digest, &field] {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
        for length in 0..RELEASED.len() {
            assert!(parse(&RELEASED.as_bytes()[..length]).is_err(), "{length} bytes were taken");
        }
    }
}
