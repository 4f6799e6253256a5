//! A fake kernel: a virtual clock, a queue of future events, and the processes of every service.
//!
//! A process acts whether a keeper lives or not. Reports on their way to a keeper and its actions
//! in progress are lost when it dies: such events carry the keeper's number.

use super::super::{Action, Event, Exit, SpawnFailure};
use crate::name::RunId;
use crate::time::{Mono, Now, Wall};
use std::collections::BTreeMap;

pub(super) const SECOND: u64 = 1_000_000;
pub(super) const HOUR: u64 = 3600 * SECOND;
pub(super) const DAY: u64 = 24 * HOUR;

/// Time from a keeper's decision to its action.
const HANDS: u64 = 500;
/// Interval between two probes of a hanging service.
const PROBE: u64 = 30 * SECOND;

#[derive(Debug, Clone)]
pub(super) enum KernelEvent {
    /// The main process exits; the rest of its tree stays.
    MainEnds {
        service: usize,
        run: RunId,
        exit: Exit,
    },
    /// All processes of the tree exit, except for this many.
    TreeEnds {
        service: usize,
        run: RunId,
        but: u32,
    },
    /// A probe detects that the run hangs.
    Hangs {
        service: usize,
        run: RunId,
    },
    Perform {
        keeper: u32,
        service: usize,
        action: Action,
    },
    Report {
        keeper: u32,
        service: usize,
        event: Event,
    },
    Alarm {
        keeper: u32,
        service: usize,
    },
    Command {
        service: usize,
    },
    KeeperDies,
    KeeperReturns,
}

/// SplitMix64: a sequence of numbers from a seed, the same on every machine.
#[derive(Debug, Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    /// Returns a number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    pub(super) fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) run: RunId,
    pub(super) main: bool,
    pub(super) others: u32,
    temper: u64,
}

/// Weights of the reactions of a tree to the stop signal.
const OBEYS: u64 = 5;
const LEAVES_OTHERS: u64 = 6;
const TEMPERS: u64 = 8;

pub(super) struct Kernel {
    pub(super) clock: u64,
    /// Offset of the wall clock from the monotonic one; it jumps.
    pub(super) wall: i64,
    pub(super) random: Random,
    /// `None` while no keeper lives.
    pub(super) keeper: Option<u32>,
    /// The live processes of each service.
    pub(super) trees: Vec<Option<Tree>>,
    /// The newest run of each service that has a process: its run record.
    pub(super) records: Vec<RunId>,
    queue: BTreeMap<(u64, u64), KernelEvent>,
    order: u64,
}

impl Kernel {
    pub(super) fn new(seed: u64, services: usize) -> Kernel {
        Kernel {
            clock: 100 * SECOND,
            wall: 1_700_000_000 * SECOND as i64,
            random: Random(seed),
            keeper: Some(0),
            trees: vec![None; services],
            records: vec![RunId::NONE; services],
            queue: BTreeMap::new(),
            order: 0,
        }
    }

    pub(super) fn now(&self) -> Now {
        Now { mono: Mono(self.clock), wall: Wall(self.wall + self.clock as i64) }
    }

    /// Whether the day of chaos lasts. After it, no process exits by itself and every one can be
    /// created.
    pub(super) fn is_day(&self, at: u64) -> bool {
        at < DAY
    }

    pub(super) fn after(&mut self, wait: u64, happening: KernelEvent) {
        self.order += 1;
        self.queue.insert((self.clock + wait, self.order), happening);
    }

    /// Removes the next event and advances the clock to it.
    pub(super) fn next(&mut self) -> Option<KernelEvent> {
        let ((at, _), happening) = self.queue.pop_first()?;
        self.clock = at;
        Some(happening)
    }

    /// Sends a report to the keeper, if one lives; reports may overtake each other.
    fn report(&mut self, service: usize, event: Event) {
        if let Some(keeper) = self.keeper {
            let wait = self.random.below(5000);
            self.after(wait, KernelEvent::Report { keeper, service, event });
        }
    }

    /// Lets the living keeper begin an action.
    pub(super) fn set_about(&mut self, service: usize, action: Action) {
        if let Some(keeper) = self.keeper {
            self.after(HANDS, KernelEvent::Perform { keeper, service, action });
        }
    }

