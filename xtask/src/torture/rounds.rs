//! The random half: a process is killed at a random moment, possibly during a command.

use super::dice::Dice;
use super::oracle::settle;
use super::points::{Action, Fault, Point, restore};
use super::process::Role;
use super::scene::{Answer, EXTRA, Running, Scene, THORNY, TURNED};
use anyhow::{Result, ensure};
use serde_json::Value;
use std::time::Duration;

/// Longer than any command here takes, so that kills come before, during and after it.
const MAX_DELAY: Duration = Duration::from_millis(60);

/// Kills in sequence before a check.
const STORM: usize = 6;

/// Maximum count for a failpoint in one round; more passes are a matter of chance.
const MAX_PASSES: u64 = 12;

/// One round, decided before it begins, so that it can be reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Round {
    under_way: Option<Order>,
    /// An additional failpoint that kills, if it is passed often enough.
    armed: Option<Fault>,
    kills: Vec<(Duration, Role)>,
}

/// A command during which faults happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Restart(&'static str),
    Stop(&'static str),
    Start(&'static str),
    Add,
    Remove,
    Upgrade,
    List,
}

const ORDERS: &[Order] = &[
    Order::Restart(TURNED),
    Order::Restart(THORNY),
    Order::Stop(TURNED),
    Order::Stop(THORNY),
    Order::Start(TURNED),
    Order::Add,
    Order::Remove,
    Order::Upgrade,
    Order::Upgrade,
    Order::List,
];

impl Round {
    pub(crate) fn throw(dice: &mut Dice, points: &[Point]) -> Round {
        let under_way = (!dice.one_in(3)).then(|| *dice.of(ORDERS));
        let armed = dice.one_in(3).then(|| Fault {
            point: dice.of(points).clone(),
            action: Action::Kill,
            nth: dice.below(MAX_PASSES) as u32 + 1,
        });
        let (keeper, daemon, guard) = (Role::Keeper, Role::Daemon, Role::Guard);
        let whom: Vec<Role> = match dice.below(15) {
            0..=1 => vec![daemon],
            2..=4 => vec![keeper],
            5 => vec![keeper, daemon],
            6 => vec![daemon, keeper],
            7 => vec![keeper, keeper],
            8 => vec![daemon, daemon],
            9 => vec![keeper, daemon, keeper],
            10 => vec![guard],
            11 => vec![guard, keeper],
            12 => vec![guard, keeper, daemon],
            _ => (0..STORM).map(|_| *dice.of(&[keeper, keeper, daemon])).collect(),
        };
        let together = dice.one_in(2);
        let mut kills = Vec::new();
        for (index, role) in whom.iter().enumerate() {
            let at_once = together && index > 0;
            let wait = if at_once { Duration::ZERO } else { dice.moment(MAX_DELAY) };
            kills.push((wait, *role));
        }
        Round { under_way, armed, kills }
    }

    /// The reason why the end of a run may be unknown.
    pub(crate) fn blindness(&self) -> &'static str {
        match (&self.kills[..], self.under_way, &self.armed) {
            _ if self.spares_keeper() => "while the keeper lived",
            _ if !self.spares_guard() => "when the guard was killed too",
            (_, Some(Order::Upgrade), _) => "in an upgrade, before which the daemon leaves",
            ([(_, Role::Keeper)], _, None) => "when the keeper alone was killed",
            _ => "when more than one was killed",
        }
    }

    /// Whether the keeper is not killed.
    pub(crate) fn spares_keeper(&self) -> bool {
        self.kills.iter().all(|(_, role)| *role != Role::Keeper) && self.armed.is_none()
    }

    /// Whether the guard is not killed, so that one process is left.
    pub(crate) fn spares_guard(&self) -> bool {
        let is_struck = |fault: &Fault| fault.point.name == "guard.start";
        self.kills.iter().all(|(_, role)| *role != Role::Guard)
            && !self.armed.as_ref().is_some_and(is_struck)
    }

    /// Plays the round, recovers Proctor and checks its promises. Returns the number of killed
    /// processes.
    pub(crate) fn play(&self, scene: &mut Scene) -> Result<u64> {
        let before = scene.status()?;
        let victim = scene.victim();
        let order = self.under_way.map(|order| scene.start(&words(order, &victim))).transpose()?;
        let mut killed = 0;
        self.armed.as_ref().map_or(Ok(()), |fault| fault.arm(scene))?;
        for (index, (wait, role)) in self.kills.iter().enumerate() {
            if index > 2 {
                // No process may be left by now.
                scene.recover()?;
            }
            std::thread::sleep(*wait);
            killed += scene.kill(*role);
        }
        let answer = order.map(Running::wait).transpose()?;
        if self.spares_guard() {
            // No restart was requested.
            settle(|| {
                ensure!(!scene.own(Role::Keeper).is_empty(), "no keeper was started");
                Ok(())
            })?;
        }
        scene.recover()?;
        if self.armed.as_ref().is_some_and(|fault| fault.disarm(scene)) {
            killed += 1;
            // It may have acted a moment ago.
            scene.recover()?;
        }
        if let (Some(order), Some(answer)) = (self.under_way, answer)
            && answer.is_ok()
        {
            settle(|| kept(order, &answer, &before, &scene.status()?))?;
        }
        restore(scene)?;
        Ok(killed)
    }
}

fn words(order: Order, victim: &str) -> Vec<&str> {
    match order {
        Order::Restart(name) => vec!["restart", name],
        Order::Stop(name) => vec!["stop", name],
        Order::Start(name) => vec!["start", name],
        Order::Add => vec!["add", EXTRA, "--start", "--", victim],
        Order::Remove => vec!["remove", EXTRA, "--purge"],
        Order::Upgrade => vec!["daemon", "upgrade"],
        Order::List => vec!["list"],
    }
}

/// Checks that a command that reported success has taken effect, whatever died since.
fn kept(order: Order, answer: &Answer, before: &[Value], now: &[Value]) -> Result<()> {
    let of = |all: &[Value], name: &str| all.iter().find(|one| one["name"] == name).cloned();
    let is = |name, state: &str| of(now, name).is_some_and(|one| one["state"] == state);
    let run = |all, name| of(all, name).map(|one| one["run"].clone());
    let promised = match order {
        Order::Restart(name) => is(name, "running") && run(now, name) != run(before, name),
        Order::Stop(name) => is(name, "stopped"),
        Order::Start(name) => is(name, "running"),
        Order::Add => is(EXTRA, "running"),
        Order::Remove => of(now, EXTRA).is_none(),
        Order::Upgrade | Order::List => run(now, TURNED) == run(before, TURNED),
    };
    ensure!(promised, "`proctor {}` reported success without effect: {now:#?}", answer.words);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_repeat_with_their_seed_and_everything_comes() {
        let throw = |seed| {
            let mut dice = Dice::new(seed);
            let points = super::super::points::parse("spawn.fork step\nrun.made moment").unwrap();
            (0..300).map(|_| Round::throw(&mut dice, &points)).collect::<Vec<_>>()
        };
        let rounds = throw(1);
        assert_eq!(rounds, throw(1));
        for order in ORDERS {
            assert!(rounds.iter().any(|round| round.under_way == Some(*order)), "{order:?}");
        }
        assert!(rounds.iter().any(|round| round.under_way.is_none()));
        assert!(rounds.iter().any(|round| round.kills.len() == 3));
        assert!(rounds.iter().any(|round| round.kills.len() == STORM));
        assert!(rounds.iter().any(|round| round.armed.is_some()));
        assert!(rounds.iter().any(|round| !round.spares_guard()));
    }
}
