//! `daemon.stop`: stops Proctor in order. The wishes are kept, so the next start brings the services back.

use crate::error::OpError;
use crate::operation::{About, Context, Effect, Meta, Operation, Target};
use crate::text_output::{Page, Show};
use crate::wait_for_services::show_unrecorded;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct DaemonStop;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Pid of the keeper; Proctor has ended when this process has
    pub keeper_pid: Option<u32>,
    /// Services that were running; each is stopped or left running, according to its `on_shutdown`
    pub services: Vec<String>,
    /// Changes that were made but not recorded yet, with the reason and the consequence
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unrecorded: Vec<String>,
}

impl Operation for DaemonStop {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["daemon", "stop"],
        summary: "Stop Proctor; its services come back when it starts again",
        details: "\
Services are stopped first, except those with `on_shutdown: leave`, which keep running.

Examples:
  proctor daemon stop",
        ..Meta::of("daemon.stop", Effect::Admin, Target::Proctor).even_unrecorded()
    };

    fn about(_: &Input) -> About<'_> {
        About::Everything
    }

    async fn run(context: &Context, _: Input) -> Result<Output, OpError> {
        let output = context.engine.read(|view| Output {
            keeper_pid: view.keeper.as_ref().map(|keeper| keeper.pid),
            services: view
                .services
                .values()
                .filter(|service| {
                    service.state.as_ref().and_then(|state| state.phase.run()).is_some()
                })
                .map(|service| service.name.to_string())
                .collect(),
            unrecorded: context.unrecorded(None),
        });
        context.engine.shutdown().await?;
        Ok(output)
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        page.line().plain("Proctor has ended");
        show_unrecorded(page, &self.unrecorded);
    }
}
