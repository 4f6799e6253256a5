//! Every key with bad values, and every other mistake: what is said, and where.

use super::{around, lines, problems, with_key};
use crate::config::parse_service;

/// A service with this key (in line 5 from column 7 on) is refused with exactly this message, at this column.
fn check(table: &[(&str, u32, &str)]) {
    for (key, column, message) in table {
        let want = format!("proctor.yaml:5:{column}: services.web{message}");
        assert_eq!(problems(&with_key(key)), [want], "{key}");
    }
}

#[test]
fn plain_values_of_the_wrong_kind() {
    check(&[
        ("args: x", 13, ".args: found 'x', expected a list of texts"),
        ("args: [[1]]", 14, ".args[0]: found a list, expected text"),
        ("args: [a, ~]", 17, ".args[1]: found nothing, expected text"),
        ("shell: yes", 14, ".shell: found 'yes', expected true or false; write true"),
        ("shell: Off", 14, ".shell: found 'Off', expected true or false; write false"),
        ("shell: 1", 14, ".shell: found '1', expected true or false"),
        ("description: [a]", 20, ".description: found a list, expected text"),
        ("description:", 7, ".description: found nothing, expected text"),
        (
            "working_dir: ~/x",
            20,
            ".working_dir: '~' is not expanded, found '~/x'; write ${HOME}/…, or a path from '/'",
        ),
        ("working_dir: ''", 20, ".working_dir: found '', expected a path"),
        (
            "user: 'a b'",
            13,
            ".user: found 'a b', expected a user, or user:group, as names or numbers",
        ),
        (
            "user: 'a:'",
            13,
            ".user: found 'a:', expected a user, or user:group, as names or numbers",
        ),
        (
            "user: a:b:c",
            13,
            ".user: found 'a:b:c', expected a user, or user:group, as names or numbers",
        ),
        ("supplementary_groups: [a]", 29, ".supplementary_groups: has no effect without 'user'"),
        ("umask: 18", 14, ".umask: found '18', expected an octal number up to 777, as '022'"),
        ("umask: 1777", 14, ".umask: found '1777', expected an octal number up to 777, as '022'"),
        ("umask: +7", 14, ".umask: found '+7', expected an octal number up to 777, as '022'"),
        ("nice: 20", 13, ".nice: found '20', expected a whole number from -20 to 19"),
        ("nice: 1.0", 13, ".nice: found '1.0', expected a whole number from -20 to 19"),
        (
            "oom_score_adj: -1001",
            22,
            ".oom_score_adj: found '-1001', expected a whole number from -1000 to 1000",
        ),
        ("autostart: maybe", 18, ".autostart: found 'maybe', expected true or false"),
        ("instances: 0", 18, ".instances: found '0', expected a whole number from 1 to 1000"),
        ("instances: 1001", 18, ".instances: found '1001', expected a whole number from 1 to 1000"),
        ("groups: front", 15, ".groups: found 'front', expected a list of texts"),
        ("groups: [a, a]", 15, ".groups: 'a' stands twice"),
        ("groups: [all]", 15, ".groups: the group name 'all' means every service"),
        ("groups: [a@1]", 15, ".groups: group name 'a@1' may not have an '@': use 'instances'"),
        ("port: 0", 13, ".port: found '0', expected a whole number from 1 to 65535"),
        ("port: 65536", 13, ".port: found '65536', expected a whole number from 1 to 65535"),
        (
            "port: 99999999999999999999",
            13,
            ".port: found '99999999999999999999', expected a whole number from 1 to 65535",
        ),
        ("port: eighty", 13, ".port: found 'eighty', expected a whole number from 1 to 65535"),
    ]);
}

