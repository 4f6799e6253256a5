//! Pages with a byte budget: sizes, long lines, folding, context.

use super::super::MAX_LINE;
use super::random::{Event, Model, event, few_cases};
use super::*;
use Do::*;
use proptest::prelude::*;

const MIB: usize = 1024 * 1024;

/// Like [`show`], with `+N` for the part left out of a line, `×N` for its repeats and `?` for a context line.
fn told(items: &[LogItem]) -> Vec<String> {
    let one = |item: &LogItem| {
        let LogWhat::Line(line) = &item.what else { return show_one(item) };
        let mut text = show_one(item);
        if line.left_out > 0 {
            text += &format!(" +{}", line.left_out);
        }
        if let Some(Repeats { count, wall }) = line.repeats {
            text += &format!(" ×{count} until {}", wall.0);
        }
        text + if line.context { " ?" } else { "" }
    };
    items.iter().map(one).collect()
}

/// Checks the result of a query, in one page and one item at a time.
fn check_told(title: &str, script: &[Do], query: &LogQuery, expected: &[&str]) {
    let writer = Writer::after(script);
    assert_eq!(told(&writer.read_all(query).0), expected, "{title}");
    if !query.fold && !query.newest {
        let (items, _) = writer.read_all(&LogQuery { max_bytes: 0, ..query.clone() });
        assert_eq!(told(&items), expected, "{title}, item by item");
    }
}

#[test]
fn a_long_line_is_shown_by_its_beginning_and_the_next_one_follows() {
    let script = [Write(OUT, 1, 1, "abcdefgh\nab\n\nä\"ö"), Write(OUT, 2, 1, "ü\nend\n")];
    let query = |most| LogQuery { max_line: Some(most), ..everything() };
    let expected = ["1 out1 abcd +4", "1 out1 ab", "1 out1 ", "1 out1 ä\" +4", "2 out1 end"];
    check_told("four bytes", &script, &query(4), &expected);
    let all = ["1 out1 abcdefgh", "1 out1 ab", "1 out1 ", "1 out1 ä\"öü", "2 out1 end"];
    check_told("as many as the longest has", &script, &query(8), &all);
    let tail = LogQuery { tail: Some(2), ..query(4) };
    check_told("the last two lines", &script, &tail, &expected[3..]);
}

/// A line of 20 MB, in several segments.
fn huge_line() -> Writer {
    let mut writer = Writer::new();
    writer.write(OUT, 1, 1, b"before\n");
    for _ in 0..5 {
        writer.write(OUT, 2, 1, &b"x".repeat(4 * MIB));
        writer.perform(Rotate(OUT));
    }
    writer.write(OUT, 3, 1, b"\nafter\n");
    writer
}

#[test]
fn a_huge_line_costs_no_more_than_its_budget() {
    let writer = huge_line();
    let shown = format!("2 out1 {} +{}", "x".repeat(100), 20 * MIB - 100);
    let expected = ["1 out1 before", shown.as_str(), "3 out1 after"];
    let query = LogQuery { max_line: Some(100), ..everything() };
    for max_bytes in [0, 100, MIB] {
        let (items, _) = writer.read_all(&LogQuery { max_bytes, ..query.clone() });
        assert_eq!(told(&items), expected, "pages of {max_bytes}");
    }
    for tail in 0..=3 {
        let page = writer.read(&LogQuery { tail: Some(tail), ..query.clone() });
        assert_eq!(told(&page.items), expected[3 - tail..], "the last {tail}");
    }
    // A line without an end yet is skipped to its end, on whichever page that is.
    let mut writer = huge_line();
    writer.write(OUT, 4, 1, &b"y".repeat(MIB));
    let page = writer.read(&LogQuery { tail: Some(1), ..query.clone() });
    assert_eq!(told(&page.items), [format!("4 out1 {} +{}", "y".repeat(100), MIB - 100)]);
    writer.write(OUT, 5, 1, b"yyy");
    writer.write(OUT, 6, 1, b"yyy\nnext\n");
    let rest = writer.read(&LogQuery { cursor: Some(page.cursor), ..query });
    assert_eq!(told(&rest.items), ["6 out1 next"]);
}

