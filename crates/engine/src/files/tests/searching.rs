//! Search results, their order, and their cursors.

use super::super::ignore_rules::SkipRules;
use super::super::search::{
    Case, MAX_PAGE_BYTES, ResultKind, SearchPage, SearchQuery, search, search_within,
};
use super::Place;
use crate::files::{FileError, Pattern};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

fn usual(pattern: &str) -> SearchQuery {
    SearchQuery {
        pattern: pattern.to_owned(),
        literal: false,
        case: Case::Sensitive,
        word: false,
        invert: false,
        multiline: false,
        before: 0,
        after: 0,
        globs: Vec::new(),
        types: Vec::new(),
        leave_out: SkipRules::default(),
        want: ResultKind::Lines,
        most: 1000,
        max_bytes: MAX_PAGE_BYTES,
        max_line: 200,
        cursor: None,
    }
}

fn run(place: &Place, path: &str, query: &SearchQuery) -> Result<SearchPage, FileError> {
    search(&place.spot(path), query, &place.guarded, &|| false)
}

/// Searches page by page to the end.
fn pages(place: &Place, query: &SearchQuery) -> Vec<SearchPage> {
    let mut query = query.clone();
    let mut pages = Vec::new();
    loop {
        let page = run(place, "", &query).unwrap();
        query.cursor.clone_from(&page.cursor);
        pages.push(page);
        assert!(pages.len() < 1000, "it does not end");
        if query.cursor.is_none() {
            return pages;
        }
    }
}

/// `path:line` for matches and `path-line` for context lines.
fn places(page: &SearchPage) -> Vec<String> {
    let lines = page.files.iter().flat_map(|file| file.lines.iter().map(move |line| (file, line)));
    lines
        .map(|(file, line)| {
            let mark = if line.column.is_some() { ':' } else { '-' };
            format!("{}{mark}{}", file.path, line.number)
        })
        .collect()
}

#[track_caller]
fn check(place: &Place, query: &SearchQuery, expected: &[&str]) {
    assert_eq!(places(&run(place, "", query).unwrap()), expected, "{query:?}");
}

fn code() -> Place {
    let place = Place::new();
    place.write("a.rs", "fn main() {\n    Call();\n}\n");
    place.write("b/c.py", "def call():\n    return recall\n");
    place.write("b/d.txt", "one\ntwo\nthree\nfour CALL\nfive\nsix\nseven call\n");
    place.write("b.bin", b"call\0call\n");
    place.write("x.log", "call\n");
    place.write(".gitignore", "*.log\n");
    place
}

