//! `config.reload`: reads the configuration again. Running services keep running.

use crate::authority::hands;
use crate::error::OpError;
use crate::input::Caller;
use crate::operation::{Context, Effect, Meta, Operation, Target};
use crate::text_output::{Page, Show, Style};
use proctor_core::name::ServiceName;
use proctor_engine::api::ConfigRequest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct Reload;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Configuration file; the current one if omitted
    #[arg(long = "config", short = 'c', value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_path: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub caller: Caller,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Configuration now in use
    pub source: String,
    /// New services; they are not started
    pub added: Vec<String>,
    /// Services with a changed definition
    pub changed: Vec<String>,
    /// Services that are no longer defined; they are stopped and removed
    pub removed: Vec<String>,
    /// Services that run with old settings; a restart applies the new ones
    pub stale: Vec<String>,
}

impl Operation for Reload {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["reload"],
        summary: "Read the configuration again, without starting or restarting anything",
        details: "\
Services that are no longer defined are stopped. Settings that do not affect a process apply at once: restart policies, health checks, \
logs, listeners, security. Other settings apply at the next restart. `proctor up` starts new services and restarts changed ones. If \
the file has an error, nothing changes. Variables keep the values from when the configuration was last applied.

Examples:
  proctor reload
  proctor reload --config deploy/proctor.yaml",
        launches: false,
        ..Meta::of("config.reload", Effect::Exec, Target::Configuration).with_caller()
    };

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let path = input.config_path.as_deref();
        let request = ConfigRequest {
            path: path.map(|path| input.caller.resolve(path)).transpose()?,
            example: false,
            environment: input.caller.environment().filter(|_| !context.engine.is_configured()),
            refresh_environment: false,
            start: None,
            hands: hands(context),
        };
        let applied = context.engine.apply(request).await?;
        let stale = context.engine.read(|view| {
            let stale = view.services.values().filter(|service| service.stale);
            stale.map(|service| service.name.to_string()).collect()
        });
        let words = |names: &[ServiceName]| names.iter().map(ToString::to_string).collect();
        Ok(Output {
            added: words(&applied.added),
            changed: words(&applied.changed),
            removed: words(&applied.removed),
            source: applied.source,
            stale,
        })
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        page.line().plain(format!("{} is in use", self.source));
        let lists = [
            (&self.added, "is new: start it with `proctor start`", Style::Plain),
            (&self.removed, "was removed: it is no longer in the configuration", Style::Plain),
            (
                &self.stale,
                "runs with its old settings; `proctor restart` applies the new ones",
                Style::Warn,
            ),
        ];
        for (names, text, style) in lists {
            for name in names {
                page.line().name(name).plain(" ").add(style, text);
            }
        }
    }
}
