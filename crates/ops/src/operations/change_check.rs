//! `change.check`: change files, restart a service, see whether it is well; if it is not, have files and service as before.

use super::file_edit::OneEdit;
use super::stop::named;
use crate::change::{Changes, DIFF, FileChange, WITH_CONTENT, given_diff};
use crate::error::{Code, OpError};
use crate::file::Here;
use crate::git::brief;
use crate::input::seconds_of;
use crate::operation::{About, Context, Effect, Meta, Operation, Role};
use crate::settle::{Goal, before, crash_loop, report, settle};
use crate::show::{Page, Show, Style};
use crate::status::State;
use crate::status::output::{last_lines, last_run};
use crate::underway::Unsettled;
use crate::waiting::{Until, Wait};
use proctor_core::edit::Edit;
use proctor_core::name::ServiceName;
use proctor_engine::api::RestartWith;
use proctor_engine::files::{Changed, DiffQuery, Files, Wish};
use proctor_engine::git::CommitRequest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, sleep};

const USUAL_WAIT: Duration = Duration::from_secs(30);

/// How long a restart of what was there before may take: it did run.
const BACK_WITHIN: Duration = Duration::from_secs(30);

/// From one request to the next while a server does not answer yet.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// Last lines of a service that is not well.
const LINES: usize = 20;

pub struct ChangeCheck;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// The service to restart; the only or the primary one if not given
    #[arg(value_name = "SERVICE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Exact-text edits of files, all or none; one with an empty 'old' makes a file
    #[arg(skip)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileEdits>,
    /// A unified diff instead
    #[arg(long, value_name = "DIFF", allow_hyphen_values = true)]
    #[arg(help = "A unified diff instead of 'files'; - is standard input")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// A diff that is not UTF-8, in base64
    #[arg(long, value_name = "BASE64", conflicts_with = "diff")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff_base64: Option<String>,
    /// Until it writes a line that matches this; until it is ready if not given
    #[arg(long, value_name = "PATTERN")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// And until this URL answers with a status from 200 to 399
    #[arg(long, value_name = "URL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Give up after this many seconds (30 if not given)
    #[arg(long, value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// If it is well, commit these files with this message
    #[arg(long, value_name = "MESSAGE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub here: Here,
}

/// Edits of one file.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct FileEdits {
    pub path: String,
    pub edits: Vec<OneEdit>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// The service is well, and the change stays
    pub passed: bool,
    /// Files and service are as they were before
    pub restored: bool,
    pub services: Vec<String>,
    pub files: Vec<FileChange>,
    /// The commit that was made of them
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// What was missing, and what could not be restored or committed
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
    /// The last lines of the service that was not well
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
}

impl Operation for ChangeCheck {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["change"],
        summary: "Change files, restart a service, and restore both if it is not well",
        details: "\
The change stays if the service is ready, or has written the line and answers at the URL that are asked for. Otherwise, and when it is cancelled before it is committed, \
the files are as before, and the service is restarted with them, or stopped if it did not run. A commit that cannot be made is refused before anything is \
changed.

Examples:
  proctor change web --diff - < fix.diff
  proctor change web --diff - --url http://127.0.0.1:3000/ --timeout 60 < fix.diff
  proctor change web --diff - --commit 'Fix the header' < fix.diff",
        max_input: WITH_CONTENT,
        launches: false,
        ..Meta::of("change.check", Effect::Exec).needing(Role::Admin).waiting("to be well").taken_back().with_stdin(DIFF[0], DIFF[1]).with_folder()
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

/// What can be said of the conditions before anything is changed for them.
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

/// Make the change, or say what it would be.
async fn changed(context: Context, input: Input, dry_run: bool) -> Result<Vec<Changed>, OpError> {
    let wish = Wish { by: ChangeCheck::META.name, hold: true, dry_run, ..Wish::default() };
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
        (None, true) => Err(OpError::bad_input("what is to be changed? give 'files' or 'diff'")
            .help("in a shell, `--diff -` takes a diff from standard input")),
    }
}

