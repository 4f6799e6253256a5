//! Listing, and that pages together are the whole.

use super::super::ignore_rules::SkipRules;
use super::super::list::{ListQuery, Listing, list};
use super::Place;
use crate::files::{FileError, Kind};
use std::collections::BTreeSet;

fn tree() -> Place {
    let place = Place::new();
    for (path, content) in [
        ("README.md", "hello"),
        (".gitignore", "target/\n*.log\n!keep.log\n/only-top\n"),
        (".hidden/x", ""),
        ("only-top", ""),
        ("a.log", ""),
        ("keep.log", ""),
        ("src/main.rs", ""),
        ("src/only-top", ""),
        ("src/b.log", ""),
        ("src/deep/.ignore", "secret.*\n"),
        ("src/deep/secret.rs", ""),
        ("src/deep/lib.rs", ""),
        ("target/debug/x", ""),
        (".git/config", ""),
        (".git/info/exclude", "mine\n"),
        ("mine", ""),
        ("src.txt", ""),
    ] {
        place.write(path, content);
    }
    place
}

fn names(listing: &Listing) -> Vec<&str> {
    listing.entries.iter().map(|entry| entry.path.as_str()).collect()
}

fn look(place: &Place, path: &str, query: ListQuery) -> Result<Listing, FileError> {
    let most = if query.most == 0 { 1000 } else { query.most };
    let query = ListQuery { most, ..query };
    list(&place.spot(path), &query, &place.guarded, &|| false)
}

#[test]
fn rules_hold_where_they_stand_and_below() {
    let place = tree();
    let all = look(&place, "", ListQuery::default()).unwrap();
    assert_eq!(
        names(&all),
        [
            "README.md",
            "keep.log",
            "src",
            "src/deep",
            "src/deep/lib.rs",
            "src/main.rs",
            "src/only-top",
            "src.txt"
        ]
    );
    let shallow = look(&place, "", ListQuery { depth: Some(1), ..ListQuery::default() }).unwrap();
    assert_eq!(names(&shallow), ["README.md", "keep.log", "src", "src.txt"]);
    let below = look(&place, "src", ListQuery::default()).unwrap();
    assert_eq!(names(&below), ["src/deep", "src/deep/lib.rs", "src/main.rs", "src/only-top"]);
    let deep = look(&place, "src/deep", ListQuery::default()).unwrap();
    assert_eq!(names(&deep), ["src/deep/lib.rs"]);
}

#[test]
fn rules_and_dots_can_be_overlooked_and_proctors_own_cannot() {
    let place = tree();
    let seen = |no_ignore, hidden| -> BTreeSet<String> {
        let leave_out = SkipRules { no_ignore, hidden };
        let query = ListQuery { leave_out, ..ListQuery::default() };
        look(&place, "", query).unwrap().entries.into_iter().map(|entry| entry.path).collect()
    };
    let ignored = seen(true, false);
    assert!(ignored.contains("target/debug/x") && ignored.contains("mine"));
    assert!(!ignored.contains(".hidden"));
    let hidden = seen(false, true);
    assert!(hidden.contains(".hidden/x") && hidden.contains(".gitignore"));
    assert!(!hidden.contains(".git"), "{hidden:?}");
    let all = seen(true, true);
    assert!(all.contains(".git/config"));
    assert!(!all.iter().any(|path| path.starts_with(".state")), "{all:?}");
}

/// The files that git tracks or would add, including those in repositories inside this one.
fn known_to_git(folder: &std::path::Path) -> BTreeSet<String> {
    let git = std::process::Command::new("git")
        .args(["ls-files", "-coz", "--exclude-standard"])
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .output()
        .unwrap();
    assert!(git.status.success(), "{git:?}");
    let names = String::from_utf8(git.stdout).unwrap();
    let named = names.split('\0').filter(|name| !name.is_empty());
    let below = |name: &str| match name.strip_suffix('/') {
        Some(inner) => {
            let inside = known_to_git(&folder.join(inner));
            inside.into_iter().map(|file| format!("{inner}/{file}")).collect()
        }
        None => vec![name.to_owned()],
    };
    named.flat_map(below).collect()
}

