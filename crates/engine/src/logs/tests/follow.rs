//! Following a log that is being written.

use super::super::HELD_BACK;
use super::*;
use Do::*;
use std::time::{Duration, Instant};

/// Performs each step, reads on from the last page, and checks the items.
fn check_follow(title: &str, begin: &[Do], shown: &[&str], steps: &[(Do, &[&str])]) {
    let mut writer = Writer::after(begin);
    let page = writer.read(&everything());
    assert_eq!(show(&page.items), shown, "{title}, first page");
    let mut cursor = page.cursor;
    for (at, (step, expected)) in steps.iter().enumerate() {
        writer.perform(*step);
        let page = writer.read(&from(&cursor));
        assert_eq!(
            (show(&page.items), page.more),
            (expected.iter().map(|text| (*text).into()).collect(), false),
            "{title}, step {at} {step:?}"
        );
        let again = writer.read(&from(&page.cursor));
        assert_eq!(
            (again.items.len(), &again.cursor),
            (0, &page.cursor),
            "{title}, step {at} again"
        );
        cursor = page.cursor;
    }
}

#[test]
fn unfinished_lines_are_held_back_until_they_are_whole() {
    check_follow(
        "a newline finishes a line",
        &[Write(OUT, 1, 1, "a\n")],
        &["1 out1 a"],
        &[
            (Write(OUT, 2, 1, "b"), &[]),
            (Write(OUT, 3, 1, "c"), &[]),
            (Rotate(OUT), &[]),
            (Write(OUT, 4, 1, "d\ne"), &["2 out1 bcd"]),
            (Bare(OUT, "\n"), &["4 out1 e"]),
        ],
    );
    check_follow(
        "the end of its run finishes a line in either stream",
        &[Write(OUT, 1, 1, "a\n")],
        &["1 out1 a"],
        &[
            (Write(ERR, 2, 1, "err"), &[]),
            (Write(OUT, 3, 1, "out"), &[]),
            (Exit(OUT, 4, 1), &["2 err1 err", "3 out1 out", "4 out1 [exit status unknown]"]),
            (Write(ERR, 5, 1, "stray\n"), &["5 err1 stray"]),
        ],
    );
    check_follow(
        "a later run finishes a line whose exit was never written",
        &[Write(OUT, 1, 1, "a\n")],
        &["1 out1 a"],
        &[
            (Write(ERR, 2, 1, "err"), &[]),
            (Start(OUT, 3, 2), &["2 err1 err", "3 out2 [started]"]),
            (Write(ERR, 4, 2, "new\n"), &["4 err2 new"]),
        ],
    );
}

#[test]
fn what_a_first_page_showed_of_a_line_is_continued() {
    check_follow(
        "by its rest",
        &[Write(OUT, 1, 1, "password")],
        &["1 out1 password~"],
        &[
            (Write(OUT, 2, 1, ": "), &[]),
            (Write(OUT, 3, 1, "ok\nx\n"), &["2 out1 : ok", "3 out1 x"]),
        ],
    );
    check_follow(
        "by an empty piece at its newline",
        &[Write(OUT, 1, 1, "abc")],
        &["1 out1 abc~"],
        &[(Write(OUT, 2, 1, "\n"), &["2 out1 "]), (Write(OUT, 3, 1, "\n"), &["3 out1 "])],
    );
    check_follow(
        "by an empty piece at the end of its run",
        &[Write(ERR, 1, 1, "abc")],
        &["1 err1 abc~"],
        &[(Exit(OUT, 2, 1), &["1 err1 ", "2 out1 [exit status unknown]"])],
    );
    check_follow(
        "or closed, if its segment was the last that exists",
        &[Write(OUT, 1, 1, "abc")],
        &["1 out1 abc~"],
        &[
            (Delete(OUT, 1), &[]),
            (Rotate(OUT), &[]),
            (Write(OUT, 5, 1, "def\n"), &["5 out0 ", "5 out1 def"]),
        ],
    );
}

#[test]
fn a_long_unfinished_line_is_delivered_after_all() {
    let mut writer = Writer::after(&[Write(OUT, 1, 1, "a\n")]);
    let cursor = writer.read(&everything()).cursor;
    writer.write(OUT, 2, 1, &b"=".repeat(HELD_BACK - 1));
    let page = writer.read(&from(&cursor));
    assert_eq!(page.items.len(), 0);
    writer.append(OUT, b"=");
    let page = writer.read(&from(&page.cursor));
    let what =
        LogWhat::Line(LogLine { bytes: b"=".repeat(HELD_BACK), cut: true, ..LogLine::default() });
    assert_eq!(page.items.into_iter().map(|item| item.what).collect::<Vec<_>>(), [what]);
    writer.append(OUT, b"!\n");
    assert_eq!(show(&writer.read(&from(&page.cursor)).items), ["2 out1 !"]);
}