#[test]
fn values_about_running_of_the_wrong_kind() {
    let ms = "milliseconds as a number, or with a unit as in '500ms', '30s', '5m', '2h'";
    let duration = |key: &str, found: &str, least: &str, none: &str| {
        format!(".{key}: found {found}, expected a duration{least}: {ms}{none}")
    };
    check(&[
        (
            "restart_policy: sometimes",
            23,
            ".restart_policy: found 'sometimes', expected one of always, on_failure, never, one_shot",
        ),
        (
            "success_exit_codes: 0",
            27,
            ".success_exit_codes: found '0', expected a list of exit codes from 0 to 255",
        ),
        (
            "success_exit_codes: [256]",
            28,
            ".success_exit_codes[0]: found '256', expected a whole number from 0 to 255",
        ),
        (
            "max_restarts: -1",
            21,
            ".max_restarts: found '-1', expected a whole number from 0 to 1000000, or 'unlimited'",
        ),
        ("on_shutdown: kill", 20, ".on_shutdown: found 'kill', expected one of stop, leave"),
        (
            "stop: {signal: BANG}",
            22,
            ".stop.signal: found 'BANG', expected a signal, as TERM, SIGTERM or 15",
        ),
        ("stop: {grace: 1h30m}", 21, &duration("stop.grace", "'1h30m'", "", "")),
        ("stop: {grace: -5}", 21, &duration("stop.grace", "'-5'", "", "")),
        ("stop: {grace: none}", 21, &duration("stop.grace", "'none'", "", "")),
        ("stop: TERM", 13, ".stop: found 'TERM', expected a mapping"),
        ("restart: {delay: 0.5}", 24, &duration("restart.delay", "'0.5'", "", ", or 'none'")),
        ("restart: {delay: 9999d}", 24, &duration("restart.delay", "'9999d'", "", ", or 'none'")),
        ("restart: {delay: 1e3}", 24, &duration("restart.delay", "'1e3'", "", ", or 'none'")),
        (
            "restart: {max_delay: 0}",
            28,
            &duration("restart.max_delay", "'0'", " of at least 1ms", ""),
        ),
        ("restart: {window: ''}", 25, &duration("restart.window", "''", " of at least 1ms", "")),
        ("restart: {stable_after: x}", 31, &duration("restart.stable_after", "'x'", "", "")),
        (
            "restart: {cool_off: 0}",
            27,
            &duration("restart.cool_off", "'0'", " of at least 1ms", ", or 'none'"),
        ),
        (
            "restart: {backoff: 0.9}",
            26,
            ".restart.backoff: found '0.9', expected a number from 1 to 100",
        ),
        (
            "restart: {backoff: .inf}",
            26,
            ".restart.backoff: found '.inf', expected a number from 1 to 100",
        ),
        (
            "restart: {jitter: 1.1}",
            25,
            ".restart.jitter: found '1.1', expected a number from 0 to 1",
        ),
        (
            "restart: {jitter: nan}",
            25,
            ".restart.jitter: found 'nan', expected a number from 0 to 1",
        ),
        (
            "restart: {delay: 61s}",
            24,
            ".restart.delay: found 61000 ms, expected at most 'max_delay', 60000 ms; raise 'max_delay'",
        ),
        ("restart:", 7, ".restart: found nothing, expected a mapping"),
        ("restart: always", 16, ".restart: found 'always', expected a mapping"),
    ]);
}

