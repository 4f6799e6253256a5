//! `service.up`: applies a configuration and starts its services.

use super::remove::gone;
use super::start::USUAL_WAIT;
use super::stop::USUAL_WAIT as STOP_WAIT;
use crate::authority::hands;
use crate::error::{Code, OpError};
use crate::input::{Caller, WaitOptions};
use crate::mode;
use crate::operation::{Context, Effect, Meta, Operation, Target};
use crate::text_output::{Page, Show, Style};
use crate::wait_for_services::{ChangedServices, Goal, StateBefore, before, report, settle};
use proctor_core::lifecycle::Wish;
use proctor_core::name::ServiceName;
use proctor_engine::api::{Applied, ConfigRequest, RestartWith, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub struct Up;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Start only these services or groups; all with autostart if omitted
    #[arg(value_name = "NAME")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Configuration file
    #[arg(long, short = 'c', value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Run the built-in example if there is no configuration
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub example: bool,
    /// Restart running services whose inherited environment differs from the caller's
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub refresh_env: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub patience: WaitOptions,
    #[command(flatten)]
    #[serde(flatten)]
    pub caller: Caller,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Configuration now in use
    pub source: String,
    /// It is the built-in example
    pub example: bool,
    /// New services
    pub added: Vec<String>,
    /// Services with a changed definition
    pub changed: Vec<String>,
    /// Services that are no longer defined; they are stopped and removed
    pub removed: Vec<String>,
    /// Warnings: variables without effect, and addresses where Proctor cannot listen
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    pub settled: bool,
    pub services: Vec<crate::wait_for_services::Report>,
}

impl Operation for Up {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["up"],
        summary: "Start the services of the configuration",
        details: "\
Reads the file, starts the services with autostart, restarts running ones whose settings changed, and \
removes those that are no longer defined. If the file has an error, a program is missing or a port is \
in use, nothing changes.

A service inherits the environment of the shell that first started it. `up` from another terminal does not restart \
running services for a different environment; --refresh-env does. Values of ${VAR} in the file count as changes of the file.

The configuration is the first of these: --config; PROCTOR_CONFIG or MAGICTUNNEL_CONFIG; the nearest proctor.yaml or proctor.yml from this \
folder upwards to the home directory; SUPERVISOR_TARGET_CMD; the one this home ran last; the built-in example.

Examples:
  proctor up
  proctor up -d
  proctor up --config deploy/proctor.yaml web",
        ..Meta::of("service.up", Effect::Exec, Target::Configuration).waiting("to start").with_caller()
    };

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let wait = input.patience.duration(USUAL_WAIT)?;
        let request = ConfigRequest {
            path: input.config.as_deref().map(|path| input.caller.resolve(path)).transpose()?,
            example: input.example,
            environment: input.caller.environment(),
            refresh_environment: input.refresh_env,
            start: Some(input.names),
            hands: hands(context),
        };
        let mut notes = without_effect(&input.caller);
        let applied = context.engine.apply(request).await?;
        ports_freed(context, &applied, wait.max(STOP_WAIT)).await;
        let changed = begin(context, &applied, wait).await?;
        notes.extend(not_listening(context).await);
        let words = |names: &[ServiceName]| names.iter().map(ToString::to_string).collect();
        Ok(Output {
            example: applied.source == proctor_engine::api::EXAMPLE_SOURCE,
            added: words(&applied.added),
            changed: words(&applied.changed),
            removed: words(&applied.removed),
            source: applied.source,
            notes,
            settled: changed.settled,
            services: changed.services,
        })
    }
}

/// Variables that users of other supervisors set, and their replacements.
const WITHOUT_EFFECT: &[(&str, &str)] =
    &[("SUPERVISOR_MCP_PORT", "MCP is served at /mcp of the HTTP port, PROCTOR_HTTP_PORT")];

