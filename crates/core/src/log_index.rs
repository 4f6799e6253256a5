//! The index beside a log segment maps byte offsets to time, run and stream.
//!
//! `stdout.00000001.log` holds the service's bytes and nothing else; `stdout.00000001.idx` holds
//! records of [`RECORD`] bytes. A record is written **before** its bytes, so after a crash the tail
//! of a log always has a time. A record whose offset lies beyond the log's end announces bytes that
//! were never written, and is skipped. A torn last record (length not a multiple of [`RECORD`]) is
//! ignored.
//!
//! Layout, little endian: `offset u64 · wall i64 (µs) · run u64 · kind u8 · zero [u8;3] · value
//! u32`.

use crate::lifecycle::Exit;
use crate::name::RunId;
use crate::time::Wall;
use serde::{Deserialize, Serialize};

/// Size of one record in bytes.
pub const RECORD: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry {
    /// Position in the segment from which this entry applies.
    pub offset: u64,
    pub wall: Wall,
    pub run: RunId,
    pub mark: IndexMark,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexMark {
    /// The bytes from `offset` on were read at `wall`.
    Bytes,
    RunStarted,
    /// Written after all output from before the run's exit was stored.
    RunExited(ExitMark),
    /// This many bytes were dropped here (saturating).
    Dropped(u32),
}

/// An [`Exit`] in four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitMark(pub u32);

impl ExitMark {
    const CODE: u32 = 1 << 28;
    const SIGNAL: u32 = 2 << 28;
    const OOM: u32 = 3 << 28;
    const SPAWN: u32 = 4 << 28;
    const BACKGROUNDED: u32 = 5 << 28;
    const KIND: u32 = 0xf << 28;

    pub fn of(exit: &Exit) -> ExitMark {
        ExitMark(match exit {
            Exit::Code(code) => Self::CODE | (code.unsigned_abs() & 0xff_ffff),
            Exit::Signal { signal, oom: false, .. } => {
                Self::SIGNAL | (signal.unsigned_abs() & 0xff)
            }
            Exit::Signal { oom: true, .. } => Self::OOM,
            Exit::SpawnFailed(failure) => Self::SPAWN | (failure.errno.unsigned_abs() & 0xffff),
            Exit::Backgrounded => Self::BACKGROUNDED,
            Exit::Unknown => 0,
        })
    }
}

impl std::fmt::Display for ExitMark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.0 & !Self::KIND;
        match self.0 & Self::KIND {
            Self::CODE => write!(f, "exit code {value}"),
            Self::SIGNAL => write!(f, "signal {value}"),
            Self::OOM => f.write_str("out of memory"),
            Self::SPAWN => write!(f, "could not be started (errno {value})"),
            Self::BACKGROUNDED => f.write_str("exit code 0, with processes left in the background"),
            _ => f.write_str("exit status unknown"),
        }
    }
}

/// The two streams of a service, in the order in which lines with equal times are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    pub const BOTH: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

    pub fn as_str(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }
}

/// `stdout.00000001.log`
pub fn log_file(stream: Stream, segment: u64) -> String {
    format!("{}.{segment:08}.log", stream.as_str())
}

/// `stdout.00000001.idx`
pub fn index_file(stream: Stream, segment: u64) -> String {
    format!("{}.{segment:08}.idx", stream.as_str())
}

/// Parses the stream and the number from a segment's log file name; `None` for any other name.
pub fn parse_log_file(name: &str) -> Option<(Stream, u64)> {
    let stem = name.strip_suffix(".log")?;
    let (stream, digits) = stem.split_once('.')?;
    let stream = Stream::BOTH.into_iter().find(|s| s.as_str() == stream)?;
    let number = digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))?;
    Some((stream, number))
}

impl IndexEntry {
    pub fn encode(&self) -> [u8; RECORD] {
        let (kind, value) = match self.mark {
            IndexMark::Bytes => (0u8, 0),
            IndexMark::RunStarted => (1, 0),
            IndexMark::RunExited(exit) => (2, exit.0),
            IndexMark::Dropped(bytes) => (3, bytes),
        };
        let mut out = [0; RECORD];
        out[0..8].copy_from_slice(&self.offset.to_le_bytes());
        out[8..16].copy_from_slice(&self.wall.0.to_le_bytes());
        out[16..24].copy_from_slice(&self.run.0.to_le_bytes());
        out[24] = kind;
        out[28..32].copy_from_slice(&value.to_le_bytes());
        out
    }

    /// Returns `None` for a kind that this version does not know. Such an entry is skipped; its
    /// bytes are still readable.
    pub fn decode(bytes: &[u8; RECORD]) -> Option<IndexEntry> {
        let word = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[at..at + 8]);
            eight
        };
        let value = u32::from_le_bytes([bytes[28], bytes[29], bytes[30], bytes[31]]);
        let mark = match bytes[24] {
            0 => IndexMark::Bytes,
            1 => IndexMark::RunStarted,
            2 => IndexMark::RunExited(ExitMark(value)),
            3 => IndexMark::Dropped(value),
            _ => return None,
        };
        Some(IndexEntry {
            offset: u64::from_le_bytes(word(0)),
            wall: Wall(i64::from_le_bytes(word(8))),
            run: RunId(u64::from_le_bytes(word(16))),
            mark,
        })
    }
}

/// Returns all entries of an index file in order, without torn or unknown ones.
pub fn decode_all(bytes: &[u8]) -> Vec<IndexEntry> {
    let (records, _torn) = bytes.as_chunks::<RECORD>();
    records.iter().filter_map(IndexEntry::decode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_and_torn_tails_are_ignored() {
        let marks = [
            IndexMark::Bytes,
            IndexMark::RunStarted,
            IndexMark::RunExited(ExitMark::of(&Exit::Code(3))),
            IndexMark::Dropped(9),
        ];
        let entries: Vec<IndexEntry> = marks
            .into_iter()
            .zip(1u64..)
            .map(|(mark, n)| IndexEntry {
                offset: n << 40,
                wall: Wall(-(n as i64)),
                run: RunId(n),
                mark,
            })
            .collect();
        let mut bytes: Vec<u8> = entries.iter().flat_map(IndexEntry::encode).collect();
        for torn in 0..RECORD {
            assert_eq!(decode_all(&bytes), entries, "{torn} torn bytes");
            bytes.push(0xff);
        }
    }

    #[test]
    fn only_segment_names_are_segments() {
        assert_eq!(parse_log_file(&log_file(Stream::Stderr, 42)), Some((Stream::Stderr, 42)));
        for other in [
            "stdout.log",
            "stdout.00000001.idx",
            "x.00000001.log",
            "stdout.+1.log",
            "stdout.1.2.log",
            ".log",
        ] {
            assert_eq!(parse_log_file(other), None, "{other}");
        }
    }
}
