//! Every operation under `mcp.control: own`, as an assistant calls it: whatever changes Proctor itself is refused.

use crate::assistant_policy::{ask, assistant, with_services};
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::{Caller, Context, Target};
use proctor_ops::table::TABLE;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Own {
    /// As far as other rules go: the services it is about, the settings that a file changes, who began an operation.
    Allowed,
    /// Changes Proctor itself.
    Refused,
}

use Own::{Allowed, Refused};

/// Decided here by hand. A new operation needs a line.
const DECIDED: &[(&str, &str, Own)] = &[
    ("service.up", r#"{"config":"/no/such/file","base_dir":"/"}"#, Allowed),
    ("service.down", r#"{"keep_daemon":true,"no_wait":true}"#, Allowed),
    ("service.down", "{}", Refused),
    ("service.start", r#"{"names":["mine"],"no_wait":true}"#, Allowed),
    ("service.stop", r#"{"names":["mine"],"no_wait":true}"#, Allowed),
    ("service.restart", r#"{"names":["mine"],"no_wait":true}"#, Allowed),
    ("service.custom_restart", r#"{"service":"mine","wait":0}"#, Allowed),
    ("service.list", "{}", Allowed),
    ("service.status", r#"{"names":["mine"]}"#, Allowed),
    ("log.read", r#"{"services":["mine"]}"#, Allowed),
    ("event.read", "{}", Allowed),
    ("daemon.health", "{}", Allowed),
    ("daemon.metrics", "{}", Allowed),
    ("service.wait", r#"{"names":["mine"],"until":"running","timeout":0}"#, Allowed),
    ("service.signal", r#"{"name":"mine","signal":"HUP"}"#, Allowed),
    ("command.execute", r#"{"command":"true"}"#, Allowed),
    ("service.add", r#"{"name":"new","command":"true","base_dir":"/"}"#, Allowed),
    ("service.lease", r#"{"name":"mine","lease":"1h"}"#, Allowed),
    ("service.remove", r#"{"names":["new"],"no_wait":true}"#, Allowed),
    ("config.show", "{}", Allowed),
    ("config.reload", "{}", Allowed),
    ("file.read", r#"{"path":"no-such"}"#, Allowed),
    ("file.list", r#"{"path":"no-such"}"#, Allowed),
    ("file.find", r#"{"pattern":"no-such"}"#, Allowed),
    ("file.search", r#"{"pattern":"no-such"}"#, Allowed),
    ("file.write", r#"{"path":"no/such/folder/x","text":"x"}"#, Allowed),
    ("file.edit", r#"{"path":"no-such","edits":[{"old":"a","new":"b"}]}"#, Allowed),
    ("file.change", r#"{"files":[{"path":"no-such","edits":[{"old":"a","new":"b"}]}]}"#, Allowed),
    ("file.apply_diff", r#"{"diff":"no diff"}"#, Allowed),
    ("file.move", r#"{"from":"no-such","to":"other"}"#, Allowed),
    ("file.delete", r#"{"path":"no-such"}"#, Allowed),
    ("file.make_folder", r#"{"path":"no/such/folder"}"#, Allowed),
    ("file.undo", r#"{"path":"no-such"}"#, Allowed),
    ("file.history", r#"{"path":"no-such"}"#, Allowed),
    ("change.check", r#"{"service":"mine","files":[]}"#, Allowed),
    ("git.status", "{}", Allowed),
    ("git.diff", "{}", Allowed),
    ("git.log", "{}", Allowed),
    ("git.show", r#"{"revision":"HEAD"}"#, Allowed),
    ("git.blame", r#"{"path":"no-such"}"#, Allowed),
    ("git.add", r#"{"all":true}"#, Allowed),
    ("git.commit", r#"{"message":"x"}"#, Allowed),
    ("git.restore", r#"{"paths":["no-such"]}"#, Allowed),
    ("git.branch", "{}", Allowed),
    ("git.tag", "{}", Allowed),
    ("git.stash", r#"{"action":"list"}"#, Allowed),
    ("git.resolve", r#"{"action":"abort"}"#, Allowed),
    ("operation.list", "{}", Allowed),
    ("operation.status", r#"{"operation":"no-such"}"#, Allowed),
    ("operation.cancel", r#"{"operation":"no-such"}"#, Allowed),
    ("audit.read", "{}", Allowed),
    ("audit.verify", "{}", Allowed),
    ("token.create", r#"{"name":"ci","role":"viewer"}"#, Refused),
    ("token.list", "{}", Allowed),
    ("token.revoke", r#"{"name":"ci"}"#, Refused),
    ("token.path", "{}", Allowed),
    ("mode.get", "{}", Allowed),
    ("mode.switch", r#"{"mode":"production"}"#, Refused),
    ("daemon.status", "{}", Allowed),
    ("daemon.stop", "{}", Refused),
    ("daemon.upgrade", "{}", Refused),
];

#[test]
fn every_operation_is_decided() {
    let decided: BTreeSet<&str> = DECIDED.iter().map(|(name, ..)| *name).collect();
    let all: BTreeSet<&str> = TABLE.iter().map(|entry| entry.meta.name).collect();
    assert_eq!(decided, all);
    for entry in TABLE.iter().filter(|entry| entry.meta.target == Target::Proctor) {
        let own = DECIDED.iter().filter(|(name, ..)| *name == entry.meta.name);
        assert!(own.clone().all(|(.., own)| *own == Refused), "{}", entry.meta.name);
    }
}

#[test]
fn an_assistant_changes_nothing_of_proctor_itself_where_it_changes_only_its_own() {
    with_services("own", async |_, context| {
        only_mine_runs(&context).await;
        for (name, input, own) in DECIDED {
            let input: Value = serde_json::from_str(input).unwrap();
            let answer = ask(&context, &assistant("a"), name, input).await;
            assert_eq!(is_refused(&answer, name), *own == Refused, "{name}: {answer:?}");
        }
        let tokens = json!({ "name": "ci", "role": "viewer" });
        let person = ask(&context, &Caller::local(0), "token.create", tokens).await;
        assert!(person.is_ok(), "a person may: {person:?}");
    });
    with_services("all", async |_, context| {
        let tokens = json!({ "name": "ci", "role": "viewer" });
        let assistant = ask(&context, &assistant("a"), "token.create", tokens).await;
        assert!(assistant.is_ok(), "where all is theirs to change: {assistant:?}");
    });
}

/// An end of Proctor then stops no service of anybody else.
async fn only_mine_runs(context: &Context) {
    let person = Caller::local(0);
    for (name, services) in [("service.stop", "all"), ("service.start", "mine")] {
        let input = json!({ "names": [services], "no_wait": true });
        ask(context, &person, name, input).await.unwrap();
    }
}

fn is_refused(answer: &Result<(), OpError>, name: &str) -> bool {
    let text = format!("{name} changes Proctor itself;");
    answer.as_ref().is_err_and(|error| {
        let refused = error.code == Code::Forbidden && error.message.starts_with(&text);
        assert!(!refused || error.message.contains("`supervisor.mcp.control: own`"), "{error}");
        refused
    })
}
