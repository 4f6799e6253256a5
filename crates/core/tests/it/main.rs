//! Integration tests of `proctor-core`: shapes that are stored or sent, as other versions wrote them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod additions;
mod v1;
mod v2;
mod values;

use std::path::Path;

/// The bytes of this value as a binary of this version wrote them. Fixtures of a released version are never written again.
#[expect(clippy::disallowed_methods, reason = "the rule is for the library; a fixture is a file")]
fn fixture(version: &str, folder: &str, label: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let path = root.join(version).join(folder).join(label);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
