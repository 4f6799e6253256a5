//! Wishes: stored before they go to the keeper, and stored together when they arrive together.

use crate::fake::{Manners, Place, failed, names, state, up};
use proctor_core::lifecycle::Wish;
use proctor_core::wire::{PhaseView, ToKeeper};
use proctor_engine::api::RestartWith;
use proctor_engine::error::EngineError;

/// Services that a daemon can handle without a configuration: their definitions are lost.
fn manners(place: &Place, services: &[&str]) -> Manners {
    let services = services.iter().map(|name| state(name, Wish::Down, PhaseView::Down)).collect();
    Manners { services, disk: Some(place.home.services_json()), ..Manners::default() }
}

fn lost(services: &[&str]) -> String {
    let entry = |name: &&str| {
        format!(r#""{name}":{{"definition":null,"base_dir":"/","environment":null}}"#)
    };
    let added: Vec<String> = services.iter().map(entry).collect();
    format!(r#"{{"version":1,"added":{{{}}}}}"#, added.join(","))
}

#[tokio::test]
async fn a_wish_is_on_disk_when_the_keeper_hears_it() {
    let services = ["a", "b", "c"];
    let place = Place::new().stored(&lost(&services));
    place
        .daemon(manners(&place, &services), async |engine, fake| {
            engine.set_wish(&names(&["a", "b"]), Wish::Up).await.unwrap();
            engine.set_wish(&names(&["b"]), Wish::Down).await.unwrap();
            engine.set_wish(&names(&["c"]), Wish::Once).await.unwrap();
            engine.restart(&names(&["b"]), RestartWith::default()).await.unwrap();
            assert_eq!(fake.asked(), ["up a", "up b", "down b", "once c", "restart b"]);
            let disk: Vec<serde_json::Value> = fake
                .heard()
                .iter()
                .filter(|heard| !matches!(heard.message, ToKeeper::Hello { .. }))
                .map(|heard| serde_json::from_str(heard.disk.as_ref().unwrap()).unwrap())
                .map(|json: serde_json::Value| json["wishes"].clone())
                .collect();
            let expected = [
                serde_json::json!({"a": "up", "b": "up"}),
                serde_json::json!({"a": "up", "b": "up"}),
                serde_json::json!({"a": "up", "b": "down"}),
                serde_json::json!({"a": "up", "b": "down", "c": "down"}),
                serde_json::json!({"a": "up", "b": "up", "c": "down"}),
            ];
            assert_eq!(disk, expected);
        })
        .await;
}

#[tokio::test]
async fn wishes_that_come_together_are_all_heard_in_order_and_the_last_one_stays() {
    let services = ["a", "b"];
    let place = Place::new().stored(&lost(&services));
    place
        .daemon(manners(&place, &services), async |engine, fake| {
            let (both, a, b) = (names(&["a", "b"]), names(&["a"]), names(&["b"]));
            let nobody = names(&["nobody"]);
            let (first, wrong, second, third) = tokio::join!(
                engine.set_wish(&both, Wish::Up),
                engine.set_wish(&nobody, Wish::Up),
                engine.set_wish(&a, Wish::Down),
                engine.set_wish(&b, Wish::Down),
            );
            for result in [first, second, third] {
                result.unwrap();
            }
            assert!(matches!(wrong, Err(EngineError::UnknownService { .. })), "{wrong:?}");
            assert_eq!(fake.asked(), ["up a", "up b", "down a", "down b"]);
            assert!(engine.read(|view| {
                let states = view.services.values().map(|service| service.state.as_ref().unwrap());
                states.into_iter().all(|state| state.wish == Wish::Down)
            }));
        })
        .await;
    assert_eq!(place.json()["wishes"], serde_json::json!({"a": "down", "b": "down"}));
}

#[tokio::test]
async fn a_wish_that_cannot_be_written_is_not_told_unless_it_is_to_stop() {
    let services = ["a"];
    let place = Place::new().stored(&lost(&services));
    let manners = Manners { disk: None, ..manners(&place, &services) };
    place
        .daemon(manners, async |engine, fake| {
            // Replaces the folder by a file, in one step: even root cannot write there.
            let aside = place.home.state.with_extension("aside");
            std::fs::write(&aside, "").unwrap();
            let (cwd, exchange) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
            rustix::fs::renameat_with(cwd, &aside, cwd, &place.home.state, exchange).unwrap();
            let error = engine.set_wish(&names(&["a"]), Wish::Up).await.unwrap_err();
            assert!(matches!(error, EngineError::Unwritable { .. }), "{error:?}");
            assert_eq!(fake.asked(), [""; 0]);
            // The service is stopped, and the response says that this is not stored.
            let unrecorded = engine.set_wish(&names(&["a"]), Wish::Down).await.unwrap();
            assert!(unrecorded.unwrap().contains("cannot write"));
            assert_eq!(fake.asked().len(), 1);
        })
        .await;
}

#[tokio::test]
async fn an_answer_is_given_when_its_effect_can_be_seen() {
    let services = ["a"];
    for answers_first in [false, true] {
        let place = Place::new().stored(&lost(&services));
        let services = vec![state("a", Wish::Up, failed())];
        let manners = Manners { services, answers_first, ..Manners::default() };
        place
            .daemon(manners, async |engine, _| {
                let phase = || {
                    engine.read(|view| {
                        let service = view.services.values().next().unwrap();
                        service.state.as_ref().unwrap().phase.clone()
                    })
                };
                engine.set_wish(&names(&["a"]), Wish::Up).await.unwrap();
                assert_eq!(phase(), up(1001));
                engine.restart(&names(&["a"]), RestartWith::default()).await.unwrap();
                assert_eq!(phase(), up(1002));
                engine.set_wish(&names(&["a"]), Wish::Down).await.unwrap();
                assert_eq!(phase(), PhaseView::Down);
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_wish_that_is_fulfilled_already_is_not_waited_for() {
    let services = ["a", "b"];
    let place = Place::new().stored(&lost(&services));
    let services = vec![state("a", Wish::Up, up(1)), state("b", Wish::Down, PhaseView::Down)];
    let manners = Manners { services, silent_states: true, ..Manners::default() };
    place
        .daemon(manners, async |engine, _| {
            let before = tokio::time::Instant::now();
            engine.set_wish(&names(&["a"]), Wish::Up).await.unwrap();
            engine.set_wish(&names(&["b"]), Wish::Down).await.unwrap();
            assert_eq!(before.elapsed().as_millis(), 0);
            // A keeper that shows no effect is waited for only briefly.
            engine.set_wish(&names(&["a"]), Wish::Down).await.unwrap();
            assert_eq!(before.elapsed().as_secs(), 1);
        })
        .await;
}
