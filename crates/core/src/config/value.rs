//! Parsed values of keys, and their display.

use super::keys::{Duration, Kind, Unit};
use super::roots::RootDef;
use super::secret::{HIDDEN, shown_text, shown_words};
use super::signal;
use crate::shell_syntax::ShellSyntax;
use serde_json::{Value as Json, json};

/// A value that fits its key's [`Kind`].
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    Number(i64),
    Float(f64),
    Millis(u64),
    Bytes(u64),
    Signal(i32),
    Umask(u32),
    /// `unlimited` for a number, `none` for a duration, `off` for a port.
    Without,
    /// The name in the key's list of choices.
    Choice(&'static str),
    Choices(Vec<&'static str>),
    Text(DisplayText),
    /// `command` as a text; `shell` decides whether it is split. Includes the shell syntax found in
    /// the text as written: the values of variables are data.
    Line(DisplayText, Option<ShellSyntax>),
    Words(Vec<DisplayText>),
    ExitCodes(Vec<i32>),
    User {
        user: String,
        group: Option<String>,
    },
    Limit {
        soft: Option<u64>,
        hard: Option<u64>,
    },
    Variables(Vec<Variable>),
    Roots(Vec<RootDef>),
}

/// A text, and the form that may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DisplayText {
    pub text: String,
    pub shown: String,
}

/// One environment variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variable {
    pub name: String,
    pub text: String,
    pub shown: String,
    /// `proctor.yaml:12:7` or `/srv/app/.env:3`
    pub origin: String,
}

impl Value {
    /// The effective value as JSON in the unit of its key, with secrets masked.
    pub(super) fn json(&self, kind: &Kind) -> Json {
        match self {
            Value::Bool(value) => json!(value),
            Value::Number(value) => json!(value),
            Value::Float(value) => json!(value),
            Value::Millis(value) => duration_json(*value, kind),
            Value::Bytes(value) => json!(value),
            Value::Signal(number) => {
                signal::name(*number).map_or(json!(number), |name| json!(name))
            }
            Value::Umask(value) => json!(format!("{value:03o}")),
            Value::Without if matches!(kind, Kind::Duration(_)) => json!("none"),
            Value::Without if matches!(kind, Kind::Port) => json!("off"),
            Value::Without => json!("unlimited"),
            Value::Choice(name) => json!(name),
            Value::Choices(names) => json!(names),
            Value::Text(_) if matches!(kind, Kind::Secret) => json!(HIDDEN),
            Value::Text(word) => json!(shown_text(&word.shown)),
            Value::Line(word, _) => json!(shown_text(&word.shown)),
            Value::Words(words) => json!(shown_words(words.iter().map(|word| word.shown.as_str()))),
            Value::ExitCodes(codes) => json!(codes),
            Value::User { user, group: None } => json!(user),
            Value::User { user, group: Some(group) } => json!(format!("{user}:{group}")),
            Value::Limit { soft, hard } if soft == hard => limit_json(*soft),
            Value::Limit { soft, hard } => {
                json!(format!("{}:{}", limit_text(*soft), limit_text(*hard)))
            }
            Value::Roots(roots) => {
                let json = |root: &RootDef| json!({ "path": shown_text(&root.path), "name": root.name, "write": root.write });
                roots.iter().map(json).collect()
            }
            Value::Variables(variables) => {
                variables.iter().map(|it| (it.name.clone(), json!(it.shown))).collect()
            }
        }
    }
}

fn duration_json(millis: u64, kind: &Kind) -> Json {
    let in_seconds = matches!(kind, Kind::Duration(Duration { unit: Unit::Seconds, .. }));
    match in_seconds {
        true if millis.is_multiple_of(1000) => json!(millis / 1000),
        true => json!(format!("{millis}ms")),
        false => json!(millis),
    }
}

fn limit_json(limit: Option<u64>) -> Json {
    limit.map_or_else(|| json!("unlimited"), |number| json!(number))
}

fn limit_text(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".into(), |number| number.to_string())
}
