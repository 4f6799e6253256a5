//! Version 1, as the binary of its time wrote it: the bytes in `tests/fixtures/v1` are read as the values they were made from.
//!
//! The fixtures are never written again. A shape that version 1 did not have gets a fixture of its own version.

use crate::values;
use proctor_core::name::RunId;
use proctor_core::record::{self, StoredEnv, StoredOnce, StoredSpec};
use proctor_core::{statefile, wire};
use std::path::Path;

fn fixture(folder: &str, label: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1");
    let path = root.join(folder).join(label);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn specs_are_read_as_they_were_meant() {
    for (label, spec) in values::specs() {
        assert_eq!(record::open(&fixture("spec", label)), Ok(StoredSpec(spec)), "{label}");
    }
}

#[test]
fn variables_are_read_as_they_were_meant() {
    let shared = [("variables", values::variables()), ("empty", vec![])];
    for (label, vars) in shared {
        assert_eq!(record::open(&fixture("env", label)), Ok(StoredEnv(vars)), "{label}");
    }
    let once = StoredOnce { after: RunId(1 << 50), env: values::variables() };
    assert_eq!(record::open(&fixture("once", "variables")), Ok(once));
}

#[test]
fn states_are_read_as_they_were_meant() {
    for (label, state) in values::states() {
        let found = statefile::decode(&fixture("state", label)).unwrap();
        let identity = state.run.is_some().then(values::identity);
        assert_eq!(found.identity, Ok(identity), "{label}");
        assert_eq!((found.state, found.damaged), (state, false), "{label}");
    }
}

#[test]
fn messages_are_read_as_they_were_meant() {
    for (label, message) in values::to_keeper(1) {
        let read = wire::decode(&mut fixture("to_keeper", label));
        assert_eq!(read, Ok(Some(message)), "{label}");
    }
    for (label, message) in values::from_keeper(1) {
        let read = wire::decode(&mut fixture("from_keeper", label));
        assert_eq!(read, Ok(Some(message)), "{label}");
    }
}
