//! `config.show`: shows every effective value with its origin, checks a file, or prints the built-in example.

use crate::error::OpError;
use crate::input::Caller;
use crate::operation::{Context, Effect, Meta, Method, Operation, Role, Target};
use crate::text_output::{Column, Fit, Page, Show, Span, Style, Table, counted};
use proctor_core::config::Setting;
use proctor_core::home::Home;
use proctor_core::name::ServiceName;
use proctor_engine::api::{ConfigRequest, Engine, ServiceView};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub struct Config;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Only the settings of these services
    #[arg(value_name = "NAME")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Check this file and show its settings, without running it
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// With --check: also print every setting
    #[arg(long, short, requires = "check")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub verbose: bool,
    /// Print an example configuration
    #[arg(long, conflicts_with = "check")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub example: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub caller: Caller,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// File the values come from
    pub source: Option<String>,
    pub settings: Vec<Effective>,
    /// With `check`: the file is valid
    #[serde(default)]
    pub checked: bool,
    /// With `check`: people see only that the file is valid; programs get all settings
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub brief: bool,
    /// With `example`: text of the example
    pub example: Option<String>,
}

/// An effective value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effective {
    /// Full key: `services.web.restart.delay`
    pub key: String,
    /// Value; secrets are `***`
    #[schemars(schema_with = "any")]
    pub value: Value,
    /// Origin: `proctor.yaml:12:7`, an environment variable, or `default`
    pub origin: String,
}

/// Schema of a value of any type, spelled out: some clients reject an empty schema.
pub(super) fn any(_: &mut SchemaGenerator) -> Schema {
    let kinds = ["string", "number", "boolean", "array", "object", "null"];
    json_schema!({ "anyOf": kinds.map(|kind| json!({ "type": kind })) })
}

impl Operation for Config {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["config"],
        summary: "Show every setting and its origin, or check a file",
        details: "\
Without a running Proctor, this reads the file that `proctor up` would run. `--check` reports whether a file is valid, and with `-v` its \
settings. Nothing is started.

Examples:
  proctor config
  proctor config web
  proctor config --check proctor.yaml
  proctor config --example > proctor.yaml",
        launches: false,
        ..Meta::of("config.show", Effect::Read, Target::Nothing).with_caller().at(Method::Get, "/config", "")
    };

    fn role(input: &Input) -> Role {
        // `check` reads a file that the caller chose.
        if input.check.is_none() { Role::Viewer } else { Role::Admin }
    }

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        if input.example {
            return Ok(example());
        }
        if let Some(path) = &input.check {
            let request = request(&input, path)?;
            let source = request.path.as_ref().map(|path| path.display().to_string());
            let settings = context.engine.check(request).await?;
            return Ok(output(&input, source, settings));
        }
        let (source, settings, overrides) = context.engine.read(|view| {
            let source = view.config.as_ref().map(|path| path.display().to_string());
            let overridden = |service: &ServiceView| {
                Some((service.name.clone(), service.args_override.clone()?))
            };
            let overrides: Vec<_> = view.services.values().filter_map(overridden).collect();
            (source, view.settings.clone(), overrides)
        });
        let mut settings = settings.unpack();
        show_overrides(&mut settings, overrides);
        Ok(output(&input, source, settings))
    }

    fn without_daemon(_: &Home, input: &Input) -> Option<Result<Output, OpError>> {
        if input.example {
            return Some(Ok(example()));
        }
        let path = input.check.as_ref()?;
        Some(check_alone(input, path))
    }
}

/// The result of a check does not depend on a running Proctor.
fn check_alone(input: &Input, path: &str) -> Result<Output, OpError> {
    let request = request(input, path)?;
    let source = request.path.as_ref().map(|path| path.display().to_string());
    Ok(output(input, source, Engine::check_alone(request)?))
}

fn request(input: &Input, path: &str) -> Result<ConfigRequest, OpError> {
    let path = Some(input.caller.resolve(path)?);
    let environment = input.caller.environment();
    Ok(ConfigRequest { path, environment, ..ConfigRequest::default() })
}

fn output(input: &Input, source: Option<String>, settings: Vec<Setting>) -> Output {
    let wanted = settings.into_iter().filter(|setting| belongs(setting, &input.names));
    let settings = wanted.map(value_of).collect();
    let checked = input.check.is_some();
    let brief = checked && !input.verbose && input.names.is_empty();
    Output { source, settings, checked, brief, example: None }
}

/// The arguments of a restart override the file.
fn show_overrides(settings: &mut [Setting], overrides: Vec<(ServiceName, String)>) {
    for (name, args) in overrides {
        let key = format!("services.{}.args", name.base());
        if let Some(setting) = settings.iter_mut().find(|setting| setting.key == key) {
            setting.value = Value::String(args).to_string();
            setting.origin = format!("restart --args of {name}");
        }
    }
}

fn example() -> Output {
    let example = Some(Engine::example().to_owned());
    Output { source: None, settings: Vec::new(), checked: false, brief: false, example }
}

fn belongs(setting: &Setting, names: &[String]) -> bool {
    let service = setting.key.strip_prefix("services.");
    names.is_empty()
        || names.iter().any(|name| {
            service
                .and_then(|rest| rest.strip_prefix(name.as_str()))
                .is_some_and(|rest| rest.starts_with(['.', '@']))
        })
}

fn value_of(setting: Setting) -> Effective {
    let value = serde_json::from_str(&setting.value).unwrap_or(Value::String(setting.value));
    Effective { key: setting.key, value, origin: setting.origin }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        if let Some(text) = &self.example {
            return page.text(Style::Plain, text);
        }
        if self.brief {
            return self.show_verdict(page);
        }
        if self.settings.is_empty() {
            page.line().dim("no configuration; `proctor config --example` prints an example");
            return;
        }
        let mut table = Table::new(&[
            Column::new("KEY", Fit::Keep),
            Column::new("VALUE", Fit::Shrink(16)),
            Column::new("FROM", Fit::Keep),
        ]);
        for setting in &self.settings {
            let from = if setting.origin == "default" { Style::Dim } else { Style::Plain };
            table.row([
                Span::new(Style::Name, &setting.key),
                Span::new(Style::Plain, setting.value.to_string()),
                Span::new(from, &setting.origin),
            ]);
        }
        page.table(table);
        if self.checked {
            self.show_verdict(page);
        }
    }
}

impl Output {
    fn show_verdict(&self, page: &mut Page) {
        let source = self.source.as_deref().unwrap_or("the configuration");
        // Every service has a command.
        let commands = self
            .settings
            .iter()
            .filter_map(|setting| setting.key.strip_prefix("services.")?.strip_suffix(".command"));
        let services: BTreeSet<&str> = commands.filter_map(|name| name.split('@').next()).collect();
        let count = counted(services.len() as u64, "service");
        page.line().plain(format!("{source} is ")).add(Style::Good, format!("valid: {count}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_chosen_by_whole_names() {
        let setting =
            |key: &str| Setting { key: key.into(), value: "1".into(), origin: "default".into() };
        let web = ["web".to_owned()];
        assert!(belongs(&setting("services.web.port"), &web));
        assert!(belongs(&setting("services.web@2.port"), &web));
        assert!(!belongs(&setting("services.webhook.port"), &web));
        assert!(!belongs(&setting("restart.delay"), &web));
        assert!(belongs(&setting("restart.delay"), &[]));
    }
}