#[test]
fn values_about_limits_logs_and_health_of_the_wrong_kind() {
    let size = "a number, or with a unit as in '16MiB', '10MB', '1G'";
    let open =
        "both streams have an open file of up to 'max_size'; raise 'max_total' or lower 'max_size'";
    let url = "expected an address, as http://localhost:3000/health";
    check(&[
        (
            "limits: {nofile: many}",
            24,
            ".limits.nofile: found 'many', expected a number, 'unlimited', or soft:hard (soft at most hard)",
        ),
        (
            "limits: {nofile: 2:1}",
            24,
            ".limits.nofile: found '2:1', expected a number, 'unlimited', or soft:hard (soft at most hard)",
        ),
        (
            "limits: {nofile: 1k}",
            24,
            ".limits.nofile: found '1k', expected a number, 'unlimited', or soft:hard (soft at most hard)",
        ),
        (
            "limits: {core: x}",
            22,
            ".limits.core: found 'x', expected bytes, a size as '64MiB', 'unlimited', or soft:hard (soft at most hard)",
        ),
        ("limits: {cores: 1}", 16, ".limits: unknown key 'cores'; did you mean 'core'?"),
        (
            "logs: {max_size: 4095}",
            24,
            &format!(
                ".logs.max_size: found '4095', expected a size of at least 4096 bytes: {size}"
            ),
        ),
        (
            "logs: {max_size: 1XB}",
            24,
            &format!(".logs.max_size: found '1XB', expected a size of at least 4096 bytes: {size}"),
        ),
        (
            "logs: {max_files: 1}",
            25,
            ".logs.max_files: found '1', expected a whole number from 2 to 100000",
        ),
        (
            "logs: {max_total: 1}",
            25,
            &format!(".logs.max_total: found '1', expected a size of at least 8192 bytes: {size}"),
        ),
        (
            "logs: {max_total: 20MiB}",
            25,
            &format!(
                ".logs.max_total: 'max_total' is 20971520 bytes, expected at least twice 'max_size', 16777216 bytes; {open}"
            ),
        ),
        (
            "logs: {max_size: 1G}",
            24,
            &format!(
                ".logs.max_size: 'max_total' is 134217728 bytes, expected at least twice 'max_size', 1073741824 bytes; {open}"
            ),
        ),
        (
            "logs: {on_full: explode}",
            23,
            ".logs.on_full: found 'explode', expected one of drop, block",
        ),
        ("logs: [a]", 13, ".logs: found a list, expected a mapping"),
        (
            "health_check_url: https://x/",
            25,
            &format!(
                ".health_check_url: found 'https://x/', {url}; https is not supported yet: use http"
            ),
        ),
        (
            "health_check_url: localhost:80",
            25,
            &format!(".health_check_url: found 'localhost:80', {url}"),
        ),
        ("health_check_url: http://", 25, &format!(".health_check_url: found 'http://', {url}")),
        (
            "health_check_url: http://a:0/",
            25,
            &format!(".health_check_url: found 'http://a:0/', {url}"),
        ),
        (
            "health_check_url: http://[::g]/",
            25,
            &format!(".health_check_url: found 'http://[::g]/', {url}"),
        ),
        (
            "health_check_url: http://a b/",
            25,
            &format!(".health_check_url: found 'http://a b/', {url}"),
        ),
        (
            "health_check_url: http://u:p@a/",
            25,
            &format!(
                ".health_check_url: found 'http://u:***@a/', {url}; a login in the address is not supported yet: remove it"
            ),
        ),
        (
            "health_check_interval: 5",
            30,
            ".health_check.interval: has no effect without 'health_check_url'",
        ),
        (
            "health_check: {retries: 1}",
            31,
            ".health_check.retries: has no effect without 'health_check_url'",
        ),
        (
            "health_check: {retries: 0}",
            31,
            ".health_check.retries: found '0', expected a whole number from 1 to 1000",
        ),
    ]);
}

#[test]
fn commands_that_cannot_be_run() {
    let table = [
        (
            "command: serve 'x",
            "2:10: services.web.command: a quote is not closed, or a backslash stands at the end: \
          'serve 'x'; close it, or write the command as a list of words",
        ),
        (
            "command: ''",
            "2:10: services.web.command: found '', expected a command as text, or a list of words",
        ),
        ("command: '# x'", "2:10: services.web.command: found no program in it: '# x'"),
        ("command: \"'' x\"", "2:10: services.web.command: found no program in it: ''' x'"),
        (
            "command: []",
            "2:10: services.web.command: found no program, expected it as the first word",
        ),
        (
            "command: ['']",
            "2:10: services.web.command: found no program, expected it as the first word",
        ),
        (
            "command: {a: b}",
            "2:10: services.web.command: found a mapping, expected a command as text, or a list of words",
        ),
        (
            "command:",
            "2:1: services.web.command: found nothing, expected a command as text, or a list of words",
        ),
        (
            "command: ~/serve",
            "2:10: services.web.command: '~' is not expanded, found '~/serve'; write ${HOME}/…, or a \
          path from '/'",
        ),
        (
            "command: [a]\nshell: true",
            "2:10: services.web.command: found a list, expected text, because 'shell' is true",
        ),
        (
            "command: a\nshell: true\nargs: [b]",
            "4:7: services.web.args: the shell command does not use them; write \
          \"$@\" in 'command' where they belong",
        ),
        ("args: [x]", "1:1: services.web: 'command' is missing; write 'command: …' below it"),
        (
            "command: a\nport: 65535\ninstances: 2",
            "3:7: services.web.port: 2 instances from port 65535 on end above 65535",
        ),
        (
            "command: a\nhealth_check_url: http://x\nhealth_check_interval: 5\nhealth_check: {interval: 5}",
            "4:24: services.web.health_check_interval: 'health_check.interval' says it, too; remove one of them",
        ),
        (
            "command: a\nuser: me\nsupplementary_groups: [a b]",
            "4:23: services.web.supplementary_groups: found 'a b', \
          expected a group",
        ),
    ];
    for (block, want) in table {
        let found =
            parse_service("f", "web", &format!("# a service\n{block}"), &around()).unwrap_err();
        assert_eq!(lines(&found), [format!("f:{want}")], "{block}");
    }
}

