//! `change.check`: changes files, restarts a service and checks it. If the check fails, it restores files and service.

use super::file::edit::OneEdit;
use super::service::stop::named;
use crate::error::{Code, OpError};
use crate::file::CurrentFolder;
use crate::file_change::{Changes, DIFF, FileChange, WITH_CONTENT, given_diff};
use crate::git::brief;
use crate::input::seconds_of;
use crate::operation::{About, Context, Effect, Meta, Operation, Role, Target};
use crate::running_operations::UnsettledOutcome;
use crate::status::State;
use crate::status::output::{last_lines, last_run};
use crate::text_output::{Page, Show, Style};
use crate::wait_condition::{Until, Wait};
use crate::wait_for_services::{Goal, before, crash_loop, report, settle};
use proctor_core::edit::Edit;
use proctor_core::name::ServiceName;
use proctor_engine::api::RestartWith;
use proctor_engine::files::{DiffQuery, ExpectedState, FileOutcome, Files};
use proctor_engine::git::CommitRequest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, sleep};

const USUAL_WAIT: Duration = Duration::from_secs(30);

/// Timeout for the restart with the old files. They worked before, so this is short.
const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval between requests to a server that does not respond yet.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// Number of log lines reported for a service that failed the check.
const LINES: usize = 20;

pub struct ChangeCheck;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Service to restart; the only or the primary one if omitted
    #[arg(value_name = "SERVICE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Exact-text edits of files, all or none; an empty 'old' creates a file
    #[arg(skip)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileEdits>,
    /// Unified diff to apply instead of 'files'
    #[arg(long, value_name = "DIFF", allow_hyphen_values = true)]
    #[arg(help = "Unified diff to apply instead of 'files'; - reads standard input")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Diff that is not UTF-8, in base64
    #[arg(long, value_name = "BASE64", conflicts_with = "diff")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff_base64: Option<String>,
    /// Pass when the service writes a line that matches this; when it is ready if omitted
    #[arg(long, value_name = "PATTERN")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// And when this URL responds with a status from 200 to 399
    #[arg(long, value_name = "URL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Seconds until the check fails (default 30)
    #[arg(long, value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Commit message; if the check passes, the changed files are committed
    #[arg(long, value_name = "MESSAGE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub here: CurrentFolder,
}

/// Edits of one file.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct FileEdits {
    pub path: String,
    pub edits: Vec<OneEdit>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// The check passed and the change is kept
    pub passed: bool,
    /// Files and service were restored
    pub restored: bool,
    pub services: Vec<String>,
    pub files: Vec<FileChange>,
    /// Commit with the changed files
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Conditions that failed, and restores or commits that failed
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
    /// Last log lines of the service that failed the check
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
}

impl Operation for ChangeCheck {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["change"],
        summary: "Change files, restart a service, and restore both if a check fails",
        details: "\
The change is kept if the service is ready, or writes the requested line and responds at the requested URL. Otherwise, or when the operation is cancelled before the commit, \
the files are restored, and the service is restarted with them, or stopped if it was not running. A commit that is not possible is refused before anything is \
changed.

Examples:
  proctor change web --diff - < fix.diff
  proctor change web --diff - --url http://127.0.0.1:3000/ --timeout 60 < fix.diff
  proctor change web --diff - --commit 'Fix the header' < fix.diff",
        max_input: WITH_CONTENT,
        launches: false,
        ..Meta::of("change.check", Effect::Exec, Target::Services).needing(Role::Admin).waiting("to pass the check").taken_back().with_stdin(DIFF[0], DIFF[1]).with_folder()
    };

    fn about(input: &Input) -> About<'_> {
        About::Services(input.service.as_slice())
    }

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let wait = input.timeout.map_or(Ok(USUAL_WAIT), |it| seconds_of("timeout", it))?;
        check_conditions(context, &input)?;
        let names = named(context, input.service.as_slice())?;
        context.engine.check_restartable(&names)?;
        if let Some(message) = &input.commit {
            let planned = changed(context.clone(), input.clone(), true).await?;
            let files = input.here.files(context).await?;
            let (mut repository, paths) = context.engine.repository_of(&files, &planned).await?;
            repository.check_commit(message, &paths).await?;
        }
        let mut undo = Undo::prepare(context, &names);
        undo.change(input.clone()).await?;
        undo.trying = true;
        let why = match tried(context, &names, &input, Instant::now() + wait).await {
            Ok(why) => why,
            Err(error) => vec![error.message],
        };
        let files = Changes::of(undo.changes.clone(), false).files;
        let passed = why.is_empty();
        let (mut why, mut output, mut commit) = (why, Vec::new(), None);
        if passed {
            match undo.keep(&input).await {
                Ok(hash) => commit = hash,
                Err(error) => why.push(format!("not committed: {}", error.message)),
            }
        } else {
            for name in &names {
                if let Some(run) = context.engine.read(|view| last_run(view, name)) {
                    output.extend(last_lines(context, name, run, LINES).await);
                }
            }
            why.extend(undo.restore().await);
        }
        let restored = !passed && undo.restored;
        let services = names.iter().map(|name| name.as_str().to_owned()).collect();
        Ok(Output { passed, restored, services, files, commit, why, output })
    }
}

