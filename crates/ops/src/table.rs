//! The table of operations, with the untyped interface that every front uses.

use crate::error::OpError;
use crate::operation::{About, Context, Meta, Operation, Role, Target};
use crate::operations as op;
use crate::reply::{Form, Reply};
use crate::running_operations::{FLAG, FLAG_HELP, StartedOperation};
use crate::text_output::{Page, Show};
use clap::ArgAction::SetTrue;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use proctor_core::home::Home;
use proctor_core::text::beginning;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::OnceLock;

/// Every operation, in the order of the help text. A new capability is a new file and one line here.
pub static TABLE: &[Entry] = &[
    Entry::of::<op::service::up::Up>(),
    Entry::of::<op::service::down::Down>(),
    Entry::of::<op::service::start::Start>(),
    Entry::of::<op::service::stop::Stop>(),
    Entry::of::<op::service::restart::Restart>(),
    Entry::of::<op::service::custom_restart::CustomRestart>(),
    Entry::of::<op::service::list::List>(),
    Entry::of::<op::service::status::Status>(),
    Entry::of::<op::logs::Logs>(),
    Entry::of::<op::events::Events>(),
    Entry::of::<op::service::health::Health>(),
    Entry::of::<op::metrics::Metrics>(),
    Entry::of::<op::service::wait::Wait>(),
    Entry::of::<op::service::signal::Signal>(),
    Entry::of::<op::execute::Execute>(),
    Entry::of::<op::service::add::Add>(),
    Entry::of::<op::service::remove::Remove>(),
    Entry::of::<op::service::lease::Lease>(),
    Entry::of::<op::config::Config>(),
    Entry::of::<op::reload::Reload>(),
    Entry::of::<op::file::read::FileRead>(),
    Entry::of::<op::file::list::FileList>(),
    Entry::of::<op::file::find::FileFind>(),
    Entry::of::<op::file::search::FileSearch>(),
    Entry::of::<op::file::write::FileWrite>(),
    Entry::of::<op::file::edit::FileEdit>(),
    Entry::of::<op::file::change::FileChange>(),
    Entry::of::<op::file::apply_diff::FileApplyDiff>(),
    Entry::of::<op::file::move_file::FileMove>(),
    Entry::of::<op::file::delete::FileDelete>(),
    Entry::of::<op::file::make_folder::FileMakeFolder>(),
    Entry::of::<op::file::undo::FileUndo>(),
    Entry::of::<op::file::history::FileHistory>(),
    Entry::of::<op::change_check::ChangeCheck>(),
    Entry::of::<op::git::status::GitStatus>(),
    Entry::of::<op::git::diff::GitDiff>(),
    Entry::of::<op::git::log::GitLog>(),
    Entry::of::<op::git::show::GitShow>(),
    Entry::of::<op::git::blame::GitBlame>(),
    Entry::of::<op::git::add::GitAdd>(),
    Entry::of::<op::git::commit::GitCommit>(),
    Entry::of::<op::git::restore::GitRestore>(),
    Entry::of::<op::git::branch::GitBranch>(),
    Entry::of::<op::git::tag::GitTag>(),
    Entry::of::<op::git::stash::GitStash>(),
    Entry::of::<op::git::resolve::GitResolve>(),
    Entry::of::<op::operation::list::OperationList>(),
    Entry::of::<op::operation::status::Status>(),
    Entry::of::<op::operation::cancel::OperationCancel>(),
    Entry::of::<op::audit::read::AuditRead>(),
    Entry::of::<op::audit::verify::AuditVerify>(),
    Entry::of::<op::token::create::TokenCreate>(),
    Entry::of::<op::token::list::TokenList>(),
    Entry::of::<op::token::revoke::TokenRevoke>(),
    Entry::of::<op::token::path::TokenPath>(),
    Entry::of::<op::mode::get::ModeGet>(),
    Entry::of::<op::mode::switch::ModeSwitch>(),
    Entry::of::<op::daemon::status::DaemonStatus>(),
    Entry::of::<op::daemon::stop::DaemonStop>(),
    Entry::of::<op::daemon::upgrade::DaemonUpgrade>(),
];

