//! Checks that every entry of the table is complete, so a front needs nothing else.

use clap::Command;
use proctor_ops::operation::Effect;
use proctor_ops::table::{TABLE, find};
use proctor_ops::tools::Toolset;
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn every_field_of_every_input_and_output_says_what_it_is() {
    for entry in TABLE {
        let schema = entry.input_schema();
        let Some(Value::Object(fields)) = schema.get("properties") else { continue };
        for (name, field) in fields {
            let text = field.get("description").and_then(Value::as_str).unwrap_or_default();
            assert!(text.len() > 10, "{}: field '{name}' is not described", entry.meta.name);
        }
        assert_eq!(schema["type"], "object", "{}", entry.meta.name);
        assert_eq!(entry.output_schema()["type"], "object", "{}", entry.meta.name);
    }
}

#[test]
fn names_and_command_words_are_unique() {
    let mut names = BTreeSet::new();
    let mut words = BTreeSet::new();
    for entry in TABLE {
        let meta = &entry.meta;
        assert!(names.insert(meta.name), "{} is there twice", meta.name);
        assert!(words.insert(meta.cli.join(" ")), "{}: command is there twice", meta.name);
        for alias in meta.aliases {
            assert!(words.insert((*alias).to_owned()), "{alias} is there twice");
        }
        let (noun, verb) = meta.name.split_once('.').expect("noun.verb");
        assert!(!noun.is_empty() && !verb.is_empty() && !meta.cli.is_empty(), "{}", meta.name);
        assert!(std::ptr::eq(find(meta.name).expect("it is in the table"), entry));
    }
}

#[test]
fn every_command_has_a_summary_and_an_example_of_itself() {
    for entry in TABLE {
        let meta = &entry.meta;
        assert!(!meta.summary.is_empty() && !meta.summary.ends_with('.'), "{}", meta.name);
        let example = format!("\n  proctor {}", meta.cli.join(" "));
        assert!(meta.details.contains(&example), "{} has no example", meta.name);
        // Paragraphs are wrapped for display; an example is not.
        let mut examples = meta.details.lines().filter(|line| line.starts_with("  "));
        assert!(examples.all(|line| line.len() <= 100), "{}: an example is too wide", meta.name);
        let command = (entry.augment())(clap::Command::new("x"));
        let about = command.get_about().map(ToString::to_string);
        assert_eq!(about.as_deref(), Some(meta.summary), "what its help begins with");
        assert!(command.get_long_about().is_none(), "{} begins with another text", meta.name);
    }
}

#[test]
fn every_operation_can_be_named_in_allowed_commands_and_nothing_else_can() {
    let named: BTreeSet<&str> = proctor_core::command_allowlist::all().collect();
    let there: BTreeSet<&str> = TABLE.iter().map(|entry| entry.meta.name).collect();
    let missing: Vec<_> = there.difference(&named).collect();
    let too_many: Vec<_> = named.difference(&there).collect();
    assert!(missing.is_empty(), "add a line to core/src/commands.rs for {missing:?}");
    assert!(too_many.is_empty(), "no such operation, in core/src/commands.rs: {too_many:?}");
    for entry in TABLE {
        let word = entry.meta.cli.join(" ");
        let means = proctor_core::command_allowlist::operations(&word);
        let single = entry.meta.cli.len() == 1;
        assert!(
            !single || means.contains(&entry.meta.name),
            "'{word}' is a command and no word there"
        );
    }
}

#[test]
fn a_configuration_may_name_every_toolset_and_nothing_else() {
    let known: Vec<&str> = Toolset::ALL.map(Toolset::as_str).into();
    assert_eq!(proctor_core::config::mcp::toolsets().collect::<Vec<_>>(), known);
}

#[test]
fn effects_are_what_they_do() {
    let expected = [
        (
            Effect::Read,
            "service.list service.status service.wait log.read config.show daemon.status \
             operation.list operation.status token.list token.path \
             file.read file.list file.find file.search file.history \
             event.read daemon.health daemon.metrics mode.get audit.read audit.verify \
             git.status git.diff git.log git.show git.blame",
        ),
        (
            Effect::Write,
            "service.stop service.down service.signal service.remove service.lease operation.cancel \
             file.write file.edit file.change file.apply_diff file.move file.delete file.make_folder file.undo \
             git.add git.commit git.restore git.branch git.tag git.stash git.resolve",
        ),
        (
            Effect::Exec,
            "service.start service.restart service.up service.add command.execute \
             service.custom_restart config.reload change.check",
        ),
        (Effect::Admin, "daemon.stop daemon.upgrade token.create token.revoke mode.switch"),
    ];
    let count: usize = expected.iter().map(|(_, names)| names.split(' ').count()).sum();
    assert_eq!(count, TABLE.len(), "a new operation is not in this list");
    for (effect, names) in expected {
        for name in names.split(' ') {
            assert_eq!(find(name).expect("it is in the table").meta.effect, effect, "{name}");
        }
    }
}

