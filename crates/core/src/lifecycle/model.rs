//! Compares the machine with a reference model in a hostile world, using random scripts.
//!
//! After each event three results must agree: those of the machine, of the machine restored from
//! its stored form, and of the reference. The world adds conditions that must always hold: one run
//! at a time, no end without a run, no unknown run.
//!
//! A failing script is printed in shortened form. Add it to `tables.rs` as a row; no regression
//! files are kept.

mod reference;
mod world;

use super::{Event, Exit, Machine, Phase, Rules, SpawnFailure, Wish};
use crate::name::RunId;
use crate::spec::{Policy, RestartSpec};
use crate::stored::{self, machine::StoredMachine};
use crate::time::{Millis, Mono, Now, Wall};
use proptest::prelude::*;
use reference::{Reference, View};
use world::{Nature, Temper, World};

/// Enough for the slowest tree: grace, kill, a slow death, an escaped process, a second death.
const ROUNDS_TO_SETTLE: usize = 40;

#[derive(Debug, Clone)]
enum ModelStep {
    Pass(u64),
    /// Advances to the machine's deadline and ticks there.
    PassToDeadline,
    WallJumps(i64),
    Tick,
    Command(Command),
    /// Delivers one pending report, in any order; it may be delivered again.
    Deliver {
        which: usize,
        again: bool,
    },
    /// Loses a report of an empty tree. Exits are not lost: the kernel keeps them until they are
    /// read.
    Lose(usize),
    MainDies(Exit),
    OthersDie,
    Fork,
    Unhealthy,
    /// Reports about a run that is not the current one: an old one, or one that never existed.
    Forge {
        what: Forgery,
        which: usize,
    },
    /// Reports an empty tree while its main process still runs.
    EmptyTooEarly,
}

#[derive(Debug, Clone, Copy)]
enum Command {
    Up,
    Once,
    Down,
    Restart,
}

#[derive(Debug, Clone, Copy)]
enum Forgery {
    Started,
    SpawnFailed,
    Exited,
    TreeEmpty,
    Unhealthy,
}

/// The machine, the reference and the world on the same clock.
#[derive(Clone)]
struct Trial {
    restart: RestartSpec,
    grace: Millis,
    now: Now,
    machine: Machine,
    reference: Reference,
    world: World,
}

impl Trial {
    fn new(restart: RestartSpec, grace: Millis, natures: Vec<Nature>) -> Trial {
        let now = Now { mono: Mono(5_000_000), wall: Wall(1_000_000) };
        let reference = Reference::new(now, restart.clone(), grace);
        let (machine, world) = (Machine::new(now), World::new(natures));
        Trial { restart, grace, now, machine, reference, world }
    }

    fn take(&mut self, step: &ModelStep) {
        match step {
            ModelStep::Pass(milliseconds) => self.pass(Millis(*milliseconds)),
            ModelStep::PassToDeadline => self.pass_to_deadline(),
            ModelStep::WallJumps(by) => self.now.wall.0 += by,
            ModelStep::Tick => self.feed(Event::Tick),
            ModelStep::Command(command) => self.feed(event_of(*command)),
            ModelStep::Deliver { which, again } => self.deliver(*which, *again),
            ModelStep::Lose(which) => self.lose(*which),
            ModelStep::MainDies(exit) => self.world.main_dies(exit.clone()),
            ModelStep::OthersDie => self.world.others_die(0),
            ModelStep::Fork => self.world.fork(),
            ModelStep::Unhealthy => {
                if let Some(run) = self.machine.run() {
                    self.feed(Event::Unhealthy { run });
                }
            }
            ModelStep::Forge { what, which } => self.forge(*what, *which),
            ModelStep::EmptyTooEarly => {
                if let (Some(run), true) = (self.machine.run(), self.world.main_lives()) {
                    self.feed(Event::TreeEmpty { run });
                }
            }
        }
        self.check_world();
    }

    fn pass(&mut self, time: Millis) {
        self.now.mono = self.now.mono.plus(time);
        self.now.wall.0 += time.0 as i64 * 1000;
        self.world.round();
    }

    fn pass_to_deadline(&mut self) {
        if let Some(at) = self.machine.deadline() {
            self.pass(at.since(self.now.mono));
            self.feed(Event::Tick);
        }
    }

    fn deliver(&mut self, which: usize, again: bool) {
        if self.world.mail.is_empty() {
            return;
        }
        let which = which % self.world.mail.len();
        let event = self.world.mail[which].clone();
        if !again {
            self.world.mail.remove(which);
        }
        self.feed(event);
    }

    fn lose(&mut self, which: usize) {
        let which = which % self.world.mail.len().max(1);
        if matches!(self.world.mail.get(which), Some(Event::TreeEmpty { .. })) {
            self.world.mail.remove(which);
        }
    }

