//! Invariants after every fault: which processes run, since when, their output, their resources.

use super::lines::Lines;
use super::process::{self, Holding, Role};
use super::runs::{Runs, Unseen};
use super::scene::{CRASHING, STEADY, Scene, THORNY, TURNED};
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

/// Timeout of an invariant; after it there is a violation. Recovery takes milliseconds; a daemon
/// that was killed often waits 5 s.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);

/// Main, its children, one in its own session, one daemonised.
const FAMILIES: [(&str, usize); 2] = [("tree", 5), (THORNY, 4)];

/// Limit of descriptors. The keeper has two pipes, a pidfd and four log files for each service,
/// daemon and guard two pipes and a pidfd, plus their own.
const DESCRIPTORS: usize = 100;
/// The daemon has some for files, which come and go.
const THREADS: usize = 24;
const MEMORY_KIB: u64 = 96 << 10;

pub(crate) struct Oracle {
    /// Pid and run of services that must never restart.
    first: BTreeMap<String, (u64, String)>,
    lines: Vec<Lines>,
    pub(crate) runs: Vec<Runs>,
    pub(crate) most: BTreeMap<&'static str, Holding>,
}

impl Oracle {
    /// Waits until everything has started, and records it.
    pub(crate) fn begin(scene: &mut Scene, crashing: bool) -> Result<Oracle> {
        let streams = [("fast", false), ("slow", false), ("short", true)];
        let lines = streams.iter().flat_map(|(service, forgets)| {
            ["stdout", "stderr"].map(|stream| Lines::new(&scene.home, service, stream, *forgets))
        });
        let mut runs = vec![Runs::new(TURNED, "exit code 7"), Runs::new(THORNY, "signal 9")];
        runs.extend(crashing.then(|| Runs::new(CRASHING, "exit code 7")));
        let mut oracle =
            Oracle { first: BTreeMap::new(), lines: lines.collect(), runs, most: BTreeMap::new() };
        settle(|| {
            let status = scene.status()?;
            let first = status.iter().filter(|one| is_steady(one));
            let running = |one: &Value| Some((name(one), (one["pid"].as_u64()?, text(one, "run"))));
            oracle.first = first.filter_map(running).collect();
            ensure!(oracle.first.len() == STEADY.len(), "not all services have begun");
            Ok(())
        })?;
        oracle.check(scene)?;
        Ok(oracle)
    }

    /// Checks all invariants while nothing is being killed and `turned` should run. Returns the
    /// runs that ended without a witness since the last check.
    pub(crate) fn check(&mut self, scene: &mut Scene) -> Result<Unseen> {
        settle(|| self.services(scene))?;
        settle(|| self.own(scene))?;
        settle(|| files(&scene.home))?;
        self.streams()?;
        let mut unseen = Unseen::default();
        for runs in &mut self.runs {
            let now = runs.read(scene)?;
            unseen.ends += now.ends;
            unseen.words += now.words;
        }
        Ok(unseen)
    }

    /// Number of lines read.
    pub(crate) fn seen(&self) -> u64 {
        self.lines.iter().map(|lines| lines.seen).sum()
    }

    fn services(&self, scene: &mut Scene) -> Result<()> {
        let status = scene.status()?;
        let marked = process::marked(&scene.home);
        for service in &status {
            let (name, run) = (name(service), text(service, "run"));
            if let Some((pid, first)) = self.first.get(&name) {
                let now = (service["pid"].as_u64(), run.as_str());
                ensure!(
                    now == (Some(*pid), first.as_str()),
                    "{name} was {pid}, run {first}: {service:#}"
                );
                ensure!(service["restarts"] == 0, "{name} was restarted: {service:#}");
            }
            let of_it = marked.iter().filter(|one| one.service == name);
            if name == CRASHING {
                // The process may be replaced before we look.
                ensure!(of_it.count() <= 1, "{name} runs twice: {marked:?}");
                continue;
            }
            ensure!(service["state"] == "running", "{name} does not run: {service:#}");
            let runs: BTreeSet<&str> = of_it.clone().map(|one| one.run.as_str()).collect();
            ensure!(runs == BTreeSet::from([run.as_str()]), "{name}: runs {runs:?}, told {run}");
            let expected =
                FAMILIES.iter().find(|(of, _)| *of == name).map_or(1, |(_, count)| *count);
            let pids: Vec<u32> = of_it.map(|one| one.pid).collect();
            ensure!(pids.len() == expected, "{name} has processes {pids:?}");
        }
        let known: BTreeSet<String> = status.iter().map(name).collect();
        let strays: Vec<_> = marked.iter().filter(|one| !known.contains(&one.service)).collect();
        ensure!(strays.is_empty(), "strays: {strays:?}");
        for name in STEADY {
            let begun = std::fs::read_to_string(scene.pid_file(name)).unwrap_or_default();
            let begun = begun.lines().filter(|line| line.starts_with("main ")).count();
            ensure!(begun == 1, "{name} began {begun} times");
        }
        Ok(())
    }

