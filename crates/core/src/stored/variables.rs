//! Environment variables on disk: shared environments, and variables for one run.

use super::{Pairs, owned_pairs, pairs};
use crate::name::RunId;
use crate::record_encoding::{OnceVariables, SharedVariables};
use minicbor::{Decode, Encode};

/// `env/<id>`
#[derive(Encode, Decode)]
#[cbor(map)]
pub(crate) struct Shared<'a> {
    #[b(0)]
    variables: Pairs<'a>,
}

impl<'a> From<&'a SharedVariables> for Shared<'a> {
    fn from(shared: &'a SharedVariables) -> Shared<'a> {
        Shared { variables: pairs(&shared.0) }
    }
}

impl From<Shared<'_>> for SharedVariables {
    fn from(shared: Shared<'_>) -> SharedVariables {
        SharedVariables(owned_pairs(shared.variables))
    }
}

/// `once`
#[derive(Encode, Decode)]
#[cbor(map)]
pub(crate) struct Once<'a> {
    #[n(0)]
    after: u64,
    #[b(1)]
    variables: Pairs<'a>,
}

impl<'a> From<&'a OnceVariables> for Once<'a> {
    fn from(once: &'a OnceVariables) -> Once<'a> {
        Once { after: once.after.0, variables: pairs(&once.env) }
    }
}

impl From<Once<'_>> for OnceVariables {
    fn from(once: Once<'_>) -> OnceVariables {
        OnceVariables { after: RunId(once.after), env: owned_pairs(once.variables) }
    }
}
