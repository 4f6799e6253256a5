//! Configurations, env files, homes, tokens and stored services that another user can change are refused, with the reason and the
//! remedy; so is a Proctor of another user.

use crate::support::LIMIT;
use proctor_testkit::{Home, finish, proctor, wait_until};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

/// A user id that nobody has.
const STRANGER: u32 = 54_321;

const CONFIG: &str =
    "supervisor:\n  services:\n    web: { shell: true, command: 'touch ran; exec sleep 1000' }\n";

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A world-writable folder, like /tmp, below which root works.
fn public(home: &Home) -> std::path::PathBuf {
    let public = home.path().join("public");
    std::fs::create_dir_all(public.join("deep/er")).unwrap();
    mode(home.path(), 0o755);
    mode(&public, 0o1777);
    public
}

fn up_in(home: &Home, folder: &Path, environment: &[(&str, &str)]) -> Output {
    let mut command = home.command(["up", "-d"]);
    finish(command.current_dir(folder).envs(environment.iter().copied()), LIMIT)
}

/// From a folder without a configuration, so only stored services start.
#[track_caller]
fn start(home: &Home) {
    let output = finish(home.command(["daemon", "start"]).current_dir("/"), LIMIT);
    assert!(output.status.success(), "{output:?}");
}

#[track_caller]
fn refused(output: &Output, reasons: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it was run: {output:?}");
    for reason in reasons {
        assert!(text.contains(reason), "no '{reason}' in: {text}");
    }
}

#[test]
fn a_strangers_configuration_above_is_refused_until_its_folder_is_trusted() {
    if !is_root() {
        return;
    }
    let home = Home::new();
    let public = public(&home);
    let file = public.join("proctor.yaml");
    std::fs::write(&file, CONFIG).unwrap();
    chown(&file, Some(STRANGER), Some(STRANGER)).unwrap();
    let deep = public.join("deep/er");
    let shown = public.canonicalize().unwrap().display().to_string();
    let remedy = format!("proctor trust {shown}");
    refused(&up_in(&home, &deep, &[]), &["proctor.yaml belongs to user 54321", &remedy]);
    assert!(!public.join("ran").exists());

    // A link to a file of ours sets where relative paths start, so its owner counts.
    let ours = home.write("ours/proctor.yaml", CONFIG);
    std::fs::remove_file(&file).unwrap();
    symlink(&ours, &file).unwrap();
    lchown(&file, Some(STRANGER), Some(STRANGER)).unwrap();
    refused(&up_in(&home, &deep, &[]), &["proctor.yaml belongs to user 54321"]);

    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, CONFIG).unwrap();
    chown(&file, Some(STRANGER), Some(STRANGER)).unwrap();
    assert_eq!(home.ok(["trust", &shown]), format!("{shown}\n"));
    let output = up_in(&home, &deep, &[]);
    assert!(output.status.success(), "{output:?}");
    home.ok(["trust", "--remove", &shown]);
    assert_eq!(home.ok(["trust"]), "");
    refused(&up_in(&home, &deep, &[]), &["belongs to user 54321"]);
    assert_eq!(home.fail(["trust", "--remove", &shown]).0, 3);
}

