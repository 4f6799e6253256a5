//! Settings: every value has its origin, and no secret is shown.

use super::config;

fn settings(text: &str) -> Vec<String> {
    config(text)
        .settings
        .iter()
        .map(|it| format!("{} = {} ({})", it.key, it.value, it.origin))
        .collect()
}

const FILE: &str = "supervisor:
  restart: { max_delay: 2m }
  env: { LEVEL: info, API_KEY: abc }
  services:
    web:
      command: serve --token=abc --auth ${API_TOKEN} x
      args: ['--password', abc, '--url=http://u:p@h/']
      port: '${PORT_NUMBER}'
      env: { LEVEL: debug, DB: 'pg://u:abc@h', ADDRESS: 'h:${PORT_NUMBER}' }
      env_file: [.env, 'nope.env?']
      stop: { signal: 2 }
      health_check_url: http://localhost:1/
      health_check_interval: 1500ms
      umask: 27
      limits: { nofile: 5, stack: 1k:unlimited }
      user: me:you
      working_dir: sub
      logs: { max_size: 1M, max_age: none }
";

#[test]
fn every_value_says_where_it_came_from() {
    let all = settings(FILE);
    for want in [
        "supervisor.enabled = true (default)",
        "services.web.restart.max_delay = 120000 (proctor.yaml:2:25)",
        "services.web.restart.backoff = 2.0 (default)",
        "services.web.restart.delay = null (default)",
        "services.web.port = 8080 (proctor.yaml:8:13, environment PORT_NUMBER)",
        "services.web.env.LEVEL = \"debug\" (proctor.yaml:9:21)",
        "services.web.env.ADDRESS = \"h:8080\" (proctor.yaml:9:57, environment PORT_NUMBER)",
        "services.web.env.FROM = \"file\" (/srv/app/.env:1)",
        "services.web.env_file = [\".env\",\"nope.env? (skipped: no such file)\"] (proctor.yaml:10:17)",
        "services.web.stop.signal = \"INT\" (proctor.yaml:11:23)",
        "services.web.stop.grace = 10000 (default)",
        "services.web.health_check.interval = \"1500ms\" (proctor.yaml:13:30)",
        "services.web.health_check.timeout = 10 (default)",
        "services.web.umask = \"027\" (proctor.yaml:14:14)",
        "services.web.limits.nofile = 5 (proctor.yaml:15:25)",
        "services.web.limits.stack = \"1024:unlimited\" (proctor.yaml:15:35)",
        "services.web.user = \"me:you\" (proctor.yaml:16:13)",
        "services.web.working_dir = \"/srv/app/sub\" (proctor.yaml:17:20)",
        "services.web.logs.max_size = 1048576 (proctor.yaml:18:25)",
        "services.web.logs.max_age = \"none\" (proctor.yaml:18:38)",
        "services.web.logs.on_full = \"drop\" (default)",
        "services.web.restart_policy = \"on_failure\" (default)",
        "services.web.success_exit_codes = [0] (default)",
        "services.web.autostart = true (default)",
    ] {
        assert!(all.iter().any(|line| line == want), "{want} is not in\n{}", all.join("\n"));
    }
    let mut keys: Vec<&str> = all.iter().filter_map(|line| line.split(' ').next()).collect();
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), count, "a key is shown twice");
}

#[test]
fn secrets_are_not_among_the_settings() {
    let all = settings(FILE);
    for want in [
        "services.web.env.API_KEY = \"***\" (proctor.yaml:3:32)",
        "services.web.env.DB_PASSWORD = \"***\" (/srv/app/.env:3)",
        "services.web.env.DB = \"pg://u:***@h\" (proctor.yaml:9:32)",
        "services.web.command = \"serve --token=*** --auth *** x\" (proctor.yaml:6:16, environment API_TOKEN)",
        "services.web.args = [\"--password\",\"***\",\"--url=http://u:***@h/\"] (proctor.yaml:7:13)",
    ] {
        assert!(all.iter().any(|line| line == want), "{want} is not in\n{}", all.join("\n"));
    }
    let together = all.join("\n");
    assert!(!together.contains("abc") && !together.contains("hunter2"), "{together}");
}
