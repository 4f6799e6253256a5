//! The way into every operation: find → authorise → decode → authorise by what was decoded → limit → audit → run → encode.
//! Every front takes it.
//!
//! A change is recorded in the audit log before it starts and after it ends. It is finished even if the caller disconnects:
//! half a change would be worse than an unreported one.

use crate::audit_entry::{OpenAuditEntry, outcome, seen};
use crate::audit_targets::{changed_files, subjects};
use crate::authority::{authorise, may_change, using};
use crate::error::{Code, OpError};
use crate::field_aliases::understood;
use crate::input_check::{checked, unknown};
use crate::operation::{About, Context, Effect, Front, Principal, Role};
use crate::operations::service::stop::named;
use crate::redaction::quiet;
use crate::reply::{Form, Reply};
use crate::running_operations::{self, AdmittedRequest};
use crate::table::{self, Entry};
use proctor_engine::audit::AuditedCall;
use proctor_engine::secrets::of_request;
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;

/// Maximum subjects of a failed request in the audit log.
const FEW_SUBJECTS: usize = 8;

/// Performs one operation for one caller.
pub async fn dispatch(
    context: &Context,
    name: &str,
    input: Value,
    form: Form,
) -> Result<Reply, OpError> {
    let begun = Instant::now();
    let Some(entry) = table::find(name) else {
        let error = unknown(name);
        refused(context, name, &[], &error);
        return Err(error);
    };
    let answer = match authorise(context, &entry.meta, entry.meta.role) {
        Ok(()) => asked(context, entry, input, form).await,
        Err(error) => {
            let subjects: Vec<String> = subjects(&input).take(FEW_SUBJECTS).collect();
            refused(context, entry.meta.name, &subjects, &error);
            Err(error)
        }
    };
    // An operation in the background is counted when it ends.
    if !answer.as_ref().is_ok_and(|reply| reply.background) {
        let code = answer.as_ref().err().map(|error| error.code);
        context.counters.count(entry.meta.name, code, begun.elapsed());
    }
    let (operation, millis) = (entry.meta.name, begun.elapsed().as_millis() as u64);
    // The input stays out of the log: it may contain an environment.
    match (&answer, entry.meta.effect) {
        (Ok(_), Effect::Read) => tracing::debug!(operation, millis, "done"),
        (Ok(_), Effect::Write | Effect::Exec | Effect::Admin) => {
            tracing::info!(operation, millis, "done")
        }
        (Err(error), _) => tracing::warn!(operation, millis, code = error.code.as_str(), "refused"),
    }
    answer
}

/// Handles a request whose caller may perform this kind of operation. Before that is known, the input is not decoded.
async fn asked(
    context: &Context,
    entry: &'static Entry,
    input: Value,
    form: Form,
) -> Result<Reply, OpError> {
    let input = understood(entry, input, context.caller.front);
    let (mut subjects, private): (Vec<String>, _) =
        (subjects(&input).collect(), of_request(&input));
    if entry.meta.effect != Effect::Read {
        subjects.extend(changed_files(&input));
    }
    let private: Arc<[String]> = private.into();
    let answer = match admit(context, entry, input, form, &private) {
        Ok(work) => run(context, entry, work, &subjects).await,
        Err(error) => {
            refused(context, entry.meta.name, &subjects, &error);
            Err(error)
        }
    };
    answer.map_err(|error| quiet(error, &private))
}

/// Checks whether this caller may perform the operation, before a front reads more of the input than `known`.
/// [`dispatch`] checks again.
pub fn may_ask(context: &Context, entry: &Entry, known: &Value) -> Result<(), OpError> {
    let (name, begun) = (entry.meta.name, Instant::now());
    authorise(context, &entry.meta, entry.meta.role).inspect_err(|error| {
        let few: Vec<String> = subjects(known).take(FEW_SUBJECTS).collect();
        refused(context, name, &few, error);
        context.counters.count(name, Some(error.code), begun.elapsed());
        tracing::warn!(operation = name, code = error.code.as_str(), "refused");
    })
}

/// Returns the decoded input as JSON again, for the checks in `decoders`.
#[doc(hidden)]
pub fn given(name: &str, input: Value) -> Result<Value, OpError> {
    let entry = table::find(name).ok_or_else(|| unknown(name))?;
    (entry.again)(checked(entry, understood(entry, input, Front::Local))?.0)
}

