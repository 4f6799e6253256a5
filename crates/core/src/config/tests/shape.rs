//! The structure of the file: the documented example, defaults of the supervisor, anchors, groups.

use super::{config, problems};
use crate::config::ServiceDef;
use crate::spec::{OnShutdown, Policy};
use crate::time::Millis;

const EXAMPLE: &str = r#"supervisor:
  enabled: true
  port: 8081                 # TCP control
  host: "127.0.0.1"
  services:
    web:
      command: "npm"
      args: ["run", "dev"]
      working_dir: "./frontend"
      health_check_url: "http://localhost:5173"
      health_check_interval: 30          # seconds
      restart_policy: "on_failure"       # always | on_failure | never
      max_restarts: 10
  health_check: { interval: 30, timeout: 10, retries: 3 }             # seconds
  restart: { delay: 5000, max_delay: 60000, backoff: 2.0 }            # milliseconds
  security:
    bind_to_localhost: true
    allowed_commands: ["status", "restart"]
    authentication: { enabled: true, token: "${SUPERVISOR_TOKEN}" }
"#;

#[test]
fn the_documented_example_means_what_it_says() {
    let config = config(&EXAMPLE.replace("${SUPERVISOR_TOKEN}", "${SUPERVISOR_TOKEN:-opensesame}"));
    let [web] = &config.services[..] else { panic!("{config:#?}") };
    assert_eq!(web.name.as_str(), "web");
    assert_eq!(web.argv, ["npm", "run", "dev"]);
    assert_eq!(web.working_dir, "/srv/app/frontend");
    assert_eq!(web.restart.policy, Policy::OnFailure);
    assert_eq!(web.restart.max_restarts, Some(10));
    assert_eq!(web.restart.delay, Some(Millis(5000)));
    assert_eq!(web.restart.max_delay, Millis(60_000));
    let health = web.health.as_ref().unwrap();
    assert_eq!(health.url, "http://localhost:5173");
    assert_eq!(
        (health.interval, health.timeout, health.retries),
        (Millis(30_000), Millis(10_000), 3)
    );
}

#[test]
fn what_is_not_supported_yet_is_refused_by_name() {
    for key in ["web: {}", "dashboard: 1", "mode: proxy", "plugins: []", "alerts: {}"] {
        let found = problems(&format!("supervisor:\n  {key}\n  services: {{}}\n"));
        assert!(
            found.len() == 1 && found[0].contains("is not supported yet ("),
            "{key}: {found:?}"
        );
    }
    for key in ["depends_on: [db]", "alerts: {}", "ready: {}"] {
        let found = problems(&super::with_key(key));
        assert!(
            found.len() == 1 && found[0].contains("is not supported yet ("),
            "{key}: {found:?}"
        );
        assert!(found[0].starts_with("proctor.yaml:5:7: services.web: '"), "{found:?}");
    }
    for key in ["tcp: 80", "exec: true", "command: x", "grpc: {}"] {
        let text = format!("health_check_url: http://x\n      health_check: {{ {key} }}");
        let found = problems(&super::with_key(&text));
        assert!(
            found.len() == 1 && found[0].contains("is not supported yet ("),
            "{key}: {found:?}"
        );
    }
}

#[test]
fn a_key_for_what_is_set_elsewhere_is_refused_with_what_to_do() {
    for (key, part) in [
        ("tcp: { port: 1 }", "'port' and 'host'"),
        ("metrics: {}", "/metrics"),
        ("lease: 1", "proctor start --name"),
        ("pre_commands: []", "proctor custom-restart"),
    ] {
        let found = problems(&format!("supervisor:\n  {key}\n  services: {{}}\n"));
        assert!(found.len() == 1 && found[0].contains(part), "{key}: {found:?}");
        assert!(!found[0].contains("not supported"), "{key}: {found:?}");
    }
    for (key, part) in [("mcp: {}", "'assistants'"), ("metrics: {}", "/metrics")] {
        let found = problems(&super::with_key(key));
        assert!(found.len() == 1 && found[0].contains(part), "{key}: {found:?}");
    }
}

