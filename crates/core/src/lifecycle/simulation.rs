//! Simulates many services through a virtual day in a fake kernel, with keepers that die at any
//! moment.
//!
//! A keeper's death loses its actions in progress and the reports on their way to it. The machines
//! are restored from their stored form, and the new keeper reports to each what it finds. At the
//! end no run may be doubled or forgotten, and every run is accounted for. `model.rs` tests the
//! order of single events.

mod kernel;

use super::{Action, Event, Exit, FailReason, Machine, Phase, Rules, Wish};
use crate::spec::{Policy, RestartSpec};
use crate::stored::{self, machine::StoredMachine};
use crate::time::Millis;
use kernel::{HOUR, Kernel, KernelEvent, Random, SECOND};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Ten times the events of a day of five hundred services; more is a loop.
const MAX_EVENTS: u32 = 600_000;

/// A service as its keeper knows it, and the records kept on it from outside.
struct Service {
    restart: RestartSpec,
    grace: Millis,
    machine: Machine,
    /// The time of the alarm that is set.
    alarm: Option<u64>,
    books: RunLedger,
}

#[derive(Debug, Default)]
struct RunLedger {
    spawned: u64,
    ended: u64,
    never_made: u64,
    restarted_by_itself: u64,
    /// A person's request reached the run while it was stopping.
    owed_a_run: bool,
}

/// Counts each kind of trouble, so that a simulation without trouble is noticed.
#[derive(Debug, Default, PartialEq, Eq)]
struct FaultCounts {
    ends_while_wanted: u64,
    kills: u64,
    unhealthy: u64,
    failed_spawns: u64,
    unknown_exits: u64,
    runs_never_made: u64,
    keeper_deaths: u64,
    budgets_spent: u64,
    cool_offs: u64,
}

struct Simulation {
    kernel: Kernel,
    services: Vec<Service>,
    /// The machines in stored form, from which a new keeper starts.
    stored: Vec<Vec<u8>>,
    trouble: FaultCounts,
    digest: DefaultHasher,
}

impl Simulation {
    /// Runs `services` through a day of chaos and the quiet after it, until no event is left.
    fn of_a_day(seed: u64, services: usize) -> Simulation {
        let mut kernel = Kernel::new(seed, services);
        let now = kernel.now();
        let services: Vec<_> = (0..services)
            .map(|_| Service {
                restart: some_rules(&mut kernel.random),
                grace: Millis(kernel.random.below(10_000)),
                machine: Machine::new(now),
                alarm: None,
                books: RunLedger::default(),
            })
            .collect();
        let mut it = Simulation {
            kernel,
            services,
            stored: Vec::new(),
            trouble: FaultCounts::default(),
            digest: DefaultHasher::new(),
        };
        it.kernel.after(HOUR, KernelEvent::KeeperDies);
        for service in 0..it.services.len() {
            it.handle(service, Event::SetWish(Wish::Up));
            it.plan_command(service);
        }
        let mut happenings = 0;
        while let Some(happening) = it.kernel.next() {
            it.happen(happening);
            happenings += 1;
            assert!(happenings < MAX_EVENTS, "seed {seed} never comes to rest");
        }
        it
    }

    fn happen(&mut self, happening: KernelEvent) {
        let present = self.kernel.keeper;
        match happening {
            KernelEvent::MainEnds { service, run, exit } => {
                self.kernel.main_ends(service, run, exit)
            }
            KernelEvent::TreeEnds { service, run, but } => self.kernel.tree_ends(service, run, but),
            KernelEvent::Hangs { service, run } => self.kernel.hangs(service, run),
            KernelEvent::Perform { keeper, service, action } if present == Some(keeper) => {
                self.kernel.perform(service, action);
            }
            KernelEvent::Report { keeper, service, event } if present == Some(keeper) => {
                self.handle(service, event);
            }
            KernelEvent::Alarm { keeper, service } if present == Some(keeper) => {
                self.handle(service, Event::Tick);
            }
            // Belongs to a keeper that is dead.
            KernelEvent::Perform { .. }
            | KernelEvent::Report { .. }
            | KernelEvent::Alarm { .. } => {}
            KernelEvent::Command { service } => self.command(service),
            KernelEvent::KeeperDies => self.keeper_dies(),
            KernelEvent::KeeperReturns => self.keeper_returns(),
        }
    }

    /// A person sends a command from time to time; it is lost while no keeper lives.
    fn command(&mut self, service: usize) {
        let event = match self.kernel.random.below(8) {
            0 => Event::SetWish(Wish::Once),
            1 => Event::SetWish(Wish::Down),
            2 | 3 => Event::Restart,
            _ => Event::SetWish(Wish::Up),
        };
        if self.kernel.keeper.is_some() {
            self.handle(service, event);
        }
        self.plan_command(service);
    }

