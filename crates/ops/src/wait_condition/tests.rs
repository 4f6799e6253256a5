//! Tests of "reached", for every condition and every state of a service.

use super::condition::WaitStart;
use super::*;
use crate::status::State;
use proctor_core::assistant_policy::AssistantAccess;
use proctor_core::lifecycle::{Exit, FailReason, Wish};
use proctor_core::name::RunId;
use proctor_core::time::{Mono, Now, Wall};
use proctor_core::wire::{LastExit, PhaseView, RunView, ServiceState};
use proctor_engine::api::{Health, ServiceView};

const STARTED: Wall = Wall(1_000_000);
const LATER: Wall = Wall(9_000_000);

/// Returns a service whose last ended run is `last`.
fn service(phase: PhaseView, last: Option<u64>) -> ServiceView {
    let last = last.map(|id| LastExit { run: RunId(id), at: Wall(0), exit: Exit::Code(1) });
    let name = ServiceName::parse("web").unwrap();
    let state = ServiceState {
        name: name.clone(),
        wish: Wish::Up,
        phase,
        since: Wall(0),
        restarts: 0,
        last_exit: last,
    };
    ServiceView {
        name,
        added: false,
        description: None,
        groups: Vec::new(),
        command: "web".into(),
        working_dir: "/".into(),
        autostart: true,
        port: None,
        origin: None,
        primary: false,
        assistants: AssistantAccess::default(),
        tenure: None,
        state: Some(state),
        health: None,
        unhealthy_runs: Vec::new(),
        args_override: None,
        stale: false,
        start_pending: false,
    }
}

fn run(id: u64) -> RunView {
    RunView { id: RunId(id), pid: 4711, started: STARTED, cgroup: None }
}

fn up(id: u64) -> PhaseView {
    PhaseView::Up { run: run(id) }
}

fn starting(id: u64) -> PhaseView {
    PhaseView::Starting { run: run(id) }
}

fn failed() -> PhaseView {
    PhaseView::Failed { why: FailReason::Exited }
}

fn backoff() -> PhaseView {
    PhaseView::Backoff { until: Mono(3_200_000) }
}

fn check(until: Until, before: Option<u64>, service: &ServiceView, expected: Verdict) {
    let before = WaitStart { run: before.map(RunId) };
    let verdict = judge(until, None, before, service, LATER);
    assert_eq!(verdict, expected, "{until:?} from {before:?}: {:?}", service.state);
}

#[test]
fn a_state_is_reached_still_to_come_or_out_of_reach() {
    use Verdict::*;
    let not_yet = || NotYet(UnmetCondition::State);
    let hopeless = || Hopeless(UnmetCondition::State);
    let table: [(PhaseView, [Verdict; 5]); 8] = [
        // running, stopped, settled, healthy, ready
        (PhaseView::Down, [hopeless(), Reached, Reached, hopeless(), hopeless()]),
        (PhaseView::Held, [not_yet(), not_yet(), not_yet(), not_yet(), not_yet()]),
        (backoff(), [not_yet(), not_yet(), Reached, not_yet(), not_yet()]),
        (starting(5), [not_yet(), not_yet(), not_yet(), not_yet(), not_yet()]),
        (up(5), [Reached, not_yet(), Reached, Reached, Reached]),
        (
            PhaseView::Stopping { run: run(5), kill_at: None, left: 0 },
            [not_yet(), not_yet(), not_yet(), not_yet(), not_yet()],
        ),
        (failed(), [hopeless(), Reached, Reached, hopeless(), hopeless()]),
        (
            PhaseView::Cooling { until: Mono(1) },
            [not_yet(), not_yet(), Reached, not_yet(), not_yet()],
        ),
    ];
    let untils = [Until::Running, Until::Stopped, Until::Settled, Until::Healthy, Until::Ready];
    for (phase, expected) in table {
        for (until, expected) in untils.into_iter().zip(expected) {
            check(until, Some(5), &service(phase.clone(), Some(4)), expected);
        }
    }
    let unknown = ServiceView { state: None, ..service(PhaseView::Down, None) };
    for until in untils {
        check(until, None, &unknown, not_yet());
    }
}

