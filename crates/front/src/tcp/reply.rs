//! Responses: one line of JSON, or text ended by an empty line.
//!
//! JSON: `{"success":…,"message":…,"data":…,"timestamp":…}`, always these four. `data` is the output of the operation
//! if it ran, and
//! `{code, help, details}` if it was refused.

use super::parsed_line::{ReplyFormat, Shape, StatusTarget};
use crate::legacy_shapes;
use crate::terminal_colors::error_page;
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::{Effect, Principal};
use proctor_ops::operations::service::status;
use proctor_ops::reply::{Form, Reply};
use proctor_ops::table;
use proctor_ops::text_output::{Page, unpainted};
use proctor_ops::timestamps::{machines_zone, rfc3339};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;

/// Content of a response.
#[derive(Debug)]
pub(super) enum Answer {
    /// An operation ran.
    Done {
        op: String,
        shape: Shape,
        reply: Reply,
    },
    /// The caller was identified for the rest of the connection.
    Known(Principal),
    Help(String),
}

pub(super) fn form(manner: ReplyFormat) -> Form {
    match manner {
        ReplyFormat::Json => Form::Json,
        ReplyFormat::Words => Form::Page { width: None, paint: unpainted, zone: machines_zone },
    }
}

/// Encodes a response, with its end.
pub(super) fn encode(manner: ReplyFormat, answer: Result<Answer, OpError>) -> Vec<u8> {
    match manner {
        ReplyFormat::Json => json_line(answer),
        ReplyFormat::Words => text(answer),
    }
}

#[derive(Serialize)]
struct Envelope<'a> {
    success: bool,
    message: Cow<'a, str>,
    data: Data<'a>,
    timestamp: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Data<'a> {
    /// Encoded JSON.
    Raw(&'a RawValue),
    Value(Value),
}

fn json_line(answer: Result<Answer, OpError>) -> Vec<u8> {
    let line = match &answer {
        Ok(Answer::Done { op, shape, reply }) => done(op, *shape, reply),
        Ok(Answer::Known(principal)) => {
            let role = match principal {
                Principal::Token { role, .. } => Some(role.as_str()),
                Principal::Local { .. } | Principal::Anonymous | Principal::Stranger => None,
            };
            let message = format!("you are {principal}");
            Ok(envelope(true, message.into(), Data::Value(json!({ "role": role }))))
        }
        Ok(Answer::Help(text)) => Ok(envelope(true, text.into(), Data::Value(Value::Null))),
        Err(error) => Ok(refused(error)),
    };
    let mut line = line.unwrap_or_else(|error| refused(&error));
    line.push(b'\n');
    line
}

fn envelope(success: bool, message: Cow<'_, str>, data: Data<'_>) -> Vec<u8> {
    let timestamp = rfc3339(proctor_sys::clock::now().wall);
    let envelope = Envelope { success, message, data, timestamp };
    serde_json::to_vec(&envelope).expect("texts and JSON can be written as JSON")
}

fn refused(error: &OpError) -> Vec<u8> {
    let data = json!({ "code": error.code, "help": error.help, "details": error.details });
    envelope(false, error.message.as_str().into(), Data::Value(data))
}

fn done(op: &str, shape: Shape, reply: &Reply) -> Result<Vec<u8>, OpError> {
    let success = reply.verdict.is_none();
    let message = message(op, reply)?;
    // The id of a running operation is not an output yet.
    let shape = if reply.background { Shape::AsItIs } else { shape };
    let data = match shape {
        Shape::AsItIs => Data::Raw(read(&reply.text)?),
        Shape::Status(asked) => Data::Value(shown_status(&read(&reply.text)?, asked)),
        Shape::Health => {
            let health: Value = read(&reply.text)?;
            let healthy = health["healthy"] == true;
            let message = if healthy { "healthy" } else { "unhealthy" };
            let data = Data::Value(json!({ "healthy": healthy }));
            return Ok(envelope(healthy, message.into(), data));
        }
        Shape::Only(fields) => Data::Value(legacy_shapes::only(fields, read(&reply.text)?)),
    };
    Ok(envelope(success, message, data))
}

