//! The metrics of `daemon.metrics` as text: OpenMetrics, or the older format of Prometheus.

use crate::operations::metrics::{Output, OwnProcess, ServiceMetrics};
use crate::status::State;
use std::fmt::{Display, Write as _};

/// A text format for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    /// Version 0.0.4, which every Prometheus tool reads.
    Classic,
}

impl Format {
    /// Returns the format for an `Accept` header: OpenMetrics on request.
    pub fn of(accept: &str) -> Format {
        let asks = |kind: &str| {
            let mut parts = kind.split(';').map(str::trim);
            let named = parts.next().is_some_and(|it| it.eq_ignore_ascii_case(OPENMETRICS));
            named && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
        };
        if accept.split(',').any(asks) { Format::OpenMetrics } else { Format::Classic }
    }

    /// Returns the `Content-Type` of this format.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Writes all metrics as one text.
    pub fn write(self, metrics: &Output) -> String {
        let mut text = Text { format: self, text: String::new() };
        own(metrics, &mut text);
        services(metrics, &mut text);
        operations(metrics, &mut text);
        match self {
            Format::OpenMetrics => text.text.push_str("# EOF\n"),
            Format::Classic => {}
        }
        text.text
    }
}

const OPENMETRICS: &str = "application/openmetrics-text";

struct Text {
    format: Format,
    text: String,
}

impl Text {
    /// The classic format names a family like its samples and has no `info`.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let (ending, kind) = match (self.format, kind) {
            (Format::Classic, "counter") => ("_total", kind),
            (Format::Classic, "info") => ("_info", "gauge"),
            (Format::OpenMetrics | Format::Classic, kind) => ("", kind),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "# HELP {name}{ending} {help}\n# TYPE {name}{ending} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(name);
        let mut open = '{';
        for (label, value) in labels {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{open}{label}=\"{value}\"");
            open = ',';
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{close} {value}");
    }
}

fn own(metrics: &Output, text: &mut Text) {
    let supervisor = &metrics.supervisor;
    text.family("proctor", "info", "The version of Proctor.");
    text.sample("proctor_info", &[("version", &supervisor.version)], 1);
    text.family("proctor_uptime_seconds", "gauge", "Uptime of the daemon in seconds.");
    text.sample("proctor_uptime_seconds", &[], supervisor.uptime);
    text.family("proctor_degraded", "gauge", "1 if there are problems that need attention.");
    text.sample("proctor_degraded", &[], u8::from(supervisor.status != "running"));
    text.family("proctor_operations_running", "gauge", "Operations in flight.");
    text.sample("proctor_operations_running", &[], supervisor.operations_running);
    let daemon = ("daemon", &supervisor.daemon);
    let own = [Some(daemon), supervisor.keeper.as_ref().map(|keeper| ("keeper", keeper))];
    let mut each = |name: &str, help: &str, value: fn(&OwnProcess) -> Option<u64>| {
        text.family(name, "gauge", help);
        for (process, numbers) in own.iter().flatten() {
            if let Some(value) = value(numbers) {
                text.sample(name, &[("process", process)], value);
            }
        }
    };
    each("proctor_process_memory_bytes", "Memory of Proctor's own processes.", |p| p.memory_bytes);
    each("proctor_process_open_files", "Open files of Proctor's own processes.", |p| p.open_files);
}

fn services(metrics: &Output, text: &mut Text) {
    text.family("proctor_services", "gauge", "Services in each state.");
    for state in State::ALL {
        let count = metrics.services.values().filter(|service| service.status == state).count();
        text.sample("proctor_services", &[("state", state.as_str())], count);
    }
    let mut each =
        |name: &str, kind: &str, help: &str, value: fn(&ServiceMetrics) -> Option<f64>| {
            text.family(name, kind, help);
            let sample = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
            for (service, numbers) in &metrics.services {
                if let Some(value) = value(numbers) {
                    text.sample(&sample, &[("service", service)], value);
                }
            }
        };
    each("proctor_service_up", "gauge", "1 if the service runs.", |service| {
        Some(f64::from(u8::from(service.status == State::Running)))
    });
    each(
        "proctor_service_healthy",
        "gauge",
        "1 if the service has not crashed and does not fail its health check.",
        |service| Some(f64::from(u8::from(service.healthy))),
    );
    each(
        "proctor_service_restarts",
        "counter",
        "Restarts made by the restart policy.",
        |service| Some(service.restart_count as f64),
    );
    each(
        "proctor_service_uptime_seconds",
        "gauge",
        "Uptime of the current run in seconds.",
        |service| service.uptime.map(|seconds| seconds as f64),
    );
    each(
        "proctor_service_memory_bytes",
        "gauge",
        "Memory of all processes of the service.",
        |service| service.memory_mb.map(|mib| (mib * f64::from(1 << 20)).round()),
    );
    each(
        "proctor_service_cpu_percent",
        "gauge",
        "CPU use of all processes of the service, in percent of one core.",
        |service| service.cpu_percent,
    );
}

