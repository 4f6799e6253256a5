//! What an operation is: input, output, a description, and the work itself.
//!
//! Leaves out how requests arrive (the fronts) and what is checked before the work begins (`dispatch`).

use crate::counters::Counters;
use crate::error::{Code, OpError};
use crate::limits::{Limits, limited};
use crate::show::Show;
use crate::underway::{Call, Underway};
pub use proctor_core::access::{Caller, ClientName, Front, Principal, Role, TokenId};
use proctor_core::home::Home;
use proctor_core::time::Wall;
use proctor_engine::api::Engine;
use proctor_engine::audit::Call as AuditCall;
use proctor_engine::secrets::hide;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// One capability. The command line, and later MCP, REST and TCP, are made from this.
pub trait Operation: 'static {
    /// Its doc comments are the help of the command line and the descriptions of the schema.
    type Input: clap::Args + Serialize + DeserializeOwned + JsonSchema + Send;
    type Output: Serialize + DeserializeOwned + JsonSchema + Show + Send;
    const META: Meta;

    fn run(
        context: &Context,
        input: Self::Input,
    ) -> impl Future<Output = Result<Self::Output, OpError>> + Send;

    /// The role this very request needs, where that depends on what is asked for.
    fn role(input: &Self::Input) -> Role {
        let _ = input;
        Self::META.role
    }

    /// The object of this very request, where that depends on what is asked for.
    fn target(input: &Self::Input) -> Target {
        let _ = input;
        Self::META.target
    }

    /// The services that this very request names: an assistant may change them or not, and by using what is its own it renews
    /// a lease.
    fn about(input: &Self::Input) -> About<'_> {
        let _ = input;
        About::Nothing
    }

    /// The answer where none of it depends on a running Proctor.
    fn without_daemon(home: &Home, input: &Self::Input) -> Option<Result<Self::Output, OpError>> {
        let _ = (home, input);
        None
    }
}

/// The services that a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About<'a> {
    Nothing,
    /// As a command line names them; none: the only or the primary one, where something changes.
    Services(&'a [String]),
    /// One that is to be defined.
    New {
        name: &'a str,
        replace: bool,
    },
    /// All that run or will by themselves.
    Everything,
}

/// The description of an operation.
#[derive(Debug, Clone, Copy)]
pub struct Meta {
    /// `noun.verb`
    pub name: &'static str,
    pub effect: Effect,
    /// The object of the change; [`Operation::target`] may name another.
    pub target: Target,
    /// The least that a caller needs; [`Operation::role`] may ask for more.
    pub role: Role,
    /// Words of the command line: `["daemon", "stop"]`.
    pub cli: &'static [&'static str],
    pub aliases: &'static [&'static str],
    /// One line without a full stop.
    pub summary: &'static str,
    /// What else to know, with examples.
    pub details: &'static str,
    /// After this long the answer is `timeout`.
    pub timeout: Duration,
    /// Larger inputs are refused.
    pub max_input: usize,
    /// A client on this machine may start Proctor for this when none runs.
    pub launches: bool,
    /// Takes the caller's `environment` and `base_dir`; a front on the caller's machine fills them in.
    pub wants_caller: bool,
    /// Takes the caller's `base_dir` alone, and `from_base` from whoever writes paths as seen from there.
    pub wants_folder: bool,
    /// The field whose text comes from standard input where a command line says `-`, and the one for bytes that are no text.
    pub from_stdin: Option<[&'static str; 2]>,
    /// Waits for services; completes the sentence "waiting for web …".
    pub waits: Option<&'static str>,
    /// A place of its own over HTTP, beside the one that its name gives.
    pub resource: Option<Resource>,
    /// Takes a while: has an id, can be cancelled, and runs in the background if asked to.
    pub follows: bool,
    /// What it did is taken back when it is cancelled.
    pub taken_back: bool,
    /// Its answer comes in pages for programs; a command line that is asked for no page in particular shows all of it.
    pub whole: bool,
    /// A command line that is interrupted cancels it, and says what became of it.
    pub attended: bool,
    /// Done also when it cannot be recorded: stopping always works. The answer says what is not recorded.
    pub even_unrecorded: bool,
}

/// Where an operation is found over HTTP by what it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource {
    pub method: Method,
    /// Below `/api/v1`, with at most one parameter: `/services/{name}/start`.
    pub path: &'static str,
    /// The field of the input that the parameter fills.
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

/// What a call may do to the world. The role it needs follows from it, unless the operation says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Read,
    Write,
    /// Runs programs chosen by somebody.
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

/// Longest that anybody may ask to wait: a forgotten waiter ends some day.
pub const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Longer than the keeper's own deadline for a request (10 s), so that its message is the one that is seen.
const USUAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Names, paths and numbers: a thousand services by their longest names fit four times.
const SMALL_INPUT: usize = 256 << 10;

