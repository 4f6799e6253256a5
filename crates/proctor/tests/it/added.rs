//! Services defined at run time: kept over every restart, and gone when they are removed.

use crate::support::{LIMIT, lines, pid, service, services, status, up, wait_state};
use crate::survival::kill_proctor;
use proctor_testkit::{Home, alive, finish, kill9, victim, wait_until};

fn names(home: &Home) -> Vec<String> {
    let list = home.json(["list"]);
    let all = list["services"].as_array().unwrap().iter();
    all.map(|service| service["name"].as_str().unwrap().to_owned()).collect()
}

/// Simulates a reboot: no process and no runtime directory.
fn reboot(home: &Home, services: &[&str]) {
    let pids: Vec<u32> = services.iter().map(|name| pid(home, name)).collect();
    kill_proctor(home);
    pids.iter().for_each(|pid| kill9(*pid));
    wait_until("all are gone", LIMIT, || !pids.iter().any(|pid| alive(*pid)));
    std::fs::remove_dir_all(home.path().join("run")).unwrap();
    home.ok(["daemon", "start"]);
}

#[test]
fn added_services_and_what_is_wished_of_them_survive_a_reboot() {
    let home = Home::new();
    std::fs::create_dir(home.path().join("here")).unwrap();
    let victim = victim().display().to_string();
    home.ok([
        "start",
        "--name",
        "wanted",
        "--env",
        "PORT=3000",
        "--env",
        "TEXT=two  words = $HOME",
        "--working-dir",
        "here",
        "--",
        &victim,
        "--print-env",
        "--print-cwd",
        "--line-prefix",
        "a  b ",
        "--lines",
        "1",
    ]);
    home.ok([
        "add",
        "unwanted",
        "--command",
        &victim,
        "--description",
        "kept, not started",
        "--autostart",
        "false",
    ]);
    home.ok([
        "add",
        "many",
        "--command",
        &victim,
        "--instances",
        "2",
        "--group",
        "crowd",
        "--start",
    ]);
    reboot(&home, &["wanted", "many@1", "many@2"]);
    for name in ["wanted", "many@1", "many@2"] {
        wait_state(&home, name, "running");
    }
    let unwanted = status(&home, "unwanted");
    assert_eq!(unwanted["state"], "stopped");
    assert_eq!(unwanted["description"], "kept, not started");
    let run = status(&home, "wanted")["run"].as_str().unwrap().to_owned();
    wait_until("the lines of its new run", LIMIT, || {
        lines(&home, "wanted", &[]).len() >= 2
            && lines(&home, "wanted", &[]).iter().filter(|line| **line == "a  b line 1").count()
                == 2
    });
    let seen = lines(&home, "wanted", &[]);
    for expected in [
        "env PORT=3000".to_owned(),
        "env TEXT=two  words = $HOME".to_owned(),
        format!("cwd {}", home.path().join("here").display()),
    ] {
        let times = seen.iter().filter(|line| **line == expected).count();
        assert_eq!(times, 2, "{expected} once in each run ({run}): {seen:?}");
    }
    home.ok(["stop", "crowd"]);
    assert_eq!(status(&home, "many@2")["state"], "stopped");
}

#[test]
fn a_removed_service_leaves_its_logs_until_they_are_purged() {
    let home = Home::new();
    let victim = victim().display().to_string();
    for name in ["kept", "purged"] {
        home.ok(["add", name, "--start", "--", &victim, "--lines", "3"]);
        wait_until("its lines", LIMIT, || lines(&home, name, &[]).len() == 3);
    }
    let (kept, purged) = (pid(&home, "kept"), pid(&home, "purged"));
    home.ok(["remove", "kept"]);
    let said = home.json(["remove", "purged", "--purge"]);
    assert_eq!((&said["purged"], &said["removed"][0]), (&true.into(), &"purged".into()));
    assert!(!alive(kept) && !alive(purged), "remove returns when they are stopped");
    assert!(names(&home).is_empty());
    assert_eq!(lines(&home, "kept", &[]).len(), 3, "logs of what is gone can be read");
    let (code, said) = home.fail(["logs", "purged"]);
    assert_eq!(code, 3, "{said}");
    assert!(!home.path().join("logs/purged").exists());
    // A new service with the name continues the logs, and nothing comes back by itself.
    home.ok(["add", "kept", "--start", "--", &victim, "--lines", "1"]);
    wait_until("one more line", LIMIT, || lines(&home, "kept", &[]).len() == 4);
    home.ok(["remove", "kept", "--purge"]);
    home.ok(["daemon", "stop"]);
    home.ok(["daemon", "start"]);
    assert!(names(&home).is_empty());
}

