//! Runtime modes of the user interface. This version has one. A request for another mode is an error, never silently
//! mapped.

use crate::error::{Code, OpError};
use proctor_engine::api::Engine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The mode of this version.
pub(crate) const PROXY: &str = "proxy";

/// A planned mode.
const ADVANCED: &str = "advanced";

/// Variables that select a mode, by precedence.
pub(crate) const VARIABLES: [&str; 2] = ["PROCTOR_RUNTIME_MODE", "MAGICTUNNEL_RUNTIME_MODE"];

const AVAILABLE: [&str; 8] = [
    "service_supervision",
    "health_checks",
    "logs",
    "events",
    "metrics",
    "custom_restart",
    "tokens_and_roles",
    "audit",
];

const HIDDEN: [&str; 6] = [
    "tool_allowlisting",
    "rbac",
    "request_sanitization",
    "security_policies",
    "emergency_lockdown",
    "security_metrics",
];

/// A mode and its features.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mode {
    /// Current mode
    pub runtime_mode: String,
    pub mode_description: String,
    pub available_features: Vec<String>,
    /// Features that another mode would add
    pub hidden_features: Vec<String>,
    pub ui_config: Ui,
    /// Set if a variable selects a mode that this version does not have
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// User interface of this mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ui {
    /// Pages, in order
    pub navigation: Vec<String>,
    pub show_security: bool,
}

/// Returns the current mode. A variable takes effect only if this version has the mode.
pub(crate) fn current(engine: &Engine) -> Mode {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let asked = VARIABLES.iter().find_map(|name| Some((*name, engine.variable(name)?)));
    Mode {
        runtime_mode: PROXY.into(),
        mode_description: "Supervision of services with health checks, logs, events and metrics"
            .into(),
        available_features: words(&AVAILABLE),
        hidden_features: words(&HIDDEN),
        ui_config: Ui {
            navigation: words(&["services", "logs", "events", "metrics"]),
            show_security: false,
        },
        note: asked.and_then(|(name, value)| note(name, &value)),
    }
}

/// Returns a note about a variable that selects a mode.
pub(crate) fn note(name: &str, value: &str) -> Option<String> {
    let error = check(value).err()?;
    Some(format!("{name} has no effect: {}", error.message))
}

/// Checks that this version has the mode.
pub(crate) fn check(mode: &str) -> Result<(), OpError> {
    let refused = |message: String| {
        OpError::new(Code::InvalidMode, message)
            .help(format!("the mode of this version is '{PROXY}'"))
            .details(json!({ "mode": mode, "available": [PROXY] }))
    };
    match mode.to_ascii_lowercase().as_str() {
        PROXY => Ok(()),
        ADVANCED => Err(refused("the mode 'advanced' is not in this version".into())),
        _ => Err(refused(format!("there is no mode '{mode}'"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_said() {
        assert!(check("proxy").is_ok() && check("Proxy").is_ok());
        let refused = |mode: &str| check(mode).unwrap_err();
        assert_eq!(refused("advanced").message, "the mode 'advanced' is not in this version");
        assert_eq!(refused("").message, "there is no mode ''");
        assert_eq!(refused("x").code, Code::InvalidMode);
        assert_eq!(note("A", "proxy"), None);
        assert_eq!(note("A", "x").as_deref(), Some("A has no effect: there is no mode 'x'"));
    }
}
