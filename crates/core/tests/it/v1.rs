//! Version 1, as the binary of its time wrote it: the bytes in `tests/fixtures/v1` are read as the values they were made from.

use crate::values;
use proctor_core::name::RunId;
use proctor_core::record_encoding::{self, OnceVariables, SharedVariables};
use proctor_core::state_file::{self, Layout};
use proctor_core::stored::{StoredError, v1};
use proctor_core::wire::{self, FromKeeper, ToKeeper, WireError};

fn fixture(folder: &str, label: &str) -> Vec<u8> {
    crate::fixture("v1", folder, label)
}

#[test]
fn specs_are_read_as_they_were_meant() {
    for (label, spec) in values::specs() {
        assert_eq!(record_encoding::open(&fixture("spec", label)), Ok(spec), "{label}");
    }
}

#[test]
fn variables_are_read_as_they_were_meant() {
    let shared = [("variables", values::variables()), ("empty", vec![])];
    for (label, vars) in shared {
        assert_eq!(
            record_encoding::open(&fixture("env", label)),
            Ok(SharedVariables(vars)),
            "{label}"
        );
    }
    let once = OnceVariables { after: RunId(1 << 50), env: values::variables() };
    assert_eq!(record_encoding::open(&fixture("once", "variables")), Ok(once));
}

#[test]
fn states_are_read_as_they_were_meant() {
    for (label, state) in values::states() {
        let found = state_file::decode(&fixture("state", label)).unwrap();
        let identity = state.run.is_some().then(values::identity);
        assert_eq!(found.identity, Ok(identity), "{label}");
        assert_eq!((&found.state, found.damaged), (&state, false), "{label}");
    }
}

#[test]
fn a_state_file_is_continued_as_a_new_file_that_keeps_the_identity() {
    for (label, state) in values::states() {
        let old = fixture("state", label);
        let found = state_file::decode(&old).unwrap();
        assert_eq!(found.layout.next(&state), Ok(None), "{label}: one file, two formats");
        let at = usize::try_from(found.layout.identity_offset()).unwrap();
        let (_, new) = Layout::create(&state, old[at..].first_chunk()).unwrap();
        let again = state_file::decode(&new).unwrap();
        assert_eq!((again.state, again.identity), (found.state, found.identity), "{label}");
        assert!(matches!(again.layout.next(&state), Ok(Some(_))), "{label}");
    }
}

/// Each side reads the number of the other's protocol, and takes nothing else for what it is not.
#[test]
fn a_hello_is_understood_and_every_other_message_is_refused() {
    let protocol_1 = || WireError::Garbled(StoredError::Protocol1);
    for (label, message) in values::to_keeper(1) {
        let read = wire::decode::<ToKeeper>(&mut fixture("to_keeper", label));
        let is_hello = matches!(message, ToKeeper::Hello { .. });
        assert_eq!(read, if is_hello { Ok(Some(message)) } else { Err(protocol_1()) }, "{label}");
    }
    for (label, message) in values::from_keeper(1) {
        let read = wire::decode::<FromKeeper>(&mut fixture("from_keeper", label));
        let is_hello = matches!(message, FromKeeper::Hello { .. });
        assert_eq!(read, if is_hello { Ok(Some(message)) } else { Err(protocol_1()) }, "{label}");
    }
}

/// `services.json` has hashes of these bytes.
#[test]
fn the_exec_part_of_a_spec_has_the_bytes_it_had() {
    /// Bytes before the content of a record.
    const HEADER: usize = 16;
    for (label, spec) in values::specs() {
        let file = fixture("spec", label);
        // The name comes first, with its length.
        let rest = &file[HEADER + 1 + spec.name.as_str().len()..];
        let bytes = v1::exec_bytes(&spec.exec);
        assert_eq!(&rest[..bytes.len()], bytes, "{label}");
    }
}
