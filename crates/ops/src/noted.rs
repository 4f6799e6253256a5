//! A change that is in the audit and has not ended there.

use crate::error::{Code, OpError};
use crate::operation::Context;
use crate::reply::Reply;
use proctor_engine::audit::{Begun, Call, Unavailable};
use std::time::Instant;

#[must_use]
pub(crate) struct Noted {
    begun: Begun,
    since: Instant,
}

impl Noted {
    /// Before anything changes; what cannot be written down is not done.
    pub(crate) async fn begin(context: &Context, call: Call) -> Result<Noted, OpError> {
        let begun = context.engine.audit().begin(call).await;
        let begun =
            begun.map_err(|unavailable| unwritten(context, &unavailable, "nothing was changed"))?;
        Ok(Noted { begun, since: Instant::now() })
    }

    pub(crate) async fn end(self, context: &Context, answer: &Result<Reply, OpError>) {
        let millis = self.since.elapsed().as_millis() as u64;
        let ended = context.engine.audit().end(self.begun, outcome(answer), millis).await;
        if let Err(error) = ended {
            // It is done and cannot be undone; in the audit it stays without a result.
            tracing::error!(%error, "a result is not in the audit");
        }
    }
}

/// What the audit says that became of it.
pub(crate) fn outcome(answer: &Result<Reply, OpError>) -> &'static str {
    match answer {
        Ok(Reply { verdict: Some(code), .. }) => code.as_str(),
        Ok(Reply { verdict: None, .. }) => "ok",
        Err(error) => error.code.as_str(),
    }
}

/// A look at what nobody may see unseen: it is written down, or not answered.
pub(crate) async fn seen(
    context: &Context,
    call: Call,
    answer: Result<Reply, OpError>,
    millis: u64,
) -> Result<Reply, OpError> {
    let written = context.engine.audit().saw(call, outcome(&answer), millis).await;
    written.map_err(|unavailable| unwritten(context, &unavailable, "nothing is shown"))?;
    answer
}

fn unwritten(context: &Context, unavailable: &Unavailable, what: &str) -> OpError {
    let folder = context.home.audit();
    OpError::new(Code::AuditUnavailable, unavailable.to_string()).help(format!(
        "{what}; make room on its disk, or make {} a folder that can be written, and try again; \
         services run on, and what takes no admin can be read",
        folder.display()
    ))
}
