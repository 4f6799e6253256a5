//! `token.list`: lists tokens without their secrets.

use crate::error::OpError;
use crate::operation::{Context, Effect, Meta, Method, Operation, Role, Target};
use crate::text_output::{Column, Fit, Page, Show, Span, Style, Table};
use crate::timestamps::rfc3339;
use proctor_core::time::Wall;
use proctor_engine::tokens::TokenView;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct TokenList;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    pub tokens: Vec<TokenInfo>,
    /// Reason why no token is valid, if that is so
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Role of a token.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum RoleName {
    /// Sees services and their output
    #[default]
    Viewer,
    /// Also starts, stops, restarts and signals defined services
    Operator,
    /// May do everything
    Admin,
}

impl RoleName {
    pub(crate) fn as_str(self) -> &'static str {
        Role::from(self).as_str()
    }
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Role {
        match name {
            RoleName::Viewer => Role::Viewer,
            RoleName::Operator => Role::Operator,
            RoleName::Admin => Role::Admin,
        }
    }
}

impl From<Role> for RoleName {
    fn from(role: Role) -> RoleName {
        match role {
            Role::Viewer => RoleName::Viewer,
            Role::Operator => RoleName::Operator,
            Role::Admin => RoleName::Admin,
        }
    }
}

/// A token without its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TokenInfo {
    pub id: String,
    pub name: String,
    pub role: RoleName,
    /// Creation time in RFC 3339
    pub created: String,
    /// Expiry time in RFC 3339; null if the token does not expire
    pub expires: Option<String>,
    /// The token has expired
    pub expired: bool,
    /// Time of last use in RFC 3339; null if no use is recorded, in the file or since the daemon started
    pub last_used: Option<String>,
}

impl TokenInfo {
    pub(crate) fn of(token: TokenView, now: Wall) -> TokenInfo {
        TokenInfo {
            id: token.id.0,
            name: token.name,
            role: token.role.into(),
            created: rfc3339(token.created),
            expires: token.expires.map(rfc3339),
            expired: token.expires.is_some_and(|end| end <= now),
            last_used: token.last_used.map(rfc3339),
        }
    }
}

impl Operation for TokenList {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["token", "list"],
        summary: "List tokens",
        details: "\
Examples:
  proctor token list
  proctor token list --json",
        role: Role::Admin,
        ..Meta::of("token.list", Effect::Read, Target::Nothing).at(Method::Get, "/tokens", "")
    };

    async fn run(context: &Context, _: Input) -> Result<Output, OpError> {
        let (tokens, now) = (context.engine.tokens(), proctor_sys::clock::now().wall);
        let listed = tokens.list().into_iter().map(|token| TokenInfo::of(token, now)).collect();
        Ok(Output { tokens: listed, problem: tokens.problem() })
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        if let Some(problem) = &self.problem {
            page.line().add(Style::Bad, "problem: ").plain(problem);
        }
        if self.tokens.is_empty() {
            page.line().dim("no tokens; create one with `proctor token create NAME`");
            return;
        }
        let mut table = Table::new(&[
            Column::new("NAME", Fit::Keep),
            Column::new("ROLE", Fit::Keep),
            Column::new("EXPIRES", Fit::Keep),
            Column::new("LAST USED", Fit::Keep),
            Column::new("ID", Fit::Keep),
        ]);
        for token in &self.tokens {
            let expires = match &token.expires {
                Some(end) if token.expired => {
                    Span::new(Style::Bad, format!("expired {}", page.moment(end)))
                }
                Some(end) => Span::new(Style::Plain, page.moment(end)),
                None => Span::new(Style::Dim, "never"),
            };
            let used = token.last_used.as_ref().map_or_else(|| "-".into(), |at| page.moment(at));
            table.row([
                Span::new(Style::Name, &token.name),
                Span::new(Style::Plain, token.role.as_str()),
                expires,
                Span::new(Style::Plain, used),
                Span::new(Style::Dim, &token.id),
            ]);
        }
        page.table(table);
    }
}
