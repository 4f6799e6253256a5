//! Access from this front to the operations.

use crate::unix_socket::Dispatch;
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

/// The speaker of a request.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestCaller {
    /// Over HTTP: the token's owner and address. At the unix socket the kernel identifies the caller.
    pub(super) caller: Option<Caller>,
    /// Name that the program gave itself.
    pub(super) client: Option<ClientName>,
    /// Token over HTTP, if one was presented.
    pub(super) token: Option<PresentedToken>,
}

/// A token as it was presented.
#[derive(Clone)]
pub(crate) struct PresentedToken(pub(crate) String);

impl fmt::Debug for PresentedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Performs operations.
pub(super) trait OperationCaller: Send + Sync + 'static {
    fn call(&self, speaker: &RequestCaller, entry: &'static Entry, input: Value) -> Answer;

    /// Performs an operation without starting Proctor.
    fn glance(&self, speaker: &RequestCaller, entry: &'static Entry, input: Value) -> Answer {
        self.call(speaker, entry, input)
    }

    /// Checks whether an earlier speaker is still valid. At the unix socket the kernel does that at each call.
    fn still_knows(&self, _: &RequestCaller) -> Result<(), OpError> {
        Ok(())
    }
}

/// Returns the table entry of an operation by its name.
pub(super) fn entry(name: &str) -> Result<&'static Entry, OpError> {
    find(name)
        .ok_or_else(|| OpError::new(Code::Internal, format!("the operation {name} is missing")))
}

/// OperationCaller inside the daemon.
pub(super) struct InProcessCaller(pub(super) Arc<dyn Dispatch>);

impl OperationCaller for InProcessCaller {
    fn still_knows(&self, speaker: &RequestCaller) -> Result<(), OpError> {
        match (&speaker.caller, &speaker.token) {
            (Some(caller), Some(token)) => self.0.authenticate(caller.clone(), &token.0).map(drop),
            (Some(_), None) | (None, _) => Ok(()),
        }
    }

    fn call(&self, speaker: &RequestCaller, entry: &'static Entry, input: Value) -> Answer {
        let Some(caller) = speaker.caller.clone() else {
            return Box::pin(async {
                Err(OpError::new(Code::Internal, "the request has no caller"))
            });
        };
        let reply = self.0.dispatch(caller, entry.meta.name.to_owned(), input, Form::Json);
        Box::pin(async move {
            serde_json::from_str(&reply.await?.text).map_err(|error| {
                OpError::new(Code::Internal, format!("cannot decode the response: {error}"))
            })
        })
    }
}