/// Checks the conditions before anything is changed.
fn check_conditions(context: &Context, input: &Input) -> Result<(), OpError> {
    if let Some(pattern) = &input.log {
        context.engine.check_pattern(pattern)?;
    }
    match &input.url {
        Some(url) if !url.starts_with("http://") => {
            Err(OpError::bad_input(format!("url: '{url}' does not begin with http://")))
        }
        Some(_) | None => Ok(()),
    }
}

/// Makes the change, or reports what it would be.
async fn changed(
    context: Context,
    input: Input,
    dry_run: bool,
) -> Result<Vec<FileOutcome>, OpError> {
    let wish = ExpectedState {
        by: ChangeCheck::META.name,
        hold: true,
        dry_run,
        ..ExpectedState::default()
    };
    let files = input.here.files(&context).await?;
    match (given_diff(input.diff, input.diff_base64)?, input.files.is_empty()) {
        (Some(text), true) => {
            let query = DiffQuery { text, ..DiffQuery::default() };
            Ok(files.apply_diff(query, wish).await?)
        }
        (None, false) => {
            let edits = |file: &FileEdits| {
                let edits = file.edits.iter().cloned().map(Edit::from).collect();
                (file.path.clone(), edits)
            };
            Ok(files.edit_several(input.files.iter().map(edits).collect(), wish).await?)
        }
        (Some(_), false) => Err(OpError::bad_input("give 'files' or 'diff', not both")),
        (None, true) => Err(OpError::bad_input("'files' or 'diff' is missing")
            .help("in a shell, `--diff -` reads a diff from standard input")),
    }
}

/// Commits the changed files; `None` if they equal the last commit.
async fn committed(
    context: &Context,
    files: &Files,
    message: String,
    changes: &[FileOutcome],
) -> Result<Option<String>, OpError> {
    context.step("committing");
    let (repository, paths) = context.engine.repository_of(files, changes).await?;
    let message = Some(message);
    let request = CommitRequest { message, paths, ..CommitRequest::default() };
    let made = repository.commit_changes(&request).await?.made;
    Ok(made.map(|made| made.commit.hash))
}

/// Restarts and waits. Returns the conditions that failed; empty if all passed.
async fn tried(
    context: &Context,
    names: &[ServiceName],
    input: &Input,
    deadline: Instant,
) -> Result<Vec<String>, OpError> {
    context.step("restarting the service with the change");
    let befores = before(context, names, Goal::Restart);
    context.engine.restart(names, RestartWith::default()).await?;
    settle(context, Goal::Restart, &befores, deadline.duration_since(Instant::now())).await;
    tokio::select! {
        biased;
        waited = waited(context, names, input, deadline) => waited,
        why = crash_loop(context, &befores, deadline) => Ok(vec![why]),
    }
}

