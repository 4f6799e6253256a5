//! What an operation is: input, output, a description, and the work itself.
//!
//! Leaves out how requests arrive (the fronts) and what is checked before the work begins (`dispatch`).

use crate::dispatch::Limits;
use crate::error::OpError;
use crate::show::Show;
use proctor_core::home::Home;
use proctor_core::time::Wall;
use proctor_engine::api::Engine;
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

    /// The answer where none of it depends on a running Proctor.
    fn without_daemon(input: &Self::Input) -> Option<Result<Self::Output, OpError>> {
        let _ = input;
        None
    }
}

/// The description of an operation.
#[derive(Debug, Clone, Copy)]
pub struct Meta {
    /// `noun.verb`
    pub name: &'static str,
    pub effect: Effect,
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
    /// Waits for services; completes the sentence "waiting for web …".
    pub waits: Option<&'static str>,
}

/// What a call may do to the world; permissions will be given by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Read,
    Write,
    /// Runs programs chosen by somebody.
    Exec,
    /// Changes Proctor itself.
    Admin,
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
    pub const fn of(name: &'static str, effect: Effect) -> Meta {
        Meta {
            name,
            effect,
            cli: &[],
            aliases: &[],
            summary: "",
            details: "",
            timeout: USUAL_TIMEOUT,
            max_input: SMALL_INPUT,
            launches: !matches!(effect, Effect::Read),
            wants_caller: false,
            waits: None,
        }
    }

    /// An operation that can wait as long as its caller says.
    pub const fn waiting(self, completes: &'static str) -> Meta {
        Meta { waits: Some(completes), ..self.long() }
    }

    /// An operation that answers late on purpose.
    pub const fn long(self) -> Meta {
        Meta { timeout: LONGEST_WAIT.saturating_add(USUAL_TIMEOUT), ..self }
    }

    /// An operation that is given the caller's environment and folder.
    pub const fn with_caller(self) -> Meta {
        Meta { wants_caller: true, max_input: INPUT_WITH_CALLER, ..self }
    }
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// A process of this machine whose user the kernel vouches for.
    Local { uid: u32 },
}

/// What an operation works with.
#[derive(Clone)]
pub struct Context {
    pub engine: Engine,
    pub principal: Principal,
    pub home: Home,
    /// This program, for an upgrade in place.
    pub binary: PathBuf,
    /// When this daemon began.
    pub started: Wall,
    pub limits: Arc<Limits>,
}

impl Context {
    pub fn new(engine: Engine, home: Home, binary: PathBuf, principal: Principal) -> Context {
        let started = proctor_sys::clock::now().wall;
        Context { engine, principal, home, binary, started, limits: Arc::new(Limits::default()) }
    }

    /// The same for another caller.
    pub fn called_by(&self, principal: Principal) -> Context {
        Context { principal, ..self.clone() }
    }
}
