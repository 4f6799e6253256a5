//! `daemon.upgrade`: put another binary in the place of the running one; services notice nothing.

use crate::error::{Code, OpError};
use crate::input::Caller;
use crate::operation::{Context, Effect, Meta, Operation, Target};
use crate::show::{Page, Show};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Files are there at once; a service takes as long as it takes to run again.
const TAKEN_BACK_WITHIN: Duration = Duration::from_secs(20);

pub struct DaemonUpgrade;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// The binary to run; on the command line, the one that was called
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
    /// The version that is replaced
    pub from: String,
    /// The version that replaces it
    pub to: String,
}

impl Operation for DaemonUpgrade {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["daemon", "upgrade"],
        summary: "Replace the running Proctor by another binary, in place",
        details: "\
Services go on running with the same pids, and no log line is lost. A change of files that is being checked is cancelled, and taken back \
before.

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
        // What is no Proctor cancels nothing.
        context.engine.version_of(&binary).await?;
        if !context.underway.settle(TAKEN_BACK_WITHIN).await {
            let why = "a change of files that is being checked is not taken back yet";
            return Err(OpError::new(Code::Busy, why).help(
                "`proctor operation list` shows what is under way; try again when it is over",
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