#[test]
fn files_that_others_can_write_are_refused_and_those_of_sudos_caller_are_not() {
    if !is_root() {
        return;
    }
    let home = Home::new();
    let public = public(&home);
    let folder = public.join("deep");
    let file = home.write("public/deep/proctor.yaml", CONFIG);
    let dotenv = home.write("public/deep/.env", "A=1\n");
    let check = |reason: &str| refused(&up_in(&home, &folder, &[]), &[reason, "proctor trust"]);
    mode(&file, 0o666);
    check("proctor.yaml can be written by everybody (mode 0666)");
    mode(&file, 0o644);
    mode(&folder, 0o777);
    check("deep can be written by everybody (mode 0777)");
    mode(&folder, 0o775);
    chown(&folder, None, Some(STRANGER)).unwrap();
    check("deep can be written by group 54321 (mode 0775)");
    mode(&folder, 0o755);
    mode(&dotenv, 0o602);
    check(".env can be written by everybody");
    mode(&dotenv, 0o600);
    let env_file = home.write("public/deep/more.env", "B=1\n");
    std::fs::write(&file, CONFIG.replace("shell:", "env_file: more.env, shell:")).unwrap();
    chown(&env_file, Some(STRANGER), None).unwrap();
    check("more.env belongs to user 54321");
    chown(&env_file, Some(0), None).unwrap();
    // Root's own group has no other members, so a umask of 002 is fine.
    mode(&file, 0o664);
    let output = up_in(&home, &folder, &[]);
    assert!(output.status.success(), "{output:?}");
    home.ok(["down"]);

    let other = Home::new();
    let file = other.write("project/proctor.yaml", CONFIG);
    mode(other.path(), 0o755);
    let project = file.parent().unwrap();
    chown(&file, Some(STRANGER), Some(STRANGER)).unwrap();
    chown(project, Some(STRANGER), Some(STRANGER)).unwrap();
    mode(&file, 0o664);
    let output = up_in(&other, project, &[("SUDO_UID", "54321")]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_home_of_somebody_else_is_not_used() {
    if !is_root() {
        return;
    }
    let scene = Home::new();
    let planted = scene.path().join("home");
    std::fs::create_dir(&planted).unwrap();
    chown(&planted, Some(STRANGER), None).unwrap();
    let mut command = Command::new(proctor());
    command.arg("--home").arg(&planted).args(["daemon", "start"]).current_dir("/");
    refused(
        &finish(&mut command, LIMIT),
        &["home belongs to user 54321", "--home", "PROCTOR_TRUST="],
    );
    assert_eq!(std::fs::read_dir(&planted).unwrap().count(), 0);
}

#[test]
fn tokens_that_others_can_write_let_nobody_in() {
    let home = Home::new();
    home.write("proctor.yaml", CONFIG);
    home.ok(["up", "-d"]);
    home.ok(["daemon", "stop"]);
    mode(&home.path().join("tokens.json"), 0o666);
    home.ok(["daemon", "start"]);
    let status = home.json(["daemon", "status"]).to_string();
    assert!(status.contains("can be written by everybody (mode 0666)"), "{status}");
}

#[test]
fn stored_services_that_others_can_change_are_not_started() {
    if !is_root() {
        return;
    }
    let theirs: fn(&Path) = |file| chown(file, Some(STRANGER), None).unwrap();
    let everybodys: fn(&Path) = |file| mode(file, 0o666);
    for (change, reason) in [(theirs, "belongs to user 54321"), (everybodys, "(mode 0666)")] {
        let home = Home::new();
        home.write("proctor.yaml", CONFIG);
        home.ok(["up", "-d"]);
        home.ok(["daemon", "stop"]);
        let ran = home.path().join("ran");
        std::fs::remove_file(&ran).unwrap();
        let file = home.path().join("services.json");
        let text = std::fs::read(&file).unwrap();
        change(&file);
        start(&home);
        let problems = home.json(["daemon", "status"])["problems"].to_string();
        for part in ["services.json", reason, "chown 0", "it was moved to"] {
            assert!(problems.contains(part), "no '{part}' in {problems}");
        }
        assert_eq!(home.json(["list"])["services"], serde_json::json!([]));
        assert!(!ran.exists(), "what a stranger may have written was run");

        // As the message says: it is ours again, and counts.
        home.ok(["daemon", "stop"]);
        std::fs::write(&file, text).unwrap();
        chown(&file, Some(0), None).unwrap();
        mode(&file, 0o600);
        start(&home);
        wait_until("it runs again", LIMIT, || ran.exists());
    }
}

#[test]
fn a_list_of_trusted_folders_that_others_can_change_trusts_nothing() {
    if !is_root() {
        return;
    }
    let home = Home::new();
    let public = public(&home);
    let file = public.join("proctor.yaml");
    std::fs::write(&file, CONFIG).unwrap();
    chown(&file, Some(STRANGER), None).unwrap();
    let shown = public.canonicalize().unwrap().display().to_string();
    home.ok(["trust", &shown]);
    let list = home.path().join("trusted");
    for (owner, bits) in [(STRANGER, 0o600), (0, 0o666)] {
        chown(&list, Some(owner), None).unwrap();
        mode(&list, bits);
        refused(&up_in(&home, &public, &[]), &["proctor.yaml belongs to user 54321"]);
        assert!(home.own_log().contains("ignoring the list of trusted folders"));
        // Nor is it made ours by a change.
        for words in [vec!["trust"], vec!["trust", "/"]] {
            refused(&home.run(words), &["trusted", "remove the file, and trust each folder again"]);
        }
    }
    mode(&list, 0o600);
    let output = up_in(&home, &public, &[]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_proctor_of_somebody_else_is_told_nothing() {
    const NOBODY: u32 = 65534;
    if !is_root() {
        return;
    }
    let home = Home::new();
    home.write("proctor.yaml", CONFIG);
    chown(home.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let theirs = |words: &[&str]| {
        let output = finish(home.command(words).current_dir("/").uid(NOBODY).gid(NOBODY), LIMIT);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    theirs(&["daemon", "start"]);
    for words in [&["up", "-d"][..], &["list"], &["--json", "status"], &["daemon", "stop"]] {
        let output = home.run(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        let said =
            String::from_utf8(output.stderr).unwrap() + &String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("belongs to user") && said.contains("65534"), "{words:?}: {said}");
        assert!(said.contains("run this as that user"), "{words:?}: {said}");
    }
    let listed: serde_json::Value = serde_json::from_str(&theirs(&["--json", "list"])).unwrap();
    assert_eq!(listed["services"], serde_json::json!([]));
    theirs(&["daemon", "stop"]);
}