fn operations(metrics: &Output, text: &mut Text) {
    text.family("proctor_operations", "counter", "Operations by result.");
    for one in &metrics.operations {
        for (result, count) in &one.results {
            let labels = [("operation", one.operation.as_str()), ("result", result)];
            text.sample("proctor_operations_total", &labels, count);
        }
    }
    text.family("proctor_operation_seconds", "histogram", "Duration of operations in seconds.");
    for one in &metrics.operations {
        let mut count = 0;
        for latency in &one.latencies {
            count += latency.count;
            let end = latency.at_most_seconds.map_or("+Inf".to_owned(), |end| format!("{end:?}"));
            let labels = [("operation", one.operation.as_str()), ("le", &end)];
            text.sample("proctor_operation_seconds_bucket", &labels, count);
        }
        let labels = [("operation", one.operation.as_str())];
        text.sample("proctor_operation_seconds_count", &labels, count);
        text.sample("proctor_operation_seconds_sum", &labels, one.seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::metrics::{Latency, OperationMetrics, Supervisor};
    use std::collections::{BTreeMap, BTreeSet};

    fn metrics() -> Output {
        let own = |pid| OwnProcess { pid, memory_bytes: Some(4096), open_files: Some(9) };
        let web = ServiceMetrics {
            status: State::Running,
            pid: Some(7),
            uptime: Some(60),
            memory_mb: Some(1.5),
            cpu_percent: None,
            restart_count: 3,
            healthy: true,
        };
        let latency = |at_most_seconds, count| Latency { at_most_seconds, count };
        Output {
            supervisor: Supervisor {
                status: "running".into(),
                uptime: 60,
                managed_services: 1,
                version: "1.0 \"x\"\\\n".into(),
                daemon: own(1),
                keeper: None,
                operations_running: 0,
            },
            services: BTreeMap::from([("web@1".into(), web)]),
            operations: vec![OperationMetrics {
                operation: "service.list".into(),
                results: BTreeMap::from([("ok".into(), 3), ("busy".into(), 1)]),
                count: 4,
                seconds: 0.25,
                latencies: vec![latency(Some(1.0), 3), latency(None, 1)],
            }],
        }
    }

    #[test]
    fn every_family_stands_once_and_together_and_the_end_is_there() {
        let text = Format::OpenMetrics.write(&metrics());
        assert!(text.ends_with("\n# EOF\n") && !text.contains("\n\n"), "{text}");
        let mut families = BTreeSet::new();
        let mut family = "";
        for line in text.lines().filter(|line| *line != "# EOF") {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                family = rest.split(' ').next().unwrap();
                assert!(families.insert(family), "{family} is there twice");
            } else if !line.starts_with("# TYPE ") {
                assert!(line.starts_with(family), "{line} is not of {family}");
                let value = line.rsplit(' ').next().unwrap();
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
        }
    }

    #[test]
    fn the_classic_format_names_each_family_like_its_samples() {
        let text = Format::Classic.write(&metrics());
        assert!(!text.contains("# EOF") && !text.contains(" info\n"), "{text}");
        let mut declared: BTreeMap<&str, &str> = BTreeMap::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(["gauge", "counter", "histogram"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                assert!(text.contains(&format!("# HELP {name} ")), "{name} has no help");
                declared.insert(name, kind);
            } else if !line.starts_with("# HELP ") {
                let name = line.split(['{', ' ']).next().unwrap();
                let part = |ending| name.strip_suffix(ending).and_then(|it| declared.get(it));
                let of_histogram = ["_bucket", "_sum", "_count"].into_iter().find_map(part);
                assert!(
                    declared.contains_key(name) || of_histogram == Some(&"histogram"),
                    "{line}"
                );
            }
        }
    }

    #[test]
    fn openmetrics_is_for_those_that_ask_for_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        for (accept, expected) in [
            ("", Format::Classic),
            ("*/*", Format::Classic),
            ("text/plain", Format::Classic),
            ("text/plain;version=0.0.4", Format::Classic),
            (prometheus, Format::OpenMetrics),
            ("application/openmetrics-text; q=0, text/plain", Format::Classic),
        ] {
            assert_eq!(Format::of(accept), expected, "{accept}");
        }
    }

    #[test]
    fn numbers_are_where_they_belong() {
        let text = Format::OpenMetrics.write(&metrics());
        for line in [
            r#"proctor_info{version="1.0 \"x\"\\\n"} 1"#,
            r#"proctor_services{state="running"} 1"#,
            r#"proctor_service_up{service="web@1"} 1"#,
            r#"proctor_service_restarts_total{service="web@1"} 3"#,
            r#"proctor_service_memory_bytes{service="web@1"} 1572864"#,
            r#"proctor_operations_total{operation="service.list",result="busy"} 1"#,
            r#"proctor_operation_seconds_bucket{operation="service.list",le="1.0"} 3"#,
            r#"proctor_operation_seconds_bucket{operation="service.list",le="+Inf"} 4"#,
            r#"proctor_operation_seconds_count{operation="service.list"} 4"#,
            r#"proctor_process_memory_bytes{process="daemon"} 4096"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing:\n{text}");
        }
        assert!(!text.contains("cpu_percent{"), "unknown values are omitted");
        assert!(!text.contains(r#"process="keeper""#));
    }
}
