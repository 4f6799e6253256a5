//! Version 2, the present one: its fixtures are read as the values they were made from, and written again they are the same.

use crate::{fixture, values};
use proctor_core::name::RunId;
use proctor_core::record_encoding::{self, Body, OnceVariables, SharedVariables};
use proctor_core::state_file::{self, Layout, StoredState};
use proctor_core::wire::{self, Message, PROTOCOL};
use std::fmt::Debug;

#[track_caller]
fn check_record<B: Body + PartialEq + Debug>(folder: &str, label: &str, value: &B) {
    let bytes = fixture("v2", folder, label);
    assert_eq!(record_encoding::open::<B>(&bytes).as_ref(), Ok(value), "{label}");
    assert_eq!(record_encoding::seal(value).as_ref(), Ok(&bytes), "{label}");
}

#[test]
fn records_are_read_and_written_as_they_were() {
    for (label, spec) in values::specs() {
        check_record("spec", label, &spec);
    }
    check_record("env", "variables", &SharedVariables(values::variables()));
    check_record("env", "empty", &SharedVariables(vec![]));
    let once = OnceVariables { after: RunId(1 << 50), env: values::variables() };
    check_record("once", "variables", &once);
}

/// A file with two states and an identity.
fn state_file(state: &StoredState) -> Vec<u8> {
    let identity = state.run.is_some().then(|| values::identity().encode());
    let before = StoredState { run: None, ..state.clone() };
    let (layout, mut file) = Layout::create(&before, identity.as_ref()).unwrap();
    let patch = layout.next(state).unwrap().unwrap();
    let at = usize::try_from(patch.offset).unwrap();
    file[at..at + patch.bytes.len()].copy_from_slice(&patch.bytes);
    file
}

#[test]
fn states_are_read_and_written_as_they_were() {
    for (label, state) in values::states() {
        let bytes = fixture("v2", "state", label);
        let found = state_file::decode(&bytes).unwrap();
        let identity = state.run.is_some().then(values::identity);
        assert_eq!(found.identity, Ok(identity), "{label}");
        assert_eq!((&found.state, found.damaged), (&state, false), "{label}");
        assert_eq!(state_file(&state), bytes, "{label}");
    }
}

#[track_caller]
fn check_message<M: Message + PartialEq + Debug>(folder: &str, label: &str, message: &M) {
    let bytes = fixture("v2", folder, label);
    assert_eq!(wire::decode::<M>(&mut bytes.clone()).unwrap().as_ref(), Some(message), "{label}");
    let mut written = Vec::new();
    wire::encode(message, &mut written).unwrap();
    assert_eq!(written, bytes, "{label}");
}

#[test]
fn messages_are_read_and_written_as_they_were() {
    for (label, message) in values::to_keeper(PROTOCOL) {
        check_message("to_keeper", label, &message);
    }
    for (label, message) in values::from_keeper(PROTOCOL) {
        check_message("from_keeper", label, &message);
    }
}
