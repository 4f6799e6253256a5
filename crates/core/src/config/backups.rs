//! What a configuration says about the generations that are kept of changed files.

use super::read::Layer;
use super::value::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backups {
    /// Of each file.
    pub generations: usize,
    /// Of all files together.
    pub bytes: u64,
}

impl Backups {
    pub const USUAL: Backups = Backups { generations: 20, bytes: 256 << 20 };
}

pub(super) fn read(own: &Layer) -> Backups {
    let value = |key: &str| own.get(key).map(|found| &found.value);
    let usual = Backups::USUAL;
    Backups {
        generations: match value("backups.generations") {
            Some(Value::Number(count)) => usize::try_from(*count).unwrap_or(usual.generations),
            _ => usual.generations,
        },
        bytes: match value("backups.max_total") {
            Some(Value::Bytes(bytes)) => *bytes,
            _ => usual.bytes,
        },
    }
}
