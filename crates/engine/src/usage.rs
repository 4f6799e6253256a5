//! CPU, memory and ports of services, measured on request.
//!
//! Nothing is sampled otherwise. A percentage covers the time since the last measurement of that run, or since
//! the run began. One measurement runs at a time: requests that arrive together share it.

use crate::api::Usage;
use crate::listening_ports;
use crate::registry::Registry;
use proctor_core::name::{RunId, ServiceName};
use proctor_core::time::Wall;
use proctor_core::wire::RunView;
use proctor_sys::port::Listening;
use proctor_sys::process_tree::ProcessCensus;
use proctor_sys::{cgroup, clock, proc};
use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Requests within this time get the same result: over a few clock ticks a percentage is noise.
const SAME_LOOK: Duration = Duration::from_millis(200);

/// Minimum time that a percentage covers: a start of some milliseconds would show hundreds of percent.
const FIRST_SECONDS: f64 = 1.0;

/// More services than this are measured on a thread of their own, away from the tasks that serve clients.
const FEW: usize = 4;

pub(crate) struct Meter {
    samples: Arc<Mutex<Samples>>,
    one_at_a_time: Semaphore,
}

type Samples = BTreeMap<ServiceName, Sample>;

fn locked(samples: &Mutex<Samples>) -> MutexGuard<'_, Samples> {
    samples.lock().expect("nothing panics while it measures")
}

struct Sample {
    run: RunId,
    at: Instant,
    usage: Usage,
}

/// The measurements of a process tree at one moment.
struct UsageReading {
    cpu_seconds: f64,
    memory_bytes: u64,
    processes: u32,
}

/// Data read once for all services, if one of them needs it.
struct MachineClock {
    /// For runs without a cgroup.
    census: LazyCell<ProcessCensus>,
    /// `None`: ports were not requested.
    listening: Option<LazyCell<Listening>>,
}

impl MachineClock {
    fn new(ports: bool) -> MachineClock {
        let listening = ports.then(|| LazyCell::new(Listening::now as fn() -> Listening));
        MachineClock { census: LazyCell::new(ProcessCensus::take), listening }
    }

    fn ports(&self, run: &RunView, members: &[u32]) -> Option<Vec<u16>> {
        self.listening.as_ref().map(|listening| listening_ports::of(run, members, listening))
    }
}

impl Meter {
    pub(crate) fn new() -> Meter {
        Meter { samples: Arc::default(), one_at_a_time: Semaphore::new(1) }
    }

    pub(crate) async fn usage(
        &self,
        registry: &Registry,
        names: &[ServiceName],
        ports: bool,
    ) -> BTreeMap<ServiceName, Usage> {
        let Ok(_permit) = self.one_at_a_time.acquire().await else { return BTreeMap::new() };
        let runs = registry.runs(names);
        let samples = Arc::clone(&self.samples);
        let known = |name: &ServiceName| registry.read(|view| view.services.contains_key(name));
        locked(&samples).retain(|name, _| known(name));
        let measure = move || {
            let mut samples = locked(&samples);
            let machine = MachineClock::new(ports);
            let measured = runs.into_iter().filter_map(|(name, run)| {
                let usage = measure(&mut samples, &name, &run, &machine)?;
                Some((name, usage))
            });
            measured.collect()
        };
        if names.len() <= FEW {
            return measure();
        }
        crate::blocking(measure).await.unwrap_or_default()
    }
}

fn measure(
    samples: &mut Samples,
    name: &ServiceName,
    run: &RunView,
    machine: &MachineClock,
) -> Option<Usage> {
    let now = Instant::now();
    let last = samples.get_mut(name).filter(|sample| sample.run == run.id);
    let (mut since, mut before) = (age(run.started, clock::now().wall).max(FIRST_SECONDS), 0.0);
    if let Some(last) = last {
        let recent = now.duration_since(last.at) < SAME_LOOK;
        if recent && (last.usage.ports.is_some() || machine.listening.is_none()) {
            return Some(last.usage.clone());
        }
        if recent {
            last.usage.ports = machine.ports(run, &members(run, &machine.census));
            return Some(last.usage.clone());
        }
        (since, before) = (now.duration_since(last.at).as_secs_f64(), last.usage.cpu_seconds);
    }
    let members = members(run, &machine.census);
    let UsageReading { cpu_seconds, memory_bytes, processes } = read(run, &members)?;
    let cpu_percent = percent(cpu_seconds - before, since);
    let ports = machine.ports(run, &members);
    let usage = Usage { cpu_percent, cpu_seconds, memory_bytes, processes, ports };
    samples.insert(name.clone(), Sample { run: run.id, at: now, usage: usage.clone() });
    Some(usage)
}

/// Processes that ended take their CPU time with them, so the sum may shrink; usage is never negative.
fn percent(cpu_seconds: f64, since_seconds: f64) -> f64 {
    if since_seconds <= 0.0 { 0.0 } else { (100.0 * cpu_seconds / since_seconds).max(0.0) }
}

fn age(started: Wall, now: Wall) -> f64 {
    now.0.saturating_sub(started.0).max(0) as f64 / 1e6
}

