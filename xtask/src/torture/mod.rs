//! `cargo xtask torture`: the fault campaign. It kills Proctor's own processes at every failpoint
//! and at random moments under load. After each fault an oracle checks that nothing was lost,
//! doubled, torn or restarted.
//!
//! It sees Proctor from outside: commands, files, `/proc`. A violation ends a scene, whose folder
//! is kept, and the campaign continues with a new one.

mod dice;
mod lines;
mod options;
mod oracle;
mod points;
mod process;
mod reaper;
mod rounds;
mod runs;
mod scene;

use crate::bench::interrupt;
use crate::step::{cargo, output, succeed};
use anyhow::{Context as _, Result, bail, ensure};
use dice::Dice;
use options::Options;
pub(crate) use options::USAGE;
use oracle::Oracle;
use points::{Fault, Point};
use process::Holding;
use rounds::Round;
use runs::Unseen;
use scene::{Programs, Scene};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// Maximum number of violations; more tell nothing new.
const MAX_VIOLATIONS: usize = 10;

/// Number of slowest waits to report: an unexpected wait is a first sign of a problem.
const SLOWEST: usize = 5;

/// Faults before a scene is shut down in order, to check that nothing is left; also, a victim lives
/// an hour at most.
const FAULTS_OF_A_SCENE: u64 = 400;

pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    interrupt::watch()?;
    let programs = programs(&options)?;
    let table = output({
        let mut command = Command::new(&programs.proctor);
        command.arg("__failpoints");
        command
    });
    let points = points::parse(&table.context("this build has no failpoints")?)?;
    // Thousands of aborts are intended; their core dumps are useless.
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(rustix::process::Resource::Core, none)?;
    reaper::start()?;
    let seed = options.seed.unwrap_or_else(random_seed);
    println!("seed {seed}, {} failpoints", points.len());
    let mut campaign = Campaign::new(programs, seed);
    let result = campaign.all(&options, &points);
    campaign.report();
    result?;
    ensure!(campaign.violations.is_empty(), "{} violations", campaign.violations.len());
    Ok(())
}

/// The programs beside this one, where cargo puts them all.
fn programs(options: &Options) -> Result<Programs> {
    if !options.built {
        succeed(cargo(&["build", "--package", "proctor", "--features", "failpoints"])?)?;
        succeed(cargo(&["build", "--package", "proctor-testkit", "--bin", "victim"])?)?;
    }
    let own = std::env::current_exe().context("cannot find the path of this program")?;
    let beside = |name| own.with_file_name(name);
    let programs = Programs { proctor: beside("proctor"), victim: beside("victim") };
    for program in [&programs.proctor, &programs.victim] {
        ensure!(program.exists(), "there is no {}", program.display());
    }
    Ok(programs)
}

fn random_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |since| since.subsec_nanos().into())
}

/// The statistics and violations of a campaign.
struct Campaign {
    programs: Programs,
    seed: u64,
    begun: Instant,
    faults: u64,
    kills: u64,
    lines: u64,
    ends: BTreeMap<String, u64>,
    unseen: BTreeMap<&'static str, Unseen>,
    most: BTreeMap<&'static str, Holding>,
    violations: Vec<(String, PathBuf)>,
    slowest: Vec<(Duration, String)>,
}

/// A scene and its oracle.
struct Stage {
    scene: Scene,
    oracle: Oracle,
    faults: u64,
    /// Runs that ended without a witness, with the reason.
    unseen: BTreeMap<&'static str, Unseen>,
}

impl Campaign {
    fn new(programs: Programs, seed: u64) -> Campaign {
        Campaign {
            programs,
            seed,
            begun: Instant::now(),
            faults: 0,
            kills: 0,
            lines: 0,
            ends: BTreeMap::new(),
            unseen: BTreeMap::new(),
            most: BTreeMap::new(),
            violations: Vec::new(),
            slowest: Vec::new(),
        }
    }

    fn all(&mut self, options: &Options, points: &[Point]) -> Result<()> {
        if options.points {
            let faults = points::faults(points, options.depth);
            let total = faults.len() as u64;
            // No service crashes by itself: only the requested commands pass each failpoint.
            self.stage_all(total, false, faults.into_iter().map(Thing::Fault))?;
        }
        if options.random {
            let mut dice = Dice::new(self.seed);
            let rounds = (0..options.rounds).map(|_| Thing::Round(Round::throw(&mut dice, points)));
            self.stage_all(options.rounds, true, rounds)?;
        }
        Ok(())
    }

    fn stage_all(
        &mut self,
        total: u64,
        crashing: bool,
        things: impl Iterator<Item = Thing>,
    ) -> Result<()> {
        let mut stage: Option<Stage> = None;
        for (number, thing) in (1..).zip(things) {
            if interrupt::happened() {
                if let Some(stage) = stage {
                    self.note(&stage);
                    stage.scene.remove()?;
                }
                bail!("interrupted");
            }
            let mut now = match stage.take() {
                Some(stage) => stage,
                None => Stage::begin(&self.programs, crashing)?,
            };
            self.progress(number, total, &thing);
            let begun = Instant::now();
            match now.strike(&thing) {
                Ok(kills) => {
                    self.slowest.push((begun.elapsed(), thing.to_string()));
                    self.slowest.sort();
                    self.slowest.drain(..self.slowest.len().saturating_sub(SLOWEST));
                    (self.faults, self.kills) = (self.faults + 1, self.kills + kills);
                    if now.faults < FAULTS_OF_A_SCENE {
                        stage = Some(now);
                    } else {
                        self.end(now, &format!("the end after {number}"));
                    }
                }
                // Ctrl-C also ends the commands of a round.
                Err(_) if interrupt::happened() => stage = Some(now),
                Err(why) => self.violation(now, &format!("{number}: {thing}: {why:#}")),
            }
            if self.violations.len() >= MAX_VIOLATIONS {
                bail!("enough");
            }
        }
        if let Some(stage) = stage {
            self.end(stage, "the end");
        }
        Ok(())
    }