    fn plan_command(&mut self, service: usize) {
        // Often in quick succession, so that a command interrupts the effect of the last one.
        let most =
            [SECOND / 1000, 5 * SECOND, 6 * HOUR, 6 * HOUR][self.kernel.random.below(4) as usize];
        let wait = self.kernel.random.below(most);
        if self.kernel.is_day(self.kernel.clock + wait) {
            self.kernel.after(wait, KernelEvent::Command { service });
        }
    }

    fn handle(&mut self, index: usize, event: Event) {
        let now = self.kernel.now();
        let service = &mut self.services[index];
        let rules = Rules { restart: &service.restart, grace: service.grace };
        let mut actions = Vec::new();
        service.machine.handle(now, rules, event.clone(), &mut actions);
        service.books.keep(&service.machine, &event, &actions);
        self.trouble.count(&service.machine, &event, &actions);
        (self.kernel.clock, index).hash(&mut self.digest);
        format!("{event:?} {actions:?}").hash(&mut self.digest);
        // The worst moment for a keeper to die is between a decision and its action.
        let unlucky = !actions.is_empty() && self.kernel.random.one_in(200);
        if unlucky && self.kernel.is_day(self.kernel.clock) {
            let soon = self.kernel.random.below(1000);
            self.kernel.after(soon, KernelEvent::KeeperDies);
        }
        self.set_about(index, actions);
    }

    fn set_about(&mut self, index: usize, actions: Vec<Action>) {
        for action in actions {
            self.kernel.set_about(index, action);
        }
        let service = &mut self.services[index];
        let deadline = service.machine.deadline().map(|at| at.0);
        if let (Some(at), Some(keeper)) = (deadline, self.kernel.keeper)
            && deadline != service.alarm
        {
            let wait = at.saturating_sub(self.kernel.clock);
            self.kernel.after(wait, KernelEvent::Alarm { keeper, service: index });
        }
        service.alarm = deadline;
    }

    fn keeper_dies(&mut self) {
        if self.kernel.keeper.take().is_none() {
            return;
        }
        self.trouble.keeper_deaths += 1;
        let store = |service: &Service| stored::encode(&StoredMachine::from(&service.machine));
        self.stored = self.services.iter().map(store).collect();
        let absence = match self.kernel.random.below(3) {
            0 => self.kernel.random.below(60 * SECOND),
            _ => self.kernel.random.below(SECOND / 10),
        };
        self.kernel.after(absence, KernelEvent::KeeperReturns);
    }

    /// Starts a new keeper, which knows only the stored state and what it can observe.
    fn keeper_returns(&mut self) {
        self.kernel.keeper = Some(self.trouble.keeper_deaths as u32);
        self.kernel.wall += self.kernel.random.below(2 * HOUR) as i64 - HOUR as i64;
        for (index, bytes) in std::mem::take(&mut self.stored).iter().enumerate() {
            let read: StoredMachine<'_> = stored::decode(bytes).unwrap();
            self.services[index].machine = read.try_into().unwrap();
            self.services[index].alarm = None;
            self.take_over(index);
        }
        let next = self.kernel.random.below(3 * HOUR);
        if self.kernel.is_day(self.kernel.clock + next) {
            self.kernel.after(next, KernelEvent::KeeperDies);
        }
    }

    fn take_over(&mut self, index: usize) {
        let tree = self.kernel.trees[index].clone();
        let Some(run) = self.services[index].machine.run() else {
            assert!(tree.is_none(), "service {index}: nobody knows of {tree:?}");
            return self.set_about(index, Vec::new());
        };
        let gone = |tree_empty| Event::Exited { run, exit: Exit::Unknown, tree_empty };
        match tree {
            Some(tree) => {
                assert_eq!(tree.run, run, "service {index}: another run lives");
                self.handle(index, if tree.main { Event::Started { run } } else { gone(false) });
            }
            None if self.kernel.records[index] == run => self.handle(index, gone(true)),
            None => self.never_made(index),
        }
    }

    fn never_made(&mut self, index: usize) {
        let mut actions = Vec::new();
        let service = &mut self.services[index];
        service.machine.run_was_never_made(self.kernel.now(), &mut actions);
        service.books.never_made += 1;
        service.books.spawned += actions.len() as u64;
        service.books.owed_a_run = false;
        self.trouble.runs_never_made += 1;
        self.set_about(index, actions);
    }

    /// After the chaos every service is in the state that its wish, its policy and its budget
    /// require.
    fn check_end(&self) {
        for (index, service) in self.services.iter().enumerate() {
            let machine = &service.machine;
            let tree = self.kernel.trees[index].as_ref();
            let lives = tree.filter(|tree| tree.main).map(|tree| tree.run);
            assert_eq!(machine.run(), lives, "service {index}: {machine:?} with {tree:?}");
            assert!(service.is_at_home(), "service {index} is forgotten: {machine:?}");
            service.books.check(machine);
        }
    }
}