    pub(super) fn perform(&mut self, service: usize, action: Action) {
        match action {
            Action::Spawn { run } => self.make(service, run),
            Action::Stop { run } => self.signal(service, run),
            Action::Kill { run } => self.kill(service, run),
            Action::Ended { .. } => {}
        }
    }

    fn make(&mut self, service: usize, run: RunId) {
        assert!(
            self.trees[service].is_none(),
            "service {service} is doubled: {:?}",
            self.trees[service]
        );
        if self.is_day(self.clock) && self.random.one_in(40) {
            let failure = SpawnFailure { step: "run".into(), subject: "x".into(), errno: 12 };
            return self.report(service, Event::SpawnFailed { run, failure });
        }
        let (others, temper) = (self.random.below(3) as u32, self.random.below(TEMPERS));
        self.trees[service] = Some(Tree { run, main: true, others, temper });
        self.records[service] = run;
        self.report(service, Event::Started { run });
        self.plan_life(service, run);
    }

    /// Most runs last for hours; some crash soon, some at once, some hang.
    fn plan_life(&mut self, service: usize, run: RunId) {
        let life = match self.random.below(10) {
            0 => self.random.below(SECOND / 20),
            1 | 2 => self.random.below(20 * SECOND),
            _ => self.random.below(8 * HOUR),
        };
        let exit = match self.random.below(3) {
            0 => Exit::Code(0),
            1 => Exit::Code(1),
            _ => Exit::Signal { signal: 11, oom: false, core: true },
        };
        if !self.is_day(self.clock + life) {
            return;
        }
        let hangs = self.random.one_in(10);
        self.after(
            life,
            if hangs {
                KernelEvent::Hangs { service, run }
            } else {
                KernelEvent::MainEnds { service, run, exit }
            },
        );
    }

    fn tree(&mut self, service: usize, run: RunId) -> Option<&mut Tree> {
        self.trees[service].as_mut().filter(|tree| tree.run == run)
    }

    fn signal(&mut self, service: usize, run: RunId) {
        let Some(temper) = self.tree(service, run).map(|tree| tree.temper) else { return };
        let wait = self.random.below(2 * SECOND);
        if temper < OBEYS {
            self.after(wait, KernelEvent::TreeEnds { service, run, but: 0 });
        } else if temper < LEAVES_OTHERS {
            self.after(wait, KernelEvent::MainEnds { service, run, exit: Exit::Code(0) });
        }
    }

    /// The keeper checks the tree after each kill, so an empty tree is reported again.
    fn kill(&mut self, service: usize, run: RunId) {
        if self.tree(service, run).is_none() {
            return self.report(service, Event::TreeEmpty { run });
        }
        let wait = self.random.below(SECOND / 5);
        let but = u32::from(self.random.one_in(10));
        self.after(wait, KernelEvent::TreeEnds { service, run, but });
    }

    pub(super) fn main_ends(&mut self, service: usize, run: RunId, exit: Exit) {
        let Some(tree) = self.tree(service, run).filter(|tree| tree.main) else { return };
        tree.main = false;
        let tree_empty = tree.others == 0;
        if tree_empty {
            self.trees[service] = None;
        }
        self.report(service, Event::Exited { run, exit, tree_empty });
    }

    pub(super) fn tree_ends(&mut self, service: usize, run: RunId, but: u32) {
        let Some(tree) = self.tree(service, run) else { return };
        tree.others = but;
        if tree.main {
            return self.main_ends(
                service,
                run,
                Exit::Signal { signal: 9, oom: false, core: false },
            );
        }
        if but == 0 {
            self.trees[service] = None;
            self.report(service, Event::TreeEmpty { run });
        }
    }

    /// A probe repeats its report as long as the run exists.
    pub(super) fn hangs(&mut self, service: usize, run: RunId) {
        if self.tree(service, run).is_some_and(|tree| tree.main) {
            self.report(service, Event::Unhealthy { run });
            self.after(PROBE, KernelEvent::Hangs { service, run });
        }
    }
}
