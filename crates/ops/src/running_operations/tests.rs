//! Tests of the retention of ended operations and of their progress.

use super::*;
use crate::operation::{Caller, Role};
use crate::table::find;
use proctor_core::time::Wall;

fn call(text_bytes: usize, at: i64) -> Arc<RunningOperation> {
    let meta = &find("service.restart").unwrap().meta;
    let call = RunningOperation::new(meta, Role::Operator, &Caller::local(0));
    let reply = Reply { text: "x".repeat(text_bytes), ..Reply::default() };
    call.end_at(Wall(at), &Ok(reply), true);
    Arc::new(call)
}

fn kept(calls: &[Arc<RunningOperation>], now: i64) -> usize {
    let mut state = State::default();
    for call in calls {
        state.answers += call.bytes();
        state.over.push_back(Arc::clone(call));
    }
    state.forget_old(Wall(now));
    assert_eq!(state.answers, state.over.iter().map(|call| call.bytes()).sum::<usize>());
    state.over.len()
}

#[test]
fn what_is_over_is_kept_for_a_while_bounded_in_number_age_and_size() {
    let many: Vec<_> = (0..300).map(|at| call(10, at)).collect();
    assert_eq!(kept(&many, 300), MAX_FINISHED);
    assert_eq!(kept(&many[..10], OLDEST_MICROS + 5), 5, "operations that ended before are too old");
    assert_eq!(kept(&many[..10], 0), 10, "a clock that was set back makes nothing old");
    let large: Vec<_> = (0..10).map(|at| call(500 << 10, at)).collect();
    assert_eq!(kept(&large, 10), 4);
    assert_eq!(call(600 << 10, 0).bytes(), 0, "a huge response is not kept");
}

#[test]
fn errors_and_steps_count_and_are_cut() {
    let meta = &find("service.restart").unwrap().meta;
    let failed = |at, text: usize, details: usize| {
        let call = RunningOperation::new(meta, Role::Operator, &Caller::local(0));
        (0..64).for_each(|_| call.say(&"x".repeat(text)));
        let error = OpError::bad_input("x".repeat(text)).details(json!("x".repeat(details)));
        call.end_at(Wall(at), &Err(error), true);
        call.say("too late");
        Arc::new(call)
    };
    assert_eq!(failed(0, 10, 98).bytes(), 64 * 10 + 10 + 100);
    assert!(failed(0, 1 << 20, 1 << 20).bytes() < 300 << 10);
    let large: Vec<_> = (0..10).map(|at| failed(at, 0, 500 << 10)).collect();
    assert_eq!(kept(&large, 10), 4);
}

#[test]
fn a_call_that_is_given_up_was_cancelled_and_one_that_is_over_stays_what_it_was() {
    let meta = &find("service.restart").unwrap().meta;
    let call = RunningOperation::new(meta, Role::Operator, &Caller::local(0));
    (0..100).for_each(|step| call.say(&step.to_string()));
    assert_eq!((call.steps(), call.is_over()), (64, false));
    assert_eq!(call.give_up(|| cancelled(meta)), Outcome::Cancelled);
    call.end_at(Wall(1), &Err(OpError::bad_input("x")), false);
    assert_eq!(call.give_up(|| cancelled(meta)), Outcome::Failed);
}

#[test]
fn the_flag_is_taken_off_an_input_that_may_have_it() {
    let check = |operation: &str, flag: Value, expected: Option<bool>| {
        let meta = &find(operation).unwrap().meta;
        let mut input = Map::from_iter([(FLAG.to_owned(), flag)]);
        assert_eq!(take_flag(meta, &mut input).ok(), expected, "{operation}");
        input.is_empty()
    };
    assert!(check("service.stop", json!(true), Some(true)));
    assert!(check("service.stop", json!(null), Some(false)));
    check("service.stop", json!("yes"), None);
    assert!(!check("service.list", json!(true), Some(false)), "the field is unknown there");
    assert!(!check("service.wait", json!(true), Some(false)), "nobody would wait for it");
}
