//! The cursor: the position in each stream of each service, as a short opaque text that callers keep.
//!
//! Its bytes are a version, the positions and a checksum, in URL-safe base64. A position names a segment by
//! number, so rotation, restarts and new segments do not change its meaning. Callers keep many cursors and some
//! pay for each byte, so a stream without output takes one byte. The first version, which took eight, is still
//! accepted.

use super::folder::WrittenExtent;
use crate::error::EngineError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proctor_core::log_index::Stream;
use proctor_core::name::ServiceName;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// First byte of every cursor; a change of the layout changes it.
const VERSION: u8 = 2;

/// Bytes of the checksum that are sent: one in sixteen million corrupt copies is accepted.
const SUM: usize = 3;

/// The first version, with all bytes of its checksum.
const FIRST_VERSION: u8 = 1;
const FIRST_SUM: usize = 4;

/// Maximum length of a cursor: the positions of ten thousand services with long names.
const MAX_TEXT: usize = 2 * 1024 * 1024;

/// Maximum length of the part of an invalid cursor that is quoted.
const SHOWN: usize = 40;

/// A position between two items of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct StreamOffset {
    pub(super) segment: u64,
    pub(super) offset: u64,
    /// Number of the next index record.
    pub(super) entry: u64,
    pub(super) line: Line,
}

/// The state of the line that contains a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) enum Line {
    /// The position is at the beginning of a line.
    #[default]
    Start,
    /// Pieces of it were shown; the rest will be.
    Shown,
    /// No piece of it has matched the search yet.
    Searched,
    /// It is skipped as a whole.
    Skipped,
}

impl StreamOffset {
    pub(super) fn start_of(segment: u64) -> StreamOffset {
        StreamOffset { segment, ..StreamOffset::default() }
    }

    /// Sort key for positions of one stream.
    pub(super) fn order(&self) -> (u64, u64, u64) {
        (self.segment, self.offset, self.entry)
    }

    fn as_seen(&self) -> WrittenExtent {
        WrittenExtent { segment: self.segment, len: self.offset, records: self.entry }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Position {
    pub(super) place: StreamOffset,
    /// The end of the stream at that time; `None`: equal to the position.
    seen: Option<WrittenExtent>,
}

impl Position {
    pub(super) fn new(place: StreamOffset, seen: WrittenExtent) -> Position {
        Position { place, seen: (place.as_seen() != seen).then_some(seen) }
    }

    pub(super) fn seen(&self) -> WrittenExtent {
        self.seen.unwrap_or(self.place.as_seen())
    }

    /// Returns true if the stream still ends here and nothing is left to deliver.
    pub(super) fn is_all_of(&self, seen: WrittenExtent) -> bool {
        self.place.line == Line::Start && self.place.as_seen() == seen
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Cursor {
    pub(super) services: Vec<(ServiceName, [Position; 2])>,
    /// Number of context lines still to be shown after a match.
    pub(super) context: u32,
}

/// A position as it is sent.
#[derive(Serialize, Deserialize)]
enum EncodedPosition {
    /// There was no segment yet.
    Nothing,
    All(StreamOffset),
    Some(StreamOffset, WrittenExtent),
}

impl From<Position> for EncodedPosition {
    fn from(position: Position) -> EncodedPosition {
        match position.seen {
            None if position == Position::default() => EncodedPosition::Nothing,
            None => EncodedPosition::All(position.place),
            Some(seen) => EncodedPosition::Some(position.place, seen),
        }
    }
}

impl From<EncodedPosition> for Position {
    fn from(sent: EncodedPosition) -> Position {
        match sent {
            EncodedPosition::Nothing => Position::default(),
            EncodedPosition::All(place) => Position { place, seen: None },
            EncodedPosition::Some(place, seen) => Position::new(place, seen),
        }
    }
}

impl Cursor {
    pub(super) fn position(&self, service: &ServiceName, stream: Stream) -> Option<Position> {
        let (_, positions) = self.services.iter().find(|(name, _)| name == service)?;
        Some(positions[stream as usize])
    }

    pub(super) fn encode(&self) -> String {
        let sent: Vec<(&ServiceName, [EncodedPosition; 2])> =
            self.services.iter().map(|(name, at)| (name, at.map(EncodedPosition::from))).collect();
        let mut bytes = postcard::to_extend(&(self.context, sent), vec![VERSION])
            .expect("numbers and names always have a form, and a vector always has room");
        let sum = crc32fast::hash(&bytes).to_le_bytes();
        bytes.extend(&sum[..SUM]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    pub(super) fn decode(text: &str) -> Result<Cursor, EngineError> {
        let known = (text.len() <= MAX_TEXT).then(|| parse(text)).flatten();
        known.ok_or_else(|| EngineError::BadCursor(text.chars().take(SHOWN).collect()))
    }
}

fn parse(text: &str) -> Option<Cursor> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    match *bytes.first()? {
        VERSION => {
            let (context, sent): (u32, Vec<(ServiceName, [EncodedPosition; 2])>) =
                checked(&bytes, SUM)?;
            let services = sent.into_iter().map(|(name, at)| (name, at.map(Position::from)));
            Some(Cursor { services: services.collect(), context })
        }
        FIRST_VERSION => {
            let first: Vec<(ServiceName, [Position; 2])> = checked(&bytes, FIRST_SUM)?;
            let plain = |at: Position| Position::new(at.place, at.seen());
            let services = first.into_iter().map(|(name, at)| (name, at.map(plain)));
            Some(Cursor { services: services.collect(), context: 0 })
        }
        _ => None,
    }
}

/// The content between the version and a checksum of `sum` bytes.
fn checked<T: DeserializeOwned>(bytes: &[u8], sum: usize) -> Option<T> {
    let (bytes, found) = bytes.split_at_checked(bytes.len().checked_sub(sum)?)?;
    if crc32fast::hash(bytes).to_le_bytes().get(..sum) != Some(found) {
        return None;
    }
    let (value, left) = postcard::take_from_bytes::<T>(bytes.get(1..)?).ok()?;
    left.is_empty().then_some(value)
}
