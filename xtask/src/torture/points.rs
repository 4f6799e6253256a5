//! The deterministic half: every failpoint with every action, in sequence.
//!
//! The program under test lists its failpoints. The first word of a name selects the trigger that
//! makes Proctor pass it. A point that is not passed is a violation, so that none becomes stale.

use super::options::Depth;
use super::process::Role;
use super::scene::{EXTRA, Scene, THORNY, TURNED};
use anyhow::{Context as _, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Maximum time from a trigger to its failpoint.
const PASS_TIMEOUT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(1);

/// A failpoint as the program lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) name: String,
    can_fail: bool,
}

/// The action of an armed failpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Kill,
    Abort,
    Error,
}

impl Action {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Action::Kill => "kill",
            Action::Abort => "abort",
            Action::Error => "error",
        }
    }
}

/// One fault: at the `nth` time that the point is passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) point: Point,
    pub(crate) action: Action,
    pub(crate) nth: u32,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {} (pass {})", self.action.word(), self.point.name, self.nth)
    }
}

/// The trigger that makes Proctor pass a failpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trigger {
    /// The services' own output.
    Output,
    Restart,
    StopAndStart,
    AddAndRemove,
    WriteTwice,
    KillDaemon,
    KillKeeper,
    KillGuard,
    KillBoth,
    Upgrade,
    End,
}

const TRIGGERS: &[(&str, Trigger)] = &[
    ("spawn", Trigger::Restart),
    ("child", Trigger::Restart),
    ("run", Trigger::Restart),
    ("state.empty", Trigger::AddAndRemove),
    ("state", Trigger::Restart),
    ("persist", Trigger::AddAndRemove),
    ("log.end", Trigger::Restart),
    ("log", Trigger::Output),
    ("rotate", Trigger::Output),
    ("retain", Trigger::Output),
    ("store", Trigger::StopAndStart),
    ("owner", Trigger::StopAndStart),
    ("audit", Trigger::StopAndStart),
    ("file", Trigger::WriteTwice),
    ("define", Trigger::AddAndRemove),
    ("remove", Trigger::AddAndRemove),
    ("daemon", Trigger::KillDaemon),
    ("keeper", Trigger::KillKeeper),
    ("takeover", Trigger::KillKeeper),
    ("role", Trigger::KillKeeper),
    ("guard.spawn", Trigger::KillGuard),
    ("guard.start", Trigger::KillBoth),
    ("guard", Trigger::Restart),
    ("upgrade", Trigger::Upgrade),
    ("end", Trigger::End),
];

/// Parses the table: lines of a name and a kind.
pub(crate) fn parse(table: &str) -> Result<Vec<Point>> {
    let point = |line: &str| {
        let (name, kind) = line.split_once(' ')?;
        Some(Point { name: name.to_owned(), can_fail: kind == "step" })
    };
    table.lines().map(|line| point(line).with_context(|| format!("not a point: {line}"))).collect()
}

/// Every point with every action it supports.
pub(crate) fn faults(points: &[Point], depth: Depth) -> Vec<Fault> {
    let passes: &[u32] = if depth == Depth::Deep { &[2, 3, 5, 8] } else { &[] };
    let mut faults = Vec::new();
    for point in points {
        let mut add = |action, nth| faults.push(Fault { point: point.clone(), action, nth });
        add(Action::Kill, 1);
        if depth != Depth::Short {
            add(Action::Abort, 1);
        }
        if point.can_fail {
            add(Action::Error, 1);
        }
        for nth in passes {
            add(Action::Kill, *nth);
            if point.can_fail {
                add(Action::Error, *nth);
            }
        }
    }
    faults
}

impl Fault {
    pub(crate) fn arm(&self, scene: &Scene) -> Result<()> {
        let content = format!("{} {}", self.action.word(), self.nth);
        scene.write(&format!("failpoints/{}", self.point.name), &content)
    }

    fn hit(&self, scene: &Scene) -> PathBuf {
        scene.home.join(format!("failpoints/{}.hit", self.point.name))
    }

    /// Disarms the point; returns true if it has acted. A point that was not passed often enough
    /// has not.
    pub(crate) fn disarm(&self, scene: &Scene) -> bool {
        let _ = std::fs::remove_file(self.hit(scene).with_extension(""));
        std::fs::remove_file(self.hit(scene)).is_ok()
    }
}