/// Reports a variable without effect. It is not an error, because another program may use it.
fn without_effect(caller: &Caller) -> Vec<String> {
    let variables = caller.environment.iter().flatten();
    let known = |name: &str| WITHOUT_EFFECT.iter().find(|(known, _)| *known == name);
    variables
        .filter_map(|(name, value)| match known(name) {
            Some((name, instead)) => Some(format!("{name} is set and has no effect: {instead}")),
            None if mode::VARIABLES.contains(&name.as_str()) => mode::note(name, value),
            None => None,
        })
        .collect()
}

/// Time for the listeners to bind. Binding takes microseconds; finding the owner of a port takes milliseconds.
const LISTEN_WAIT: Duration = Duration::from_secs(1);

/// Addresses of the configuration where Proctor cannot listen, with the reason.
async fn not_listening(context: &Context) -> Vec<String> {
    context.engine.listeners_settled(LISTEN_WAIT).await;
    context.engine.read(|view| {
        let failed = view.listening.iter().filter_map(|(front, state)| {
            let why = state.as_ref().err()?;
            let key = if *front == "tcp" { "supervisor.port" } else { "supervisor.http.port" };
            Some(format!(
                "{front} is not available: {why}; Proctor retries, or set another port with `{key}`"
            ))
        });
        failed.collect()
    })
}

/// Waits for the ports of removed services. A renamed service finds its port in use until the old one has ended.
async fn ports_freed(context: &Context, applied: &Applied, wait: Duration) {
    let port = |view: &View, name: &ServiceName| view.services.get(name).and_then(|s| s.port);
    let in_the_way: Vec<ServiceName> = context.engine.read(|view| {
        let wanted: Vec<u16> =
            applied.starting.iter().filter_map(|name| port(view, name)).collect();
        let blocks = |name: &&ServiceName| port(view, name).is_some_and(|p| wanted.contains(&p));
        applied.removed.iter().filter(blocks).cloned().collect()
    });
    gone(context, &in_the_way, wait).await;
}

/// Starts services that do not run and restarts those with outdated settings.
async fn begin(
    context: &Context,
    applied: &Applied,
    wait: Duration,
) -> Result<ChangedServices, OpError> {
    let known: Vec<&ServiceName> =
        applied.starting.iter().filter(|name| !applied.begun.contains(*name)).collect();
    let (stale, fresh): (Vec<ServiceName>, Vec<ServiceName>) = context.engine.read(|view| {
        let is_stale = |name: &ServiceName| view.services.get(name).is_some_and(|s| s.stale);
        known.into_iter().cloned().partition(is_stale)
    });
    let restarts = before(context, &stale, Goal::Restart);
    let mut starts = before(context, &fresh, Goal::Start);
    starts.extend(applied.begun.iter().map(StateBefore::nothing));
    if !fresh.is_empty() {
        context.engine.set_wish(&fresh, Wish::Up).await?;
    }
    if !stale.is_empty() {
        context.engine.restart(&stale, RestartWith::default()).await?;
    }
    both(context, &starts, &restarts, wait).await
}

async fn both(
    context: &Context,
    starts: &[StateBefore],
    restarts: &[StateBefore],
    wait: Duration,
) -> Result<ChangedServices, OpError> {
    let (started, restarted) = tokio::join!(
        settle(context, Goal::Start, starts, wait),
        settle(context, Goal::Restart, restarts, wait)
    );
    let mut changed = report(context, Goal::Start, starts, started, !wait.is_zero());
    let more = report(context, Goal::Restart, restarts, restarted, !wait.is_zero());
    changed.settled &= more.settled;
    changed.services.extend(more.services);
    changed.services.sort_by(|a, b| a.service.name.cmp(&b.service.name));
    Ok(changed)
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        for name in &self.removed {
            page.line().name(name).plain(" removed: it is no longer in the configuration");
        }
        for note in &self.notes {
            page.line().add(Style::Warn, note);
        }
        if self.services.is_empty() {
            page.line().dim(format!("{} has nothing to start", self.source));
        }
        self.changes().show(page);
    }

    fn verdict(&self) -> Option<Code> {
        self.changes().verdict()
    }
}

impl Output {
    fn changes(&self) -> ChangedServices {
        ChangedServices {
            settled: self.settled,
            services: self.services.clone(),
            unrecorded: Vec::new(),
        }
    }
}
