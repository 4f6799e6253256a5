//! `mode.switch`: changes the runtime mode.

use crate::error::OpError;
use crate::mode::{Mode, check, current};
use crate::operation::{Context, Effect, Meta, Method, Operation, Target};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct ModeSwitch;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Mode to switch to: proxy
    #[arg(value_name = "MODE")]
    pub mode: String,
}

impl Operation for ModeSwitch {
    type Input = Input;
    type Output = Mode;
    const META: Meta = Meta {
        cli: &["mode", "switch"],
        summary: "Switch the runtime mode",
        details: "\
This version has the mode `proxy`; others are rejected. The response is the mode after the switch.

Examples:
  proctor mode switch proxy",
        launches: false,
        ..Meta::of("mode.switch", Effect::Admin, Target::Proctor).at(Method::Post, "/mode", "")
    };

    async fn run(context: &Context, input: Input) -> Result<Mode, OpError> {
        check(&input.mode)?;
        Ok(current(&context.engine))
    }
}