#[test]
fn names_that_cannot_be() {
    let named =
        |name: &str| problems(&format!("services:\n  {name}: {{command: x, instances: 2}}\n"));
    let table = [
        (
            "a/b",
            "services: service name 'a/b' may use letters, digits, '.', '_' and '-' and must begin with a letter or digit",
        ),
        ("web@1", "services: service name 'web@1' may not have an '@': use 'instances'"),
        ("all", "services: the service name 'all' means every service"),
    ];
    for (name, want) in table {
        assert_eq!(named(name), [format!("proctor.yaml:2:3: {want}")]);
    }
    let long = "x".repeat(63);
    assert_eq!(
        named(&long),
        [format!(
            "proctor.yaml:2:3: services.{long}: the name '{long}@2' is longer than 64 characters"
        )]
    );
    assert_eq!(
        problems("services:\n  web: {command: x}\n  db: {command: y, groups: [web]}\n"),
        [
            "proctor.yaml:2:3: services.web: a group of 'db' has the same name; rename the service or the group"
        ]
    );
    assert_eq!(
        lines(&parse_service("f", "../x", "command: x", &around()).unwrap_err())[0]
            .split(':')
            .next(),
        Some("f")
    );
}

#[test]
fn keys_that_do_not_exist() {
    check(&[
        ("comand: x", 7, ": unknown key 'comand'; did you mean 'command'?"),
        ("cwd: x", 7, ": unknown key 'cwd'; did you mean 'working_dir'?"),
        ("zzz: x", 7, ": unknown key 'zzz'"),
        ("services: {}", 7, ": unknown key 'services'; it belongs in 'supervisor'"),
        ("restart: {dealy: 1}", 17, ".restart: unknown key 'dealy'; did you mean 'delay'?"),
        ("\"a\\x1b[31mb\": x", 7, ": unknown key 'a\\u{1b}[31mb'"),
    ]);
    let table = [
        (
            "supervisor:\n  command: x\n  services: {}",
            "2:3: supervisor: unknown key 'command'; it belongs in a service, below 'services'",
        ),
        ("supervisr: {}", "1:1: unknown key 'supervisr' at the top; did you mean 'supervisor'?"),
        (
            "supervisor: {services: {}}\nrestart: {}",
            "2:1: unknown key 'restart' at the top; move it into 'supervisor'",
        ),
        (
            "supervisor: {services: {}}\nversion: 3",
            "2:1: unknown key 'version' at the top; names that begin with 'x-' are free for your own use",
        ),
    ];
    for (text, want) in table {
        assert_eq!(problems(text), [format!("proctor.yaml:{want}")]);
    }
}

