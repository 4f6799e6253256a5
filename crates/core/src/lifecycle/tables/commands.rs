//! Commands of a person in every phase: start, start once, stop, restart.

use super::*;

#[test]
fn a_service_that_was_never_asked_for_stays_down() {
    check(always(), NEVER_RUN, "99999 tick | down down |");
}

#[test]
fn start_spawns_and_started_is_up() {
    check(
        always(),
        NEVER_RUN,
        "0 up        | starting#1 up | spawn#1
         3 started#1 | up#1 up       |",
    );
}

#[test]
fn start_of_what_is_starting_changes_nothing() {
    check(always(), STARTING, "5 up | starting#1 up |");
}

#[test]
fn start_of_what_runs_changes_nothing() {
    check(always(), UP, "5 up | up#1 up |");
}

#[test]
fn start_during_backoff_starts_at_once() {
    check(always().delay(1000), CRASHED, "400 up | starting#2 up | spawn#2");
}

#[test]
fn start_of_a_failed_service_starts_it() {
    check(always().max_restarts(0), CRASHED, "400 up | starting#2 up | spawn#2");
}

#[test]
fn start_while_cooling_starts_at_once() {
    let given = always().max_restarts(0).cool_off(60_000);
    check(given, CRASHED, "400 up | starting#2 up | spawn#2");
}

#[test]
fn start_during_stop_means_a_new_run_afterwards() {
    check(
        always(),
        STOPPING,
        "100 up           | stopping#1+4900 up |
         100 exits#1=sig15 | starting#2 up      | ended#1=sig15 spawn#2
         0   started#2    | up#2 up            |",
    );
}

#[test]
fn start_during_stop_does_not_call_off_the_kill() {
    check(
        always(),
        STOPPING,
        "100  up           | stopping#1+4900 up |
         4900 tick         | stopping#1+1000 up | kill#1
         5    exits#1=sig9 | starting#2 up      | ended#1=sig9 spawn#2",
    );
}

#[test]
fn start_once_during_stop_means_one_run_afterwards() {
    check(
        always(),
        STOPPING,
        "100 once      | stopping#1+4900 once |
         100 exits#1=0 | starting#2 once      | ended#1=0 spawn#2
         0   started#2 | up#2 once            |
         100 exits#2=0 | down down            | ended#2=0",
    );
}

#[test]
fn start_then_stop_during_stop_stays_down() {
    check(
        always(),
        STOPPING,
        "1 up        | stopping#1+4999 up   |
         1 down      | stopping#1+4998 down |
         1 exits#1=0 | down down            | ended#1=0",
    );
}

#[test]
fn a_start_after_a_one_time_run_began_keeps_it_running() {
    check(
        always(),
        UP_ONCE,
        "10 up        | up#1 up       |
         10 exits#1=0 | starting#2 up | ended#1=0 spawn#2",
    );
}

#[test]
fn start_once_of_what_runs_lets_it_end_for_good() {
    check(
        always(),
        UP,
        "10 once      | up#1 once |
         10 exits#1=0 | down down | ended#1=0",
    );
}

#[test]
fn start_once_runs_one_time_under_any_policy() {
    for policy in [Policy::Always, Policy::OnFailure, Policy::Never, Policy::OneShot] {
        check(
            given(policy),
            NEVER_RUN,
            "0  once      | starting#1 once | spawn#1
             1  started#1 | up#1 once       |
             10 exits#1=0 | down down       | ended#1=0",
        );
    }
}

#[test]
fn a_one_time_run_that_ends_badly_is_failed_and_not_tried_again() {
    check(
        always(),
        UP_ONCE,
        "10    exits#1=7 | failed:exited down | ended#1=7
         99999 tick      | failed:exited down |",
    );
}

#[test]
fn a_one_time_run_that_cannot_be_spawned_is_failed() {
    check(always(), "0 once", "1 nospawn#1 | failed:exited down | ended#1=nospawn");
}

#[test]
fn restart_of_a_one_time_run_is_another_one_time_run() {
    check(
        always(),
        UP_ONCE,
        "10 restart       | stopping#1+5000 once | stop#1
         10 exits#1=sig15 | starting#2 once      | ended#1=sig15 spawn#2
         1  started#2     | up#2 once            |
         10 exits#2=0     | down down            | ended#2=0",
    );
}

#[test]
fn stop_of_what_never_ran_changes_nothing() {
    check(always(), NEVER_RUN, "0 down | down down |");
}

#[test]
fn stop_while_starting_stops_the_run() {
    check(
        always(),
        STARTING,
        "1 down          | stopping#1+5000 down | stop#1
         1 started#1     | stopping#1+4999 down |
         5 exits#1=sig15 | down down            | ended#1=sig15",
    );
}

#[test]
fn stop_while_starting_of_a_run_that_then_cannot_be_spawned_goes_down() {
    check(
        always(),
        STARTING,
        "1 down      | stopping#1+5000 down | stop#1
         1 nospawn#1 | down down            | ended#1=nospawn",
    );
}

#[test]
fn stop_while_up_signals_and_waits_for_the_tree() {
    check(
        always(),
        UP,
        "10 down      | stopping#1+5000 down | stop#1
         50 exits#1=0 | down down            | ended#1=0",
    );
}

#[test]
fn stop_during_stop_changes_nothing() {
    check(always(), STOPPING, "100 down | stopping#1+4900 down |");
}

#[test]
fn stop_during_backoff_goes_down() {
    check(
        always().delay(1000),
        CRASHED,
        "400   down | down down |
         99999 tick | down down |",
    );
}

