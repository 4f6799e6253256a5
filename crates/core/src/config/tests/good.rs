//! Every key with good values: the parsed value equals the written one.

use super::{around, service, services};
use crate::config::own_secrets::OwnSecrets;
use crate::config::{HealthCheck, ServiceDef, UserRef, parse_service};
use crate::spec::{Limit, LogSpec, OnFull, OnShutdown, Policy, Resource, RestartSpec, StopSpec};
use crate::time::Millis;
use std::fmt::Debug;

/// Each block of keys results in this part of the definition.
fn check<T: PartialEq + Debug>(part: impl Fn(&ServiceDef) -> T, table: &[(&str, T)]) {
    for (block, want) in table {
        let block = match block.contains("command:") {
            true => (*block).to_string(),
            false => format!("command: serve\n{block}"),
        };
        assert_eq!(part(&service(&block)), *want, "{block}");
    }
}

fn words(line: &str) -> Vec<String> {
    line.split('|').map(String::from).collect()
}

#[test]
fn a_command_is_split_like_a_shell_does_and_a_list_is_not() {
    check(
        |it| it.argv.clone(),
        &[
            ("command: npm run dev", words("npm|run|dev")),
            ("command: sh -c 'echo \"a b\"' x\\ y", words("sh|-c|echo \"a b\"|x y")),
            ("command: echo $HOME `x` *", words("echo|$HOME|`x`|*")),
            ("command: [a b, 'c\"', '']", words("a b|c\"|")),
            ("command: 'true'", words("true")),
            ("command: true", words("true")),
            ("command: [serve, 8080, true, 1.50]", words("serve|8080|true|1.50")),
            ("command: npm\nargs: [run, 'a b']", words("npm|run|a b")),
            ("command: [npm]\nargs: []", words("npm")),
            (
                "command: ls | wc\nshell: true",
                vec!["/bin/sh".into(), "-c".into(), "ls | wc".into()],
            ),
            (
                "command: echo \"$@\"\nshell: true\nargs: [a, b c]",
                words("/bin/sh|-c|echo \"$@\"|sh|a|b c"),
            ),
            ("command: echo hi\nshell: false", words("echo|hi")),
            ("command: |\n  serve\n    --quick\n", words("serve|--quick")),
            ("command: ${HOME}/bin/serve", words("/home/me/bin/serve")),
        ],
    );
}

#[test]
fn paths_are_relative_to_the_file() {
    check(
        |it| it.working_dir.clone(),
        &[
            ("", "/srv/app".into()),
            ("working_dir: ./frontend", "/srv/app/frontend".into()),
            ("working_dir: a/./b/", "/srv/app/a/b".into()),
            ("working_dir: ../other", "/srv/app/../other".into()),
            ("working_dir: /abs//x", "/abs/x".into()),
            ("working_dir: /", "/".into()),
            ("working_dir: ${HOME}/x", "/home/me/x".into()),
        ],
    );
}

#[test]
fn users_groups_and_umask() {
    let user = |user: &str, group: Option<&str>, more: &[&str]| {
        let supplementary = more.iter().map(ToString::to_string).collect();
        Some(UserRef { user: user.into(), group: group.map(String::from), supplementary })
    };
    check(
        |it| it.user.clone(),
        &[
            ("", None),
            ("user: www-data", user("www-data", None, &[])),
            ("user: me:staff", user("me", Some("staff"), &[])),
            ("user: 1000", user("1000", None, &[])),
            ("user: 1000:100", user("1000", Some("100"), &[])),
            ("user: me\nsupplementary_groups: [docker, 44]", user("me", None, &["docker", "44"])),
        ],
    );
    check(
        |it| it.umask,
        &[
            ("", None),
            ("umask: '022'", Some(0o22)),
            ("umask: 022", Some(0o22)),
            ("umask: 22", Some(0o22)),
            ("umask: 0o27", Some(0o27)),
            ("umask: 0", Some(0)),
            ("umask: 777", Some(0o777)),
        ],
    );
}

#[test]
fn limits_are_numbers_sizes_or_pairs() {
    let limit = |resource, soft, hard| vec![Limit { resource, soft, hard }];
    check(
        |it| it.limits.clone(),
        &[
            ("", vec![]),
            ("limits: {nofile: 1024}", limit(Resource::OpenFiles, Some(1024), Some(1024))),
            ("limits: {nproc: 10:20}", limit(Resource::Processes, Some(10), Some(20))),
            ("limits: {core: 0}", limit(Resource::Core, Some(0), Some(0))),
            ("limits: {as: 1G}", limit(Resource::AddressSpace, Some(1 << 30), Some(1 << 30))),
            ("limits: {cpu: '5:unlimited'}", limit(Resource::Cpu, Some(5), None)),
            ("limits: {data: 10MB}", limit(Resource::Data, Some(10_000_000), Some(10_000_000))),
            ("limits: {fsize: unlimited}", limit(Resource::FileSize, None, None)),
            (
                "limits: {memlock: 64KiB:1MiB}",
                limit(Resource::LockedMemory, Some(65_536), Some(1 << 20)),
            ),
            ("limits: {stack: 8M}", limit(Resource::Stack, Some(8 << 20), Some(8 << 20))),
        ],
    );
}

