//! `service.remove`: stops and removes services that were added at run time.

use super::stop::USUAL_WAIT;
use crate::error::{Code, OpError};
use crate::input::WaitOptions;
use crate::operation::{About, Context, Effect, Meta, Method, Operation, Role, Target};
use crate::text_output::{Page, Show};
use proctor_core::name::ServiceName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

pub struct Remove;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Services or groups; a name selects all its instances; or `all`
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// Also delete their logs
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub purge: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub patience: WaitOptions,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    pub removed: Vec<String>,
    /// Their logs were deleted
    pub purged: bool,
    /// Services that were still stopping at the timeout; they are removed when they have stopped
    pub stopping: Vec<String>,
}

impl Operation for Remove {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["remove"],
        aliases: &["rm"],
        summary: "Stop and remove services that were added at run time",
        details: "\
Their logs stay readable with `proctor logs NAME` unless they are purged. To remove a service of proctor.yaml, delete \
it from the file and run `proctor up`.

Examples:
  proctor remove web
  proctor remove web worker --purge",
        // Removing a service takes the same role as defining one.
        role: Role::Admin,
        ..Meta::of("service.remove", Effect::Write, Target::Services).waiting("to stop")
            .at(Method::Delete, "/services/{name}", "names")
    };

    fn about(input: &Input) -> About<'_> {
        About::Services(&input.names)
    }

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let wait = input.patience.duration(USUAL_WAIT)?;
        if input.names.is_empty() {
            let help = "`proctor remove NAME`, or `proctor remove all` for all";
            return Err(OpError::bad_input("'names' is missing").help(help));
        }
        let names = context.engine.select(&input.names)?;
        context.engine.remove(&names).await?;
        let stopping = gone(context, &names, wait).await;
        let purged = input.purge && stopping.is_empty();
        if purged {
            context.engine.delete_logs(&names).await?;
        }
        let words = |names: &[ServiceName]| names.iter().map(ToString::to_string).collect();
        let removed: Vec<ServiceName> =
            names.into_iter().filter(|name| !stopping.contains(name)).collect();
        Ok(Output { removed: words(&removed), purged, stopping: words(&stopping) })
    }
}

/// Waits until the services are removed. Returns those that are not.
pub(crate) async fn gone(
    context: &Context,
    names: &[ServiceName],
    wait: Duration,
) -> Vec<ServiceName> {
    let deadline = Instant::now() + wait;
    loop {
        let (generation, left) = context.engine.read(|view| {
            let left: Vec<ServiceName> =
                names.iter().filter(|name| view.services.contains_key(*name)).cloned().collect();
            (view.generation, left)
        });
        if left.is_empty() || Instant::now() >= deadline {
            return left;
        }
        // Either something changed or the time is over; the next read shows which.
        let _ = timeout_at(deadline, context.engine.changed(generation)).await;
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        let logs = if self.purged { ", with its logs" } else { "" };
        for name in &self.removed {
            page.line().name(name).plain(format!(" removed{logs}"));
        }
        for name in &self.stopping {
            page.line().name(name).plain(" is still stopping; it is removed when it has stopped");
        }
    }

    fn verdict(&self) -> Option<Code> {
        (!self.stopping.is_empty()).then_some(Code::Timeout)
    }
}
