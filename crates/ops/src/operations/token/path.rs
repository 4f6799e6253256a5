//! `token.path`: prints the path of the file with the first token, not its secret.

use crate::error::OpError;
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Page, Show};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct TokenPath;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    pub path: String,
    /// False if the token was revoked or the file was removed
    pub exists: bool,
}

impl Operation for TokenPath {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["token", "path"],
        summary: "Print the path of the file with the first token",
        details: "\
At its first start Proctor creates a token that only the owner can read, so scripts on this machine can use HTTP and TCP.

Examples:
  proctor token path
  token=$(cat \"$(proctor token path)\")
  curl -H \"Authorization: Bearer $token\" http://127.0.0.1:3001/api/v1/services",
        role: Role::Admin,
        ..Meta::of("token.path", Effect::Read, Target::Nothing)
    };

    async fn run(context: &Context, _: Input) -> Result<Output, OpError> {
        let path = context.engine.tokens().first_path();
        Ok(Output { path: path.display().to_string(), exists: path.exists() })
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        page.line().plain(&self.path);
    }
}
