//! Tests of "reached", for every state of a service before and after.

use super::*;
use proctor_core::assistant_policy::AssistantAccess;
use proctor_core::lifecycle::{Exit, FailReason, Wish};
use proctor_core::time::{Mono, Wall};
use proctor_core::wire::LastExit;
use proctor_engine::api::ServiceView;

fn run(id: u64) -> RunView {
    RunView { id: RunId(id), pid: 4711, started: Wall(0), cgroup: None }
}

fn state(phase: PhaseView, last: Option<u64>) -> ServiceState {
    let exit = Exit::Code(1);
    ServiceState {
        name: ServiceName::parse("web").unwrap(),
        wish: Wish::Up,
        phase,
        since: Wall(0),
        restarts: 0,
        last_exit: last.map(|id| LastExit { run: RunId(id), at: Wall(0), exit: exit.clone() }),
    }
}

/// State after a request to stop.
fn unwished(phase: PhaseView, last: Option<u64>) -> ServiceState {
    ServiceState { wish: Wish::Down, ..state(phase, last) }
}

fn up(id: u64) -> PhaseView {
    PhaseView::Up { run: run(id) }
}

fn stopping(id: u64) -> PhaseView {
    PhaseView::Stopping { run: run(id), kill_at: Some(Mono(8_000_000)), left: 2 }
}

fn down() -> ServiceState {
    state(PhaseView::Down, None)
}

fn failed() -> PhaseView {
    PhaseView::Failed { why: FailReason::BudgetSpent { restarts: 3 } }
}

fn backoff() -> PhaseView {
    PhaseView::Backoff { until: Mono(3_200_000) }
}

fn status(of: ServiceState) -> ServiceStatus {
    let view = ServiceView {
        name: of.name.clone(),
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
        state: Some(of),
        health: None,
        unhealthy_runs: Vec::new(),
        args_override: None,
        stale: false,
        start_pending: false,
    };
    ServiceStatus::of(&view, Now { mono: Mono(0), wall: Wall(0) }, None)
}

fn check(
    goal: Goal,
    was: ServiceState,
    is: ServiceState,
    progress: Progress,
    result: Outcome,
    words: &str,
) {
    let before = StateBefore {
        name: was.name.clone(),
        old: old_news(Some(&was), goal),
        state: status(was.clone()).state,
    };
    assert_eq!(reached(goal, &before, Some(&is)), progress, "{goal:?} {was:?} -> {is:?}");
    let anew = ended_anew(&before, &is);
    let fresh = is.phase.run().is_some_and(|run| run.id > before.old);
    let now = status(is);
    let outcome = outcome(goal, &before, &now, anew, fresh, true, false);
    assert_eq!(outcome, result, "{goal:?} {was:?} -> {now:?}");
    let told = describe(outcome, now, anew).message;
    assert!(told.contains(words), "'{words}' is missing in '{told}'");
}

#[test]
fn a_start_wants_a_run_that_is_new_or_still_there() {
    use Outcome::*;
    let starting = PhaseView::Starting { run: run(6) };
    check(
        Goal::Start,
        down(),
        state(up(6), None),
        Progress::Up(RunId(6)),
        Started,
        "started (pid 4711)",
    );
    check(
        Goal::Start,
        state(up(5), None),
        state(up(5), None),
        Progress::Up(RunId(5)),
        AlreadyRunning,
        "already",
    );
    check(
        Goal::Start,
        state(starting.clone(), None),
        state(up(6), None),
        Progress::Up(RunId(6)),
        Started,
        "",
    );
    check(Goal::Start, down(), state(starting, None), Progress::Under, Pending, "still starting");
    check(
        Goal::Start,
        state(up(5), None),
        state(up(6), Some(5)),
        Progress::Up(RunId(6)),
        AlreadyRunning,
        "",
    );
}

#[test]
fn old_news_is_not_the_result_of_a_start() {
    use Outcome::*;
    check(
        Goal::Start,
        state(failed(), Some(5)),
        state(failed(), Some(5)),
        Progress::Under,
        Pending,
        "still failed",
    );
    check(
        Goal::Start,
        state(backoff(), Some(5)),
        state(backoff(), Some(5)),
        Progress::Under,
        Pending,
        "",
    );
    check(
        Goal::Start,
        state(stopping(5), None),
        state(stopping(5), None),
        Progress::Under,
        Pending,
        "killed in 8 s",
    );
    check(
        Goal::Start,
        state(stopping(5), None),
        state(up(6), Some(5)),
        Progress::Up(RunId(6)),
        Started,
        "",
    );
}

