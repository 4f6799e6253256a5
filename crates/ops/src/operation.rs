//! Definition of an operation: input, output, description, and the work itself.
//!
//! Out of scope: how requests arrive (the fronts), and the checks before the work starts (`dispatch`).

use crate::counters::Counters;
use crate::error::{Code, OpError};
use crate::limits::{Limits, limited};
use crate::running_operations::{RunningOperation, RunningOperations};
use crate::text_output::Show;
pub use proctor_core::access::{Caller, ClientName, Front, Principal, Role, TokenId};
use proctor_core::home::Home;
use proctor_core::time::Wall;
use proctor_engine::api::Engine;
use proctor_engine::audit::AuditedCall as AuditCall;
use proctor_engine::secrets::hide;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// One capability. The command line, MCP, REST and TCP are generated from it.
pub trait Operation: 'static {
    /// Its doc comments are the help texts of the command line and the descriptions of the schema.
    type Input: clap::Args + Serialize + DeserializeOwned + JsonSchema + Send;
    type Output: Serialize + DeserializeOwned + JsonSchema + Show + Send;
    const META: Meta;

    fn run(
        context: &Context,
        input: Self::Input,
    ) -> impl Future<Output = Result<Self::Output, OpError>> + Send;

    /// Returns the role that this request needs, if that depends on its input.
    fn role(input: &Self::Input) -> Role {
        let _ = input;
        Self::META.role
    }

    /// Returns the target of this request, for operations whose target depends on the input.
    fn target(input: &Self::Input) -> Target {
        let _ = input;
        Self::META.target
    }

    /// Returns the services that this request names. The rules for assistants apply to them, and their use by the owner renews a
    /// lease.
    fn about(input: &Self::Input) -> About<'_> {
        let _ = input;
        About::Nothing
    }

    /// Returns the response if it does not depend on a running Proctor.
    fn without_daemon(home: &Home, input: &Self::Input) -> Option<Result<Self::Output, OpError>> {
        let _ = (home, input);
        None
    }
}

/// Services that a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About<'a> {
    Nothing,
    /// Names as on a command line. None selects the only or the primary service if the operation changes something.
    Services(&'a [String]),
    /// A service to define.
    New {
        name: &'a str,
        replace: bool,
    },
    /// All services that run or will run by themselves.
    Everything,
}

/// Description of an operation.
#[derive(Debug, Clone, Copy)]
pub struct Meta {
    /// Name in the form `noun.verb`.
    pub name: &'static str,
    pub effect: Effect,
    /// The object of the change; [`Operation::target`] may name another.
    pub target: Target,
    /// Minimum role of the caller; [`Operation::role`] may require more.
    pub role: Role,
    /// Words of the command line: `["daemon", "stop"]`.
    pub cli: &'static [&'static str],
    pub aliases: &'static [&'static str],
    /// One line without a full stop.
    pub summary: &'static str,
    /// Further help, with examples.
    pub details: &'static str,
    /// Maximum duration; then the response is `timeout`.
    pub timeout: Duration,
    /// Maximum size of the input; larger ones are rejected.
    pub max_input: usize,
    /// A client on this machine may start Proctor for this operation.
    pub launches: bool,
    /// Takes the caller's `environment` and `base_dir`; a front on the caller's machine fills them in.
    pub wants_caller: bool,
    /// Takes only the caller's `base_dir`, and `from_base` if paths are relative to it.
    pub wants_folder: bool,
    /// Fields that `-` on a command line fills from standard input: one for text, one for other bytes.
    pub from_stdin: Option<[&'static str; 2]>,
    /// The operation waits for services; the text completes the sentence "waiting for web …".
    pub waits: Option<&'static str>,
    /// Additional HTTP path, besides the one from its name.
    pub resource: Option<Resource>,
    /// Long operation: it has an id, can be cancelled, and can run in the background.
    pub follows: bool,
    /// Cancelling undoes its changes.
    pub taken_back: bool,
    /// Its response has pages for programs; a command line shows all pages unless asked for one.
    pub whole: bool,
    /// Interrupting the command line cancels the operation and reports the result.
    pub attended: bool,
    /// Runs even if it cannot be recorded, so stopping always works. The response says what is not recorded.
    pub even_unrecorded: bool,
}

