//! Sends events of services as log messages to a client of the handshake era that set a log level.

#![expect(deprecated, reason = "clients of the handshake era still use it")]

use super::assistant::SharedState;
use super::operation_caller::RequestCaller;
use super::resource_updates::UpdateCursor;
use super::resources::ResourceAddress;
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use rmcp::service::{Peer, RoleServer};
use serde_json::Value;
use std::sync::Arc;

/// Name of the logger.
const LOGGER: &str = "proctor";

/// Sends new events until the client is gone.
pub(super) async fn tell(
    house: Arc<SharedState>,
    speaker: RequestCaller,
    peer: Peer<RoleServer>,
    least: LoggingLevel,
) {
    let mut news = UpdateCursor::of(ResourceAddress::All);
    while news.next(&house, &speaker).await {
        for event in std::mem::take(&mut news.events) {
            let level = level(&event);
            if (level as u8) < (least as u8) {
                continue;
            }
            let message = LoggingMessageNotificationParam::new(level, event).with_logger(LOGGER);
            if peer.notify_logging_message(message).await.is_err() {
                return;
            }
        }
    }
}

/// Returns the severity of an event.
fn level(event: &Value) -> LoggingLevel {
    let is = |field: &str, value: &str| event[field] == value;
    let failed = is("kind", "exited") && event["exit_code"] != 0;
    if failed || (is("kind", "state") && is("state", "failed")) {
        LoggingLevel::Error
    } else if event["healthy"] == false || (is("kind", "state") && is("state", "backoff")) {
        LoggingLevel::Warning
    } else if is("kind", "operation") {
        LoggingLevel::Debug
    } else {
        LoggingLevel::Info
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_failed_is_said_louder() {
        let check = |event: Value, expected| assert_eq!(level(&event), expected, "{event}");
        check(json!({"kind": "exited", "exit_code": 1}), LoggingLevel::Error);
        check(json!({"kind": "exited", "signal": 9}), LoggingLevel::Error);
        check(json!({"kind": "exited", "exit_code": 0}), LoggingLevel::Info);
        check(json!({"kind": "state", "state": "failed"}), LoggingLevel::Error);
        check(json!({"kind": "state", "state": "backoff"}), LoggingLevel::Warning);
        check(json!({"kind": "health", "healthy": false}), LoggingLevel::Warning);
        check(json!({"kind": "state", "state": "running"}), LoggingLevel::Info);
        check(json!({"kind": "operation", "state": "failed"}), LoggingLevel::Debug);
    }
}
