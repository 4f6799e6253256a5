//! `service.add`: defines a service at run time. It is kept like one from the configuration file.

use crate::error::{Code, OpError};
use crate::input::{Caller, Definition, WaitOptions, literal, literals};
use crate::operation::{About, Context, Effect, Meta, Method, Operation, Target};
use crate::operations::service::start::USUAL_WAIT;
use crate::text_output::{Page, Show};
use crate::wait_for_services::{ChangedServices, Goal, before, report, settle};
use proctor_core::lifecycle::Wish;
use proctor_engine::api::NewService;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub struct Add;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Name of the new service
    #[arg(value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    #[serde(flatten)]
    pub definition: Definition,
    #[command(flatten)]
    #[serde(flatten)]
    pub more: CommonKeys,
    /// Also start the service
    #[arg(long)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub start: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub patience: WaitOptions,
    #[command(flatten)]
    #[serde(flatten)]
    pub caller: Caller,
}

/// Frequently used keys of `proctor.yaml`.
#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CommonKeys {
    /// Description of the service
    #[arg(long, value_name = "TEXT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Number of instances: NAME@1, NAME@2, …
    #[arg(long, value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instances: Option<u32>,
    /// Group the service belongs to; may be repeated
    #[arg(long = "group", value_name = "GROUP")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// File with more environment variables; may be repeated
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env_file: Vec<String>,
    /// User to run as, or USER:GROUP
    #[arg(long, value_name = "USER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Seconds between health checks
    #[arg(long, value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_check_interval: Option<u32>,
    /// Maximum restarts after crashes before the service is failed
    #[arg(long, value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_restarts: Option<u32>,
    /// Signal that stops the service
    #[arg(long, value_name = "SIGNAL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<String>,
    /// Time the service has to stop before it is killed: 10s
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_grace: Option<String>,
    /// Start the service when Proctor starts
    #[arg(long, value_name = "BOOL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autostart: Option<bool>,
}

impl CommonKeys {
    fn add_keys(&self, keys: &mut Map<String, Value>) {
        let text = |value: &Option<String>| value.as_ref().map(|text| json!(literal(text)));
        let list = |values: &[String]| (!values.is_empty()).then(|| literals(values));
        let stop: Map<String, Value> =
            [("signal", text(&self.stop_signal)), ("grace", text(&self.stop_grace))]
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), value?)))
                .collect();
        let given = [
            ("description", text(&self.description)),
            ("instances", self.instances.map(Value::from)),
            ("groups", list(&self.groups)),
            ("env_file", list(&self.env_file)),
            ("user", text(&self.user)),
            ("health_check_interval", self.health_check_interval.map(Value::from)),
            ("max_restarts", self.max_restarts.map(Value::from)),
            ("autostart", self.autostart.map(Value::from)),
            ("stop", (!stop.is_empty()).then_some(Value::Object(stop))),
        ];
        keys.extend(given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Names of the services now defined: one, or one for each instance
    pub added: Vec<String>,
    /// Result of the start; only with `start`
    pub started: Option<ChangedServices>,
}

impl Operation for Add {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["add"],
        summary: "Define a service without a configuration file",
        details: "\
The service is kept until it is removed, also when Proctor or the machine restarts. It is started now only with --start. After a reboot it is started unless --autostart is false.

Examples:
  proctor add web --command \"npm run dev\" --port 3000 --start
  proctor add worker --command ./worker --instances 4 --group backend
  proctor add api --health-check-url http://localhost:8000/health -- ./api --listen :8000",
        ..Meta::of("service.add", Effect::Exec, Target::Services).waiting("to start").with_caller()
            .at(Method::Post, "/services", "")
    };

    fn about(input: &Input) -> About<'_> {
        About::New { name: &input.name, replace: input.definition.replace }
    }

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let wait = input.patience.duration(USUAL_WAIT)?;
        let mut keys = input.definition.keys()?;
        input.more.add_keys(&mut keys);
        let service = input.definition.new_service(context, &input.name, keys, &input.caller)?;
        let start = input.start.then_some(Wish::Up);
        let names = context.engine.add(NewService { start, ..service }).await?;
        let added = names.iter().map(ToString::to_string).collect();
        if !input.start {
            return Ok(Output { added, started: None });
        }
        let befores = before(context, &names, Goal::Start);
        context.engine.set_wish(&names, Wish::Up).await?;
        let settled = settle(context, Goal::Start, &befores, wait).await;
        let started = report(context, Goal::Start, &befores, settled, !wait.is_zero());
        Ok(Output { added, started: Some(started) })
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        match &self.started {
            Some(changed) => changed.show(page),
            None => {
                for name in &self.added {
                    page.line()
                        .name(name)
                        .plain(" added; ")
                        .dim(format!("start it with `proctor start {name}`"));
                }
            }
        }
    }

    fn verdict(&self) -> Option<Code> {
        self.started.as_ref().and_then(ChangedServices::verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_becomes_keys_and_nothing_else_does() {
        let more = CommonKeys {
            instances: Some(2),
            groups: vec!["backend".into()],
            stop_grace: Some("3s".into()),
            autostart: Some(false),
            ..CommonKeys::default()
        };
        let mut keys = Map::new();
        more.add_keys(&mut keys);
        let expected = json!({
            "instances": 2, "groups": ["backend"], "autostart": false, "stop": { "grace": "3s" },
        });
        assert_eq!(Value::Object(keys), expected);
    }
}
