//! A stop leaves no descendant, however hostile the tree, with and without cgroups.

use crate::support::{LIMIT, pid, replace_keeper, services, shell, status, web};
use proctor_testkit::{Home, alive, descendants_alive, kill9, recorded, signal, wait_until};
use rustix::process::Signal;
use std::path::PathBuf;

/// Starts the victim with these arguments, waits for `family` processes, and stops it: none may live.
fn check(args: &[&str], family: usize, without_cgroups: bool) {
    let home = Home::new();
    let pids = home.path().join("pids");
    let pids_text = pids.display().to_string();
    let mut all = vec!["--pid-file", &pids_text];
    all.extend(args);
    home.write("proctor.yaml", &web(&all, "stop: { grace: 300 }"));
    let mut command = home.command(["up", "-d"]);
    if without_cgroups {
        command.env("PROCTOR_NO_CGROUPS", "1");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    if without_cgroups {
        assert_eq!(home.json(["daemon", "status"])["tracking"], "processes");
    }
    wait_until(&format!("{family} processes of {args:?}"), LIMIT, || {
        recorded(&pids).len() >= family
    });
    home.ok(["stop", "web"]);
    let left = descendants_alive(&pids);
    assert!(left.is_empty(), "{args:?} left {left:?}");
}

#[test]
fn a_tree_that_ignores_term_is_killed() {
    for without in [false, true] {
        check(&["--ignore-term", "--fork", "3"], 4, without);
    }
}

#[test]
fn a_grandchild_that_double_forked_is_found() {
    for without in [false, true] {
        check(&["--double-fork", "--ignore-term"], 2, without);
    }
}

#[test]
fn a_child_that_left_the_session_is_found() {
    for without in [false, true] {
        check(&["--setsid", "--ignore-term"], 2, without);
    }
}

#[test]
fn a_tree_that_is_stopped_by_a_signal_is_ended() {
    for without in [false, true] {
        check(&["--fork", "2", "--stop-self"], 3, without);
    }
}

#[test]
fn a_fork_storm_is_ended() {
    for without in [false, true] {
        check(&["--fork-storm", "--ignore-term"], 20, without);
    }
}

#[test]
fn an_orphan_with_an_empty_environment_is_found() {
    for without in [false, true] {
        check(&["--double-fork", "--ignore-term", "--clear-env"], 2, without);
        check(&["--double-fork", "--ignore-term", "--clear-env", "--fork-storm"], 22, without);
    }
}

/// Returns a group of the v2 hierarchy that was killed once while it was empty; `None` if that is not permitted.
fn killed_group(name: &str) -> Option<std::path::PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    let mount = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let place = fields.next()?;
        (fields.next()? == "cgroup2").then_some(place)
    })?;
    let group = std::path::Path::new(mount).join(name);
    std::fs::create_dir(&group).ok()?;
    std::fs::write(group.join("cgroup.kill"), "1").ok()?;
    Some(group)
}

#[test]
fn services_live_although_the_group_of_their_keeper_was_killed_before_it_came() {
    let home = Home::new();
    home.write("proctor.yaml", &web(&[], "restart_policy: never"));
    let name = home.path().file_name().unwrap().to_str().unwrap();
    let Some(group) = killed_group(name) else { return };
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec {} --home {} up -d",
        group.display(),
        proctor_testkit::proctor().display(),
        home.path().display()
    );
    let up = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(home.path())
        .output()
        .unwrap();
    let state = crate::support::status(&home, "web")["state"].clone();
    home.ok(["down"]);
    wait_until("the group is empty", LIMIT, || std::fs::remove_dir(&group).is_ok());
    assert_eq!(state, "running", "{}", String::from_utf8_lossy(&up.stderr));
}

#[test]
fn a_tree_that_does_all_of_this_at_once_is_ended() {
    let tricks =
        ["--ignore-term", "--fork", "3", "--setsid", "--double-fork", "--hold-fd", "--fork-storm"];
    for without in [false, true] {
        check(&tricks, 29, without);
        check(&[&tricks[..], &["--stop-self"]].concat(), 9, without);
    }
}

