//! Pages, cursors and their cost.

use super::super::{MAX_LINE, PAGE_ITEMS};
use super::*;
use crate::error::EngineError;
use Do::*;

const MIB: usize = 1024 * 1024;

#[test]
fn cursors_go_on_across_rotation_and_deletion() {
    let mut writer =
        Writer::after(&[Start(OUT, 1, 1), Write(OUT, 2, 1, "a\nb\n"), Write(ERR, 3, 1, "e\n")]);
    let first = writer.read(&LogQuery { max_bytes: 1, ..everything() });
    assert_eq!(
        (show(&first.items), first.more),
        (vec!["1 out1 [started]".into(), "2 out1 a".into()], true)
    );
    let steps: &[(Do, &[&str])] = &[
        (Rotate(OUT), &["2 out1 b", "3 err1 e"]),
        (Write(OUT, 4, 1, "c\n"), &["4 out1 c"]),
        (Rotate(OUT), &[]),
        (Write(OUT, 5, 1, "d\n"), &["5 out1 d"]),
        (Delete(OUT, 1), &[]),
        (Exit(OUT, 6, 1), &["6 out1 [exit status unknown]"]),
        (Rotate(ERR), &[]),
        (Write(ERR, 7, 1, "f\n"), &["7 err1 f"]),
    ];
    let mut cursor = first.cursor.clone();
    for (step, expected) in steps {
        writer.perform(*step);
        let page = writer.read(&from(&cursor));
        assert_eq!(show(&page.items), *expected, "{step:?}");
        cursor = page.cursor;
    }
    // The first cursor names a segment that is gone: it continues with the oldest one.
    let rest = writer.read(&from(&first.cursor));
    assert_eq!(show(&rest.items[..3]), ["3 err1 e", "4 out1 c", "5 out1 d"]);
}

#[test]
fn a_cursor_of_the_first_version_goes_on() {
    let writer =
        Writer::after(&[Start(OUT, 1, 1), Write(OUT, 2, 1, "a\nb\n"), Write(ERR, 3, 1, "e\n")]);
    let page = writer.read(&from("AQEDd2ViAQICAAAAAAAAAQECAU_-ORo"));
    assert_eq!(show(&page.items), ["2 out1 b", "3 err1 e"]);
}

#[test]
fn a_cursor_is_short() {
    let mut writer = Writer::new();
    writer.write(OUT, 1, 1, &b"a line as they come\n".repeat(10_000));
    let (_, cursor) = writer.read_all(&everything());
    assert!(cursor.len() <= 26, "{} characters at the end of one stream: {cursor}", cursor.len());
    writer.write(ERR, 2, 1, &b"a line as they come\n".repeat(10_000));
    let page = writer.read(&LogQuery { max_bytes: 1000, ..everything() });
    assert!(page.cursor.len() <= 52, "{} characters in the middle", page.cursor.len());
}

#[test]
fn a_service_the_cursor_does_not_know_begins_at_its_end() {
    let mut writer = Writer::after(&[
        Write(OUT, 1, 1, "w\n"),
        Service("db"),
        Write(OUT, 1, 1, "old\n"),
        Exit(OUT, 2, 1),
    ]);
    let cursor = writer.read(&everything()).cursor;
    let both = |cursor: &str| LogQuery { services: ["web", "db"].map(name).into(), ..from(cursor) };
    let page = writer.read(&both(&cursor));
    assert_eq!((page.items.len(), page.more), (0, false));
    writer.perform(Write(OUT, 3, 2, "new\n"));
    assert_eq!(show(&writer.read(&both(&page.cursor)).items), ["db:3 out2 new"]);
}

#[test]
fn a_stream_that_was_filtered_out_goes_on_from_the_last_page() {
    let mut writer = Writer::after(&[Write(OUT, 1, 1, "o\n"), Write(ERR, 2, 1, "e\n")]);
    let page = writer.read(&LogQuery { stream: Some(OUT), ..everything() });
    assert_eq!(show(&page.items), ["1 out1 o"]);
    writer.perform(Write(ERR, 3, 1, "f\n"));
    assert_eq!(show(&writer.read(&from(&page.cursor)).items), ["3 err1 f"]);
}

