//! Every operation that changes services × owner of the service × caller: refused if and only if the rule says so. The rule is
//! written here a second time, independently of the code.

use crate::played::Place;
use proctor_ops::dispatch::dispatch;
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::{
    Caller, ClientName, Context, Effect, Front, Principal, Role, TokenId,
};
use proctor_ops::reply::Form;
use proctor_ops::table::TABLE;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Requests that change the service `$`.
const REQUESTS: &[(&str, &str)] = &[
    ("service.start", r#"{"names":["$"],"no_wait":true}"#),
    (
        "service.start",
        r#"{"name":"$","command":"true","replace":true,"base_dir":"/","no_wait":true}"#,
    ),
    ("service.add", r#"{"name":"$","command":"true","replace":true,"base_dir":"/"}"#),
    ("service.stop", r#"{"names":["$"],"no_wait":true}"#),
    ("service.stop", r#"{"names":["mine","group-of-$"],"no_wait":true}"#),
    ("service.restart", r#"{"names":["$"],"no_wait":true}"#),
    ("service.restart", r#"{"names":["$"],"args":["x"],"no_wait":true}"#),
    (
        "change.check",
        r#"{"service":"$","files":[{"path":"nothing","edits":[{"old":"a","new":"b"}]}]}"#,
    ),
    ("service.custom_restart", r#"{"service":"$","wait":0}"#),
    ("service.signal", r#"{"name":"$","signal":"HUP"}"#),
    ("service.signal", r#"{"name":"group-of-$","signal":"HUP"}"#),
    ("service.lease", r#"{"name":"$","lease":"1h"}"#),
    ("service.remove", r#"{"names":["$"],"no_wait":true}"#),
];

/// Requests that concern every running service.
const EVERYTHING: &[(&str, &str)] = &[
    ("service.stop", r#"{"names":["all"],"no_wait":true}"#),
    ("service.down", r#"{"keep_daemon":true,"no_wait":true}"#),
    ("daemon.stop", "{}"),
];

/// Operations with a test of their own below, or that change no service.
const OTHERS: &[&str] = &[
    "file.write",
    "file.edit",
    "file.change",
    "file.apply_diff",
    "file.move",
    "file.delete",
    "file.make_folder",
    "file.undo",
    "service.up",
    "config.reload",
    "command.execute",
    "operation.cancel",
    "mode.switch",
    "token.create",
    "token.revoke",
    "daemon.upgrade",
    "git.add",
    "git.commit",
    "git.restore",
    "git.branch",
    "git.tag",
    "git.stash",
    "git.resolve",
];

/// Services with their owners: assistant a, assistant b, a person, a file, and a file with `assistants: view`.
const SERVICES: [(&str, Option<&str>); 5] = [
    ("mine", Some("a")),
    ("theirs", Some("b")),
    ("added", None),
    ("filed", None),
    ("viewed", None),
];

const FILE: &str = "supervisor:
  mcp: { control: CONTROL }
  services:
    filed: { command: \"true\", groups: [group-of-filed] }
    viewed: { command: \"true\", groups: [group-of-viewed], assistants: view }
";

pub(crate) fn assistant(name: &str) -> Caller {
    Caller::local(0).through(Front::Mcp, ClientName::parse(name))
}

fn callers() -> Vec<Caller> {
    let (id, name, role) = (TokenId("t".into()), "ci".to_owned(), Role::Admin);
    let peer = "127.0.0.1:1".parse().unwrap();
    let token = Caller::remote(Principal::Token { id, name, role }, Front::Mcp, peer);
    let through = token.through(Front::Mcp, ClientName::parse("a"));
    vec![Caller::local(0), assistant("a"), assistant(""), through]
}

pub(crate) async fn ask(
    context: &Context,
    caller: &Caller,
    name: &str,
    input: Value,
) -> Result<(), OpError> {
    dispatch(&context.called_by(caller.clone()), name, input, Form::Json).await.map(drop)
}

#[track_caller]
fn write(place: &Place, text: &str) -> PathBuf {
    let file = place.folder.path().join("proctor.yaml");
    std::fs::write(&file, text).unwrap();
    file
}

fn up(file: &PathBuf) -> Value {
    json!({ "config": file, "environment": { "PATH": "/bin" }, "base_dir": "/", "no_wait": true })
}

/// Runs a daemon with all services.
pub(crate) fn with_services(control: &str, body: impl AsyncFnOnce(&Place, Context)) {
    let place = Place::new();
    let file = write(&place, &FILE.replace("CONTROL", control));
    place.daemon(async |context| {
        ask(&context, &Caller::local(0), "service.up", up(&file)).await.unwrap();
        for service in SERVICES {
            restore(&context, service).await;
        }
        body(&place, context).await;
    });
}

/// Restores all services after a change to this one.
async fn restore(context: &Context, (service, owner): (&str, Option<&str>)) {
    let person = Caller::local(0);
    if !["filed", "viewed"].contains(&service) {
        // It may be gone, or belong to another caller.
        ask(context, &person, "service.remove", json!({ "names": [service] })).await.ok();
        let add = json!({
            "name": service, "command": "true", "base_dir": "/", "environment": { "PATH": "/bin" },
            "groups": [format!("group-of-{service}")],
        });
        ask(context, &owner.map_or(person.clone(), assistant), "service.add", add).await.unwrap();
    }
    let all = json!({ "names": ["all"], "no_wait": true });
    ask(context, &person, "service.start", all).await.unwrap();
}

fn is_forbidden(control: &str, caller: &Caller, service: &str, owner: Option<&str>) -> bool {
    let own = owner.is_some() && caller.client.as_ref().map(ClientName::as_str) == owner;
    caller.front == Front::Mcp && (service == "viewed" || (control == "own" && !own))
}

#[test]
fn an_assistant_changes_what_it_may_and_everybody_else_everything() {
    for control in ["all", "own"] {
        with_services(control, async |_, context| {
            for caller in callers() {
                for (service, owner) in SERVICES {
                    for (name, input) in REQUESTS {
                        // This one names two services; the other is allowed.
                        if input.contains("mine") && caller.client.is_none() && control == "own" {
                            continue;
                        }
                        let input = serde_json::from_str(&input.replace('$', service)).unwrap();
                        let answer = ask(&context, &caller, name, input).await;
                        let expected = is_forbidden(control, &caller, service, owner);
                        let who = format!("{control} {caller:?} {name} {service}: {answer:?}");
                        check(answer, expected, &who, service);
                        if !expected && !name.ends_with(".signal") {
                            restore(&context, (service, owner)).await;
                        }
                    }
                }
            }
        });
    }
}

#[track_caller]
fn check(answer: Result<(), OpError>, forbidden: bool, who: &str, service: &str) {
    let refused = answer.err().filter(|error| error.code == Code::Forbidden);
    assert_eq!(refused.is_some(), forbidden, "{who}");
    if let Some(error) = refused {
        let key = match service {
            "viewed" => "`assistants: view`",
            _ => "`supervisor.mcp.control: own`",
        };
        assert!(error.message.contains(service) && error.message.contains(key), "{who}");
        assert_eq!(error.details.unwrap()["services"], json!([service]), "{who}");
    }
}

#[test]
fn what_concerns_every_service_is_refused_for_one_that_runs() {
    for control in ["all", "own"] {
        with_services(control, async |_, context| {
            for caller in callers() {
                for (name, input) in EVERYTHING {
                    let input: Value = serde_json::from_str(input).unwrap();
                    let answer = ask(&context, &caller, name, input).await;
                    let forbidden = caller.front == Front::Mcp;
                    let who = format!("{control} {caller:?} {name}: {answer:?}");
                    let refused = answer.is_err_and(|error| error.code == Code::Forbidden);
                    assert_eq!(refused, forbidden, "{who}");
                    restore(&context, SERVICES[0]).await;
                }
            }
            // This changes nothing for a service that neither runs nor will run.
            let (person, down) =
                (Caller::local(0), json!({ "keep_daemon": true, "no_wait": true }));
            ask(&context, &person, "service.down", down.clone()).await.unwrap();
            ask(&context, &assistant("a"), "service.down", down.clone()).await.unwrap();
            let mine = json!({ "names": ["mine"], "no_wait": true });
            ask(&context, &assistant("a"), "service.start", mine).await.unwrap();
            ask(&context, &assistant("a"), "service.down", down).await.unwrap();
        });
    }
}

#[test]
fn no_operation_that_changes_something_was_forgotten() {
    let tested =
        REQUESTS.iter().chain(EVERYTHING).map(|(name, _)| *name).chain(OTHERS.iter().copied());
    let tested: BTreeSet<&str> = tested.collect();
    let changes = TABLE.iter().filter(|entry| entry.meta.effect != Effect::Read);
    let changes: BTreeSet<&str> = changes.map(|entry| entry.meta.name).collect();
    assert_eq!(tested, changes);
}

#[test]
fn nobody_is_kept_from_looking() {
    with_services("own", async |_, context| {
        for (service, _) in SERVICES {
            for (name, input) in [
                ("service.status", json!({ "names": [service] })),
                ("log.read", json!({ "services": [service] })),
                ("service.wait", json!({ "names": [service], "until": "running", "timeout": 0 })),
            ] {
                let answer = ask(&context, &assistant("a"), name, input).await;
                let forbidden = answer.as_ref().is_err_and(|e| e.code == Code::Forbidden);
                assert!(!forbidden, "{name} {service}: {answer:?}");
            }
        }
    });
}

/// Reloads a file and applies it, both as assistant a, and restores the state. A refused call changes nothing.
async fn apply(place: &Place, context: &Context, text: &str) -> [Result<(), OpError>; 2] {
    let mut answers = Vec::new();
    for name in ["config.reload", "service.up"] {
        let (before, file) = (shown(context).await, write(place, text));
        let input = match name {
            "service.up" => up(&file),
            _ => json!({ "config_path": file }),
        };
        let answer = ask(context, &assistant("a"), name, input).await;
        match &answer {
            Err(_) => assert_eq!(shown(context).await, before, "{name}"),
            Ok(()) => {
                let back = write(place, &FILE.replace("CONTROL", "own"));
                ask(context, &Caller::local(0), "config.reload", json!({ "config_path": back }))
                    .await
                    .unwrap();
                gone(context, "new").await;
            }
        }
        answers.push(answer);
    }
    answers.try_into().unwrap()
}

async fn gone(context: &Context, service: &str) {
    while shown(context).await.contains(&format!("\"name\":\"{service}\"")) {
        let seen = context.engine.read(|view| view.generation);
        context.engine.changed(seen).await;
    }
}

async fn shown(context: &Context) -> String {
    let list = json!({ "no_usage": true });
    let reply = dispatch(context, "service.list", list, Form::Json).await.unwrap();
    let mut list: Value = serde_json::from_str(&reply.text).unwrap();
    list["generation"] = Value::Null;
    for service in list["services"].as_array_mut().unwrap() {
        service["uptime_seconds"] = Value::Null;
    }
    list.to_string()
}

#[test]
fn a_file_changes_for_an_assistant_only_what_the_assistant_may_change() {
    with_services("own", async |place, context| {
        let file = FILE.replace("CONTROL", "own");
        let says = |answers: [Result<(), OpError>; 2], words: [&str; 2]| {
            for (answer, word) in answers.into_iter().zip(words) {
                match answer {
                    Ok(()) => assert_eq!(word, "ok"),
                    Err(error) => {
                        assert_eq!(error.code, Code::Forbidden, "{error}");
                        assert!(word != "ok" && error.message.contains(word), "{word}: {error}");
                    }
                }
            }
        };
        says(apply(place, &context, &file).await, ["ok", "ok"]);
        let more = format!("{file}    new: {{ command: \"true\" }}\n");
        says(apply(place, &context, &more).await, ["ok", "ok"]);
        for service in ["viewed", "filed"] {
            let gone: Vec<&str> = file.lines().filter(|line| !line.contains(service)).collect();
            says(apply(place, &context, &gone.join("\n")).await, [service; 2]);
            let other = file.replace(
                &format!("{service}: {{ command: \"true\""),
                &format!("{service}: {{ command: \"false\""),
            );
            says(apply(place, &context, &other).await, [service; 2]);
            let stop = json!({ "names": [service], "no_wait": true });
            ask(&context, &Caller::local(0), "service.stop", stop).await.unwrap();
            says(apply(place, &context, &file).await, ["ok", service]);
            restore(&context, SERVICES[0]).await;
        }
        let open = file.replace(", assistants: view", "");
        says(apply(place, &context, &open).await, ["viewed"; 2]);
        let free = file.replace("control: own", "control: all");
        says(apply(place, &context, &free).await, ["mcp.control"; 2]);
        for (keys, named) in [
            ("roots: [/]", "roots"),
            ("security: { authentication: { enabled: false } }", "security.authentication"),
            ("security: { authentication: { token: abcdefgh } }", "security.authentication.token"),
            ("security: { execute: { allowed: [/bin/sh ...] } }", "security.execute.allowed"),
            ("security: { execute: { env: [PATH] } }", "security.execute.env"),
            ("security: { audit: { max_files: 2 } }", "security.audit.max_files"),
            ("git: { trusted: [.] }", "git.trusted"),
            ("git: { protocols: [file] }", "git.protocols"),
            ("backups: { generations: 0 }", "backups"),
            ("http: { allowed_origins: ['https://a.example'] }", "http.allowed_origins"),
        ] {
            let wide = file.replacen("supervisor:\n", &format!("supervisor:\n  {keys}\n"), 1);
            says(apply(place, &context, &wide).await, [named; 2]);
        }
        let narrow = "security: { allowed_commands: [status] }\n  roots: []";
        let narrow = file.replacen("supervisor:\n", &format!("supervisor:\n  {narrow}\n"), 1);
        says(apply(place, &context, &narrow).await, ["ok", "ok"]);
    });
    // A person may do this.
    with_services("own", async |place, context| {
        let free = write(place, "supervisor: { services: {} }");
        ask(&context, &Caller::local(0), "service.up", up(&free)).await.unwrap();
        let stop = json!({ "names": ["theirs"], "no_wait": true });
        ask(&context, &assistant("a"), "service.stop", stop).await.unwrap();
    });
}

/// Starts an operation that runs until it is cancelled, and returns its id.
async fn begin(context: &Context, caller: &Caller, service: &str) -> Value {
    let input = json!({
        "service": service, "pre_commands": ["/bin/sleep 60"], "wait": 0, "background": true,
    });
    let context = context.called_by(caller.clone());
    let begun = dispatch(&context, "service.custom_restart", input, Form::Json).await.unwrap();
    let begun: Value = serde_json::from_str(&begun.text).unwrap();
    json!({ "operation": begun["operation"] })
}

#[test]
fn to_cancel_an_operation_is_to_change_what_it_is_about() {
    for control in ["all", "own"] {
        with_services(control, async |_, context| {
            let (person, mine, other) = (Caller::local(0), assistant("a"), assistant("b"));
            for (service, owner, began) in [
                ("viewed", None, &person),
                ("added", None, &person),
                ("mine", Some("a"), &person),
                ("mine", Some("a"), &mine),
            ] {
                let id = begin(&context, began, service).await;
                for caller in [&other, &mine] {
                    let answer = ask(&context, caller, "operation.cancel", id.clone()).await;
                    let own = caller.client == began.client;
                    let forbidden =
                        is_forbidden(control, caller, service, owner) || (control == "own" && !own);
                    let refused = answer.as_ref().is_err_and(|error| error.code == Code::Forbidden);
                    assert_eq!(refused, forbidden, "{control} {service} {caller:?}: {answer:?}");
                }
                ask(&context, &person, "operation.cancel", id).await.unwrap();
            }
        });
    }
}