/// HTTP path of an operation on a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource {
    pub method: Method,
    /// Path below `/api/v1`, with at most one parameter: `/services/{name}/start`.
    pub path: &'static str,
    /// Input field that the parameter fills.
    pub fills: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Delete,
}

impl Method {
    pub const fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Delete => "DELETE",
        }
    }
}

/// Effect of a call. The required role follows from it, unless the operation says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Read,
    Write,
    /// Runs programs that the caller chooses.
    Exec,
    /// Changes Proctor itself.
    Admin,
}

/// The object that an operation changes. `mcp.control: own` decides by it what an assistant may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Nothing,
    /// Those that [`Operation::about`] names.
    Services,
    /// Files and repositories below the roots.
    Files,
    /// Whatever a program of the caller's choice changes.
    Programs,
    /// Services and settings, by a file. Where it is applied it is known which, and decided.
    Configuration,
    /// Another operation, and so whatever that one changes.
    Operation,
    /// Tokens, the mode, the daemon: what everybody's work depends on.
    Proctor,
}

impl Effect {
    const fn role(self) -> Role {
        match self {
            Effect::Read => Role::Viewer,
            Effect::Write => Role::Operator,
            Effect::Exec | Effect::Admin => Role::Admin,
        }
    }
}

/// Maximum wait of a request, so a forgotten waiter ends eventually.
pub const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Default timeout; longer than the keeper's own for a request (10 s), so the keeper's message is reported.
const USUAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum input with names, paths and numbers: a thousand services with the longest names fit four times.
const SMALL_INPUT: usize = 256 << 10;

/// Maximum input with an environment; the kernel allows a process about 2 MiB of it.
const INPUT_WITH_CALLER: usize = 4 << 20;

impl Meta {
    /// Returns the defaults of most operations.
    pub const fn of(name: &'static str, effect: Effect, target: Target) -> Meta {
        let reads = matches!(effect, Effect::Read);
        assert!(reads == matches!(target, Target::Nothing), "a read changes nothing");
        let administers = matches!(effect, Effect::Admin);
        assert!(administers == matches!(target, Target::Proctor), "admin: Proctor itself");
        Meta {
            name,
            effect,
            target,
            role: effect.role(),
            cli: &[],
            aliases: &[],
            summary: "",
            details: "",
            timeout: USUAL_TIMEOUT,
            max_input: SMALL_INPUT,
            launches: !matches!(effect, Effect::Read),
            wants_caller: false,
            wants_folder: false,
            from_stdin: None,
            waits: None,
            resource: None,
            follows: false,
            taken_back: false,
            whole: false,
            attended: false,
            even_unrecorded: false,
        }
    }

    /// Marks an operation with pages; a command line shows all of them.
    pub const fn whole(self) -> Meta {
        Meta { whole: true, ..self }
    }

    /// Sets a minimum role, regardless of the effect.
    pub const fn needing(self, role: Role) -> Meta {
        Meta { role, ..self }
    }

    /// Marks an operation that waits as long as its caller says.
    pub const fn waiting(self, completes: &'static str) -> Meta {
        Meta { waits: Some(completes), ..self.followed() }
    }

    /// Marks a long operation that can be followed and cancelled.
    pub const fn followed(self) -> Meta {
        Meta { follows: true, ..self.long() }
    }

    /// Marks an operation that runs even if it cannot be recorded.
    pub const fn even_unrecorded(self) -> Meta {
        Meta { even_unrecorded: true, ..self }
    }

    /// Marks an operation that undoes its changes when it is cancelled.
    pub const fn taken_back(self) -> Meta {
        Meta { taken_back: true, ..self.attended() }
    }

    /// Marks an operation that must not continue after its command line was interrupted.
    pub const fn attended(self) -> Meta {
        Meta { attended: true, ..self }
    }