#[test]
fn stop_of_a_failed_service_goes_down() {
    check(always().max_restarts(0), CRASHED, "400 down | down down |");
}

#[test]
fn stop_while_cooling_goes_down_for_good() {
    check(
        always().max_restarts(0).cool_off(1000),
        CRASHED,
        "400   down | down down |
         99999 tick | down down |",
    );
}

#[test]
fn stop_while_leftovers_are_cleared_goes_down() {
    check(
        always(),
        LEFTOVERS,
        "100 down    | stopping#1+4900 down |
         100 empty#1 | down down            | ended#1=1",
    );
}

#[test]
fn stop_of_an_unhealthy_run_goes_down() {
    check(
        always(),
        SICK,
        "100 down      | stopping#1+4900 down |
         100 exits#1=0 | down down            | ended#1=0",
    );
}

#[test]
fn restart_of_what_never_ran_starts_it() {
    check(always(), NEVER_RUN, "0 restart | starting#1 up | spawn#1");
}

#[test]
fn restart_while_starting_makes_another_run_after_this_one() {
    check(
        always(),
        STARTING,
        "1 restart       | stopping#1+5000 up | stop#1
         1 exits#1=sig15 | starting#2 up      | ended#1=sig15 spawn#2",
    );
}

#[test]
fn restart_while_up_stops_then_starts() {
    check(
        always(),
        UP,
        "10 restart   | stopping#1+5000 up | stop#1
         90 exits#1=0 | starting#2 up      | ended#1=0 spawn#2
         3  started#2 | up#2 up            |",
    );
}

#[test]
fn restart_starts_anew_under_any_policy() {
    for policy in [Policy::Always, Policy::OnFailure, Policy::Never, Policy::OneShot] {
        check(given(policy), RESTARTING, "9 exits#1=0 | starting#2 up | ended#1=0 spawn#2");
    }
}

#[test]
fn a_second_restart_during_the_first_is_the_same_restart() {
    check(
        always(),
        RESTARTING,
        "10 restart   | stopping#1+4990 up |
         10 exits#1=0 | starting#2 up      | ended#1=0 spawn#2",
    );
}

#[test]
fn stop_during_a_restart_stays_down() {
    check(
        always(),
        RESTARTING,
        "10 down      | stopping#1+4990 down |
         10 exits#1=0 | down down            | ended#1=0",
    );
}

#[test]
fn restart_during_stop_means_a_new_run_afterwards() {
    check(
        always(),
        STOPPING,
        "10 restart   | stopping#1+4990 up |
         10 exits#1=0 | starting#2 up      | ended#1=0 spawn#2",
    );
}

#[test]
fn restart_while_leftovers_are_cleared_starts_at_once_afterwards() {
    check(
        always().delay(1000),
        LEFTOVERS,
        "10 restart | stopping#1+4990 up |
         10 empty#1 | starting#2 up      | ended#1=1 spawn#2",
    );
}

#[test]
fn restart_of_an_unhealthy_run_is_no_crash() {
    check(
        always().delay(1000),
        SICK,
        "10 restart   | stopping#1+4990 up |
         10 exits#1=0 | starting#2 up      | ended#1=0 spawn#2",
    );
}

#[test]
fn restart_during_backoff_starts_at_once() {
    check(always().delay(1000), CRASHED, "400 restart | starting#2 up | spawn#2");
}

#[test]
fn restart_of_a_failed_service_starts_it() {
    check(always().max_restarts(0), CRASHED, "400 restart | starting#2 up | spawn#2");
}

#[test]
fn restart_while_cooling_starts_at_once() {
    let given = always().max_restarts(0).cool_off(60_000);
    check(given, CRASHED, "400 restart | starting#2 up | spawn#2");
}

#[test]
fn restart_of_a_finished_one_shot_runs_it_again() {
    let opening = "0 up, 0 started#1, 0 exits#1=0";
    check(given(Policy::OneShot), opening, "400 restart | starting#2 up | spawn#2");
}

#[test]
fn start_while_leftovers_are_cleared_means_a_new_run_under_any_policy() {
    for policy in [Policy::Always, Policy::OnFailure, Policy::Never, Policy::OneShot] {
        check(
            given(policy).delay(1000),
            LEFTOVERS,
            "10 up      | stopping#1+4990 up |
             10 empty#1 | starting#2 up      | ended#1=1 spawn#2",
        );
    }
}

#[test]
fn stop_then_start_while_leftovers_are_cleared_means_a_new_run() {
    check(
        given(Policy::Never),
        LEFTOVERS,
        "10 down    | stopping#1+4990 down |
         10 up      | stopping#1+4980 up   |
         10 empty#1 | starting#2 up        | ended#1=1 spawn#2",
    );
}

#[test]
fn start_once_while_leftovers_are_cleared_means_one_new_run() {
    check(
        always(),
        LEFTOVERS,
        "10 once      | stopping#1+4990 once |
         10 empty#1   | starting#2 once      | ended#1=1 spawn#2
         10 exits#2=0 | down down            | ended#2=0",
    );
}

#[test]
fn start_of_an_unhealthy_run_that_is_being_stopped_is_no_crash() {
    check(
        always().max_restarts(0),
        SICK,
        "10 up        | stopping#1+4990 up |
         10 exits#1=0 | starting#2 up      | ended#1=0 spawn#2",
    );
}

#[test]
fn start_during_stop_forgives_the_past() {
    check(
        always().max_restarts(1),
        "0 up, 0 exits#1=1, 0 started#2, 0 down, 0 up, 0 exits#2=0, 0 started#3",
        "1 exits#3=1 | starting#4 up | ended#3=1 spawn#4",
    );
}