    /// One keeper, one daemon, one guard, and none grows.
    fn own(&mut self, scene: &Scene) -> Result<()> {
        for (role, word) in
            [(Role::Keeper, "keeper"), (Role::Daemon, "daemon"), (Role::Guard, "guard")]
        {
            let pids = scene.own(role);
            let [pid] = pids[..] else { bail!("{word}: {pids:?}") };
            let look =
                || process::holding(pid, role).with_context(|| format!("the {word} is gone"));
            // A starting log pump has its parent's table for a moment.
            let (first, second) = (look()?, look()?);
            let descriptors = first.descriptors.min(second.descriptors);
            let now = Holding { descriptors, ..second };
            let well = now.descriptors <= DESCRIPTORS
                && now.threads <= THREADS
                && now.memory_kib <= MEMORY_KIB;
            ensure!(well, "the {word} holds {now:?}");
            let most = self.most.entry(word).or_default();
            most.descriptors = most.descriptors.max(now.descriptors);
            most.threads = most.threads.max(now.threads);
            most.memory_kib = most.memory_kib.max(now.memory_kib);
        }
        Ok(())
    }

    /// Every stream has all its lines and continues.
    fn streams(&mut self) -> Result<()> {
        for lines in &mut self.lines {
            lines.read()?;
            let begun = Instant::now();
            while lines.read()? == 0 {
                ensure!(begun.elapsed() < SETTLE_TIMEOUT, "no more lines: {lines:?}");
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }
}

/// A run's files exist while it runs, and no longer.
fn files(home: &Path) -> Result<()> {
    for name in STEADY.into_iter().chain([TURNED, THORNY]) {
        let folder = home.join("run/services").join(name);
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot read {}", folder.display()))?;
        let mut names: Vec<String> = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.retain(|name| name != "spec" && name != "state" && !name.ends_with(".new"));
        names.sort();
        let runs: BTreeSet<&str> = names.iter().filter_map(|name| name.split('.').next()).collect();
        ensure!(names.len() == 2 && runs.len() == 1, "files of {name}: {names:?}");
    }
    Ok(())
}

/// Nothing of a home is left after an orderly shutdown.
pub(crate) fn nothing_left(home: &Path) -> Result<()> {
    settle(|| {
        let marked = process::marked(home);
        ensure!(marked.is_empty(), "still there: {marked:?}");
        for role in [Role::Keeper, Role::Daemon, Role::Guard] {
            let own = process::own(home, role);
            ensure!(own.is_empty(), "{role:?} still there: {own:?}");
        }
        Ok(())
    })?;
    let left: Vec<_> = std::fs::read_dir(home.join("run/services"))
        .context("cannot read the folder of services")?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    ensure!(left.is_empty(), "files left: {left:?}");
    ensure!(!home.join("run/proctor.sock").exists(), "the socket is left");
    let temporary = std::fs::read_dir(home).context("cannot read the home")?.flatten();
    let temporary: Vec<_> = temporary
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "tmp"))
        .collect();
    ensure!(temporary.len() <= 1, "temporary files left: {temporary:?}");
    groups_left(home)
}

/// The cgroups of a home contain its name's hash; an orderly shutdown removes them.
fn groups_left(home: &Path) -> Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let hash = home.as_os_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/").to_owned();
    for mount in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
        let parent = Path::new(mount).join(own.trim_start_matches('/'));
        let group = parent.join(format!("proctor-{hash:016x}"));
        ensure!(!group.exists(), "a cgroup is left: {}", group.display());
    }
    Ok(())
}

/// Retries until it holds; the last reason is the violation.
pub(crate) fn settle(mut holds: impl FnMut() -> Result<()>) -> Result<()> {
    let begun = Instant::now();
    loop {
        match holds() {
            Ok(()) => return Ok(()),
            Err(why) if begun.elapsed() > SETTLE_TIMEOUT => return Err(why),
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

fn is_steady(service: &Value) -> bool {
    service["name"].as_str().is_some_and(|name| STEADY.contains(&name))
}

fn name(service: &Value) -> String {
    text(service, "name")
}

fn text(service: &Value, key: &str) -> String {
    service[key].as_str().unwrap_or_default().to_owned()
}
