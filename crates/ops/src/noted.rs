//! A change that is in the audit and has not ended there.

use crate::error::{Code, OpError};
use crate::operation::Context;
use crate::reply::Reply;
use proctor_engine::audit::{Begun, Call, Unavailable, Unwritten};
use std::sync::Arc;
use std::time::Instant;

#[must_use]
pub(crate) struct Noted {
    entry: AuditEntry,
    since: Instant,
}

enum AuditEntry {
    Written(Begun),
    /// Stopping is not refused: it is written down later.
    Owed(Unwritten, Arc<str>),
}

impl Noted {
    /// Before anything changes; what cannot be written down is not done, unless it is done `even_unrecorded`.
    pub(crate) async fn begin(
        context: &Context,
        call: Call,
        even_unrecorded: bool,
    ) -> Result<Noted, OpError> {
        let (audit, since) = (context.engine.audit(), Instant::now());
        let entry = match audit.begin(call.clone()).await {
            Ok(begun) => AuditEntry::Written(begun),
            Err(unavailable) if even_unrecorded => {
                let why = format!("{unavailable}; this is written down as soon as it can be");
                AuditEntry::Owed(audit.begin_unwritten(call), why.into())
            }
            Err(unavailable) => {
                return Err(unwritten(context, &unavailable, "nothing was changed"));
            }
        };
        Ok(Noted { entry, since })
    }

    /// Why it is not in the audit, if it is not.
    pub(crate) fn unrecorded(&self) -> Option<Arc<str>> {
        match &self.entry {
            AuditEntry::Written(_) => None,
            AuditEntry::Owed(_, why) => Some(Arc::clone(why)),
        }
    }

    pub(crate) async fn end(self, context: &Context, answer: &Result<Reply, OpError>) {
        let (audit, millis) = (context.engine.audit(), self.since.elapsed().as_millis() as u64);
        let ended = match self.entry {
            AuditEntry::Written(begun) => audit.end(begun, outcome(answer), millis).await,
            AuditEntry::Owed(unwritten, _) => {
                audit.owe(unwritten, outcome(answer), millis);
                Ok(())
            }
        };
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
