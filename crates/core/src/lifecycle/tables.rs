//! Table tests of the machine: scripts of events, each with the expected phase, wish and actions.
//!
//! A script has one step a line: `ADVANCE EVENT | PHASE WISH | ACTIONS`, the advance in
//! milliseconds. Runs are named in the order of their spawns (`#1`, `#2`); `#9` is a run that never
//! existed.
//!
//! * events: `up` `once` `down` `restart` `tick` `started#1` `nospawn#1` `exits#1=3` (nothing is
//!   left) `leaves#1=3` (the main process exits, part of its tree is left) `empty#1` `sick#1`
//!   (unhealthy)
//! * exits: a code, `sig9`, `unknown`, `nospawn`
//! * phases: `down` `starting#1` `up#1` `stopping#1+5000` `backoff+250` `cooling+60000`
//!   (milliseconds until the deadline) `failed:exited` `failed:spent3`
//! * actions: `spawn#1` `stop#1` `kill#1` `ended#1=3`
//!
//! `model.rs` covers the orders of events that no table can list.

mod commands;
mod endings;
mod waits;

use super::{Action, Event, Exit, FailReason, Machine, Phase, Rules, SpawnFailure, Wish};
use crate::name::RunId;
use crate::spec::{Policy, RestartSpec};
use crate::time::{Millis, Mono, Now, Wall};

/// Openings: the events before a script begins.
const NEVER_RUN: &str = "";
const STARTING: &str = "0 up";
const UP: &str = "0 up, 0 started#1";
const UP_ONCE: &str = "0 once, 0 started#1";
const STOPPING: &str = "0 up, 0 started#1, 0 down";
const RESTARTING: &str = "0 up, 0 started#1, 0 restart";
const LEFTOVERS: &str = "0 up, 0 started#1, 0 leaves#1=1";
const SICK: &str = "0 up, 0 started#1, 0 sick#1";
/// The policy and the budget decide what follows.
const CRASHED: &str = "0 up, 0 started#1, 0 exits#1=1";

/// The settings of a script. Waits are exact unless it sets a jitter.
#[derive(Clone)]
struct ScriptSettings {
    restart: RestartSpec,
    grace: Millis,
}

fn given(policy: Policy) -> ScriptSettings {
    let restart = RestartSpec {
        policy,
        success_codes: vec![0],
        max_restarts: Some(3),
        window: Millis::seconds(600),
        delay: None,
        max_delay: Millis::seconds(60),
        backoff: 2.0,
        jitter: 0.0,
        stable_after: Millis::seconds(10),
        cool_off: None,
    };
    ScriptSettings { restart, grace: Millis(5000) }
}

fn always() -> ScriptSettings {
    given(Policy::Always)
}

impl ScriptSettings {
    fn delay(mut self, milliseconds: u64) -> ScriptSettings {
        self.restart.delay = Some(Millis(milliseconds));
        self
    }

    fn max_delay(mut self, milliseconds: u64) -> ScriptSettings {
        self.restart.max_delay = Millis(milliseconds);
        self
    }

    fn max_restarts(mut self, restarts: impl Into<Option<u32>>) -> ScriptSettings {
        self.restart.max_restarts = restarts.into();
        self
    }

    fn window(mut self, milliseconds: u64) -> ScriptSettings {
        self.restart.window = Millis(milliseconds);
        self
    }

    fn cool_off(mut self, milliseconds: u64) -> ScriptSettings {
        self.restart.cool_off = Some(Millis(milliseconds));
        self
    }

    fn success_codes(mut self, codes: &[i32]) -> ScriptSettings {
        self.restart.success_codes = codes.to_vec();
        self
    }

    fn grace(mut self, milliseconds: u64) -> ScriptSettings {
        self.grace = Millis(milliseconds);
        self
    }
}

/// Plays `opening`, then `script`, and compares every step of the script with its expectation.
#[track_caller]
fn check(given: ScriptSettings, opening: &str, script: &str) {
    let mut stage = Stage::open(given, opening);
    let (mut expected, mut actual) = (String::new(), String::new());
    for line in script.lines() {
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let (step, _) = line.split_once(" |").expect("a line is a step and what it leads to");
        let actions = stage.play(step);
        actual += format!("{step} | {} | {}", stage.state(), stage.list(&actions)).trim_end();
        actual += "\n";
        expected += &format!("{line}\n");
    }
    assert!(actual == expected, "the machine did\n{actual}where it should\n{expected}");
}

/// One service, its clock and its runs.
struct Stage {
    given: ScriptSettings,
    machine: Machine,
    milliseconds: u64,
    runs: Vec<RunId>,
}

impl Stage {
    fn open(given: ScriptSettings, opening: &str) -> Stage {
        let milliseconds = 7_000;
        let machine = Machine::new(at(milliseconds));
        let mut stage = Stage { given, machine, milliseconds, runs: Vec::new() };
        for step in opening.split(',').map(str::trim).filter(|step| !step.is_empty()) {
            stage.play(step);
        }
        stage
    }