#[test]
fn a_service_that_is_about_to_be_started_counts_as_starting() {
    let now = Now { mono: Mono(0), wall: Wall(0) };
    let down = service(PhaseView::Down, Some(4));
    let pending = ServiceView { start_pending: true, ..down.clone() };
    let unconfirmed = ServiceView { state: None, ..pending.clone() };
    for (view, expected) in
        [(&down, State::Stopped), (&pending, State::Starting), (&unconfirmed, State::Starting)]
    {
        assert_eq!(ServiceStatus::of(view, now, None).state, expected);
    }
    check(Until::Settled, None, &pending, Verdict::NotYet(UnmetCondition::State));
}

#[test]
fn a_process_that_never_ran_may_be_started_yet() {
    for until in [Until::Running, Until::Healthy] {
        let new = service(PhaseView::Down, None);
        check(until, None, &new, Verdict::NotYet(UnmetCondition::State));
    }
}

#[test]
fn in_a_loop_of_crashes_an_open_port_is_not_enough() {
    let looping = |restarts| {
        let mut service = ServiceView { port: Some(3000), ..service(up(5), Some(4)) };
        service.state.as_mut().unwrap().restarts = restarts;
        let soon = Wall(STARTED.0 + 100_000);
        judge(Until::Ready, None, WaitStart { run: None }, &service, soon)
    };
    assert_eq!(looping(0), Verdict::IfOpen(3000));
    assert_eq!(looping(3), Verdict::NotYet(UnmetCondition::Steady(Duration::from_millis(200))));
}

#[test]
fn ready_is_what_the_checks_say_and_without_any_a_moment_of_life() {
    let ill = Health::Failing { at: Wall(0), failures: 2, why: "503".into() };
    let well = Health::Healthy { at: Wall(0) };
    let starting = Health::Starting { at: Wall(0), why: "connection refused".into() };
    for (health, port, expected) in [
        (None, None, Verdict::Reached),
        (Some(Health::Unknown), None, Verdict::NotYet(UnmetCondition::Health)),
        (Some(starting), None, Verdict::NotYet(UnmetCondition::Health)),
        (Some(ill.clone()), Some(3000), Verdict::NotYet(UnmetCondition::Health)),
        (Some(well.clone()), None, Verdict::Reached),
        (Some(well), Some(3000), Verdict::IfOpen(3000)),
        (None, Some(3000), Verdict::IfOpen(3000)),
    ] {
        check(
            Until::Ready,
            Some(5),
            &ServiceView { health, port, ..service(up(5), None) },
            expected,
        );
    }
    let young = judge(
        Until::Ready,
        None,
        WaitStart { run: None },
        &service(up(5), None),
        Wall(STARTED.0 + 100_000),
    );
    assert_eq!(young, Verdict::NotYet(UnmetCondition::Steady(Duration::from_millis(200))));
    let checked = ServiceView { health: Some(ill), ..service(up(5), None) };
    check(Until::Healthy, Some(5), &checked, Verdict::NotYet(UnmetCondition::Health));
}

#[test]
fn an_exit_is_that_of_the_run_that_was_there_or_of_the_last_one() {
    use Verdict::*;
    let not_yet = || NotYet(UnmetCondition::Exit);
    for (before, phase, last, expected) in [
        (Some(5), up(5), Some(4), not_yet()),
        (Some(5), PhaseView::Down, Some(5), Reached),
        (Some(5), backoff(), Some(5), Reached),
        (Some(5), up(6), Some(5), Reached),
        (Some(5), up(6), None, Reached),
        (None, PhaseView::Down, Some(4), Reached),
        (None, failed(), Some(4), Reached),
        (None, backoff(), Some(4), Reached),
        (None, PhaseView::Held, None, not_yet()),
        (None, up(5), None, not_yet()),
        (None, PhaseView::Down, None, Hopeless(UnmetCondition::Never)),
    ] {
        check(Until::Exit, before, &service(phase, last), expected);
    }
}

