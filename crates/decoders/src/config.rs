//! Untrusted configuration text results in definitions that a keeper can run, or in problems with a
//! place.

use proctor_core::config::own_secrets::OwnSecrets;
use proctor_core::config::{Config, ConfigContext, Problem, ServiceDef, parse, parse_service};
use std::collections::BTreeSet;

/// Variables and files that exist in these checks.
fn variable(name: &str) -> Option<String> {
    match name {
        "HOME" => Some("/home/me".into()),
        "PORT_NUMBER" => Some("8080".into()),
        "EMPTY" => Some(String::new()),
        "API_TOKEN" => Some("hunter2hunter2".into()),
        "INJECTION" => Some("x\n  evil: true # ${HOME}".into()),
        _ => None,
    }
}

fn read(path: &str) -> Result<String, String> {
    match path {
        "/srv/app/.env" => Ok("FROM=file\nDB_PASSWORD=abcabc\n".into()),
        "/srv/app/broken.env" => Ok("A=1\nnonsense\n".into()),
        _ => Err("no such file".into()),
    }
}

pub(crate) fn around() -> ConfigContext<'static> {
    ConfigContext { base_dir: "/srv/app", var: &variable, read: &read }
}

/// A whole file, and the block of one service.
pub(crate) fn file(bytes: &[u8]) {
    let text = crate::lossy(bytes);
    match parse("proctor.yaml", &text, &around()) {
        Ok(config) => right(&config),
        Err(problems) => placed(&problems, &text),
    }
    match parse_service("proctor.yaml", "web", &text, &around(), &OwnSecrets::default()) {
        Ok(services) => services.iter().for_each(runnable),
        Err(problems) => placed(&problems, &text),
    }
}

fn right(config: &Config) {
    config.services.iter().for_each(runnable);
    let names: BTreeSet<&str> = config.services.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names.len(), config.services.len(), "a name stands for two services");
    for member in config.groups.values().flatten() {
        assert!(names.contains(member.as_str()), "{member} is in a group and nowhere else");
    }
    for setting in &config.settings {
        let value = serde_json::from_str::<serde_json::Value>(&setting.value);
        assert!(value.is_ok(), "{} is not JSON", setting.key);
        assert!(!setting.value.contains("hunter2"), "{} shows a secret", setting.key);
    }
}

/// Checks what the keeper relies on without a check of its own.
fn runnable(service: &ServiceDef) {
    assert!(!service.argv.is_empty() && !service.argv[0].is_empty(), "there is nothing to run");
    assert!(service.working_dir.starts_with('/'), "{}", service.working_dir);
    let words =
        service.argv.iter().chain(service.env.iter().flat_map(|(name, value)| [name, value]));
    for word in words.chain([&service.working_dir]) {
        assert!(!word.contains('\0'), "the kernel takes no NUL: {word:?}");
    }
    for (name, _) in &service.env {
        assert!(!name.is_empty() && !name.contains('='), "{name:?} is no variable");
    }
    let restart = &service.restart;
    assert!(restart.backoff >= 1.0 && (0.0..=1.0).contains(&restart.jitter), "{restart:?}");
    assert!(service.logs.max_segments >= 2 && service.logs.segment_bytes > 0);
}

fn placed(problems: &[Problem], text: &str) {
    assert!(!problems.is_empty(), "refused, and nobody knows why");
    let lines = text.split(['\n', '\r']).count() + 1;
    let own: Vec<&Problem> = problems.iter().filter(|it| it.file == "proctor.yaml").collect();
    for problem in &own {
        assert!(problem.line >= 1 && problem.column >= 1, "{problem}");
        assert!(problem.line as usize <= lines, "{problem} is outside of the text");
        assert!(!problem.message.contains(char::is_control), "{problem:?}");
        assert!(!problem.to_string().contains("hunter2"), "{problem} shows a secret");
    }
    assert!(own.iter().map(|it| (it.line, it.column)).is_sorted(), "problems are out of order");
}

/// One text with variables: only its `$` forms change, and escaped text stays.
pub(crate) fn text(bytes: &[u8]) {
    let text = crate::lossy(bytes).replace('\0', "");
    if let Ok(read) = argument(&text) {
        if !text.contains('$') {
            assert_eq!(read, text, "a text without a variable was changed");
        }
        let literal = text.split("${").next().unwrap_or_default().replace("$$", "$");
        assert!(read.starts_with(literal.trim_end_matches('$')), "{read:?} of {text:?}");
    }
    let escaped = argument(&text.replace('$', "$$"));
    assert_eq!(escaped.as_deref(), Ok(text.as_str()), "an escaped text was changed");
}

fn argument(text: &str) -> Result<String, Vec<Problem>> {
    let block = serde_json::json!({ "command": "serve", "args": [text] }).to_string();
    let services = parse_service("proctor.yaml", "web", &block, &around(), &OwnSecrets::default());
    services.map(|mut services| services.remove(0).argv.remove(1))
}

pub(crate) fn seeds_file() -> Vec<Vec<u8>> {
    let whole = "# all of it\nsupervisor:\n  restart_policy: always\n  env: {A: '1'}\n  services:\n    web:\n      command: npm run dev\n      args: [--port, \"${PORT_NUMBER:-3000}\"]\n      instances: 2\n      port: 3000\n      env_file: [.env, ?none.env]\n      env:\n        TOKEN: ${API_TOKEN}\n      stop: {signal: INT, grace: 5s}\n      restart: &ladder {delay: 1s, max_delay: 1m, backoff: 2, jitter: 0.2, window: 10m}\n      logs: {max_size: 1MiB, max_files: 3, on_full: block}\n      limits: {nofile: 1024:4096, core: 0}\n      health_check_url: http://localhost:3000/health\n      groups: [front]\n    job:\n      command: [/bin/sh, -c, 'echo $$HOME']\n      restart_policy: one_shot\n      restart: *ladder\n      user: nobody:nogroup\n      umask: '022'\n";
    let flow =
        r#"{"services": {"a": {"command": "x", "shell": true, "env": ["K=v"]}}, "x-note": [1]}"#;
    let service = "command: serve --now\nworking_dir: sub/dir\non_shutdown: leave\nmax_restarts: unlimited\n<<: {nice: 5}\n";
    let wrong = "supervisor:\n  services:\n    web:\n      comand: x\n      port: 99999\n      env: {A: ${NOPE}}\n";
    [whole, flow, service, wrong, "services: {}", ""].map(|text| text.as_bytes().to_vec()).to_vec()
}

pub(crate) fn seeds_text() -> Vec<Vec<u8>> {
    [
        "plain",
        "${HOME}/x",
        "${NOPE:-${HOME}-y}",
        "$${HOME} $1 $(date) $",
        "${API_TOKEN:?why}",
        "${EMPTY-a}${EMPTY:-b}",
        "${INJECTION}",
        "${A",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