/// Returns the result of a change as a message; a read needs none.
fn message<'a>(op: &str, reply: &Reply) -> Result<Cow<'a, str>, OpError> {
    let changing = table::find(op).filter(|entry| entry.meta.effect != Effect::Read);
    match (changing, reply.verdict) {
        (Some(entry), _) => {
            let mut page = Page::new(machines_zone);
            entry.show(&read(&reply.text)?, &mut page)?;
            Ok(page.render(None, unpainted).trim_end().to_owned().into())
        }
        (None, Some(code)) => Ok(code.as_str().into()),
        (None, None) => Ok("ok".into()),
    }
}

/// Returns one service if none was named: the only or the primary one.
fn shown_status(output: &status::Output, asked: StatusTarget) -> Value {
    let services = output.services.as_slice();
    let mut primary = services.iter().filter(|service| service.primary);
    let meant = match (asked, services, (primary.next(), primary.next())) {
        (StatusTarget::Nothing | StatusTarget::Name, [only], _) => Some(only),
        (StatusTarget::Nothing, _, (Some(primary), None)) => Some(primary),
        (StatusTarget::Nothing | StatusTarget::Name | StatusTarget::All, ..) => None,
    };
    meant.map_or_else(|| legacy_shapes::statuses(services), legacy_shapes::status)
}

fn read<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, OpError> {
    serde_json::from_str(text)
        .map_err(|error| OpError::new(Code::Internal, format!("cannot encode: {error}")))
}

/// Returns the page of the command line, with a line for the code of an error. An empty line is only the end, so an empty line in
/// the text gets a space.
fn text(answer: Result<Answer, OpError>) -> Vec<u8> {
    let (page, code) = match answer {
        Ok(Answer::Done { reply, .. }) => {
            let more =
                reply.next.map(|next| format!("more follows: continue with the cursor {next}\n"));
            (reply.text + &reply.remarks + &more.unwrap_or_default(), reply.verdict)
        }
        Ok(Answer::Known(principal)) => (format!("you are {principal}\n"), None),
        Ok(Answer::Help(text)) => (text, None),
        Err(error) => (error_page(&error).render(None, unpainted), Some(error.code)),
    };
    let mut out = String::with_capacity(page.len() + 32);
    for line in page.lines() {
        out.push_str(if line.is_empty() { " " } else { line });
        out.push('\n');
    }
    if let Some(code) = code {
        out.push_str("code: ");
        out.push_str(code.as_str());
        out.push('\n');
    }
    out.push('\n');
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str, verdict: Option<Code>) -> Answer {
        Answer::Done {
            op: "service.list".to_owned(),
            shape: Shape::AsItIs,
            reply: Reply { text: text.to_owned(), verdict, ..Reply::default() },
        }
    }

    #[test]
    fn an_answer_in_json_has_four_fields_in_their_order() {
        let line = encode(ReplyFormat::Json, Ok(reply(r#"{"b":1,"a":[ ]}"#, None)));
        let text = String::from_utf8(line).unwrap();
        let begin = r#"{"success":true,"message":"ok","data":{"b":1,"a":[ ]},"timestamp":"2"#;
        assert!(text.starts_with(begin) && text.ends_with("Z\"}\n"), "{text}");
    }

    #[test]
    fn a_refusal_in_json_has_its_code_in_the_data() {
        let error = OpError::new(Code::NotRunning, "it\ndoes not").help("start it");
        let line = encode(ReplyFormat::Json, Err(error));
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        let value: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((&value["success"], &value["message"]), (&json!(false), &json!("it\ndoes not")));
        assert_eq!(
            value["data"],
            json!({ "code": "not_running", "help": "start it", "details": null })
        );
    }

    #[test]
    fn an_empty_line_ends_a_text_and_is_nowhere_else() {
        let text = |answer| String::from_utf8(encode(ReplyFormat::Words, answer)).unwrap();
        assert_eq!(text(Ok(reply("a\n\nb\n", None))), "a\n \nb\n\n");
        assert_eq!(text(Ok(reply("", None))), "\n");
        assert_eq!(text(Ok(reply("a\n", Some(Code::NotRunning)))), "a\ncode: not_running\n\n");
        let error = OpError::bad_input("no\n\nUsage: x").help("do");
        assert_eq!(text(Err(error)), "error: no\n \nUsage: x\nhelp: do\ncode: bad_input\n\n");
    }
}
