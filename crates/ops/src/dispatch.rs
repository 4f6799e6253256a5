//! The way into every operation: decode → authorise → limit → run → encode. Every front takes it.

use crate::error::{Code, OpError};
use crate::operation::{Context, Effect, Meta, Role};
use crate::reply::{Form, Reply};
use crate::table::{self, Entry};
use crate::underway::{self, Work};
use proctor_core::access::{self, Refused};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{Semaphore, TryAcquireError};

/// Operations that may be under way at once, reads apart from the rest: reading never waits behind writing.
pub struct Limits {
    reads: Arc<Semaphore>,
    changes: Arc<Semaphore>,
}

/// Long polls are cheap, but each holds a connection and a task.
const MOST_READS: usize = 512;

/// A script may start a few hundred services, each with a command of its own.
const MOST_CHANGES: usize = 256;

impl Default for Limits {
    fn default() -> Limits {
        let room = |most| Arc::new(Semaphore::new(most));
        Limits { reads: room(MOST_READS), changes: room(MOST_CHANGES) }
    }
}

impl Limits {
    fn of(&self, effect: Effect) -> &Arc<Semaphore> {
        match effect {
            Effect::Read => &self.reads,
            Effect::Write | Effect::Exec | Effect::Admin => &self.changes,
        }
    }
}

/// Do one operation for one caller.
pub async fn dispatch(
    context: &Context,
    name: &str,
    input: Value,
    form: Form,
) -> Result<Reply, OpError> {
    let begun = Instant::now();
    let entry = table::find(name).ok_or_else(|| unknown(name))?;
    let answer = perform(context, entry, input, form).await;
    // One in the background is counted when it is over.
    if !answer.as_ref().is_ok_and(|reply| reply.background) {
        let code = answer.as_ref().err().map(|error| error.code);
        context.counters.count(entry.meta.name, code, begun.elapsed());
    }
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
    (entry.again)(checked(entry, input)?.0)
}

async fn perform(
    context: &Context,
    entry: &'static Entry,
    input: Value,
    form: Form,
) -> Result<Reply, OpError> {
    let (input, background) = checked(entry, input)?;
    let request = (entry.request)(input)?;
    authorise(context, &entry.meta, request.role)?;
    let permit = match Arc::clone(context.limits.of(entry.meta.effect)).try_acquire_owned() {
        Ok(permit) => permit,
        Err(TryAcquireError::NoPermits | TryAcquireError::Closed) => {
            return Err(
                OpError::new(Code::Busy, "too many requests at once").help("try again in a moment")
            );
        }
    };
    if entry.meta.follows {
        let work = Work { request, form, background, permit };
        return context.underway.follow(context, &entry.meta, work).await;
    }
    let answer = tokio::time::timeout(entry.meta.timeout, request.run(context, form)).await;
    drop(permit);
    answer.unwrap_or_else(|_| Err(underway::late(&entry.meta)))
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

/// An object of known fields, of a size that is allowed, and whether it is to be done in the background. Nothing given
/// stands for "nothing to say".
fn checked(entry: &Entry, input: Value) -> Result<(Value, bool), OpError> {
    let Value::Object(mut object) = (if input.is_null() { json!({}) } else { input }) else {
        return Err(OpError::bad_input(format!("the input of {} is an object", entry.meta.name)));
    };
    check_fields(entry, &object)?;
    let background = underway::take_flag(&entry.meta, &mut object)?;
    let input = Value::Object(object);
    if weight(&input) > entry.meta.max_input {
        let (name, most) = (entry.meta.name, entry.meta.max_input);
        let message = format!("the input of {name} is larger than {most} bytes");
        return Err(OpError::new(Code::TooLarge, message));
    }
    Ok((input, background))
}

fn check_fields(entry: &Entry, object: &Map<String, Value>) -> Result<(), OpError> {
    let known = table::fields(entry);
    let Some(unknown) = object.keys().find(|key| !known.contains(key)) else { return Ok(()) };
    let error = OpError::bad_input(format!("{}: unknown field '{unknown}'", entry.meta.name));
    let nearest = nearest(unknown, known.iter().map(String::as_str));
    Err(match nearest {
        Some(name) => error.help(format!("did you mean '{name}'?")),
        None => error.help(format!("known: {}", known.join(", "))),
    }
    .details(json!({ "field": unknown })))
}

fn unknown(name: &str) -> OpError {
    let error = OpError::new(Code::UnknownOperation, format!("no operation '{name}'"));
    match nearest(name, table::TABLE.iter().map(|entry| entry.meta.name)) {
        Some(name) => error.help(format!("did you mean '{name}'?")),
        None => error,
    }
}

fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// Below this, two words have nothing to do with each other.
    const ALIKE: f64 = 0.8;
    known
        .map(|name| (strsim::jaro_winkler(word, name), name))
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// About how many bytes a value takes: enough to tell a request from an attack.
fn weight(value: &Value) -> usize {
    /// Of a number, a word, a bracket.
    const SMALL: usize = 8;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => SMALL,
        Value::String(text) => text.len() + SMALL,
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + SMALL,
        Value::Object(fields) => {
            fields.iter().map(|(k, v)| k.len() + weight(v) + SMALL).sum::<usize>() + SMALL
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(name: &str, input: Value) -> OpError {
        let entry = table::find(name).expect("the test names an operation");
        checked(entry, input).expect_err("it was taken")
    }

    #[test]
    fn unknown_fields_are_refused_by_name() {
        let error = refusal("service.stop", json!({ "nmaes": ["web"] }));
        assert_eq!(
            (error.code, error.help.as_deref()),
            (Code::BadInput, Some("did you mean 'names'?"))
        );
        assert!(error.message.contains("'nmaes'"), "{}", error.message);
        let error = refusal("service.start", json!({ "xyz": 1 }));
        assert!(error.help.unwrap().contains("working_dir"), "flattened fields are known, too");
        assert_eq!(refusal("service.stop", json!([1])).code, Code::BadInput);
    }

    #[test]
    fn nothing_at_all_is_an_empty_input() {
        let entry = table::find("service.list").unwrap();
        assert_eq!(checked(entry, Value::Null).unwrap(), (json!({}), false));
    }

    #[test]
    fn an_input_has_a_largest_size() {
        let names: Vec<String> = (0..20_000).map(|n| format!("service-{n}")).collect();
        let error = refusal("service.stop", json!({ "names": names }));
        assert!(error.message.contains("larger than 262144 bytes"), "{}", error.message);
    }

    #[test]
    fn an_unknown_operation_has_a_suggestion() {
        assert_eq!(unknown("service.strat").help.as_deref(), Some("did you mean 'service.start'?"));
        assert_eq!(unknown("zzz").help, None);
    }
}
