//! `cargo xtask bench`: a first honest measurement of a release build on this machine, in one run.
//!
//! Times are of whole commands as a person waits for them, beside the least that the kernel charges for the same: a
//! program that does nothing, and a loop that only spawns. Other supervisors are not compared yet. The numbers depend
//! on the machine; the ratios are what to look at.

use crate::step::{cargo, succeed};
use anyhow::{Context as _, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs of each command; the median of that many moves by less than the differences that matter.
const COMMAND_RUNS: usize = 200;
const SERVICES: usize = 200;
const START_LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(1);
/// What each service runs: the smallest program that stays.
const PROGRAM: &str = "sleep";

pub(crate) fn run() -> Result<()> {
    succeed(cargo(&["build", "--release", "--package", "proctor"])?)?;
    let home = BenchHome::make(release_binary()?)?;
    home.proctor(&["daemon", "start"])?;
    let idle = home.memory()?;
    let bare = bare_loop()?;
    let started = home.up()?;
    let busy = home.memory()?;
    let commands = home.commands()?;

    println!("| measured | value | ratio |\n|---|---:|---:|");
    let least = commands[0].1;
    for (name, time) in commands {
        println!(
            "| {name}, median of {COMMAND_RUNS} | {} | {:.1} |",
            millis(time),
            ratio(time, least)
        );
    }
    println!("| {SERVICES} × `{PROGRAM}` by a bare spawn loop | {} | 1.0 |", millis(bare));
    println!(
        "| {SERVICES} services by `up -d`, to the last pid | {} | {:.1} |",
        millis(started),
        ratio(started, bare)
    );
    for (who, before, after) in
        [("keeper", idle.keeper, busy.keeper), ("daemon", idle.daemon, busy.daemon)]
    {
        println!("| PSS of the {who} with 0 services | {before} KiB | 1.0 |");
        println!(
            "| PSS of the {who} with {SERVICES} services | {after} KiB | {:.1} |",
            after as f64 / before as f64
        );
    }
    Ok(())
}

/// This program is in `target/debug`; what was built just now is beside it.
fn release_binary() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell my own path")?;
    let target = own.ancestors().nth(2).context("this program is in no target folder")?;
    Ok(target.join("release/proctor"))
}

/// Proportional set size in KiB.
struct Memory {
    keeper: u64,
    daemon: u64,
}

/// A Proctor of its own in a temporary folder; ended and removed with this value.
struct BenchHome {
    folder: PathBuf,
    binary: PathBuf,
    /// An argument that only our services have, by which they are found in `/proc`.
    mark: String,
}

