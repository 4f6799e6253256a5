//! The ends of runs: policies, leftover processes, failed spawns, failed probes, and reports about
//! other runs.

use super::*;

#[test]
fn always_starts_again_after_success() {
    check(always(), UP, "9 exits#1=0 | starting#2 up | ended#1=0 spawn#2");
}

#[test]
fn always_starts_again_after_failure() {
    check(always(), UP, "9 exits#1=1 | starting#2 up | ended#1=1 spawn#2");
}

#[test]
fn on_failure_leaves_a_success_down() {
    check(given(Policy::OnFailure), UP, "9 exits#1=0 | down up | ended#1=0");
}

#[test]
fn on_failure_starts_again_after_a_failure() {
    check(given(Policy::OnFailure), UP, "9 exits#1=1 | starting#2 up | ended#1=1 spawn#2");
}

#[test]
fn on_failure_leaves_a_configured_success_code_down() {
    let given = given(Policy::OnFailure).success_codes(&[0, 143]);
    check(given, UP, "9 exits#1=143 | down up | ended#1=143");
}

#[test]
fn zero_is_a_failure_when_the_success_codes_leave_it_out() {
    let given = given(Policy::OnFailure).success_codes(&[3]);
    check(given, UP, "9 exits#1=0 | starting#2 up | ended#1=0 spawn#2");
}

#[test]
fn on_failure_takes_a_signal_for_a_failure() {
    check(given(Policy::OnFailure), UP, "9 exits#1=sig15 | starting#2 up | ended#1=sig15 spawn#2");
}

#[test]
fn on_failure_takes_an_unknown_exit_for_a_failure() {
    let line = "9 exits#1=unknown | starting#2 up | ended#1=unknown spawn#2";
    check(given(Policy::OnFailure), UP, line);
}

#[test]
fn never_and_one_shot_leave_a_success_down() {
    for policy in [Policy::Never, Policy::OneShot] {
        check(given(policy), UP, "9 exits#1=0 | down up | ended#1=0");
    }
}

#[test]
fn never_and_one_shot_leave_a_failure_failed() {
    for policy in [Policy::Never, Policy::OneShot] {
        check(
            given(policy),
            UP,
            "9     exits#1=1 | failed:exited up | ended#1=1
             99999 tick      | failed:exited up |",
        );
    }
}

#[test]
fn a_run_may_end_before_it_was_seen_to_start() {
    check(
        always(),
        STARTING,
        "1 exits#1=1 | starting#2 up | ended#1=1 spawn#2
         1 started#1 | starting#2 up |
         1 started#2 | up#2 up       |",
    );
}

#[test]
fn what_is_left_of_a_tree_is_signalled_then_killed_every_second() {
    check(
        always(),
        UP,
        "9    leaves#1=1 | stopping#1+5000 up | stop#1
         4999 tick       | stopping#1+1 up    |
         1    tick       | stopping#1+1000 up | kill#1
         999  tick       | stopping#1+1 up    |
         1    tick       | stopping#1+1000 up | kill#1
         1700 tick       | stopping#1+1000 up | kill#1
         10   empty#1    | starting#2 up      | ended#1=1 spawn#2",
    );
}

#[test]
fn leftovers_that_obey_the_signal_are_not_killed() {
    check(
        given(Policy::OnFailure),
        UP,
        "9   leaves#1=0 | stopping#1+5000 up | stop#1
         100 empty#1    | down up            | ended#1=0",
    );
}

#[test]
fn leftovers_of_a_stop_are_signalled_and_keep_its_deadline() {
    check(
        always(),
        STOPPING,
        "1000 leaves#1=0 | stopping#1+4000 down | stop#1
         4000 tick       | stopping#1+1000 down | kill#1
         5    empty#1    | down down            | ended#1=0",
    );
}

#[test]
fn a_tree_that_ignores_the_stop_signal_is_killed_after_the_grace() {
    check(
        always(),
        STOPPING,
        "4999 tick         | stopping#1+1 down    |
         1    tick         | stopping#1+1000 down | kill#1
         3    exits#1=sig9 | down down            | ended#1=sig9",
    );
}

#[test]
fn no_grace_kills_at_once() {
    check(
        always().grace(0),
        UP,
        "9 down | stopping#1+0 down    | stop#1
         0 tick | stopping#1+1000 down | kill#1",
    );
}