#[test]
fn a_search_finds_what_is_in_the_middle_of_a_long_line() {
    let mut writer = Writer::new();
    let mut line = b"x".repeat(3 * MAX_LINE);
    line[MAX_LINE..MAX_LINE + 6].copy_from_slice(b"needle");
    writer.write(OUT, 1, 1, &[&line[..], b"\nno\n"].concat());
    let query = LogQuery { grep: Some("needle".into()), max_line: Some(10), ..everything() };
    let left_out = 2 * MAX_LINE - 10;
    assert_eq!(told(&writer.read(&query).items), [format!("1 out1 needlexxxx +{left_out}")]);
}

#[test]
fn lines_that_say_the_same_become_one() {
    let script = [
        Start(OUT, 1, 1),
        Write(OUT, 2, 1, "tick\ntick\n"),
        Write(OUT, 3, 1, "tick\n14:05:03 up\n14:05:04 up\nend\n"),
        Write(ERR, 4, 1, "end\nend\n"),
        Exit(OUT, 5, 1),
        Start(OUT, 6, 2),
        Write(OUT, 7, 2, "end\nend"),
    ];
    let query = LogQuery { fold: true, ..everything() };
    let expected = [
        "1 out1 [started]",
        "2 out1 tick ×2 until 3",
        "3 out1 14:05:03 up ×1 until 3",
        "3 out1 end",
        "4 err1 end ×1 until 4",
        "5 out1 [exit status unknown]",
        "6 out2 [started]",
        "7 out2 end",
        "7 out2 end~",
    ];
    check_told("folded", &script, &query, &expected);
}

#[test]
fn a_hundred_thousand_equal_lines_are_one() {
    let mut writer = Writer::new();
    writer.write(OUT, 1, 1, &b"the same again\n".repeat(60_000));
    writer.perform(Rotate(OUT));
    writer.write(OUT, 2, 1, &b"the same again\n".repeat(40_000));
    writer.write(OUT, 3, 1, b"another\n");
    let query = LogQuery { fold: true, max_bytes: 100, item_cost: Some(20), ..everything() };
    let page = writer.read(&query);
    assert_eq!(told(&page.items), ["1 out1 the same again ×99999 until 2", "3 out1 another"]);
    assert!(!page.more);
    let last = LogQuery { tail: Some(1000), newest: true, ..query };
    let expected = ["2 out1 the same again ×998 until 2", "3 out1 another"];
    assert_eq!(told(&writer.read(&last).items), expected);
}

#[test]
fn of_a_tail_the_newest_lines_are_kept() {
    let lines = ["one", "two", "three", "four", "five"];
    let script = [Start(OUT, 1, 1), Write(OUT, 2, 1, "one\ntwo\nthree\nfour\nfive\n")];
    let writer = Writer::after(&script);
    let query = LogQuery { tail: Some(100), newest: true, ..everything() };
    let shown = |max_bytes, item_cost, tail| {
        let tail = Some(tail);
        let page = writer.read(&LogQuery { max_bytes, item_cost, tail, ..query.clone() });
        assert!(!page.more);
        let rest = writer.read(&from(&page.cursor));
        assert_eq!(told(&rest.items), [""; 0], "the cursor is at the end");
        let texts =
            lines_of(&page.items, OUT).into_iter().map(|line| String::from_utf8(line).unwrap());
        (texts.collect::<Vec<_>>(), page.truncated)
    };
    let last = |count: usize| lines[5 - count..].iter().map(ToString::to_string).collect();
    assert_eq!(shown(100, None, 100), (last(5), false));
    assert_eq!(shown(100, None, 2), (last(2), false), "nobody asked for more");
    assert_eq!(shown(13, None, 100), (last(3), true));
    assert_eq!(shown(12, None, 100), (last(2), true));
    assert_eq!(shown(13, Some(5), 100), (last(1), true));
    assert_eq!(shown(0, None, 100), (last(1), true), "at least one");
}