#[test]
fn small_settings() {
    check(|it| it.nice, &[("", None), ("nice: -20", Some(-20)), ("nice: 19", Some(19))]);
    check(
        |it| it.oom_score_adj,
        &[("", None), ("oom_score_adj: -1000", Some(-1000)), ("oom_score_adj: 1000", Some(1000))],
    );
    check(|it| it.autostart, &[("", true), ("autostart: false", false), ("autostart: TRUE", true)]);
    check(
        |it| it.description.clone(),
        &[
            ("", None),
            ("description: The site", Some("The site".into())),
            ("description: 5", Some("5".into())),
        ],
    );
    check(
        |it| it.groups.clone(),
        &[("", vec![]), ("groups: [front, all-day]", vec!["front".into(), "all-day".into()])],
    );
    check(
        |it| it.port,
        &[
            ("", None),
            ("port: 1", Some(1)),
            ("port: 65535", Some(65535)),
            ("port: '${PORT_NUMBER}'", Some(8080)),
        ],
    );
}

#[test]
fn stopping() {
    let stop = |signal, grace, on_shutdown| StopSpec { signal, grace: Millis(grace), on_shutdown };
    check(
        |it| it.stop.clone(),
        &[
            ("", stop(15, 10_000, OnShutdown::Stop)),
            ("stop: {signal: INT}", stop(2, 10_000, OnShutdown::Stop)),
            ("stop: {signal: SIGQUIT, grace: 500}", stop(3, 500, OnShutdown::Stop)),
            ("stop: {signal: 10, grace: 2m}", stop(10, 120_000, OnShutdown::Stop)),
            ("stop: {grace: 0}", stop(15, 0, OnShutdown::Stop)),
            ("stop: {grace: 1.5s}", stop(15, 1500, OnShutdown::Stop)),
            ("on_shutdown: leave", stop(15, 10_000, OnShutdown::Leave)),
            ("on_shutdown: stop", stop(15, 10_000, OnShutdown::Stop)),
        ],
    );
}

fn usual_restart() -> RestartSpec {
    RestartSpec {
        policy: Policy::OnFailure,
        success_codes: vec![0],
        max_restarts: Some(10),
        window: Millis(600_000),
        delay: None,
        max_delay: Millis(60_000),
        backoff: 2.0,
        jitter: 0.1,
        stable_after: Millis(10_000),
        cool_off: None,
    }
}

#[test]
fn restarting() {
    let with = |change: fn(&mut RestartSpec)| {
        let mut spec = usual_restart();
        change(&mut spec);
        spec
    };
    check(
        |it| it.restart.clone(),
        &[
            ("", usual_restart()),
            ("restart_policy: always", with(|it| it.policy = Policy::Always)),
            ("restart_policy: on_failure", usual_restart()),
            ("restart_policy: on-failure", usual_restart()),
            ("restart_policy: never", with(|it| it.policy = Policy::Never)),
            ("restart_policy: one_shot", with(|it| it.policy = Policy::OneShot)),
            ("restart_policy: one-shot", with(|it| it.policy = Policy::OneShot)),
            ("success_exit_codes: [0, 143]", with(|it| it.success_codes = vec![0, 143])),
            ("success_exit_codes: []", with(|it| it.success_codes = vec![])),
            ("max_restarts: 0", with(|it| it.max_restarts = Some(0))),
            ("max_restarts: unlimited", with(|it| it.max_restarts = None)),
            ("restart: {delay: 5000}", with(|it| it.delay = Some(Millis(5000)))),
            ("restart: {delay: '${DELAY}'}", with(|it| it.delay = Some(Millis(5000)))),
            ("restart: {delay: 0}", with(|it| it.delay = Some(Millis(0)))),
            ("restart: {delay: none}", usual_restart()),
            ("restart: {max_delay: 5m}", with(|it| it.max_delay = Millis(300_000))),
            ("restart: {backoff: 1}", with(|it| it.backoff = 1.0)),
            ("restart: {jitter: 0}", with(|it| it.jitter = 0.0)),
            ("restart: {jitter: 1.0}", with(|it| it.jitter = 1.0)),
            ("restart: {window: 1h}", with(|it| it.window = Millis(3_600_000))),
            ("restart: {stable_after: 0}", with(|it| it.stable_after = Millis(0))),
            ("restart: {cool_off: 1d}", with(|it| it.cool_off = Some(Millis(86_400_000)))),
            ("restart: {cool_off: none}", usual_restart()),
        ],
    );
}