    fn now(&self) -> Now {
        at(self.milliseconds)
    }

    /// `ADVANCE EVENT`: advances the clock, then sends the event.
    fn play(&mut self, step: &str) -> Vec<Action> {
        let (advance, event) = step.split_once(' ').expect("a step is an advance and an event");
        self.milliseconds += advance.parse::<u64>().expect("an advance is in milliseconds");
        let rules = Rules { restart: &self.given.restart, grace: self.given.grace };
        let mut actions = Vec::new();
        let event = self.event(event.trim());
        self.machine.handle(self.now(), rules, event, &mut actions);
        self.note_runs(&actions);
        actions
    }

    fn note_runs(&mut self, actions: &[Action]) {
        for action in actions {
            if let Action::Spawn { run } = action {
                self.runs.push(*run);
            }
        }
    }

    fn event(&self, text: &str) -> Event {
        let (word, subject) = text.split_once('#').unwrap_or((text, ""));
        let (run, exit) = subject.split_once('=').unwrap_or((subject, ""));
        let run = run.parse().map_or(RunId::NONE, |number: usize| self.run(number));
        match word {
            "up" => Event::SetWish(Wish::Up),
            "once" => Event::SetWish(Wish::Once),
            "down" => Event::SetWish(Wish::Down),
            "restart" => Event::Restart,
            "tick" => Event::Tick,
            "started" => Event::Started { run },
            "nospawn" => Event::SpawnFailed { run, failure: failure() },
            "noroom" => {
                let failure = SpawnFailure { step: "record".to_owned(), errno: 28, ..failure() };
                Event::SpawnFailed { run, failure }
            }
            "exits" => Event::Exited { run, exit: exit_of(exit), tree_empty: true },
            "leaves" => Event::Exited { run, exit: exit_of(exit), tree_empty: false },
            "empty" => Event::TreeEmpty { run },
            "sick" => Event::Unhealthy { run },
            other => panic!("no event is called '{other}'"),
        }
    }

    fn run(&self, number: usize) -> RunId {
        self.runs.get(number - 1).copied().unwrap_or(RunId(u64::MAX))
    }

    fn number(&self, run: RunId) -> usize {
        1 + self.runs.iter().position(|known| *known == run).expect("the machine made a run up")
    }

    fn state(&self) -> String {
        let left = self.machine.deadline().map_or(0, |at| at.since(self.now().mono).0);
        let phase = match self.machine.phase() {
            Phase::Down => "down".to_owned(),
            Phase::Held => "held".to_owned(),
            Phase::Backoff { .. } => format!("backoff+{left}"),
            Phase::Starting { run } => format!("starting#{}", self.number(*run)),
            Phase::Up { run, .. } => format!("up#{}", self.number(*run)),
            Phase::Stopping(stopping) => format!("stopping#{}+{left}", self.number(stopping.run)),
            Phase::Failed { why: FailReason::Exited } => "failed:exited".to_owned(),
            Phase::Failed { why: FailReason::BudgetSpent { restarts } } => {
                format!("failed:spent{restarts}")
            }
            Phase::Cooling { .. } => format!("cooling+{left}"),
        };
        let wish = match self.machine.wish() {
            Wish::Up => "up",
            Wish::Once => "once",
            Wish::Down => "down",
        };
        format!("{phase} {wish}")
    }

    fn list(&self, actions: &[Action]) -> String {
        let word = |action: &Action| match action {
            Action::Spawn { run } => format!("spawn#{}", self.number(*run)),
            Action::Stop { run } => format!("stop#{}", self.number(*run)),
            Action::Kill { run } => format!("kill#{}", self.number(*run)),
            Action::Ended { run, exit } => {
                format!("ended#{}={}", self.number(*run), exit_word(exit))
            }
        };
        actions.iter().map(word).collect::<Vec<_>>().join(" ")
    }
}

fn at(milliseconds: u64) -> Now {
    let wall = 1_700_000_000_000_000 + milliseconds as i64 * 1000;
    Now { mono: Mono(milliseconds * 1000), wall: Wall(wall) }
}

fn failure() -> SpawnFailure {
    SpawnFailure { step: "run".to_owned(), subject: "/bin/missing".to_owned(), errno: 2 }
}

fn exit_of(text: &str) -> Exit {
    match (text, text.strip_prefix("sig")) {
        ("unknown", _) => Exit::Unknown,
        (_, Some(signal)) => {
            Exit::Signal { signal: signal.parse().unwrap(), oom: false, core: false }
        }
        (code, None) => Exit::Code(code.parse().unwrap()),
    }
}

fn exit_word(exit: &Exit) -> String {
    match exit {
        Exit::Code(code) => code.to_string(),
        Exit::Signal { signal, .. } => format!("sig{signal}"),
        Exit::SpawnFailed(_) => "nospawn".to_owned(),
        Exit::Unknown => "unknown".to_owned(),
        Exit::Backgrounded => "backgrounded".to_owned(),
    }
}
