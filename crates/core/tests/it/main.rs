//! Integration tests of `proctor-core`: shapes that are stored or sent, as other versions wrote them.

mod additions;
mod v1;
mod v2;
mod values;

use std::path::Path;

/// The bytes of this value as a binary of this version wrote them. Fixtures of a released version are never written again.
fn fixture(version: &str, folder: &str, label: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let path = root.join(version).join(folder).join(label);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