/// An environment comes along: the kernel itself allows a process about 2 MiB of it.
const INPUT_WITH_CALLER: usize = 4 << 20;

impl Meta {
    /// What most operations have in common.
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

    /// An operation that answers in pages; a command line shows all of them.
    pub const fn whole(self) -> Meta {
        Meta { whole: true, ..self }
    }

    /// An operation that takes at least this role, whatever follows from its effect.
    pub const fn needing(self, role: Role) -> Meta {
        Meta { role, ..self }
    }

    /// An operation that can wait as long as its caller says.
    pub const fn waiting(self, completes: &'static str) -> Meta {
        Meta { waits: Some(completes), ..self.followed() }
    }

    /// An operation that takes as long as it takes, and that somebody may want to follow or to cancel.
    pub const fn followed(self) -> Meta {
        Meta { follows: true, ..self.long() }
    }

    /// An operation that is not refused because it cannot be recorded.
    pub const fn even_unrecorded(self) -> Meta {
        Meta { even_unrecorded: true, ..self }
    }

    /// An operation that undoes what it did when it is cancelled.
    pub const fn taken_back(self) -> Meta {
        Meta { taken_back: true, ..self.attended() }
    }

    /// An operation that nobody wants to go on behind their back.
    pub const fn attended(self) -> Meta {
        Meta { attended: true, ..self }
    }

    /// May it be asked to go on by itself? A wait that nobody waits for is none, and would hold its place for a day.
    pub const fn goes_on(&self) -> bool {
        self.follows && !matches!(self.effect, Effect::Read)
    }

    /// An operation that is also found at a path of its own; `fills` is the field for the parameter in it.
    pub const fn at(self, method: Method, path: &'static str, fills: &'static str) -> Meta {
        Meta { resource: Some(Resource { method, path, fills }), ..self }
    }

    /// An operation that answers late on purpose.
    pub const fn long(self) -> Meta {
        Meta { timeout: LONGEST_WAIT.saturating_add(USUAL_TIMEOUT), ..self }
    }

    /// An operation with a text that is long: `-` on a command line is what comes on standard input, in base64 if it is no text.
    pub const fn with_stdin(self, text: &'static str, base64: &'static str) -> Meta {
        Meta { from_stdin: Some([text, base64]), ..self }
    }

    /// An operation that is given the caller's folder.
    pub const fn with_folder(self) -> Meta {
        Meta { wants_folder: true, ..self }
    }

    /// An operation that is given the caller's environment and folder.
    pub const fn with_caller(self) -> Meta {
        Meta { wants_caller: true, max_input: INPUT_WITH_CALLER, ..self }
    }
}

/// Far longer than any that was made; what is longer was sent to keep us busy.
const LONGEST_TOKEN: usize = 1024;

/// What an operation works with.
#[derive(Clone)]
pub struct Context {
    pub engine: Engine,
    pub caller: Caller,
    pub home: Home,
    /// This program, for an upgrade in place.
    pub binary: PathBuf,
    /// When this daemon began.
    pub started: Wall,
    pub limits: Arc<Limits>,
    pub underway: Arc<Underway>,
    pub counters: Arc<Counters>,
    /// What this is for, if it can be followed.
    pub call: Option<Arc<Call>>,
    /// Why this is not in the audit, where it is done all the same.
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

    /// What could not be recorded of this call, as sentences: the audit's part, and `more`.
    pub(crate) fn unrecorded(&self, more: Option<String>) -> Vec<String> {
        self.unrecorded.iter().map(|why| why.to_string()).chain(more).collect()
    }

    /// Say what is being done now, to those who follow it.
    pub(crate) fn step(&self, text: impl Into<String>) {
        if let Some(call) = &self.call {
            call.say(&hide(&text.into()));
            self.underway.touch();
        }
    }

    /// The same for another caller.
    pub fn called_by(&self, caller: Caller) -> Context {
        Context { caller, ..self.clone() }
    }

    /// Whose token this is. Asked of the context of the connection that presents it: failures are counted by where
    /// they come from.
    pub fn authenticate(&self, presented: &str) -> Result<Principal, OpError> {
        let guess = self.limits.may_guess(&self.caller);
        let fits = presented.len() <= LONGEST_TOKEN;
        let found = fits.then(|| self.engine.authenticate(presented, guess.is_ok())).flatten();
        let audit = self.engine.audit();
        match (found, guess) {
            (Some(principal), _) => Ok(principal),
            (None, Err(wait)) => {
                audit.skipped();
                Err(limited("too many tokens that are not valid", wait))
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
                    "it may have expired or been revoked; `proctor token list` shows those that exist",
                ))
            }
        }
    }
}