    /// Returns true if it may run in the background. A wait may not: it would hold its slot for a day without a waiter.
    pub const fn goes_on(&self) -> bool {
        self.follows && !matches!(self.effect, Effect::Read)
    }

    /// Adds an HTTP path; `fills` is the field for its parameter.
    pub const fn at(self, method: Method, path: &'static str, fills: &'static str) -> Meta {
        Meta { resource: Some(Resource { method, path, fills }), ..self }
    }

    /// Marks an operation whose response may be late.
    pub const fn long(self) -> Meta {
        Meta { timeout: MAX_WAIT.saturating_add(USUAL_TIMEOUT), ..self }
    }

    /// Marks an operation with a long text: `-` on a command line reads standard input, into the base64 field if it is not text.
    pub const fn with_stdin(self, text: &'static str, base64: &'static str) -> Meta {
        Meta { from_stdin: Some([text, base64]), ..self }
    }

    /// Marks an operation that gets the caller's folder.
    pub const fn with_folder(self) -> Meta {
        Meta { wants_folder: true, ..self }
    }

    /// Marks an operation that gets the caller's environment and folder.
    pub const fn with_caller(self) -> Meta {
        Meta { wants_caller: true, max_input: INPUT_WITH_CALLER, ..self }
    }
}

/// Maximum length of a presented token, far above that of any real one.
const MAX_TOKEN_BYTES: usize = 1024;

/// Everything an operation works with.
#[derive(Clone)]
pub struct Context {
    pub engine: Engine,
    pub caller: Caller,
    pub home: Home,
    /// Path of this program, for an upgrade in place.
    pub binary: PathBuf,
    /// Start time of this daemon.
    pub started: Wall,
    pub limits: Arc<Limits>,
    pub underway: Arc<RunningOperations>,
    pub counters: Arc<Counters>,
    /// The followed operation, if this is one.
    pub call: Option<Arc<RunningOperation>>,
    /// Reason why this operation is not in the audit log, if it is not.
    pub unrecorded: Option<Arc<str>>,
}

impl Context {
    pub fn new(engine: Engine, home: Home, binary: PathBuf, caller: Caller) -> Context {
        let started = proctor_sys::clock::now().wall;
        Context {
            engine,
            caller,
            home,
            binary,
            started,
            limits: Arc::default(),
            underway: Arc::default(),
            counters: Arc::default(),
            call: None,
            unrecorded: None,
        }
    }

    /// Returns sentences about everything this call could not record: the audit entry, and `more`.
    pub(crate) fn unrecorded(&self, more: Option<String>) -> Vec<String> {
        self.unrecorded.iter().map(|why| why.to_string()).chain(more).collect()
    }

    /// Reports the current step to followers.
    pub(crate) fn step(&self, text: impl Into<String>) {
        if let Some(call) = &self.call {
            call.say(&hide(&text.into()));
            self.underway.touch();
        }
    }

    /// Returns this context for another caller.
    pub fn called_by(&self, caller: Caller) -> Context {
        Context { caller, ..self.clone() }
    }

    /// Returns the principal of a token. Call it on the context of the connection that presents the token: failures are counted
    /// by address.
    pub fn authenticate(&self, presented: &str) -> Result<Principal, OpError> {
        let guess = self.limits.may_guess(&self.caller);
        let fits = presented.len() <= MAX_TOKEN_BYTES;
        let found = fits.then(|| self.engine.authenticate(presented, guess.is_ok())).flatten();
        let audit = self.engine.audit();
        match (found, guess) {
            (Some(principal), _) => Ok(principal),
            (None, Err(wait)) => {
                audit.skipped();
                Err(limited("too many invalid tokens", wait))
            }
            (None, Ok(())) => {
                self.limits.guessed_wrong(&self.caller);
                let code = Code::Unauthenticated;
                if self.limits.notes_refusal(&self.caller) {
                    audit.refused(AuditCall::new(&self.caller, "authenticate", &[]), code.as_str());
                } else {
                    audit.skipped();
                }
                Err(OpError::new(code, "this token is not valid").help(
                    "it may have expired or been revoked; `proctor token list` shows valid tokens",
                ))
            }
        }
    }
}
