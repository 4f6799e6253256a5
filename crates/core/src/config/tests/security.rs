//! Permissions: file, variables, defaults and refused values.

use super::{around, config, lines};
use crate::access::{AnonymousAccess, Role};
use crate::assistant_policy::{AssistantAccess, AssistantLimits, Control};
use crate::config::backups::Backups;
use crate::config::execute::Execute;
use crate::config::git::Git;
use crate::config::mcp::Mcp;
use crate::config::security::{Audit, ConfiguredToken, Security};
use crate::config::{ConfigContext, parse};
use crate::time::Millis;

fn file(keys: &str) -> String {
    format!("supervisor:\n  {keys}\n  services: {{}}\n")
}

fn refused(keys: &str) -> Vec<String> {
    lines(&parse("proctor.yaml", &file(keys), &around()).unwrap_err())
}

#[test]
fn a_file_that_says_nothing_lets_the_owner_read_without_a_token() {
    let security = config(&file("x-nothing: 1")).security;
    let expected = Security {
        strangers: AnonymousAccess::Read,
        token: None,
        allowed: None,
        execute: Execute::NOTHING,
        mcp: Mcp {
            reach: AssistantLimits::USUAL,
            toolsets: ["processes", "logs", "files", "git"][..].into(),
        },
        audit: Audit { reads: false, max_size: 16 << 20, max_files: 64 },
        git: Git::USUAL,
        backups: Backups { generations: 20, bytes: 256 << 20 },
    };
    assert_eq!(security, expected);
    assert_eq!(Security::without_file(&|_| None).unwrap(), expected);
}

#[test]
fn what_is_kept_of_files_is_bounded_as_the_file_says() {
    let kept = config(&file("backups: { generations: 3, max_total: 1M }")).security.backups;
    assert_eq!(kept, Backups { generations: 3, bytes: 1 << 20 });
    assert!(refused("backups: { generations: -1 }")[0].contains("backups.generations"));
}