/// Arms the point, triggers it and recovers Proctor. Returns the number of killed processes.
pub(crate) fn strike(scene: &mut Scene, fault: &Fault) -> Result<u64> {
    let trigger = trigger(&fault.point)?;
    let hit = fault.hit(scene);
    if trigger == Trigger::KillDaemon {
        // A keeper whose daemons die repeatedly waits longer each time; a replaced one does not.
        scene.must(&["daemon", "upgrade"])?;
    }
    fault.arm(scene)?;
    let mut kills = pull(scene, trigger, &hit)?;
    scene.recover()?;
    if !hit.exists() && fault.nth == 1 {
        wait_for(&hit).with_context(|| format!("{} is never passed", fault.point.name))?;
        scene.recover()?;
    }
    if fault.disarm(scene) && fault.action != Action::Error {
        kills += 1;
        // It may have acted a moment ago.
        scene.recover()?;
    }
    restore(scene)?;
    Ok(kills)
}

fn trigger(point: &Point) -> Result<Trigger> {
    let found = TRIGGERS.iter().find(|(beginning, _)| point.name.starts_with(beginning));
    let (_, trigger) = found.with_context(|| format!("no trigger passes {}", point.name))?;
    Ok(*trigger)
}

/// Runs the trigger. Commands may fail, because faults hit them.
fn pull(scene: &mut Scene, trigger: Trigger, hit: &Path) -> Result<u64> {
    match trigger {
        Trigger::Output => wait_for(hit).map(|()| 0).or(Ok(0)),
        Trigger::Restart => scene.run(&["restart", TURNED]).map(|_| 0),
        Trigger::StopAndStart => {
            scene.run(&["stop", TURNED])?;
            scene.run(&["start", TURNED]).map(|_| 0)
        }
        Trigger::AddAndRemove => {
            let victim = scene.victim();
            scene.run(&["add", EXTRA, "--start", "--", &victim])?;
            scene.run(&["remove", EXTRA, "--purge"]).map(|_| 0)
        }
        Trigger::WriteTwice => {
            for content in ["one\n", "two\n"] {
                scene.run(&["file", "write", "edited.txt", "--content", content])?;
            }
            Ok(0)
        }
        Trigger::KillDaemon => Ok(scene.kill(Role::Daemon)),
        Trigger::KillKeeper => Ok(scene.kill(Role::Keeper)),
        Trigger::KillGuard => Ok(scene.kill(Role::Guard)),
        Trigger::KillBoth => {
            let killed = scene.kill_both();
            // Before a command does the guard's work.
            wait_for(hit).map(|()| killed).or(Ok(killed))
        }
        Trigger::Upgrade => scene.run(&["daemon", "upgrade"]).map(|_| 0),
        Trigger::End => scene.run(&["daemon", "stop"]).map(|_| 0),
    }
}

/// Completes what interrupted commands left: every service runs, and nothing else was added.
pub(crate) fn restore(scene: &mut Scene) -> Result<()> {
    // Whatever their state: a new daemon may be about to carry out an unanswered stop.
    let answer = scene.insist(&["start", TURNED, THORNY])?;
    ensure!(answer.is_ok(), "cannot start {TURNED} and {THORNY}: {}", answer.errors);
    if scene.status()?.iter().any(|one| one["name"] == EXTRA) {
        let answer = scene.insist(&["remove", EXTRA, "--purge"])?;
        // It may have been on its way out.
        let unknown = answer.status.code() == Some(3);
        ensure!(answer.is_ok() || unknown, "cannot remove {EXTRA}: {}", answer.errors);
    }
    Ok(())
}

fn wait_for(hit: &Path) -> Result<()> {
    let begun = Instant::now();
    while !hit.exists() {
        if begun.elapsed() > PASS_TIMEOUT {
            bail!("{} did not appear", hit.display());
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(name: &str, can_fail: bool) -> Point {
        Point { name: name.to_owned(), can_fail }
    }

    #[test]
    fn the_table_becomes_faults() {
        let points = parse("spawn.fork step\nspawn.forked moment\n").unwrap();
        assert_eq!(points, [point("spawn.fork", true), point("spawn.forked", false)]);
        let said: Vec<String> =
            faults(&points, Depth::Usual).iter().map(Fault::to_string).collect();
        let expected = [
            "kill at spawn.fork (pass 1)",
            "abort at spawn.fork (pass 1)",
            "error at spawn.fork (pass 1)",
            "kill at spawn.forked (pass 1)",
            "abort at spawn.forked (pass 1)",
        ];
        assert_eq!(said, expected);
        assert!(parse("nonsense").is_err());
    }

    #[test]
    fn a_point_that_nothing_passes_is_noticed() {
        assert_eq!(trigger(&point("log.ended", false)).unwrap(), Trigger::Restart);
        assert_eq!(trigger(&point("log.moved", false)).unwrap(), Trigger::Output);
        assert!(trigger(&point("moon.rise", false)).is_err());
    }
}
