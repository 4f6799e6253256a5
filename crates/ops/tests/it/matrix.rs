//! Every operation × every front × every caller: allowed if and only if the rule says so, and recorded in the audit
//! log. The rule is
//! written here a second time, independently of the code.

use crate::played::Place;
use proctor_ops::dispatch::dispatch;
use proctor_ops::error::Code;
use proctor_ops::operation::{
    Caller, ClientName, Context, Effect, Front, Principal, Role, TokenId,
};
use proctor_ops::reply::Form;
use proctor_ops::table::{TABLE, find};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Requests with their minimum role. The service does not exist, so an allowed request has no effect.
const REQUESTS: &[(Role, &str, &str)] = &[
    (Role::Viewer, "service.list", "{}"),
    (Role::Viewer, "service.status", r#"{"names":["nobody"]}"#),
    (Role::Viewer, "service.wait", r#"{"names":["nobody"],"until":"running"}"#),
    (Role::Viewer, "log.read", r#"{"services":["nobody"]}"#),
    (Role::Viewer, "event.read", "{}"),
    (Role::Viewer, "config.show", "{}"),
    (Role::Viewer, "config.show", r#"{"example":true}"#),
    (Role::Admin, "config.show", r#"{"check":"/etc/shadow"}"#),
    (Role::Viewer, "daemon.status", "{}"),
    (Role::Viewer, "daemon.health", "{}"),
    (Role::Viewer, "daemon.metrics", "{}"),
    (Role::Operator, "git.status", "{}"),
    (Role::Operator, "git.diff", "{}"),
    (Role::Operator, "git.log", "{}"),
    (Role::Operator, "git.show", "{}"),
    (Role::Operator, "git.blame", r#"{"path":"x"}"#),
    (Role::Admin, "git.add", r#"{"all":true}"#),
    (Role::Admin, "git.commit", r#"{"message":"x"}"#),
    (Role::Admin, "git.restore", r#"{"paths":["."]}"#),
    (Role::Operator, "git.branch", "{}"),
    (Role::Admin, "git.branch", r#"{"action":"create","name":"x"}"#),
    (Role::Admin, "git.branch", r#"{"action":"switch","name":"x"}"#),
    (Role::Operator, "git.tag", "{}"),
    (Role::Admin, "git.tag", r#"{"action":"create","name":"x"}"#),
    (Role::Admin, "git.tag", r#"{"action":"delete","name":"x"}"#),
    (Role::Operator, "git.stash", "{}"),
    (Role::Admin, "git.stash", r#"{"action":"push"}"#),
    (Role::Admin, "git.stash", r#"{"action":"pop"}"#),
    (Role::Admin, "git.stash", r#"{"action":"drop"}"#),
    (Role::Operator, "git.resolve", "{}"),
    (Role::Admin, "git.resolve", r#"{"action":"ours","path":"x"}"#),
    (Role::Admin, "git.resolve", r#"{"action":"theirs","path":"x"}"#),
    (Role::Admin, "git.resolve", r#"{"action":"done","path":"x"}"#),
    (Role::Admin, "git.resolve", r#"{"action":"continue"}"#),
    (Role::Admin, "git.resolve", r#"{"action":"abort"}"#),
    (Role::Viewer, "mode.get", "{}"),
    (Role::Operator, "file.read", r#"{"path":"nothing"}"#),
    (Role::Operator, "file.list", r#"{"path":"nothing"}"#),
    (Role::Operator, "file.find", r#"{"globs":["*"]}"#),
    (Role::Operator, "file.search", r#"{"pattern":"x"}"#),
    (Role::Admin, "file.write", r#"{"path":"nothing","content":"x"}"#),
    (Role::Admin, "file.edit", r#"{"path":"nothing","edits":[{"old":"a","new":"b"}]}"#),
    (Role::Admin, "file.change", r#"{"path":"nothing","find":"a","replace":"b"}"#),
    (Role::Admin, "file.apply_diff", r#"{"diff":"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"}"#),
    (Role::Admin, "file.move", r#"{"path":"nothing","to":"nowhere"}"#),
    (Role::Admin, "file.delete", r#"{"path":"nothing"}"#),
    (Role::Admin, "file.make_folder", r#"{"path":"nothing"}"#),
    (Role::Admin, "file.undo", r#"{"path":"nothing"}"#),
    (Role::Admin, "change.check", r#"{"service":"nobody"}"#),
    (Role::Operator, "file.history", r#"{"path":"nothing"}"#),
    (Role::Viewer, "operation.list", "{}"),
    (Role::Viewer, "operation.status", r#"{"operation":"0"}"#),
    (Role::Operator, "operation.cancel", r#"{"operation":"0"}"#),
    (Role::Operator, "service.start", r#"{"names":["nobody"]}"#),
    (Role::Admin, "service.start", r#"{"name":"x","command":"true"}"#),
    (Role::Operator, "service.stop", r#"{"names":["nobody"]}"#),
    (Role::Operator, "service.restart", r#"{"names":["nobody"]}"#),
    (Role::Admin, "service.restart", r#"{"names":["nobody"],"args":["-x"]}"#),
    (Role::Operator, "service.signal", r#"{"name":"nobody","signal":"HUP"}"#),
    (Role::Operator, "service.down", r#"{"keep_daemon":true}"#),
    (Role::Admin, "service.down", "{}"),
    (Role::Admin, "service.up", r#"{"config":"/nowhere/proctor.yaml"}"#),
    (Role::Admin, "service.add", r#"{"name":"x"}"#),
    (Role::Admin, "service.remove", r#"{"names":["nobody"]}"#),
    (Role::Admin, "service.lease", r#"{"name":"nobody"}"#),
    (Role::Operator, "service.custom_restart", r#"{"service":"nobody"}"#),
    (Role::Admin, "service.custom_restart", r#"{"service":"nobody","pre_commands":["true"]}"#),
    (Role::Admin, "service.custom_restart", r#"{"service":"nobody","post_commands":["true"]}"#),
    (Role::Admin, "service.custom_restart", r#"{"service":"nobody","start_args":["-x"]}"#),
    (Role::Admin, "service.custom_restart", r#"{"service":"nobody","env":["A=b"]}"#),
    (Role::Admin, "command.execute", "{}"),
    (Role::Admin, "config.reload", "{}"),
    (Role::Admin, "mode.switch", r#"{"mode":"nothing"}"#),
    (Role::Admin, "audit.read", "{}"),
    (Role::Admin, "audit.verify", "{}"),
    (Role::Admin, "token.list", "{}"),
    (Role::Admin, "token.path", "{}"),
    (Role::Admin, "token.create", r#"{"name":""}"#),
    (Role::Admin, "token.revoke", r#"{"name":"nobody"}"#),
    (Role::Admin, "daemon.stop", "{}"),
    (Role::Admin, "daemon.upgrade", "{}"),
];

#[test]
fn the_matrix_asks_for_every_operation() {
    let asked: BTreeSet<&str> = REQUESTS.iter().map(|(_, name, _)| *name).collect();
    let there: BTreeSet<&str> = TABLE.iter().map(|entry| entry.meta.name).collect();
    assert_eq!(asked, there, "add what is new to REQUESTS, with the role it takes");
}

/// Callers with their maximum role.
fn callers() -> Vec<(Caller, Option<Role>)> {
    let assistant = Caller::local(0).through(Front::Mcp, ClientName::parse("assistant"));
    let mut callers = vec![(Caller::local(0), Some(Role::Admin)), (assistant, Some(Role::Admin))];
    let network = Front::ALL.into_iter().filter(|front| *front != Front::Local);
    for (number, front) in network.enumerate() {
        let mut add = |principal, peer: String, role| {
            callers.push((Caller::remote(principal, front, peer.parse().unwrap()), role));
        };
        for role in Role::ALL {
            let id = TokenId(format!("{front:?}-{role}"));
            let token = Principal::Token { id, name: role.to_string(), role };
            add(token, format!("10.1.0.{number}:1"), Some(role));
        }
        add(Principal::Anonymous, format!("127.0.0.{}:1", number + 1), Some(Role::Viewer));
        add(Principal::Anonymous, format!("10.2.0.{number}:1"), None);
    }
    callers
}

/// Returns the expected audit lines of a call, as `kind code`.
fn expected_lines(name: &str, least: Role, allowed: bool, code: &str) -> Vec<String> {
    let effect = find(name).unwrap().meta.effect;
    match (allowed, effect) {
        (false, _) => vec![format!("refused {code}")],
        (true, Effect::Read) if least == Role::Viewer => Vec::new(),
        (true, Effect::Read) => vec![format!("read {code}")],
        (true, Effect::Write | Effect::Exec | Effect::Admin) => {
            vec!["intent -".into(), format!("result {code}")]
        }
    }
}

async fn code_of(context: &Context, caller: &Caller, name: &str, input: Value) -> String {
    let answer = dispatch(&context.called_by(caller.clone()), name, input, Form::Json).await;
    match answer {
        Ok(reply) => reply.verdict.map_or("ok", Code::as_str).into(),
        Err(error) => error.code.as_str().into(),
    }
}

/// Calls everything as every caller; `offered` selects the operations offered over the network, `most` is the maximum role of
/// assistants.
async fn ask_all(context: &Context, offered: impl Fn(&str) -> bool, most: Role) -> Vec<String> {
    let mut expected = Vec::new();
    for (caller, role) in callers() {
        // With fresh limits: beyond a few, refusals are only counted.
        let context = &Context { limits: Arc::default(), ..context.clone() };
        for (least, name, input) in REQUESTS {
            let input: Value = serde_json::from_str(input).unwrap();
            let code = code_of(context, &caller, name, input.clone()).await;
            let hidden = caller.peer.is_some() && !offered(name);
            let role = role.filter(|_| caller.front != Front::Mcp || most >= *least);
            let allowed = !hidden && role.is_some_and(|role| role >= *least);
            let nameless = caller.principal == Principal::Anonymous && !hidden;
            let refusal = if nameless { "unauthenticated" } else { "forbidden" };
            let who = format!("{caller:?} {name} {input}: {code}");
            let denied = code == "forbidden" || code == "unauthenticated";
            assert_eq!(denied, !allowed, "{who}");
            assert!(allowed || code == refusal, "{who}");
            let lines = expected_lines(name, *least, allowed, &code);
            let front = caller.front.as_str();
            expected.extend(lines.iter().map(|line| match line.starts_with("result") {
                true => line.clone(),
                false => format!("{line} {front} {name}"),
            }));
        }
    }
    expected
}

/// Returns the audit log without the marks of daemons, as `kind code front operation`.
fn written(place: &Place) -> Vec<String> {
    let text = |line: &Value, key: &str| line[key].as_str().unwrap_or("-").to_owned();
    let lines = place.audit();
    let lines = lines.iter().filter(|line| line["kind"] != "started");
    lines
        .map(|line| match line["kind"].as_str() {
            Some("result") => format!("result {}", text(line, "code")),
            _ => ["kind", "code", "front", "operation"].map(|key| text(line, key)).join(" "),
        })
        .collect()
}

#[test]
fn everybody_may_do_what_the_rule_says_and_everything_is_written_down() {
    let place = Place::new();
    let mut expected = Vec::new();
    place.daemon(async |context| {
        expected = ask_all(&context, |_| true, Role::Admin).await;
        // Entries are written in order, so this is the last.
        code_of(&context, &Caller::local(0), "service.stop", json!({ "names": ["last"] })).await;
    });
    let mut written = written(&place);
    assert_eq!(written.split_off(written.len() - 2).len(), 2);
    for (at, (written, expected)) in written.iter().zip(&expected).enumerate() {
        assert_eq!(written, expected, "line {at}");
    }
    assert_eq!(written.len(), expected.len());
    let verdict = proctor_engine::audit::Audit::verify(&place.home).unwrap();
    assert_eq!((verdict.problems, verdict.unfinished), (Vec::new(), Vec::new()));
}

#[test]
fn what_only_admins_may_read_is_not_shown_unseen() {
    let place = Place::new();
    place.daemon(async |context| {
        let owner = Caller::local(0);
        assert_eq!(code_of(&context, &owner, "token.list", json!({})).await, "ok");
        std::fs::rename(place.home.audit(), place.folder.path().join("aside")).unwrap();
        assert_eq!(code_of(&context, &owner, "token.list", json!({})).await, "audit_unavailable");
        assert_eq!(code_of(&context, &owner, "service.list", json!({})).await, "ok");
    });
}

#[test]
fn over_the_network_only_allowed_commands_are_offered() {
    let place = Place::new();
    let file = place.folder.path().join("proctor.yaml");
    let text =
        "supervisor:\n  security: { allowed_commands: [status, service.stop] }\n  services: {}\n";
    std::fs::write(&file, text).unwrap();
    place.daemon(async |context| {
        let up = json!({ "config": file, "environment": {}, "base_dir": "/" });
        assert_eq!(code_of(&context, &Caller::local(0), "service.up", up).await, "ok");
        let offered = ["service.status", "service.list", "daemon.status", "service.stop"];
        ask_all(&context, |name| offered.contains(&name), Role::Admin).await;
    });
}

#[test]
fn no_assistant_does_more_than_the_file_lets_assistants_do() {
    for most in Role::ALL {
        let place = Place::new();
        let file = place.folder.path().join("proctor.yaml");
        std::fs::write(
            &file,
            format!("supervisor: {{ mcp: {{ role: {most} }}, services: {{}} }}\n"),
        )
        .unwrap();
        place.daemon(async |context| {
            let up = json!({ "config": file, "environment": {}, "base_dir": "/" });
            assert_eq!(code_of(&context, &Caller::local(0), "service.up", up).await, "ok");
            ask_all(&context, |_| true, most).await;
            let assistant = context.called_by(Caller::local(0).through(Front::Mcp, None));
            let input = json!({ "command": "true" });
            match dispatch(&assistant, "command.execute", input, Form::Json).await {
                Ok(_) => assert_eq!(most, Role::Admin),
                Err(error) => assert!(error.message.contains("`supervisor.mcp.role`"), "{error}"),
            }
        });
    }
}

#[test]
fn without_anonymous_reading_a_token_is_needed_for_everything() {
    for (keys, allowed) in
        [("anonymous_read: false", [false, false]), ("enabled: false", [true, true])]
    {
        let place = Place::new();
        let file = place.folder.path().join("proctor.yaml");
        let text = format!(
            "supervisor:\n  security: {{ authentication: {{ {keys} }} }}\n  services: {{}}\n"
        );
        std::fs::write(&file, text).unwrap();
        place.daemon(async |context| {
            let up = json!({ "config": file, "environment": {}, "base_dir": "/" });
            assert_eq!(code_of(&context, &Caller::local(0), "service.up", up).await, "ok");
            for (peer, near) in [("127.0.0.1:1", true), ("10.0.0.1:1", false)] {
                let peer = peer.parse().unwrap();
                let caller = Caller::remote(Principal::Anonymous, Front::Tcp, peer);
                for (name, allowed) in ["service.list", "token.list"].into_iter().zip(allowed) {
                    let code = code_of(&context, &caller, name, json!({})).await;
                    let expected = if allowed && near { "ok" } else { "unauthenticated" };
                    assert_eq!(code, expected, "{keys} {near} {name}");
                }
            }
        });
    }
}
