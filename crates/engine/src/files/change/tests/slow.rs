//! Slow patterns: they can be stopped, and do not block a file for others.

use super::super::super::regex_deadline::RegexDeadline;
use super::super::replace::replace;
use super::*;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Each match is short, but the pattern reads to the end of the line to know it.
fn slow() -> Replacement {
    Replacement { find: r".*[^A\n]|A".into(), put: "B".into(), regex: true, ..Default::default() }
}

fn content() -> String {
    format!("{}\n", "A".repeat(300_000))
}

#[test]
fn who_stops_waiting_stops_it() {
    let asked = Cell::new(0);
    let stop = || asked.replace(asked.get() + 1) >= 20;
    let patience = RegexDeadline::new(&stop, None);
    let stopped = replace(content().as_bytes(), &slow(), "a", &patience);
    assert!(matches!(stopped, Err(FileError::Cancelled)), "{stopped:?}");
    assert_eq!(asked.get(), 21);
}

#[test]
fn what_takes_too_long_is_told() {
    let patience = RegexDeadline::new(&|| false, Some(Duration::ZERO));
    let told = replace(content().as_bytes(), &slow(), "a", &patience).unwrap_err().to_string();
    assert!(told.starts_with("the pattern is too slow for 'a'"), "{told}");
}

#[test]
fn a_file_can_be_written_as_soon_as_nobody_waits_for_it_any_more() {
    let scene = Scene::new();
    scene.place.write("a", content());
    let key = || Target::of(&scene.place.spot("a"), &scene.place.guarded).unwrap().key();
    let is_held = || scene.files.shared.locks.hold([key()], &|| true).is_err();
    let replacing = scene.files.replace("a".into(), slow(), wish());
    scene.runtime.block_on(async {
        let mut replacing = Box::pin(replacing);
        let begun = Instant::now();
        while !is_held() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it does not begin");
            let waiting = std::task::Waker::noop();
            let polled = replacing.as_mut().poll(&mut std::task::Context::from_waker(waiting));
            assert!(polled.is_pending(), "it is not slow");
            std::thread::yield_now();
        }
    });
    let begun = Instant::now();
    scene.write("a", "new\n").unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(scene.read("a").as_deref(), Some("new\n"));
    scene.is_tidy();
}
