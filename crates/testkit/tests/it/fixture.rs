//! The fixture for the real binary: its waits, its commands, and a sweep that ends its own
//! processes and no others.

use crate::support::LIMIT;
use proctor_testkit::{
    Home, alive, children, descendants_alive, finish, free_port, recorded, running, signal, victim,
    wait_for, wait_until, with_variable,
};
use rustix::process::Signal;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn waiting_ends_when_the_condition_holds() {
    let mut looks = 0;
    wait_until("the third look", LIMIT, || {
        looks += 1;
        looks == 3
    });
    assert_eq!(looks, 3);
    assert_eq!(wait_for("a value", LIMIT, || Some(7)), 7);
}

#[test]
fn waiting_in_vain_names_what_was_waited_for() {
    let begin = Instant::now();
    let limit = Duration::from_millis(30);
    let panic = std::panic::catch_unwind(|| wait_until("godot", limit, || false)).unwrap_err();
    assert_eq!(panic.downcast_ref::<String>().unwrap(), "waited 30ms in vain for godot");
    assert!(begin.elapsed() >= limit);
}

#[test]
fn a_command_that_does_not_finish_is_ended_and_reported() {
    for (args, millis, why) in [
        (vec![], 300, "it is still running"),
        // Long enough for the victim to end on a busy machine.
        (vec!["--hold-fd", "--exit", "0"], 2000, "keeps its stdout open"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let pids = folder.path().join("pids");
        let mut command = Command::new(victim());
        command.arg("--pid-file").arg(&pids).args(&args).stdin(Stdio::null());
        let limit = Duration::from_millis(millis);
        let run = std::panic::AssertUnwindSafe(|| finish(&mut command, limit));
        let panic = std::panic::catch_unwind(run).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(
            message.contains(&format!("did not finish within {limit:?}")) && message.contains(why),
            "{message}"
        );
        descendants_alive(&pids).into_iter().for_each(|one| proctor_testkit::kill9(one.pid));
        wait_until("everyone to end", LIMIT, || descendants_alive(&pids).is_empty());
    }
}

#[test]
fn a_free_port_can_be_listened_on() {
    let (one, other) = (free_port(), free_port());
    assert_ne!(one, other);
    TcpListener::bind(("127.0.0.1", one)).unwrap();
}

#[test]
fn a_zombie_is_not_alive() {
    let mut child = Command::new(victim()).args(["--exit", "0"]).spawn().unwrap();
    wait_until("the child to be a zombie", LIMIT, || !alive(child.id()));
    assert!(Path::new(&format!("/proc/{}", child.id())).exists(), "not reaped yet");
    child.wait().unwrap();
    assert!(!alive(child.id()));
    assert!(alive(std::process::id()));
}

#[test]
fn processes_are_found_by_their_words_variables_and_parents() {
    let folder = tempfile::tempdir().unwrap();
    let (pids, mark) = (folder.path().join("pids"), folder.path().display().to_string());
    let mut child = bystander(&pids, ("MARK", &mark), &[]);
    let (word, entry) = (pids.display().to_string(), format!("MARK={mark}"));
    assert_eq!(running(&["--pid-file", &word]), [child.id()]);
    assert_eq!(running(&["--pid-file", &mark]), [0; 0], "part of a word is another word");
    assert_eq!(with_variable(&entry), [child.id()]);
    assert!(children(std::process::id()).contains(&child.id()));
    signal(child.id(), Signal::TERM);
    child.wait().unwrap();
    assert_eq!((running(&[&word]), with_variable(&entry)), (vec![], vec![]));
}

#[test]
fn a_home_is_a_folder_of_its_own_with_a_short_path() {
    let (one, other) = (Home::new(), Home::new());
    assert_ne!(one.path(), other.path());
    assert!(one.path().as_os_str().len() < 40, "{}", one.path().display());
    let file = one.write("conf/proctor.yaml", "a: 1\n");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "a: 1\n");
    let path = one.path().to_path_buf();
    drop(one);
    assert!(!path.exists() && other.path().exists());
}

/// A victim with its pid file in `pids` and this variable in its environment; lives until killed.
fn bystander(pids: &Path, variable: (&str, &str), args: &[&str]) -> Child {
    let mut command = Command::new(victim());
    command.arg("--pid-file").arg(pids).args(args).env(variable.0, variable.1);
    let child = command.stdin(Stdio::null()).spawn().unwrap();
    // main and one for each flag
    wait_until("the victims", LIMIT, || recorded(pids).len() > args.len());
    child
}

#[test]
fn dropping_a_home_ends_what_belongs_to_it_and_nothing_else() {
    let (home, outside) = (Home::new(), tempfile::tempdir().unwrap());
    let path = home.path().to_str().unwrap().to_owned();
    let inside = home.path().join("pids");
    let [marked, stranger] = ["marked", "stranger"].map(|name| outside.path().join(name));
    // A service: recognised by its environment alone.
    let mut service = bystander(&marked, ("PROCTOR_HOME", &path), &[]);
    // Victims of a service without an environment: recognised by program and command line.
    let mut escaped = bystander(&inside, ("OTHER", "1"), &["--setsid"]);
    // Another home whose path only starts like this one.
    let mut other = bystander(&stranger, ("PROCTOR_HOME", &format!("{path}x")), &[]);
    let pids: Vec<u32> = recorded(&inside).iter().map(|one| one.pid).collect();
    drop(home);
    assert!(!alive(service.id()) && pids.iter().all(|&pid| !alive(pid)), "its own have ended");
    assert!(alive(other.id()), "the other has not");
    other.kill().unwrap();
    for child in [&mut service, &mut escaped, &mut other] {
        child.wait().unwrap();
    }
}
