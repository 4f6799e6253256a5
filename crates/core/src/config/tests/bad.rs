//! All mistakes other than a bad value, with their messages and places.

use super::{around, lines, problems};
use crate::config::own_secrets::OwnSecrets;
use crate::config::parse_service;

#[test]
fn commands_that_cannot_be_run() {
    let table = [
        (
            "command: serve 'x",
            "2:10: services.web.command: a quote is not closed, or the text ends with a backslash: \
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
            "3:7: services.web.port: 2 instances from port 65535 on exceed port 65535",
        ),
        (
            "command: a\nhealth_check_url: http://x\nhealth_check_interval: 5\nhealth_check: {interval: 5}",
            "4:24: services.web.health_check_interval: 'health_check.interval' sets it too; remove one of them",
        ),
        (
            "command: a\nuser: me\nsupplementary_groups: [a b]",
            "4:23: services.web.supplementary_groups: found 'a b', \
          expected a group",
        ),
    ];
    for (block, want) in table {
        let found = parse_service(
            "f",
            "web",
            &format!("# a service\n{block}"),
            &around(),
            &OwnSecrets::default(),
        )
        .unwrap_err();
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
        ("web@1", "services: service name 'web@1' may not contain an '@': use 'instances'"),
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
        problems(
            "services:\n  web: {command: x, primary: true, instances: 2}\n  db: {command: y, primary: true}\n"
        ),
        [
            "proctor.yaml:3:3: services.db.primary: 'web' is already the primary service; remove it from one of them"
        ]
    );
    assert_eq!(
        problems("services:\n  web: {command: x}\n  db: {command: y, groups: [web]}\n"),
        [
            "proctor.yaml:2:3: services.web: a group of 'db' has the same name; rename the service or the group"
        ]
    );
    assert_eq!(
        lines(
            &parse_service("f", "../x", "command: x", &around(), &OwnSecrets::default())
                .unwrap_err()
        )[0]
        .split(':')
        .next(),
        Some("f")
    );
}

#[test]
fn keys_that_stand_in_the_wrong_place() {
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
        ("{}", format!("1:1: the file has no keys; {example}")),
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
        ("a: 1\n---\nb: 2", "2:1: a second document begins here; a file may have only one".into()),
        (
            "services: {a: &a {command: *a}}",
            "1:28: services.a.command: this alias refers to a node that contains it".into(),
        ),
        (
            "services: {a: !!map {}}",
            "1:15: services.a: the tag '!!map' is not supported; remove it".into(),
        ),
        ("services: {[a]: {}}", "1:12: services: a key must be text".into()),
        ("services: {<<: 1}", "1:16: services: '<<' takes a mapping or a list of mappings".into()),
        ("a\0b", "1:2: the file contains a NUL byte".into()),
    ];
    for (text, want) in table {
        let found = problems(text);
        assert_eq!(found[0], format!("proctor.yaml:{want}"), "{text}");
    }
    assert_eq!(problems("supervisor: {}").len(), 1);
    assert!(parse_service("f", "web", "", &around(), &OwnSecrets::default()).is_err());
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
            found[0].starts_with(&format!("proctor.yaml:{place}: invalid YAML: ")),
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
            "proctor.yaml:7:7: services.web: duplicate key 'port'; remove one of them",
            "proctor.yaml:12:16: services.db.restart.delay: found 'soon', expected a duration: milliseconds as a number, \
             or with a unit as in '500ms', '30s', '5m', '2h', or 'none'",
            "proctor.yaml:13:3: supervisor: unknown key 'hots'; did you mean 'host'?",
        ]
    );
}

#[test]
fn a_command_with_shell_syntax_is_an_ambiguity_that_names_shell_true() {
    let ambiguities = |service: &str| {
        let text = format!("services: {{web: {{{service}}}}}");
        let config = crate::config::parse("proctor.yaml", &text, &super::around()).unwrap();
        config.ambiguities.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for (command, token) in [("a | b", "|"), ("PORT=3 node x", "PORT="), ("a $X", "$X")] {
        let found = ambiguities(&format!("command: '{command}'"));
        assert_eq!(found.len(), 1, "{command}");
        let expected = format!("services.web.command: '{token}' needs a shell");
        assert!(found[0].contains(&expected), "{found:?}");
        assert!(found[0].contains("'shell: true'"), "{found:?}");
    }
    for fine in ["command: 'a | b', shell: true", "command: [a, '|', b]", "command: 'a *'"] {
        assert_eq!(ambiguities(fine), [""; 0], "{fine}");
    }
    // The value of a variable is data, whatever it contains.
    assert_eq!(ambiguities("command: 'a ${OPERATORS}'"), [""; 0]);
}

#[test]
fn columns_count_characters() {
    let text = "services: {wéb: {command: x, \"ü\": 1}}";
    let found = problems(text);
    assert!(found[0].starts_with("proctor.yaml:1:12: services: service name 'wéb'"), "{found:?}");
    assert_eq!(found[1], "proctor.yaml:1:30: services.wéb: unknown key 'ü'");
}
