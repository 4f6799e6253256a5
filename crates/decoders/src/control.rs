//! One line from a client of the control port.

use proctor_front::tcp::line_text::{LineText, hear};
use proctor_front::tcp::parsed_line::{ParsedLine, ReplyFormat, understand};
use serde_json::{Value, json};

pub(crate) fn check(bytes: &[u8]) {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let text = match hear(line) {
        Ok(LineText::Text(text)) => text,
        Ok(LineText::Http) | Err(_) => return,
    };
    assert!(text.len() <= line.len(), "a text is longer than its line");
    assert!(!text.contains(['\0', '\u{1b}']), "a terminal would obey this: {text:?}");
    assert_eq!(
        hear(text.as_bytes()),
        Ok(LineText::Text(text.clone())),
        "heard again it is another"
    );
    let (manner, said) = understand(&text);
    assert_eq!(understand(&text), (manner, said.clone()), "it is understood in two ways");
    let Ok(ParsedLine::Call(call)) = said else { return };
    assert!(call.input.is_object() || manner == ReplyFormat::Json, "words are {:?}", call.input);
    general(&call.op, &call.input);
}

/// Every accepted line has an equivalent in the general form.
fn general(op: &str, input: &Value) {
    let again = json!({ "op": op, "input": input }).to_string();
    match understand(&again) {
        (ReplyFormat::Json, Ok(ParsedLine::Call(call))) => {
            assert_eq!((call.op.as_str(), &call.input), (op, input));
        }
        other => panic!("{again}: {other:?}"),
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let lines = [
        r#""Status""#,
        r#"{"Status":{"service":"web"},"token":"proctor_x"}"#,
        r#"{"Restart":{"args":["--port","3"],"service":"web"}}"#,
        r#"{"ReloadConfig":{"config_path":null}}"#,
        r#"{"CustomRestart":{"pre_commands":[{"command_type":"Make","command":"x"}],"env_vars":{"A":"b"}}}"#,
        r#"{"ExecuteCommand":{"command":{"command_type":"Shell","command":"ls"},"timeout_seconds":30}}"#,
        r#"{"Auth":{"token":"proctor_x"}}"#,
        r#"{"op":"log.read","input":{"services":["web"],"tail":5}}"#,
        "status web --check",
        "logs web -n 5 --grep 'a b'",
        "start --name web --command \"npm run dev\" --env A=b",
        "help restart",
        "auth proctor_x",
        "POST /dashboard HTTP/1.1",
    ];
    let mut seeds: Vec<Vec<u8>> = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
    seeds.push(b"\xff\xfd\x03\xff\xfa\x18\x00\xff\xf0status\r".to_vec());
    seeds
}
