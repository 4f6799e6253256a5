//! The waits and the number of restarts of a crashed service.

use super::*;

#[test]
fn without_a_delay_the_first_restart_is_immediate_and_the_ladder_follows() {
    check(
        always().max_restarts(None).max_delay(1500),
        UP,
        "1    exits#1=1 | starting#2 up   | ended#1=1 spawn#2
         1    exits#2=1 | backoff+250 up  | ended#2=1
         250  tick      | starting#3 up   | spawn#3
         1    exits#3=1 | backoff+500 up  | ended#3=1
         500  tick      | starting#4 up   | spawn#4
         1    exits#4=1 | backoff+1000 up | ended#4=1
         1000 tick      | starting#5 up   | spawn#5
         1    exits#5=1 | backoff+1500 up | ended#5=1
         1500 tick      | starting#6 up   | spawn#6
         1    exits#6=1 | backoff+1500 up | ended#6=1",
    );
}

#[test]
fn with_a_delay_the_first_restart_waits_for_it() {
    check(
        always().delay(100).max_restarts(None).max_delay(350),
        UP,
        "1   exits#1=1 | backoff+100 up | ended#1=1
         100 tick      | starting#2 up  | spawn#2
         1   exits#2=1 | backoff+200 up | ended#2=1
         200 tick      | starting#3 up  | spawn#3
         1   exits#3=1 | backoff+350 up | ended#3=1",
    );
}

#[test]
fn a_delay_of_zero_never_waits() {
    check(
        always().delay(0).max_restarts(None),
        UP,
        "1 exits#1=1 | starting#2 up | ended#1=1 spawn#2
         1 exits#2=1 | starting#3 up | ended#2=1 spawn#3
         1 exits#3=1 | starting#4 up | ended#3=1 spawn#4",
    );
}

#[test]
fn a_delay_beyond_the_longest_is_cut_to_it() {
    check(always().delay(9000).max_delay(500), UP, "1 exits#1=1 | backoff+500 up | ended#1=1");
}

#[test]
fn a_factor_of_one_waits_the_same_each_time() {
    let mut given = always().delay(100);
    given.restart.backoff = 1.0;
    check(
        given,
        UP,
        "1   exits#1=1 | backoff+100 up | ended#1=1
         100 tick      | starting#2 up  | spawn#2
         1   exits#2=1 | backoff+100 up | ended#2=1",
    );
}

#[test]
fn a_tick_before_its_time_does_nothing() {
    check(
        always().delay(1000),
        CRASHED,
        "999 tick | backoff+1 up  |
         1   tick | starting#2 up | spawn#2",
    );
}

#[test]
fn a_late_tick_starts_once() {
    check(
        always().delay(1000),
        CRASHED,
        "99999 tick | starting#2 up | spawn#2
         0     tick | starting#2 up |",
    );
}

#[test]
fn stable_uptime_begins_the_ladder_anew() {
    check(
        always().delay(100),
        CRASHED,
        "100   tick      | starting#2 up  | spawn#2
         0     started#2 | up#2 up        |
         10000 exits#2=1 | backoff+100 up | ended#2=1",
    );
}

#[test]
fn uptime_just_short_of_stable_keeps_climbing() {
    check(
        always().delay(100),
        CRASHED,
        "100  tick      | starting#2 up  | spawn#2
         0    started#2 | up#2 up        |
         9999 exits#2=1 | backoff+200 up | ended#2=1",
    );
}

#[test]
fn time_spent_on_leftovers_is_not_uptime() {
    check(
        always().delay(100),
        CRASHED,
        "100   tick       | starting#2 up      | spawn#2
         0     started#2  | up#2 up            |
         1     leaves#2=1 | stopping#2+5000 up | stop#2
         60000 empty#2    | backoff+200 up     | ended#2=1",
    );
}

#[test]
fn stable_uptime_does_not_empty_the_window() {
    check(
        always().max_restarts(1),
        CRASHED,
        "0     started#2 | up#2 up          |
         10000 exits#2=1 | failed:spent1 up | ended#2=1",
    );
}