    fn forge(&mut self, what: Forgery, which: usize) {
        let next = RunId(self.world.runs.last().map_or(1, |run| run.0 + 1));
        let old = self.world.runs.get(which % (self.world.runs.len() + 1)).copied();
        let run = old.filter(|run| self.machine.run() != Some(*run)).unwrap_or(next);
        let failure = SpawnFailure { step: "run".into(), subject: "forged".into(), errno: 1 };
        self.feed(match what {
            Forgery::Started => Event::Started { run },
            Forgery::SpawnFailed => Event::SpawnFailed { run, failure },
            Forgery::Exited => Event::Exited { run, exit: Exit::Code(1), tree_empty: true },
            Forgery::TreeEmpty => Event::TreeEmpty { run },
            Forgery::Unhealthy => Event::Unhealthy { run },
        });
    }

    /// Sends one event to the machine, its restored double and the reference; performs the actions
    /// they agree on.
    fn feed(&mut self, event: Event) {
        let rules = Rules { restart: &self.restart, grace: self.grace };
        let bytes = stored::encode(&StoredMachine::from(&self.machine));
        let read: StoredMachine<'_> = stored::decode(&bytes).unwrap();
        let mut restored = Machine::try_from(read).unwrap();
        assert_eq!(restored, self.machine, "not the same after it was stored");
        let (mut actions, mut of_restored) = (Vec::new(), Vec::new());
        self.machine.handle(self.now, rules, event.clone(), &mut actions);
        restored.handle(self.now, rules, event.clone(), &mut of_restored);
        assert_eq!(
            (&restored, &of_restored),
            (&self.machine, &actions),
            "two outcomes of {event:?}"
        );

        let expected = self.reference.step(self.now, &event, self.machine.deadline());
        assert_eq!(actions, expected, "actions after {event:?}");
        assert_eq!(self.view(), self.reference.view(), "after {event:?}");
        for action in &actions {
            self.world.perform(action);
        }
        self.check_deadline();
        self.check_budget();
    }

    fn view(&self) -> View {
        let phase = match self.machine.phase() {
            Phase::Down => "down",
            Phase::Held => "held",
            Phase::Backoff { .. } => "backoff",
            Phase::Starting { .. } => "starting",
            Phase::Up { .. } => "up",
            Phase::Stopping(_) => "stopping",
            Phase::Failed { .. } => "failed",
            Phase::Cooling { .. } => "cooling",
        };
        View {
            wish: self.machine.wish(),
            phase,
            run: self.machine.run(),
            deadline: self.machine.deadline(),
            since: self.machine.since(),
            restarts: self.machine.restarts(),
            last_exit: self.machine.last_exit().cloned(),
        }
    }

    /// A deadline exists if something waits for time, and nothing happens before it.
    fn check_deadline(&self) {
        let waits = matches!(self.view().phase, "backoff" | "cooling" | "stopping");
        assert_eq!(self.machine.deadline().is_some(), waits, "a deadline in {}", self.view().phase);
        if self.machine.deadline().is_none_or(|at| self.now.mono < at) {
            let (mut machine, mut actions) = (self.machine.clone(), Vec::new());
            let rules = Rules { restart: &self.restart, grace: self.grace };
            machine.handle(self.now, rules, Event::Tick, &mut actions);
            assert_eq!((machine, actions), (self.machine.clone(), Vec::new()), "an early tick");
        }
    }

    /// No window contains more restarts after crashes than allowed.
    fn check_budget(&self) {
        let Some(most) = self.restart.max_restarts else { return };
        for several in self.reference.crash_restarts().windows(most as usize + 1) {
            let span = several[several.len() - 1].since(several[0]);
            assert!(span >= self.restart.window, "{} restarts within {span:?}", several.len());
        }
    }

    /// At most one run is alive, and the machine knows it.
    fn check_world(&self) {
        let living = self.world.living();
        assert!(living.len() <= 1, "more than one run: {living:?}");
        assert!(
            living.iter().all(|run| self.machine.run() == Some(*run)),
            "{living:?} is forgotten"
        );
    }

    fn deliver_all(&mut self) {
        while !self.world.mail.is_empty() {
            self.deliver(0, false);
            self.check_world();
        }
    }

    /// Delivers every report and meets every deadline until the service is in `phase` and nothing
    /// is pending.
    fn settles_in(mut self, phase: &str) {
        for _ in 0..ROUNDS_TO_SETTLE {
            self.deliver_all();
            if self.view().phase == phase {
                let expected = self.machine.run().into_iter().collect::<Vec<_>>();
                assert_eq!(self.world.living(), expected, "what lives while it is {phase}");
                return;
            }
            self.pass_to_deadline();
            self.pass(Millis(1));
            self.check_world();
        }
        panic!("it never was {phase}: {:?} with {:?}", self.machine, self.world);
    }
}