#[test]
fn what_is_left_out_is_what_git_leaves_out() {
    let place = Place::new();
    for repository in ["", "nest", "a/nest"] {
        let folder = place.path("app").join(repository);
        std::fs::create_dir_all(&folder).unwrap();
        let made = std::process::Command::new("git").arg("init").arg("-q").arg(&folder).status();
        assert!(made.unwrap().success());
    }
    let outer =
        "*.log\n!keep.log\nbuild/\n/only\n**/deep/*.o\nfoo\\ \ntrail   \n\\#h\n[ab].c\nx/y\n";
    for (path, content) in [
        (".gitignore", outer),
        ("a/.gitignore", "sub-ignored\n!1.log\n"),
        ("c/.gitignore", "\u{feff}marked\r\nends\r\n"),
        ("nest/.gitignore", "inner\n"),
        (".git/info/exclude", "mine\n"),
        ("a/nest/.git/info/exclude", "theirs\n"),
    ] {
        place.write(path, content);
    }
    let files = "a/1.log a/keep.log a/mine a/sub-ignored a/theirs build/x only c/only c/deep/1.o c/deep/1.c \
        a.c c/b.c d.c trail #h x/y c/x/y café.log c/marked c/ends nest/1.log nest/build/f nest/inner \
        nest/mine a/nest/only a/nest/theirs a/nest/sub-ignored a/b/ok";
    files.split_whitespace().chain(["foo "]).for_each(|path| place.write(path, ""));
    let leave_out = SkipRules { no_ignore: false, hidden: true };
    let query = ListQuery { leave_out, kind: Some(Kind::File), ..ListQuery::default() };
    let all = look(&place, "", query).unwrap();
    let ours: BTreeSet<String> = all.entries.into_iter().map(|entry| entry.path).collect();
    let gits = known_to_git(&place.path("app"));
    assert!(gits.contains("nest/1.log") && !gits.contains("c/marked"), "{gits:?}");
    assert_eq!(ours, gits);
}

/// ripgrep behaves the same.
#[test]
fn every_ignore_file_counts_more_than_every_file_of_gits() {
    let place = Place::new();
    for (path, content) in [
        (".ignore", "!*.rs\n*.md\n"),
        (".gitignore", "*.rs\n!*.md\n"),
        ("d/.gitignore", "*.rs\n!*.md\n"),
        ("d/e/.ignore", "!kept.md\n"),
        ("d/e/f.rs", ""),
        ("d/e/g.md", ""),
        ("d/e/kept.md", ""),
        ("d/nest/.git", "gitdir: elsewhere\n"),
        ("d/nest/g.md", ""),
        ("d/nest/f.rs", ""),
    ] {
        place.write(path, content);
    }
    let query = ListQuery { kind: Some(Kind::File), ..ListQuery::default() };
    let all = look(&place, "", query).unwrap();
    assert_eq!(names(&all), ["d/e/f.rs", "d/e/kept.md", "d/nest/f.rs"]);
}

#[test]
fn pages_make_the_whole_list() {
    let place = tree();
    let leave_out = SkipRules { no_ignore: true, hidden: true };
    let all = look(&place, "", ListQuery { leave_out, ..ListQuery::default() }).unwrap();
    for most in 1..6 {
        let mut query = ListQuery { leave_out, most, ..ListQuery::default() };
        let mut paged = Vec::new();
        loop {
            let page = look(&place, "", query.clone()).unwrap();
            assert!(page.entries.len() <= most);
            paged.extend(page.entries);
            query.cursor = page.cursor;
            if query.cursor.is_none() {
                break;
            }
        }
        assert_eq!(paged, all.entries, "{most}");
    }
    assert!(
        look(&place, "", ListQuery { cursor: Some("xyz".into()), ..ListQuery::default() }).is_err()
    );
}

#[test]
fn a_cursor_is_good_for_something_that_is_gone() {
    let place = tree();
    let query = ListQuery { most: 5, ..ListQuery::default() };
    let first = look(&place, "", query.clone()).unwrap();
    assert_eq!(names(&first).last(), Some(&"src/deep/lib.rs"));
    std::fs::remove_dir_all(place.path("app/src/deep")).unwrap();
    let rest = look(&place, "", ListQuery { cursor: first.cursor, ..query }).unwrap();
    assert_eq!(names(&rest), ["src/main.rs", "src/only-top", "src.txt"]);
}

