//! Homes of every shape, and more than one of them.

use crate::support::{LIMIT, lines, pid, replace_keeper, service, services, wait_state};
use proctor_testkit::{Home, alive, wait_until};

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