fn event_of(command: Command) -> Event {
    match command {
        Command::Up => Event::SetWish(Wish::Up),
        Command::Once => Event::SetWish(Wish::Once),
        Command::Down => Event::SetWish(Wish::Down),
        Command::Restart => Event::Restart,
    }
}

fn any_policy() -> impl Strategy<Value = Policy> {
    prop_oneof![
        4 => Just(Policy::Always),
        3 => Just(Policy::OnFailure),
        1 => Just(Policy::Never),
        1 => Just(Policy::OneShot),
    ]
}

fn any_rules() -> impl Strategy<Value = RestartSpec> {
    let budget = (
        prop_oneof![Just(None), (0u32..4).prop_map(Some)],
        // Uses the same steps as the clock, so that scripts hit the window's edge exactly.
        (0u64..40).prop_map(|n| Millis(n * 200)),
        proptest::option::of((0u64..3000).prop_map(Millis)),
    );
    let ladder = (
        prop_oneof![Just(None), Just(Some(Millis(0))), (1u64..900).prop_map(|n| Some(Millis(n)))],
        (0u64..5000).prop_map(Millis),
        prop_oneof![Just(1.0), Just(1.5), Just(2.0), Just(3.0)],
        prop_oneof![Just(0.0), Just(0.5), Just(1.0)],
        (0u64..2000).prop_map(Millis),
    );
    let codes = prop_oneof![Just(vec![0]), Just(vec![0, 3]), Just(vec![])];
    (any_policy(), codes, budget, ladder).prop_map(|(policy, success_codes, budget, ladder)| {
        let (max_restarts, window, cool_off) = budget;
        let (delay, max_delay, backoff, jitter, stable_after) = ladder;
        RestartSpec {
            policy,
            success_codes,
            max_restarts,
            window,
            delay,
            max_delay,
            backoff,
            jitter,
            stable_after,
            cool_off,
        }
    })
}

fn any_nature() -> impl Strategy<Value = Nature> {
    let temper = prop_oneof![
        Just(Temper::Obeys),
        Just(Temper::EndsInTwo),
        Just(Temper::LeavesOthers),
        Just(Temper::Deaf)
    ];
    (prop::bool::weighted(0.8), temper, 0u8..3, 0u8..4, prop::bool::weighted(0.2)).prop_map(
        |(can_be_made, temper, others, dies_slowly, slips_through)| Nature {
            can_be_made,
            temper,
            others,
            dies_slowly,
            slips_through,
        },
    )
}

fn any_exit() -> impl Strategy<Value = Exit> {
    prop_oneof![
        prop_oneof![Just(0), Just(1), Just(3)].prop_map(Exit::Code),
        Just(Exit::Signal { signal: 11, oom: false, core: true }),
        Just(Exit::Unknown),
    ]
}

fn any_step() -> impl Strategy<Value = ModelStep> {
    let command = prop_oneof![
        3 => Just(Command::Up),
        1 => Just(Command::Once),
        1 => Just(Command::Down),
        1 => Just(Command::Restart),
    ];
    let forgery = prop_oneof![
        Just(Forgery::Started),
        Just(Forgery::SpawnFailed),
        Just(Forgery::Exited),
        Just(Forgery::TreeEmpty),
        Just(Forgery::Unhealthy)
    ];
    prop_oneof![
        4 => prop_oneof![0u64..50, (0u64..15).prop_map(|n| n * 200)].prop_map(ModelStep::Pass),
        6 => Just(ModelStep::PassToDeadline),
        1 => (-9_000_000_000i64..5_000_000).prop_map(ModelStep::WallJumps),
        2 => Just(ModelStep::Tick),
        4 => command.prop_map(ModelStep::Command),
        12 => (any::<usize>(), prop::bool::weighted(0.2))
            .prop_map(|(which, again)| ModelStep::Deliver { which, again }),
        1 => any::<usize>().prop_map(ModelStep::Lose),
        6 => any_exit().prop_map(ModelStep::MainDies),
        1 => Just(ModelStep::OthersDie),
        1 => Just(ModelStep::Fork),
        1 => Just(ModelStep::Unhealthy),
        2 => (forgery, any::<usize>()).prop_map(|(what, which)| ModelStep::Forge { what, which }),
        1 => Just(ModelStep::EmptyTooEarly),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_machine_does_what_the_reference_says_in_a_hostile_world(
        restart in any_rules(),
        grace in (0u64..2000).prop_map(Millis),
        natures in prop::collection::vec(any_nature(), 1..12),
        steps in prop::collection::vec(any_step(), 1..120),
    ) {
        let mut trial = Trial::new(restart, grace, natures);
        for step in &steps {
            trial.take(step);
        }

        let mut unwanted = trial.clone();
        unwanted.feed(Event::SetWish(Wish::Down));
        unwanted.settles_in("down");

        let mut wanted = trial;
        wanted.world.turn_good();
        wanted.deliver_all();
        wanted.feed(Event::SetWish(Wish::Up));
        wanted.settles_in("up");
    }
}
