//! `audit.read`: shows the newest entries of the audit log.

use crate::error::OpError;
use crate::operation::{Context, Effect, Meta, Method, Operation, Role, Target};
use crate::text_output::{Column, Fit, Page, Show, Span, Style, Table};
use proctor_engine::audit::{AuditEntry, AuditQuery, AuditedCall};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct AuditRead;

const USUAL_LINES: usize = 50;
const MAX_LINES: usize = 1000;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Maximum number of entries, newest kept (default 50, maximum 1000)
    #[arg(long, short = 'n', value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<usize>,
    /// Only this operation, for example service.stop
    #[arg(long, value_name = "OPERATION")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Only entries about this service, token or file
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Only this caller: a token (name or id), a user (number), a program, or local, token, anonymous
    #[arg(long, value_name = "WHO")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// Only this result: ok, an error code, or unfinished
    #[arg(long, value_name = "CODE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Entries, oldest first
    pub entries: Vec<Entry>,
}

/// An operation, or a mark written by a daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Number of the record
    pub seq: u64,
    /// Time in RFC 3339
    pub at: String,
    /// Caller: `user 1000`, `token ci (operator)` or `anonymous`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// Interface used: local, rest, tcp, mcp or web
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front: Option<String>,
    /// Name the calling program gave itself
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Remote address of a network connection
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// ok, or an error code; null if the operation has no recorded result
    pub code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub millis: Option<u64>,
    /// Note written by a daemon
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

impl Operation for AuditRead {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["audit", "read"],
        summary: "Show the newest entries of the audit log",
        details: "\
Every change and every refusal is recorded: caller, interface, target and result. Reads are not recorded \
unless `security.audit.reads` is set.

Examples:
  proctor audit read
  proctor audit read -n 200 --target web
  proctor audit read --code forbidden
  proctor audit read --code unfinished",
        role: Role::Admin,
        ..Meta::of("audit.read", Effect::Read, Target::Nothing).at(Method::Get, "/audit", "")
    };

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let most = input.lines.unwrap_or(USUAL_LINES);
        if most > MAX_LINES {
            return Err(OpError::bad_input(format!("lines: the maximum is {MAX_LINES}")));
        }
        let Input { operation, target, who, code, .. } = input;
        let query = AuditQuery { most, operation, target, who, code };
        let found = context.engine.audit().read(query).await?;
        Ok(Output { entries: found.into_iter().map(Entry::from).collect() })
    }
}

impl From<AuditEntry> for Entry {
    fn from(AuditEntry { seq, at, call, code, millis, mark }: AuditEntry) -> Entry {
        let who = call.as_ref().map(name_of);
        let front = call.as_ref().map(|call| call.front.as_str().to_owned());
        let client = call.as_ref().and_then(|call| call.client.clone()).map(String::from);
        let (peer, operation, targets) = match call {
            Some(call) => (call.peer, Some(call.operation), call.targets),
            None => (None, None, Vec::new()),
        };
        Entry { seq, at, who, front, client, peer, operation, targets, code, millis, mark }
    }
}

impl Entry {
    fn way(&self) -> String {
        let front = self.front.clone().unwrap_or_default();
        match &self.client {
            Some(client) => format!("{front} {client}"),
            None => front,
        }
    }
}

fn name_of(call: &AuditedCall) -> String {
    match (call.uid, &call.name, call.role) {
        (Some(uid), _, _) => format!("user {uid}"),
        (None, Some(name), Some(role)) => format!("token {name} ({role})"),
        (None, _, _) => call.who.clone(),
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        if self.entries.is_empty() {
            page.remark("no matching entries");
            return;
        }
        let mut table = Table::new(&[
            Column::new("WHEN", Fit::Keep),
            Column::new("WHO", Fit::Keep),
            Column::new("FRONT", Fit::Keep),
            Column::new("OPERATION", Fit::Keep),
            Column::new("ON", Fit::Shrink(12)),
            Column::new("RESULT", Fit::Keep),
        ]);
        for entry in &self.entries {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let (style, result) = match (&entry.code, &entry.mark) {
                (_, Some(_)) => (Style::Dim, String::new()),
                (None, None) => (Style::Warn, "unfinished".to_owned()),
                (Some(code), None) if code == "ok" => (Style::Good, code.clone()),
                (Some(code), None) => (Style::Bad, code.clone()),
            };
            let on = entry.mark.clone().unwrap_or_else(|| entry.targets.join(" "));
            table.row([
                Span::new(Style::Dim, page.moment(&entry.at)),
                Span::new(Style::Plain, text(&entry.who)),
                Span::new(Style::Plain, entry.way()),
                Span::new(Style::Name, text(&entry.operation)),
                Span::new(Style::Plain, on),
                Span::new(style, result),
            ]);
        }
        page.table(table);
    }
}
