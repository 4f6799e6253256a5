//! A home that a binary of version 1 left behind, with services that live: today's binary takes it over.
//!
//! The files in `tests/fixtures/home_v1` are as that binary wrote them. The test substitutes only what is true of one machine
//! and one moment: the home's path, the boot, and the identities of the processes.

use crate::support::{LIMIT, lines, status, wait_state};
use proctor_core::name::RunId;
use proctor_core::record_encoding::IDENTITY_SIZE;
use proctor_sys::process::Process;
use proctor_testkit::{Home, alive, victim, wait_until};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The home in which the files were written.
const RECORDED_HOME: &str = "/tmp/oldhome";

/// The services that ran, with their runs.
const RUNNING: [(&str, &str); 2] = [("web", "660891297e1f9"), ("worker", "66089129809d1")];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/home_v1").join(name)
}

fn copy(home: &Home, name: &str) {
    let to = home.path().join(name);
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::copy(fixture(name), to).unwrap();
}

/// Everything but the processes.
fn recorded_home() -> Home {
    let home = Home::new();
    copy(&home, "proctor.yaml");
    copy(&home, "run/env/6fa7f4750e849586");
    for name in ["web", "worker", "idle"] {
        copy(&home, &format!("run/services/{name}/spec"));
        copy(&home, &format!("run/services/{name}/state"));
    }
    std::fs::write(home.path().join("run/boot"), proctor_sys::boot_id::id().0).unwrap();
    let stored = std::fs::read_to_string(fixture("services.json")).unwrap();
    let stored = stored.replace(RECORDED_HOME, home.path().to_str().unwrap());
    // As for an edit by hand; the audit that it speaks of is not here.
    let mut stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
    for key in ["sealed", "checksum", "audit"] {
        stored.as_object_mut().unwrap().remove(key);
    }
    home.write("services.json", &stored.to_string());
    home
}

/// FNV-1a, by which version 1 made the short name of a home.
fn label(home: &Home) -> String {
    let bytes = home.path().to_str().unwrap().bytes();
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// A service as the keeper of version 1 made it: a session of its own, output into FIFOs that it holds open read-write, a mark
/// in its environment, its identity at the end of its state file. It is nobody's child that could wait for it.
fn start(home: &Home, name: &str, run: &str) -> u32 {
    let folder = home.path().join("run/services").join(name);
    let script = r#"
        set -e; cd "$1"; umask 077; mkfifo "$2.out" "$2.err"; shift 2
        setsid "$@" </dev/null 1<>"$RUN.out" 2<>"$RUN.err" & echo $!
    "#;
    let made = Command::new("sh")
        .args(["-c", script, "sh"])
        .args([folder.as_os_str(), run.as_ref(), victim().as_os_str()])
        .args(["--lines", "100000000", "--every", "2"])
        .env("RUN", run)
        .env("PROCTOR_HOME", home.path())
        .env("PROCTOR_SERVICE", name)
        .env("PROCTOR_RUN", format!("{}-{name}-{run}", label(home)))
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let pid = String::from_utf8(made.stdout).unwrap().trim().parse().unwrap();
    let run = RunId(u64::from_str_radix(run, 16).unwrap());
    let identity = Process::open(pid).unwrap().identity(run).unwrap().encode();
    let state = folder.join("state");
    let mut bytes = std::fs::read(&state).unwrap();
    let at = bytes.len() - IDENTITY_SIZE;
    bytes[at..].copy_from_slice(&identity);
    std::fs::write(state, bytes).unwrap();
    pid
}

#[test]
fn living_services_of_version_1_are_taken_over_and_lose_no_line() {
    let home = recorded_home();
    let pids = RUNNING.map(|(name, run)| start(&home, name, run));
    home.ok(["daemon", "start"]);
    for ((name, run), pid) in RUNNING.iter().zip(pids) {
        let now = wait_state(&home, name, "running");
        assert_eq!((&now["pid"], &now["run"]), (&pid.into(), &(*run).into()), "{now:#}");
        assert_eq!((&now["restarts"], &now["wish"]), (&0.into(), &"up".into()), "{now:#}");
    }
    let idle = status(&home, "idle");
    assert_eq!((&idle["state"], &idle["wish"]), (&"stopped".into(), &"down".into()), "{idle:#}");
    assert_eq!(idle["last_exit"]["signal"], 15, "{idle:#}");
    // Found by the files, not by what is left when a file cannot be read.
    let said = home.own_log();
    assert!(!said.contains("lost") && !said.contains("version"), "{said}");
    for (name, _) in RUNNING {
        wait_until("some lines", LIMIT, || lines(&home, name, &[]).len() > 100);
        for (line, number) in lines(&home, name, &[]).iter().zip(1..) {
            assert_eq!(line, &format!("line {number}"), "{name}");
        }
    }
    home.ok(["down"]);
    wait_until("both are gone", LIMIT, || !pids.into_iter().any(alive));
}
