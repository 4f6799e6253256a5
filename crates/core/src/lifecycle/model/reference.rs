//! A naive reference model of a service's life: a list of all events, never pruned, from which each
//! answer is computed again. It stores no phase; the phase follows from the list.
//!
//! It is written from the design, so that it disagrees with the machine if either is wrong. The
//! machine chooses the random part of a wait; the reference checks only its bounds.

use super::super::{Action, Event, Exit, Wish};
use crate::name::RunId;
use crate::spec::{Policy, RestartSpec};
use crate::time::{Millis, Mono, Now, Wall};
use crate::wire::LastExit;

/// Everything that is visible of a service from outside.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct View {
    pub(super) wish: Wish,
    pub(super) phase: &'static str,
    pub(super) run: Option<RunId>,
    pub(super) deadline: Option<Mono>,
    pub(super) since: Wall,
    pub(super) restarts: u64,
    pub(super) last_exit: Option<LastExit>,
}

#[derive(Debug, Clone, PartialEq)]
enum Fact {
    /// A person requested a start; earlier failures no longer count.
    Forgiven,
    /// A person's request reached a run that was already stopping.
    Overruled,
    Spawned {
        run: RunId,
        by: Spawner,
    },
    Started,
    StopBegan(Because),
    Killed,
    MainGone(Exit),
    Ended {
        stable: bool,
        last: LastExit,
    },
    Rests(IdleState),
}

