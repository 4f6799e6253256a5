//! Fields and messages of a version to come: every map of every shape gets a field that this version does not know, and what it
//! does know is read as before.

use crate::values;
use minicbor::data::Type;
use minicbor::{Decoder, Encoder};
use proctor_core::name::RunId;
use proctor_core::record_encoding::{self, Body, OnceVariables, SharedVariables};
use proctor_core::state_file::{Layout, StoredState, decode};
use proctor_core::wire::{FromKeeper, Message, ToKeeper};
use std::fmt::Debug;

/// A number that no shape uses.
const FUTURE_FIELD: u32 = 1000;

/// Adds a field to each map of the value: a list, so that skipping one byte is not enough.
fn grown(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut decoder = Decoder::new(bytes);
    grow(&mut decoder, &mut Encoder::new(&mut out));
    assert_eq!(decoder.position(), bytes.len());
    out
}

fn grow(from: &mut Decoder<'_>, to: &mut Encoder<&mut Vec<u8>>) {
    let kind = from.datatype().unwrap();
    if kind == Type::Map {
        let fields = from.map().unwrap().unwrap();
        to.map(fields + 1).unwrap();
        to.u32(FUTURE_FIELD).unwrap().array(2).unwrap().str("later").unwrap().u8(7).unwrap();
        (0..2 * fields).for_each(|_| grow(from, to));
    } else if kind == Type::Array {
        let items = from.array().unwrap().unwrap();
        to.array(items).unwrap();
        (0..items).for_each(|_| grow(from, to));
    } else {
        let start = from.position();
        from.skip().unwrap();
        to.writer_mut().extend_from_slice(&from.input()[start..from.position()]);
    }
}

#[track_caller]
fn check_record<B: Body + PartialEq + Debug>(value: &B) {
    let later = record_encoding::seal_encoded::<B>(&grown(&value.encode())).unwrap();
    assert_eq!(record_encoding::open::<B>(&later).as_ref(), Ok(value));
}

#[test]
fn records_with_fields_of_a_later_version_are_read() {
    for (_, spec) in values::specs() {
        check_record(&spec);
    }
    check_record(&SharedVariables(values::variables()));
    check_record(&OnceVariables { after: RunId(1 << 50), env: values::variables() });
}

/// The content of the only place that is written.
const PLACE: usize = 16 + 16;

#[test]
fn states_with_fields_of_a_later_version_are_read() {
    for (label, state) in values::states() {
        let (layout, file) = Layout::create(&state, None).unwrap();
        let place = usize::try_from(layout.identity_offset()).unwrap() / 2 - 8;
        let body = content(&file[16 + place..]);
        let later = file_with(&grown(body));
        let found = decode(&later).unwrap_or_else(|error| panic!("{label}: {error}"));
        assert_eq!(found.state, state, "{label}");
        // Written by this version, it has no such field any more.
        let rewritten: StoredState = found.state;
        assert_eq!(Layout::create(&rewritten, None).unwrap().1, file, "{label}");
    }
}

/// The content of a slot, after its header.
fn content(place: &[u8]) -> &[u8] {
    let length = u32::from_le_bytes(place[8..12].try_into().unwrap()) as usize;
    &place[16..16 + length]
}

/// A state file whose first place has this content, with all checksums right.
fn file_with(content: &[u8]) -> Vec<u8> {
    let place = u32::try_from(content.len() + PLACE).unwrap();
    let mut out = b"PRST\x02\0\0\0".to_vec();
    out.extend(place.to_le_bytes());
    out.extend(crc32fast::hash(&out).to_le_bytes());
    out.extend(2u64.to_le_bytes());
    out.extend((content.len() as u32).to_le_bytes());
    out.extend(crc32fast::hash(&[&2u64.to_le_bytes(), content].concat()).to_le_bytes());
    out.extend(content);
    out.resize(16 + 2 * place as usize + proctor_core::record_encoding::IDENTITY_SIZE, 0);
    out
}

#[track_caller]
fn check_message<M: Message + PartialEq + Debug>(message: &M) {
    let mut bytes = Vec::new();
    message.encode_into(&mut bytes);
    assert_eq!(M::decode(&grown(&bytes)).as_ref(), Ok(message));
}

#[test]
fn messages_with_fields_of_a_later_version_are_read() {
    for (_, message) in values::to_keeper(2) {
        check_message(&message);
    }
    for (_, message) in values::from_keeper(2) {
        check_message(&message);
    }
}

#[test]
fn a_kind_of_message_of_a_later_version_is_known_as_unknown() {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    encoder.map(2).unwrap().u8(0).unwrap().u64(7).unwrap();
    encoder.u32(FUTURE_FIELD).unwrap().map(1).unwrap().u8(0).unwrap().str("web").unwrap();
    assert_eq!(ToKeeper::decode(&bytes), Ok(ToKeeper::Unknown { request: Some(7) }));
    assert_eq!(FromKeeper::decode(&bytes), Ok(FromKeeper::Unknown));
}

/// A refusal for a reason that this version does not have is still told in words.
#[test]
fn a_refusal_of_a_later_kind_keeps_its_text() {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    encoder.map(1).unwrap().u8(5).unwrap().map(2).unwrap();
    encoder.u8(0).unwrap().u8(7).unwrap().u8(1).unwrap().map(2).unwrap();
    encoder.u8(0).unwrap().u32(99).unwrap().u8(1).unwrap().str("not today").unwrap();
    let result = Err(proctor_core::wire::Refusal::Failed("not today".into()));
    assert_eq!(FromKeeper::decode(&bytes), Ok(FromKeeper::Reply { request: 7, result }));
}
