//! On the command line a response is complete, however many pages it has, and remarks are kept apart: a redirected response has
//! exactly the content.

use crate::files::{app, put};
use crate::git::git;
use proctor_testkit::Home;

/// More than one page of a diff, of a file, of matches.
const MANY: usize = 30_000;

fn long() -> String {
    (0..MANY).map(|number| format!("line {number} of many\n")).collect()
}

fn repository() -> Home {
    let home = app("");
    put(&home, "small", "one\n");
    git(&home, &["init", "-q", "-b", "main", "--template="]);
    git(&home, &["add", "-A"]);
    git(&home, &["commit", "-q", "-m", "First"]);
    home
}

/// Returns the response and the remarks.
#[track_caller]
fn apart(home: &Home, words: &[&str]) -> (String, String) {
    let output = home.command(words).current_dir(home.path().join("app")).output().unwrap();
    let [text, remarks] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    assert!(output.status.success(), "{words:?}: {remarks}");
    (text, remarks)
}

#[track_caller]
fn check(home: &Home, words: &[&str], text: &str, remarks: &str) {
    assert!(apart(home, words) == (text.to_owned(), remarks.to_owned()), "{words:?}");
    // Again, rendered here instead of at the daemon.
    let mut command = home.command(words);
    let command = command.current_dir(home.path().join("app")).env("TZ", "Europe/Berlin");
    let output = command.output().unwrap();
    assert!(output.stdout == text.as_bytes(), "{words:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), remarks, "{words:?}");
}

#[test]
fn what_comes_in_pages_is_written_as_one() {
    let home = repository();
    put(&home, "small", long());
    let diff = git(&home, &["diff"]) + "\n";
    assert!(diff.len() > 256 << 10);
    check(&home, &["git", "diff"], &diff, "");
    check(&home, &["file", "read", "small"], &long(), "");
    let found: String =
        (0..MANY).map(|number| format!("{}:line {number} of many\n", number + 1)).collect();
    let (text, remarks) = apart(&home, &["file", "search", "of many"]);
    let lines: String = text.split_inclusive('\n').filter(|line| *line != "small\n").collect();
    assert!(lines == found && remarks.is_empty(), "{remarks}");
    let (shown, _) = apart(&home, &["file", "search", "of many", "--most", "2"]);
    assert_eq!(shown, "small\n1:line 0 of many\n2:line 1 of many\n");
    git(&home, &["commit", "-qam", "Second"]);
    let (shown, _) = apart(&home, &["git", "show"]);
    assert!(shown.ends_with(&diff) && shown.matches("Second").count() == 1);
}

#[test]
fn who_asks_for_a_part_is_told_how_to_go_on_but_not_in_the_answer() {
    let home = repository();
    put(&home, "small", long());
    let part = ["file", "read", "small", "--max-bytes", "10000"];
    let (text, remarks) = apart(&home, &part);
    assert!(text.starts_with("line 0 of many\n") && text.len() <= 10_000, "{text}");
    let cursor = remarks.trim_end().strip_prefix("more follows: continue with --cursor ").unwrap();
    let (next, _) = apart(&home, &[&part[..], &["--cursor", cursor]].concat());
    assert!(long().starts_with(&(text + &next)));
    for commit in 0..25 {
        git(&home, &["commit", "-q", "--allow-empty", "-m", &format!("Commit {commit}")]);
    }
    let (_, remarks) = apart(&home, &["git", "log"]);
    assert!(remarks.starts_with("more follows: continue with --cursor "), "{remarks}");
}

#[test]
fn nothing_is_nothing() {
    let home = repository();
    check(&home, &["git", "diff"], "", "no changes\n");
    check(&home, &["file", "search", "not there"], "", "nothing\n");
    check(&home, &["file", "find", "*.none"], "", "nothing\n");
    check(&home, &["git", "tag"], "", "no tags\n");
    check(&home, &["-q", "git", "diff"], "", "");
}