/// The state of a service without a run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum IdleState {
    Down,
    Failed,
    Waits { until: Mono },
    Cools { until: Mono },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Spawner {
    Person,
    Crash,
    CoolOff,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Because {
    Person,
    Probe,
    ItsOwnExit,
}

#[derive(Debug, Clone)]
pub(super) struct Reference {
    restart: RestartSpec,
    grace: Millis,
    wish: Wish,
    story: Vec<(Now, Fact)>,
    since: Wall,
}

impl Reference {
    pub(super) fn new(now: Now, restart: RestartSpec, grace: Millis) -> Reference {
        let story = vec![(now, Fact::Rests(IdleState::Down))];
        Reference { restart, grace, wish: Wish::Down, story, since: now.wall }
    }

    /// Returns the expected result of `event`. `deadline` is the machine's deadline afterwards. It
    /// is used only if the machine had a choice, and must be within the bounds.
    pub(super) fn step(&mut self, now: Now, event: &Event, deadline: Option<Mono>) -> Vec<Action> {
        let before = (self.phase(), self.run());
        let actions = match event {
            Event::SetWish(Wish::Down) => self.asked_to_stop(now),
            Event::SetWish(wish @ (Wish::Up | Wish::Once)) => self.asked_to_start(now, *wish),
            Event::Restart => self.asked_to_run_anew(now),
            Event::Tick => self.time_passed(now),
            Event::Started { run } => self.about(*run, |it| it.started(now)),
            Event::Unhealthy { run } => self.about(*run, |it| it.unhealthy(now)),
            Event::SpawnFailed { run, failure } => {
                let exit = Exit::SpawnFailed(Box::new(failure.clone()));
                self.about(*run, |it| it.main_gone(now, exit, true, deadline))
            }
            Event::Exited { run, exit, tree_empty } => {
                self.about(*run, |it| it.main_gone(now, exit.clone(), *tree_empty, deadline))
            }
            Event::TreeEmpty { run } => self.about(*run, |it| it.all_gone(now, deadline)),
        };
        if before != (self.phase(), self.run()) {
            self.since = now.wall;
        }
        actions
    }

    pub(super) fn view(&self) -> View {
        let by_itself = |fact: &Fact| {
            matches!(fact, Fact::Spawned { by: Spawner::Crash | Spawner::CoolOff, .. })
        };
        let last_exit = self.story.iter().rev().find_map(|(_, fact)| {
            if let Fact::Ended { last, .. } = fact { Some(last.clone()) } else { None }
        });
        View {
            wish: self.wish,
            phase: self.phase(),
            run: self.run(),
            deadline: self.deadline(),
            since: self.since,
            restarts: self.story.iter().filter(|(_, fact)| by_itself(fact)).count() as u64,
            last_exit,
        }
    }

    /// Crash restarts since the last request of a person.
    pub(super) fn crash_restarts(&self) -> Vec<Mono> {
        let mut restarts = Vec::new();
        for (now, fact) in self.after(|fact| *fact == Fact::Forgiven) {
            if matches!(fact, Fact::Spawned { by: Spawner::Crash, .. }) {
                restarts.push(now.mono);
            }
            // The restart failed because of a shortage, which is not the service's fault.
            if matches!(fact, Fact::Ended { last, .. } if short(&last.exit)) {
                restarts.pop();
            }
        }
        restarts
    }

    /// The facts after the last one of this kind; all facts if there is none.
    fn after(&self, kind: impl Fn(&Fact) -> bool) -> &[(Now, Fact)] {
        let begin = self.story.iter().rposition(|(_, fact)| kind(fact)).map_or(0, |at| at + 1);
        &self.story[begin..]
    }

    /// The facts about the newest run, without its spawn.
    fn run_story(&self) -> &[(Now, Fact)] {
        self.after(|fact| matches!(fact, Fact::Spawned { .. }))
    }

    fn last_run(&self) -> Option<RunId> {
        self.story.iter().rev().find_map(|(_, fact)| {
            if let Fact::Spawned { run, .. } = fact { Some(*run) } else { None }
        })
    }

    /// The current run.
    fn run(&self) -> Option<RunId> {
        let over = self.run_story().iter().any(|(_, fact)| matches!(fact, Fact::Ended { .. }));
        if over { None } else { self.last_run() }
    }

    fn moment(&self, kind: impl Fn(&Fact) -> bool) -> Option<Mono> {
        let found = self.run_story().iter().rev().find(|(_, fact)| kind(fact));
        found.map(|(now, _)| now.mono)
    }

    fn stop_began(&self) -> Option<Mono> {
        self.moment(|fact| matches!(fact, Fact::StopBegan(_)))
    }

    fn killed(&self) -> Option<Mono> {
        self.moment(|fact| *fact == Fact::Killed)
    }

    fn phase(&self) -> &'static str {
        if self.run().is_some() {
            return match (self.stop_began(), self.moment(|fact| *fact == Fact::Started)) {
                (Some(_), _) => "stopping",
                (None, Some(_)) => "up",
                (None, None) => "starting",
            };
        }
        match self.last_rest() {
            IdleState::Down => "down",
            IdleState::Failed => "failed",
            IdleState::Waits { .. } => "backoff",
            IdleState::Cools { .. } => "cooling",
        }
    }

    /// The resting state, if there is no run.
    fn last_rest(&self) -> IdleState {
        let found =
            self.story.iter().rev().find_map(|(_, fact)| {
                if let Fact::Rests(rest) = fact { Some(*rest) } else { None }
            });
        found.expect("the story begins at rest")
    }

    fn deadline(&self) -> Option<Mono> {
        if self.run().is_some() {
            let killed = self.killed().map(|at| at.plus(Millis(1000)));
            return killed.or_else(|| self.stop_began().map(|at| at.plus(self.grace)));
        }
        match self.last_rest() {
            IdleState::Waits { until } | IdleState::Cools { until } => Some(until),
            IdleState::Down | IdleState::Failed => None,
        }
    }

    fn note(&mut self, now: Now, fact: Fact) {
        self.story.push((now, fact));
    }

    fn about(&mut self, run: RunId, f: impl FnOnce(&mut Self) -> Vec<Action>) -> Vec<Action> {
        if self.run() == Some(run) { f(self) } else { Vec::new() }
    }

    fn asked_to_start(&mut self, now: Now, wish: Wish) -> Vec<Action> {
        self.wish = wish;
        match self.phase() {
            "starting" | "up" => Vec::new(),
            "stopping" => {
                self.note(now, Fact::Forgiven);
                self.note(now, Fact::Overruled);
                Vec::new()
            }
            _ => {
                self.note(now, Fact::Forgiven);
                self.spawn(now, Spawner::Person)
            }
        }
    }

    fn asked_to_run_anew(&mut self, now: Now) -> Vec<Action> {
        if self.wish == Wish::Down {
            self.wish = Wish::Up;
        }
        self.note(now, Fact::Forgiven);
        match self.phase() {
            "starting" | "up" => self.begin_stop(now, Because::Person),
            "stopping" => {
                self.note(now, Fact::Overruled);
                Vec::new()
            }
            _ => self.spawn(now, Spawner::Person),
        }
    }

    fn asked_to_stop(&mut self, now: Now) -> Vec<Action> {
        self.wish = Wish::Down;
        match self.phase() {
            "starting" | "up" => self.begin_stop(now, Because::Person),
            "stopping" => Vec::new(),
            _ => self.rest(now, IdleState::Down),
        }
    }

    fn time_passed(&mut self, now: Now) -> Vec<Action> {
        if self.deadline().is_none_or(|at| now.mono < at) {
            return Vec::new();
        }
        match self.phase() {
            "stopping" => {
                self.note(now, Fact::Killed);
                self.run().map(|run| Action::Kill { run }).into_iter().collect()
            }
            "cooling" => {
                self.note(now, Fact::Forgiven);
                self.spawn(now, Spawner::CoolOff)
            }
            _ => self.spawn(now, Spawner::Crash),
        }
    }

    fn started(&mut self, now: Now) -> Vec<Action> {
        if self.phase() == "starting" {
            self.note(now, Fact::Started);
        }
        Vec::new()
    }

    fn unhealthy(&mut self, now: Now) -> Vec<Action> {
        if self.phase() == "up" { self.begin_stop(now, Because::Probe) } else { Vec::new() }
    }

    fn begin_stop(&mut self, now: Now, because: Because) -> Vec<Action> {
        self.note(now, Fact::StopBegan(because));
        self.run().map(|run| Action::Stop { run }).into_iter().collect()
    }

    fn main_gone(
        &mut self,
        now: Now,
        exit: Exit,
        tree_empty: bool,
        deadline: Option<Mono>,
    ) -> Vec<Action> {
        let news = self.exit().is_none();
        if news {
            if self.stop_began().is_none() {
                self.note(now, Fact::StopBegan(Because::ItsOwnExit));
            }
            self.note(now, Fact::MainGone(exit));
        }
        if tree_empty {
            return self.all_gone(now, deadline);
        }
        let ask_the_rest = news && self.killed().is_none();
        self.run().filter(|_| ask_the_rest).map(|run| Action::Stop { run }).into_iter().collect()
    }

    /// The first reported exit; later ones are duplicates.
    fn exit(&self) -> Option<Exit> {
        self.run_story().iter().find_map(|(_, fact)| {
            if let Fact::MainGone(exit) = fact { Some(exit.clone()) } else { None }
        })
    }

    fn all_gone(&mut self, now: Now, deadline: Option<Mono>) -> Vec<Action> {
        let (Some(run), Some(exit)) = (self.run(), self.exit()) else { return Vec::new() };
        let overruled = self.moment(|fact| *fact == Fact::Overruled).is_some();
        let began = |because| self.moment(|fact| *fact == Fact::StopBegan(because)).is_some();
        let (by_person, by_probe) = (overruled || began(Because::Person), began(Because::Probe));
        let good = !by_probe && exit.is_success(&self.restart.success_codes);
        let left = if good { IdleState::Down } else { IdleState::Failed };
        let last = LastExit { run, at: now.wall, exit: exit.clone() };
        self.note(now, Fact::Ended { stable: self.was_stable(), last });
        let least = if short(&exit) { 250 } else { 0 };
        let mut actions = vec![Action::Ended { run, exit }];
        let more = match (self.wish, self.restart.policy) {
            (Wish::Down, _) => self.rest(now, IdleState::Down),
            (Wish::Up | Wish::Once, _) if by_person => self.spawn(now, Spawner::Person),
            (Wish::Once, _) => {
                self.wish = Wish::Down;
                self.rest(now, left)
            }
            (Wish::Up, Policy::Always) => self.again(now, least, deadline),
            (Wish::Up, Policy::OnFailure) if !good => self.again(now, least, deadline),
            (Wish::Up, Policy::OnFailure | Policy::Never | Policy::OneShot) => self.rest(now, left),
        };
        actions.extend(more);
        actions
    }

    fn was_stable(&self) -> bool {
        match (self.moment(|fact| *fact == Fact::Started), self.stop_began()) {
            (Some(up), Some(stop)) => stop.since(up) >= self.restart.stable_after,
            _ => false,
        }
    }

    fn rest(&mut self, now: Now, rest: IdleState) -> Vec<Action> {
        self.note(now, Fact::Rests(rest));
        Vec::new()
    }

    /// Handles the crash of a service that should stay up: restart now, restart later, or give up.
    fn again(&mut self, now: Now, least: u64, deadline: Option<Mono>) -> Vec<Action> {
        let in_window = |at: &&Mono| now.mono.since(**at) < self.restart.window;
        let recent = self.crash_restarts().iter().filter(in_window).count();
        if self.restart.max_restarts.is_some_and(|most| recent >= most as usize) {
            let cools =
                self.restart.cool_off.map(|wait| IdleState::Cools { until: now.mono.plus(wait) });
            return self.rest(now, cools.unwrap_or(IdleState::Failed));
        }
        let longest = self.wait();
        let shortest = ((longest as f64 * (1.0 - self.restart.jitter)) as u64).max(least);
        let longest = longest.max(least);
        let chosen = deadline.map_or(0, |at| at.since(now.mono).0);
        assert!((shortest..=longest).contains(&chosen), "{chosen}: not {shortest} to {longest}");
        let until = now.mono.plus(Millis(chosen));
        self.rest(now, IdleState::Waits { until });
        if chosen == 0 { self.spawn(now, Spawner::Crash) } else { Vec::new() }
    }

    /// The wait without its random part: it grows with each restart since the last stable run.
    fn wait(&self) -> u64 {
        let fresh = |fact: &Fact| matches!(fact, Fact::Forgiven | Fact::Ended { stable: true, .. });
        let waits = |fact: &Fact| matches!(fact, Fact::Rests(IdleState::Waits { .. }));
        let before = self.after(fresh).iter().filter(|(_, fact)| waits(fact)).count();
        let mut ladder = self.restart.delay.map_or(vec![0.0, 250.0], |delay| vec![delay.0 as f64]);
        while ladder.len() <= before {
            ladder.push(ladder[ladder.len() - 1] * self.restart.backoff);
        }
        (ladder[before] as u64).min(self.restart.max_delay.0)
    }

    fn spawn(&mut self, now: Now, by: Spawner) -> Vec<Action> {
        let next = self.last_run().map_or(0, |last| last.0 + 1);
        let run = RunId(next.max(now.wall.0.max(0) as u64).max(1));
        self.note(now, Fact::Spawned { run, by });
        vec![Action::Spawn { run }]
    }
}

/// No run was created for lack of disk space, descriptors, memory or processes.
fn short(exit: &Exit) -> bool {
    matches!(exit, Exit::SpawnFailed(failure) if [11, 12, 23, 24, 28, 122].contains(&failure.errno))
}
