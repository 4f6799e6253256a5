//! What a tool answers: facts as structured content, and text to be read. What is long is in one of the two only, and nothing
//! is longer than an assistant can afford.

use proctor_core::text::beginning;
use proctor_ops::error::{Code, OpError};
use proctor_ops::show::{Page, unpainted};
use proctor_ops::tools::{TOOLS, Tool};
use rmcp::model::{CallToolResult, ContentBlock, ErrorCode, ErrorData, MetaObject};
use serde_json::{Map, Value, json};

/// Of the text, and of the facts: some 8,000 tokens, a third of what clients cut off at.
pub(super) const LONGEST: usize = 32 << 10;

/// The last lines of a service, wherever services are listed.
const OUTPUT: &str = "output";

/// A picture of something that is listed, as base64, and what kind of picture it is.
const PICTURE: &str = "picture";
const MEDIA: &str = "media";

/// Lines at the end of a text that say where it goes on, and what is not in it.
const ENDING: usize = 3;

/// Where an error is told for programs.
const ERROR: &str = "proctor/error";

/// Where what is long stands. Clients show the assistant one of the two, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Telling {
    /// In the text, and only there.
    InText,
    /// In the facts: this client shows nothing else when there are some.
    InFacts,
}

impl Telling {
    /// By what a client calls itself.
    pub(super) fn to(client: Option<&str>) -> Telling {
        let codex = client.is_some_and(|name| name.to_ascii_lowercase().contains("codex"));
        if codex { Telling::InFacts } else { Telling::InText }
    }
}

/// What an operation came to.
#[derive(Debug)]
pub(super) enum Outcome {
    Done(Value),
    /// It takes longer than a client waits for.
    GoesOn {
        operation: String,
    },
}

pub(super) fn answer(tool: &Tool, outcome: Outcome, telling: Telling) -> CallToolResult {
    match outcome {
        Outcome::Done(output) => done(tool, output, telling),
        Outcome::GoesOn { operation } => goes_on(&operation),
    }
}

fn done(tool: &Tool, mut output: Value, telling: Telling) -> CallToolResult {
    let mut page = Page::new(proctor_ops::moment::zone);
    let verdict = tool.entry().show(&output, &mut page).unwrap_or(Some(Code::Internal));
    let mut text = page.render(None, unpainted);
    if !tool.speaks() {
        text = in_tools(&text);
    }
    if let Value::Object(fields) = &output {
        text += &onwards(fields, &text);
    }
    without_nulls(&mut output);
    let pictures = pictures(&mut output);
    for listed in output.as_object_mut().into_iter().flat_map(|fields| fields.values_mut()) {
        in_brief(listed, tool.leaves_out);
    }
    if let (Value::Object(fields), Telling::InText) = (&mut output, telling) {
        for spoken in tool.spoken {
            fields.shift_remove(*spoken);
        }
        fields.values_mut().for_each(|listed| without(listed, tool.spoken_within));
        fields.values_mut().for_each(|listed| in_brief(listed, &[OUTPUT]));
    }
    if let Some(cut) = fit(&mut output, LONGEST) {
        text += &format!("{cut}\n");
    }
    let text = match telling {
        Telling::InFacts if tool.speaks() => headline(&text),
        Telling::InText | Telling::InFacts => shortened(&text),
    };
    let mut content = vec![ContentBlock::text(text)];
    content.extend(pictures);
    let mut result = CallToolResult::success(content);
    result.structured_content = Some(output);
    // That the time is over is an answer; the assistant goes on waiting or looks why.
    result.is_error = Some(verdict.is_some_and(|code| code != Code::Timeout));
    result
}

/// Where an answer can be gone on from, for who reads the text only, if that does not say so itself.
fn onwards(fields: &Map<String, Value>, said: &str) -> String {
    let text = |field: &str| fields.get(field).and_then(Value::as_str);
    let ending = |cursor: &&str| said.lines().rev().take(ENDING).any(|line| line.contains(cursor));
    if text("cursor").as_ref().is_some_and(ending) {
        return String::new();
    }
    let yes = |field: &str| fields.get(field) == Some(&Value::Bool(true));
    match (text("cursor"), text("next")) {
        (Some(cursor), _) if yes("truncated") => {
            format!("older lines are truncated; cursor: {cursor}\n")
        }
        (Some(cursor), _) if yes("more") => {
            format!("more is there; continue with cursor: {cursor}\n")
        }
        (Some(cursor), _) => format!("cursor: {cursor}\n"),
        (None, Some(next)) if yes("more") => format!("more is there; continue after: {next}\n"),
        _ => String::new(),
    }
}

fn goes_on(operation: &str) -> CallToolResult {
    let text = format!("it goes on as operation {operation}; get_operation waits for it");
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(json!({ "operation": operation }));
    result
}

/// An error that the assistant reads, or one of the protocol where the request cannot be understood at all.
pub(super) fn failed(error: OpError) -> Result<CallToolResult, ErrorData> {
    if let Some(number) = error.code.rpc() {
        return Err(ErrorData::new(ErrorCode(number), error.message, None));
    }
    let mut text = format!("{} ({})\n", error.message, error.code.as_str());
    if let Some(help) = &error.help {
        text += &format!("remedy: {}\n", in_tools(help));
    }
    let mut result = CallToolResult::error(vec![ContentBlock::text(shortened(&text))]);
    // Not as structured content: clients compare that with the schema of a good answer.
    let mut meta = MetaObject::new();
    meta.insert(ERROR.into(), serde_json::to_value(&error).unwrap_or_default());
    result.meta = Some(meta);
    Ok(result)
}