impl Service {
    fn is_at_home(&self) -> bool {
        let policy = self.restart.policy;
        let good = self
            .machine
            .last_exit()
            .is_some_and(|last| last.exit.is_success(&self.restart.success_codes));
        match (self.machine.phase(), self.machine.wish()) {
            (Phase::Up { .. }, Wish::Up | Wish::Once) => true,
            (Phase::Down, Wish::Down) => true,
            (Phase::Down, Wish::Up) => policy != Policy::Always && good,
            // A one-time run that failed.
            (Phase::Failed { why: FailReason::Exited }, Wish::Down) => true,
            (Phase::Failed { why: FailReason::Exited }, Wish::Up) => {
                matches!(policy, Policy::Never | Policy::OneShot)
            }
            (Phase::Failed { why: FailReason::BudgetSpent { restarts } }, Wish::Up) => {
                self.restart.max_restarts == Some(*restarts) && self.restart.cool_off.is_none()
            }
            (Phase::Failed { .. } | Phase::Down, _) | (Phase::Up { .. }, Wish::Down) => false,
            // No event is left, so nothing may be waiting.
            (Phase::Held | Phase::Backoff { .. } | Phase::Starting { .. }, _) => false,
            (Phase::Stopping(_) | Phase::Cooling { .. }, _) => false,
        }
    }
}

impl RunLedger {
    fn keep(&mut self, machine: &Machine, event: &Event, actions: &[Action]) {
        let asked = matches!(event, Event::Restart | Event::SetWish(Wish::Up | Wish::Once));
        if asked && matches!(machine.phase(), Phase::Stopping(_)) {
            self.owed_a_run = true;
        }
        for action in actions {
            match action {
                Action::Spawn { .. } => {
                    self.spawned += 1;
                    self.restarted_by_itself += u64::from(!asked && !self.owed_a_run);
                    self.owed_a_run = false;
                }
                Action::Ended { .. } => self.ended += 1,
                Action::Stop { .. } | Action::Kill { .. } => {}
            }
        }
        if machine.run().is_none() {
            self.owed_a_run = false;
        }
        self.check(machine);
    }

    fn check(&self, machine: &Machine) {
        let present = u64::from(machine.run().is_some());
        assert_eq!(self.spawned, self.ended + self.never_made + present, "{self:?} of {machine:?}");
        assert_eq!(machine.restarts(), self.restarted_by_itself, "{self:?} of {machine:?}");
    }
}

impl FaultCounts {
    fn count(&mut self, machine: &Machine, event: &Event, actions: &[Action]) {
        let failed_spawn = matches!(event, Event::SpawnFailed { .. });
        let unknown = matches!(event, Event::Exited { exit: Exit::Unknown, .. });
        let ended = actions.iter().any(|action| matches!(action, Action::Ended { .. }));
        let spent =
            matches!(machine.phase(), Phase::Failed { why: FailReason::BudgetSpent { .. } });
        self.ends_while_wanted += u64::from(ended && machine.wish() == Wish::Up);
        self.kills +=
            actions.iter().filter(|action| matches!(action, Action::Kill { .. })).count() as u64;
        self.unhealthy += u64::from(matches!(event, Event::Unhealthy { .. }));
        self.failed_spawns += u64::from(failed_spawn);
        self.unknown_exits += u64::from(unknown);
        self.budgets_spent += u64::from(ended && spent);
        self.cool_offs += u64::from(ended && matches!(machine.phase(), Phase::Cooling { .. }));
    }

    fn check(&self) {
        let enough = self.ends_while_wanted > 500
            && self.kills > 100
            && self.unhealthy > 20
            && self.failed_spawns > 20
            && self.unknown_exits > 0
            && self.runs_never_made > 0
            && self.keeper_deaths > 10
            && self.budgets_spent > 10
            && self.cool_offs > 10;
        assert!(enough, "the day was too quiet to prove anything: {self:?}");
    }
}

fn some_rules(random: &mut Random) -> RestartSpec {
    let policy = match random.below(8) {
        0 => Policy::Never,
        1 => Policy::OneShot,
        2..=4 => Policy::OnFailure,
        _ => Policy::Always,
    };
    RestartSpec {
        policy,
        success_codes: vec![0],
        max_restarts: [None, Some(0), Some(2), Some(10)][random.below(4) as usize],
        window: Millis::seconds(600),
        delay: [None, Some(Millis(0)), Some(Millis(5000))][random.below(3) as usize],
        max_delay: Millis::seconds(60),
        backoff: 2.0,
        jitter: 0.1,
        stable_after: Millis::seconds(10),
        cool_off: [None, Some(Millis::seconds(300))][random.below(2) as usize],
    }
}

#[test]
fn a_day_of_chaos_doubles_and_forgets_no_service() {
    for seed in [1, 2, 3] {
        let simulation = Simulation::of_a_day(seed, 500);
        simulation.check_end();
        simulation.trouble.check();
    }
}

#[test]
fn the_same_seed_is_the_same_day() {
    let day = |seed| {
        let simulation = Simulation::of_a_day(seed, 40);
        (simulation.digest.finish(), simulation.trouble)
    };
    assert_eq!(day(7), day(7));
    assert_ne!(day(7).0, day(8).0);
}
