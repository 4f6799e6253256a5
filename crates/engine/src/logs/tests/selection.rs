//! The selection of a query: order, tail, times, streams, patterns, several services.

use super::*;
use crate::error::EngineError;
use Do::*;

/// Two runs, both streams, marks, a rotation in each stream and a line that crosses it.
const STORY: &[Do] = &[
    Start(OUT, 10, 1),
    Write(OUT, 11, 1, "one\ntwo\n"),
    Write(ERR, 12, 1, "warn a\n"),
    Write(OUT, 13, 1, "thr"),
    Rotate(OUT),
    Write(OUT, 14, 1, "ee\nfour\n"),
    Rotate(ERR),
    Write(ERR, 15, 1, "warn b\nlast words"),
    Exit(OUT, 16, 1),
    Start(OUT, 20, 2),
    Write(ERR, 21, 2, "warn c\n"),
    Write(OUT, 22, 2, "five\n"),
    Drop(OUT, 23, 2, 77),
    Write(OUT, 24, 2, "six\nunfin"),
];

const ALL: &[&str] = &[
    "10 out1 [started]",
    "11 out1 one",
    "11 out1 two",
    "12 err1 warn a",
    "13 out1 three",
    "14 out1 four",
    "15 err1 warn b",
    "15 err1 last words",
    "16 out1 [exit status unknown]",
    "20 out2 [started]",
    "21 err2 warn c",
    "22 out2 five",
    "23 out2 [dropped 77]",
    "24 out2 six",
    "24 out2 unfin~",
];

#[test]
fn queries_select_what_they_say() {
    let at = |since: i64, until: i64| LogQuery {
        since: (since > 0).then_some(Wall(since)),
        until: (until > 0).then_some(Wall(until)),
        ..everything()
    };
    let tail = |lines| LogQuery { tail: Some(lines), ..everything() };
    let stream = |stream| LogQuery { stream: Some(stream), ..everything() };
    let runs = |first: u64, last: u64| LogQuery {
        runs: [(name("web"), RunId(first)..=RunId(last))].into(),
        ..everything()
    };
    let grep = |pattern: &str| LogQuery { grep: Some(pattern.into()), ..everything() };
    let table: &[(&str, LogQuery, &[&str])] = &[
        ("everything", everything(), ALL),
        ("tail 0", tail(0), &[]),
        ("tail 1", tail(1), &ALL[14..]),
        ("tail 2", tail(2), &ALL[13..]),
        ("tail 3 has the mark between", tail(3), &ALL[11..]),
        ("tail 5 begins with a line of another stream", tail(5), &ALL[7..]),
        ("tail 11 is all lines, without the mark before", tail(11), &ALL[1..]),
        ("tail 12 is everything", tail(12), ALL),
        ("tail of the greatest number", tail(usize::MAX), ALL),
        ("since a line", at(13, 0), &ALL[4..]),
        ("since the middle of a line leaves it out", at(14, 0), &ALL[5..]),
        ("since the end", at(25, 0), &[]),
        ("since before the beginning", at(1, 0), ALL),
        ("until a line", at(0, 13), &ALL[..5]),
        ("until before the beginning", at(0, 9), &[]),
        ("until after the end", at(0, 99), ALL),
        ("since and until", at(12, 16), &ALL[3..9]),
        ("tail until", LogQuery { tail: Some(2), ..at(0, 15) }, &ALL[6..8]),
        ("tail since", LogQuery { tail: Some(9), ..at(22, 0) }, &ALL[11..]),
        ("tail between", LogQuery { tail: Some(3), ..at(12, 15) }, &ALL[5..8]),
        ("a run", runs(2, 2), &ALL[9..]),
        ("a run that is over", runs(1, 1), &ALL[..9]),
        ("the last lines of a run", LogQuery { tail: Some(2), ..runs(1, 1) }, &ALL[6..9]),
        ("from a run on", runs(2, u64::MAX), &ALL[9..]),
        ("no run yet", runs(3, u64::MAX), &[]),
        ("all runs", runs(0, 9), ALL),
        (
            "another service's run",
            LogQuery { runs: [(name("db"), RunId(9)..=RunId(9))].into(), ..everything() },
            ALL,
        ),
        ("stderr has no marks", stream(ERR), &[ALL[3], ALL[6], ALL[7], ALL[10]]),
        (
            "stdout has its marks",
            stream(OUT),
            &[
                ALL[0], ALL[1], ALL[2], ALL[4], ALL[5], ALL[8], ALL[9], ALL[11], ALL[12], ALL[13],
                ALL[14],
            ],
        ),
        ("grep has no marks", grep("warn"), &[ALL[3], ALL[6], ALL[10]]),
        ("grep is anchored at lines", grep("^(t|s)"), &[ALL[2], ALL[4], ALL[13]]),
        ("grep sees a line across segments as one", grep("^three$"), &ALL[4..5]),
        ("grep with tail", LogQuery { tail: Some(2), ..grep("warn") }, &[ALL[6], ALL[10]]),
        (
            "grep with tail and stream",
            LogQuery { tail: Some(1), stream: Some(OUT), ..grep("^t") },
            &[ALL[4]],
        ),
        ("grep for nothing", grep("nowhere"), &[]),
    ];
    for (title, query, expected) in table {
        check(title, STORY, query, expected);
    }
}

