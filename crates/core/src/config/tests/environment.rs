//! Environment: variables, files, their order, and `${VAR}` everywhere.

use super::{config, problems, service, with_key};
use crate::config::{ConfigContext, parse};

fn check(block: &str, want: &[&str]) {
    let definition = service(&format!("command: serve\n{block}"));
    let env: Vec<String> =
        definition.env.iter().map(|(name, text)| format!("{name}={text}")).collect();
    assert_eq!(env, want, "{block}");
}

#[test]
fn variables_come_from_mappings_lists_and_files() {
    check("", &[]);
    check(
        "env: {A: x, B: 1.10, C: true, D: '', E: 'null', a.b-c: 1}",
        &["A=x", "B=1.10", "C=true", "D=", "E=null", "a.b-c=1"],
    );
    check("env: [A=x, 'B=a=b', C=]", &["A=x", "B=a=b", "C="]);
    check("env_file: .env", &["FROM=file", "SHARED=file", "DB_PASSWORD=abc"]);
    check(
        "env_file: [./.env, more.env]",
        &["FROM=file", "SHARED=more", "DB_PASSWORD=abc", "EXTRA=1 2"],
    );
    check("env_file: ['missing.env?', /srv/app/more.env?]", &["SHARED=more", "EXTRA=1 2"]);
    check("env_file: more.env\nenv: {SHARED: own}", &["SHARED=own", "EXTRA=1 2"]);
    check("env: {x-y: kept}", &["x-y=kept"]);
}

#[test]
fn a_port_is_exported_unless_the_environment_has_one() {
    check("port: 3000", &["PORT=3000"]);
    check("port: 3000\nenv: {PORT: 9}", &["PORT=9"]);
    check("port: 3000\nenv_file: port.env", &["PORT=1"]);
}

#[test]
fn the_service_is_laid_over_the_supervisor_and_env_over_files() {
    let env = |text: &str| -> Vec<String> {
        let config = config(text);
        config.services[0].env.iter().map(|(name, text)| format!("{name}={text}")).collect()
    };
    assert_eq!(
        env(
            "supervisor: {env_file: .env, env: {SHARED: sup}, services: {a: {command: x, env: {Z: 1}}}}"
        ),
        ["FROM=file", "SHARED=sup", "DB_PASSWORD=abc", "Z=1"]
    );
    assert_eq!(
        env(
            "supervisor: {env_file: .env, env: {SHARED: sup, S: 1}, services: {a: {command: x, env_file: more.env}}}"
        ),
        ["SHARED=more", "S=1", "EXTRA=1 2"]
    );
    assert_eq!(
        env("supervisor: {env_file: .env, services: {a: {command: x, env_file: []}}}"),
        Vec::<String>::new()
    );
}

#[test]
fn variables_are_put_into_texts_and_never_become_structure() {
    check("env: {A: 'x${INJECTION}'}", &["A=xx\n  evil: true # ${HOME}"]);
    check("env: {A: '$$${HOME} $HOME ${NOPE:-d} ${EMPTY-e}'}", &["A=$/home/me $HOME d "]);
    check("env: ['A=${HOME}', '${NOPE:-B}=c']", &["A=/home/me", "B=c"]);
    let definition = service("command: sh -c 'echo ${API_TOKEN}'\nautostart: ${NOPE:-false}");
    assert_eq!(definition.argv, ["sh", "-c", "echo hunter2"]);
    assert!(!definition.autostart);
}

/// A service with this key is refused with exactly these problems.
fn refused(table: &[(&str, &[&str])]) {
    for (key, want) in table {
        assert_eq!(problems(&with_key(key)), *want, "{key}");
    }
}

