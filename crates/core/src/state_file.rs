//! The `state` file: one service's state for the next keeper, written in place.
//!
//! The file has two places for the state, written alternately, each with a number and a checksum. A
//! keeper that dies during a write leaves the other place intact. Writing in place creates no new
//! file, so it is cheap and works on a full disk. After the two places follows the identity of the
//! run's process. The child writes it itself just before it executes the service's program; its
//! fixed layout needs no allocation.
//!
//! `magic [u8;4] · version u16 · 0 u16 · size of a place u32 · crc32 u32 · place · place · identity
//! [u8;64]`, where a place is `number u64 · length u32 · crc32 u32 · body`.

use crate::lifecycle::Machine;
use crate::name::{RunId, ServiceName};
use crate::record_encoding::{IDENTITY_SIZE, Identity, RecordError, checksum};
use crate::stored::{self, Format, v1};
use crate::time::Wall;

const MAGIC: [u8; 4] = *b"PRST";
const HEADER: usize = 16;
const PLACE_HEADER: usize = 16;

/// Default size of a place: the whole file is half a page. A long list of restarts or a long path
/// needs more.
const USUAL: usize = 968;

/// A state may grow by this much while a child is about to write its identity, because the identity
/// must not move then.
const SLACK: usize = 128;

/// Upper bound, larger than any state can be.
const MAX_STATE_BYTES: usize = 1 << 20;

/// Wish, phase, budget and counters as of the last change, and the most recent run.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredState {
    pub name: ServiceName,
    pub machine: Machine,
    pub run: Option<RunHeader>,
}

/// Facts about a run that are known before its process exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunHeader {
    pub run: RunId,
    pub started: Wall,
    /// Folder of the run's cgroup, if it has one.
    pub cgroup: Option<String>,
}

/// The layout of an existing state file, and the place to write next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The file is complete and has the present format: a state can be written in place. Otherwise it needs a new file.
    is_writable: bool,
    place: u32,
    number: u64,
}

/// The content of a state file.
#[derive(Debug, PartialEq)]
pub struct StateFile {
    pub layout: Layout,
    pub state: StoredState,
    /// Identity of the last run's process; `None` if no child has written it.
    pub identity: Result<Option<Identity>, RecordError>,
    /// A place could not be read: the state may be the second-to-last one.
    pub damaged: bool,
}

/// A change of the file: bytes to write at an offset.
#[derive(Debug, PartialEq, Eq)]
pub struct SlotWrite {
    pub offset: u64,
    pub bytes: Vec<u8>,
}

impl Layout {
    /// Creates the content of a new file with this state, and its layout. Keeps the identity of a
    /// live run.
    pub fn create(
        state: &StoredState,
        identity: Option<&[u8; IDENTITY_SIZE]>,
    ) -> Result<(Layout, Vec<u8>), RecordError> {
        let body = encode(state)?;
        let place = (PLACE_HEADER + body.len() + SLACK).next_multiple_of(8).max(USUAL);
        let layout = Layout {
            is_writable: true,
            place: u32::try_from(place).map_err(|_| RecordError::TooLarge)?,
            number: 1,
        };
        let mut file = Vec::with_capacity(HEADER + 2 * place + IDENTITY_SIZE);
        file.extend_from_slice(&MAGIC);
        file.extend_from_slice(&stored::VERSION.to_le_bytes());
        file.extend_from_slice(&[0; 2]);
        file.extend_from_slice(&layout.place.to_le_bytes());
        file.extend_from_slice(&checksum(&file).to_le_bytes());
        file.resize(HEADER + place, 0);
        file.extend_from_slice(&layout.sealed(&body));
        file.resize(HEADER + 2 * place, 0);
        file.extend_from_slice(identity.unwrap_or(&[0; IDENTITY_SIZE]));
        Ok((Layout { number: 2, ..layout }, file))
    }

    /// Encodes `state` for the next place; returns `None` if it has grown too large. Call
    /// [`Layout::written`] after a successful write. A failed write is retried in the same place,
    /// so the other place stays intact.
    pub fn next(&self, state: &StoredState) -> Result<Option<SlotWrite>, RecordError> {
        let body = encode(state)?;
        if !self.is_writable || PLACE_HEADER + body.len() > self.place as usize {
            return Ok(None);
        }
        Ok(Some(SlotWrite { offset: self.offset(self.number), bytes: self.sealed(&body) }))
    }