/// Wait until all is well or the time is over.
async fn waited(
    context: &Context,
    names: &[ServiceName],
    input: &Input,
    deadline: Instant,
) -> Result<Vec<String>, OpError> {
    let until = if input.log.is_some() { Until::Log } else { Until::Ready };
    let waiting = Wait { context, names, until, port: None, deadline };
    let waited = match &input.log {
        Some(pattern) => waiting.lines(pattern, None).await?,
        None => waiting.states(None).await,
    };
    if !waited.reached {
        let services =
            super::service::status::statuses(context, names, super::service::status::Measure::None)
                .await;
        return Ok(waited.sentences(names, &services));
    }
    let Some(url) = &input.url else { return Ok(Vec::new()) };
    context.step(format!("requesting {url}"));
    loop {
        let left = deadline.duration_since(Instant::now());
        match context.engine.answers(url, left).await {
            Ok(()) => return Ok(Vec::new()),
            Err(why) if Instant::now() + ASK_AGAIN >= deadline => {
                return Ok(vec![format!("{url}: {why}")]);
            }
            Err(_) => sleep(ASK_AGAIN).await,
        }
    }
}

/// State before the change. If dropped before it is restored or forgotten (the operation was cancelled), it restores
/// in the background.
struct Undo {
    context: Context,
    /// Services that ran before, and services that did not.
    ran: Vec<ServiceName>,
    stopped: Vec<ServiceName>,
    /// The change in flight. It continues when the caller stops waiting.
    making: Option<JoinHandle<Result<Vec<FileOutcome>, OpError>>>,
    changes: Vec<FileOutcome>,
    /// True after the services were asked to restart with the change.
    trying: bool,
    restored: bool,
    /// Held until the change is kept or undone.
    unsettled: Option<UnsettledOutcome>,
}

impl Undo {
    fn prepare(context: &Context, names: &[ServiceName]) -> Undo {
        let befores = before(context, names, Goal::Restart);
        let stood = |state: State| matches!(state, State::Stopped | State::Failed);
        let of = |stopped: bool| {
            let some = befores.iter().filter(|before| stood(before.state) == stopped);
            some.map(|before| before.name.clone()).collect()
        };
        let (ran, stopped) = (of(false), of(true));
        let unsettled = context.call.as_ref().map(|call| context.underway.unsettled(call));
        Undo {
            context: context.clone(),
            ran,
            stopped,
            making: None,
            changes: Vec::new(),
            trying: false,
            restored: false,
            unsettled,
        }
    }

    async fn change(&mut self, input: Input) -> Result<(), OpError> {
        let making = self.making.insert(tokio::spawn(changed(self.context.clone(), input, false)));
        let made = making.await.map_err(lost);
        self.making = None;
        self.changes = made??;
        Ok(())
    }

    /// Keeps the change. Returns the commit, if one is wanted and there is something to commit.
    async fn keep(&mut self, input: &Input) -> Result<Option<String>, OpError> {
        let (changes, unsettled) = (std::mem::take(&mut self.changes), self.unsettled.take());
        let (Some(message), context) = (input.commit.clone(), self.context.clone()) else {
            return Ok(None);
        };
        let files = input.here.files(&context).await?;
        // A task of its own: it continues when the caller stops waiting, and the caller learns that nothing is undone.
        let committing = tokio::spawn(async move {
            let committed = committed(&context, &files, message, &changes).await;
            if let Some(call) = &context.call {
                call.leave(&[stays(&committed)]);
            }
            drop(unsettled);
            committed
        });
        let committed = committing.await.map_err(lost)?;
        if let Some(call) = &self.context.call {
            call.leave(&[]);
        }
        committed
    }