impl BenchHome {
    fn make(binary: PathBuf) -> Result<BenchHome> {
        let id = std::process::id();
        let folder = std::env::temp_dir().join(format!("proctor-bench-{id}"));
        std::fs::create_dir(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let home = BenchHome { folder, binary, mark: format!("86400.{id}") };
        let service = |number| {
            format!("    s{number:03}: {{ command: {PROGRAM}, args: [\"{}\"] }}\n", home.mark)
        };
        let services: String = (0..SERVICES).map(service).collect();
        std::fs::write(
            home.folder.join("proctor.yaml"),
            format!("supervisor:\n  services:\n{services}"),
        )
        .context("cannot write proctor.yaml")?;
        Ok(home)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg("--home").arg(&self.folder).args(args).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn proctor(&self, args: &[&str]) -> Result<()> {
        succeed(self.command(args))
    }

    /// From the command to the moment at which the last service is there.
    fn up(&self) -> Result<Duration> {
        let begin = Instant::now();
        let mut command = self.command(&["up", "-d"]).spawn().context("cannot run proctor up")?;
        while count_marked(&self.mark)? < SERVICES {
            ensure!(
                begin.elapsed() < START_LIMIT,
                "not all services were there after {START_LIMIT:?}"
            );
            std::thread::sleep(LOOK);
        }
        let time = begin.elapsed();
        let status = command.wait().context("cannot wait for proctor up")?;
        ensure!(status.success(), "proctor up ended with {status}");
        Ok(time)
    }

    /// Medians of whole commands, the least possible one first.
    fn commands(&self) -> Result<Vec<(&'static str, Duration)>> {
        Ok(vec![
            ("`true`", median(|| quiet(Command::new("true")))?),
            ("`proctor --version`", median(|| self.command(&["--version"]))?),
            ("`proctor status NAME`", median(|| self.command(&["status", "s000"]))?),
        ])
    }

    fn memory(&self) -> Result<Memory> {
        let lock = self.folder.join("run/keeper.lock");
        let text = std::fs::read_to_string(&lock)
            .with_context(|| format!("cannot read {}", lock.display()))?;
        let keeper =
            text.trim().parse().with_context(|| format!("no pid in {}: {text}", lock.display()))?;
        Ok(Memory { keeper: pss(keeper)?, daemon: pss(self.daemon(keeper)?)? })
    }

    /// The child of the keeper that runs our binary.
    fn daemon(&self, keeper: u32) -> Result<u32> {
        let binary = self.binary.canonicalize().context("cannot find the binary")?;
        let runs_it = |pid: u32| {
            std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|path| path == binary)
        };
        let found = pids()?
            .into_iter()
            .find(|&pid| field(pid, "status", "PPid:") == Some(keeper.into()) && runs_it(pid));
        found.with_context(|| format!("the keeper {keeper} has no daemon"))
    }
}

impl Drop for BenchHome {
    fn drop(&mut self) {
        if let Err(why) = self.proctor(&["down"]) {
            println!("cannot end the Proctor in {}, left as it is: {why:#}", self.folder.display());
        } else if let Err(why) = std::fs::remove_dir_all(&self.folder) {
            println!("cannot remove {}: {why}", self.folder.display());
        }
    }
}

/// The least that starting so many programs can cost.
fn bare_loop() -> Result<Duration> {
    let mut children: Vec<Child> = Vec::with_capacity(SERVICES);
    let begin = Instant::now();
    let spawned: Result<(), std::io::Error> = (0..SERVICES).try_for_each(|_| {
        children.push(quiet(Command::new(PROGRAM)).arg("86400").spawn()?);
        Ok(())
    });
    let time = begin.elapsed();
    for child in &mut children {
        child.kill().and_then(|()| child.wait()).context("cannot end a child")?;
    }
    spawned.with_context(|| format!("cannot run {PROGRAM}"))?;
    Ok(time)
}

fn quiet(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// From before the spawn to after the exit.
fn median(make: impl Fn() -> Command) -> Result<Duration> {
    let mut times = Vec::with_capacity(COMMAND_RUNS);
    for _ in 0..COMMAND_RUNS {
        let mut command = make();
        let begin = Instant::now();
        let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
        times.push(begin.elapsed());
        ensure!(status.success(), "{command:?} ended with {status}");
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

fn pids() -> Result<Vec<u32>> {
    let entries = std::fs::read_dir("/proc").context("cannot read /proc")?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

fn count_marked(mark: &str) -> Result<usize> {
    let wanted = [PROGRAM.as_bytes(), mark.as_bytes(), b""].join(&0);
    let marked =
        |pid: &u32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == wanted);
    Ok(pids()?.iter().filter(|pid| marked(pid)).count())
}

fn pss(pid: u32) -> Result<u64> {
    match field(pid, "smaps_rollup", "Pss:") {
        Some(kibibytes) => Ok(kibibytes),
        None => bail!(
            "cannot read the memory of {pid} in {}",
            Path::new("/proc").join(pid.to_string()).display()
        ),
    }
}

/// First number behind a name in a file of `/proc/PID`.
fn field(pid: u32, file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

fn ratio(time: Duration, base: Duration) -> f64 {
    time.as_secs_f64() / base.as_secs_f64()
}
