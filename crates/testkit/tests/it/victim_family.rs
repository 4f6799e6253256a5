//! The victim's descendants: which ones live, where, and what ends them.

use crate::support::{End, LIMIT, Victim, content, send, status_field};
use proctor_testkit::{alive, kill9, recorded, wait_until};
use rustix::process::Signal;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

/// Checks the live processes of a ready victim, and those still alive after TERM to each of them.
#[track_caller]
fn check(args: &[&str], living: &[&str], after_term: &[&str]) {
    let mut victim = Victim::start(args);
    assert_eq!(victim.living(), living, "{args:?}");
    for one in recorded(&victim.pid_file()) {
        if alive(one.pid) {
            send(one.pid, Signal::TERM);
        }
    }
    if !after_term.contains(&"main") {
        assert_eq!(victim.end(), End::Signal(15));
    }
    wait_until(&format!("{after_term:?} of {args:?}"), LIMIT, || victim.living() == after_term);
}

#[test]
fn descendants_live_until_they_are_killed() {
    check(&[], &["main"], &[]);
    check(&["--fork", "2"], &["child", "child", "main"], &[]);
    check(&["--setsid"], &["main", "session"], &[]);
    check(&["--double-fork"], &["daemon", "main"], &[]);
    check(&["--hold-fd"], &["holder", "main"], &[]);
    check(
        &["--fork", "1", "--setsid", "--double-fork"],
        &["child", "daemon", "main", "session"],
        &[],
    );
}

#[test]
fn descendants_of_a_victim_that_ignores_term_ignore_it_too() {
    let everyone = ["child", "daemon", "holder", "main", "session"];
    check(
        &["--ignore-term", "--fork", "1", "--setsid", "--double-fork", "--hold-fd"],
        &everyone,
        &everyone,
    );
}

/// Checks a descendant's relation to main: same session, same group, child of main.
#[track_caller]
fn check_place(flag: &[&str], role: &str, place: [bool; 3]) {
    let victim = Victim::start(flag);
    let (main, other) = (victim.child.id(), victim.pid_of(role));
    let same =
        |field: &str| status_field(main, field).unwrap() == status_field(other, field).unwrap();
    let (same_session, same_group) = (same("NSsid"), same("NSpgid"));
    let is_child = status_field(other, "PPid").unwrap() == main.to_string();
    assert_eq!([same_session, same_group, is_child], place, "{flag:?}");
}

#[test]
fn descendants_are_where_their_flag_puts_them() {
    check_place(&["--fork", "1"], "child", [true, true, true]);
    check_place(&["--setsid"], "session", [false, false, true]);
    check_place(&["--double-fork"], "daemon", [false, false, false]);
    check_place(&["--hold-fd"], "holder", [true, true, false]);
}

#[track_caller]
fn check_environment(args: &[&str], role: &str, inherited: bool) {
    let victim = Victim::start(args);
    let environment = content(format!("/proc/{}/environ", victim.pid_of(role)).as_ref());
    assert_eq!(environment.contains("MARK=inherited"), inherited, "{args:?}");
    assert_eq!(environment.is_empty(), !inherited, "{args:?}: {environment}");
}

#[test]
fn clear_env_takes_the_environment_of_those_who_escape() {
    check_environment(&["--setsid"], "session", true);
    check_environment(&["--double-fork"], "daemon", true);
    check_environment(&["--clear-env", "--setsid"], "session", false);
    check_environment(&["--clear-env", "--double-fork"], "daemon", false);
    check_environment(&["--clear-env", "--fork", "1"], "child", true);
    check_environment(&["--clear-env", "--hold-fd"], "holder", true);
}

/// Checks whether the stdout of main stays open after main has ended.
#[track_caller]
fn check_open(flag: &str, role: &str, open: bool) {
    let mut victim = Victim::start_with(&[flag, "--lines", "1", "--exit", "0"], Stdio::piped());
    let mut stdout = BufReader::new(victim.child.stdout.take().unwrap());
    assert_eq!(victim.end(), End::Code(0));
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "line 1\n");
    let held = std::fs::read_link(format!("/proc/{}/fd/1", victim.pid_of(role))).unwrap();
    assert_eq!(held.to_str().unwrap().starts_with("pipe:"), open, "{flag}: {}", held.display());
    kill9(victim.pid_of(role));
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "nothing more, and an end, when nobody holds it");
}

#[test]
fn only_the_holder_keeps_stdout_open_after_main_has_ended() {
    check_open("--hold-fd", "holder", true);
    check_open("--double-fork", "daemon", false);
}

#[test]
fn the_pid_file_names_those_who_have_passed_by() {
    let victim = Victim::start(&["--double-fork", "--hold-fd"]);
    let mut roles: Vec<String> =
        recorded(&victim.pid_file()).into_iter().map(|one| one.role).collect();
    roles.sort();
    assert_eq!(roles, ["daemon", "holder", "holder-middle", "main", "middle"]);
    assert!(!alive(victim.pid_of("middle")) && !alive(victim.pid_of("holder-middle")));
}

#[test]
fn a_fork_storm_goes_on_making_children_and_dies_with_main() {
    let mut victim = Victim::start(&["--fork-storm"]);
    wait_until("a hundred children", LIMIT, || recorded_briefs(&victim) >= 100);
    kill9(victim.child.id());
    assert_eq!(victim.end(), End::Signal(9));
    wait_until("the last children to end", LIMIT, || victim.living().is_empty());
    assert!(recorded_briefs(&victim) < 2000);
}

/// Counted as text: a line may be half written during the storm.
fn recorded_briefs(victim: &Victim) -> usize {
    content(&victim.pid_file()).matches("brief ").count()
}