    /// Restores files and services. Returns the parts that could not be restored.
    async fn restore(&mut self) -> Vec<String> {
        // Taken out, so a drop in the middle of this does not restore twice.
        let changes = std::mem::take(&mut self.changes);
        self.context.step("restoring the files and the service");
        // A task of its own: it continues when the caller stops waiting.
        let (context, ran, stopped) =
            (self.context.clone(), self.ran.clone(), self.stopped.clone());
        let unsettled = self.unsettled.take();
        let restoring = tokio::spawn(async move {
            let left = restore(context, changes, ran, stopped).await;
            drop(unsettled);
            left
        });
        let left = restoring.await.unwrap_or_else(|error| vec![format!("a task failed: {error}")]);
        self.restored = left.is_empty();
        left
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        let (making, made) = (self.making.take(), std::mem::take(&mut self.changes));
        if making.is_none() && made.is_empty() {
            return;
        }
        let (context, unsettled) = (self.context.clone(), self.unsettled.take());
        let (ran, stopped) = match self.trying {
            true => (self.ran.clone(), self.stopped.clone()),
            false => (Vec::new(), Vec::new()),
        };
        tokio::spawn(async move {
            let changes = match making {
                Some(making) => making.await.ok().and_then(Result::ok).unwrap_or_default(),
                None => made,
            };
            for why in restore(context, changes, ran, stopped).await {
                tracing::error!(why, "a cancelled change could not be restored completely");
            }
            drop(unsettled);
        });
    }
}

fn lost(error: JoinError) -> OpError {
    OpError::new(Code::Internal, format!("a task failed: {error}"))
}

/// Message for a caller that cancels a change which is being committed.
fn stays(committed: &Result<Option<String>, OpError>) -> String {
    let how = match committed {
        Ok(Some(hash)) => format!("committed as {}", brief(hash)),
        Ok(None) => "with nothing to commit".to_owned(),
        Err(error) => format!("not committed: {}", error.message),
    };
    format!("the check passed and the change is kept, {how}")
}

/// Restores the files, then the services even if that failed. Returns the parts that could not be restored.
async fn restore(
    context: Context,
    changes: Vec<FileOutcome>,
    ran: Vec<ServiceName>,
    stopped: Vec<ServiceName>,
) -> Vec<String> {
    let wish = ExpectedState { by: ChangeCheck::META.name, ..ExpectedState::default() };
    let mut left = match context.engine.files().take_back(changes, wish).await {
        Ok(faults) => faults.iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    };
    left.extend(stop_again(&context, &stopped).await.err().map(|error| error.message));
    left.extend(run_again(&context, &ran).await.err().map(|error| error.message));
    if let Some(call) = &context.call {
        call.leave(&left);
    }
    left
}

async fn stop_again(context: &Context, names: &[ServiceName]) -> Result<(), OpError> {
    if !names.is_empty() {
        context.engine.set_wish(names, proctor_core::lifecycle::Wish::Down).await?;
    }
    Ok(())
}

async fn run_again(context: &Context, names: &[ServiceName]) -> Result<(), OpError> {
    if names.is_empty() {
        return Ok(());
    }
    let befores = before(context, names, Goal::Restart);
    context.engine.restart(names, RestartWith::default()).await?;
    let settled = settle(context, Goal::Restart, &befores, ROLLBACK_TIMEOUT).await;
    match report(context, Goal::Restart, &befores, settled, true).verdict() {
        None => Ok(()),
        Some(code) => {
            Err(OpError::new(code, "the service does not become ready with the old files either"))
        }
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        Changes { files: self.files.clone(), dry_run: false }.show(page);
        let services = self.services.join(", ");
        match (self.passed, self.restored) {
            (true, _) => {
                page.line().name(services).add(Style::Good, " passed the check");
                if let Some(hash) = &self.commit {
                    page.line().plain("committed ").name(brief(hash));
                }
            }
            (false, restored) => {
                let rest = if restored {
                    "; files and service are restored"
                } else {
                    "; not everything could be restored"
                };
                page.line().name(services).add(Style::Bad, format!(" failed the check{rest}"));
            }
        }
        for sentence in &self.why {
            page.line().add(Style::Warn, sentence);
        }
        for line in &self.output {
            page.line().plain(line);
        }
    }

    fn verdict(&self) -> Option<Code> {
        match self.passed {
            true => (!self.why.is_empty()).then_some(Code::Failed),
            false => Some(Code::ServiceFailed),
        }
    }
}
