//! An audit entry of a change that has not ended yet.

use crate::error::{Code, OpError};
use crate::operation::Context;
use crate::reply::Reply;
use proctor_engine::audit::{AuditUnavailable, AuditedCall, OpenEntry, UnwrittenEntry};
use std::sync::Arc;
use std::time::Instant;

#[must_use]
pub(crate) struct OpenAuditEntry {
    entry: AuditEntry,
    since: Instant,
}

enum AuditEntry {
    Written(OpenEntry),
    /// Stopping is never refused: its entry is written later.
    Owed(UnwrittenEntry, Arc<str>),
}

impl OpenAuditEntry {
    /// Writes the entry before anything changes. If that fails, the change is refused, unless it is `even_unrecorded`.
    pub(crate) async fn begin(
        context: &Context,
        call: AuditedCall,
        even_unrecorded: bool,
    ) -> Result<OpenAuditEntry, OpError> {
        let (audit, since) = (context.engine.audit(), Instant::now());
        let entry = match audit.begin(call.clone()).await {
            Ok(begun) => AuditEntry::Written(begun),
            Err(unavailable) if even_unrecorded => {
                let why = format!("{unavailable}; this is recorded as soon as possible");
                AuditEntry::Owed(audit.begin_unwritten(call), why.into())
            }
            Err(unavailable) => {
                return Err(unwritten(context, &unavailable, "nothing was changed"));
            }
        };
        Ok(OpenAuditEntry { entry, since })
    }

    /// Returns the reason if the change is not in the audit log.
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
            // The change is made and cannot be undone; its entry stays without a result.
            tracing::error!(%error, "cannot write a result to the audit log");
        }
    }
}

/// Returns the result for the audit log.
pub(crate) fn outcome(answer: &Result<Reply, OpError>) -> &'static str {
    match answer {
        Ok(Reply { verdict: Some(code), .. }) => code.as_str(),
        Ok(Reply { verdict: None, .. }) => "ok",
        Err(error) => error.code.as_str(),
    }
}

/// Records a read that must not go unrecorded; if that fails, nothing is shown.
pub(crate) async fn seen(
    context: &Context,
    call: AuditedCall,
    answer: Result<Reply, OpError>,
    millis: u64,
) -> Result<Reply, OpError> {
    let written = context.engine.audit().saw(call, outcome(&answer), millis).await;
    written.map_err(|unavailable| unwritten(context, &unavailable, "nothing is shown"))?;
    answer
}

fn unwritten(context: &Context, unavailable: &AuditUnavailable, what: &str) -> OpError {
    let folder = context.home.audit();
    OpError::new(Code::AuditUnavailable, unavailable.to_string()).help(format!(
        "{what}; free space on its disk, or make {} a writable folder, and retry; \
         services keep running, and requests that need no admin role still work",
        folder.display()
    ))
}