#[test]
fn what_is_wrong_with_variables_is_said_where_it_stands() {
    refused(&[
        (
            "env: {A: '${NOPE} ${NEITHER}'}",
            &[
                "proctor.yaml:5:16: services.web.env.A: the variable 'NOPE' is not set; set NOPE in the environment or in \
             '.env' beside the file, or write '${NOPE:-a default}'",
                "proctor.yaml:5:16: services.web.env.A: the variable 'NEITHER' is not set; set NEITHER in the environment \
             or in '.env' beside the file, or write '${NEITHER:-a default}'",
            ],
        ),
        (
            "env: {A: '${NOPE:?ask Kim}'}",
            &["proctor.yaml:5:16: services.web.env.A: the variable 'NOPE' is not set: ask Kim"],
        ),
        (
            "env: {A: }",
            &[
                "proctor.yaml:5:13: services.web.env.A: found nothing, expected text, a number, true or false ('' for an \
             empty one)",
            ],
        ),
        (
            "env: {A: [1]}",
            &[
                "proctor.yaml:5:16: services.web.env.A: found a list, expected text, a number, true or false ('' for an \
             empty one)",
            ],
        ),
        (
            "env: {1A: x, 'B C': y}",
            &[
                "proctor.yaml:5:13: services.web.env.1A: '1A' is not a valid variable name",
                "proctor.yaml:5:20: services.web.env.B C: 'B C' is not a valid variable name",
            ],
        ),
        (
            "env: {PROCTOR_INSTANCE: 1}",
            &[
                "proctor.yaml:5:13: services.web.env.PROCTOR_INSTANCE: 'PROCTOR_INSTANCE' is set by Proctor",
            ],
        ),
        (
            "env: [A, B=1, B=2, =x]",
            &[
                "proctor.yaml:5:13: services.web.env[0]: found no '=', expected KEY=VALUE",
                "proctor.yaml:5:21: services.web.env[2]: duplicate variable 'B'; remove one of them",
                "proctor.yaml:5:26: services.web.env[3]: '' is not a valid variable name",
            ],
        ),
        (
            "env: A=1",
            &[
                "proctor.yaml:5:12: services.web.env: found 'A=1', expected a mapping of variables, or a list of KEY=VALUE",
            ],
        ),
        (
            "env: {A: \"x\\0y\"}",
            &["proctor.yaml:5:16: services.web.env.A: the text contains a NUL character"],
        ),
    ]);
}

#[test]
fn what_is_wrong_with_files_is_said_where_it_stands() {
    refused(&[
        (
            "env_file: nope.env",
            &[
                "proctor.yaml:5:17: services.web.env_file: cannot read '/srv/app/nope.env': no such file; create the file, or \
             write 'nope.env?' if it may be missing",
            ],
        ),
        (
            "env_file: ~/x",
            &[
                "proctor.yaml:5:17: services.web.env_file: '~' is not expanded, found '~/x'; write ${HOME}/…, or a path from '/'",
            ],
        ),
        (
            "env_file: [/etc/broken.env, instance.env]",
            &[
                "/etc/broken.env:2:1: expected KEY=VALUE, found no '='",
                "/srv/app/instance.env:2:1: 'PROCTOR_INSTANCE' is set by Proctor",
            ],
        ),
    ]);
}

#[test]
fn a_file_that_many_services_share_is_complained_about_once() {
    let text = "supervisor: {env_file: nope.env, services: {a: {command: x}, b: {command: y}}}";
    assert_eq!(problems(text).len(), 1);
    let text = "supervisor: {services: {a: {command: x, env_file: /etc/broken.env}, b: {command: y, env_file: \
                /etc/broken.env}}}";
    assert_eq!(problems(text), ["/etc/broken.env:2:1: expected KEY=VALUE, found no '='"]);
}

#[test]
fn a_secret_variable_is_not_shown_in_a_problem() {
    assert_eq!(
        problems(&with_key("port: '${API_TOKEN}'")),
        [
            "proctor.yaml:5:13: services.web.port: found '***', expected a whole number from 1 to 65535"
        ]
    );
}

#[test]
fn env_files_set_no_secret_of_proctor_and_env_does() {
    let read = |path: &str| match path {
        "/srv/app/a.env" => Ok("SUPERVISOR_TOKEN=x\nPLAIN=1\nDEPLOY=2\nCOPY=is-the-token\n".into()),
        _ => Err("no such file".to_owned()),
    };
    let var = |name: &str| match name {
        "DEPLOY" | "HOME" => Some("is-the-token".to_owned()),
        _ => None,
    };
    let around = ConfigContext { base_dir: "/srv/app", var: &var, read: &read };
    let text = "supervisor:
  security: { authentication: { token: \"${DEPLOY}\" }, execute: { allowed: [\"${HOME}/x\"] } }
  services: { a: { command: x, env_file: a.env, env: { PROCTOR_TOKEN: mine } } }";
    let config = parse("proctor.yaml", text, &around).unwrap();
    let plain = ("PLAIN".to_owned(), "1".to_owned());
    assert_eq!(config.services[0].env, [plain, ("PROCTOR_TOKEN".into(), "mine".into())]);
    assert_eq!(config.own_secrets.names().iter().collect::<Vec<_>>(), ["DEPLOY"]);
    assert!(config.own_secrets.holds("OTHER", "is-the-token"));
}
