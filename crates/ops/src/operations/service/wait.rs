//! `service.wait`: waits until services reach a state, with a long poll from which other interfaces report progress.

use super::status::{Measure, statuses};
use super::stop::named;
use crate::error::{Code, OpError};
use crate::input::seconds_of;
use crate::operation::{About, Context, Effect, Meta, Method, Operation, Target};
use crate::status::output::{last_lines, last_run};
use crate::status::{ServiceStatus, overview};
use crate::text_output::{Page, Show, Style};
pub use crate::wait_condition::{MatchedLine, Until};
use crate::wait_condition::{Wait as Waiting, WaitResult};
use proctor_core::name::ServiceName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::time::Instant;

const USUAL_WAIT: Duration = Duration::from_secs(60);

/// Default number of last lines for a service that did not reach the state, or that has exited.
const USUAL_LINES: usize = 10;

/// Maximum number of services with lines and ports; more are not readable.
const FEW: usize = 5;

pub struct Wait;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Services or groups; a name selects all its instances; or `all`. All must reach the state
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// State to wait for (default settled)
    #[arg(long, value_enum)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// Wait until a line matches this regular expression, in each service; lines of the current run count
    #[arg(long, value_name = "PATTERN")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// With --log: only lines after this cursor of an earlier response
    #[arg(long, value_name = "CURSOR", visible_alias = "after", requires = "log")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Wait until the services listen on this TCP port; with --until port alone, each on its own
    #[arg(long, value_name = "PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Timeout in seconds (default 60)
    #[arg(long, value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Number of last lines to include for a service that failed to reach the state or has exited (default 10)
    #[arg(long, value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<usize>,
    /// Wait for any change after this generation of an earlier response
    #[arg(long, hide = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Every service reached the state
    pub reached: bool,
    /// A service cannot reach the state by itself
    pub hopeless: bool,
    /// Generation for the next wait
    pub generation: u64,
    /// If not reached: the missing condition, a sentence for each service
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// With `log`: the first matching line of each service
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<MatchedLine>,
    pub services: Vec<ServiceStatus>,
}

impl Operation for Wait {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["wait"],
        summary: "Wait until services are ready, have exited, have written a line or opened a port",
        details: "\
Every named service must reach the state. Returns at once when one has failed or cannot reach it by itself, \
for example because another process holds its port. Without success the response says what is missing and shows \
the last lines of output.

Examples:
  proctor wait web --until ready --timeout 30
  proctor wait web --log 'listening on port \\d+'
  proctor wait web --port 3000
  proctor wait import --until exit
  proctor wait web worker --until stopped",
        ..Meta::of("service.wait", Effect::Read, Target::Nothing).waiting("").at(
            Method::Get,
            "/services/{name}/wait",
            "names",
        )
    };

    fn about(input: &Input) -> About<'_> {
        About::Services(&input.names)
    }

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let wait =
            input.timeout.map_or(Ok(USUAL_WAIT), |seconds| seconds_of("timeout", seconds))?;
        let until = until(&input)?;
        let names = named(context, &input.names)?;
        let deadline = Instant::now() + wait;
        let waiting = Waiting { context, names: &names, until, port: input.port, deadline };
        if until == Until::Port {
            waiting.check_ports()?;
        }
        let waited = match &input.log {
            Some(pattern) => waiting.lines(pattern, input.cursor.as_deref()).await?,
            None => waiting.states(input.generation).await,
        };
        let mut services = statuses(context, &names, measured(until, names.len())).await;
        let told = input.generation.is_none();
        let missing = if told { waited.sentences(&names, &services) } else { Vec::new() };
        if told {
            let count = input.tail.unwrap_or(USUAL_LINES);
            tell(context, until, &names, &waited, &mut services, count).await;
        }
        let WaitResult { reached, hopeless, generation, found, .. } = waited;
        Ok(Output { reached, hopeless, generation, missing, found, services })
    }
}

/// A caller that waits for a few services to be up wants their addresses.
fn measured(until: Until, services: usize) -> Measure {
    match until {
        Until::Ready | Until::Port if services <= FEW => Measure::UsageAndPorts,
        Until::Ready
        | Until::Port
        | Until::Running
        | Until::Stopped
        | Until::Settled
        | Until::Healthy
        | Until::Exit
        | Until::Log => Measure::None,
    }
}

/// Combines the fields into one condition.
fn until(input: &Input) -> Result<Until, OpError> {
    let said = match (input.log.is_some(), input.port.is_some()) {
        (true, true) => return Err(OpError::bad_input("give 'log' or 'port', not both")),
        (true, false) => Some(Until::Log),
        (false, true) => Some(Until::Port),
        (false, false) => None,
    };
    match (input.until, said) {
        (Some(until), Some(said)) if until != said => {
            Err(OpError::bad_input("'until' contradicts 'log' or 'port'").help("omit 'until'"))
        }
        (Some(Until::Log), None) => {
            Err(OpError::bad_input("'log' is missing: give a regular expression"))
        }
        _ if input.cursor.is_some() && input.log.is_none() => {
            Err(OpError::bad_input("'cursor' needs 'log'"))
        }
        (until, said) => Ok(said.or(until).unwrap_or_default()),
    }
}

/// Adds the last lines of services that did not reach the state, or of the run that ended.
async fn tell(
    context: &Context,
    until: Until,
    names: &[ServiceName],
    waited: &WaitResult,
    services: &mut [ServiceStatus],
    count: usize,
) {
    let asked = |at: &usize| waited.lacks(*at) || until == Until::Exit;
    let asked = (0..names.len()).filter(asked).take(if count > 0 { FEW } else { 0 });
    for name in asked.map(|at| &names[at]) {
        let run = context.engine.read(|view| {
            let state = view.services.get(name)?.state.as_ref()?;
            let ended = state.last_exit.as_ref().map(|last| last.run);
            ended.filter(|_| until == Until::Exit).or(last_run(view, name))
        });
        let service = services.iter_mut().find(|service| service.name == name.as_str());
        if let (Some(run), Some(service)) = (run, service) {
            service.output = last_lines(context, name, run, count).await;
        }
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        for line in &self.found {
            page.line().name(&line.service).plain(": ").plain(&line.text);
        }
        let style = if self.hopeless { Style::Bad } else { Style::Warn };
        for sentence in &self.missing {
            page.line().add(style, sentence);
        }
        overview(&self.services, page);
    }

    fn verdict(&self) -> Option<Code> {
        match (self.reached, self.hopeless) {
            (true, _) => None,
            (false, true) => Some(Code::ServiceFailed),
            (false, false) => Some(Code::Timeout),
        }
    }
}
