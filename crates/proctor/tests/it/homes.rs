//! Homes of every shape, and more than one of them.

use crate::support::{LIMIT, lines, pid, replace_keeper, service, services, wait_state};
use proctor_testkit::{Home, alive, finish, proctor, wait_until};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

/// Everything that has to do with a path: socket, FIFOs, logs, records, cgroups, takeover, upgrade.
fn check(home: &Home) {
    let args = ["--print-env", "--lines", "1"];
    home.write("proctor.yaml", &services(&[service("web", &args, "")]));
    home.ok(["up", "-d"]);
    let before = pid(home, "web");
    let own = format!("env PROCTOR_HOME={}", home.path().display());
    wait_until("its lines", LIMIT, || lines(home, "web", &[]).contains(&"line 1".to_owned()));
    assert!(lines(home, "web", &[]).contains(&own));
    replace_keeper(home);
    home.ok(["daemon", "upgrade"]);
    assert_eq!(pid(home, "web"), before);
    home.ok(["restart", "web"]);
    let now = pid(home, "web");
    assert!(!alive(before) && alive(now));
    home.ok(["down"]);
    assert!(!alive(now));
}

#[test]
fn a_home_deeper_than_a_sockets_address_works() {
    let home = Home::named(&"deep-".repeat(40));
    assert!(home.path().as_os_str().len() > 108);
    check(&home);
}

#[test]
fn a_home_with_spaces_quotes_and_letters_of_the_world_works() {
    check(&Home::named("p two  words 'quoted\" $HOME äß 漢字 🦀 "));
}

#[test]
fn two_homes_do_not_see_each_other() {
    let homes = [Home::new(), Home::new()];
    for (home, line) in homes.iter().zip(["first ", "second "]) {
        let args = ["--lines", "1", "--line-prefix", line];
        home.write("proctor.yaml", &services(&[service("web", &args, "")]));
        home.ok(["up", "-d"]);
    }
    let [first, second] = &homes;
    let (one, other) = (pid(first, "web"), pid(second, "web"));
    assert_ne!(one, other);
    assert_ne!(first.keeper_pid(), second.keeper_pid());
    wait_until("its line", LIMIT, || lines(first, "web", &[]) == ["first line 1"]);
    wait_until("its line", LIMIT, || lines(second, "web", &[]) == ["second line 1"]);
    first.ok(["stop", "all"]);
    assert_eq!((alive(one), alive(other)), (false, true));
    first.ok(["down"]);
    assert_eq!(wait_state(second, "web", "running")["pid"], other);
}

#[test]
fn words_that_are_no_text_are_refused_and_no_other_home_is_made() {
    let home = Home::new();
    let odd = OsStr::from_bytes(b"odd \xff");
    let below = home.path().join(odd).into_os_string();
    let in_home = [OsString::from("--home"), below, "daemon".into(), "start".into()];
    for words in [&[odd.to_owned()][..], &in_home] {
        let mut command = Command::new(proctor());
        let output = finish(command.args(words).current_dir(home.path()), LIMIT);
        assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let made = std::fs::read_dir(home.path()).unwrap().count();
    assert_eq!(made, 0);
}
