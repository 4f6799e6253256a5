//! Start and end of a daemon.

use crate::fake::{Manners, Place, name, names, state, until, up};
use proctor_core::lifecycle::Wish;
use proctor_core::wire::{FromKeeper, PhaseView, Refusal, Whom, encode};
use proctor_engine::api::Engine;
use proctor_engine::daemon::{DaemonExit, Listen};
use proctor_engine::error::EngineError;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

#[tokio::test]
async fn each_end_of_the_keeper_is_told_from_the_others() {
    let place = Place::new();
    let plain = Manners::default;
    let ending = place.ending(plain(), async |_, fake| fake.die()).await;
    assert_eq!(ending, DaemonExit::KeeperGone);
    let say = |for_good| FromKeeper::Ending { for_good };
    let ending = place.ending(plain(), async |_, fake| fake.say(say(true))).await;
    assert_eq!(ending, DaemonExit::ForGood);
    let ending = place.ending(plain(), async |_, fake| fake.say(say(false))).await;
    assert_eq!(ending, DaemonExit::Replaced);
    let ending = place.ending(plain(), async |engine, _| engine.shutdown().await.unwrap()).await;
    assert_eq!(ending, DaemonExit::ForGood);
    let binary = place.folder.path().join("proctor");
    std::fs::write(&binary, "#!/bin/sh\necho proctor 9.9.9\n").unwrap();
    std::fs::set_permissions(&binary, PermissionsExt::from_mode(0o755)).unwrap();
    let upgrade = async |engine: Engine, _| {
        let nothing = engine.upgrade("/new/proctor".into()).await.unwrap_err();
        assert!(matches!(nothing, EngineError::NoProctor { .. }), "{nothing:?}");
        assert_eq!(engine.upgrade(binary).await.unwrap(), "9.9.9");
    };
    assert_eq!(place.ending(plain(), upgrade).await, DaemonExit::Replaced);
}

#[tokio::test]
async fn a_keeper_of_another_version_is_left_to_start_its_own_daemon() {
    let manners = Manners { protocol: Some(u32::MAX), ..Manners::default() };
    let body = async |_, _| panic!("nobody is served");
    assert_eq!(Place::new().ending(manners, body).await, DaemonExit::Replaced);
}

/// Returns the ending of a daemon whose keeper sends only these bytes.
async fn ending_after(bytes: &[u8]) -> DaemonExit {
    let (mut keeper, ours) = UnixStream::pair().unwrap();
    keeper.write_all(bytes).unwrap();
    let place = Place::new();
    let serve = async |_| panic!("nobody is served");
    proctor_engine::daemon::run(place.home.clone(), ours, Listen::AtOnce, serve).await
}

/// The greeting of a keeper of protocol 1, as it sent it.
const KEEPER_OF_PROTOCOL_1: &[u8] =
    include_bytes!("../../../core/tests/fixtures/v1/from_keeper/hello_v2");

