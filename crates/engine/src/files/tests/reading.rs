//! Reading parts of files, and that the parts together are the whole.

use super::super::file_info::{FileInfoCache, PIECE, sha256};
use super::super::read::{Content, ContentRange, ReadQuery, read};
use super::Place;
use crate::files::FileError;
use proctor_core::content::{Encoding, LineEndings};
use proptest::prelude::*;

fn look(place: &Place, path: &str, query: &ReadQuery) -> Result<Content, FileError> {
    let query = ReadQuery { max_bytes: query.max_bytes.max(1), ..query.clone() };
    read(&place.spot(path), &query, &place.guarded, &FileInfoCache::default(), &|| false)
}

fn usual() -> ReadQuery {
    ReadQuery { max_bytes: 1 << 20, ..ReadQuery::default() }
}

fn text(content: &Content) -> (&str, u64, u64) {
    match &content.part {
        ContentRange::Text { text, from, to, .. } => (text, from.unwrap(), to.unwrap()),
        ContentRange::Bytes { .. } | ContentRange::Picture { .. } | ContentRange::Unreadable => {
            panic!("{content:?}")
        }
    }
}

#[test]
fn ranges_of_lines_are_what_was_asked_for() {
    let place = Place::new();
    place.write("f", "1\n2\n3\n4\n5");
    let check = |query: ReadQuery, expected: (&str, u64, u64)| {
        let content = look(&place, "f", &query).unwrap();
        assert_eq!((text(&content), content.cursor.is_none()), (expected, true), "{query:?}");
    };
    let query = |from, lines, tail| ReadQuery { from, lines, tail, ..usual() };
    check(query(None, None, None), ("1\n2\n3\n4\n5", 1, 5));
    check(query(None, Some(2), None), ("1\n2\n", 1, 2));
    check(query(Some(4), None, None), ("4\n5", 4, 5));
    check(query(Some(2), Some(2), None), ("2\n3\n", 2, 3));
    check(query(Some(5), Some(9), None), ("5", 5, 5));
    check(query(None, None, Some(2)), ("4\n5", 4, 5));
    check(query(None, None, Some(99)), ("1\n2\n3\n4\n5", 1, 5));
    check(query(None, Some(0), None), ("", 1, 0));
    let past = look(&place, "f", &query(Some(9), None, None)).unwrap();
    assert_eq!(text(&past).0, "");
    assert!(look(&place, "f", &query(Some(1), None, Some(1))).is_err());
}

#[test]
fn what_a_file_is_stands_beside_its_content() {
    let place = Place::new();
    place.write("crlf", "a\r\nb\r\n");
    let content = look(&place, "crlf", &usual()).unwrap();
    assert_eq!(text(&content), ("a\r\nb\r\n", 1, 2));
    assert_eq!(content.nature.endings, LineEndings::CrLf);
    assert_eq!((content.size, content.sha256), (6, Some(sha256(b"a\r\nb\r\n"))));

    place.write("bom", b"\xef\xbb\xbfa\n");
    let content = look(&place, "bom", &usual()).unwrap();
    assert_eq!((text(&content).0, content.nature.encoding), ("a\n", Some(Encoding::Utf8Bom)));

    place.write("wide", b"\xff\xfea\0\n\0b\0\n\0");
    let content = look(&place, "wide", &ReadQuery { from: Some(2), ..usual() }).unwrap();
    assert_eq!((text(&content).0, content.nature.encoding), ("b\n", Some(Encoding::Utf16Le)));

    place.write("latin", b"\xe4\n");
    let content = look(&place, "latin", &usual()).unwrap();
    assert_eq!(text(&content).0, "\u{fffd}\n");
    assert!(matches!(content.part, ContentRange::Text { lossy: true, .. }));

    place.write("empty", "");
    let content = look(&place, "empty", &usual()).unwrap();
    assert_eq!(text(&content), ("", 1, 0));
}