pub(crate) type Answer<'a> = Pin<Box<dyn Future<Output = Result<Reply, OpError>> + Send + 'a>>;

/// An operation without its types.
pub struct Entry {
    pub meta: Meta,
    augment: fn(Command) -> Command,
    input: fn(&ArgMatches) -> Result<Value, OpError>,
    input_schema: fn() -> Value,
    output_schema: fn() -> Value,
    pub(crate) again: fn(Value) -> Result<Value, OpError>,
    pub(crate) request: fn(Value) -> Result<Request, OpError>,
    without_daemon: fn(&Home, &Value) -> Option<Result<Value, OpError>>,
    show: fn(&Value, &mut Page) -> Result<Option<crate::error::Code>, OpError>,
}

/// A decoded request: the value that is authorised is the value that runs.
pub(crate) struct Request {
    /// Role that the caller needs.
    pub(crate) role: Role,
    pub(crate) target: Target,
    call: Box<dyn RunRequest>,
}

impl Request {
    pub(crate) fn run(self, context: &Context, form: Form) -> Answer<'_> {
        self.call.run(context, form)
    }

    pub(crate) fn about(&self) -> About<'_> {
        self.call.about()
    }
}

trait RunRequest: Send {
    fn about(&self) -> About<'_>;
    fn run(self: Box<Self>, context: &Context, form: Form) -> Answer<'_>;
}

struct DecodedRequest<O: Operation>(O::Input);

impl<O: Operation> RunRequest for DecodedRequest<O> {
    fn about(&self) -> About<'_> {
        O::about(&self.0)
    }

    fn run(self: Box<Self>, context: &Context, form: Form) -> Answer<'_> {
        Box::pin(async move { Reply::of(&O::run(context, self.0).await?, form) })
    }
}

impl Entry {
    const fn of<O: Operation>() -> Entry {
        Entry {
            meta: O::META,
            augment: |command| {
                // A flattened struct would replace the summary with its own doc comment.
                let command = <O::Input as Args>::augment_args(command);
                let command = if offers_background(&O::META) {
                    command.arg(clap::Arg::new(FLAG).long(FLAG).action(SetTrue).help(FLAG_HELP))
                } else {
                    command
                };
                command.about(O::META.summary).long_about(None)
            },
            input: |matches| {
                let input = O::Input::from_arg_matches(matches)
                    .map_err(|error| OpError::bad_input(error.to_string()))?;
                let mut input = to_json(&input)?;
                if offers_background(&O::META) && matches.get_flag(FLAG) {
                    input[FLAG] = Value::Bool(true);
                }
                Ok(input)
            },
            input_schema: || {
                let mut schema = schema_of::<O::Input>();
                if O::META.goes_on() {
                    let flag =
                        json!({ "type": "boolean", "default": false, "description": FLAG_HELP });
                    schema["properties"][FLAG] = flag;
                }
                schema
            },
            output_schema: schema_of::<O::Output>,
            again: |input| to_json(&decode::<O::Input>(input)?),
            request: |input| {
                let input = decode::<O::Input>(input)?;
                let (role, target) = (O::role(&input), O::target(&input));
                Ok(Request { role, target, call: Box::new(DecodedRequest::<O>(input)) })
            },
            without_daemon: |home, input| {
                let input = serde_json::from_value(input.clone()).ok()?;
                O::without_daemon(home, &input).map(|output| to_json(&output?))
            },
            show: |output, page| {
                if let Some(begun) = StartedOperation::of(output).filter(|_| O::META.goes_on()) {
                    begun.show(page);
                    return Ok(None);
                }
                let output: O::Output = decode(output.clone())?;
                output.show(page);
                Ok(output.verdict())
            },
        }
    }

    /// Returns the command with this operation's arguments.
    pub fn augment(&self) -> fn(Command) -> Command {
        self.augment
    }

