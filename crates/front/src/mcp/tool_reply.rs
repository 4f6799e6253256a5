//! The reply of a tool. Some clients show the model only the structured content if there is any, others only the text, so each
//! half is complete.
//!
//! A tool whose content is text (files, logs, diffs, command output) sends text and no structured content, which reads best
//! everywhere. Its facts are in `_meta`, for programs. A tool that reports the state of processes sends both halves. Neither half
//! is longer than an assistant can afford.

use super::missing_facts::{self, OwnText};
use super::tool_names::{in_hints, in_tools};

use proctor_core::text::beginning;
use proctor_ops::error::{Code, OpError};
use proctor_ops::text_output::{Page, unpainted};
use proctor_ops::tools::fields::in_shown_names;
use proctor_ops::tools::{Tool, Toolset};
use rmcp::model::{CallToolResult, ContentBlock, ErrorCode, ErrorData, MetaObject};
use serde_json::{Map, Value, json};

/// Maximum bytes of each half: some 8,000 tokens, a third of the size at which clients cut a reply.
pub(super) const MAX_REPLY_BYTES: usize = 32 << 10;

/// Maximum bytes of the facts that are added to a text.
const MAX_ADDED_BYTES: usize = MAX_REPLY_BYTES / 4;

/// Counter of all state changes; no tool accepts it.
const COUNTER: &str = "generation";

/// Field with a picture as base64, and the field with its type.
const PICTURE: &str = "picture";
const MEDIA: &str = "media";

/// Key in `_meta` of an error for programs.
const ERROR: &str = "proctor/error";

/// Key in `_meta` of the facts of a text reply.
const FACTS: &str = "proctor/facts";

/// Remedy for assistants, which cannot stop another configuration or choose another home.
const HOME_IN_USE_REMEDY: &str = "start a program next to the running services with start_process (name and command); \
     or ask the person you work for, who decides which configuration runs";

/// Result of an operation.
#[derive(Debug)]
pub(super) enum Outcome {
    Done(Value),
    /// The operation takes longer than a client waits.
    GoesOn {
        operation: String,
    },
}

pub(super) fn answer(tool: &Tool, outcome: Outcome, offered: &[Toolset]) -> CallToolResult {
    match outcome {
        Outcome::Done(output) => done(tool, output, offered),
        Outcome::GoesOn { operation } => goes_on(&operation, offered),
    }
}

fn done(tool: &Tool, mut output: Value, offered: &[Toolset]) -> CallToolResult {
    let mut page = Page::new(proctor_ops::timestamps::zone);
    let verdict = tool.entry().show(&output, &mut page).unwrap_or(Some(Code::Internal));
    let mut text = page.render(None, unpainted);
    if !tool.speaks() {
        text = in_tools(&text, offered);
    }
    let mut notes = onwards(&page, &output);
    without_nulls(&mut output);
    let pictures = pictures(&mut output);
    if let Value::Object(fields) = &mut output {
        in_short(tool, fields);
        if tool.replies_in_text() {
            output = missing_facts::without(fields, tool.spoken, tool.spoken_within);
        }
    }
    if !tool.speaks() {
        in_hints(&mut output, offered);
    }
    if let Some(cut) = fit(&mut output, MAX_REPLY_BYTES) {
        notes += &format!("{cut}\n");
    }
    let facts = match tool.speaks() {
        true => missing_facts::lines(OwnText::Notes(&notes), &output, "── "),
        false => missing_facts::lines(OwnText::Page(&(text.clone() + &notes)), &output, ""),
    };
    let mut content = vec![ContentBlock::text(with_notes(&text, &facts, &notes))];
    content.extend(pictures);
    let mut result = CallToolResult::success(content);
    match tool.replies_in_text() {
        true => result.meta = Some(for_programs(FACTS, output)),
        false => result.structured_content = Some(output),
    }
    // A timeout is a valid reply; the assistant waits again or looks for the cause.
    result.is_error = Some(verdict.is_some_and(|code| code != Code::Timeout));
    result
}

/// Removes fields that a model does not need.
fn in_short(tool: &Tool, fields: &mut Map<String, Value>) {
    if !tool.replies_in_text() {
        fields.shift_remove(COUNTER);
    }
    for value in fields.values_mut() {
        in_brief(value, tool.leaves_out);
        if let Value::Object(inner) = value {
            inner.retain(|name, _| !tool.leaves_out.contains(&name.as_str()));
        }
    }
}

/// Combines text, missing facts and notes. Notes contain the cursor and come last, so facts are cut before them.
fn with_notes(text: &str, facts: &str, notes: &str) -> String {
    let notes = shortened(notes, MAX_ADDED_BYTES / 2);
    let added = shortened(facts, MAX_ADDED_BYTES - notes.len()) + &notes;
    shortened(text, MAX_REPLY_BYTES - added.len()) + &added
}

