//! Pids are reused: a process with the old pid of a service is never signalled.

use crate::earlier_bugs::{Stranger, stranger};
use crate::support::{LIMIT, pid, replace_keeper, service, services, status, up, wait_state, web};
use crate::survival::kill_proctor;
use proctor_testkit::{Home, alive, kill9, recorded, signal, wait_until};
use rustix::process::Signal;
use std::path::Path;
use std::process::{Command, Stdio};

fn wait_reaped(pid: u32) {
    wait_until("it is reaped", LIMIT, || !Path::new(&format!("/proc/{pid}")).exists());
}

/// Does everything that a person can do to a service, then stops everything.
fn do_everything_to(home: &Home, name: &str) {
    home.run(["signal", name, "KILL"]);
    home.run(["signal", name, "TERM", "--tree"]);
    home.ok(["restart", name]);
    home.ok(["stop", name]);
    home.ok(["start", name]);
    home.ok(["down"]);
}

#[test]
fn a_stranger_with_the_number_of_an_adopted_service_is_left_alone() {
    let home = up(&web(&[], "restart_policy: never"));
    replace_keeper(&home);
    let (keeper, number) = (home.keeper_pid(), pid(&home, "web"));
    // The keeper must not learn of the death before there is a stranger and a stop is requested.
    signal(keeper, Signal::STOP);
    let mut stop = home.command(["stop", "web"]);
    let mut stop = stop.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    kill9(number);
    wait_reaped(number);
    let stranger = stranger(number);
    signal(keeper, Signal::CONT);
    wait_until("the stop is over", LIMIT, || stop.try_wait().unwrap().is_some());
    do_everything_to(&home, "web");
    // If pids cannot be chosen, at least nothing failed.
    assert!(stranger.is_none_or(|stranger| alive(stranger.0.id())), "it was none of Proctor's");
}

#[test]
fn a_stranger_with_the_number_of_a_service_of_which_something_is_left_is_left_alone() {
    for without_cgroups in [true, false] {
        let home = Home::new();
        let pids = home.path().join("pids");
        let args = ["--pid-file", &pids.display().to_string(), "--double-fork", "--ignore-term"];
        home.write("proctor.yaml", &web(&args, "restart_policy: never\nstop: { grace: 1s }"));
        let mut up = home.command(["up", "-d"]);
        if without_cgroups {
            up.env("PROCTOR_NO_CGROUPS", "1");
        }
        assert!(up.output().unwrap().status.success());
        wait_until("the family", LIMIT, || recorded(&pids).iter().any(|one| one.role == "daemon"));
        let left = recorded(&pids).into_iter().find(|one| one.role == "daemon").unwrap().pid;
        let number = pid(&home, "web");
        kill9(number);
        wait_reaped(number);
        let stranger = stranger(number);
        // Its remains are signalled as a tree, asked to stop, and killed.
        home.run(["signal", "web", "CONT", "--tree"]);
        wait_until("what was left is gone", LIMIT, || !alive(left));
        wait_state(&home, "web", "failed");
        home.ok(["down"]);
        assert!(stranger.is_none_or(|stranger| alive(stranger.0.id())), "it was none of Proctor's");
    }
}

/// The usual CRC-32.
fn checksum(bytes: &[u8]) -> u32 {
    let bit = |crc: u32| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| bit(crc));
    !bytes.iter().fold(!0, byte)
}

/// Forges a state whose last part, the identity, names this process. The layout is a promise.
fn forge(state: &Path, number: u32, change: fn(&mut [u8])) {
    let mut file = std::fs::read(state).unwrap();
    let identity = file.len() - 64;
    let bytes = &mut file[identity..];
    bytes[8..12].copy_from_slice(&number.to_le_bytes());
    change(bytes);
    let sum = checksum(&bytes[..60]);
    bytes[60..64].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(state, file).unwrap();
}

#[test]
fn a_living_stranger_that_a_record_names_is_left_alone() {
    let forgeries: [fn(&mut [u8]); 3] = [
        |_| {},
        // As from a kernel without process inodes: only the start time is known.
        |bytes| bytes[24..32].fill(0),
        // From another boot, with everything else unknown.
        |bytes| bytes[16..48].fill(0),
    ];
    let names = ["a", "b", "c"];
    let all = names.map(|name| service(name, &[], "restart_policy: never"));
    let home = up(&services(&all));
    let numbers = names.map(|name| pid(&home, name));
    kill_proctor(&home);
    let mut stranger = Stranger(Command::new("sleep").arg("1000").spawn().unwrap());
    for ((name, number), forgery) in names.iter().zip(numbers).zip(forgeries) {
        kill9(number);
        let state = home.path().join("run/services").join(name).join("state");
        forge(&state, stranger.0.id(), forgery);
    }
    home.ok(["daemon", "start"]);
    for name in names {
        let now = status(&home, name);
        assert_eq!((&now["state"], &now["pid"]), (&"failed".into(), &serde_json::Value::Null));
        home.fail(["signal", name, "KILL"]);
        home.ok(["stop", name]);
        home.ok(["start", name]);
    }
    home.ok(["down"]);
    assert!(stranger.0.try_wait().unwrap().is_none(), "it was none of Proctor's");
}