#[test]
fn a_program_that_dies_at_once_is_a_crash_with_its_exit() {
    use Outcome::*;
    let down = || state(PhaseView::Down, Some(3));
    check(
        Goal::Start,
        down(),
        state(backoff(), Some(6)),
        Progress::There,
        Crashed,
        "exit code 1; restart in 3.2 s",
    );
    check(
        Goal::Start,
        down(),
        state(failed(), Some(9)),
        Progress::There,
        Crashed,
        "gave up after 3 restarts",
    );
    check(
        Goal::Start,
        down(),
        state(PhaseView::Down, Some(6)),
        Progress::There,
        Finished,
        "finished",
    );
    check(
        Goal::Start,
        down(),
        state(up(7), Some(6)),
        Progress::Up(RunId(7)),
        Started,
        "had ended: exit code 1",
    );
}

#[test]
fn a_run_that_is_one_of_a_row_of_crashes_is_no_start() {
    let was = state(PhaseView::Down, Some(3));
    let goal = Goal::Start;
    let before = StateBefore {
        name: was.name.clone(),
        old: old_news(Some(&was), goal),
        state: State::Stopped,
    };
    for phase in [up(7), PhaseView::Starting { run: run(7) }, stopping(7)] {
        let now = status(state(phase, Some(6)));
        assert_eq!(outcome(goal, &before, &now, true, true, true, true), Outcome::Crashed);
    }
    let at = |wall| Now { mono: Mono(0), wall: Wall(wall) };
    assert_eq!((is_young(&run(7), at(200_000)), is_young(&run(7), at(400_000))), (true, false));
}

#[test]
fn what_somebody_else_asked_for_meanwhile_is_not_waited_for_and_said() {
    use Outcome::*;
    let asked = "another request asked it to stop";
    for goal in [Goal::Start, Goal::Restart] {
        for phase in [PhaseView::Down, stopping(6)] {
            check(
                goal,
                state(up(5), None),
                unwished(phase, Some(6)),
                Progress::There,
                Overruled,
                asked,
            );
        }
    }
    let finished = unwished(PhaseView::Down, Some(6));
    let once = |is, result, words| check(Goal::Once, down(), is, Progress::There, result, words);
    once(finished, Finished, "ran and finished");
    once(unwished(failed(), Some(6)), Crashed, "crashed");
    once(unwished(PhaseView::Down, None), Overruled, asked);
    let asked = "another request asked it to start";
    check(Goal::Stop, state(up(5), None), state(up(6), Some(5)), Progress::There, Overruled, asked);
}

#[test]
fn a_restart_wants_another_run() {
    use Outcome::*;
    check(
        Goal::Restart,
        state(up(5), None),
        state(up(5), None),
        Progress::Under,
        Pending,
        "still running",
    );
    check(
        Goal::Restart,
        state(up(5), None),
        state(stopping(5), None),
        Progress::Under,
        Pending,
        "",
    );
    check(
        Goal::Restart,
        state(up(5), None),
        state(up(6), Some(5)),
        Progress::Up(RunId(6)),
        Restarted,
        "restarted",
    );
    check(
        Goal::Restart,
        state(up(5), None),
        state(backoff(), Some(6)),
        Progress::There,
        Crashed,
        "exit code 1",
    );
    check(
        Goal::Restart,
        state(PhaseView::Down, None),
        state(up(6), None),
        Progress::Up(RunId(6)),
        Restarted,
        "",
    );
}

#[test]
fn a_stop_is_over_when_nothing_is_left() {
    use Outcome::*;
    let down = || unwished(PhaseView::Down, Some(5));
    check(Goal::Stop, state(up(5), None), down(), Progress::There, Stopped, "stopped");
    check(
        Goal::Stop,
        state(up(5), None),
        unwished(stopping(5), None),
        Progress::Under,
        Pending,
        "killed in 8 s",
    );
    check(Goal::Stop, state(failed(), Some(5)), down(), Progress::There, Stopped, "");
    check(Goal::Stop, down(), down(), Progress::There, AlreadyStopped, "was not running");
    check(
        Goal::Stop,
        state(backoff(), Some(5)),
        unwished(backoff(), Some(5)),
        Progress::Under,
        Pending,
        "backoff",
    );
}

#[test]
fn a_service_that_is_gone_is_waited_for_no_longer() {
    let before = StateBefore {
        name: ServiceName::parse("web").unwrap(),
        old: RunId::NONE,
        state: State::Running,
    };
    assert_eq!(reached(Goal::Stop, &before, None), Progress::There);
}

#[test]
fn the_worst_result_decides() {
    let report = |result| describe(result, status(state(PhaseView::Down, None)), false);
    for (results, expected) in [
        (vec![Outcome::Started, Outcome::AlreadyRunning, Outcome::Asked], None),
        (vec![Outcome::Started, Outcome::Pending], Some(Code::Timeout)),
        (vec![Outcome::Pending, Outcome::Overruled], Some(Code::Failed)),
        (vec![Outcome::Pending, Outcome::Crashed], Some(Code::ServiceFailed)),
    ] {
        let changed = ChangedServices {
            settled: true,
            services: results.into_iter().map(report).collect(),
            unrecorded: Vec::new(),
        };
        assert_eq!(changed.verdict(), expected);
    }
}