#[test]
fn logs() {
    let usual = LogSpec {
        segment_bytes: 16 << 20,
        max_age: None,
        max_segments: 8,
        max_total_bytes: 128 << 20,
        on_full: OnFull::Drop,
    };
    check(
        |it| it.logs.clone(),
        &[
            ("", usual.clone()),
            ("logs: {max_size: 4096}", LogSpec { segment_bytes: 4096, ..usual.clone() }),
            ("logs: {max_size: 10 MB}", LogSpec { segment_bytes: 10_000_000, ..usual.clone() }),
            ("logs: {max_size: 4.5k}", LogSpec { segment_bytes: 4608, ..usual.clone() }),
            ("logs: {max_files: 2}", LogSpec { max_segments: 2, ..usual.clone() }),
            ("logs: {max_total: 1G}", LogSpec { max_total_bytes: 1 << 30, ..usual.clone() }),
            (
                "logs: {max_age: 7d}",
                LogSpec { max_age: Some(Millis(604_800_000)), ..usual.clone() },
            ),
            ("logs: {max_age: none}", usual.clone()),
            ("logs: {on_full: block}", LogSpec { on_full: OnFull::Block, ..usual.clone() }),
        ],
    );
}

#[test]
fn health_checks() {
    let starting = |url: &str, interval, timeout, retries, start_period| {
        let (interval, timeout) = (Millis(interval), Millis(timeout));
        let start_period = Millis(start_period);
        Some(HealthCheck { url: url.into(), interval, timeout, retries, start_period })
    };
    let health =
        |url: &str, interval, timeout, retries| starting(url, interval, timeout, retries, 30_000);
    let url = "http://localhost:5173";
    check(
        |it| it.health.clone(),
        &[
            ("", None),
            ("health_check_url: http://localhost:5173", health(url, 30_000, 10_000, 3)),
            (
                "health_check_url: http://localhost:5173\nhealth_check_interval: 5",
                health(url, 5000, 10_000, 3),
            ),
            (
                "health_check_url: http://localhost:5173\nhealth_check: {interval: 0.5, timeout: 200ms, retries: 1}",
                health(url, 500, 200, 1),
            ),
            (
                "health_check_url: http://localhost:5173\nhealth_check: {start_period: 2m}",
                starting(url, 30_000, 10_000, 3, 120_000),
            ),
            (
                "health_check_url: http://localhost:5173\nhealth_check: {start_period: 0}",
                starting(url, 30_000, 10_000, 3, 0),
            ),
            (
                "health_check_url: 'http://[::1]:80/a?b=c'",
                health("http://[::1]:80/a?b=c", 30_000, 10_000, 3),
            ),
            ("health_check_url: http://127.0.0.1/", health("http://127.0.0.1/", 30_000, 10_000, 3)),
        ],
    );
}

#[test]
fn instances_are_copies_with_their_own_names_ports_and_numbers() {
    let all = services(
        "command: serve\ninstances: 3\nport: 8000\nenv: {A: 1}\nhealth_check_url: http://localhost:8000/up",
    );
    let seen: Vec<String> = all
        .iter()
        .map(|it| {
            let env: Vec<String> =
                it.env.iter().map(|(name, text)| format!("{name}={text}")).collect();
            let url = &it.health.as_ref().unwrap().url;
            format!("{} {:?} {} {url}", it.name, it.port.unwrap(), env.join(","))
        })
        .collect();
    assert_eq!(
        seen,
        [
            "web@1 8000 A=1,PORT=8000,PROCTOR_INSTANCE=1 http://localhost:8000/up",
            "web@2 8001 A=1,PORT=8001,PROCTOR_INSTANCE=2 http://localhost:8001/up",
            "web@3 8002 A=1,PORT=8002,PROCTOR_INSTANCE=3 http://localhost:8002/up",
        ]
    );
    let one = service("command: serve\ninstances: 1\nport: 8000");
    assert_eq!(one.name.as_str(), "web");
    assert_eq!(one.env, [("PORT".to_string(), "8000".to_string())]);
    let elsewhere =
        services("command: serve\ninstances: 2\nport: 80\nhealth_check_url: http://localhost:9/");
    assert_eq!(elsewhere[1].health.as_ref().unwrap().url, "http://localhost:9/");
    let unwritten =
        services("command: serve\ninstances: 2\nport: 80\nhealth_check_url: http://localhost/x");
    assert_eq!(unwritten[1].health.as_ref().unwrap().url, "http://localhost:81/x");
}

#[test]
fn a_service_may_be_given_as_json() {
    let json = r#"{"command":["node","a b.js"],"env":{"A":"x\ny","B":5,"C":false},
        "restart":{"delay":5000,"backoff":2.0},"instances":1,"port":3000,"groups":["front"],"autostart":false}"#;
    let one = service(json);
    assert_eq!(one.argv, ["node", "a b.js"]);
    assert_eq!(one.restart.delay, Some(Millis(5000)));
    let env: Vec<_> = one.env.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert_eq!(env, [("A", "x\ny"), ("B", "5"), ("C", "false"), ("PORT", "3000")]);
    assert!(!one.autostart);
    let pretty = "{\n\t\"command\": \"serve\",\n\t\"args\": [\n\t\t\"\\u00e9\\/\"\n\t]\n}\n";
    assert_eq!(service(pretty).argv, ["serve", "é/"]);
    assert!(
        parse_service("given", "web", "{\"command\": \"serve\"", &around(), &OwnSecrets::default())
            .is_err()
    );
}