    /// Returns the input of a command line.
    pub fn input(&self, matches: &ArgMatches) -> Result<Value, OpError> {
        (self.input)(matches)
    }

    pub fn input_schema(&self) -> Value {
        (self.input_schema)()
    }

    pub fn output_schema(&self) -> Value {
        (self.output_schema)()
    }

    /// Returns the response if it does not depend on a running Proctor.
    pub fn without_daemon(&self, home: &Home, input: &Value) -> Option<Result<Value, OpError>> {
        (self.without_daemon)(home, input)
    }

    /// Puts an output on a page. Returns a code if the requested state was not reached.
    pub fn show(
        &self,
        output: &Value,
        page: &mut Page,
    ) -> Result<Option<crate::error::Code>, OpError> {
        (self.show)(output, page)
    }
}

/// Maximum length of a reason; enough for a few field names and types.
const MAX_REASON_BYTES: usize = 500;

/// Returns true if the command line offers `--background`. `up` and `down` combine several responses and do not.
fn offers_background(meta: &Meta) -> bool {
    meta.goes_on() && !matches!(meta.cli, ["up" | "down"])
}

pub fn find(name: &str) -> Option<&'static Entry> {
    TABLE.iter().find(|entry| entry.meta.name == name)
}

/// Returns the input fields of an operation.
pub(crate) fn fields(entry: &Entry) -> &'static [String] {
    static FIELDS: OnceLock<BTreeMap<&'static str, Vec<String>>> = OnceLock::new();
    let all = FIELDS.get_or_init(|| {
        let names = |entry: &Entry| match entry.input_schema().get("properties") {
            Some(Value::Object(properties)) => properties.keys().cloned().collect(),
            _ => Vec::new(),
        };
        TABLE.iter().map(|entry| (entry.meta.name, names(entry))).collect()
    });
    all.get(entry.meta.name).map_or(&[], Vec::as_slice)
}

/// Returns the input fields of an operation that are lists of strings.
pub(crate) fn list_fields(entry: &Entry) -> &'static [String] {
    static LISTS: OnceLock<BTreeMap<&'static str, Vec<String>>> = OnceLock::new();
    let all = LISTS.get_or_init(|| {
        let lists = |entry: &Entry| {
            let schema = entry.input_schema();
            let fields = schema["properties"].as_object().into_iter().flatten();
            let lists = fields.filter(|(_, field)| field["items"]["type"] == "string");
            lists.map(|(name, _)| name.clone()).collect()
        };
        TABLE.iter().map(|entry| (entry.meta.name, lists(entry))).collect()
    });
    all.get(entry.meta.name).map_or(&[], Vec::as_slice)
}

fn schema_of<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    generator.into_root_schema_for::<T>().to_value()
}

fn to_json<T: Serialize>(value: &T) -> Result<Value, OpError> {
    serde_json::to_value(value).map_err(|error| {
        OpError::new(crate::error::Code::Internal, format!("cannot encode: {error}"))
    })
}

fn decode<T: DeserializeOwned>(value: Value) -> Result<T, OpError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = beginning(&error.path().to_string(), MAX_REASON_BYTES).into_owned();
        let why = reason(&error.into_inner().to_string());
        match path.as_str() {
            "." => OpError::bad_input(why),
            path => OpError::bad_input(format!("{path}: {why}")),
        }
    })
}

/// Returns why an input is invalid. A long text is left out completely, because it may contain a secret.
fn reason(why: &str) -> String {
    const QUOTES: [char; 3] = ['"', '`', '\''];
    match (why.find(QUOTES), why.rfind(QUOTES)) {
        (Some(begin), Some(end)) if begin < end && why.len() > MAX_REASON_BYTES => {
            let [before, after] =
                [&why[..=begin], &why[end..]].map(|text| beginning(text, MAX_REASON_BYTES));
            format!("{before}…{after}")
        }
        _ => beginning(why, MAX_REASON_BYTES).into_owned(),
    }
}