#[test]
fn a_late_tick_kills_once_and_waits_a_whole_second() {
    check(always(), STOPPING, "60000 tick | stopping#1+1000 down | kill#1");
}

#[test]
fn a_grace_without_end_never_kills() {
    check(
        always().grace(u64::MAX),
        UP,
        "9       down         | stopping#1+18446744073702542 down | stop#1
         9999999 tick         | stopping#1+18446744063702543 down |
         9       exits#1=sig1 | down down                         | ended#1=sig1",
    );
}

#[test]
fn a_tree_said_to_be_empty_before_its_main_process_went_is_not_believed() {
    check(
        always(),
        UP,
        "9 empty#1   | up#1 up              |
         9 down      | stopping#1+5000 down | stop#1
         9 empty#1   | stopping#1+4991 down |
         9 exits#1=0 | down down            | ended#1=0",
    );
}

#[test]
fn a_second_exit_of_the_same_run_does_not_replace_the_first() {
    check(
        always(),
        LEFTOVERS,
        "9 leaves#1=0    | stopping#1+4991 up |
         9 exits#1=sig11 | starting#2 up      | ended#1=1 spawn#2",
    );
}

#[test]
fn a_late_exit_of_an_earlier_run_is_dropped() {
    check(
        always(),
        "0 up, 0 started#1, 0 exits#1=1, 0 started#2",
        "9 exits#1=1  | up#2 up |
         9 leaves#1=1 | up#2 up |
         9 empty#1    | up#2 up |
         9 nospawn#1  | up#2 up |
         9 sick#1     | up#2 up |
         9 started#1  | up#2 up |",
    );
}

#[test]
fn reports_of_a_run_that_never_was_are_dropped_while_up() {
    check(
        always(),
        UP,
        "9 exits#9=1  | up#1 up |
         9 leaves#9=1 | up#1 up |
         9 empty#9    | up#1 up |
         9 nospawn#9  | up#1 up |
         9 sick#9     | up#1 up |
         9 started#9  | up#1 up |",
    );
}

#[test]
fn reports_of_a_run_that_never_was_are_dropped_while_starting() {
    check(
        always(),
        STARTING,
        "9 exits#9=1 | starting#1 up |
         9 nospawn#9 | starting#1 up |
         9 started#9 | starting#1 up |
         9 sick#9    | starting#1 up |",
    );
}

#[test]
fn reports_of_another_run_do_not_end_a_stop() {
    check(
        always(),
        LEFTOVERS,
        "9 empty#9   | stopping#1+4991 up |
         9 exits#9=0 | stopping#1+4982 up |
         9 nospawn#9 | stopping#1+4973 up |",
    );
}

#[test]
fn reports_after_the_end_are_dropped() {
    check(
        given(Policy::Never),
        CRASHED,
        "9 exits#1=0 | failed:exited up |
         9 empty#1   | failed:exited up |
         9 started#1 | failed:exited up |
         9 sick#1    | failed:exited up |",
    );
}

#[test]
fn reports_during_backoff_are_dropped() {
    check(
        always().delay(1000),
        CRASHED,
        "1 exits#1=1 | backoff+999 up |
         1 empty#1   | backoff+998 up |
         1 started#1 | backoff+997 up |
         1 nospawn#1 | backoff+996 up |",
    );
}

#[test]
fn started_twice_changes_nothing() {
    check(always(), UP, "9 started#1 | up#1 up |");
}

#[test]
fn a_failed_spawn_is_a_crash() {
    check(
        always().delay(1000),
        STARTING,
        "1    nospawn#1 | backoff+1000 up | ended#1=nospawn
         1000 tick      | starting#2 up   | spawn#2",
    );
}

#[test]
fn a_failed_spawn_is_failed_where_the_policy_is_not_to_restart() {
    for policy in [Policy::Never, Policy::OneShot] {
        check(given(policy), STARTING, "1 nospawn#1 | failed:exited up | ended#1=nospawn");
    }
}

#[test]
fn failed_spawns_spend_the_budget() {
    check(
        always().delay(0).max_restarts(2),
        STARTING,
        "1 nospawn#1 | starting#2 up    | ended#1=nospawn spawn#2
         1 nospawn#2 | starting#3 up    | ended#2=nospawn spawn#3
         1 nospawn#3 | failed:spent2 up | ended#3=nospawn",
    );
}