fn headline(text: &str) -> String {
    let mut lines = text.lines().rev();
    let last = lines.next().unwrap_or_default();
    let count = lines.count();
    format!("{count} lines in structuredContent; {last}\n")
}

/// What fits, and how much did not.
fn shortened(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let most = LONGEST - 200;
    let begin = text[..text.floor_char_boundary(most)].rfind('\n').map_or(most, |end| end + 1);
    let begin = text.floor_char_boundary(begin);
    let (shown, left) = text.split_at(begin);
    format!("{shown}… truncated: {} more bytes; ask for less at once\n", left.len())
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

/// Pictures are shown as such, and told nowhere else.
fn pictures(output: &mut Value) -> Vec<ContentBlock> {
    let fields = output.as_object_mut().into_iter().flat_map(|fields| fields.values_mut());
    let listed = fields.filter_map(Value::as_array_mut).flatten().filter_map(Value::as_object_mut);
    let picture = |one: &mut Map<String, Value>| {
        let Some(Value::String(picture)) = one.shift_remove(PICTURE) else { return None };
        Some(ContentBlock::image(picture, one.get(MEDIA)?.as_str()?))
    };
    listed.filter_map(picture).collect()
}

/// What is listed, without these fields.
fn without(listed: &mut Value, fields: &[&str]) {
    let Value::Array(values) = listed else { return };
    for value in values.iter_mut().filter_map(Value::as_object_mut) {
        value.retain(|name, _| !fields.contains(&name.as_str()));
    }
}

/// What is listed, without the fields that are left out, and without what is only said not to be so.
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

/// `proctor list` as an assistant says it: list_processes.
fn in_tools(text: &str) -> String {
    let mut said = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, quoted)) = rest.split_once('`')
        && let Some((command, after)) = quoted.split_once('`')
    {
        said += before;
        match tool_of(command) {
            Some(tool) => said += tool,
            None => said += &format!("`{command}`"),
        }
        rest = after;
    }
    said + rest
}

fn tool_of(command: &str) -> Option<&'static str> {
    let mut words = command.split_whitespace();
    let (program, words) = (words.next()?, words.collect::<Vec<_>>());
    let called = |tool: &&Tool| {
        let meta = &tool.entry().meta;
        let alias =
            meta.cli.len() == 1 && words.first().is_some_and(|word| meta.aliases.contains(word));
        !meta.cli.is_empty() && (words.starts_with(meta.cli) || alias)
    };
    (program == "proctor").then(|| TOOLS.iter().find(called)).flatten().map(|tool| tool.name)
}

/// Make it fit by leaving out the end of its longest list; says what was left out.
fn fit(output: &mut Value, most: usize) -> Option<String> {
    let mut said = None;
    while length(output) > most {
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
                    "truncated: {kept} of {all} {name} shown; ask for fewer or narrow the question"
                );
                fields.insert("truncated".into(), Value::Bool(true));
                said = Some(text);
            }
            (name, Value::String(text)) => {
                let text_said =
                    format!("truncated: '{name}' has {} bytes; ask for less at once", text.len());
                *text = beginning(text, text.len() / 2).into_owned();
                fields.insert("truncated".into(), Value::Bool(true));
                said = Some(text_said);
            }
            (name, _) => {
                let name = name.clone();
                fields.shift_remove(&name);
                said = Some(format!("truncated: '{name}' is too long; ask for less at once"));
            }
        }
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
        let long = "é\n".repeat(LONGEST);
        let short = shortened(&long);
        assert!(short.len() <= LONGEST && short.contains("… truncated: "), "{}", short.len());
        assert_eq!(shortened("a\n"), "a\n");
    }

    #[test]
    fn nothing_is_said_that_is_not() {
        let mut output = json!({ "a": null, "b": [{ "c": null, "d": 1 }] });
        without_nulls(&mut output);
        assert_eq!(output, json!({ "b": [{ "d": 1 }] }));
    }

    #[test]
    fn commands_are_said_as_tools() {
        let check = |text, expected: &str| assert_eq!(in_tools(text), expected);
        check("`proctor list` shows all", "list_processes shows all");
        check("`proctor daemon status` tells", "get_daemon_status tells");
        check("use `proctor nothing` or `x`", "use `proctor nothing` or `x`");
        check("`proctor start web` or `proctor up`", "start_process or apply_config");
        check("a ` b", "a ` b");
    }

    #[test]
    fn an_error_has_a_remedy_and_the_protocol_its_own_ones() {
        let error = OpError::new(Code::UnknownService, "no service 'x'").help("list_processes");
        let result = failed(error).unwrap();
        assert_eq!(result.is_error, Some(true));
        let text = result.content[0].as_text().unwrap().text.clone();
        assert_eq!(text, "no service 'x' (unknown_service)\nremedy: list_processes\n");
        let error = failed(OpError::new(Code::UnknownOperation, "x")).unwrap_err();
        assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
    }
}
