//! `token.create`: creates a token for clients of HTTP, TCP or MCP over HTTP. Its secret is shown once.

use super::list::{RoleName, TokenInfo};
use crate::error::{Code, OpError};
use crate::operation::{Context, Effect, Meta, Method, Operation, Target};
use crate::text_output::{Page, Show, Style};
use crate::timestamps;
use proctor_core::time::Wall;
use proctor_engine::tokens::TokenError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct TokenCreate;

/// Maximum validity. Omit it for a token that does not expire.
const MAX_LIFETIME_MICROS: i64 = 10 * 366 * 24 * 3600 * 1_000_000;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Name of the token; letters, digits, '.', '_' and '-'
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Role of the token
    #[arg(long, value_name = "ROLE", default_value = "viewer")]
    pub role: RoleName,
    /// Validity: 12h, 7d, 4w; until revoked if omitted
    #[arg(long, value_name = "DURATION")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    #[serde(flatten)]
    pub token: TokenInfo,
    /// Secret that the client presents; it is not stored and cannot be shown again
    pub secret: String,
}

impl Operation for TokenCreate {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["token", "create"],
        summary: "Create a token for HTTP, TCP or MCP and show its secret once",
        details: "\
Roles: a viewer sees services and their output; an operator also starts, stops, restarts and signals defined \
services; an admin may do everything.

Examples:
  proctor token create ci --role operator --expires 7d
  curl -H \"Authorization: Bearer SECRET\" http://127.0.0.1:3001/api/v1/services",
        ..Meta::of("token.create", Effect::Admin, Target::Proctor).at(Method::Post, "/tokens", "")
    };

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let now = proctor_sys::clock::now().wall;
        let expires = input.expires.as_deref().map(|text| end(text, now)).transpose()?;
        let (name, role) = (input.name, input.role.into());
        let made = context.engine.change_tokens(move |tokens| tokens.create(&name, role, expires));
        let (view, secret) = made.await??;
        Ok(Output { token: TokenInfo::of(view, now), secret: secret.reveal().into() })
    }
}

/// Returns the time that is this long after now.
fn end(text: &str, now: Wall) -> Result<Wall, OpError> {
    let length = timestamps::duration(text.trim())
        .filter(|length| (1..=MAX_LIFETIME_MICROS).contains(length));
    let length = length.ok_or_else(|| {
        OpError::bad_input(format!("expires: '{text}' is not a valid duration"))
            .help("write 12h, 7d or 4w; the maximum is ten years")
    })?;
    Ok(Wall(now.0.saturating_add(length)))
}

impl From<TokenError> for OpError {
    fn from(error: TokenError) -> OpError {
        let message = error.to_string();
        match error {
            TokenError::BadName(_) => OpError::bad_input(message),
            TokenError::Taken(_) => OpError::new(Code::AlreadyExists, message)
                .help("choose another name, or revoke the token first with `proctor token revoke`"),
            TokenError::Unknown(_) => {
                OpError::new(Code::NotFound, message).help("`proctor token list` shows all")
            }
            TokenError::TooMany => OpError::new(Code::Conflict, message)
                .help("revoke unused tokens with `proctor token revoke`"),
            TokenError::Unreadable(_) | TokenError::Unwritable { .. } => {
                OpError::new(Code::Failed, message)
            }
        }
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        let until = match &self.token.expires {
            Some(end) => format!(", valid until {}", page.moment(end)),
            None => String::new(),
        };
        let role = self.token.role.as_str();
        page.line().plain("token ").name(&self.token.name).plain(format!(" ({role}){until}:"));
        page.line().add(Style::Good, &self.secret);
        page.line().dim("the secret is not stored and cannot be shown again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_ends_after_a_length_of_time_that_makes_sense() {
        let now = Wall(1_000_000);
        assert_eq!(end("7d", now).unwrap(), Wall(1_000_000 + 7 * 86_400_000_000));
        assert_eq!(end(" 1h30m ", now).unwrap(), Wall(1_000_000 + 5_400_000_000));
        for bad in ["", "0s", "never", "-1d", "99999w", "7", "9223372036854775807d"] {
            assert_eq!(end(bad, now).unwrap_err().code, Code::BadInput, "{bad}");
        }
    }
}
