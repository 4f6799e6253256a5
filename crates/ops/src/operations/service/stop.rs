//! `service.stop`: stops services and all their processes.

use crate::error::OpError;
use crate::input::WaitOptions;
use crate::operation::{About, Context, Effect, Meta, Method, Operation, Target};
use crate::wait_for_services::{ChangedServices, Goal, before, report, settle};
use proctor_core::lifecycle::Wish;
use proctor_core::name::ServiceName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Default wait; longer than the default grace of ten seconds, after which a process is killed.
pub(crate) const USUAL_WAIT: Duration = Duration::from_secs(60);

pub struct Stop;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Services or groups; a name selects all its instances; or `all`
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub patience: WaitOptions,
}

impl Operation for Stop {
    type Input = Input;
    type Output = ChangedServices;
    const META: Meta = Meta {
        cli: &["stop"],
        summary: "Stop services and all their processes",
        details: "\
The stop signal goes to the whole process group; processes that are left after the grace period are killed. The command \
returns when no process of the service is left. The service stays stopped until it is started again, also after a reboot.

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

    async fn run(context: &Context, input: Input) -> Result<ChangedServices, OpError> {
        let wait = input.patience.duration(USUAL_WAIT)?;
        let names = named(context, &input.names)?;
        let befores = before(context, &names, Goal::Stop);
        let unrecorded = context.engine.set_wish(&names, Wish::Down).await?;
        let settled = settle(context, Goal::Stop, &befores, wait).await;
        let changed = report(context, Goal::Stop, &befores, settled, !wait.is_zero());
        Ok(ChangedServices { unrecorded: context.unrecorded(unrecorded), ..changed })
    }
}

/// Resolves the services of a request. No name selects the only or the primary service, never all.
pub(crate) fn named(context: &Context, words: &[String]) -> Result<Vec<ServiceName>, OpError> {
    Ok(match words {
        [] => context.engine.meant()?,
        words => context.engine.select(words)?,
    })
}
