//! `daemon.metrics`: metrics for programs. [`crate::openmetrics`] writes them as text.

use super::service::health::ServiceHealth;
use super::service::status::{Measure, measure, statuses};
use crate::counters::{CLASSES, Count};
use crate::error::OpError;
use crate::input::MeasureOption;
use crate::operation::{Context, Effect, Meta, Method, Operation, Target};
use crate::status::{ServiceStatus, State, style_of};
use crate::text_output::{Column, Fit, Page, Show, Span, Style, Table};
use crate::timestamps::{bytes, seconds_between, span};
use proctor_core::name::ServiceName;
use proctor_sys::proc;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub struct Metrics;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    #[command(flatten)]
    #[serde(flatten)]
    pub measured: MeasureOption,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    pub supervisor: Supervisor,
    /// Metrics of services, by name
    pub services: BTreeMap<String, ServiceMetrics>,
    /// Operations called since the daemon started
    pub operations: Vec<OperationMetrics>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Supervisor {
    /// `running`, or `degraded` if there are problems that need attention
    pub status: String,
    /// Uptime of the daemon in seconds
    pub uptime: u64,
    pub managed_services: usize,
    pub version: String,
    /// Process of the daemon
    pub daemon: OwnProcess,
    /// Process of the keeper; null while it is being replaced
    pub keeper: Option<OwnProcess>,
    /// Number of operations in flight
    pub operations_running: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnProcess {
    pub pid: u32,
    /// Proportional memory (PSS); resident memory where that is not available
    pub memory_bytes: Option<u64>,
    pub open_files: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceMetrics {
    pub status: State,
    pub pid: Option<u32>,
    /// Uptime of the current run in seconds
    pub uptime: Option<u64>,
    /// Memory of all its processes in MiB
    pub memory_mb: Option<f64>,
    /// CPU use of all its processes in percent of one core
    pub cpu_percent: Option<f64>,
    /// Restarts made by the restart policy
    pub restart_count: u64,
    /// The service has not crashed and does not fail its health check
    pub healthy: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationMetrics {
    pub operation: String,
    /// Number of calls by result: `ok` or an error code
    pub results: BTreeMap<String, u64>,
    /// Number of calls
    pub count: u64,
    /// Total duration of all calls in seconds
    pub seconds: f64,
    /// Histogram of durations; each call is counted in the first bucket it fits
    pub latencies: Vec<Latency>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Upper bound of the bucket; null for the last
    pub at_most_seconds: Option<f64>,
    pub count: u64,
}

impl Operation for Metrics {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["metrics"],
        summary: "Show metrics of services, operations and Proctor itself",
        details: "\
Values are measured only on request. `/metrics` of the HTTP interface returns them in the text format of Prometheus or as OpenMetrics.

Examples:
  proctor metrics
  proctor metrics --json",
        launches: false,
        ..Meta::of("daemon.metrics", Effect::Read, Target::Nothing).at(Method::Get, "/metrics", "")
    };

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let names: Vec<ServiceName> =
            context.engine.read(|view| view.services.keys().cloned().collect());
        let measure = match measure(&input.measured, false, names.len()) {
            // The address of a service is not a metric.
            Measure::UsageAndPorts => Measure::Usage,
            measure @ (Measure::Usage | Measure::None | Measure::TooMany) => measure,
        };
        let services = statuses(context, &names, measure).await;
        let services = services.iter().map(|one| (one.name.clone(), ServiceMetrics::of(one)));
        Ok(Output {
            supervisor: supervisor(context, names.len()),
            services: services.collect(),
            operations: context.counters.read().iter().map(OperationMetrics::of).collect(),
        })
    }
}

fn supervisor(context: &Context, managed_services: usize) -> Supervisor {
    let (keeper, troubled) = context
        .engine
        .read(|view| (view.keeper.as_ref().map(|keeper| keeper.pid), !view.problems.is_empty()));
    let now = proctor_sys::clock::now().wall;
    let running = context.underway.all().iter().filter(|call| !call.is_over()).count();
    Supervisor {
        status: if troubled || keeper.is_none() { "degraded" } else { "running" }.into(),
        uptime: seconds_between(context.started, now) as u64,
        managed_services,
        version: env!("CARGO_PKG_VERSION").into(),
        daemon: OwnProcess::of(std::process::id()),
        keeper: keeper.map(OwnProcess::of),
        operations_running: running,
    }
}

impl OwnProcess {
    fn of(pid: u32) -> OwnProcess {
        let resident = || Some(proc::stat(pid)?.rss_pages * proc::page_size());
        OwnProcess {
            pid,
            memory_bytes: proc::pss_bytes(pid).or_else(resident),
            open_files: proc::open_files(pid),
        }
    }
}

impl ServiceMetrics {
    fn of(status: &ServiceStatus) -> ServiceMetrics {
        let mib = |bytes: u64| (bytes as f64 / f64::from(1 << 20) * 100.0).round() / 100.0;
        ServiceMetrics {
            status: status.state,
            pid: status.pid,
            uptime: status.uptime_seconds,
            memory_mb: status.memory_bytes.map(mib),
            cpu_percent: status.cpu_percent,
            restart_count: status.restarts,
            healthy: ServiceHealth::of(status).healthy,
        }
    }
}

impl OperationMetrics {
    fn of(count: &Count) -> OperationMetrics {
        let name =
            |code: Option<crate::error::Code>| code.map_or("ok", |code| code.as_str()).into();
        let ends = CLASSES.iter().map(|millis| Some(*millis as f64 / 1000.0)).chain([None]);
        let latency = |(at_most_seconds, count)| Latency { at_most_seconds, count };
        OperationMetrics {
            operation: count.operation.into(),
            results: count.results.iter().map(|(code, count)| (name(*code), *count)).collect(),
            count: count.classes.iter().sum(),
            seconds: count.micros as f64 / 1e6,
            latencies: ends.zip(count.classes).map(latency).collect(),
        }
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        let own = |process: &OwnProcess| {
            let memory = process.memory_bytes.map_or("unknown".into(), bytes);
            let files = process.open_files.map_or("unknown".into(), |files| files.to_string());
            format!("pid {}, memory {memory}, open files {files}", process.pid)
        };
        let supervisor = &self.supervisor;
        let up = span(supervisor.uptime as f64);
        page.line().name("Proctor").plain(format!(" {}, up {up}", supervisor.status));
        page.line().dim("  daemon  ").plain(own(&supervisor.daemon));
        let keeper = supervisor.keeper.as_ref().map_or("being replaced".into(), own);
        page.line().dim("  keeper  ").plain(keeper);
        if !self.services.is_empty() {
            page.table(self.table_of_services());
        }
        if !self.operations.is_empty() {
            page.table(self.table_of_operations());
        }
    }
}

impl Output {
    fn table_of_services(&self) -> Table {
        let mut table = Table::new(&[
            Column::new("SERVICE", Fit::Keep),
            Column::new("STATE", Fit::Keep),
            Column::number("UPTIME", Fit::Drop(1)),
            Column::number("RESTARTS", Fit::Drop(2)),
            Column::number("CPU", Fit::Drop(3)),
            Column::number("MEMORY", Fit::Drop(3)),
        ]);
        for (name, service) in &self.services {
            let text = |text: Option<String>| Span::new(Style::Plain, text.unwrap_or_default());
            table.row([
                Span::new(Style::Name, name),
                Span::new(style_of(service.status), service.status.as_str()),
                text(service.uptime.map(|seconds| span(seconds as f64))),
                text(Some(service.restart_count.to_string())),
                text(service.cpu_percent.map(|percent| format!("{percent}%"))),
                text(service.memory_mb.map(|mib| format!("{mib} MiB"))),
            ]);
        }
        table
    }

    fn table_of_operations(&self) -> Table {
        let mut table = Table::new(&[
            Column::new("OPERATION", Fit::Keep),
            Column::number("CALLS", Fit::Keep),
            Column::number("MEAN", Fit::Drop(1)),
            Column::new("RESULTS", Fit::Shrink(12)),
        ]);
        for one in &self.operations {
            let results = one.results.iter().map(|(code, count)| format!("{code} {count}"));
            let mean = 1000.0 * one.seconds / one.count.max(1) as f64;
            table.row([
                Span::new(Style::Name, &one.operation),
                Span::new(Style::Plain, one.count.to_string()),
                Span::new(Style::Plain, format!("{mean:.1} ms")),
                Span::new(Style::Dim, results.collect::<Vec<_>>().join(", ")),
            ]);
        }
        table
    }
}
