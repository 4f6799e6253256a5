//! Every key with bad values. A line of a table is `the key in line 5 from column 7 on => column
//! message`; phrases that many messages share are written as `<name>`.

use super::{problems, with_key};

const PHRASES: [(&str, &str); 9] = [
    ("<duration>", "expected a duration: <ms>"),
    ("<duration-1>", "expected a duration of at least 1ms: <ms>"),
    ("<ms>", "milliseconds as a number, or with a unit as in '500ms', '30s', '5m', '2h'"),
    ("<or none>", ", or 'none'"),
    ("<size>", "a number, or with a unit as in '16MiB', '10MB', '1G'"),
    ("<url>", "expected a URL, such as http://localhost:3000/health"),
    ("<limit>", "'unlimited', or soft:hard (soft at most hard)"),
    ("<user>", "expected a user, or user:group, as names or numbers"),
    (
        "<open>",
        "both streams have an open file of up to 'max_size'; raise 'max_total' or lower 'max_size'",
    ),
];

/// Each key is refused with exactly this message at this place.
fn check(table: &str) {
    for row in table.lines().filter(|row| !row.is_empty()) {
        let (key, rest) = row.split_once(" => ").unwrap();
        let (column, message) = rest.split_once(' ').unwrap();
        let mut want = format!("proctor.yaml:5:{column}: services.web{message}");
        for (name, phrase) in PHRASES {
            want = want.replace(name, phrase);
        }
        assert_eq!(problems(&with_key(key)), [want], "{key}");
    }
}

#[test]
fn values_about_the_process() {
    check(
        r"
args: x => 13 .args: found 'x', expected a list of texts
args: [[1]] => 14 .args[0]: found a list, expected text
args: [a, ~] => 17 .args[1]: found nothing, expected text
shell: yes => 14 .shell: found 'yes', expected true or false; write true
shell: Off => 14 .shell: found 'Off', expected true or false; write false
shell: 1 => 14 .shell: found '1', expected true or false
description: [a] => 20 .description: found a list, expected text
description: => 7 .description: found nothing, expected text
working_dir: ~/x => 20 .working_dir: '~' is not expanded, found '~/x'; write ${HOME}/…, or a path from '/'
working_dir: '' => 20 .working_dir: found '', expected a path
user: 'a b' => 13 .user: found 'a b', <user>
user: 'a:' => 13 .user: found 'a:', <user>
user: a:b:c => 13 .user: found 'a:b:c', <user>
user: -a => 13 .user: found '-a', <user>
supplementary_groups: [a] => 29 .supplementary_groups: has no effect without 'user'
umask: 18 => 14 .umask: found '18', expected an octal number up to 777, such as '022'
umask: 1777 => 14 .umask: found '1777', expected an octal number up to 777, such as '022'
umask: +7 => 14 .umask: found '+7', expected an octal number up to 777, such as '022'
nice: 20 => 13 .nice: found '20', expected a whole number from -20 to 19
nice: 1.0 => 13 .nice: found '1.0', expected a whole number from -20 to 19
oom_score_adj: -1001 => 22 .oom_score_adj: found '-1001', expected a whole number from -1000 to 1000
limits: {nofile: many} => 24 .limits.nofile: found 'many', expected a number, <limit>
limits: {nofile: 2:1} => 24 .limits.nofile: found '2:1', expected a number, <limit>
limits: {nofile: unlimited:1} => 24 .limits.nofile: found 'unlimited:1', expected a number, <limit>
limits: {nproc: 1k} => 23 .limits.nproc: found '1k', expected a number, <limit>
limits: {core: x} => 22 .limits.core: found 'x', expected bytes, a size such as '64MiB', <limit>
limits: {as: -1} => 20 .limits.as: found '-1', expected bytes, a size such as '64MiB', <limit>
limits: {cores: 1} => 16 .limits: unknown key 'cores'; did you mean 'core'?
limits: 5 => 15 .limits: found '5', expected a mapping
",
    );
}

#[test]
fn values_about_the_service() {
    check(
        r"
autostart: maybe => 18 .autostart: found 'maybe', expected true or false
instances: 0 => 18 .instances: found '0', expected a whole number from 1 to 1000
instances: 1001 => 18 .instances: found '1001', expected a whole number from 1 to 1000
groups: front => 15 .groups: found 'front', expected a list of texts
groups: [a, a] => 15 .groups: 'a' is a duplicate
groups: [all] => 15 .groups: the group name 'all' means every service
groups: [a@1] => 15 .groups: group name 'a@1' may not contain an '@': use 'instances'
port: 0 => 13 .port: found '0', expected a whole number from 1 to 65535
port: 65536 => 13 .port: found '65536', expected a whole number from 1 to 65535
port: 99999999999999999999 => 13 .port: found '99999999999999999999', expected a whole number from 1 to 65535
port: eighty => 13 .port: found 'eighty', expected a whole number from 1 to 65535
on_shutdown: kill => 20 .on_shutdown: found 'kill', expected one of stop, leave
stop: {signal: BANG} => 22 .stop.signal: found 'BANG', expected a signal, such as TERM, SIGTERM or 15
stop: {grace: 1h30m} => 21 .stop.grace: found '1h30m', <duration>
stop: {grace: -5} => 21 .stop.grace: found '-5', <duration>
stop: {grace: none} => 21 .stop.grace: found 'none', <duration>
stop: TERM => 13 .stop: found 'TERM', expected a mapping
",
    );
}