/// Makes every check before anything happens. The input is decoded once, so the checked request is the one that runs.
fn admit(
    context: &Context,
    entry: &Entry,
    input: Value,
    form: Form,
    private: &Arc<[String]>,
) -> Result<AdmittedRequest, OpError> {
    if let Principal::Token { id, .. } = &context.caller.principal
        && context.engine.tokens().is_revoked(id)
    {
        return Err(invalid_token());
    }
    let (input, background) = checked(entry, input)?;
    let request = (entry.request)(input)?;
    authorise(context, &entry.meta, request.role)?;
    may_change(context, entry.meta.name, request.target, request.about())?;
    if background {
        must_exist(context, entry, request.about())?;
    }
    let permit = context.limits.admit(&context.caller, entry.meta.effect)?;
    let (uses, private) = (using(context, request.about()), Arc::clone(private));
    Ok(AdmittedRequest { request, form, background, permit, uses, noted: None, private })
}

/// Refuses a request about a missing service at once, instead of accepting it and failing later.
fn must_exist(context: &Context, entry: &Entry, about: About<'_>) -> Result<(), OpError> {
    match (entry.meta.effect, about) {
        (Effect::Write | Effect::Exec | Effect::Admin, About::Services(words)) => {
            named(context, words).map(drop)
        }
        (Effect::Read, About::Services(_))
        | (_, About::Nothing | About::New { .. } | About::Everything) => Ok(()),
    }
}

async fn run(
    context: &Context,
    entry: &'static Entry,
    mut work: AdmittedRequest,
    subjects: &[String],
) -> Result<Reply, OpError> {
    let call = || AuditedCall::new(&context.caller, entry.meta.name, subjects);
    if entry.meta.effect == Effect::Read {
        let private = work.request.role > Role::Viewer;
        let begun = Instant::now();
        let answer = tokio::select! {
            biased;
            error = token_gone(context) => {
                refused(context, entry.meta.name, subjects, &error);
                return Err(error);
            }
            answer = perform(context, entry, work) => answer,
        };
        let millis = begun.elapsed().as_millis() as u64;
        if private {
            return seen(context, call(), answer, millis).await;
        }
        if context.engine.security(|security| security.audit.reads) {
            context.engine.audit().looked(call(), outcome(&answer), millis);
        }
        return answer;
    }
    let noted = OpenAuditEntry::begin(context, call(), entry.meta.even_unrecorded).await?;
    let context = Context { unrecorded: noted.unrecorded(), ..context.clone() };
    work.noted = Some(noted);
    // The change continues when the caller stops waiting.
    let change = tokio::spawn(async move { perform(&context, entry, work).await });
    change.await.unwrap_or_else(|error| {
        tracing::error!(operation = entry.meta.name, %error, "an operation failed");
        Err(OpError::new(
            Code::Internal,
            format!("{} failed because of a bug in Proctor", entry.meta.name),
        ))
    })
}

/// Completes when the caller's token becomes invalid, so reading ends.
async fn token_gone(context: &Context) -> OpError {
    match &context.caller.principal {
        Principal::Token { id, .. } => context.engine.token_gone(id).await,
        Principal::Local { .. } | Principal::Anonymous | Principal::Stranger => {
            std::future::pending::<()>().await;
        }
    }
    invalid_token()
}

fn invalid_token() -> OpError {
    OpError::new(Code::Unauthenticated, "the token is no longer valid")
        .help("it was revoked or has expired; create another with `proctor token create`")
}

async fn perform(
    context: &Context,
    entry: &'static Entry,
    work: AdmittedRequest,
) -> Result<Reply, OpError> {
    if entry.meta.follows {
        return context.underway.follow(context, &entry.meta, work).await;
    }
    let AdmittedRequest { request, form, permit, uses, noted, .. } = work;
    let answer = tokio::time::timeout(entry.meta.timeout, request.run(context, form)).await;
    let answer = answer.unwrap_or_else(|_| Err(running_operations::late(&entry.meta)));
    if let Some(noted) = noted {
        noted.end(context, &answer).await;
    }
    drop((permit, uses));
    answer
}

/// Records a refusal in the audit log. Beyond the rate limit of a caller it is only counted.
pub fn refused(context: &Context, name: &str, subjects: &[String], error: &OpError) {
    let audit = context.engine.audit();
    if context.limits.notes_refusal(&context.caller) {
        audit.refused(AuditedCall::new(&context.caller, name, subjects), error.code.as_str());
    } else {
        audit.skipped();
    }
}