#[test]
fn what_is_no_text_is_said_to_be_none_and_given_as_bytes() {
    let place = Place::new();
    let bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    place.write("picture", bytes);
    let content = look(&place, "picture", &usual()).unwrap();
    assert_eq!((content.part, content.picture), (ContentRange::Unreadable, Some("image/png")));
    let content = look(&place, "picture", &ReadQuery { bytes: true, ..usual() }).unwrap();
    assert_eq!(content.part, ContentRange::Bytes { bytes: bytes.to_vec(), offset: 0 });
}

#[test]
fn a_cursor_of_a_file_that_has_changed_is_refused() {
    let place = Place::new();
    place.write("f", "1\n2\n3\n");
    let query = ReadQuery { max_bytes: 2, ..ReadQuery::default() };
    let first = look(&place, "f", &query).unwrap();
    let next = ReadQuery { cursor: first.cursor.clone(), ..query.clone() };
    assert_eq!(text(&look(&place, "f", &next).unwrap()), ("2\n", 2, 2));
    place.write("f", "1\n2\n3\n4\n");
    assert!(matches!(look(&place, "f", &next), Err(FileError::Moved { .. })));
    for bad in ["", "x", "1.2.3", "1.2.3.zz", "99999999999.1.1.00000000", "-1.1.1.0"] {
        let query = ReadQuery { cursor: Some(bad.into()), ..query.clone() };
        assert!(look(&place, "f", &query).is_err(), "{bad}");
    }
}

#[test]
fn a_cursor_that_somebody_made_up_does_no_harm() {
    let place = Place::new();
    place.write("f", "1\n2\n3\n");
    let query = ReadQuery { max_bytes: 2, ..ReadQuery::default() };
    let real = look(&place, "f", &query).unwrap().cursor.unwrap();
    let stamp = real.rsplit('.').next().unwrap();
    let most = u64::MAX;
    for (offset, line, last) in [(2, most, most), (6, most, most), (6, 0, 0), (0, 0, most)] {
        let cursor = Some(format!("{offset}.{line}.{last}.{stamp}"));
        look(&place, "f", &ReadQuery { cursor, ..query.clone() }).unwrap();
    }
}

/// A sparse file that is too large to be read as a whole.
fn huge(place: &Place, name: &str) {
    use std::io::{Seek, Write};
    let size = super::super::file_info::MAX_FILE_BYTES + 2 * PIECE as u64;
    place.write(name, "x\n".repeat(PIECE / 2));
    let mut file = std::fs::File::options().write(true).open(place.path("app").join(name)).unwrap();
    file.seek(std::io::SeekFrom::Start(size)).unwrap();
    file.write_all(b"\none\ntwo\nthree\n").unwrap();
}

#[test]
fn the_last_lines_of_a_huge_file_have_no_numbers() {
    let place = Place::new();
    huge(&place, "f");
    let tail =
        |count, max_bytes| ReadQuery { tail: Some(count), max_bytes, ..ReadQuery::default() };
    let told = |query: &ReadQuery| {
        let content = look(&place, "f", query).unwrap();
        match content.part {
            ContentRange::Text { text, from, to, .. } => (text, from.or(to), content.cursor),
            part @ (ContentRange::Bytes { .. }
            | ContentRange::Picture { .. }
            | ContentRange::Unreadable) => {
                panic!("{part:?}")
            }
        }
    };
    assert_eq!(told(&tail(2, 100)), ("two\nthree\n".into(), None, None));
    assert_eq!(told(&tail(0, 100)), (String::new(), None, None));
    let first = ReadQuery { lines: Some(1), ..tail(0, 100) };
    assert!(look(&place, "f", &first).is_err(), "one or the other");
    let first = look(&place, "f", &ReadQuery { lines: Some(1), ..usual() }).unwrap();
    assert_eq!(text(&first), ("x\n", 1, 1));
}