const STORY: &[Do] = &[
    Write(OUT, 1, 1, "a\nb\nc\n"),
    Write(ERR, 2, 1, "d\n"),
    Write(OUT, 3, 1, "hit 1\ne\n"),
    Write(ERR, 4, 1, "f\n"),
    Write(OUT, 5, 1, "g\nh\nhit 2\nhit 3\n"),
    Write(ERR, 6, 1, "i\nj\nk\n"),
];

#[test]
fn lines_near_a_match_are_shown_with_it() {
    let near = |context, tail| LogQuery { grep: Some("hit".into()), context, tail, ..everything() };
    let (one, two, three) = ("3 out1 hit 1", "5 out1 hit 2", "5 out1 hit 3");
    let (c, d, e, f) = ("1 out1 c ?", "2 err1 d ?", "3 out1 e ?", "4 err1 f ?");
    let (g, h, i, j) = ("5 out1 g ?", "5 out1 h ?", "6 err1 i ?", "6 err1 j ?");
    let table: &[(&str, LogQuery, &[&str])] = &[
        ("none", near(0, None), &[one, two, three]),
        ("one", near(1, None), &[d, one, e, h, two, three, i]),
        ("two", near(2, None), &[c, d, one, e, f, g, h, two, three, i, j]),
        ("the last match", near(1, Some(1)), &["5 out1 hit 2 ?", three, i]),
        ("the last two matches", near(2, Some(2)), &[g, h, two, three, i, j]),
        ("more matches than there are", near(1, Some(9)), &[d, one, e, h, two, three, i]),
        ("no match", LogQuery { grep: Some("nowhere".into()), ..near(3, Some(5)) }, &[]),
        (
            "all that do not match",
            LogQuery { invert: true, grep: Some("[a-g]|hit".into()), ..near(0, None) },
            &["5 out1 h", "6 err1 i", "6 err1 j", "6 err1 k"],
        ),
        (
            "one before what does not match",
            LogQuery { invert: true, grep: Some("[a-g]|hit".into()), ..near(1, Some(3)) },
            &["5 out1 hit 3 ?", "6 err1 i", "6 err1 j", "6 err1 k"],
        ),
    ];
    for (title, query, expected) in table {
        check_told(title, STORY, query, expected);
    }
}

#[test]
fn lines_after_a_match_come_with_the_next_page_if_they_are_written_later() {
    let mut writer = Writer::after(&[Write(OUT, 1, 1, "a\nhit\n")]);
    let query = LogQuery { grep: Some("hit".into()), context: 2, ..everything() };
    let page = writer.read(&query);
    assert_eq!(told(&page.items), ["1 out1 a ?", "1 out1 hit"]);
    let mut cursor = page.cursor;
    for (text, expected) in [
        ("b\n", &["2 out1 b ?"][..]),
        ("c\nd\n", &["2 out1 c ?"]),
        ("e\n", &[]),
        ("hit again\n", &["2 out1 d ?", "2 out1 e ?", "2 out1 hit again"]),
    ] {
        writer.write(OUT, 2, 1, text.as_bytes());
        let page = writer.read(&LogQuery { cursor: Some(cursor), ..query.clone() });
        assert_eq!(told(&page.items), expected, "after {text:?}");
        cursor = page.cursor;
    }
    let plain = writer.read(&from(&cursor));
    assert_eq!(told(&plain.items), [""; 0], "without the search nothing is owed");
}

