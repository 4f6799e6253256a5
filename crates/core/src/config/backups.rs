//! The configuration of backups: the generations kept of changed files.

use super::read::Layer;
use super::value::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backups {
    /// Maximum generations of each file.
    pub generations: usize,
    /// Maximum bytes of all files together.
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