/// A script, and its expected items.
const ORDERS: &[(&str, &[Do], &[&str])] = &[
    (
        "a clock that jumps back does not reorder a stream",
        &[
            Write(OUT, 50, 1, "a\n"),
            Write(OUT, 7, 1, "b\n"),
            Write(OUT, 60, 1, "c\n"),
            Write(ERR, 55, 1, "e\n"),
        ],
        &["50 out1 a", "7 out1 b", "55 err1 e", "60 out1 c"],
    ),
    (
        "at the same time stdout is first, the older run before",
        &[
            Write(ERR, 5, 1, "e1\n"),
            Write(ERR, 5, 2, "e2\n"),
            Write(OUT, 5, 1, "o1\n"),
            Write(OUT, 5, 2, "o2\n"),
        ],
        &["5 out1 o1", "5 err1 e1", "5 out2 o2", "5 err2 e2"],
    ),
    (
        "a line has the time of its first byte",
        &[
            Write(OUT, 1, 1, "a"),
            Write(OUT, 2, 1, "b"),
            Write(OUT, 3, 1, "\nc\n"),
            Write(OUT, 4, 1, "d\n"),
        ],
        &["1 out1 ab", "3 out1 c", "4 out1 d"],
    ),
    (
        "runs do not share a line, even where only bytes tell of them",
        &[
            Write(ERR, 1, 1, "old"),
            Write(ERR, 2, 2, "new\n"),
            Write(OUT, 3, 2, "x"),
            Exit(OUT, 4, 2),
        ],
        &["1 err1 old", "2 err2 new", "3 out2 x", "4 out2 [exit status unknown]"],
    ),
    (
        "dropped bytes end a line",
        &[Write(OUT, 1, 1, "ab"), Drop(OUT, 2, 1, 9), Write(OUT, 3, 1, "yz\n")],
        &["1 out1 ab", "2 out1 [dropped 9]", "3 out1 yz"],
    ),
    (
        "a mark in both streams is shown once, one in stderr alone is shown",
        &[
            Start(OUT, 1, 1),
            Start(ERR, 1, 1),
            Write(OUT, 2, 1, "x\n"),
            Exit(ERR, 3, 1),
            Rotate(OUT),
            Exit(OUT, 4, 1),
            Start(ERR, 5, 2),
        ],
        &["1 out1 [started]", "2 out1 x", "4 out1 [exit status unknown]", "5 err2 [started]"],
    ),
    (
        "a missing segment ends a line",
        &[Write(OUT, 1, 1, "ab"), Rotate(OUT), Rotate(OUT), Write(OUT, 2, 1, "cd\n")],
        &["1 out1 ab", "2 out1 cd"],
    ),
    (
        "a line may cross many segments",
        &[
            Write(OUT, 1, 1, "a"),
            Rotate(OUT),
            Write(OUT, 2, 1, "b"),
            Rotate(OUT),
            Write(OUT, 3, 1, "c\n"),
        ],
        &["1 out1 abc"],
    ),
    (
        "a run that begins with a segment ends the line before",
        &[Write(OUT, 1, 1, "a"), Rotate(OUT), Start(OUT, 2, 2), Write(OUT, 3, 2, "b\n")],
        &["1 out1 a", "2 out2 [started]", "3 out2 b"],
    ),
    (
        "empty lines and carriage returns stay",
        &[Write(OUT, 1, 1, "\n\r\n\0\n")],
        &["1 out1 ", "1 out1 \r", "1 out1 \0"],
    ),
];

