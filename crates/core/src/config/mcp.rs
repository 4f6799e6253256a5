//! The configuration of assistants: their permissions and the tools they are offered.

use super::keys::blocks;
use super::read::Layer;
use super::value::Value;
use crate::access::Role;
use crate::assistant_policy::{AssistantAccess, AssistantLimits, Control};
use std::borrow::Cow;

/// The names of all toolsets.
pub fn toolsets() -> impl Iterator<Item = &'static str> {
    blocks::TOOLSETS.iter().map(|set| set.name)
}

/// The toolsets offered if neither the client nor the configuration chooses.
const USUAL_TOOLSETS: &[&str] = &["processes", "logs", "files", "git"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mcp {
    pub reach: AssistantLimits,
    /// The toolsets offered to clients that request none; each one of [`toolsets`].
    pub toolsets: Cow<'static, [&'static str]>,
}

impl Mcp {
    /// Used if the restrictions of the configuration are unknown.
    pub const CLOSED: Mcp =
        Mcp { reach: AssistantLimits::CLOSED, toolsets: Cow::Borrowed(USUAL_TOOLSETS) };
}

pub(super) fn read(own: &Layer) -> Mcp {
    let value = |key: &str| own.get(key).map(|found| &found.value);
    let role = match value("mcp.role") {
        Some(Value::Choice("viewer")) => Role::Viewer,
        Some(Value::Choice("operator")) => Role::Operator,
        _ => Role::Admin,
    };
    let control = match value("mcp.control") {
        Some(Value::Choice("own")) => Control::Own,
        _ => Control::All,
    };
    let toolsets = match value("mcp.toolsets") {
        Some(Value::Choices(names)) => Cow::Owned(names.clone()),
        _ => Cow::Borrowed(USUAL_TOOLSETS),
    };
    Mcp { reach: AssistantLimits { role, control }, toolsets }
}

/// Parses the `assistants` value of a service.
pub(super) fn assistants(word: &str) -> AssistantAccess {
    match word {
        "view" => AssistantAccess::View,
        _ => AssistantAccess::Control,
    }
}
