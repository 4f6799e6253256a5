//! `service.wait`: wait until services are in a state; a long poll that other fronts make progress from.

use super::status::statuses;
use super::stop::named;
use crate::error::{Code, OpError};
use crate::input::seconds_of;
use crate::operation::{About, Context, Effect, Meta, Method, Operation};
use crate::show::{Page, Show};
use crate::status::{ServiceStatus, overview};
use proctor_core::wire::PhaseView;
use proctor_engine::api::{Health, ServiceView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

const USUAL_WAIT: Duration = Duration::from_secs(60);

pub struct Wait;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Services, all instances of one, groups, or `all`
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// What to wait for
    #[arg(long, value_enum, default_value_t)]
    pub until: Until,
    /// Give up after this many seconds (60 if not given)
    #[arg(long, value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Wait for any change after this generation (as an earlier answer gave it), whatever it is
    #[arg(long, hide = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
}

/// A state to wait for.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    Running,
    /// Nothing of it runs and nothing is going to by itself
    Stopped,
    /// Neither starting nor stopping
    #[default]
    Settled,
    /// Running, and its health check (if it has one) is content
    Healthy,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Every service is where it was waited for
    pub reached: bool,
    /// One of them will not get there by itself
    pub hopeless: bool,
    /// Pass it back to wait for the next change
    pub generation: u64,
    pub services: Vec<ServiceStatus>,
}

impl Operation for Wait {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["wait"],
        summary: "Wait until services are running, stopped, settled or healthy",
        details: "\
Returns at once when a service has failed and cannot get there by itself.

Examples:
  proctor wait web --until healthy --timeout 30
  proctor wait import --until stopped",
        ..Meta::of("service.wait", Effect::Read).waiting("").at(
            Method::Get,
            "/services/{name}/wait",
            "names",
        )
    };

    fn about(input: &Input) -> About<'_> {
        About::Services(&input.names)
    }

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let wait =
            input.timeout.map_or(Ok(USUAL_WAIT), |seconds| seconds_of("timeout", seconds))?;
        let names = named(context, &input.names)?;
        let deadline = Instant::now() + wait;
        loop {
            let (generation, verdicts) = context.engine.read(|view| {
                let verdicts: Vec<Verdict> = names
                    .iter()
                    .map(|name| {
                        view.services
                            .get(name)
                            .map_or(Verdict::gone(input.until), |s| judge(input.until, s))
                    })
                    .collect();
                (view.generation, verdicts)
            });
            let reached = verdicts.iter().all(|v| *v == Verdict::Reached);
            let hopeless = verdicts.contains(&Verdict::Hopeless);
            let done = match input.generation {
                Some(seen) => generation > seen,
                None => reached || hopeless,
            };
            if done || Instant::now() >= deadline {
                let services = statuses(context, &names, false).await;
                return Ok(Output { reached, hopeless, generation, services });
            }
            // Either something changed or the time is over; the next look tells which.
            let _ = timeout_at(deadline, context.engine.changed(generation)).await;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Reached,
    NotYet,
    Hopeless,
}

impl Verdict {
    /// Of a service that was removed while it was waited for.
    fn gone(until: Until) -> Verdict {
        match until {
            Until::Stopped | Until::Settled => Verdict::Reached,
            Until::Running | Until::Healthy => Verdict::Hopeless,
        }
    }
}

fn judge(until: Until, service: &ServiceView) -> Verdict {
    let Some(state) = &service.state else { return Verdict::NotYet };
    match (until, &state.phase) {
        (Until::Running, PhaseView::Up { .. }) => Verdict::Reached,
        (Until::Healthy, PhaseView::Up { .. }) => match service.health {
            None | Some(Health::Healthy { .. }) => Verdict::Reached,
            Some(Health::Unknown | Health::Failing { .. }) => Verdict::NotYet,
        },
        (Until::Running | Until::Healthy, PhaseView::Failed { .. }) => Verdict::Hopeless,
        (Until::Stopped, PhaseView::Down | PhaseView::Failed { .. }) => Verdict::Reached,
        (
            Until::Settled,
            PhaseView::Starting { .. } | PhaseView::Stopping { .. } | PhaseView::Held,
        ) => Verdict::NotYet,
        (Until::Settled, _) => Verdict::Reached,
        (Until::Running | Until::Healthy | Until::Stopped, _) => Verdict::NotYet,
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        overview(&self.services, page);
    }

    fn verdict(&self) -> Option<Code> {
        match (self.reached, self.hopeless) {
            (true, _) => None,
            (false, true) => Some(Code::ServiceFailed),
            (false, false) => Some(Code::Timeout),
        }
    }
}
