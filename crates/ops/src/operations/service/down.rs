//! `service.down`: stops every service, then Proctor.

use super::stop::USUAL_WAIT;
use crate::error::{Code, OpError};
use crate::input::WaitOptions;
use crate::operation::{About, Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Page, Show};
use crate::wait_for_services::{ChangedServices, Goal, Outcome, Report, before, report, settle};
use proctor_core::lifecycle::Wish;
use proctor_core::name::ServiceName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct Down;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Keep Proctor itself running
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep_daemon: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub patience: WaitOptions,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    pub settled: bool,
    pub services: Vec<Report>,
    /// Proctor is stopping
    pub ending: bool,
    pub keeper_pid: Option<u32>,
    /// Changes that were made but not recorded yet, with the reason and the consequence
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unrecorded: Vec<String>,
}

impl Operation for Down {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["down"],
        summary: "Stop every service, then Proctor itself",
        details: "\
The services stay stopped until `proctor up` or `proctor start`. To stop Proctor and have it bring the services back \
when it starts again, use `proctor daemon stop`.

Examples:
  proctor down
  proctor down --keep-daemon",
        ..Meta::of("service.down", Effect::Write, Target::Services).waiting("to stop").even_unrecorded()
    };

    fn role(input: &Input) -> Role {
        if input.keep_daemon { Role::Operator } else { Role::Admin }
    }

    fn target(input: &Input) -> Target {
        if input.keep_daemon { Self::META.target } else { Target::Proctor }
    }

    fn about(_: &Input) -> About<'_> {
        About::Everything
    }

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let wait = input.patience.duration(USUAL_WAIT)?;
        let (names, keeper_pid) = context.engine.read(|view| {
            let names: Vec<ServiceName> = view.services.keys().cloned().collect();
            (names, view.keeper.as_ref().map(|keeper| keeper.pid))
        });
        let befores = before(context, &names, Goal::Stop);
        let unrecorded = context.engine.set_wish(&names, Wish::Down).await?;
        let settled = settle(context, Goal::Stop, &befores, wait).await;
        let ChangedServices { services, .. } =
            report(context, Goal::Stop, &befores, settled, !wait.is_zero());
        // If a service outlived the wait, Proctor stays and keeps stopping it. It also stays if another request started a service.
        let again = services.iter().any(|report| report.result == Outcome::Overruled);
        let ending = settled && !again && !input.keep_daemon;
        if ending {
            context.engine.shutdown().await?;
        }
        let unrecorded = context.unrecorded(unrecorded);
        Ok(Output { settled, services, ending, keeper_pid, unrecorded })
    }
}

impl Output {
    /// The services that had something to stop.
    fn changes(&self) -> ChangedServices {
        let services =
            self.services.iter().filter(|r| r.result != Outcome::AlreadyStopped).cloned().collect();
        ChangedServices { settled: self.settled, services, unrecorded: self.unrecorded.clone() }
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        self.changes().show(page);
        if self.ending && self.changes().services.is_empty() {
            page.line().plain("no service was running; Proctor has ended");
        }
        if !self.settled {
            page.line().plain("Proctor keeps running until they have stopped");
        }
    }

    fn verdict(&self) -> Option<Code> {
        self.changes().verdict()
    }
}
