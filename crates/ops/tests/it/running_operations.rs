//! Running and ended operations, and other callers that read or cancel them.

use crate::played::Place;
use proctor_ops::dispatch::dispatch;
use proctor_ops::error::OpError;
use proctor_ops::operation::{Caller, Context, Front, Principal, Role, TokenId};
use proctor_ops::reply::Form;
use serde_json::{Value, json};

async fn ask(
    context: &Context,
    caller: Caller,
    name: &str,
    input: Value,
) -> Result<Value, OpError> {
    let reply = dispatch(&context.called_by(caller), name, input, Form::Json).await?;
    Ok(serde_json::from_str(&reply.text).unwrap())
}

fn token(role: Role) -> Caller {
    let principal = Principal::Token { id: TokenId("t".into()), name: "t".into(), role };
    Caller::remote(principal, Front::Rest, "10.0.0.1:1".parse().unwrap())
}

/// Starts an operation as the owner and returns its id.
async fn begin(context: &Context, name: &str, mut input: Value) -> Value {
    input["background"] = json!(true);
    let begun = ask(context, Caller::local(0), name, input).await.unwrap();
    json!({ "operation": begun["operation"] })
}

#[test]
fn who_may_not_begin_an_operation_may_not_cancel_it() {
    Place::new().daemon(async |context| {
        let input = json!({ "command": ["/bin/sleep", "60"], "environment": {}, "base_dir": "/" });
        let id = begin(&context, "command.execute", input).await;
        let cancel = async |caller| ask(&context, caller, "operation.cancel", id.clone()).await;
        let refused = cancel(token(Role::Operator)).await.unwrap_err();
        assert_eq!(refused.code.as_str(), "forbidden", "{refused:?}");
        let cancelled = cancel(token(Role::Admin)).await.unwrap();
        assert_eq!(cancelled["cancelled"], true, "{cancelled}");
    });
}

#[test]
fn what_is_kept_of_an_operation_has_no_secrets_in_it() {
    Place::new().daemon(async |context| {
        let secret = "hunter2-hunter2";
        let program = format!("/nowhere/x?token={secret}");
        let input = json!({ "command": [program], "environment": {} });
        let mut id = begin(&context, "command.execute", input).await;
        id["wait"] = json!(60);
        let status = ask(&context, token(Role::Viewer), "operation.status", id).await.unwrap();
        let list = ask(&context, token(Role::Viewer), "operation.list", json!({})).await.unwrap();
        let text = format!("{status} {list}");
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("token=***"), "{text}");
        // Refused before it starts.
        let input = json!({ "names": [secret, "--token", secret], "background": true });
        let refused = ask(&context, Caller::local(0), "service.restart", input).await.unwrap_err();
        let text = format!("{refused:?}");
        assert!(!text.contains("hunter2") && text.contains("'***'"), "{text}");
    });
}
