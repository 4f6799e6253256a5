//! Shows services: a table of many, the details of one, and a list of those that need attention.

use super::{HealthState, HealthStatus, ServiceStatus, State};
use crate::text_output::{Column, Fit, Page, Span, Style, Table};
use crate::timestamps::{bytes, span};

pub(crate) fn style_of(state: State) -> Style {
    match state {
        State::Running => Style::Good,
        State::Stopped => Style::Dim,
        State::Starting | State::Stopping | State::Waiting => Style::Warn,
        State::Backoff | State::Failed | State::Cooling => Style::Bad,
    }
}

/// Maximum ports in a row of the table; the details of one service show all.
const MANY_PORTS: usize = 3;

/// A longer name is cut before another column is dropped.
const LONG_NAME: usize = 24;

/// A longer name is cut before the health is left out for it.
const NARROW_NAME: usize = 12;

/// A narrow terminal does without the command first and without the health last.
const COLUMNS: [Column; 11] = [
    Column::new("NAME", Fit::ShrinkTwice(LONG_NAME, NARROW_NAME)),
    Column::new("STATE", Fit::Keep),
    Column::number("PID", Fit::Drop(2)),
    Column::number("UPTIME", Fit::Drop(3)),
    Column::number("RESTARTS", Fit::Drop(4)),
    Column::number("CPU", Fit::Drop(5)),
    Column::number("MEMORY", Fit::Drop(5)),
    Column::number("PORT", Fit::Drop(6)),
    Column::new("HEALTH", Fit::Drop(1)),
    Column::new("OWNER", Fit::Drop(4)),
    Column::new("COMMAND", Fit::ShrinkThenDrop(12, 7)),
];

/// Shows many services, one per row, and below them those that need attention.
pub(crate) fn overview(services: &[ServiceStatus], page: &mut Page) {
    let mut table = Table::with_rows(&COLUMNS, services.len());
    for service in services {
        table.row(row(service));
    }
    page.table(table);
    attention(services, page);
    for service in services.iter().filter(|service| !service.output.is_empty()) {
        page.line().name(&service.name).plain(" wrote:");
        output(service, page);
    }
}

fn output(service: &ServiceStatus, page: &mut Page) {
    for line in &service.output {
        page.line().plain("  ").plain(line);
    }
}

fn row(service: &ServiceStatus) -> [Span<'_>; COLUMNS.len()] {
    let plain = |text: Option<String>| Span::new(Style::Plain, text.unwrap_or_default());
    [
        Span::new(Style::Name, &service.name),
        Span::new(style_of(service.state), state_text(service)),
        plain(service.pid.map(|pid| pid.to_string())),
        plain(service.uptime_seconds.map(|seconds| span(seconds as f64))),
        plain(Some(service.restarts).filter(|n| *n > 0).map(|n| n.to_string())),
        plain(service.cpu_percent.map(|percent| format!("{percent:.1}%"))),
        plain(service.memory_bytes.map(bytes)),
        plain(port_text(service)),
        service.health.as_ref().map_or_else(|| plain(None), health_cell),
        plain(service.owner.clone()),
        Span::new(Style::Dim, &service.command),
    ]
}

/// Returns the ports it listens on, or the configured one.
fn port_text(service: &ServiceStatus) -> Option<String> {
    let ports: Vec<String> = service.ports.iter().take(MANY_PORTS).map(u16::to_string).collect();
    let more = if service.ports.len() > MANY_PORTS { ",…" } else { "" };
    let seen = Some(ports.join(",") + more).filter(|text| !text.is_empty());
    seen.or(service.port.map(|port| port.to_string()))
}

/// Distinguishes a stopped service from one that finished.
fn state_text(service: &ServiceStatus) -> &'static str {
    let done = service.state == State::Stopped && service.why.is_some();
    if done { "stopped, done" } else { service.state.as_str() }
}

fn health_cell(health: &HealthStatus) -> Span<'static> {
    match health.state {
        HealthState::Unknown => Span::new(Style::Dim, "unknown"),
        HealthState::Starting => Span::new(Style::Dim, "starting"),
        HealthState::Healthy => Span::new(Style::Good, "healthy"),
        HealthState::Failing => Span::new(Style::Bad, format!("failing ({})", health.failures)),
    }
}

/// Shows one line for each service that has a problem or is changing its state.
fn attention(services: &[ServiceStatus], page: &mut Page) {
    for service in services {
        let in_trouble = matches!(
            service.state,
            State::Backoff | State::Failed | State::Cooling | State::Stopping | State::Waiting
        );
        if !in_trouble && !service.stale {
            continue;
        }
        let parts = if in_trouble { reasons(service) } else { Vec::new() };
        let mut text = parts.join("; ");
        if service.stale {
            let glue = if text.is_empty() { "" } else { "; " };
            text += &format!(
                "{glue}its settings changed: apply them with `proctor restart {}`",
                service.name
            );
        }
        if text.is_empty() {
            continue;
        }
        let style = if in_trouble { style_of(service.state) } else { Style::Warn };
        page.line().name(&service.name).plain(": ").add(style, text);
    }
}

