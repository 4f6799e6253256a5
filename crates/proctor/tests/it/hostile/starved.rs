//! Too few descriptors, too little memory, requests that are too large: they fail with a reason, supervision
//! continues, and all is
//! fine once there is enough again.

use super::load::{Used, cpu_seconds};
use crate::support::{LIMIT, lines, pid, service, services, status, up, wait_state};
use proctor_testkit::{alive, kill9, wait_until};
use rustix::process::{Pid, Resource, Rlimit};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Instant;

/// A limit of a living process; dropping the value restores it.
struct Limited {
    pid: u32,
    resource: Resource,
    before: Rlimit,
}

impl Limited {
    fn set(pid: u32, resource: Resource, most: u64) -> Limited {
        let name = if resource == Resource::As { "Max address space" } else { "Max open files" };
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let hard =
            limits.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().nth(1));
        // Only the soft limit is changed, because raising the hard one needs privileges.
        let new = Rlimit { current: Some(most), maximum: hard.unwrap().parse().ok() };
        let before = rustix::process::prlimit(Pid::from_raw(pid as i32), resource, new).unwrap();
        Limited { pid, resource, before }
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let number = Pid::from_raw(self.pid as i32);
        // The process may have died.
        let _gone = rustix::process::prlimit(number, self.resource, self.before);
    }
}

/// Limits the descriptors to the current number.
fn no_more_descriptors(pid: u32) -> Limited {
    Limited::set(pid, Resource::Nofile, Used::by(pid).descriptors)
}

#[test]
fn a_keeper_without_descriptors_goes_on_and_starts_what_it_could_not_when_there_are_some() {
    let keys = "restart: { delay: 0 }\nmax_restarts: 1";
    let home = up(&services(&[
        service("talker", &["--lines", "100000000", "--every", "5"], ""),
        service("web", &[], keys),
    ]));
    let (keeper, talker, web) = (home.keeper_pid(), pid(&home, "talker"), pid(&home, "web"));
    let limited = no_more_descriptors(keeper);
    let began = (Instant::now(), cpu_seconds(keeper));
    kill9(web);
    wait_until("it is tried twice", LIMIT, || {
        status(&home, "web")["restarts"].as_u64().is_some_and(|restarts| restarts >= 3)
    });
    let now = wait_state(&home, "web", "backoff");
    assert!(now["last_exit"].to_string().contains("Too many open files"), "{now:#}");
    let output = home.run(["add", "more", "--start", "--", "sleep", "1000"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("Too many open files"), "{said}");
    let seen = lines(&home, "talker", &[]).len();
    wait_until("more lines", LIMIT, || lines(&home, "talker", &[]).len() > seen + 20);
    let (passed, used) = (began.0.elapsed().as_secs_f64(), cpu_seconds(keeper) - began.1);
    assert!(used < passed / 2.0, "{used} s of {passed} s: it does not spin");
    drop(limited);
    wait_state(&home, "web", "running");
    home.ok(["start", "more"]);
    assert_eq!((home.keeper_pid(), pid(&home, "talker")), (keeper, talker));
}

#[test]
fn a_daemon_without_descriptors_lets_clients_wait_and_serves_them_when_there_are_some() {
    let home = up(&services(&[service("web", &[], "")]));
    let (daemon, web) = (home.daemon_pid(), pid(&home, "web"));
    let limited = no_more_descriptors(daemon);
    let began = (Instant::now(), cpu_seconds(daemon));
    let ask =
        |_| home.command(["list"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut clients: Vec<_> = (0..20).map(ask).collect();
    wait_until("it cannot take them", LIMIT, || {
        home.own_log().matches("cannot accept a connection").count() > 10
    });
    assert!(clients.iter_mut().any(|client| client.try_wait().unwrap().is_none()));
    let (passed, used) = (began.0.elapsed().as_secs_f64(), cpu_seconds(daemon) - began.1);
    assert!(used < passed / 2.0, "{used} s of {passed} s: it does not spin");
    drop(limited);
    for client in clients {
        let output = client.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!((home.daemon_pid(), pid(&home, "web")), (daemon, web));
}

#[test]
fn a_daemon_without_memory_refuses_or_is_replaced_and_services_notice_nothing() {
    let home = up(&services(&[service("web", &["--lines", "60000"], "")]));
    wait_until("all lines", LIMIT, || home.ok(["logs", "web", "-n", "1"]) == "line 60000\n");
    let (keeper, daemon, web) = (home.keeper_pid(), home.daemon_pid(), pid(&home, "web"));
    // Its current memory, and almost nothing more.
    let limited = Limited::set(daemon, Resource::As, Used::by(daemon).virtual_bytes + (64 << 10));
    home.run(["--json", "logs", "web", "-n", "60000"]);
    home.run(["--json", "logs", "web", "-n", "60000", "--grep", "7"]);
    drop(limited);
    wait_until("it answers", LIMIT, || home.run(["list"]).status.success());
    assert_eq!((home.keeper_pid(), pid(&home, "web")), (keeper, web));
    assert!(alive(daemon) || home.own_log().contains("starting it again"), "{}", home.own_log());
    assert_eq!(lines(&home, "web", &["--grep", "^line 55555$"]), ["line 55555"]);
}

#[test]
fn a_request_that_never_ends_costs_no_memory() {
    let home = up(&services(&[service("web", &[], "")]));
    let daemon = home.daemon_pid();
    let before = Used::by(daemon).memory_peak;
    let mut socket = UnixStream::connect(home.path().join("run/proctor.sock")).unwrap();
    let block = vec![b'['; 1 << 20];
    let mut sent = 0;
    // It hangs up long before all of this has arrived.
    while sent < 256 && socket.write_all(&block).is_ok() {
        sent += 1;
    }
    let mut said = String::new();
    let _hung_up = socket.read_to_string(&mut said);
    assert!(sent < 256, "it took {sent} MiB");
    assert!(said.is_empty() || said.contains("the request is too large"), "{said}");
    let grown = Used::by(daemon).memory_peak.saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes");
    assert_eq!(home.daemon_pid(), daemon);
}