/// Ways of a process to escape a single method of detection. `$1` is a cgroup of its own.
const ESCAPES: [(&str, &str); 8] = [
    ("in the session", "exec /bin/sh -c"),
    ("in the session, without an environment", "exec env -i /bin/sh -c"),
    ("in another cgroup", "echo $$ > $1/cgroup.procs; exec /bin/sh -c"),
    (
        "in another cgroup, without an environment",
        "echo $$ > $1/cgroup.procs; exec env -i /bin/sh -c",
    ),
    ("in another cgroup and session", "echo $$ > $1/cgroup.procs; exec setsid /bin/sh -c"),
    ("orphaned, in another session, without an environment", "exec env -i setsid -f /bin/sh -c"),
    (
        "in another cgroup and session, without an environment",
        "echo $$ > $1/cgroup.procs; exec env -i setsid /bin/sh -c",
    ),
    (
        "orphaned, in another cgroup and session, without an environment",
        "echo $$ > $1/cgroup.procs; exec env -i setsid -f /bin/sh -c",
    ),
];

/// Returns a home whose `web` has a child that ignores TERM and escapes like this, and the child's pid.
fn with_escapee(escape: &str, group: &std::path::Path, cgroups: bool) -> (Home, u32) {
    let home = Home::new();
    let (pids, inner) = (home.path().join("escapee"), home.path().join("inner"));
    let stay = format!("trap '' TERM; echo $$ > {}; while :; do sleep 1; done\n", pids.display());
    home.write("inner", &stay);
    let outer = home.path().join("outer");
    let script = format!("/bin/sh {} {} & sleep 1000", outer.display(), group.display());
    home.write("outer", &format!("{escape} '. {}'\n", inner.display()));
    let keys = "restart_policy: never\nstop: { grace: 200 }";
    home.write("proctor.yaml", &services(&[shell("web", &script, keys)]));
    let mut command = home.command(["up", "-d"]);
    if !cgroups {
        command.env("PROCTOR_NO_CGROUPS", "1");
    }
    assert!(command.output().unwrap().status.success());
    let escapee = || std::fs::read_to_string(&pids).ok()?.trim().parse().ok();
    let escapee = proctor_testkit::wait_for("the escapee", LIMIT, escapee);
    (home, escapee)
}

/// An empty group of the v2 hierarchy; removed with its last process.
pub(crate) struct OtherGroup(pub(crate) PathBuf);

impl OtherGroup {
    pub(crate) fn make(name: &str) -> Option<OtherGroup> {
        killed_group(name).map(|group| {
            // Some kernels do not allow entering a killed group again, so it is a fresh one.
            std::fs::remove_dir(&group).unwrap();
            std::fs::create_dir(&group).unwrap();
            OtherGroup(group)
        })
    }
}

impl Drop for OtherGroup {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("cgroup.kill"), "1");
        wait_until("the group is empty", LIMIT, || std::fs::remove_dir(&self.0).is_ok());
    }
}

#[test]
fn stop_leaves_nobody_who_left_cgroup_session_parents_and_environment() {
    let name = format!("p-escape-{}", std::process::id());
    let Some(group) = OtherGroup::make(&name) else { return };
    for (how, escape) in ESCAPES {
        for (cgroups, taken_over) in [(true, false), (true, true), (false, false), (false, true)] {
            let (home, escapee) = with_escapee(escape, &group.0, cgroups);
            if taken_over {
                replace_keeper(&home);
            }
            home.ok(["stop", "web"]);
            assert_eq!(status(&home, "web")["state"], "stopped");
            let case = format!("{how}, cgroups {cgroups}, taken over {taken_over}");
            assert!(!alive(escapee), "{case}\n{}", home.own_log());
        }
    }
}

#[test]
fn what_is_left_of_a_run_whose_main_process_ended_while_no_keeper_lived_is_ended() {
    for cgroups in [true, false] {
        let (_, escape) = ESCAPES[1];
        let (home, escapee) = with_escapee(escape, std::path::Path::new("/"), cgroups);
        let (keeper, daemon, web) = (home.keeper_pid(), home.daemon_pid(), pid(&home, "web"));
        signal(daemon, Signal::STOP);
        kill9(keeper);
        kill9(web);
        kill9(daemon);
        wait_until("a keeper", LIMIT, || home.living_keeper().is_some_and(|now| now != keeper));
        home.ok(["stop", "web"]);
        assert!(!alive(escapee), "cgroups {cgroups}\n{}", home.own_log());
    }
}