#[test]
fn who_looks_for_a_line_of_a_huge_file_can_stop() {
    let place = Place::new();
    huge(&place, "f");
    let looks = std::cell::Cell::new(0);
    let stop = || looks.replace(looks.get() + 1) >= 5;
    let query = ReadQuery { from: Some(1 << 40), ..usual() };
    let read = read(&place.spot("f"), &query, &place.guarded, &FileInfoCache::default(), &stop);
    assert!(matches!(read, Err(FileError::Cancelled)));
}

#[test]
fn folders_pipes_and_what_is_missing_are_refused() {
    let place = Place::new();
    std::fs::create_dir(place.path("app/folder")).unwrap();
    assert!(look(&place, "folder", &usual()).unwrap_err().is_folder());
    assert!(look(&place, "", &usual()).unwrap_err().is_folder());
    assert!(matches!(look(&place, "none", &usual()), Err(FileError::Missing { .. })));
    assert!(matches!(look(&place, "none/x", &usual()), Err(FileError::Missing { .. })));
}

#[test]
fn lines_far_down_a_large_file_are_found() {
    let place = Place::new();
    let line = |number: u64| format!("line {number} {}\n", "x".repeat((number % 90) as usize));
    let all: String = (1..=10_000).map(line).collect();
    assert!(all.len() > 5 * PIECE);
    place.write("large", &all);
    for from in [1, 2, 999, 1000, 5_555, 9_999, 10_000] {
        let query = ReadQuery { from: Some(from), lines: Some(1), ..usual() };
        let content = look(&place, "large", &query).unwrap();
        assert_eq!(text(&content), (line(from).as_str(), from, from));
    }
    let content = look(&place, "large", &ReadQuery { tail: Some(2), ..usual() }).unwrap();
    assert_eq!(text(&content), ((line(9_999) + &line(10_000)).as_str(), 9_999, 10_000));
}

/// Reads page by page to the end.
fn pages(place: &Place, path: &str, query: &ReadQuery) -> Vec<Content> {
    let mut query = query.clone();
    let mut pages = Vec::new();
    loop {
        let content = look(place, path, &query).unwrap();
        query.cursor.clone_from(&content.cursor);
        pages.push(content);
        assert!(pages.len() < 1000, "it does not end");
        if query.cursor.is_none() {
            return pages;
        }
    }
}

proptest! {
    #[test]
    fn pages_make_the_whole(
        lines in prop::collection::vec("[a-zä€]{0,12}", 0..12),
        last in any::<bool>(),
        max_bytes in 4usize..40,
        (from, count) in (1u64..9, prop::option::of(0u64..9)),
    ) {
        let place = Place::new();
        let mut all = lines.join("\n");
        all.push_str(if last { "\n" } else { "" });
        place.write("f", &all);
        let query = ReadQuery { from: Some(from), lines: count, max_bytes, ..ReadQuery::default() };
        let mut read = String::new();
        let mut number = from;
        for content in pages(&place, "f", &query) {
            let (text, from, to) = text(&content);
            prop_assert!(text.len() <= max_bytes);
            prop_assert!(text.is_empty() || from == number || from + 1 == number + 1);
            read.push_str(text);
            number = if text.ends_with('\n') { to + 1 } else { to };
        }
        let skipped = all.split_inclusive('\n').skip(from as usize - 1);
        let expected: String = skipped.take(count.map_or(usize::MAX, |c| c as usize)).collect();
        prop_assert_eq!(read, expected);
        let bytes = ReadQuery { bytes: true, max_bytes, ..ReadQuery::default() };
        let joined: Vec<u8> = pages(&place, "f", &bytes).into_iter().flat_map(|content| match content.part {
            ContentRange::Bytes { bytes, .. } => bytes,
            ContentRange::Text { .. } | ContentRange::Picture { .. } | ContentRange::Unreadable => panic!("no bytes"),
        }).collect();
        prop_assert_eq!(joined, all.into_bytes());
    }
}