fn reasons(service: &ServiceStatus) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(service.why.clone());
    let ended = !matches!(service.state, State::Stopping | State::Waiting);
    if let Some(exit) = service.last_exit.as_ref().filter(|_| ended) {
        parts.push(format!("last exit: {}", exit.text));
    }
    parts.extend(service.next.clone());
    if let Some(left) = service.left.filter(|n| *n > 0) {
        parts.push(format!("{left} processes left"));
    }
    if ended {
        parts.push(format!("see `proctor logs {}`", service.name));
    }
    parts
}

/// Shows the details of one service.
pub(crate) fn detail(service: &ServiceStatus, page: &mut Page) {
    heading(service, page);
    let mut fact = |label: &str, text: Option<String>| {
        if let Some(text) = text.filter(|t| !t.is_empty()) {
            page.line().dim(format!("  {label:<12}")).plain(text);
        }
    };
    fact("why", service.why.clone());
    fact("next", service.next.clone());
    fact("left", service.left.filter(|n| *n > 0).map(|n| format!("{n} processes")));
    fact("pid", service.pid.map(|pid| pid.to_string()));
    fact("uptime", service.uptime_seconds.map(|seconds| span(seconds as f64)));
    fact("restarts", Some(service.restarts.to_string()));
    fact("health", service.health.as_ref().map(health_text));
    fact("cpu", service.cpu_percent.map(|percent| format!("{percent:.1}%")));
    fact("memory", service.memory_bytes.map(bytes));
    fact("processes", service.processes.map(|n| n.to_string()));
    fact("port", service.port.map(|port| port.to_string()));
    let ports: Vec<String> = service.ports.iter().map(u16::to_string).collect();
    fact("listens on", Some(ports.join(", ")));
    fact("url", service.url.clone());
    fact("groups", Some(service.groups.join(", ")));
    fact("command", Some(service.command.clone()));
    fact("folder", Some(service.working_dir.clone()));
    fact(
        "from",
        Some(if service.added { "added at run time" } else { "the configuration" }.into()),
    );
    fact("owner", service.owner.clone());
    let lease = service.lease_seconds_left;
    fact("lease", lease.map(|left| format!("{} left, then it is removed", span(left as f64))));
    fact("note", service.stale.then(|| "its settings changed: a restart applies them".into()));
    fact(
        "arguments",
        service
            .args_override
            .as_ref()
            .map(|args| format!("{args} (from a restart; dropped at the next stop or restart)")),
    );
    if let Some(exit) = &service.last_exit {
        let at = page.moment(&exit.at);
        page.line().dim(format!("  {:<12}", "last exit")).plain(format!("{}, {at}", exit.text));
    }
    if !service.output.is_empty() {
        page.line().dim("  output");
        output(service, page);
    }
}

fn heading(service: &ServiceStatus, page: &mut Page) {
    let since = service.since.map(|since| page.moment(&since.to_string()));
    let line = page.line();
    line.name(&service.name).plain(" is ").add(style_of(service.state), service.state.as_str());
    if let Some(since) = since {
        line.dim(format!(" since {since}"));
    }
    if let Some(text) = &service.description {
        line.plain(" — ").plain(text);
    }
}

fn health_text(health: &HealthStatus) -> String {
    match (health.state, &health.why) {
        (HealthState::Unknown, _) => "not checked yet".into(),
        (HealthState::Starting, why) => {
            format!("starting, not healthy yet: {}", why.as_deref().unwrap_or("no response"))
        }
        (HealthState::Healthy, _) => "healthy".into(),
        (HealthState::Failing, Some(why)) => {
            format!("failing, {} in a row: {why}", health.failures)
        }
        (HealthState::Failing, None) => format!("failing, {} in a row", health.failures),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text_output::unpainted;

    fn cell(text: &str) -> Span<'_> {
        Span::new(Style::Plain, text)
    }

    /// Renders a table of two services, one with a very long name, for this terminal width.
    fn shown(width: usize) -> String {
        let long = "team-product-component-with-a-very-long-name-of-sixty@12";
        let mut table = Table::with_rows(&COLUMNS, 2);
        for name in ["web", long] {
            table.row([
                Span::new(Style::Name, name),
                cell("running"),
                cell("1234567"),
                cell("2h10m"),
                cell("3"),
                cell("12.5%"),
                cell("120 MiB"),
                cell("3000"),
                cell("healthy"),
                cell(""),
                cell("node /srv/app/server.js --port 3000 --verbose"),
            ]);
        }
        let mut page = Page::new(|| jiff::tz::TimeZone::UTC);
        page.table(table);
        page.render(Some(width), unpainted)
    }

    #[test]
    fn a_narrow_terminal_keeps_the_health_and_one_long_name_breaks_no_line() {
        for width in [80, 40] {
            let text = shown(width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            assert!(!text.contains("COMMAND"), "{width}:\n{text}");
            assert!(text.contains("…"), "{width}:\n{text}");
            assert!(text.contains("healthy"), "{width}:\n{text}");
        }
        assert!(shown(80).contains("xty@12"), "{}", shown(80));
        assert!(shown(200).contains("--verbose"), "{}", shown(200));
    }
}