#[tokio::test(start_paused = true)]
async fn a_keeper_that_does_not_greet_is_left_alone() {
    let framed = |messages: &[FromKeeper]| {
        let mut bytes = Vec::new();
        messages.iter().for_each(|message| encode(message, &mut bytes).unwrap());
        bytes
    };
    let state = || FromKeeper::State(Box::new(state("web", Wish::Up, up(1))));
    let ending = |for_good| FromKeeper::Ending { for_good };
    for (bytes, expected) in [
        (Vec::new(), DaemonExit::Replaced),
        (framed(&[state()]), DaemonExit::Replaced),
        (vec![0xff; 64], DaemonExit::Replaced),
        (vec![3, 0, 0, 0, 0xff, 0xff, 0xff], DaemonExit::Replaced),
        (framed(&[state(), ending(false)]), DaemonExit::Replaced),
        (KEEPER_OF_PROTOCOL_1.to_vec(), DaemonExit::Replaced),
        // A message of a later version is no reason to leave; what comes after it is heard.
        (framed(&[FromKeeper::Unknown, ending(true)]), DaemonExit::ForGood),
        (framed(&[ending(true)]), DaemonExit::ForGood),
    ] {
        assert_eq!(ending_after(&bytes).await, expected, "{bytes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_keeper_that_does_not_answer_fails_the_request_and_not_the_daemon() {
    let services = vec![state("web", Wish::Up, up(1))];
    let manners = Manners { services, mute: true, ..Manners::default() };
    Place::new()
        .daemon(manners, async |engine, fake| {
            let error = engine.signal(&name("web"), 1, Whom::Main).await.unwrap_err();
            assert!(matches!(error, EngineError::KeeperGone), "{error:?}");
            // Many requests to a silent keeper take as long as one.
            let before = tokio::time::Instant::now();
            let many: Vec<_> = (0..50).map(|_| name("web")).collect();
            let error = engine.set_wish(&many, Wish::Down).await.unwrap_err();
            assert!(matches!(error, EngineError::KeeperGone), "{error:?}");
            assert!(
                before.elapsed() < std::time::Duration::from_secs(11),
                "{:?}",
                before.elapsed()
            );
            let moved = state("web", Wish::Up, PhaseView::Held);
            fake.say(FromKeeper::State(Box::new(moved)));
            until(&engine, "news still arrives", |view| {
                let state = view.services[&name("web")].state.as_ref().unwrap();
                state.phase == PhaseView::Held
            })
            .await;
        })
        .await;
}

#[tokio::test]
async fn who_waits_for_a_keeper_that_dies_hears_it_at_once() {
    let services = vec![state("web", Wish::Up, up(1))];
    let manners = Manners { services, mute: true, ..Manners::default() };
    let ending = Place::new()
        .ending(manners, async |engine, mut fake| {
            let web = name("web");
            let (waiting, ()) = tokio::join!(engine.signal(&web, 1, Whom::Tree), async {
                fake.until("the signal arrives", |asked| asked == ["signal web 1"]).await;
                fake.die();
            });
            assert!(matches!(waiting, Err(EngineError::KeeperGone)), "{waiting:?}");
        })
        .await;
    assert_eq!(ending, DaemonExit::KeeperGone);
}

#[tokio::test]
async fn the_view_shows_the_keeper_and_grows_with_what_it_says() {
    let services = vec![state("web", Wish::Up, up(1))];
    Place::new()
        .daemon(Manners { services, ..Manners::default() }, async |engine, fake| {
            assert_eq!(engine.read(|view| view.keeper.as_ref().map(|keeper| keeper.pid)), Some(1));
            let before = engine.read(|view| view.generation);
            fake.say(FromKeeper::State(Box::new(state("web", Wish::Up, up(2)))));
            assert!(engine.changed(before).await > before);
            until(&engine, "the new run is seen", |view| {
                view.services[&name("web")].state.as_ref().unwrap().phase == up(2)
            })
            .await;
            let known = engine.select(&["web".into()]).unwrap();
            assert_eq!(known, names(&["web"]));
            let unknown = engine.select(&["wep".into()]).unwrap_err();
            let nearest = "web".to_owned();
            assert!(
                matches!(&unknown, EngineError::UnknownService { nearest: Some(found), .. } if *found == nearest),
                "{unknown:?}"
            );
            let refused = engine.set_wish(&names(&["nope"]), Wish::Up).await.unwrap_err();
            assert!(matches!(refused, EngineError::UnknownService { .. }), "{refused:?}");
        })
        .await;
}

#[tokio::test]
async fn a_refusal_of_the_keeper_comes_back_unless_it_is_about_a_stop() {
    Place::new()
        .daemon(Manners::default(), async |engine, fake| {
            // Seen once, and gone in the keeper since.
            fake.say(FromKeeper::State(Box::new(state("ghost", Wish::Up, up(1)))));
            until(&engine, "ghost is seen", |view| view.services.contains_key(&name("ghost")))
                .await;
            engine.set_wish(&names(&["ghost"]), Wish::Down).await.unwrap();
            let error = engine.set_wish(&names(&["ghost"]), Wish::Up).await.unwrap_err();
            let expected = Refusal::UnknownService(name("ghost"));
            assert!(
                matches!(&error, EngineError::Refused(refusal) if *refusal == expected),
                "{error:?}"
            );
        })
        .await;
}