fn check(operation: &str, line: &[&str], expected: &str) {
    let entry = find(operation).expect("it is in the table");
    let command = (entry.augment())(Command::new("test").no_binary_name(true));
    let matches = command.try_get_matches_from(line).unwrap_or_else(|e| panic!("{line:?}: {e}"));
    let input = entry.input(&matches).expect("an input");
    let expected: Value = serde_json::from_str(expected).expect("the test's own JSON");
    assert_eq!(input, expected, "{operation} {line:?}");
}

#[test]
fn command_lines_become_inputs() {
    check("service.start", &["web"], r#"{"names":["web"]}"#);
    check(
        "service.start",
        &[
            "--name",
            "web",
            "--command",
            "npm run dev",
            "--env",
            "PORT=3000",
            "--env",
            "A=b c",
            "--no-wait",
        ],
        r#"{"name":"web","command":"npm run dev","env":["PORT=3000","A=b c"],"no_wait":true}"#,
    );
    check(
        "service.start",
        &["--name", "job", "--once", "--restart-policy", "on-failure", "--", "./import", "--all"],
        r#"{"name":"job","once":true,"restart_policy":"on_failure","argv":["./import","--all"]}"#,
    );
    check(
        "service.stop",
        &["web", "db", "--timeout", "2.5"],
        r#"{"names":["web","db"],"wait":2.5}"#,
    );
    check(
        "service.restart",
        &["web", "--args", "--port '3 0'"],
        r#"{"names":["web"],"args":["--port","3 0"]}"#,
    );
    check(
        "service.list",
        &["--state", "failed", "--group", "g"],
        r#"{"group":["g"],"state":["failed"]}"#,
    );
    check("service.wait", &["web", "--until", "healthy"], r#"{"names":["web"],"until":"healthy"}"#);
    check(
        "service.signal",
        &["web", "HUP", "--tree"],
        r#"{"name":"web","signal":"HUP","tree":true}"#,
    );
}

#[test]
fn command_lines_that_define_become_inputs() {
    check("service.remove", &["web", "--purge"], r#"{"names":["web"],"purge":true}"#);
    check(
        "service.add",
        &[
            "api",
            "--port",
            "80",
            "--group",
            "g",
            "--autostart",
            "false",
            "--stop-grace",
            "3s",
            "--",
            "./api",
        ],
        r#"{"name":"api","argv":["./api"],"groups":["g"],"port":80,"autostart":false,"stop_grace":"3s"}"#,
    );
    check("service.up", &["-c", "x.yaml", "web"], r#"{"names":["web"],"config":"x.yaml"}"#);
    check("service.down", &["--keep-daemon"], r#"{"keep_daemon":true}"#);
    check(
        "log.read",
        &["web", "-n", "5", "--since", "10m", "--stream", "stderr", "--grep", "a|b"],
        r#"{"services":["web"],"tail":5,"since":"10m","stream":"stderr","grep":"a|b"}"#,
    );
    check("config.show", &["--check", "p.yaml"], r#"{"check":"p.yaml"}"#);
    check(
        "token.create",
        &["ci", "--role", "operator", "--expires", "7d"],
        r#"{"name":"ci","role":"operator","expires":"7d"}"#,
    );
    check(
        "audit.read",
        &["-n", "5", "--who", "ci", "--code", "forbidden"],
        r#"{"lines":5,"who":"ci","code":"forbidden"}"#,
    );
    check("token.revoke", &["ci"], r#"{"name":"ci"}"#);
    check("daemon.upgrade", &["--binary", "/b"], r#"{"binary":"/b"}"#);
}

#[test]
fn command_lines_that_contradict_themselves_are_refused() {
    for (operation, line) in [
        ("service.stop", &[][..]),
        ("service.stop", &["web", "--timeout", "1", "--no-wait"]),
        ("service.start", &["web", "--name", "x"]),
        ("service.start", &["--name", "x", "--command", "a", "--", "b"]),
        ("service.start", &["--name", "x", "--env", "NOVALUE"]),
        ("service.restart", &["web", "--args", "it's"]),
        ("service.list", &["--state", "asleep"]),
        ("log.read", &["web", "-n", "-3"]),
    ] {
        let entry = find(operation).expect("it is in the table");
        let command = (entry.augment())(Command::new("test").no_binary_name(true));
        assert!(command.try_get_matches_from(line).is_err(), "{operation} {line:?} was taken");
    }
}

/// Generated texts for programs name fields, and mark required ones.
#[test]
fn operations_on_git_say_what_they_need_and_nothing_of_a_shell() {
    for (name, field) in [("git.blame", "path"), ("git.restore", "paths")] {
        let schema = find(name).unwrap().input_schema();
        assert_eq!(schema["required"], serde_json::json!([field]), "{name}");
        assert_eq!(schema["properties"][field].get("default"), None, "{name}");
    }
    for entry in TABLE.iter().filter(|entry| entry.meta.name.starts_with("git.")) {
        let text = entry.input_schema().to_string() + &entry.output_schema().to_string();
        assert!(!text.contains("--") && !text.contains("shell"), "{}: {text}", entry.meta.name);
    }
}