/// Commit them; `None` if they are as in the last commit.
async fn committed(
    context: &Context,
    files: &Files,
    message: String,
    changes: &[Changed],
) -> Result<Option<String>, OpError> {
    context.step("committing");
    let (repository, paths) = context.engine.repository_of(files, changes).await?;
    let message = Some(message);
    let request = CommitRequest { message, paths, ..CommitRequest::default() };
    let made = repository.commit_changes(&request).await?.made;
    Ok(made.map(|made| made.commit.hash))
}

/// Restart and wait: what is missing, nothing if all is well. Ends as soon as that is certain.
async fn tried(
    context: &Context,
    names: &[ServiceName],
    input: &Input,
    deadline: Instant,
) -> Result<Vec<String>, OpError> {
    context.step("restarting with the change");
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
        let services = super::status::statuses(context, names, super::status::Measure::None).await;
        return Ok(waited.sentences(names, &services));
    }
    let Some(url) = &input.url else { return Ok(Vec::new()) };
    context.step(format!("asking {url}"));
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

/// How all was before. Dropped before it was restored or forgotten, because somebody cancelled it, it restores in the background.
struct Undo {
    context: Context,
    /// Those that ran, and those that did not.
    ran: Vec<ServiceName>,
    stopped: Vec<ServiceName>,
    /// The change while it is made: who stops waiting for it does not stop it.
    making: Option<JoinHandle<Result<Vec<Changed>, OpError>>>,
    changes: Vec<Changed>,
    /// The services were asked to restart with it.
    trying: bool,
    restored: bool,
    /// Until it is known that the change stays, or is taken back.
    unsettled: Option<Unsettled>,
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

    /// The change stays: the commit of it, if one is wanted and anything is to be committed.
    async fn keep(&mut self, input: &Input) -> Result<Option<String>, OpError> {
        let (changes, unsettled) = (std::mem::take(&mut self.changes), self.unsettled.take());
        let (Some(message), context) = (input.commit.clone(), self.context.clone()) else {
            return Ok(None);
        };
        let files = input.here.files(&context).await?;
        // In a task of its own: who stops waiting for it does not stop it, and is told that nothing is taken back.
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

    /// What could not be restored.
    async fn restore(&mut self) -> Vec<String> {
        // Taken out: what is dropped in the middle of this is not restored twice.
        let changes = std::mem::take(&mut self.changes);
        self.context.step("restoring files and service");
        // In a task of its own: who stops waiting for it does not stop it.
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
                tracing::error!(why, "a change that was cancelled is not all taken back");
            }
            drop(unsettled);
        });
    }
}

fn lost(error: JoinError) -> OpError {
    OpError::new(Code::Internal, format!("a task failed: {error}"))
}

/// What is told to who cancels a change that is being committed.
fn stays(committed: &Result<Option<String>, OpError>) -> String {
    let how = match committed {
        Ok(Some(hash)) => format!("committed as {}", brief(hash)),
        Ok(None) => "with nothing to commit".to_owned(),
        Err(error) => format!("not committed: {}", error.message),
    };
    format!("the change was well and stays, {how}")
}

/// The files, and the services whatever became of the files: what could not be restored.
async fn restore(
    context: Context,
    changes: Vec<Changed>,
    ran: Vec<ServiceName>,
    stopped: Vec<ServiceName>,
) -> Vec<String> {
    let wish = Wish { by: ChangeCheck::META.name, ..Wish::default() };
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
    let settled = settle(context, Goal::Restart, &befores, BACK_WITHIN).await;
    match report(context, Goal::Restart, &befores, settled, true).verdict() {
        None => Ok(()),
        Some(code) => Err(OpError::new(code, "the service is not well with the old files, either")),
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        Changes { files: self.files.clone(), dry_run: false }.show(page);
        let services = self.services.join(", ");
        match (self.passed, self.restored) {
            (true, _) => {
                page.line().name(services).add(Style::Good, " is well");
                if let Some(hash) = &self.commit {
                    page.line().plain("committed ").name(brief(hash));
                }
            }
            (false, restored) => {
                let rest = if restored {
                    "; all is as it was before"
                } else {
                    "; not all could be restored"
                };
                page.line().name(services).add(Style::Bad, format!(" was not well{rest}"));
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
