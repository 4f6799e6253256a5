//! `service.signal`: sends a signal to services.

use crate::error::OpError;
use crate::operation::{About, Context, Effect, Meta, Method, Operation, Target};
use crate::text_output::{Page, Show};
use proctor_core::config::signal;
use proctor_core::wire::Whom;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct Signal;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Service or group; a name selects all its instances; or `all`
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Signal: HUP, SIGHUP or 1
    #[arg(value_name = "SIGNAL")]
    pub signal: String,
    /// Signal every process of the service, not only the main one
    #[arg(long)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tree: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    pub signal: String,
    pub services: Vec<String>,
}

impl Operation for Signal {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["signal"],
        summary: "Send a signal to a service",
        details: "\
The wanted state of the service does not change: if the signal ends it, its restart policy applies.

Examples:
  proctor signal nginx HUP
  proctor signal worker USR1 --tree",
        ..Meta::of("service.signal", Effect::Write, Target::Services).at(
            Method::Post,
            "/services/{name}/signal",
            "name",
        )
    };

    fn about(input: &Input) -> About<'_> {
        About::Services(std::slice::from_ref(&input.name))
    }

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let number = signal::number(&input.signal).ok_or_else(|| {
            OpError::bad_input(format!("unknown signal '{}'", input.signal))
                .help("for example HUP, TERM, USR1 or 9")
        })?;
        let names = context.engine.select(std::slice::from_ref(&input.name))?;
        let whom = if input.tree { Whom::Tree } else { Whom::Main };
        for name in &names {
            context.engine.signal(name, number, whom).await?;
        }
        let services = names.iter().map(ToString::to_string).collect();
        Ok(Output { signal: signal::long_name(number), services })
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        for service in &self.services {
            page.line().name(service).plain(format!(": {} sent", self.signal));
        }
    }
}