#[test]
fn the_supervisors_values_are_defaults_field_by_field() {
    let config = config(
        "supervisor:
  restart: { delay: 1s, max_delay: 20s, cool_off: 1m }
  health_check: { interval: 5, timeout: 2 }
  logs: { max_files: 3, max_size: 1M }
  stop: { signal: INT, grace: 1s }
  limits: { nofile: 100, core: 0 }
  env: { A: supervisor, B: supervisor }
  restart_policy: always
  max_restarts: 1
  success_exit_codes: [7]
  on_shutdown: leave
  autostart: false
  working_dir: sub
  user: me
  umask: 077
  nice: 3
  oom_score_adj: 4
  services:
    plain: { command: a, health_check_url: http://localhost:1/ }
    own:
      command: b
      restart: { delay: 2s, cool_off: none }
      health_check_url: http://localhost:1/
      health_check: { timeout: 1 }
      logs: { max_files: 5 }
      stop: { grace: 3s }
      limits: { nofile: 200 }
      env: { B: own, C: own }
      restart_policy: never
      max_restarts: unlimited
      success_exit_codes: [0]
      on_shutdown: stop
      autostart: true
      working_dir: other
      user: you
      umask: '022'
      nice: 0
      oom_score_adj: 0
",
    );
    assert_eq!(
        summary(&config.services[0]),
        "delay 1000 max 20000 cool 60000 every 5000 timeout 2000 \
        files 3 size 1048576 signal 2 grace 1000 nofile 100 core 0 A=supervisor,B=supervisor Always 1 [7] true false \
        /srv/app/sub me 77 3 4"
    );
    assert_eq!(
        summary(&config.services[1]),
        "delay 2000 max 20000 cool - every 5000 timeout 1000 \
        files 5 size 1048576 signal 2 grace 3000 nofile 200 core 0 A=supervisor,B=own,C=own Never - [0] false true \
        /srv/app/other you 22 0 0"
    );
}

fn summary(it: &ServiceDef) -> String {
    let millis = |time: Option<Millis>| time.map_or("-".to_string(), |time| time.0.to_string());
    let health = it.health.as_ref().unwrap();
    let limits: Vec<u64> = it.limits.iter().map(|limit| limit.soft.unwrap()).collect();
    let env: Vec<String> = it.env.iter().map(|(name, text)| format!("{name}={text}")).collect();
    let restart = &it.restart;
    [
        format!("delay {} max {}", millis(restart.delay), restart.max_delay.0),
        format!("cool {}", millis(restart.cool_off)),
        format!("every {} timeout {}", health.interval.0, health.timeout.0),
        format!("files {} size {}", it.logs.max_segments, it.logs.segment_bytes),
        format!("signal {} grace {}", it.stop.signal, it.stop.grace.0),
        format!("nofile {} core {}", limits[0], limits[1]),
        env.join(","),
        format!("{:?}", restart.policy),
        restart.max_restarts.map_or("-".to_string(), |count| count.to_string()),
        format!("{:?}", restart.success_codes),
        format!("{} {}", it.stop.on_shutdown == OnShutdown::Leave, it.autostart),
        it.working_dir.clone(),
        it.user.as_ref().unwrap().user.clone(),
        format!("{:o} {} {}", it.umask.unwrap(), it.nice.unwrap(), it.oom_score_adj.unwrap()),
    ]
    .join(" ")
}

#[test]
fn services_may_stand_at_the_top_and_a_switched_off_file_has_none() {
    let names = |text: &str| -> Vec<String> {
        config(text).services.iter().map(|it| it.name.to_string()).collect()
    };
    assert_eq!(names("services: { b: {command: x}, a: {command: y} }"), ["b", "a"]);
    assert_eq!(names("services: { a: {command: y} }\nrestart: {delay: 1}\nx-mine: 1"), ["a"]);
    assert_eq!(names("supervisor: { services: {} }"), [""; 0]);
    assert_eq!(names("\u{feff}---\nsupervisor: { services: { a: {command: y} } }\n...\n"), ["a"]);
    assert_eq!(names("{\"supervisor\":{\"services\":{\"a\":{\"command\":\"y\"}}}}"), ["a"]);
    let off = "supervisor: { enabled: false, services: { a: {command: y, groups: [g]} } }";
    let config = config(off);
    assert!(config.services.is_empty() && config.groups.is_empty());
    assert!(config.settings.iter().all(|it| it.key.starts_with("supervisor.")));
    assert_eq!(problems(&off.replace("command", "comand")).len(), 2);
}

#[test]
fn anchors_aliases_merges_and_extensions_help_to_say_things_once() {
    let config = config(
        "x-base: &base
  command: serve
  env: &env { A: 1 }
  restart: { delay: 1s }
x-more: &more { nice: 5, port: 1 }
supervisor:
  x-note: anything
  services:
    one: *base
    two:
      <<: [*base, *more]
      x-here: { too: true }
      port: 2
      restart: { delay: 2s, x-why: because }
      env: { <<: *env, B: 2 }
",
    );
    let [one, two] = &config.services[..] else { panic!("{config:#?}") };
    assert_eq!((one.port, one.nice, one.restart.delay), (None, None, Some(Millis(1000))));
    assert_eq!((two.port, two.nice, two.restart.delay), (Some(2), Some(5), Some(Millis(2000))));
    assert_eq!(two.argv, ["serve"]);
    let names: Vec<&str> = two.env.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["B", "A", "PORT"]);
}

#[test]
fn groups_have_instances_as_members() {
    let config = config(
        "services:
  web: { command: a, instances: 2, groups: [front, everything] }
  db: { command: b, groups: [everything] }
",
    );
    let groups: Vec<String> = config
        .groups
        .iter()
        .map(|(name, members)| {
            let members: Vec<&str> = members.iter().map(|it| it.as_str()).collect();
            format!("{name}: {}", members.join(" "))
        })
        .collect();
    assert_eq!(groups, ["everything: web@1 web@2 db", "front: web@1 web@2"]);
}
