//! Removes secrets from error texts before they are reported.

use crate::error::OpError;
use proctor_core::text::beginning;
use proctor_engine::secrets::{hide, hide_these};
use serde_json::Value;

/// Maximum length of an error text. Twice as much is scanned, because a cut may split a secret.
const MAX_TEXT_BYTES: usize = 8 << 10;

/// Masks the secrets of the request (`private`) and all known secrets.
pub(crate) fn quiet(error: OpError, private: &[String]) -> OpError {
    let shown = |text: &str| -> String {
        let text = beginning(text, 2 * MAX_TEXT_BYTES);
        let shown = hide_these(&text, private.iter().map(String::as_str));
        beginning(&hide(&shown), MAX_TEXT_BYTES).into_owned()
    };
    OpError {
        code: error.code,
        message: shown(&error.message),
        help: error.help.as_deref().map(shown),
        details: error.details.map(|details| Box::new(within(*details, &shown))),
    }
}

fn within(value: Value, shown: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(shown(&text)),
        Value::Array(items) => items.into_iter().map(|item| within(item, shown)).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| (key, within(value, shown))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_engine::secrets::of_request;
    use serde_json::json;

    #[test]
    fn an_error_does_not_quote_what_is_secret() {
        let error = OpError::bad_input("env: found 'TOKEN=hunter2-hunter2', expected KEY=VALUE")
            .help("hunter2-hunter2?")
            .details(json!({ "found": ["hunter2-hunter2", 7] }));
        let request = json!({ "env": ["TOKEN=hunter2-hunter2"] });
        let text = format!("{:?}", quiet(error, &of_request(&request)));
        assert!(!text.contains("hunter2") && text.contains("TOKEN=***"), "{text}");
    }

    #[test]
    fn an_error_is_no_longer_than_a_person_reads() {
        let secret = "hunter2-hunter2".to_owned();
        let text = format!("{}{secret}", "x".repeat(MAX_TEXT_BYTES - 5)) + &"y".repeat(1 << 20);
        let error = quiet(OpError::bad_input(text), &[secret]);
        assert!(error.message.len() < MAX_TEXT_BYTES + 5, "{}", error.message.len());
        assert!(!error.message.contains("hunt"), "the message contains half of a secret");
    }
}