#[test]
fn patterns_texts_cases_and_words() {
    let place = code();
    check(&place, &usual("call"), &["b/c.py:1", "b/c.py:2", "b/d.txt:7"]);
    let query = SearchQuery { case: Case::Insensitive, ..usual("call") };
    check(&place, &query, &["a.rs:2", "b/c.py:1", "b/c.py:2", "b/d.txt:4", "b/d.txt:7"]);
    let smart = SearchQuery { case: Case::Smart, ..usual("Call") };
    check(&place, &smart, &["a.rs:2"]);
    let word = SearchQuery { word: true, ..usual("call") };
    check(&place, &word, &["b/c.py:1", "b/d.txt:7"]);
    check(&place, &SearchQuery { literal: true, ..usual("main()") }, &["a.rs:1"]);
    check(&place, &usual(r"^\w+ \w+$"), &["b/d.txt:4", "b/d.txt:7"]);
    let inverted = SearchQuery { invert: true, globs: vec!["d.txt".into()], ..usual("e|C") };
    check(&place, &inverted, &["b/d.txt:2", "b/d.txt:6"]);
    let what = |query: SearchQuery| match run(&place, "", &query) {
        Err(FileError::BadPattern { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(what(usual("(")), Pattern::Search);
    assert_eq!(what(SearchQuery { globs: vec!["[".into()], ..usual("x") }), Pattern::Glob);
    assert_eq!(what(SearchQuery { types: vec!["nosuch".into()], ..usual("x") }), Pattern::Type);
    assert!(matches!(run(&place, "", &usual("(")), Err(FileError::BadPattern { .. })));
    assert!(matches!(
        run(&place, "", &usual("(x{1000}){1000}")),
        Err(FileError::BadPattern { .. })
    ));
}

#[test]
fn files_are_chosen_by_globs_and_types_and_rules() {
    let place = code();
    let globs = |globs: &[&str]| SearchQuery {
        globs: globs.iter().map(|glob| (*glob).to_owned()).collect(),
        ..usual("call")
    };
    check(&place, &globs(&["*.py"]), &["b/c.py:1", "b/c.py:2"]);
    check(&place, &globs(&["!*.py"]), &["b/d.txt:7"]);
    let types = |types: &[&str]| SearchQuery {
        types: types.iter().map(|name| (*name).to_owned()).collect(),
        ..usual("(?i)call")
    };
    check(&place, &types(&["rust"]), &["a.rs:2"]);
    check(&place, &types(&["!py", "!txt"]), &["a.rs:2"]);
    assert!(run(&place, "", &types(&["nonsense"])).is_err());
    let all =
        SearchQuery { leave_out: SkipRules { no_ignore: true, hidden: false }, ..usual("call") };
    check(&place, &all, &["b/c.py:1", "b/c.py:2", "b/d.txt:7", "x.log:1"]);
    let one = run(&place, "b/d.txt", &usual("call")).unwrap();
    assert_eq!(places(&one), ["b/d.txt:7"]);
    assert!(run(&place, "none", &usual("call")).is_err());
}

#[test]
fn lines_near_a_match_come_with_it() {
    let place = code();
    let query = SearchQuery { before: 1, after: 2, ..usual("two|call$") };
    let page = run(&place, "b/d.txt", &query).unwrap();
    assert_eq!(
        places(&page),
        ["b/d.txt-1", "b/d.txt:2", "b/d.txt-3", "b/d.txt-4", "b/d.txt-6", "b/d.txt:7"]
    );
    let found = &page.files[0].lines[5];
    assert_eq!((found.text.as_str(), found.column), ("seven call", Some(7)));
}

#[test]
fn a_match_may_go_over_lines() {
    let place = code();
    let query = SearchQuery { multiline: true, ..usual(r"two\nthree") };
    let page = run(&place, "", &query).unwrap();
    assert_eq!(places(&page), ["b/d.txt:2", "b/d.txt:3"]);
    assert_eq!(page.files[0].matches, 1);
}

#[test]
fn a_match_of_very_many_lines_is_cut_and_what_comes_after_it_is_found() {
    let place = Place::new();
    let long = "line\n".repeat(50_000);
    place.write("long", format!("begin\n{long}end\nlast\n\nmore\nlast\n"));
    let query = SearchQuery { multiline: true, ..usual(r"(?s)begin.*end\n|more\nlast") };
    let page = run(&place, "", &query).unwrap();
    let lines = &page.files[0].lines;
    assert_eq!((page.files[0].matches, lines.len()), (2, 202));
    let cut: Vec<(u64, u64)> = lines.iter().map(|line| (line.number, line.further)).collect();
    assert_eq!(cut[198..], [(199, 0), (200, 49_802), (50_005, 0), (50_006, 0)]);
    let first = SearchQuery { most: 1, after: 1, ..query };
    let page = run(&place, "", &first).unwrap();
    assert_eq!((page.files[0].matches, page.files[0].lines.len()), (1, 201));
    assert_eq!(places(&page)[199..], ["long:200", "long-50003"], "what comes after it");
    let rest = run(&place, "", &SearchQuery { cursor: page.cursor, ..first }).unwrap();
    assert_eq!(places(&rest), ["long:50005", "long:50006"]);
    assert_eq!(rest.cursor, None);
}

/// The searcher reports them as one piece.
#[test]
fn matches_in_lines_that_follow_each_other_are_matches_of_their_own() {
    let place = Place::new();
    place.write("f", "hit hit\nhit\nmiss\nhit a\nb hit a\nb\nhit\n");
    let query = |pattern: &str| SearchQuery { multiline: true, ..usual(pattern) };
    let told = |query: &SearchQuery| {
        let page = run(&place, "", query).unwrap();
        let lines = page.files[0].lines.iter();
        let lines = lines.map(|line| (line.number, line.column.unwrap(), line.begins)).collect();
        (page.files[0].matches, lines)
    };
    let count = |query: SearchQuery| {
        run(&place, "", &SearchQuery { want: ResultKind::Counts, ..query }).unwrap().files[0]
            .matches
    };
    let lines = vec![(1, 1, true), (2, 1, true), (4, 1, true), (5, 3, true), (7, 1, true)];
    assert_eq!(told(&query("hit")), (5, lines.clone()));
    assert_eq!(told(&usual("hit")), (5, lines), "and so they are without it");
    assert_eq!((count(query("hit")), count(usual("hit"))), (5, 5));
    let over =
        [(1, 1, true), (2, 1, true), (4, 1, true), (5, 1, false), (6, 1, true), (7, 1, true)];
    assert_eq!(told(&query(r"hit( a\nb)?")), (5, over.to_vec()));
    assert_eq!(count(query(r"hit( a\nb)?")), 5);
    for (pattern, numbers) in
        [(r"a|\b", (1..=7).collect::<Vec<u64>>()), (r"\n\b", (1..=6).collect())]
    {
        let found: Vec<(u64, u64, bool)> = told(&query(pattern)).1;
        assert_eq!(found.iter().map(|it| it.0).collect::<Vec<_>>(), numbers, "{pattern}");
    }
}

#[test]
fn matches_that_share_lines_are_all_told() {
    let place = Place::new();
    let lines: String = (1..=300).map(|line| format!("    let v{line} = {line};\n")).collect();
    place.write("f", lines);
    let query = SearchQuery { multiline: true, ..usual(r";\n\s*let") };
    let whole = run(&place, "", &query).unwrap();
    assert_eq!((whole.files[0].matches, whole.files[0].lines.len()), (299, 300));
    assert!(whole.cursor.is_none() && whole.files[0].lines.iter().all(|line| line.further == 0));
    let counts = SearchQuery { want: ResultKind::Counts, ..query.clone() };
    assert_eq!(run(&place, "", &counts).unwrap().files[0].matches, 299);
    let pages = pages(&place, &SearchQuery { most: 100, ..query });
    let told: Vec<u64> = pages.iter().map(|page| page.files[0].matches).collect();
    assert_eq!(told, [100, 100, 99]);
    assert_eq!(pages.iter().flat_map(places).collect::<Vec<_>>(), places(&whole));
}

#[test]
fn a_page_has_room_for_so_much_and_no_more() {
    let place = Place::new();
    let line = format!("hit {}\n", "x".repeat(60 << 10));
    for (name, lines) in [("a", 50), ("b", 30), ("c/d", 1), ("c/e", 60)] {
        place.write(name, line.repeat(lines));
    }
    let query = SearchQuery { max_line: 64 << 10, ..usual("hit") };
    let pages = pages(&place, &query);
    for page in &pages {
        let lines = page.files.iter().flat_map(|file| &file.lines);
        let bytes: usize = lines.map(|line| line.text.len()).sum();
        assert!(bytes < (4 << 20) + (64 << 10), "{bytes}");
    }
    let found: Vec<String> = pages.iter().flat_map(places).collect();
    assert_eq!((found.len(), pages.len()), (141, 3));
    assert!(found.iter().collect::<std::collections::HashSet<_>>().len() == 141, "each once");
}

#[test]
fn whole_matches_fit_into_a_small_page_and_each_comes_once() {
    let place = Place::new();
    for file in 0..7 {
        let lines: String = (0..60).map(|line| format!("hit or near {file} {line}\n")).collect();
        place.write(&format!("f{file}"), lines);
    }
    for (max_bytes, before, after) in [(1000, 2, 2), (3000, 20, 20), (500, 0, 0), (1, 3, 3)] {
        let query = SearchQuery { max_bytes, before, after, ..usual("hit.* [0-9]*[05]$") };
        let pages = pages(&place, &query);
        for page in &pages {
            let matches: u64 = page.files.iter().map(|file| file.matches).sum();
            assert!(matches == 1 || page.bytes <= max_bytes, "{} of {max_bytes}", page.bytes);
        }
        let found = pages.iter().flat_map(places).filter(|it| it.contains(':'));
        let found: Vec<String> = found.collect();
        let each: BTreeSet<&String> = found.iter().collect();
        assert_eq!((found.len(), each.len()), (7 * 12, 7 * 12), "{max_bytes} {before}");
    }
}

#[test]
fn a_page_that_is_full_of_lines_near_one_match_goes_on_with_the_next() {
    let place = Place::new();
    // Invalid UTF-8 takes three times as many bytes in the response.
    let near = [&[0xff; 300_000][..], b"\n"].concat().repeat(5);
    place.write("f", [[&near[..], b"hit\n"].concat().repeat(3), near].concat());
    for (before, after) in [(0, 5), (5, 0)] {
        for most in [1, 1000] {
            let query = SearchQuery { before, after, most, max_line: 1 << 20, ..usual("^hit") };
            let found: Vec<String> = pages(&place, &query).iter().flat_map(places).collect();
            let matches: Vec<&String> = found.iter().filter(|it| it.contains(':')).collect();
            assert_eq!(matches, ["f:6", "f:12", "f:18"], "{before} {after} {most}");
            assert_eq!(found.len(), 3 + 15, "{before} {after} {most}");
        }
    }
}

#[test]
fn counts_and_names_are_told_alone() {
    let place = code();
    let told = |want| {
        let page = run(&place, "", &SearchQuery { want, ..usual("call") }).unwrap();
        let told = page.files.iter().map(|file| format!("{} {}", file.path, file.matches));
        (told.collect::<Vec<_>>(), page.files.iter().all(|file| file.lines.is_empty()))
    };
    assert_eq!(told(ResultKind::Counts), (vec!["b/c.py 2".into(), "b/d.txt 1".into()], true));
    assert_eq!(told(ResultKind::Files), (vec!["b/c.py 1".into(), "b/d.txt 1".into()], true));
}

#[test]
fn long_lines_are_cut_around_the_match() {
    let place = Place::new();
    place.write("long", format!("{}needle{}\n", "ä".repeat(500), "ö".repeat(500)));
    let page = run(&place, "", &SearchQuery { max_line: 100, ..usual("needle") }).unwrap();
    let line = &page.files[0].lines[0];
    assert!(line.cut && line.text.len() <= 102 && line.text.contains("needle"), "{line:?}");
    assert_eq!(line.column, Some(1001));
    assert!(!line.text.contains('\u{fffd}'));
}

#[test]
fn pages_make_the_whole_in_the_order_of_names() {
    let place = Place::new();
    for file in 0..40 {
        let lines: String =
            (0..(file % 7)).map(|line| format!("near\nhit {line}\nnear\nfar\n")).collect();
        place.write(&format!("d{}/f{file:02}", file % 3), lines);
    }
    for (want, around) in [
        (ResultKind::Lines, 0),
        (ResultKind::Lines, 1),
        (ResultKind::Counts, 0),
        (ResultKind::Files, 0),
    ] {
        let query = SearchQuery { want, before: around, after: around, ..usual("^hit") };
        let all = run(&place, "", &query).unwrap();
        assert!(all.cursor.is_none() && all.files.len() > 20);
        let order: Vec<&str> = all.files.iter().map(|file| file.path.as_str()).collect();
        assert!(order.is_sorted());
        for most in [1, 2, 3, 7, 50] {
            let mut query = SearchQuery { most, ..query.clone() };
            let (mut lines, mut counts) = (Vec::new(), Vec::new());
            loop {
                let page = run(&place, "", &query).unwrap();
                let matches: u64 = match want {
                    ResultKind::Lines => page.files.iter().map(|file| file.matches).sum(),
                    ResultKind::Counts | ResultKind::Files => page.files.len() as u64,
                };
                assert!(matches <= most as u64);
                lines.extend(places(&page));
                counts.extend(page.files.into_iter().map(|file| (file.path, file.matches)));
                query.cursor = page.cursor;
                if query.cursor.is_none() {
                    break;
                }
            }
            assert_eq!(lines, places(&all), "{want:?} {most}");
            if want != ResultKind::Lines {
                let expected: Vec<_> =
                    all.files.iter().map(|file| (file.path.clone(), file.matches)).collect();
                assert_eq!(counts, expected, "{want:?} {most}");
            }
        }
    }
}

#[test]
fn links_and_pipes_are_not_read() {
    let place = Place::new();
    std::fs::write(place.path("outside/secret"), "call\n").unwrap();
    std::os::unix::fs::symlink(place.path("outside/secret"), place.path("app/link")).unwrap();
    std::os::unix::fs::symlink(place.path("outside"), place.path("app/folder")).unwrap();
    let kind = rustix::fs::FileType::Fifo;
    let (mode, path) = (rustix::fs::Mode::RUSR, place.path("app/pipe"));
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
    check(&place, &usual("call"), &[]);
    for path in ["link", "folder", "pipe"] {
        assert!(run(&place, path, &usual("call")).is_err(), "{path}");
    }
}

/// A pattern that reads to the end of the line before it knows that each of its matches is short.
fn slow() -> (Place, SearchQuery) {
    let place = Place::new();
    place.write("a", "A\n");
    place.write("b", format!("{}\n", "A".repeat(300_000)));
    (place, SearchQuery { multiline: true, ..usual(r"(?s).*[^A\n]|A") })
}

#[test]
fn who_stops_waiting_stops_a_pattern_that_is_slow() {
    let (place, query) = slow();
    let asked = AtomicUsize::new(0);
    let stop = || asked.fetch_add(1, Ordering::Relaxed) > 30;
    let stopped = search(&place.spot("b"), &query, &place.guarded, &stop);
    assert!(matches!(stopped, Err(FileError::Cancelled)), "{stopped:?}");
}

#[test]
fn a_pattern_that_is_too_slow_is_told_with_the_file() {
    let (place, query) = slow();
    let within = |query: &SearchQuery| {
        let slowest = std::time::Duration::from_millis(1);
        search_within(&place.spot(""), query, &place.guarded, &|| false, slowest)
    };
    let error = within(&query).unwrap_err().to_string();
    assert!(error.starts_with("the pattern is too slow for 'b'"), "{error}");
    // Line by line it is fast.
    let lines = within(&SearchQuery { multiline: false, ..usual(r".*[^A\n]|A") }).unwrap();
    assert_eq!(places(&lines), ["a:1", "b:1"]);
}

#[test]
fn who_stops_waiting_stops_the_search() {
    let place = Place::new();
    place.write("large", "x".repeat(1 << 20) + "\n" + &"y\n".repeat(1 << 20));
    let asked = AtomicUsize::new(0);
    let stop = || asked.fetch_add(1, Ordering::Relaxed) > 3;
    let spot = place.spot("");
    let stopped = search(&spot, &usual("z"), &place.guarded, &stop);
    assert!(matches!(stopped, Err(FileError::Cancelled)), "{stopped:?}");
    assert!(asked.load(Ordering::Relaxed) < 20, "it read on");
}

/// Lines of few kinds, so that matches are close together, share lines and span several; sometimes a match is
/// long enough to be cut.
fn content() -> impl Strategy<Value = String> {
    let kinds = vec!["", "a", "b", "c", "a b", "ba", "b c a"];
    let lines = prop::collection::vec(prop::sample::select(kinds), 0..14);
    let many = prop::option::weighted(0.2, 0..14usize);
    (lines, many, any::<bool>()).prop_map(|(lines, many, ends)| {
        let mut lines: Vec<String> = lines.into_iter().map(str::to_owned).collect();
        if let Some(at) = many {
            lines.insert(at.min(lines.len()), "-\n".repeat(210));
        }
        lines.join("\n") + if ends { "\n" } else { "" }
    })
}

fn query() -> impl Strategy<Value = SearchQuery> {
    let alone = ["a", "b$", "^c", "a b|c", r"\b", "^$"].map(|pattern| (pattern, false));
    let over =
        ["a", r"a\n\s*b", r"b\na|c", r"(?s)a.*?b", r"(?s)b.*?a|c", r"\b", r"\n\b", r"\na?|b"]
            .map(|pattern| (pattern, true));
    let pattern = prop::sample::select([&alone[..], &over[..]].concat());
    let (before, after, most) = (0..4usize, 0..4usize, 1..8usize);
    (pattern, before, after, most).prop_map(|((pattern, multiline), before, after, most)| {
        SearchQuery { multiline, before, after, most, ..usual(pattern) }
    })
}

/// Every line of a match, in response order.
fn matched(pages: &[SearchPage]) -> Vec<(&str, u64, bool, u64)> {
    let files = pages.iter().flat_map(|page| &page.files);
    let lines = files.flat_map(|file| file.lines.iter().map(move |line| (file, line)));
    lines
        .filter(|(_, line)| line.column.is_some())
        .map(|(file, line)| (file.path.as_str(), line.number, line.begins, line.further))
        .collect()
}

/// Every line, in a match or near one. The last lines of a page may be repeated on the next.
fn shown(pages: &[SearchPage]) -> BTreeSet<(&str, u64)> {
    let files = pages.iter().flat_map(|page| &page.files);
    files.flat_map(|file| file.lines.iter().map(|line| (file.path.as_str(), line.number))).collect()
}

fn count(pages: &[SearchPage]) -> u64 {
    pages.iter().flat_map(|page| &page.files).map(|file| file.matches).sum()
}

/// Fixed seeds, and a quarter of the usual number: each case is dozens of searches.
fn few_cases() -> ProptestConfig {
    let usual = ProptestConfig::default();
    let rng_seed = RngSeed::Fixed(0x5eed);
    ProptestConfig { cases: usual.cases / 4, failure_persistence: None, rng_seed, ..usual }
}

proptest! {
    #![proptest_config(few_cases())]

    #[test]
    fn pages_tell_each_match_once(files in prop::collection::vec(content(), 1..5), query in query()) {
        let place = Place::new();
        for (number, content) in files.iter().enumerate() {
            place.write(&format!("f{number}"), content);
        }
        let whole = pages(&place, &SearchQuery { most: 100_000, ..query.clone() });
        prop_assert_eq!(whole.len(), 1);
        let told = pages(&place, &query);
        prop_assert_eq!(matched(&told), matched(&whole));
        prop_assert_eq!(shown(&told), shown(&whole));
        prop_assert!(told.iter().all(|page| count(std::slice::from_ref(page)) <= query.most as u64));
        let counted = pages(&place, &SearchQuery { want: ResultKind::Counts, ..query });
        prop_assert_eq!([count(&told), count(&counted)], [count(&whole); 2]);
    }
}
