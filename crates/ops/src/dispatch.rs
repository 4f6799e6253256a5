//! The way into every operation: decode → authorise → limit → audit → run → encode. Every front takes it.
//!
//! What changes the world is written into the audit before it begins and after it ended, and is finished even if who asked
//! for it goes away: half of it would be worse than one nobody hears about.

use crate::check::{checked, unknown};
use crate::error::{Code, OpError};
use crate::limits::Permit;
use crate::operation::{Context, Effect, Meta, Role};
use crate::reply::{Form, Reply};
use crate::subject::subjects;
use crate::table::{self, Entry, Request};
use proctor_core::access::{self, Refused};
use proctor_engine::audit::{Begun, Call, Unavailable};
use serde_json::{Value, json};
use std::time::Instant;

/// Do one operation for one caller.
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
    let subjects = subjects(&input);
    let answer = match admit(context, entry, input) {
        Ok(admitted) => run(context, entry, admitted, form, &subjects).await,
        Err(error) => {
            refused(context, entry.meta.name, &subjects, &error);
            Err(error)
        }
    };
    let (operation, millis) = (entry.meta.name, begun.elapsed().as_millis() as u64);
    // What was asked for stays out of the log: it may hold an environment.
    match (&answer, entry.meta.effect) {
        (Ok(_), Effect::Read) => tracing::debug!(operation, millis, "done"),
        (Ok(_), Effect::Write | Effect::Exec | Effect::Admin) => {
            tracing::info!(operation, millis, "done")
        }
        (Err(error), _) => tracing::warn!(operation, millis, code = error.code.as_str(), "refused"),
    }
    answer
}

/// The input that an operation would work with, as JSON again: for the checks in `decoders`.
#[doc(hidden)]
pub fn given(name: &str, input: Value) -> Result<Value, OpError> {
    let entry = table::find(name).ok_or_else(|| unknown(name))?;
    (entry.again)(checked(entry, input)?)
}

/// A request that may be run.
struct Admitted {
    request: Request,
    permit: Permit,
}

/// Everything that is asked before anything happens. Read once: what is admitted is what runs.
fn admit(context: &Context, entry: &Entry, input: Value) -> Result<Admitted, OpError> {
    let request = (entry.request)(checked(entry, input)?)?;
    authorise(context, &entry.meta, request.role)?;
    let permit = context.limits.admit(&context.caller, entry.meta.effect)?;
    Ok(Admitted { request, permit })
}

async fn run(
    context: &Context,
    entry: &'static Entry,
    admitted: Admitted,
    form: Form,
    subjects: &[String],
) -> Result<Reply, OpError> {
    let call = || Call::new(&context.caller, entry.meta.name, subjects);
    match entry.meta.effect {
        Effect::Read => {
            let noted = admitted.request.role > Role::Viewer
                || context.engine.security(|security| security.audit.reads);
            let begun = Instant::now();
            let answer = perform(context, entry, admitted, form).await;
            if noted {
                let millis = begun.elapsed().as_millis() as u64;
                context.engine.audit().looked(call(), outcome(&answer), millis);
            }
            answer
        }
        Effect::Write | Effect::Exec | Effect::Admin => {
            let begun = context.engine.audit().begin(call()).await;
            let begun = begun.map_err(|unavailable| unwritten(context, &unavailable))?;
            let change = change(context.clone(), entry, admitted, form, begun);
            // Whoever stops waiting for it does not stop it.
            tokio::spawn(change).await.unwrap_or_else(|error| {
                tracing::error!(operation = entry.meta.name, %error, "an operation failed");
                Err(OpError::new(Code::Internal, format!("{} ended in a mistake", entry.meta.name)))
            })
        }
    }
}

async fn change(
    context: Context,
    entry: &'static Entry,
    admitted: Admitted,
    form: Form,
    begun: Begun,
) -> Result<Reply, OpError> {
    let since = Instant::now();
    let answer = perform(&context, entry, admitted, form).await;
    let millis = since.elapsed().as_millis() as u64;
    let ended = context.engine.audit().end(begun, outcome(&answer), millis).await;
    if let Err(error) = ended {
        // It is done and cannot be undone; in the audit it stays without a result.
        tracing::error!(operation = entry.meta.name, %error, "the result is not in the audit");
    }
    answer
}

async fn perform(
    context: &Context,
    entry: &Entry,
    Admitted { request, permit }: Admitted,
    form: Form,
) -> Result<Reply, OpError> {
    let (name, most) = (entry.meta.name, entry.meta.timeout);
    let answer = tokio::time::timeout(most, request.run(context, form)).await;
    drop(permit);
    answer.unwrap_or_else(|_| {
        Err(OpError::new(Code::Timeout, format!("{name} took longer than {} s", most.as_secs())))
    })
}

/// What the audit says that became of it.
fn outcome(answer: &Result<Reply, OpError>) -> &'static str {
    match answer {
        Ok(Reply { verdict: Some(code), .. }) => code.as_str(),
        Ok(Reply { verdict: None, .. }) => "ok",
        Err(error) => error.code.as_str(),
    }
}

/// Write down that something was not done. Who is refused too often is only counted.
fn refused(context: &Context, name: &str, subjects: &[String], error: &OpError) {
    let audit = context.engine.audit();
    if context.limits.notes_refusal(&context.caller) {
        audit.refused(Call::new(&context.caller, name, subjects), error.code.as_str());
    } else {
        audit.skipped();
    }
}

fn unwritten(context: &Context, unavailable: &Unavailable) -> OpError {
    let folder = context.home.audit();
    OpError::new(Code::AuditUnavailable, unavailable.to_string()).help(format!(
        "nothing was changed; make room on its disk, or make {} a folder that can be written, and try again; \
         services run on, and reading works",
        folder.display()
    ))
}

/// Who may do what: by the caller's role, and over the network only what the configuration offers there.
fn authorise(context: &Context, meta: &Meta, needs: Role) -> Result<(), OpError> {
    let (name, caller) = (meta.name, &context.caller);
    context.engine.security(|security| {
        let offered = security.allowed.as_ref().is_none_or(|allowed| allowed.contains(name));
        if caller.front.is_network() && !offered {
            let message = format!("{name} is not offered over the network");
            return Err(OpError::new(Code::Forbidden, message)
                .help("`security.allowed_commands` in the configuration lists what is"));
        }
        access::allows(caller, needs, security.strangers).map_err(|refused| match refused {
            Refused::Unauthenticated => {
                OpError::new(Code::Unauthenticated, format!("{name} needs a token"))
                    .help("`proctor token path` says where the first one is")
            }
            Refused::Forbidden { has, needs } => OpError::new(
                Code::Forbidden,
                format!("{name} needs the role {needs}; {} is not enough", caller.principal),
            )
            .details(json!({ "role": has, "needs": needs })),
        })
    })
}