#[test]
fn garbage_is_no_cursor() {
    let writer = Writer::after(&[Write(OUT, 1, 1, "a\nb\n")]);
    let good = writer.read(&everything()).cursor;
    let mut bad = vec![
        String::new(),
        "AAAA".into(),
        "not base64!".into(),
        format!("{good}A"),
        "A".repeat(9 * MIB),
    ];
    for at in 0..good.len() {
        let mut bytes = good.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        bad.push(String::from_utf8(bytes).unwrap());
        bad.push(good[..at].into());
    }
    for text in bad {
        let answer = super::super::read(&writer.logs(), &from(&text));
        assert!(
            matches!(&answer, Err(EngineError::BadCursor(shown)) if shown.len() < 100),
            "{text:.60}"
        );
    }
}

#[test]
fn pages_end_at_their_size_and_their_number_of_items() {
    let mut writer = Writer::new();
    writer.write(OUT, 1, 1, &b"\n".repeat(PAGE_ITEMS + 5));
    writer.write(ERR, 2, 1, &b"12345678\n".repeat(10));
    let first = writer.read(&everything());
    assert_eq!((first.items.len(), first.more), (PAGE_ITEMS, true));
    let second = writer.read(&LogQuery { max_bytes: 20, ..from(&first.cursor) });
    assert_eq!((second.items.len(), second.more), (5 + 2, true));
    let last = writer.read(&LogQuery { max_bytes: 64, ..from(&second.cursor) });
    assert_eq!((last.items.len(), last.more), (8, false));
}

#[test]
fn a_very_long_line_comes_in_pieces() {
    let mut writer = Writer::new();
    let long: Vec<u8> = (0..40 * MIB as u32).map(|n| b'a' + (n % 23) as u8).collect();
    writer.write(OUT, 1, 1, b"before\n");
    for part in long.chunks(7 * MIB) {
        writer.write(OUT, 2, 1, part);
        writer.perform(Rotate(OUT));
    }
    writer.write(OUT, 3, 1, b"\nafter\n");
    let mut query = LogQuery { max_bytes: MIB, ..everything() };
    let mut items = Vec::new();
    loop {
        let page = writer.read(&query);
        let sizes = page.items.iter().map(|item| match &item.what {
            LogWhat::Line(line) => line.bytes.len(),
            LogWhat::Started | LogWhat::Exited(_) | LogWhat::Dropped(_) => 0,
        });
        assert!(sizes.clone().max() <= Some(MAX_LINE) && sizes.sum::<usize>() <= MIB);
        items.extend(page.items);
        query.cursor = Some(page.cursor);
        if !page.more {
            break;
        }
    }
    let cuts =
        items.iter().filter(|item| matches!(item.what, LogWhat::Line(LogLine { cut: true, .. })));
    assert_eq!(cuts.count(), 40 * MIB / MAX_LINE - 1);
    let lines = lines_of(&items, OUT);
    assert_eq!(lines.len(), 3);
    assert!(lines[0] == b"before" && lines[1] == long && lines[2] == b"after");
}

#[test]
fn a_line_as_long_as_a_piece_is_not_cut() {
    for (length, pieces) in [(MAX_LINE - 1, 1), (MAX_LINE, 1), (MAX_LINE + 1, 2), (2 * MAX_LINE, 2)]
    {
        for rotate_at in [0, 1, length - 1, length] {
            let mut writer = Writer::new();
            let line = [b"x".repeat(length), b"\n".to_vec()].concat();
            writer.write(OUT, 1, 1, &line[..rotate_at]);
            writer.perform(Rotate(OUT));
            writer.write(OUT, 2, 1, &line[rotate_at..]);
            let (items, _) = writer.read_all(&everything());
            assert_eq!(items.len(), pieces, "{length} bytes, rotated at {rotate_at}");
            assert_eq!(lines_of(&items, OUT), [&line[..length]]);
        }
    }
}