#[test]
fn strangers_tokens_and_commands_are_as_the_file_says() {
    let check = |keys: &str, strangers| {
        let keys = format!("security: {{ authentication: {{ {keys} }} }}");
        assert_eq!(config(&file(&keys)).security.strangers, strangers, "{keys}");
    };
    check("enabled: true", AnonymousAccess::Read);
    check("enabled: false", AnonymousAccess::All);
    check("anonymous_read: false", AnonymousAccess::Nothing);
    let keys = "security: { allowed_commands: [restart, service.stop, status], audit: { reads: true, max_size: 1M }, \
                authentication: { token: 12345678 } }";
    let security = config(&file(keys)).security;
    let allowed: Vec<&str> = security.allowed.unwrap().into_iter().collect();
    let status = ["daemon.status", "service.list", "service.restart", "service.status"];
    assert_eq!(allowed, [&status[..], &["service.stop"]].concat());
    assert_eq!(security.token, Some(ConfiguredToken("12345678".into())));
    assert_eq!((security.audit.reads, security.audit.max_size), (true, 1 << 20));
    let keys = "security: { execute: { allowed: [make 'a b', ./tool] } }";
    let execute = config(&file(keys)).security.execute;
    let allows =
        |words: &[&str]| execute.allows(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
    assert!(allows(&["make", "a b"]) && allows(&["./tool"]) && !allows(&["make", "a"]));
    let why = "supervisor.security.execute.env: found 'A=b', expected the name of a variable";
    assert!(refused("security: { execute: { env: [A=b] } }")[0].contains(why));
    let open = "security: { execute: { allowed: [\"it's\"] } }";
    let why = "supervisor.security.execute.allowed: found 'it's', expected a command";
    assert_eq!(refused(open), [format!("proctor.yaml:2:35: {why}")]);
    let none = config(&file("security: { allowed_commands: [] }")).security;
    assert_eq!(none.allowed.map(|all| all.len()), Some(0), "an empty list allows nothing");
}

#[test]
fn assistants_may_do_and_are_offered_what_the_file_says() {
    let check = |keys: &str, role, control, toolsets: &[&str]| {
        let mcp = config(&file(&format!("mcp: {{ {keys} }}"))).security.mcp;
        let found = (mcp.reach, mcp.toolsets.as_ref());
        assert_eq!(found, (AssistantLimits { role, control }, toolsets), "{keys}");
    };
    let usual = &["processes", "logs", "files", "git"];
    check("role: viewer", Role::Viewer, Control::All, usual);
    check("role: operator, control: own", Role::Operator, Control::Own, usual);
    check("role: admin, control: all", Role::Admin, Control::All, usual);
    check("toolsets: [system, logs, logs]", Role::Admin, Control::All, &["system", "logs"]);
    check("toolsets: []", Role::Admin, Control::All, &[]);
    let why = |keys: &str| refused(&format!("mcp: {{ {keys} }}")).join("\n");
    let sets = "proctor.yaml:2:27: supervisor.mcp.toolsets[1]: found 'fils', expected one of processes, logs, files, git, system";
    assert_eq!(why("toolsets: [logs, fils]"), sets);
    assert!(why("role: root").contains("expected one of viewer, operator, admin"));
    assert!(why("control: none").contains("expected one of own, all"));
    assert!(why("toolsets: logs").contains("a list of"), "{}", why("toolsets: logs"));
}

#[test]
fn what_assistants_may_do_with_a_service_is_its_own_or_the_supervisors() {
    let text = "supervisor:\n  assistants: view\n  services:\n    a: { command: x }\n    b: { command: x, assistants: control }\n";
    let found: Vec<AssistantAccess> =
        config(text).services.iter().map(|it| it.assistants).collect();
    assert_eq!(found, [AssistantAccess::View, AssistantAccess::Control]);
    let text = "services: { a: { command: x } }";
    assert_eq!(config(text).services[0].assistants, AssistantAccess::Control);
}

#[test]
fn what_is_open_to_other_machines_is_refused_where_it_must_not_be() {
    let tls = "http: { host: 0.0.0.0, tls: { cert: c, key: k } }";
    for (keys, why) in [
        (
            format!("{tls}\n  security: {{ bind_to_localhost: true }}"),
            "proctor.yaml:2:17: supervisor.http.host: other machines can reach this address, and \
             security.bind_to_localhost forbids it; use 127.0.0.1",
        ),
        (
            format!("{tls}\n  security: {{ authentication: {{ enabled: false }} }}"),
            "proctor.yaml:3:42: supervisor.security.authentication: it is switched off, and other machines can reach \
             supervisor.http.host; switch it on, or use 127.0.0.1",
        ),
        (
            "security: { allowed_commands: [status, restrat] }".into(),
            "proctor.yaml:2:33: supervisor.security.allowed_commands: found 'restrat', expected a list of commands \
             (status, restart) or operations (service.restart); did you mean 'restart'?",
        ),
    ] {
        assert_eq!(refused(&keys), [why], "{keys}");
    }
    config(&file("security: { bind_to_localhost: true }"));
}

#[test]
fn a_token_is_in_no_message_and_no_setting() {
    let message = refused("security: { authentication: { token: hunter2 } }").join("\n");
    assert!(message.contains("found '***'") && !message.contains("hunter2"), "{message}");
    let short = |name: &str| (name == "SUPERVISOR_TOKEN").then(|| "hunter2".to_string());
    let message = lines(&Security::without_file(&short).unwrap_err()).join("\n");
    assert!(message.contains("environment SUPERVISOR_TOKEN: found '***'"), "{message}");
    assert!(!message.contains("hunter2"), "{message}");
    let var = |name: &str| (name == "SUPERVISOR_TOKEN").then(|| "opensesame".to_string());
    let around = ConfigContext { base_dir: "/", var: &var, read: &|_| Err("none".into()) };
    let text = file("security: { authentication: { token: of-the-file } }");
    let config = parse("proctor.yaml", &text, &around).unwrap();
    assert_eq!(config.security.token, Some(ConfiguredToken("opensesame".into())));
    let all = format!("{config:?}");
    assert!(!all.contains("opensesame") && !all.contains("of-the-file"), "{all}");
    let key = "supervisor.security.authentication.token";
    let setting = config.settings.iter().find(|it| it.key == key).unwrap();
    assert_eq!(
        (setting.value.as_str(), setting.origin.as_str()),
        ("\"***\"", "environment SUPERVISOR_TOKEN")
    );
}

#[test]
fn repositories_are_trusted_by_their_folder_and_protocols_by_their_name() {
    let keys = "git: { trusted: [., /srv/x/, ../lib], protocols: [https, ssh], timeout: 5 }";
    let git = config(&file(keys)).security.git;
    assert_eq!(git.trusted, ["/srv/app", "/srv/x", "/srv/app/../lib"]);
    assert_eq!((git.protocols, git.timeout), (vec!["https".into(), "ssh".into()], Millis(5000)));
    assert_eq!(
        refused("git: { trusted: [~/x], protocols: [ext] }"),
        [
            "proctor.yaml:2:19: supervisor.git.trusted: '~' is not expanded, found '~/x'; write ${HOME}/…, or a path \
             from '/'",
            "proctor.yaml:2:37: supervisor.git.protocols: found 'ext', expected https, http, ssh, git or file",
        ]
    );
}
