//! `service.stop`: stop services and everything they started.

use crate::error::OpError;
use crate::input::Patience;
use crate::operation::{About, Context, Effect, Meta, Method, Operation, Target};
use crate::settle::{Changed, Goal, before, report, settle};
use proctor_core::lifecycle::Wish;
use proctor_core::name::ServiceName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Longer than the usual grace of ten seconds: what ignores it is killed then, and gone soon after.
pub(crate) const USUAL_WAIT: Duration = Duration::from_secs(60);

pub struct Stop;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Services, all instances of one, groups, or `all`
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub patience: Patience,
}

impl Operation for Stop {
    type Input = Input;
    type Output = Changed;
    const META: Meta = Meta {
        cli: &["stop"],
        summary: "Stop services and everything they started",
        details: "\
The stop signal goes to the whole process group; what is left after the grace is killed. The command \
returns when nothing of the service is left. It stays stopped, after a reboot, too, until it is started again.

Examples:
  proctor stop web
  proctor stop web worker --timeout 5
  proctor stop all",
        ..Meta::of("service.stop", Effect::Write, Target::Services).waiting("to stop").even_unrecorded()
            .at(Method::Post, "/services/{name}/stop", "names")
    };

    fn about(input: &Input) -> About<'_> {
        About::Services(&input.names)
    }

    async fn run(context: &Context, input: Input) -> Result<Changed, OpError> {
        let wait = input.patience.duration(USUAL_WAIT)?;
        let names = named(context, &input.names)?;
        let befores = before(context, &names, Goal::Stop);
        let unrecorded = context.engine.set_wish(&names, Wish::Down).await?;
        let settled = settle(context, Goal::Stop, &befores, wait).await;
        let changed = report(context, Goal::Stop, &befores, settled, !wait.is_zero());
        Ok(Changed { unrecorded: context.unrecorded(unrecorded), ..changed })
    }
}

/// The services that a request means. No name at all is the only service or the primary one, never "all".
pub(crate) fn named(context: &Context, words: &[String]) -> Result<Vec<ServiceName>, OpError> {
    Ok(match words {
        [] => context.engine.meant()?,
        words => context.engine.select(words)?,
    })
}