/// Returns a note with the cursor, for clients that read only the text.
fn onwards(page: &Page, output: &Value) -> String {
    if let Some(cursor) = page.next() {
        let part =
            if page.part().is_empty() { String::new() } else { format!(" ({})", page.part()) };
        return format!("more follows{part}; continue with cursor: {cursor}\n");
    }
    let text = |field: &str| output.get(field).and_then(Value::as_str);
    let yes = |field: &str| output.get(field) == Some(&Value::Bool(true));
    match (text("cursor"), text("next")) {
        (Some(cursor), _) if yes("truncated") => {
            format!("older lines are truncated; cursor: {cursor}\n")
        }
        (Some(cursor), _) if yes("more") => {
            format!("more follows; continue with cursor: {cursor}\n")
        }
        (Some(cursor), _) => format!("cursor: {cursor}\n"),
        (None, Some(next)) if yes("more") => format!("more follows; continue after: {next}\n"),
        _ => String::new(),
    }
}

fn goes_on(operation: &str, offered: &[Toolset]) -> CallToolResult {
    let text = format!("it continues as operation {operation}; wait for it with get_operation");
    let text = in_tools(&text, offered);
    let mut result = CallToolResult::success(vec![ContentBlock::text(text.clone())]);
    result.structured_content =
        Some(json!({ "operation": operation, "state": "running", "note": text }));
    result
}

/// Returns an error for the assistant, or a protocol error if the request cannot be decoded.
pub(super) fn failed(
    tool: &Tool,
    mut error: OpError,
    offered: &[Toolset],
) -> Result<CallToolResult, ErrorData> {
    if let Some(number) = error.code.rpc() {
        return Err(ErrorData::new(ErrorCode(number), error.message, None));
    }
    if error.code == Code::BadInput {
        error.message = in_shown_names(tool, &error.message);
        error.help = error.help.map(|help| in_shown_names(tool, &help));
    }
    if error.code == Code::HomeInUse {
        error.help = Some(HOME_IN_USE_REMEDY.into());
    }
    let mut text = format!("{} ({})\n", error.message, error.code.as_str());
    if let Some(help) = &error.help {
        text += &format!("remedy: {}\n", in_tools(help, offered));
    }
    let mut result =
        CallToolResult::error(vec![ContentBlock::text(shortened(&text, MAX_REPLY_BYTES))]);
    // Not as structured content: clients validate that against the output schema.
    let mut told = serde_json::to_value(&error).unwrap_or_default();
    // Some clients show a model all of a failed reply.
    in_hints(&mut told, offered);
    result.meta = Some(for_programs(ERROR, told));
    Ok(result)
}

fn for_programs(key: &str, value: Value) -> MetaObject {
    let mut meta = MetaObject::new();
    meta.insert(key.into(), value);
    meta
}

/// Cuts the text and notes the number of omitted bytes.
fn shortened(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let most = longest - 200;
    let begin = text[..text.floor_char_boundary(most)].rfind('\n').map_or(most, |end| end + 1);
    let begin = text.floor_char_boundary(begin);
    let (shown, left) = text.split_at(begin);
    format!("{shown}… truncated: {} more bytes; request less at once\n", left.len())
}

fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(values) => values.iter_mut().for_each(without_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Takes out pictures, which are sent as images only.
fn pictures(output: &mut Value) -> Vec<ContentBlock> {
    let fields = output.as_object_mut().into_iter().flat_map(|fields| fields.values_mut());
    let listed = fields.filter_map(Value::as_array_mut).flatten().filter_map(Value::as_object_mut);
    let picture = |one: &mut Map<String, Value>| {
        let Some(Value::String(picture)) = one.shift_remove(PICTURE) else { return None };
        Some(ContentBlock::image(picture, one.get(MEDIA)?.as_str()?))
    };
    listed.filter_map(picture).collect()
}

/// Removes omitted fields and false flags from listed items.
fn in_brief(listed: &mut Value, leaves_out: &[&str]) {
    let Value::Array(values) = listed else { return };
    for fields in values.iter_mut().filter_map(Value::as_object_mut) {
        let inner = |value: &mut Value| {
            if let Value::Object(fields) = value {
                fields.retain(|name, _| !leaves_out.contains(&name.as_str()));
            }
        };
        fields.values_mut().for_each(inner);
        fields.retain(|name, value| {
            let nothing =
                *value == Value::Bool(false) || value.as_array().is_some_and(Vec::is_empty);
            !leaves_out.contains(&name.as_str()) && !nothing
        });
    }
}

/// Cuts the end of the longest list until the output fits. Returns a note about it.
fn fit(output: &mut Value, most: usize) -> Option<String> {
    let mut said: Option<String> = None;
    while length(output) > most - 200 {
        let Value::Object(fields) = output else { return said };
        let longest = fields.iter_mut().max_by_key(|(_, value)| length(value))?;
        match longest {
            (name, Value::Array(values)) if !values.is_empty() => {
                let (all, mut kept, mut size) = (values.len(), 0, 0);
                while kept < all && size < most * 3 / 4 {
                    size += length(&values[kept]);
                    kept += 1;
                }
                let kept = kept.min(all - 1);
                values.truncate(kept);
                let text = format!(
                    "truncated: {kept} of {all} {name} shown; request fewer or narrow the request"
                );
                fields.insert("truncated".into(), Value::Bool(true));
                said = Some(text);
            }
            (name, Value::String(text)) => {
                let text_said =
                    format!("truncated: '{name}' has {} bytes; request less at once", text.len());
                *text = beginning(text, text.len() / 2).into_owned();
                fields.insert("truncated".into(), Value::Bool(true));
                said = Some(text_said);
            }
            (name, _) => {
                let name = name.clone();
                fields.shift_remove(&name);
                said = Some(format!("truncated: '{name}' is too long; request less at once"));
            }
        }
    }
    if let (Value::Object(fields), Some(said)) = (output, &said) {
        fields.insert("note".into(), json!(said));
    }
    said
}

fn length(value: &Value) -> usize {
    match value {
        Value::Null => 4,
        Value::Bool(_) | Value::Number(_) => value.to_string().len(),
        Value::String(text) => text.len() + 2,
        Value::Array(values) => values.iter().map(|value| length(value) + 1).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| key.len() + length(value) + 4).sum::<usize>() + 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_cut_and_says_so() {
        let mut output =
            json!({ "generation": 1, "services": vec![json!({ "name": "x".repeat(100) }); 1000] });
        let said = fit(&mut output, 10_000).unwrap();
        let kept = output["services"].as_array().unwrap().len();
        assert!(said.starts_with(&format!("truncated: {kept} of 1000 services")), "{said}");
        assert!(kept > 50 && length(&output) <= 10_000 && output["truncated"] == true);
        for mut output in [
            json!({ "a": "x".repeat(50_000), "b": "x".repeat(5000), "c": "x".repeat(5000) }),
            json!({ "a": { "b": "x".repeat(50_000) } }),
            json!([["x".repeat(9)]]),
        ] {
            fit(&mut output, 10_000);
            assert!(length(&output) <= 10_000);
        }
        let long = "é\n".repeat(MAX_REPLY_BYTES);
        let short = shortened(&long, MAX_REPLY_BYTES);
        assert!(
            short.len() <= MAX_REPLY_BYTES && short.contains("… truncated: "),
            "{}",
            short.len()
        );
        assert_eq!(shortened("a\n", MAX_REPLY_BYTES), "a\n");
        let noted = with_notes(&long, "a=1\n", "cursor: c\n");
        assert!(noted.len() <= MAX_REPLY_BYTES && noted.ends_with("\na=1\ncursor: c\n"));
        let noted = with_notes("a\n", &long, "cursor: c\n");
        assert!(
            noted.len() <= MAX_REPLY_BYTES && noted.ends_with("\ncursor: c\n"),
            "{}",
            noted.len()
        );
    }

    #[test]
    fn nothing_is_said_that_is_not() {
        let mut output = json!({ "a": null, "b": [{ "c": null, "d": 1 }] });
        without_nulls(&mut output);
        assert_eq!(output, json!({ "b": [{ "d": 1 }] }));
    }

    #[test]
    fn an_error_has_a_remedy_and_the_protocol_its_own_ones() {
        let tool = proctor_ops::tools::find("run_command").unwrap();
        let error = OpError::new(Code::UnknownService, "no service 'x'").help("`proctor list`");
        let result = failed(tool, error, &Toolset::USUAL).unwrap();
        assert_eq!(result.is_error, Some(true));
        let text = result.content[0].as_text().unwrap().text.clone();
        assert_eq!(text, "no service 'x' (unknown_service)\nremedy: list_processes\n");
        let programs = serde_json::to_string(&result.meta).unwrap();
        assert!(programs.contains("list_processes") && !programs.contains('`'), "{programs}");
        let in_use = OpError::new(Code::HomeInUse, "in use").help("`proctor --home DIR up`");
        let result = failed(tool, in_use, &Toolset::USUAL).unwrap();
        let told = serde_json::to_string(&result).unwrap();
        assert!(told.contains("start_process") && told.contains("ask the person"), "{told}");
        assert!(!told.contains("proctor --home"), "{told}");
        let wrong = OpError::bad_input("timeout_seconds: a word");
        let result = failed(tool, wrong, &Toolset::USUAL).unwrap();
        let text = result.content[0].as_text().unwrap().text.clone();
        assert_eq!(text, "timeout: a word (bad_input)\n");
        let unknown = OpError::new(Code::UnknownOperation, "x");
        let error = failed(tool, unknown, &Toolset::USUAL).unwrap_err();
        assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
    }
}
