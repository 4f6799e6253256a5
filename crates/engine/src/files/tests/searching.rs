//! What is found, in which order, and where it goes on.

use super::super::rules::LeaveOut;
use super::super::search::{Case, SearchPage, SearchQuery, Want, search};
use super::Place;
use crate::files::FileError;
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
        leave_out: LeaveOut::default(),
        want: Want::Lines,
        most: 1000,
        max_line: 200,
        cursor: None,
    }
}

fn run(place: &Place, path: &str, query: &SearchQuery) -> Result<SearchPage, FileError> {
    search(&place.roots, &place.spot(path), query, &place.guarded, &|| false)
}

/// As `path:line` for matches and `path-line` for what is near.
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
    assert!(matches!(run(&place, "", &usual("(")), Err(FileError::BadPattern(_))));
    assert!(matches!(run(&place, "", &usual("(x{1000}){1000}")), Err(FileError::BadPattern(_))));
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
        SearchQuery { leave_out: LeaveOut { no_ignore: true, hidden: false }, ..usual("call") };
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
fn counts_and_names_are_told_alone() {
    let place = code();
    let told = |want| {
        let page = run(&place, "", &SearchQuery { want, ..usual("call") }).unwrap();
        let told = page.files.iter().map(|file| format!("{} {}", file.path, file.matches));
        (told.collect::<Vec<_>>(), page.files.iter().all(|file| file.lines.is_empty()))
    };
    assert_eq!(told(Want::Counts), (vec!["b/c.py 2".into(), "b/d.txt 1".into()], true));
    assert_eq!(told(Want::Files), (vec!["b/c.py 1".into(), "b/d.txt 1".into()], true));
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
    for (want, around) in [(Want::Lines, 0), (Want::Lines, 1), (Want::Counts, 0), (Want::Files, 0)]
    {
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
                    Want::Lines => page.files.iter().map(|file| file.matches).sum(),
                    Want::Counts | Want::Files => page.files.len() as u64,
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
            if want != Want::Lines {
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

#[test]
fn who_stops_waiting_stops_the_search() {
    let place = Place::new();
    place.write("large", "x".repeat(1 << 20) + "\n" + &"y\n".repeat(1 << 20));
    let asked = AtomicUsize::new(0);
    let stop = || asked.fetch_add(1, Ordering::Relaxed) > 3;
    let spot = place.spot("");
    let stopped = search(&place.roots, &spot, &usual("z"), &place.guarded, &stop);
    assert!(matches!(stopped, Err(FileError::Cancelled)), "{stopped:?}");
    assert!(asked.load(Ordering::Relaxed) < 20, "it read on");
}
