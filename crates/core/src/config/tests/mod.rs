//! Tests of the configuration as users see it: text in, definitions or problems out.

mod bad;
mod bad_values;
mod environment;
mod generated;
mod good;
mod hostile;
mod listeners;
mod security;
mod shape;
mod shown;

use super::own_secrets::OwnSecrets;
use super::{Config, ConfigContext, Problem, ServiceDef, parse, parse_service};

/// Variables and files that exist in these tests.
fn variable(name: &str) -> Option<String> {
    match name {
        "PORT_NUMBER" => Some("8080".into()),
        "DELAY" => Some("5s".into()),
        "HOME" => Some("/home/me".into()),
        "INJECTION" => Some("x\n  evil: true # ${HOME}".into()),
        "API_TOKEN" => Some("hunter2".into()),
        "EMPTY" => Some(String::new()),
        "OPERATORS" => Some("a|b;$X>c".into()),
        _ => None,
    }
}

fn read(path: &str) -> Result<String, String> {
    match path {
        "/srv/app/.env" => Ok("FROM=file\nSHARED=file\nDB_PASSWORD=abc\n".into()),
        "/srv/app/more.env" => Ok("SHARED=more\nexport EXTRA='1 2'\n".into()),
        "/etc/broken.env" => Ok("A=1\nnonsense\n".into()),
        "/srv/app/port.env" => Ok("PORT=1\n".into()),
        "/srv/app/large.env" => Ok("BIG=".to_string() + &"x".repeat(1_000_000)),
        "/srv/app/instance.env" => Ok("\nPROCTOR_INSTANCE=1\n".into()),
        _ => Err("no such file".into()),
    }
}

fn around() -> ConfigContext<'static> {
    ConfigContext { base_dir: "/srv/app", var: &variable, read: &read }
}

fn config(text: &str) -> Config {
    parse("proctor.yaml", text, &around()).unwrap_or_else(|problems| {
        panic!("{text}\n{}", lines(&problems).join("\n"));
    })
}

fn problems(text: &str) -> Vec<String> {
    match parse("proctor.yaml", text, &around()) {
        Ok(_) => panic!("was taken:\n{}", text.chars().take(500).collect::<String>()),
        Err(problems) => lines(&problems),
    }
}

fn lines(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// The only service of a block of service keys, given as YAML.
fn service(block: &str) -> ServiceDef {
    let mut services = services(block);
    assert_eq!(services.len(), 1, "{block}");
    services.remove(0)
}

fn services(block: &str) -> Vec<ServiceDef> {
    parse_service("given", "web", block, &around(), &OwnSecrets::default())
        .unwrap_or_else(|problems| panic!("{block}\n{}", lines(&problems).join("\n")))
}

/// A file with one service `web` that has a command and this key; the key is in line 5, column 7.
fn with_key(key: &str) -> String {
    format!("supervisor:\n  services:\n    web:\n      command: serve\n      {key}\n")
}
