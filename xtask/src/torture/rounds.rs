//! The random half: somebody is killed at a random moment, perhaps while a command is under way.

use super::dice::Dice;
use super::points::restore;
use super::process::Role;
use super::scene::{Answer, EXTRA, Scene, TURNED};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::time::Duration;

/// Longer than any command here takes, so that kills come before, in and after all of it.
const LONGEST: Duration = Duration::from_millis(60);

/// One round, decided before it begins, so that it can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Round {
    under_way: Option<Order>,
    kills: Vec<(Duration, Role)>,
}

/// A command under fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Restart,
    Stop,
    Start,
    Add,
    Remove,
    Upgrade,
    List,
}

const ORDERS: &[Order] = &[
    Order::Restart,
    Order::Restart,
    Order::Stop,
    Order::Start,
    Order::Add,
    Order::Remove,
    Order::Upgrade,
    Order::Upgrade,
    Order::List,
];

impl Round {
    pub(crate) fn throw(dice: &mut Dice) -> Round {
        let under_way = (!dice.one_in(3)).then(|| *dice.of(ORDERS));
        let (keeper, daemon) = (Role::Keeper, Role::Daemon);
        let whom: &[Role] = match dice.below(10) {
            0..=1 => &[daemon],
            2..=4 => &[keeper],
            5 => &[keeper, daemon],
            6 => &[daemon, keeper],
            7 => &[keeper, keeper],
            8 => &[daemon, daemon],
            _ => &[keeper, daemon, keeper],
        };
        let together = dice.one_in(2);
        let mut kills = Vec::new();
        for (index, role) in whom.iter().enumerate() {
            let at_once = together && index > 0;
            let wait = if at_once { Duration::ZERO } else { dice.moment(LONGEST) };
            kills.push((wait, *role));
        }
        Round { under_way, kills }
    }

    /// Do it, bring Proctor back, and hold it to what it promised. How many processes were killed.
    pub(crate) fn play(&self, scene: &mut Scene) -> Result<u64> {
        let before = turned(scene)?;
        let victim = scene.victim();
        let order = self.under_way.map(|order| scene.start(&words(order, &victim))).transpose()?;
        let mut killed = 0;
        for (wait, role) in &self.kills {
            std::thread::sleep(*wait);
            killed += scene.kill(*role)?;
        }
        let answer = order.map(super::scene::Running::wait).transpose()?;
        scene.recover()?;
        if let (Some(order), Some(answer)) = (self.under_way, answer)
            && answer.is_ok()
        {
            super::oracle::settle(|| kept(order, &answer, &before, scene))?;
        }
        restore(scene)?;
        Ok(killed)
    }
}

fn words(order: Order, victim: &str) -> Vec<&str> {
    match order {
        Order::Restart => vec!["restart", TURNED],
        Order::Stop => vec!["stop", TURNED],
        Order::Start => vec!["start", TURNED],
        Order::Add => vec!["add", EXTRA, "--start", "--", victim],
        Order::Remove => vec!["remove", EXTRA, "--purge"],
        Order::Upgrade => vec!["daemon", "upgrade"],
        Order::List => vec!["list"],
    }
}

/// A command that said it was done was done, whoever died since.
fn kept(order: Order, answer: &Answer, before: &Value, scene: &mut Scene) -> Result<()> {
    let status = scene.status()?;
    let of = |name: &str| status.iter().find(|one| one["name"] == name);
    let now = of(TURNED).context("a service is gone")?;
    let promised = match order {
        Order::Restart => now["run"] != before["run"] && now["state"] == "running",
        Order::Stop => now["state"] == "stopped",
        Order::Start => now["state"] == "running",
        Order::Add => of(EXTRA).is_some_and(|extra| extra["state"] == "running"),
        Order::Remove => of(EXTRA).is_none(),
        Order::Upgrade | Order::List => now["run"] == before["run"],
    };
    ensure!(promised, "`proctor {}` said that it was done: {now:#}", answer.words);
    Ok(())
}

fn turned(scene: &mut Scene) -> Result<Value> {
    let status = scene.status()?;
    status.into_iter().find(|one| one["name"] == TURNED).context("a service is gone")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_repeat_with_their_seed_and_everything_comes() {
        let throw = |seed| {
            let mut dice = Dice::new(seed);
            (0..300).map(|_| Round::throw(&mut dice)).collect::<Vec<_>>()
        };
        let rounds = throw(1);
        assert_eq!(rounds, throw(1));
        for order in ORDERS {
            assert!(rounds.iter().any(|round| round.under_way == Some(*order)), "{order:?}");
        }
        assert!(rounds.iter().any(|round| round.under_way.is_none()));
        assert!(rounds.iter().any(|round| round.kills.len() == 3));
    }
}