/// Returns `None` if no process of the run is left.
fn read(run: &RunView, members: &[u32]) -> Option<UsageReading> {
    let cgroup = run.cgroup.as_deref().map(Path::new);
    let mut ticks = 0;
    let mut reading = UsageReading { cpu_seconds: 0.0, memory_bytes: 0, processes: 0 };
    for &pid in members {
        let Some(stat) = proc::stat(pid) else { continue };
        ticks += stat.user_ticks + stat.system_ticks;
        reading.memory_bytes += proc::pss_bytes(pid).or_else(|| resident_bytes(pid)).unwrap_or(0);
        reading.processes += 1;
    }
    let summed = ticks as f64 / proc::ticks_per_second() as f64;
    reading.cpu_seconds = cgroup.and_then(cgroup_seconds).unwrap_or(summed);
    (reading.processes > 0).then_some(reading)
}

/// The processes of a run that can be found. The census is taken when a run without a cgroup needs it.
pub(crate) fn members(run: &RunView, census: &LazyCell<ProcessCensus>) -> Vec<u32> {
    match run.cgroup.as_deref() {
        Some(folder) => cgroup::members(Path::new(folder)),
        None => census.members(run.pid),
    }
}

/// Readable where the proportional set size is not; in bytes, because page sizes differ.
fn resident_bytes(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// The cgroup's own counter, which includes processes that have ended.
fn cgroup_seconds(cgroup: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(cgroup.join("cpu.stat")).ok()?;
    let micros: u64 =
        text.lines().find_map(|line| line.strip_prefix("usage_usec "))?.parse().ok()?;
    Some(micros as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn this_process(id: u64) -> RunView {
        let started = Wall(clock::now().wall.0 - 1_000_000);
        RunView { id: RunId(id), pid: std::process::id(), started, cgroup: None }
    }

    fn machine() -> MachineClock {
        MachineClock::new(false)
    }

    #[test]
    fn a_run_is_measured_against_its_last_look_and_a_new_run_against_its_beginning() {
        let name = ServiceName::parse("web").unwrap();
        let mut samples = BTreeMap::new();
        let first = measure(&mut samples, &name, &this_process(1), &machine()).unwrap();
        assert!(first.processes >= 1 && first.memory_bytes > 0, "{first:?}");
        // Independent of how long this test was suspended.
        samples.get_mut(&name).unwrap().at = Instant::now() + Duration::from_secs(60);
        let at_once = measure(&mut samples, &name, &this_process(1), &machine()).unwrap();
        assert_eq!(at_once, first, "looks that come together share a measurement");

        let earlier = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        let sample = samples.get_mut(&name).unwrap();
        (sample.at, sample.usage.cpu_seconds) = (earlier, first.cpu_seconds - 5.0);
        let later = measure(&mut samples, &name, &this_process(1), &machine()).unwrap();
        assert!((45.0..=90.0).contains(&later.cpu_percent), "{later:?}");

        measure(&mut samples, &name, &this_process(2), &machine()).unwrap();
        assert_eq!(samples[&name].run, RunId(2));
    }

    #[test]
    fn a_run_that_has_just_begun_is_measured_over_its_first_second() {
        let name = ServiceName::parse("web").unwrap();
        let run = RunView { started: clock::now().wall, ..this_process(1) };
        let usage = measure(&mut BTreeMap::new(), &name, &run, &machine()).unwrap();
        assert!(usage.cpu_percent <= 100.0 * usage.cpu_seconds + 0.001, "{usage:?}");
    }

    #[test]
    fn ports_are_looked_for_only_if_somebody_asks() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let name = ServiceName::parse("web").unwrap();
        let mut samples = BTreeMap::new();
        let first = measure(&mut samples, &name, &this_process(1), &machine()).unwrap();
        assert_eq!(first.ports, None);
        samples.get_mut(&name).unwrap().at = Instant::now() + Duration::from_secs(60);
        let asked =
            measure(&mut samples, &name, &this_process(1), &MachineClock::new(true)).unwrap();
        assert!(asked.ports.as_ref().unwrap().contains(&port), "{asked:?}");
        assert_eq!(Usage { ports: None, ..asked }, first, "all else is the same measurement");
    }

    #[test]
    fn what_is_gone_has_no_usage() {
        assert!(resident_bytes(std::process::id()).unwrap() > 0);
        assert_eq!(resident_bytes(u32::MAX), None);
        let gone = RunView { pid: u32::MAX, ..this_process(1) };
        assert!(read(&gone, &members(&gone, &machine().census)).is_none());
    }

    #[test]
    fn percentages_are_of_one_core_and_never_negative() {
        for (cpu, since, expected) in
            [(2.0, 1.0, 200.0), (0.5, 1.0, 50.0), (-1.0, 1.0, 0.0), (1.0, 0.0, 0.0)]
        {
            assert_eq!(percent(cpu, since), expected);
        }
    }

    #[test]
    fn the_cgroups_account_is_taken_where_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(cgroup_seconds(folder.path()), None);
        std::fs::write(folder.path().join("cpu.stat"), "usage_usec 2500000\nuser_usec 1\n")
            .unwrap();
        assert_eq!(cgroup_seconds(folder.path()), Some(2.5));
    }
}
