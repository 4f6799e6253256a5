//! A hostile world for one machine. Processes ignore signals, leave others behind, die slowly or
//! cannot be created. Reports arrive late, twice or not at all.
//!
//! Reports about the current run are true, with one exception: the world may call a tree empty
//! while its main process still runs. A world that reports an exit that did not happen could make
//! any supervisor start a second copy.

use super::super::{Action, Event, Exit, SpawnFailure};
use crate::name::RunId;

/// The behaviour of the next process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nature {
    pub(super) can_be_made: bool,
    pub(super) temper: Temper,
    /// Number of processes besides the main one.
    pub(super) others: u8,
    /// Rounds between a kill and the death.
    pub(super) dies_slowly: u8,
    /// One process is forked during the first kill and survives it.
    pub(super) slips_through: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Temper {
    /// All of it ends on the stop signal.
    Obeys,
    /// The main process ends on the stop signal, the others only on a second one.
    EndsInTwo,
    /// The main process ends on the stop signal, the others never.
    LeavesOthers,
    Deaf,
}

impl Nature {
    /// Starts, and runs until it is stopped.
    pub(super) const GOOD: Nature = Nature {
        can_be_made: true,
        temper: Temper::Obeys,
        others: 0,
        dies_slowly: 0,
        slips_through: false,
    };
}

#[derive(Debug, Clone)]
struct Tree {
    run: RunId,
    nature: Nature,
    main: bool,
    others: u8,
    dying: Option<u8>,
}

impl Tree {
    fn lives(&self) -> bool {
        self.main || self.others > 0
    }
}

#[derive(Debug, Clone)]
pub(super) struct World {
    natures: Vec<Nature>,
    trees: Vec<Tree>,
    pub(super) runs: Vec<RunId>,
    ended: Vec<RunId>,
    pub(super) mail: Vec<Event>,
}

impl World {
    pub(super) fn new(natures: Vec<Nature>) -> World {
        World { natures, trees: Vec::new(), runs: Vec::new(), ended: Vec::new(), mail: Vec::new() }
    }

    /// From now on every process can be created and keeps running.
    pub(super) fn turn_good(&mut self) {
        self.natures = vec![Nature::GOOD];
    }

    pub(super) fn living(&self) -> Vec<RunId> {
        self.trees.iter().filter(|tree| tree.lives()).map(|tree| tree.run).collect()
    }

    pub(super) fn main_lives(&self) -> bool {
        self.trees.last().is_some_and(|tree| tree.main)
    }

    pub(super) fn perform(&mut self, action: &Action) {
        match action {
            Action::Spawn { run } => self.spawn(*run),
            Action::Stop { run } => self.signal(*run),
            Action::Kill { run } => self.kill(*run),
            Action::Ended { run, .. } => {
                assert!(!self.living().contains(run), "{run} was called ended and lives");
                assert!(!self.ended.contains(run), "{run} ended twice");
                self.ended.push(*run);
            }
        }
    }

    fn spawn(&mut self, run: RunId) {
        assert!(self.living().is_empty(), "{run} is spawned beside {:?}", self.living());
        assert!(
            self.runs.iter().all(|earlier| *earlier < run),
            "{run} is not above {:?}",
            self.runs
        );
        assert_eq!(self.ended, self.runs, "a run is spawned before the end of the last was told");
        let nature = self.natures[self.runs.len() % self.natures.len()];
        self.runs.push(run);
        if nature.can_be_made {
            self.trees.push(Tree { run, nature, main: true, others: nature.others, dying: None });
            self.mail.push(Event::Started { run });
        } else {
            // Alternates between a missing program and a full disk.
            let errno = if self.runs.len().is_multiple_of(2) { 28 } else { 2 };
            let failure = SpawnFailure { step: "run".into(), subject: "x".into(), errno };
            self.mail.push(Event::SpawnFailed { run, failure });
        }
    }

    fn signal(&mut self, run: RunId) {
        let Some(tree) = self.trees.iter().find(|tree| tree.run == run && tree.lives()) else {
            return;
        };
        match (tree.nature.temper, tree.main) {
            (Temper::Obeys, _) | (Temper::EndsInTwo, false) => self.die(Exit::Code(0), 0),
            (Temper::EndsInTwo | Temper::LeavesOthers, true) => self.main_dies(Exit::Code(0)),
            (Temper::LeavesOthers, false) | (Temper::Deaf, _) => {}
        }
    }

    /// The keeper checks the tree after each kill, so an empty tree is reported again.
    fn kill(&mut self, run: RunId) {
        match self.trees.iter_mut().find(|tree| tree.run == run && tree.lives()) {
            Some(tree) => tree.dying = tree.dying.or(Some(tree.nature.dies_slowly)),
            None => self.mail.push(Event::TreeEmpty { run }),
        }
    }

    /// Advances one round: killed processes come closer to their death.
    pub(super) fn round(&mut self) {
        let Some(tree) = self.trees.last_mut().filter(|tree| tree.lives()) else { return };
        match tree.dying {
            None => {}
            Some(0) => {
                tree.dying = None;
                let left = u8::from(std::mem::take(&mut tree.nature.slips_through));
                self.die(Exit::Signal { signal: 9, oom: false, core: false }, left);
            }
            Some(rounds) => tree.dying = Some(rounds - 1),
        }
    }

    /// The main process exits by itself or on request.
    pub(super) fn main_dies(&mut self, exit: Exit) {
        if let Some(tree) = self.trees.last_mut().filter(|tree| tree.main) {
            tree.main = false;
            let tree_empty = tree.others == 0;
            self.mail.push(Event::Exited { run: tree.run, exit, tree_empty });
        }
    }

    pub(super) fn others_die(&mut self, left: u8) {
        if let Some(tree) = self.trees.last_mut().filter(|tree| tree.lives()) {
            tree.others = left;
            if !tree.lives() {
                self.mail.push(Event::TreeEmpty { run: tree.run });
            }
        }
    }

    pub(super) fn fork(&mut self) {
        if let Some(tree) = self.trees.last_mut().filter(|tree| tree.lives()) {
            tree.others = tree.others.saturating_add(1);
        }
    }

    fn die(&mut self, exit: Exit, left: u8) {
        self.others_die(left);
        self.main_dies(exit);
    }
}