#[test]
fn a_spent_budget_is_failed_and_stays_failed() {
    check(
        always().delay(0).max_restarts(2),
        UP,
        "1     exits#1=1 | starting#2 up    | ended#1=1 spawn#2
         1     exits#2=1 | starting#3 up    | ended#2=1 spawn#3
         1     exits#3=1 | failed:spent2 up | ended#3=1
         99999 tick      | failed:spent2 up |",
    );
}

#[test]
fn restarts_that_left_the_window_are_free_again() {
    check(
        always().delay(0).max_restarts(1).window(1000),
        UP,
        "0    exits#1=1 | starting#2 up    | ended#1=1 spawn#2
         1000 exits#2=1 | starting#3 up    | ended#2=1 spawn#3
         999  exits#3=1 | failed:spent1 up | ended#3=1",
    );
}

#[test]
fn the_window_slides_restart_by_restart() {
    check(
        always().delay(0).max_restarts(2).window(1000),
        UP,
        "0   exits#1=1 | starting#2 up    | ended#1=1 spawn#2
         600 exits#2=1 | starting#3 up    | ended#2=1 spawn#3
         400 exits#3=1 | starting#4 up    | ended#3=1 spawn#4
         599 exits#4=1 | failed:spent2 up | ended#4=1",
    );
}

#[test]
fn no_restarts_allowed_means_the_first_crash_fails() {
    check(always().max_restarts(0), UP, "1 exits#1=1 | failed:spent0 up | ended#1=1");
}

#[test]
fn without_a_limit_it_never_fails() {
    let mut stage = Stage::open(always().delay(0).max_restarts(None), UP);
    for run in 1..3000 {
        stage.play(&format!("1 exits#{run}=1"));
        assert_eq!(stage.state(), format!("starting#{} up", run + 1));
    }
    assert_eq!(stage.machine.restarts(), 2999);
}

#[test]
fn a_spent_budget_with_a_cool_off_tries_again_by_itself() {
    check(
        always().delay(0).max_restarts(1).cool_off(60_000),
        CRASHED,
        "1     exits#2=1 | cooling+60000 up | ended#2=1
         59999 tick      | cooling+1 up     |
         1     tick      | starting#3 up    | spawn#3
         0     started#3 | up#3 up          |",
    );
}

#[test]
fn after_the_cool_off_the_budget_is_whole_again() {
    check(
        always().delay(0).max_restarts(1).cool_off(500),
        "0 up, 0 exits#1=1, 0 exits#2=1, 500 tick",
        "1   exits#3=1 | starting#4 up  | ended#3=1 spawn#4
         1   exits#4=1 | cooling+500 up | ended#4=1",
    );
}

#[test]
fn a_restart_by_a_person_forgives_the_past() {
    for command in ["up", "restart"] {
        check(
            always().delay(0).max_restarts(1),
            &format!("0 up, 0 exits#1=1, 0 exits#2=1, 0 {command}"),
            "1 exits#3=1 | starting#4 up    | ended#3=1 spawn#4
             1 exits#4=1 | failed:spent1 up | ended#4=1",
        );
    }
}

#[test]
fn restarts_by_a_person_never_use_the_budget() {
    let mut stage = Stage::open(always().max_restarts(0), UP);
    for run in 1..50 {
        stage.play("1 restart");
        stage.play(&format!("1 exits#{run}=0"));
        stage.play(&format!("1 started#{}", run + 1));
        assert_eq!(stage.state(), format!("up#{} up", run + 1));
    }
    assert_eq!(stage.machine.restarts(), 0);
}

#[test]
fn jitter_shortens_each_wait_by_at_most_its_share_and_differs_between_runs() {
    let mut given = always().delay(1000).max_delay(1000).max_restarts(None);
    given.restart.jitter = 0.25;
    let mut stage = Stage::open(given, UP);
    let mut waits = Vec::new();
    for run in 1..200 {
        stage.play(&format!("1 exits#{run}=1"));
        let wait = stage.machine.deadline().unwrap().since(stage.now().mono).0;
        assert!((750..=1000).contains(&wait), "a wait of {wait}");
        waits.push(wait);
        stage.play("1000 tick");
    }
    assert!(waits.iter().any(|wait| *wait < 800) && waits.iter().any(|wait| *wait > 950));
}