#[test]
fn files_that_are_no_configuration() {
    let example =
        "write, for example:\nsupervisor:\n  services:\n    web:\n      command: npm run dev";
    let table = [
        ("", format!("1:1: the file is empty; {example}")),
        ("# nothing\n", format!("1:1: the file is empty; {example}")),
        ("---\n~\n", format!("1:1: the file is empty; {example}")),
        ("{}", format!("1:1: the file says nothing; {example}")),
        ("x-a: 1", format!("1:1: 'supervisor' is missing; {example}")),
        ("hello", "1:1: the file: found 'hello', expected a mapping with 'supervisor'".into()),
        ("- a", "1:1: the file: found a list, expected a mapping with 'supervisor'".into()),
        ("supervisor:", "1:1: supervisor: found nothing, expected a mapping".into()),
        (
            "supervisor: {services: }",
            "1:14: services: found nothing, expected a mapping from names to services".into(),
        ),
        ("services: {a: x}", "1:15: services.a: found 'x', expected a mapping".into()),
        (
            "supervisor: {enabled: perhaps, services: {}}",
            "1:23: supervisor.enabled: found 'perhaps', expected true or false".into(),
        ),
        ("a: 1\n---\nb: 2", "2:1: a second document begins here; a file is one".into()),
        (
            "services: {a: &a {command: *a}}",
            "1:28: services.a: this alias stands inside of what it names".into(),
        ),
        (
            "services: {a: !!map {}}",
            "1:21: services: the tag 'tag:yaml.org,2002:!map' is not used here; remove it".into(),
        ),
        ("services: {[a]: {}}", "1:12: services: a key must be text".into()),
        ("services: {<<: 1}", "1:16: services: '<<' takes a mapping or a list of mappings".into()),
        ("a\0b", "1:2: the file has a NUL byte in it".into()),
    ];
    for (text, want) in table {
        let found = problems(text);
        assert_eq!(found[0], format!("proctor.yaml:{want}"), "{text}");
    }
    assert_eq!(problems("supervisor: {}").len(), 1);
    assert!(parse_service("f", "web", "", &around()).is_err());
}

#[test]
fn text_that_is_not_yaml_is_shown_with_its_place() {
    for (text, place) in [
        ("services:\n  a: b: c\n", "2:7"),
        ("services: [a\n", "2:1"),
        ("services:\n  a: 'x\n", "2:6"),
        ("services:\n  a: *nope\n", "2:6"),
    ] {
        let found = problems(text);
        assert!(
            found[0].starts_with(&format!("proctor.yaml:{place}: this is not YAML: ")),
            "{text}: {found:?}"
        );
        assert_eq!(found.len(), 1);
    }
    let tab = problems("services:\n\ta: b\n");
    assert!(tab[0].ends_with("; indent with spaces, not with tabs"), "{tab:?}");
}

#[test]
fn all_problems_come_at_once_in_the_order_of_the_text() {
    let text = "supervisor:
  nice: 99
  services:
    web:
      comand: x
      port: 0
      port: 1
    db:
      command: >
        y
      restart:
        delay: soon
  hots: 1
";
    assert_eq!(
        problems(text),
        [
            "proctor.yaml:2:9: supervisor.nice: found '99', expected a whole number from -20 to 19",
            "proctor.yaml:4:5: services.web: 'command' is missing; write 'command: …' below it",
            "proctor.yaml:5:7: services.web: unknown key 'comand'; did you mean 'command'?",
            "proctor.yaml:6:13: services.web.port: found '0', expected a whole number from 1 to 65535",
            "proctor.yaml:7:7: services.web: the key 'port' stands here a second time; remove one of them",
            "proctor.yaml:12:16: services.db.restart.delay: found 'soon', expected a duration: milliseconds as a number, \
             or with a unit as in '500ms', '30s', '5m', '2h', or 'none'",
            "proctor.yaml:13:3: supervisor: unknown key 'hots'",
        ]
    );
}

#[test]
fn columns_count_characters() {
    let text = "services: {wéb: {command: x, \"ü\": 1}}";
    let found = problems(text);
    assert!(found[0].starts_with("proctor.yaml:1:12: services: service name 'wéb'"), "{found:?}");
    assert_eq!(found[1], "proctor.yaml:1:30: services.wéb: unknown key 'ü'");
}
