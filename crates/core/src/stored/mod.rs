//! The shapes that are written to disk and sent between processes, apart from the types that Proctor computes with.
//!
//! Each shape is a CBOR map from field numbers to values (RFC 8949). It is converted at the border: `From` the computed type
//! before it is written, `TryFrom` after it was read. So a change of a computed type cannot change a file by accident.
//!
//! Rules for a change (`docs/decisions/0011`):
//! - A new field gets the next free number and is an `Option` or has a default. An older reader skips it, a newer reader
//!   of an older file gets `None` or the default. Neither needs a new version.
//! - A number is never used for another meaning. A field that is not needed any more leaves its number empty.
//! - A choice is a number of a table (`Numbered`). An older reader refuses the whole value where the choice matters, so a new
//!   choice that an older reader can do without goes into a new field.
//! - A fixture in `crates/core/tests/fixtures` keeps the bytes of each released shape, and a test reads it.
//!
//! [`v1`] reads the positional format of version 1.

pub(crate) mod from_keeper;
pub(crate) mod machine;
pub mod spec;
pub(crate) mod state;
pub(crate) mod to_keeper;
pub mod v1;
pub(crate) mod variables;

use crate::name::{NameError, RunId, ServiceName};
use minicbor::{Decode, Encode};

/// The version of the format. It changes only where the rules above cannot be kept.
pub const VERSION: u16 = 2;

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    V1,
    V2,
}

impl Format {
    /// `None`: written by a later version, or not by us.
    pub(crate) fn of(version: u16) -> Option<Format> {
        match version {
            v1::VERSION => Some(Format::V1),
            VERSION => Some(Format::V2),
            _ => None,
        }
    }
}

/// The reason why stored or sent bytes are not a value, as the rest of a sentence about them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoredError {
    #[error("is not in Proctor's format: {0}")]
    Malformed(String),
    #[error("has {0} bytes after its end")]
    Trailing(usize),
    #[error("has the {what} {number}, which this version does not know")]
    UnknownChoice { what: &'static str, number: u32 },
    #[error("has no {0}")]
    Missing(&'static str),
    #[error("has an invalid name: {0}")]
    Name(#[from] NameError),
    #[error("is a message of protocol 1")]
    Protocol1,
}

/// Append the encoding of `value` to `out`.
pub(crate) fn encode_into<T: Encode<()>>(value: &T, out: &mut Vec<u8>) {
    match minicbor::encode(value, out) {
        Ok(()) => {}
        Err(error) => match error.into_write() {
            // `Infallible`: a vector takes everything.
            Some(never) => match never {},
            None => unreachable!("no shape has an encoder of its own that could fail"),
        },
    }
}

pub(crate) fn encode<T: Encode<()>>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    encode_into(value, &mut out);
    out
}

/// Decode bytes that hold one value and nothing else.
pub(crate) fn decode<'a, T: Decode<'a, ()>>(bytes: &'a [u8]) -> Result<T, StoredError> {
    let mut decoder = minicbor::Decoder::new(bytes);
    let value = decoder.decode().map_err(|error| StoredError::Malformed(error.to_string()))?;
    match bytes.len().saturating_sub(decoder.position()) {
        0 => Ok(value),
        trailing => Err(StoredError::Trailing(trailing)),
    }
}

/// A choice that is stored as a number. The numbers are those of version 1 and never change.
pub(crate) trait Numbered: Copy + 'static {
    /// The word for it in an error.
    const WHAT: &'static str;
    const ALL: &'static [Self];

    fn number(self) -> u32;

    fn from_number(number: u32) -> Result<Self, StoredError> {
        let found = Self::ALL.iter().copied().find(|choice| choice.number() == number);
        found.ok_or(StoredError::UnknownChoice { what: Self::WHAT, number })
    }
}

/// Name and value of each environment variable, in order.
type Pairs<'a> = Vec<(&'a str, &'a str)>;

fn pairs(vars: &[(String, String)]) -> Pairs<'_> {
    vars.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

fn owned_pairs(pairs: Pairs<'_>) -> Vec<(String, String)> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn owned(text: &str) -> String {
    text.to_owned()
}

fn service_name(text: &str) -> Result<ServiceName, StoredError> {
    Ok(ServiceName::parse(text)?)
}

fn required<T>(value: Option<T>, what: &'static str) -> Result<T, StoredError> {
    value.ok_or(StoredError::Missing(what))
}

fn run_id(value: Option<u64>) -> Result<RunId, StoredError> {
    required(value, "run").map(RunId)
}
