//! `config.reload`: read the configuration again; what runs goes on.

use crate::authority::hands;
use crate::error::OpError;
use crate::input::Caller;
use crate::operation::{Context, Effect, Meta, Operation, Target};
use crate::show::{Page, Show, Style};
use proctor_core::name::ServiceName;
use proctor_engine::api::ConfigRequest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct Reload;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Another configuration file; the one in force if not given
    #[arg(long = "config", short = 'c', value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_path: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub caller: Caller,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// The configuration in force now
    pub source: String,
    /// New in it, and not started
    pub added: Vec<String>,
    /// Defined differently than before
    pub changed: Vec<String>,
    /// No longer in it, stopped and forgotten
    pub removed: Vec<String>,
    /// Running with settings of before; a restart applies the new ones
    pub stale: Vec<String>,
}

impl Operation for Reload {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["reload"],
        summary: "Read the configuration again, without starting or restarting anything",
        details: "\
Services that are no longer in it are stopped. Settings that concern no process hold at once: restart policies, health checks, \
logs, listeners, security. The rest waits for the next restart. `proctor up` starts what is new and restarts what changed. If \
anything in the file is wrong, nothing changes. Variables are those that the configuration was applied with before.

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
        page.line().plain(format!("{} is in force", self.source));
        let lists = [
            (&self.added, "is new: `proctor start` starts it", Style::Plain),
            (&self.removed, "was removed: it is no longer in the configuration", Style::Plain),
            (
                &self.stale,
                "runs with its old settings; `proctor restart` applies them",
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