    /// Records that the patch of [`Layout::next`] was written.
    pub fn written(&mut self) {
        self.number += 1;
    }

    pub fn identity_offset(&self) -> u64 {
        HEADER as u64 + 2 * u64::from(self.place)
    }

    fn offset(&self, number: u64) -> u64 {
        HEADER as u64 + number % 2 * u64::from(self.place)
    }

    fn sealed(&self, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(PLACE_HEADER + body.len());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        out.extend_from_slice(&sum(self.number, body).to_le_bytes());
        out.extend_from_slice(body);
        out
    }
}

fn encode(state: &StoredState) -> Result<Vec<u8>, RecordError> {
    let body = stored::state::encode(state);
    if body.len() < MAX_STATE_BYTES { Ok(body) } else { Err(RecordError::TooLarge) }
}

/// The checksum covers the number, so a number written with another body counts as damage.
fn sum(number: u64, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

/// The content of one place.
enum SlotContent {
    Empty,
    Whole(u64, Box<StoredState>),
    Damaged,
}

pub fn decode(bytes: &[u8]) -> Result<StateFile, RecordError> {
    let (header, rest) = bytes.split_first_chunk::<HEADER>().ok_or(RecordError::Damaged)?;
    if header[0..4] != MAGIC {
        return Err(RecordError::NotOurs);
    }
    let version = u16::from_le_bytes([header[4], header[5]]);
    let format = Format::of(version).ok_or(RecordError::Version(version))?;
    let long = |at: usize| {
        u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    if long(12) != checksum(&header[..12]) || long(8) as usize > 2 * MAX_STATE_BYTES {
        return Err(RecordError::Damaged);
    }
    let place = long(8) as usize;
    let at = |index: usize| decode_place(format, rest.get(index * place..(index + 1) * place));
    let places = [at(0), at(1)];
    let damaged = places.iter().any(|place| matches!(place, SlotContent::Damaged));
    let newest = places
        .into_iter()
        .filter_map(|place| match place {
            SlotContent::Whole(number, state) => Some((number, state)),
            SlotContent::Empty | SlotContent::Damaged => None,
        })
        .max_by_key(|(number, _)| *number);
    let (number, state) = newest.ok_or(RecordError::Damaged)?;
    let identity = rest.get(2 * place..).and_then(|rest| rest.first_chunk::<IDENTITY_SIZE>());
    let identity = identity.map_or(Err(RecordError::Damaged), Identity::decode);
    let is_complete = rest.len() >= 2 * place + IDENTITY_SIZE;
    let is_writable = is_complete && format == Format::V2;
    let layout = Layout { is_writable, place: long(8), number: number.saturating_add(1) };
    Ok(StateFile { layout, state: *state, identity, damaged })
}

fn decode_place(format: Format, bytes: Option<&[u8]>) -> SlotContent {
    let Some((header, rest)) = bytes.and_then(|bytes| bytes.split_first_chunk::<PLACE_HEADER>())
    else {
        return SlotContent::Damaged;
    };
    if header.iter().all(|byte| *byte == 0) {
        return SlotContent::Empty;
    }
    let (number, rest_of_header) = header.split_at(8);
    let number = u64::from_le_bytes(number.try_into().unwrap_or_default());
    let word =
        |at: usize| u32::from_le_bytes(rest_of_header[at..at + 4].try_into().unwrap_or_default());
    let state = rest.get(..word(0) as usize).filter(|body| sum(number, body) == word(4));
    let state = state.map(|body| match format {
        Format::V1 => v1::decode_state(body),
        Format::V2 => stored::state::decode(body),
    });
    match state {
        Some(Ok(state)) => SlotContent::Whole(number, Box::new(state)),
        Some(Err(_)) | None => SlotContent::Damaged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record_encoding::BootId;
    use crate::time::{Mono, Now};

    fn state(last_run: u64) -> StoredState {
        let now = Now { wall: Wall(1), mono: Mono(2) };
        let run = RunId(last_run);
        StoredState {
            name: ServiceName::parse("web").unwrap(),
            machine: Machine::found_running(now, run),
            run: Some(RunHeader { run, started: Wall(3), cgroup: Some("/sys/x".into()) }),
        }
    }

    fn identity() -> Identity {
        let boot = BootId([7; 16]);
        Identity { pid: 77, start_ticks: 1 << 40, pidfs_inode: 9, boot, run: RunId(5) }
    }

    fn apply(file: &mut [u8], patch: &SlotWrite) {
        let at = usize::try_from(patch.offset).unwrap();
        file[at..at + patch.bytes.len()].copy_from_slice(&patch.bytes);
    }

    fn write(layout: &mut Layout, file: &mut [u8], state: &StoredState) {
        let patch = layout.next(state).unwrap().unwrap();
        apply(file, &patch);
        layout.written();
    }

    /// A file with states 4 and 5 and an identity.
    fn written() -> (Layout, Vec<u8>) {
        let (mut layout, mut file) = Layout::create(&state(4), None).unwrap();
        write(&mut layout, &mut file, &state(5));
        let offset = layout.identity_offset();
        apply(&mut file, &SlotWrite { offset, bytes: identity().encode().to_vec() });
        (layout, file)
    }

    #[test]
    fn the_newest_state_and_the_identity_come_back() {
        let (layout, file) = written();
        let found = decode(&file).unwrap();
        assert_eq!((found.layout, found.state, found.damaged), (layout, state(5), false));
        assert_eq!(found.identity, Ok(Some(identity())));
        assert_eq!(decode(&Layout::create(&state(4), None).unwrap().1).unwrap().identity, Ok(None));
        let (_, moved) = Layout::create(&state(6), Some(&identity().encode())).unwrap();
        assert_eq!(decode(&moved).unwrap().identity, Ok(Some(identity())));
    }

    #[test]
    fn states_take_turns_and_the_last_one_counts() {
        let (mut layout, mut file) = written();
        for run in 6..40 {
            write(&mut layout, &mut file, &state(run));
            assert_eq!(decode(&file).unwrap().state, state(run));
        }
    }

    #[test]
    fn a_state_that_outgrows_its_place_says_so_and_fits_a_new_file() {
        let (layout, _) = written();
        let mut large = state(6);
        large.run.as_mut().unwrap().cgroup = Some("x".repeat(5000));
        assert_eq!(layout.next(&large), Ok(None));
        let (mut layout, mut file) = Layout::create(&large, None).unwrap();
        assert_eq!(decode(&file).unwrap().state, large);
        write(&mut layout, &mut file, &state(7));
        assert_eq!(decode(&file).unwrap().state, state(7));
    }

    #[test]
    fn a_write_that_was_cut_short_leaves_the_state_before() {
        let (layout, file) = written();
        let patch = layout.next(&state(6)).unwrap().unwrap();
        for length in 1..patch.bytes.len() {
            let mut torn = file.clone();
            apply(
                &mut torn,
                &SlotWrite { offset: patch.offset, bytes: patch.bytes[..length].to_vec() },
            );
            let found = decode(&torn).unwrap();
            // The old bytes may happen to end with the same bytes.
            let complete = found.state == state(6);
            assert!(complete || (found.damaged && found.state == state(5)), "{length} bytes");
            // A retry does not touch the intact place.
            let again = layout.next(&state(7)).unwrap().unwrap();
            assert_eq!(again.offset, patch.offset);
        }
    }

    /// A place that lacks its end would be unreadable however often it is written.
    #[test]
    fn a_file_that_was_cut_short_is_continued_as_a_new_one() {
        let (layout, file) = written();
        let second = usize::try_from(layout.identity_offset()).unwrap() / 2 + PLACE_HEADER;
        for length in [second, second + 100, file.len() - IDENTITY_SIZE, file.len() - 1] {
            if let Ok(found) = decode(&file[..length]) {
                assert_eq!(found.layout.next(&state(6)), Ok(None), "{length} bytes");
            }
        }
        assert!(matches!(decode(&file).unwrap().layout.next(&state(6)), Ok(Some(_))));
    }

    #[test]
    fn every_truncation_and_every_flipped_byte_is_noticed_or_harmless() {
        let (_, file) = written();
        for length in 0..file.len() {
            match decode(&file[..length]) {
                Err(_) => {}
                Ok(found) => assert!(found.damaged || found.identity.is_err(), "{length} bytes"),
            }
        }
        for at in 0..file.len() {
            let mut bad = file.clone();
            bad[at] ^= 0x55;
            let Ok(found) = decode(&bad) else { continue };
            let same = (&found.state, &found.identity) == (&state(5), &Ok(Some(identity())));
            assert!(same || found.damaged || found.identity.is_err(), "byte {at}");
        }
    }
}
