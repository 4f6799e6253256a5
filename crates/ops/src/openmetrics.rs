//! The numbers of `daemon.metrics` in the text format of OpenMetrics.

use crate::operations::metrics::{Output, OwnProcess, ServiceMetrics};
use crate::status::State;
use std::fmt::{Display, Write as _};

/// What an answer in this format is declared as.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All of it, complete with its end.
pub fn openmetrics(metrics: &Output) -> String {
    let mut text = Text(String::new());
    own(metrics, &mut text);
    services(metrics, &mut text);
    operations(metrics, &mut text);
    text.0.push_str("# EOF\n");
    text.0
}

struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# TYPE {name} {kind}\n# HELP {name} {help}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        let mut open = '{';
        for (label, value) in labels {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{open}{label}=\"{value}\"");
            open = ',';
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{close} {value}");
    }
}

fn own(metrics: &Output, text: &mut Text) {
    let supervisor = &metrics.supervisor;
    text.family("proctor", "info", "The version of Proctor.");
    text.sample("proctor_info", &[("version", &supervisor.version)], 1);
    text.family("proctor_uptime_seconds", "gauge", "How long the daemon has been running.");
    text.sample("proctor_uptime_seconds", &[], supervisor.uptime);
    text.family("proctor_degraded", "gauge", "Something needs somebody to look at it.");
    text.sample("proctor_degraded", &[], u8::from(supervisor.status != "running"));
    text.family("proctor_operations_running", "gauge", "Operations that are under way.");
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
    each("proctor_process_open_files", "Their open files.", |p| p.open_files);
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
    each("proctor_service_up", "gauge", "The service runs.", |service| {
        Some(f64::from(u8::from(service.status == State::Running)))
    });
    each(
        "proctor_service_healthy",
        "gauge",
        "It is neither crashed nor failing its check.",
        |service| Some(f64::from(u8::from(service.healthy))),
    );
    each("proctor_service_restarts", "counter", "Restarts made by its policy.", |service| {
        Some(service.restart_count as f64)
    });
    each("proctor_service_uptime_seconds", "gauge", "Of the present run.", |service| {
        service.uptime.map(|seconds| seconds as f64)
    });
    each("proctor_service_memory_bytes", "gauge", "Of all its processes.", |service| {
        service.memory_mb.map(|mib| (mib * f64::from(1 << 20)).round())
    });
    each("proctor_service_cpu_percent", "gauge", "Of one core, of all its processes.", |service| {
        service.cpu_percent
    });
}

fn operations(metrics: &Output, text: &mut Text) {
    text.family("proctor_operations", "counter", "Operations by result.");
    for one in &metrics.operations {
        for (result, count) in &one.results {
            let labels = [("operation", one.operation.as_str()), ("result", result)];
            text.sample("proctor_operations_total", &labels, count);
        }
    }
    text.family("proctor_operation_seconds", "histogram", "How long operations took.");
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
        let text = openmetrics(&metrics());
        assert!(text.ends_with("\n# EOF\n") && !text.contains("\n\n"), "{text}");
        let mut families = BTreeSet::new();
        let mut family = "";
        for line in text.lines().filter(|line| *line != "# EOF") {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                family = rest.split(' ').next().unwrap();
                assert!(families.insert(family), "{family} is there twice");
            } else if !line.starts_with("# HELP") {
                assert!(line.starts_with(family), "{line} is not of {family}");
                let value = line.rsplit(' ').next().unwrap();
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
        }
    }

    #[test]
    fn numbers_are_where_they_belong() {
        let text = openmetrics(&metrics());
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
        assert!(!text.contains("cpu_percent{"), "what is not known is not there");
        assert!(!text.contains(r#"process="keeper""#));
    }
}
