//! The way from this front to the operations.

use crate::local::Dispatch;
use proctor_core::access::ClientName;
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::Caller;
use proctor_ops::reply::Form;
use proctor_ops::table::{Entry, find};
use serde_json::Value;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

pub(super) type Answer = Pin<Box<dyn Future<Output = Result<Value, OpError>> + Send>>;

/// Who speaks in a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Speaker {
    /// Over HTTP: whose token it is, from where. At the unix socket the kernel says so.
    pub(super) caller: Option<Caller>,
    /// What the program calls itself.
    pub(super) client: Option<ClientName>,
    /// Over HTTP, from who has one.
    pub(super) token: Option<Presented>,
}

/// A token as it was presented.
#[derive(Clone)]
pub(crate) struct Presented(pub(crate) String);

impl fmt::Debug for Presented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Where operations are done.
pub(super) trait Door: Send + Sync + 'static {
    fn call(&self, speaker: &Speaker, entry: &'static Entry, input: Value) -> Answer;

    /// The same without starting anything that does not run.
    fn glance(&self, speaker: &Speaker, entry: &'static Entry, input: Value) -> Answer {
        self.call(speaker, entry, input)
    }

    /// Whether who spoke some time ago still is who it was. The kernel says so at each call of the unix socket.
    fn still_knows(&self, _: &Speaker) -> Result<(), OpError> {
        Ok(())
    }
}

/// The line of the table for an operation by its name.
pub(super) fn entry(name: &str) -> Result<&'static Entry, OpError> {
    find(name).ok_or_else(|| OpError::new(Code::Internal, format!("no operation {name}")))
}

/// Inside the daemon.
pub(super) struct Direct(pub(super) Arc<dyn Dispatch>);

impl Door for Direct {
    fn still_knows(&self, speaker: &Speaker) -> Result<(), OpError> {
        match (&speaker.caller, &speaker.token) {
            (Some(caller), Some(token)) => self.0.authenticate(caller.clone(), &token.0).map(drop),
            (Some(_), None) | (None, _) => Ok(()),
        }
    }

    fn call(&self, speaker: &Speaker, entry: &'static Entry, input: Value) -> Answer {
        let Some(caller) = speaker.caller.clone() else {
            return Box::pin(async { Err(OpError::new(Code::Internal, "a request of nobody")) });
        };
        let reply = self.0.dispatch(caller, entry.meta.name.to_owned(), input, Form::Json);
        Box::pin(async move {
            serde_json::from_str(&reply.await?.text).map_err(|error| {
                OpError::new(Code::Internal, format!("an answer that cannot be read: {error}"))
            })
        })
    }
}
