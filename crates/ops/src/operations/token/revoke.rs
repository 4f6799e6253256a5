//! `token.revoke`: revokes a token.

use super::list::TokenInfo;
use crate::error::OpError;
use crate::operation::{Context, Effect, Meta, Method, Operation, Target};
use crate::text_output::{Page, Show};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct TokenRevoke;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Name or id of the token
    #[arg(value_name = "NAME")]
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    pub revoked: TokenInfo,
}

impl Operation for TokenRevoke {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["token", "revoke"],
        summary: "Revoke a token",
        details: "\
Requests with this token are then refused. To replace the token of the first start, revoke `admin` and create \
another.

Examples:
  proctor token revoke ci",
        ..Meta::of("token.revoke", Effect::Admin, Target::Proctor).at(Method::Delete, "/tokens/{name}", "name")
    };

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let revoked = context.engine.change_tokens(move |tokens| tokens.revoke(&input.name));
        let now = proctor_sys::clock::now().wall;
        Ok(Output { revoked: TokenInfo::of(revoked.await??, now) })
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        page.line().plain("token ").name(&self.revoked.name).plain(" is revoked");
    }
}