    fn end(&mut self, mut stage: Stage, what: &str) {
        match stage.end() {
            Ok(()) => {
                self.note(&stage);
                if let Err(why) = stage.scene.remove() {
                    println!("{why:#}");
                }
            }
            Err(why) => self.violation(stage, &format!("{what}: {why:#}")),
        }
    }

    fn violation(&mut self, stage: Stage, what: &str) {
        self.note(&stage);
        let home = stage.scene.home.clone();
        println!("\nVIOLATION {what}\n  seed {}, kept: {}", self.seed, home.display());
        self.violations.push((what.to_owned(), home));
    }

    /// Adds the observations of a finished scene.
    fn note(&mut self, stage: &Stage) {
        let oracle = &stage.oracle;
        for (why, count) in &stage.unseen {
            let sum = self.unseen.entry(why).or_default();
            sum.ends += count.ends;
            sum.words += count.words;
        }
        self.lines += oracle.seen();
        for (end, count) in oracle.runs.iter().flat_map(|runs| &runs.ends) {
            *self.ends.entry(end.clone()).or_default() += count;
        }
        for (who, holding) in &oracle.most {
            let most = self.most.entry(who).or_default();
            most.descriptors = most.descriptors.max(holding.descriptors);
            most.threads = most.threads.max(holding.threads);
            most.memory_kib = most.memory_kib.max(holding.memory_kib);
        }
    }

    fn progress(&self, number: u64, total: u64, thing: &Thing) {
        if std::io::stdout().is_terminal() {
            let line = format!("{number} of {total}, {} kills: {thing}", self.kills);
            let line: String = line.chars().take(100).collect();
            print!("\r\x1b[K{line}");
            // Only a sign of life.
            let _ = std::io::stdout().flush();
        } else if number.is_multiple_of(100) {
            println!("{number} of {total}, {} kills", self.kills);
        }
    }

    fn report(&self) {
        let seconds = self.begun.elapsed().as_secs();
        println!(
            "\n{} faults, {} kills, {} lines read, {} violations, {seconds} s, seed {}",
            self.faults,
            self.kills,
            self.lines,
            self.violations.len(),
            self.seed
        );
        let ends: Vec<String> =
            self.ends.iter().map(|(end, count)| format!("{end}: {count}")).collect();
        println!("runs ended with {}", ends.join(", "));
        for (why, Unseen { ends, words }) in &self.unseen {
            println!("  without a witness {why}: {ends} ends, {words} last words");
        }
        for (who, most) in &self.most {
            println!(
                "the {who} held at most {} descriptors, {} threads, {} KiB",
                most.descriptors, most.threads, most.memory_kib
            );
        }
        for (took, what) in &self.slowest {
            println!("{:.1} s: {what}", took.as_secs_f64());
        }
        for (what, home) in &self.violations {
            println!("{what}\n  {}", home.display());
        }
    }
}

/// One fault or round.
enum Thing {
    Fault(Fault),
    Round(Round),
}

impl std::fmt::Display for Thing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Thing::Fault(fault) => fault.fmt(f),
            Thing::Round(round) => write!(f, "{round:?}"),
        }
    }
}

impl Stage {
    fn begin(programs: &Programs, crashing: bool) -> Result<Stage> {
        let mut scene = Scene::begin(programs, crashing)?;
        let oracle = Oracle::begin(&mut scene, crashing)
            .with_context(|| format!("cannot start a scene: {}", scene.home.display()))?;
        Ok(Stage { scene, oracle, faults: 0, unseen: BTreeMap::new() })
    }

    fn strike(&mut self, thing: &Thing) -> Result<u64> {
        self.faults += 1;
        let kills = match thing {
            Thing::Fault(fault) => points::strike(&mut self.scene, fault)?,
            Thing::Round(round) => round.play(&mut self.scene)?,
        };
        let unseen = self.oracle.check(&mut self.scene)?;
        match thing {
            Thing::Fault(_) => ensure!(unseen.words == 0, "last words lost: {unseen:?}"),
            Thing::Round(round) => {
                // The parent of a process learns its exit, and has its pipes.
                let nobody = unseen == Unseen::default();
                ensure!(nobody || !round.spares_keeper(), "lost on a living keeper: {unseen:?}");
                // The guard has a run's pipes before the process exists.
                let heard = unseen.words == 0 || !round.spares_guard();
                ensure!(heard, "last words lost although the guard lived: {unseen:?}");
                let sum = self.unseen.entry(round.blindness()).or_default();
                sum.ends += unseen.ends;
                sum.words += unseen.words;
            }
        }
        Ok(kills)
    }

    fn end(&mut self) -> Result<()> {
        self.scene.must(&["down"])?;
        oracle::nothing_left(&self.scene.home)
    }
}