#[test]
fn names_are_found_by_patterns() {
    let place = tree();
    let find = |patterns: &[&str], any_case| {
        let patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        let query = ListQuery { patterns, any_case, ..ListQuery::default() };
        look(&place, "", query)
            .map(|listing| names(&listing).join(" "))
            .map_err(|error| error.to_string())
    };
    assert_eq!(find(&["*.rs"], false).unwrap(), "src/deep/lib.rs src/main.rs");
    assert_eq!(find(&["src/*.rs"], false).unwrap(), "src/main.rs");
    assert_eq!(find(&["**/deep/**"], false).unwrap(), "src/deep/lib.rs");
    assert_eq!(find(&["readme*"], false).unwrap(), "");
    assert_eq!(find(&["readme*", "*.{log,txt}"], true).unwrap(), "README.md keep.log src.txt");
    assert!(find(&["[a"], false).unwrap_err().contains("invalid glob"));
    let query = ListQuery { kind: Some(Kind::Folder), ..ListQuery::default() };
    assert_eq!(names(&look(&place, "", query).unwrap()), ["src", "src/deep"]);
}

#[test]
fn links_are_named_and_never_entered() {
    let place = Place::new();
    std::fs::write(place.path("outside/secret"), "").unwrap();
    std::os::unix::fs::symlink(place.path("outside"), place.path("app/out")).unwrap();
    std::os::unix::fs::symlink(".", place.path("app/here")).unwrap();
    let all = look(&place, "", ListQuery::default()).unwrap();
    let kinds: Vec<_> = all.entries.iter().map(|e| (e.path.as_str(), e.kind)).collect();
    assert_eq!(kinds, [("here", Kind::Link), ("out", Kind::Link)]);
    assert!(look(&place, "out", ListQuery::default()).is_err());
}

#[test]
fn a_page_of_names_has_room_for_so_many_bytes_and_for_one_name() {
    let place = tree();
    let all = look(&place, "", ListQuery::default()).unwrap();
    for max_bytes in [1, 250, 1000] {
        let (mut told, mut cursor) = (Vec::new(), None);
        loop {
            let query = ListQuery { max_bytes: Some(max_bytes), cursor, ..ListQuery::default() };
            let page = look(&place, "", query).unwrap();
            assert!(page.entries.len() == 1 || page.bytes() <= max_bytes);
            told.extend(page.entries);
            cursor = page.cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(told, all.entries, "{max_bytes}");
    }
}

#[test]
fn a_file_is_no_folder_and_nothing_is_nothing() {
    let place = tree();
    assert!(look(&place, "README.md", ListQuery::default()).is_err());
    assert!(matches!(look(&place, "none", ListQuery::default()), Err(FileError::Missing { .. })));
    let cancelled = list(
        &place.spot(""),
        &ListQuery { most: 10, ..ListQuery::default() },
        &place.guarded,
        &|| true,
    );
    assert!(matches!(cancelled, Err(FileError::Cancelled)));
}

/// Nested folders with a file in each, created from the top, because the whole path is too long.
fn deep(place: &Place, name: &str, count: usize) {
    let mut folders = vec![proctor_sys::beneath::Folder::open(&place.path("app")).unwrap()];
    for _ in 0..count {
        let above = folders.last().unwrap();
        for (name, folder) in [("f", false), (name, true)] {
            let there = above.place(std::ffi::OsStr::new(name)).unwrap();
            match folder {
                true => there.make_folder(0o755).unwrap(),
                false => drop(there.create(0o644).unwrap()),
            }
        }
        let below = above.child(std::ffi::OsStr::new(name)).unwrap();
        folders.push(below);
    }
}

#[test]
fn what_is_deeper_than_any_path_is_counted_and_the_rest_is_there() {
    let place = Place::new();
    deep(&place, "d", 300);
    let all = look(&place, "", ListQuery::default()).unwrap();
    assert_eq!((all.entries.len(), all.unreadable), (512, 1), "256 of each");
    let below = look(&place, "d/d", ListQuery::default()).unwrap();
    assert_eq!((below.entries.len(), below.unreadable), (508, 1));
    let asked = look(&place, "", ListQuery { depth: Some(256), ..ListQuery::default() }).unwrap();
    assert_eq!((asked.entries.len(), asked.unreadable), (512, 0), "no more was asked for");
}

#[test]
fn what_has_a_longer_path_than_there_can_be_is_counted_and_the_rest_is_there() {
    let place = Place::new();
    deep(&place, &"d".repeat(250), 20);
    let all = look(&place, "", ListQuery::default()).unwrap();
    // 16 names of 250 characters, and a file in each folder above and in the last.
    assert_eq!((all.entries.len(), all.unreadable), (33, 1));
}
