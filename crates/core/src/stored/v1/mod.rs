//! Version 1: every field in its place, without numbers (`postcard`). Read for as long as a home of that time may be taken over,
//! and never written.
//!
//! These shapes are frozen: the bytes in `crates/core/tests/fixtures/v1` are theirs. A choice without data is the number that
//! `Numbered` gives it.

mod machine;
mod spec;

pub(crate) use machine::decode_state;
pub(crate) use spec::decode_spec;
pub use spec::exec_bytes;

use super::{Numbered, StoredError};
use crate::name::RunId;
use crate::record_encoding::{OnceVariables, SharedVariables};
use crate::time::Wall;
use crate::wire::{FromKeeper, ToKeeper, Tracking};
use serde::de::DeserializeOwned;

/// The version of files that have these shapes.
pub(crate) const VERSION: u16 = 1;

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StoredError> {
    let read = postcard::take_from_bytes(bytes);
    match read.map_err(|error| StoredError::Malformed(error.to_string()))? {
        (value, []) => Ok(value),
        (_, trailing) => Err(StoredError::Trailing(trailing.len())),
    }
}

pub(crate) fn decode_shared(bytes: &[u8]) -> Result<SharedVariables, StoredError> {
    read(bytes).map(SharedVariables)
}

pub(crate) fn decode_once(bytes: &[u8]) -> Result<OnceVariables, StoredError> {
    let (after, env) = read(bytes)?;
    Ok(OnceVariables { after: RunId(after), env })
}

/// Is this a message of protocol 1? It begins with the small number of its kind, and a later one with the head of a map.
pub(crate) fn is_message(bytes: &[u8]) -> bool {
    /// More than protocol 1 has kinds.
    const MAX_KIND: u8 = 0x20;
    bytes.first().is_some_and(|kind| *kind < MAX_KIND)
}

/// Each side says hello first: that is all that anybody needs to understand to give way.
const HELLO: u8 = 0;

pub(crate) fn hello_to_keeper(bytes: &[u8]) -> Result<ToKeeper, StoredError> {
    if bytes.first() != Some(&HELLO) {
        return Err(StoredError::Protocol1);
    }
    let (_, protocol, pid) = read::<(u8, u32, u32)>(bytes)?;
    Ok(ToKeeper::Hello { protocol, pid })
}

pub(crate) fn hello_from_keeper(bytes: &[u8]) -> Result<FromKeeper, StoredError> {
    if bytes.first() != Some(&HELLO) {
        return Err(StoredError::Protocol1);
    }
    let (_, protocol, pid, started, tracking, services) =
        read::<(u8, u32, u32, i64, u32, u32)>(bytes)?;
    let (started, tracking) = (Wall(started), Tracking::from_number(tracking)?);
    Ok(FromKeeper::Hello { protocol, pid, started, tracking, services })
}
