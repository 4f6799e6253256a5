//! `mode.get`: shows the runtime mode.

use crate::error::OpError;
use crate::mode::{Mode, current};
use crate::operation::{Context, Effect, Meta, Method, Operation, Target};
use crate::text_output::{Page, Show, Style};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct ModeGet;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {}

impl Operation for ModeGet {
    type Input = Input;
    type Output = Mode;
    const META: Meta = Meta {
        cli: &["mode", "get"],
        summary: "Show the runtime mode and its features",
        details: "\
Examples:
  proctor mode get
  proctor mode get --json",
        launches: false,
        ..Meta::of("mode.get", Effect::Read, Target::Nothing).at(Method::Get, "/mode", "")
    };

    async fn run(context: &Context, _: Input) -> Result<Mode, OpError> {
        Ok(current(&context.engine))
    }
}

impl Show for Mode {
    fn show(&self, page: &mut Page) {
        page.line().name(&self.runtime_mode).plain(format!(": {}", self.mode_description));
        page.line().dim("  has   ").plain(self.available_features.join(", "));
        page.line().dim("  hides ").plain(self.hidden_features.join(", "));
        if let Some(note) = &self.note {
            page.line().add(Style::Warn, note);
        }
    }
}