#[test]
fn a_failed_spawn_of_a_restart_is_retried_as_a_crash() {
    check(
        always().delay(1000),
        "0 up, 0 started#1, 0 restart, 0 exits#1=0",
        "1 nospawn#2 | backoff+1000 up | ended#2=nospawn",
    );
}

#[test]
fn an_unhealthy_run_is_stopped_and_started_within_the_budget() {
    check(
        always().max_restarts(1),
        UP,
        "9 sick#1    | stopping#1+5000 up | stop#1
         9 exits#1=0 | starting#2 up      | ended#1=0 spawn#2
         9 started#2 | up#2 up            |
         9 sick#2    | stopping#2+5000 up | stop#2
         9 exits#2=0 | failed:spent1 up   | ended#2=0",
    );
}

#[test]
fn on_failure_starts_an_unhealthy_run_again_even_if_it_ends_well() {
    check(given(Policy::OnFailure), SICK, "9 exits#1=0 | starting#2 up | ended#1=0 spawn#2");
}

#[test]
fn an_unhealthy_run_that_hangs_is_killed() {
    check(
        always(),
        SICK,
        "5000 tick         | stopping#1+1000 up | kill#1
         5    exits#1=sig9 | starting#2 up      | ended#1=sig9 spawn#2",
    );
}

#[test]
fn unhealthy_while_starting_is_ignored() {
    check(always(), STARTING, "9 sick#1 | starting#1 up |");
}

#[test]
fn unhealthy_while_stopping_is_ignored() {
    check(
        always(),
        STOPPING,
        "9 sick#1    | stopping#1+4991 down |
         9 exits#1=0 | down down            | ended#1=0",
    );
}

#[test]
fn unhealthy_during_a_restart_does_not_make_it_a_crash() {
    check(
        always().max_restarts(0),
        RESTARTING,
        "9 sick#1    | stopping#1+4991 up |
         9 exits#1=0 | starting#2 up      | ended#1=0 spawn#2",
    );
}

#[test]
fn never_and_one_shot_leave_an_unhealthy_run_failed_however_it_ends() {
    for policy in [Policy::Never, Policy::OneShot] {
        check(given(policy), SICK, "9 exits#1=0 | failed:exited up | ended#1=0");
        check(given(policy), SICK, "9 exits#1=sig15 | failed:exited up | ended#1=sig15");
    }
}

#[test]
fn an_unhealthy_one_time_run_is_failed_however_it_ends() {
    check(
        always(),
        UP_ONCE,
        "9 sick#1    | stopping#1+5000 once | stop#1
         9 exits#1=0 | failed:exited down   | ended#1=0",
    );
}

/// A new keeper finds that the current run was never created.
#[track_caller]
fn check_never_made(opening: &str, expected: &str) {
    let mut stage = Stage::open(always(), opening);
    stage.milliseconds += 40;
    let before = stage.machine.clone();
    let mut actions = Vec::new();
    stage.machine.run_was_never_made(stage.now(), &mut actions);
    stage.note_runs(&actions);
    assert_eq!(format!("{} | {}", stage.state(), stage.list(&actions)).trim_end(), expected);
    let began = if stage.machine == before { before.since() } else { stage.now().wall };
    assert_eq!(stage.machine.since(), began);
}

#[test]
fn a_run_that_was_never_made_is_made_anew_if_it_is_still_wanted() {
    check_never_made("0 up", "starting#2 up | spawn#2");
    check_never_made("0 once", "starting#2 once | spawn#2");
    check_never_made("0 up, 0 restart", "starting#2 up | spawn#2");
    check_never_made("0 up, 0 down", "down down |");
    check_never_made("0 up, 0 down, 0 once", "starting#2 once | spawn#2");
    check_never_made(LEFTOVERS, "starting#2 up | spawn#2");
}

#[test]
fn what_is_up_or_over_is_not_made_anew() {
    check_never_made("", "down down |");
    check_never_made(UP, "up#1 up |");
    check_never_made("0 once, 0 exits#1=1", "failed:exited down |");
}

#[test]
fn what_is_left_after_a_kill_is_not_asked_again() {
    check(
        always(),
        STOPPING,
        "5000 tick          | stopping#1+1000 down | kill#1
         10   leaves#1=sig9 | stopping#1+990 down  |
         990  tick          | stopping#1+1000 down | kill#1
         10   empty#1       | down down            | ended#1=sig9",
    );
}