#[test]
fn a_search_waits_for_the_rest_of_a_line() {
    let mut writer = Writer::after(&[Write(OUT, 1, 1, "err")]);
    let query = LogQuery { grep: Some("error".into()), ..everything() };
    let page = writer.read(&query);
    assert_eq!(page.items.len(), 0);
    writer.perform(Write(OUT, 2, 1, "or\nfine\n"));
    let page = writer.read(&LogQuery { cursor: Some(page.cursor), ..query });
    assert_eq!(show(&page.items), ["1 out1 error"]);
}

#[test]
fn bytes_without_their_newline_yet_are_not_finished_by_a_segment_that_just_came() {
    // The reader listed the folder before the writer rotated, and learns of the exit afterwards.
    let mut writer = Writer::after(&[Write(ERR, 1, 1, "ab"), Write(OUT, 1, 1, "x\n")]);
    let folder = std::rc::Rc::new(
        super::super::folder::LogFolder::list(&writer.logs(), &name("web")).unwrap(),
    );
    let mut lane = super::super::stream_reader::StreamReader::new(0, ERR, folder);
    for step in [Rotate(ERR), Write(ERR, 2, 1, "cd\n"), Exit(OUT, 3, 1)] {
        writer.perform(step);
    }
    let filter = super::super::filter::Filter::of(&from("")).unwrap();
    let step = lane.next(&filter, &mut Scan::new(1)).unwrap();
    assert!(matches!(step, super::super::stream_reader::ReadStep::End));
    assert_eq!(
        show(&writer.read(&LogQuery { stream: Some(ERR), ..everything() }).items),
        ["1 err1 abcd"]
    );
}

#[test]
fn segments_that_vanish_after_the_listing_are_skipped() {
    let mut writer = Writer::after(&[
        Write(OUT, 1, 1, "a\n"),
        Rotate(OUT),
        Write(OUT, 2, 1, "b\n"),
        Rotate(OUT),
        Write(OUT, 3, 1, "c\n"),
    ]);
    let folder = std::rc::Rc::new(
        super::super::folder::LogFolder::list(&writer.logs(), &name("web")).unwrap(),
    );
    for gone in [1, 2, 3] {
        writer.perform(Delete(OUT, gone));
        let mut lane =
            super::super::stream_reader::StreamReader::new(0, OUT, std::rc::Rc::clone(&folder));
        let filter = super::super::filter::Filter::of(&everything()).unwrap();
        let mut found = 0;
        while let super::super::stream_reader::ReadStep::Item(_) =
            lane.next(&filter, &mut Scan::new(1)).unwrap()
        {
            found += 1;
        }
        assert_eq!(found, 3 - gone, "{gone} gone");
    }
}

const BUSY_LINES: u64 = 6000;
const LINES_OF_A_RUN: u64 = 500;

/// Lines `run number` in alternating streams, each written in two parts, often in two segments.
fn write_busily(mut writer: Writer) -> Writer {
    for number in 0..BUSY_LINES {
        let (stream, wall, run) =
            (Stream::BOTH[(number % 2) as usize], number as i64, 1 + number / LINES_OF_A_RUN);
        if number % LINES_OF_A_RUN == 0 {
            writer.perform(Start(OUT, wall, run));
        }
        let text = format!("{run} {number}\n");
        let (first, second) = text.as_bytes().split_at(number as usize % text.len());
        writer.write(stream, wall, run, first);
        if number % 97 == 0 {
            writer.perform(Rotate(stream));
        }
        writer.write(stream, wall, run, second);
        if (number + 1) % LINES_OF_A_RUN == 0 {
            writer.perform(Exit(OUT, wall, run));
        }
    }
    writer
}

#[test]
fn a_follower_of_a_busy_writer_sees_every_line_once_and_in_its_run() {
    let writer = Writer::new();
    let logs = writer.logs();
    let mut query = LogQuery { max_bytes: 4000, ..from(&writer.read(&everything()).cursor) };
    let busy = std::thread::spawn(move || write_busily(writer));
    let deadline = Instant::now() + Duration::from_secs(60);
    let (mut items, mut ended) = (Vec::new(), false);
    while !ended {
        assert!(Instant::now() < deadline, "{} items", items.len());
        let page = super::super::read(&logs, &query).unwrap();
        let is_end = |item: &LogItem| {
            item.run.0 == BUSY_LINES / LINES_OF_A_RUN && matches!(item.what, LogWhat::Exited(_))
        };
        ended = page.items.iter().any(is_end);
        items.extend(page.items);
        query.cursor = Some(page.cursor);
    }
    let writer = busy.join().unwrap();
    items.extend(writer.read_all(&query).0);
    for stream in Stream::BOTH {
        let found: Vec<String> =
            show(&items).into_iter().filter(|item| !item.ends_with(']')).collect();
        let prefix = &stream.as_str()[3..];
        let found: Vec<&String> = found.iter().filter(|item| item.contains(prefix)).collect();
        let expected = (0..BUSY_LINES).filter(|number| number % 2 == stream as u64).map(|number| {
            let run = 1 + number / LINES_OF_A_RUN;
            format!("{number} {prefix}{run} {run} {number}")
        });
        assert_eq!(found, expected.collect::<Vec<_>>().iter().collect::<Vec<_>>(), "{stream:?}");
    }
}