#[test]
fn a_search_shows_a_long_line_from_the_piece_that_matches() {
    let mut writer = Writer::new();
    let mut line = b"x".repeat(3 * MAX_LINE);
    line[MAX_LINE + 5] = b'!';
    writer.write(OUT, 1, 1, &[line.clone(), b"\nno\nyes!\n".to_vec()].concat());
    let query = LogQuery { grep: Some("!".into()), ..everything() };
    for max_bytes in [1, 1 << 30] {
        let (items, _) = writer.read_all(&LogQuery { max_bytes, ..query.clone() });
        assert_eq!(lines_of(&items, OUT), [&line[MAX_LINE..], b"yes!"]);
    }
}

/// 30 MiB in segments, one record for each line: the index is nearly as long as the log.
fn large_log() -> Writer {
    let mut writer = Writer::new();
    let mut number = 0;
    for _ in 0..3 {
        let (mut text, mut records) = (Vec::new(), Vec::new());
        while text.len() < 10 * MIB {
            number += 1;
            let mark = IndexMark::Bytes;
            let entry =
                IndexEntry { offset: text.len() as u64, wall: Wall(number), run: RunId(1), mark };
            records.extend(entry.encode());
            text.extend(format!("line {number:058}\n").into_bytes());
        }
        writer.append(OUT, &text);
        append(writer.index(OUT, writer.segments[0]), &records);
        writer.perform(Rotate(OUT));
    }
    writer.write(ERR, 100, 1, b"one error long ago\n");
    writer
}

#[test]
fn the_cost_depends_on_what_is_wanted_and_not_on_the_log() {
    let writer = large_log();
    let lines = (30 * MIB / 64) as i64;
    let tail = |lines| LogQuery { tail: Some(lines), ..everything() };
    let at = |since, until| LogQuery {
        since: Some(Wall(since)),
        until: Some(Wall(until)),
        ..everything()
    };
    let page = writer.read(&tail(1));
    let table = [
        ("tail 10", tail(10), 10, 128),
        ("tail 1000", tail(1000), 1000, 1024),
        ("nothing new", from(&page.cursor), 0, 1),
        ("ten in the middle", at(lines / 2, lines / 2 + 9), 10, 512),
        ("tail until the middle", LogQuery { tail: Some(10), ..at(1, lines / 2) }, 10, 512),
        ("after the end", at(lines + 9, lines + 9), 0, 512),
        ("a page from the beginning", LogQuery { max_bytes: 1000, ..everything() }, 15, 256),
    ];
    for (title, query, items, kib) in table {
        let (page, read) = writer.read_counted(&query);
        assert_eq!(page.items.len(), items, "{title}");
        assert!(read <= kib * 1024, "{title} read {} KiB", read / 1024);
    }
    let (last, _) = writer.read_counted(&tail(1));
    assert_eq!(show(&last.items), [format!("{lines} out1 line {lines:058}")]);
}

#[test]
fn the_tail_of_one_huge_line_begins_in_its_middle() {
    let mut writer = Writer::new();
    let line = b"y".repeat(20 * MIB);
    writer.write(OUT, 1, 1, &[&line[..], b"\n"].concat());
    let (page, read) = writer.read_counted(&LogQuery { tail: Some(2), ..everything() });
    assert_eq!(page.items.len(), 2);
    assert!(read < 8 * MIB as u64, "read {} KiB", read / 1024);
    assert!(lines_of(&page.items, OUT)[0].len() <= 2 * MAX_LINE);
}

#[test]
fn a_page_that_finds_nothing_ends_all_the_same() {
    let mut writer = Writer::new();
    let lines: String = (0..20_000).map(|n| format!("number {n}\n")).collect();
    writer.write(OUT, 1, 1, lines.as_bytes());
    let mut query = LogQuery { grep: Some("r 1999.$".into()), ..everything() };
    let (mut empty, mut found) = (0, Vec::new());
    loop {
        // Several blocks: with less than one, each page would read a block again for every line.
        let mut scan = Scan { allowance: 16 * 1024, ..Scan::new(2000) };
        let page = page::read(&writer.logs(), &query, &mut scan).unwrap();
        assert!(scan.read < 64 * 1024, "{} bytes", scan.read);
        empty += usize::from(page.items.is_empty() && page.more);
        found.extend(page.items);
        query.cursor = Some(page.cursor);
        if !page.more {
            break;
        }
    }
    assert!(empty > 10);
    assert_eq!(found.len(), 10, "19990 to 19999");
}