#[test]
fn files_keep_their_order_and_streams_are_merged_by_time() {
    for (title, script, expected) in ORDERS {
        check(title, script, &everything(), expected);
    }
}

#[test]
fn services_are_merged_and_asked_for_once() {
    let script = &[
        Write(OUT, 1, 1, "w1\n"),
        Write(OUT, 4, 1, "w4\n"),
        Service("db"),
        Write(OUT, 2, 1, "d2\n"),
        Write(ERR, 3, 1, "d3\n"),
    ];
    let both = LogQuery { services: ["web", "db", "none", "web"].map(name).into(), ..everything() };
    check("all", script, &both, &["1 out1 w1", "db:2 out1 d2", "db:3 err1 d3", "4 out1 w4"]);
    check("tail", script, &LogQuery { tail: Some(2), ..both }, &["db:3 err1 d3", "4 out1 w4"]);
}

#[test]
fn bytes_come_back_as_they_are() {
    let mut writer = Writer::new();
    let nasty: Vec<u8> = (0..=255).filter(|byte| *byte != b'\n').collect();
    writer.write(OUT, 1, 1, &[&nasty[..], b"\n\xff\xfe\n"].concat());
    assert_eq!(lines_of(&writer.read(&everything()).items, OUT), [nasty, vec![0xff, 0xfe]]);
    let found = writer.read(&LogQuery { grep: Some(r"(?-u)^\xff".into()), ..everything() });
    assert_eq!(lines_of(&found.items, OUT), [[0xff, 0xfe]]);
}

#[test]
fn bad_patterns_are_refused() {
    let writer = Writer::after(STORY);
    for pattern in ["(", "a{1000}{1000}{1000}", &"x".repeat(100_000)] {
        let answer = super::super::read(
            &writer.logs(),
            &LogQuery { grep: Some(pattern.into()), ..everything() },
        );
        assert!(matches!(answer, Err(EngineError::BadPattern(_))), "{:.20}", pattern);
    }
}

#[test]
fn the_last_lines_are_counted_for_all_services_or_for_each() {
    let writer = Writer::after(&[
        Write(OUT, 10, 1, "web one\nweb two\nweb three\n"),
        Service("worker"),
        Write(OUT, 11, 1, "worker one\n"),
        Write(ERR, 12, 1, "worker two\n"),
        Write(OUT, 13, 1, "worker three\n"),
    ]);
    let check = |tail_each, grep: Option<&str>, expected: &[&str]| {
        let page = writer.read(&LogQuery {
            services: vec![name("web"), name("worker")],
            tail: Some(2),
            tail_each,
            grep: grep.map(Into::into),
            context: usize::from(grep.is_some()),
            ..everything()
        });
        let lines = page.items.into_iter().map(|item| match item.what {
            LogWhat::Line(line) => String::from_utf8(line.bytes).unwrap(),
            other @ (LogWhat::Started | LogWhat::Exited(_) | LogWhat::Dropped(_)) => {
                panic!("{other:?}")
            }
        });
        assert_eq!(lines.collect::<Vec<_>>(), expected, "{tail_each} {grep:?}");
    };
    check(false, None, &["worker two", "worker three"]);
    check(true, None, &["web two", "web three", "worker two", "worker three"]);
    check(
        true,
        Some("three"),
        &["web two", "web three", "worker one", "worker two", "worker three"],
    );
    check(true, Some("web t"), &["web one", "web two", "web three", "worker one"]);
}
