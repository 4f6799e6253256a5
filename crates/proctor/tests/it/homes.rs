//! Homes of every shape, and several at once.

use crate::support::{LIMIT, lines, pid, replace_keeper, service, services, wait_state};
use proctor_testkit::{Home, alive, finish, kill9, proctor, signal, wait_until};
use rustix::process::Signal;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Checks everything that depends on a path: socket, FIFOs, logs, records, cgroups, takeover, upgrade.
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

/// A user other than root without a named home; root switches to another user for this.
struct User {
    folder: Home,
    program: PathBuf,
}

impl User {
    const NOBODY: u32 = 65534;

    fn new() -> User {
        let folder = Home::new();
        let program = folder.path().join("proctor");
        // Copied by a separate program, so no child of another test has it open for writing when it is run.
        assert!(Command::new("cp").arg(proctor()).arg(&program).status().unwrap().success());
        fs::create_dir(folder.path().join("runtime")).unwrap();
        if Self::is_root() {
            for path in [folder.path(), &folder.path().join("runtime")] {
                chown(path, Some(Self::NOBODY), Some(Self::NOBODY)).unwrap();
            }
        }
        User { folder, program }
    }

    fn is_root() -> bool {
        fs::metadata("/proc/self").unwrap().uid() == 0
    }

    /// Runs with the user's runtime folder in the environment, as in a session, or without, as an MCP client does.
    fn run(&self, in_session: bool, words: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command
            .args(words)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.folder.path());
        command.envs(["SUPERVISOR_PORT", "PROCTOR_HTTP_PORT"].map(|port| (port, "off")));
        if in_session {
            command.env("XDG_RUNTIME_DIR", self.folder.path().join("runtime"));
        }
        if Self::is_root() {
            command.uid(Self::NOBODY).gid(Self::NOBODY);
        }
        finish(command.current_dir(self.folder.path()), LIMIT)
    }

    #[track_caller]
    fn ok(&self, in_session: bool, words: &[&str]) -> String {
        let output = self.run(in_session, words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn number(&self, in_session: bool, words: &[&str], pointer: &str) -> u32 {
        let words: Vec<&str> = ["--json"].iter().chain(words).copied().collect();
        let answer: serde_json::Value = serde_json::from_str(&self.ok(in_session, &words)).unwrap();
        answer.pointer(pointer).and_then(|n| n.as_u64()).unwrap_or_else(|| panic!("{answer:#}"))
            as u32
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.run(true, &["down"]);
    }
}

#[test]
fn a_user_has_one_proctor_whatever_the_environment_says() {
    for first in [true, false] {
        let user = User::new();
        user.ok(first, &["start", "--name", "web", "--command", "sleep 1000"]);
        let keeper = |in_session| user.number(in_session, &["daemon", "status"], "/keeper/pid");
        let web = |in_session| user.number(in_session, &["status", "web"], "/services/0/pid");
        let before = (keeper(first), web(first));
        assert_eq!((keeper(!first), web(!first)), before);

        // Both die; the next command finds their services, wherever it would have looked by itself.
        let daemon = user.number(first, &["daemon", "status"], "/daemon/pid");
        signal(before.0, Signal::STOP);
        kill9(daemon);
        kill9(before.0);
        wait_until("both are gone", LIMIT, || !alive(before.0) && !alive(daemon));
        user.ok(!first, &["daemon", "start"]);
        assert_eq!((web(first), web(!first)), (before.1, before.1));
        assert_eq!(keeper(first), keeper(!first));
        user.ok(!first, &["down"]);
        assert!(!alive(before.1));
    }
}