/// Each line as often as it was written.
fn unfolded(items: &[LogItem]) -> Vec<String> {
    let each = |item: &LogItem| {
        let times = match &item.what {
            LogWhat::Line(line) => line.repeats.map_or(0, |repeats| repeats.count) as usize,
            LogWhat::Started | LogWhat::Exited(_) | LogWhat::Dropped(_) => 0,
        };
        let text = show_one(item);
        let (_, text) = text.split_once(' ').unwrap();
        std::iter::repeat_n(text.to_owned(), times + 1)
    };
    items.iter().flat_map(each).collect()
}

/// Lines of few letters, so that some are equal and some match.
fn plain_event() -> impl Strategy<Value = Event> {
    let bytes = prop::collection::vec(prop::sample::select(&b"\nab\"\x01"[..]), 0..30);
    prop_oneof![
        4 => (any::<bool>(), bytes).prop_map(|(stream, bytes)| Event::Bytes(stream, bytes)),
        1 => event(),
    ]
}

proptest! {
    #![proptest_config(few_cases())]

    #[test]
    fn whatever_the_budget_nothing_is_lost_or_doubled(
        events in prop::collection::vec(plain_event(), 0..30),
        sizes in prop::collection::vec(0..80usize, 1..6),
        max_line in prop::option::of(0..20usize),
        fold in any::<bool>(),
        (grep, invert) in (prop::option::of(prop::sample::select(vec!["a", "b+", "^$"])), any::<bool>()),
        context in 0..4usize,
        item_cost in prop::option::of(0..30usize),
    ) {
        let mut model = Model::new();
        // The clock never jumps back: otherwise a tail is not found exactly.
        events.iter().filter(|event| !matches!(event, Event::Clock(..0))).for_each(|event| model.perform(event));
        model.end_run();
        let grep = grep.map(ToOwned::to_owned);
        let query = LogQuery { max_line, fold, grep, invert, context, item_cost, ..everything() };
        let at_once = model.writer.read(&LogQuery { item_cost: None, ..query.clone() });
        let mut paged = Vec::new();
        let mut next = query.clone();
        for at in 0.. {
            let max_bytes = sizes[at % sizes.len()];
            let page = model.writer.read(&LogQuery { max_bytes, ..next.clone() });
            let spent = |what: &LogWhat| match what {
                LogWhat::Line(line) => String::from_utf8_lossy(&line.bytes).len(),
                LogWhat::Started | LogWhat::Exited(_) | LogWhat::Dropped(_) => 0,
            };
            let bytes: usize = page.items.iter().map(|item| spent(&item.what) + item_cost.unwrap_or(0)).sum();
            let flushed = context + 1;
            prop_assert!(item_cost.is_none() || page.items.len() <= flushed || bytes <= max_bytes);
            paged.extend(page.items);
            next.cursor = Some(page.cursor);
            if !page.more {
                break;
            }
        }
        prop_assert_eq!(unfolded(&paged), unfolded(&at_once.items));
        if !fold {
            prop_assert_eq!(told(&paged), told(&at_once.items));
        }
        let plain = model.writer.read(&LogQuery { max_line: None, fold: false, context: 0, ..query.clone() });
        let matched = |items: &[LogItem]| {
            let count = |item: &LogItem| matches!(&item.what, LogWhat::Line(line) if !line.context);
            items.iter().filter(|item| count(item)).count()
        };
        if !fold {
            prop_assert_eq!(matched(&at_once.items), matched(&plain.items));
        }
        let last = LogQuery { tail: Some(3), fold: false, ..query };
        let last = model.writer.read(&last).items;
        prop_assert_eq!(matched(&last), matched(&plain.items).min(3));
        prop_assert!(fold || told(&at_once.items).ends_with(&after_first_match(&last)));
    }
}

/// The items from the first match on; before it, a tail shows as context what a longer one shows as a match.
fn after_first_match(items: &[LogItem]) -> Vec<String> {
    let near = |item: &&LogItem| matches!(&item.what, LogWhat::Line(line) if line.context);
    let before = items.iter().take_while(near).count();
    told(&items[before..])
}