#[test]
fn a_name_that_is_taken_is_refused_unless_it_is_to_be_replaced() {
    let home = up(&services(&[service("filed", &[], "")]));
    let victim = victim().display().to_string();
    home.ok(["add", "web", "--start", "--", &victim, "--lines", "1"]);
    let before = pid(&home, "web");
    let (code, said) = home.fail(["add", "web", "--", &victim]);
    assert!(code == 8 && said.contains("--replace"), "{code} {said}");
    let (code, said) = home.fail(["start", "--name", "filed", "--", &victim]);
    assert!(code == 8 && said.contains("proctor.yaml"), "{code} {said}");
    let (code, said) = home.fail(["remove", "filed"]);
    assert!(code == 8 && said.contains("proctor up"), "{code} {said}");
    assert_eq!(
        (pid(&home, "web"), status(&home, "filed")["state"].as_str()),
        (before, Some("running"))
    );
    home.ok(["add", "web", "--replace", "--", &victim, "--lines", "2"]);
    home.ok(["restart", "web"]);
    wait_until("the new lines", LIMIT, || lines(&home, "web", &[]).len() == 3);
}

#[test]
fn a_configuration_leaves_added_services_alone() {
    let home = up(&services(&[service("filed", &[], "")]));
    let victim = victim().display().to_string();
    home.ok(["start", "--name", "added", "--", &victim]);
    let before = pid(&home, "added");
    home.write("proctor.yaml", &services(&[service("other", &[], "")]));
    home.ok(["up", "-d"]);
    wait_until("the file's own is replaced", LIMIT, || names(&home) == ["added", "other"]);
    assert_eq!(pid(&home, "added"), before);
    assert_eq!(status(&home, "added")["added"], true);
}

#[test]
fn a_job_that_runs_once_is_told_by_how_it_ended() {
    let home = up(&services(&[service("web", &[], "")]));
    let run = |name: &str, program: &[&str]| {
        let mut words = vec!["start", "--name", name, "--once", "--"];
        words.extend(program);
        home.run(words)
    };
    let good = run("good", &["/bin/true"]);
    let said = String::from_utf8_lossy(&good.stdout);
    assert!(good.status.success() && said.contains("ran and finished: exit code 0"), "{said}");
    let bad = run("bad", &["/bin/sh", "-c", "exit 3"]);
    let said =
        String::from_utf8_lossy(&bad.stdout).into_owned() + &String::from_utf8_lossy(&bad.stderr);
    assert_eq!(bad.status.code(), Some(4), "{said}");
    assert!(said.contains("crashed: exit code 3"), "{said}");
}

/// A home with `web` up, whose failpoints can be armed.
fn armed() -> Home {
    let home = Home::new();
    home.write("proctor.yaml", &services(&[service("web", &[], "")]));
    std::fs::create_dir(home.path().join("failpoints")).unwrap();
    let mut command = home.command(["up", "-d"]);
    command.env("PROCTOR_FAILPOINTS", home.path().join("failpoints"));
    assert!(finish(&mut command, LIMIT).status.success());
    home
}

#[test]
fn an_addition_that_the_keeper_cannot_take_leaves_nothing_and_everything_can_be_stopped() {
    let home = armed();
    let web = pid(&home, "web");
    home.write("failpoints/define.begin", "error 1");
    let (code, said) = home.fail(["add", "n", "--command", "/bin/true"]);
    assert!(code != 0 && said.contains("cannot store n"), "{said}");
    assert_eq!(names(&home), ["web"], "a failed addition leaves nothing");
    let (folder, aside) = (home.path().join("run/services"), home.path().join("run/aside"));
    std::fs::write(&aside, "in its place").unwrap();
    // In one step, because a missing folder is created again at once.
    let exchange = rustix::fs::RenameFlags::EXCHANGE;
    rustix::fs::renameat_with(rustix::fs::CWD, &aside, rustix::fs::CWD, &folder, exchange).unwrap();
    // The keeper may have mended its folder already; then there is nothing that it cannot take.
    home.run(["add", "m", "--command", "/bin/true"]);
    home.ok(["down"]);
    assert!(!alive(web));
}
