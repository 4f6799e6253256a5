//! `daemon.upgrade`: replaces the running binary. Services are not affected.

use crate::error::{Code, OpError};
use crate::input::Caller;
use crate::operation::{Context, Effect, Meta, Operation, Target};
use crate::text_output::{Page, Show};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Timeout for restoring a cancelled change. Files are restored at once; a service needs its start time.
const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(20);

pub struct DaemonUpgrade;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Binary to run; on the command line, the one that was called
    #[arg(long, value_name = "PATH")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binary: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub caller: Caller,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    pub binary: String,
    /// Version that is replaced
    pub from: String,
    /// New version
    pub to: String,
}

impl Operation for DaemonUpgrade {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["daemon", "upgrade"],
        summary: "Replace the running Proctor with another binary, in place",
        details: "\
Services keep running with the same pids, and no log line is lost. A `change` whose check is still running is cancelled and restored \
first.

Examples:
  proctor daemon upgrade
  proctor daemon upgrade --binary /usr/local/bin/proctor",
        ..Meta::of("daemon.upgrade", Effect::Admin, Target::Proctor).with_caller()
    };

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let binary = match &input.binary {
            Some(path) => input.caller.resolve(path)?,
            None => context.binary.clone(),
        };
        // A binary that is not Proctor must not cancel anything.
        context.engine.version_of(&binary).await?;
        if !context.underway.settle(ROLLBACK_TIMEOUT).await {
            let why = "a cancelled change of files is not restored yet";
            return Err(OpError::new(Code::Busy, why).help(
                "`proctor operation list` shows running operations; retry when they have ended",
            ));
        }
        let to = context.engine.upgrade(binary.clone()).await?;
        let from = env!("CARGO_PKG_VERSION").into();
        Ok(Output { binary: binary.display().to_string(), from, to })
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        page.line().plain(format!(
            "Proctor {} is being replaced by {} ({})",
            self.from, self.to, self.binary
        ));
    }
}