#[test]
fn the_window_counts_restarts_when_they_are_made() {
    let opening = "0 up, 0 exits#1=1, 900 tick, 0 started#2";
    let given = always().delay(900).max_restarts(1).window(1000);
    check(given.clone(), opening, "200 exits#2=1 | failed:spent1 up | ended#2=1");
    check(given, opening, "1000 exits#2=1 | backoff+1800 up | ended#2=1");
}

#[test]
fn the_window_counts_a_restart_that_a_late_tick_made_late() {
    check(
        always().delay(900).max_restarts(1).window(1000),
        "0 up, 0 exits#1=1, 5000 tick",
        "999 exits#2=1 | failed:spent1 up | ended#2=1",
    );
}

#[test]
fn a_restart_is_counted_once_it_is_made() {
    let mut stage = Stage::open(always().delay(1000), CRASHED);
    assert_eq!(stage.machine.restarts(), 0, "it waits for its first restart");
    stage.play("1000 tick");
    assert_eq!(stage.machine.restarts(), 1);
    stage.play("1 exits#2=1");
    stage.play("1 down");
    assert_eq!(stage.machine.restarts(), 1, "the second was called off");
}

#[test]
fn a_limit_beyond_what_is_remembered_is_still_a_limit() {
    let mut stage = Stage::open(always().delay(0).max_restarts(5000), UP);
    for run in 1..=1000 {
        stage.play(&format!("1 exits#{run}=1"));
    }
    assert_eq!(stage.state(), "starting#1001 up");
    stage.play("1 exits#1001=1");
    assert_eq!(stage.state(), "failed:spent1000 up");
}

#[test]
fn a_delay_of_zero_never_waits_even_with_an_absurd_factor() {
    let mut given = always().delay(0).max_restarts(None);
    given.restart.backoff = f64::MAX;
    let opening = "0 up, 0 exits#1=1, 0 exits#2=1, 0 exits#3=1";
    check(given, opening, "1 exits#4=1 | starting#5 up | ended#4=1 spawn#5");
}

/// Start of the phase, in milliseconds before now.
#[track_caller]
fn check_since(given: ScriptSettings, opening: &str, expected: i64) {
    let stage = Stage::open(given, opening);
    let began = stage.machine.since();
    assert_eq!((stage.now().wall.0 - began.0) / 1000, expected, "of {}", stage.state());
}

#[test]
fn a_phase_begins_when_it_is_entered_and_not_with_what_happens_in_it() {
    check_since(always(), "0 up, 5 tick", 5);
    check_since(always(), "0 up, 5 started#1, 3 up", 3);
    check_since(always(), "0 up, 5 started#1, 3 down, 2 leaves#1=0, 5000 tick", 5002);
    check_since(always().delay(1000), "0 up, 5 exits#1=1, 7 tick", 7);
}

#[test]
fn every_run_begins_its_own_start() {
    check_since(always().delay(0), "0 up, 50 nospawn#1, 3 tick", 3);
}

#[test]
fn what_cannot_be_made_for_lack_of_room_is_tried_on_and_on_and_costs_no_budget() {
    check(
        always().max_restarts(1).delay(0).window(60_000),
        UP,
        "1    exits#1=1  | starting#2 up   | ended#1=1 spawn#2
         1    noroom#2   | backoff+250 up  | ended#2=nospawn
         250  tick       | starting#3 up   | spawn#3
         1    noroom#3   | backoff+250 up  | ended#3=nospawn
         250  tick       | starting#4 up   | spawn#4
         1    noroom#4   | backoff+250 up  | ended#4=nospawn
         250  tick       | starting#5 up   | spawn#5
         1    started#5  | up#5 up         |
         1    exits#5=1  | failed:spent1 up  | ended#5=1",
    );
    check(always().max_restarts(0), STARTING, "1 noroom#1 | failed:spent0 up | ended#1=nospawn");
    check(given(Policy::Never), STARTING, "1 noroom#1 | failed:exited up | ended#1=nospawn");
}
