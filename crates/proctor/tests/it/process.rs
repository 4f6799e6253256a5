//! Properties of a service's process.

use crate::support::{LIMIT, lines, status, up, wait_state, web};
use proctor_testkit::{Home, wait_until};

#[test]
fn a_service_gets_its_folder_descriptors_limits_and_mask() {
    let home = Home::new();
    std::fs::create_dir(home.path().join("site")).unwrap();
    let keys = "working_dir: site\numask: '027'\nnice: 5\noom_score_adj: 300\nlimits: { nofile: '64:128', core: 0 }";
    home.write("proctor.yaml", &web(&["--print-cwd", "--print-fds", "--print-ids"], keys));
    home.ok(["up", "-d"]);
    wait_until("all output", LIMIT, || {
        lines(&home, "web", &[]).iter().any(|l| l.contains("nofile"))
    });
    let text = lines(&home, "web", &[]).join("\n");
    assert!(text.contains(&home.path().join("site").display().to_string()), "{text}");
    for expected in ["umask 0027", "nice 5", "nofile 64 128"] {
        assert!(text.contains(expected), "{expected} is missing:\n{text}");
    }
    let pid = crate::support::pid(&home, "web");
    let score = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
    assert_eq!(score.trim(), "300");
    let fds: Vec<_> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .flatten()
        .map(|e| e.file_name())
        .collect();
    assert_eq!(fds.len(), 3, "{fds:?}");
}

#[test]
fn a_service_can_run_as_another_user() {
    if !rustix::process::geteuid().is_root() {
        // Only root can; other users get an error.
        let home = Home::new();
        home.write("proctor.yaml", &web(&["--print-ids"], "user: root"));
        home.fail(["up", "-d"]);
        return;
    }
    let home = Home::new();
    // The victim must be reachable by that user: it is not, below a private folder.
    home.write("proctor.yaml", "supervisor:\n  services:\n    web:\n      command: [/bin/sh, -c, 'id; echo again > /dev/stdout; exec sleep 1000']\n      user: nobody\n      working_dir: /\n");
    home.ok(["up", "-d"]);
    wait_until("its ids", LIMIT, || lines(&home, "web", &[]).len() == 2);
    let seen = lines(&home, "web", &[]);
    assert!(seen[0].contains("(nobody)") && !seen[0].contains("root"), "{seen:?}");
    assert_eq!(seen[1], "again", "its own output can be opened again");
}

#[test]
fn an_unknown_user_is_refused_by_name() {
    let home = Home::new();
    home.write("proctor.yaml", &web(&[], "user: no-such-user-here"));
    let (_, said) = home.fail(["up", "-d"]);
    assert!(said.contains("no-such-user-here"), "{said}");
}

#[test]
fn cpu_and_memory_are_those_of_the_whole_tree() {
    let home = up(&web(&["--fork", "2", "--eat", "50"], ""));
    wait_until("the tree is seen", LIMIT, || {
        let now = status(&home, "web");
        now["processes"].as_u64() >= Some(3) && now["memory_bytes"].as_u64() >= Some(50 << 20)
    });
}

#[test]
fn a_kill_for_memory_is_told_apart_from_another_kill() {
    let group = format!("/sys/fs/cgroup/memory/proctor-test-{}", std::process::id());
    if std::fs::create_dir(&group).is_err() {
        // Without a writable memory controller, an out-of-memory kill cannot be caused.
        return;
    }
    std::fs::write(format!("{group}/memory.limit_in_bytes"), (64 << 20).to_string()).unwrap();
    let victim = proctor_testkit::victim();
    let script = format!("echo $$$$ > {group}/cgroup.procs; exec {} --eat 500", victim.display());
    let home = Home::new();
    home.write("proctor.yaml", &format!("supervisor:\n  services:\n    web:\n      command: [/bin/sh, -c, {script:?}]\n      restart_policy: never\n"));
    home.run(["up", "-d"]);
    let ended = wait_state(&home, "web", "failed");
    assert_eq!(ended["last_exit"]["kind"], "oom", "{ended:#}");
    drop(home);
    let _ = std::fs::remove_dir(&group);
}