#[test]
fn values_about_restarts() {
    check(
        r"
restart_policy: sometimes => 23 .restart_policy: found 'sometimes', expected one of always, on_failure, never, one_shot
success_exit_codes: 0 => 27 .success_exit_codes: found '0', expected a list of exit codes from 0 to 255
success_exit_codes: [256] => 28 .success_exit_codes[0]: found '256', expected a whole number from 0 to 255
max_restarts: -1 => 21 .max_restarts: found '-1', expected a whole number from 0 to 1000, or 'unlimited'
max_restarts: 1001 => 21 .max_restarts: found '1001', expected a whole number from 0 to 1000, or 'unlimited'
restart: {delay: 0.5} => 24 .restart.delay: found '0.5', <duration><or none>
restart: {delay: 9999d} => 24 .restart.delay: found '9999d', <duration><or none>
restart: {delay: 1e3} => 24 .restart.delay: found '1e3', <duration><or none>
restart: {delay: 5 weeks} => 24 .restart.delay: found '5 weeks', <duration><or none>
restart: {max_delay: 0} => 28 .restart.max_delay: found '0', <duration-1>
restart: {window: ''} => 25 .restart.window: found '', <duration-1>
restart: {stable_after: x} => 31 .restart.stable_after: found 'x', <duration>
restart: {cool_off: 0} => 27 .restart.cool_off: found '0', <duration-1><or none>
restart: {backoff: 0.9} => 26 .restart.backoff: found '0.9', expected a number from 1 to 100
restart: {backoff: .inf} => 26 .restart.backoff: found '.inf', expected a number from 1 to 100
restart: {jitter: 1.1} => 25 .restart.jitter: found '1.1', expected a number from 0 to 1
restart: {jitter: nan} => 25 .restart.jitter: found 'nan', expected a number from 0 to 1
restart: {delay: 61s} => 24 .restart.delay: found 61000 ms, expected at most 'max_delay', 60000 ms; raise 'max_delay'
restart: => 7 .restart: found nothing, expected a mapping
restart: always => 16 .restart: found 'always', expected a mapping
",
    );
}

#[test]
fn values_about_logs_and_health() {
    check(
        r"
logs: {max_size: 4095} => 24 .logs.max_size: found '4095', expected a size of at least 4096 bytes: <size>
logs: {max_size: 1XB} => 24 .logs.max_size: found '1XB', expected a size of at least 4096 bytes: <size>
logs: {max_files: 1} => 25 .logs.max_files: found '1', expected a whole number from 2 to 100000
logs: {max_total: 1} => 25 .logs.max_total: found '1', expected a size of at least 8192 bytes: <size>
logs: {max_total: 20MiB} => 25 .logs.max_total: 'max_total' is 20971520 bytes, expected at least twice 'max_size', 16777216 bytes; <open>
logs: {max_size: 1G} => 24 .logs.max_size: 'max_total' is 134217728 bytes, expected at least twice 'max_size', 1073741824 bytes; <open>
logs: {max_age: 1} => 23 .logs.max_age: found '1', expected a duration of at least 1000ms: <ms><or none>
logs: {on_full: explode} => 23 .logs.on_full: found 'explode', expected one of drop, block
logs: [a] => 13 .logs: found a list, expected a mapping
health_check_url: https://x/ => 25 .health_check_url: found 'https://x/', <url>; https is not supported yet: use http
health_check_url: localhost:80 => 25 .health_check_url: found 'localhost:80', <url>
health_check_url: http:// => 25 .health_check_url: found 'http://', <url>
health_check_url: http://a:0/ => 25 .health_check_url: found 'http://a:0/', <url>
health_check_url: http://[::g]/ => 25 .health_check_url: found 'http://[::g]/', <url>
health_check_url: http://a b/ => 25 .health_check_url: found 'http://a b/', <url>
health_check_url: http://u:p@a/ => 25 .health_check_url: found 'http://u:***@a/', <url>; a login in the address is not supported yet: remove it
health_check_interval: 5 => 30 .health_check.interval: has no effect without 'health_check_url'
health_check_interval: x => 30 .health_check_interval: found 'x', expected a duration of at least 100ms: seconds as a number, or with a unit as in '500ms', '30s', '5m', '2h'
health_check: {retries: 1} => 31 .health_check.retries: has no effect without 'health_check_url'
health_check: {retries: 0} => 31 .health_check.retries: found '0', expected a whole number from 1 to 1000
health_check: {timeout: 0} => 31 .health_check.timeout: found '0', expected a duration of at least 1ms: seconds as a number, or with a unit as in '500ms', '30s', '5m', '2h'
",
    );
}

#[test]
fn keys_that_do_not_exist() {
    check(
        r#"
comand: x => 7 : unknown key 'comand'; did you mean 'command'?
cwd: x => 7 : unknown key 'cwd'; did you mean 'working_dir'?
zzz: x => 7 : unknown key 'zzz'
services: {} => 7 : unknown key 'services'; it belongs in 'supervisor'
restart: {dealy: 1} => 17 .restart: unknown key 'dealy'; did you mean 'delay'?
"a\x1b[31mb": x => 7 : unknown key 'a\u{1b}[31mb'
"#,
    );
}