#[test]
fn a_port_is_looked_at_while_something_runs() {
    use Verdict::*;
    let with = |phase| ServiceView { port: Some(3000), ..service(phase, None) };
    check(Until::Port, None, &with(up(5)), IfOpen(3000));
    check(Until::Port, None, &with(starting(5)), IfOpen(3000));
    check(Until::Port, None, &with(backoff()), NotYet(UnmetCondition::State));
    check(Until::Port, None, &with(PhaseView::Down), Hopeless(UnmetCondition::State));
    check(Until::Port, None, &with(failed()), Hopeless(UnmetCondition::State));
    let other = judge(Until::Port, Some(8080), WaitStart { run: None }, &with(up(5)), LATER);
    assert_eq!(other, IfOpen(8080), "the requested port");
}

#[test]
fn a_line_may_come_while_something_runs_or_is_going_to() {
    for (phase, expected) in [
        (up(5), Verdict::NotYet(UnmetCondition::Line)),
        (starting(5), Verdict::NotYet(UnmetCondition::Line)),
        (backoff(), Verdict::NotYet(UnmetCondition::Line)),
        (PhaseView::Down, Verdict::Hopeless(UnmetCondition::Line)),
        (failed(), Verdict::Hopeless(UnmetCondition::Line)),
    ] {
        check(Until::Log, None, &service(phase, Some(4)), expected);
    }
}

#[test]
fn a_removed_service_is_stopped_and_will_not_be_anything_else() {
    for until in [Until::Stopped, Until::Settled, Until::Exit] {
        assert_eq!(gone(until), Verdict::Reached, "{until:?}");
    }
    for until in [Until::Running, Until::Healthy, Until::Ready, Until::Port, Until::Log] {
        assert_eq!(gone(until), Verdict::Hopeless(UnmetCondition::Gone), "{until:?}");
    }
}

#[test]
fn what_is_missing_is_a_sentence() {
    let now = Now { mono: Mono(0), wall: LATER };
    let status = |phase| ServiceStatus::of(&service(phase, Some(4)), now, None);
    let name = ServiceName::parse("web").unwrap();
    for (phase, missing, expected) in [
        (PhaseView::Down, UnmetCondition::State, "web is stopped: done: exit code 1"),
        (backoff(), UnmetCondition::State, "web is backoff: restart in 3.2 s"),
        (up(5), UnmetCondition::Port(3000), "web is running and does not listen on port 3000"),
        (
            up(5),
            UnmetCondition::Taken(3000, Some("node (pid 7)".into())),
            "port 3000 is in use by node (pid 7), which does not belong to web",
        ),
        (up(5), UnmetCondition::Taken(3000, None), "port 3000 is in use by another process"),
        (up(5), UnmetCondition::Health, "web has not passed its health check"),
        (up(5), UnmetCondition::Line, "web is running and has written no matching line"),
        (up(5), UnmetCondition::Exit, "web is running: its run has not ended"),
    ] {
        let said = sentence(&name, &missing, Some(&status(phase)));
        assert!(said.starts_with(expected), "{said}");
    }
    assert_eq!(sentence(&name, &UnmetCondition::Gone, None), "web was removed");
}

#[test]
fn the_pace_follows_how_long_was_waited() {
    let closed = [Verdict::NotYet(UnmetCondition::Port(1)), Verdict::Reached];
    for (waited, pace) in [(0, 20), (100, 20), (1000, 100), (60_000, 500)] {
        let [waited, pace] = [waited, pace].map(Duration::from_millis);
        assert_eq!(next_look(&closed, waited), Some(pace), "after {waited:?}");
    }
    let told = [Verdict::NotYet(UnmetCondition::State), Verdict::NotYet(UnmetCondition::Line)];
    assert_eq!(next_look(&told, Duration::ZERO), None, "reported changes are not polled");
}
