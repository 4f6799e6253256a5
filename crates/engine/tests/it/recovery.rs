//! A damaged or missing `services.json`, or one with an unreadable configuration: no running service is
//! forgotten.

use crate::fake::{Manners, Place, failed, name, names, state, until, up};
use proctor_core::lifecycle::Wish;
use proctor_core::wire::{PhaseView, ServiceState};
use proctor_engine::api::RestartWith;
use proctor_engine::error::EngineError;

fn running() -> Vec<ServiceState> {
    vec![
        state("a", Wish::Up, up(1)),
        state("b", Wish::Down, PhaseView::Down),
        state("c", Wish::Up, failed()),
        state("d", Wish::Once, up(4)),
    ]
}

async fn check_kept(place: &Place, problems: usize) {
    let manners = Manners { services: running(), ..Manners::default() };
    place
        .daemon(manners, async |engine, fake| {
            let seen = engine.read(|view| view.services.keys().cloned().collect::<Vec<_>>());
            assert_eq!(seen, names(&["a", "b", "c", "d"]));
            assert!(engine.read(|view| view.services.values().all(|service| service.added)));
            // Commands wait until the start is done.
            engine.set_wish(&[], Wish::Up).await.unwrap();
            assert!(place.home.services_json().exists());
            let shown = engine.read(|view| view.problems.clone());
            assert_eq!(shown.len(), problems, "{shown:#?}");
            assert_eq!(fake.asked(), [""; 0], "nothing is asked of the keeper");
        })
        .await;
}

#[tokio::test]
async fn a_damaged_or_missing_state_keeps_every_service_now_and_at_the_next_start() {
    for text in [Some("{ torn"), Some(r#"{"version":99}"#), None] {
        let mut place = Place::new();
        if let Some(text) = text {
            place = place.stored(text);
        }
        check_kept(&place, 6).await;
        let files: Vec<String> = std::fs::read_dir(place.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let aside = files.iter().filter(|file| file.starts_with("services.json.damaged-")).count();
        assert_eq!(aside, usize::from(text.is_some()), "{files:?}");
        // The second daemon reads the file of the first: definitions and configuration are still lost, and
        // reported as lost.
        check_kept(&place, 5).await;
    }
}

#[tokio::test]
async fn a_service_whose_definition_is_lost_can_be_stopped_and_removed() {
    let place = Place::new();
    let manners = Manners { services: running(), ..Manners::default() };
    place
        .daemon(manners, async |engine, mut fake| {
            engine.set_wish(&names(&["a"]), Wish::Down).await.unwrap();
            let with = RestartWith { args: Some(vec!["-v".into()]), env: Vec::new() };
            let args = engine.restart(&names(&["a"]), with).await.unwrap_err();
            assert!(args.to_string().contains("definition of 'a' was lost"), "{args}");
            engine.remove(&names(&["a", "c"])).await.unwrap();
            until(&engine, "both are gone", |view| view.services.len() == 2).await;
            fake.until("removed", |asked| asked == ["down a", "remove a", "remove c"]).await;
            let problems = engine.read(|view| view.problems.clone());
            assert!(!problems.iter().any(|text| text.starts_with("a:")), "{problems:?}");
            let again = engine.remove(&names(&["a"])).await.unwrap_err();
            assert!(matches!(again, EngineError::UnknownService { .. }), "{again:?}");
        })
        .await;
    assert_eq!(place.json()["added"].as_object().unwrap().len(), 2);
    assert_eq!(place.json()["wishes"]["a"], serde_json::Value::Null);
}

#[tokio::test]
async fn services_of_a_file_that_cannot_be_read_stay_and_those_nobody_defines_go() {
    let stored = r#"{"version":1,"config":"/nowhere/proctor.yaml","wishes":{"a":"down","b":"up"}}"#;
    let manners = Manners { services: running(), ..Manners::default() };
    Place::new()
        .stored(stored)
        .daemon(manners.clone(), async |engine, mut fake| {
            fake.until("wishes", |asked| asked.len() == 2).await;
            assert_eq!(fake.asked(), ["down a", "up b"]);
            let problems = engine.read(|view| view.problems.clone());
            assert!(problems[0].contains("/nowhere/proctor.yaml"), "{problems:?}");
            let config = engine.read(|view| view.config.clone());
            assert_eq!(config, Some("/nowhere/proctor.yaml".into()));
            let error = engine.remove(&names(&["a"])).await.unwrap_err();
            assert!(matches!(error, EngineError::DefinedInFile(..)), "{error:?}");
        })
        .await;
    Place::new()
        .stored(r#"{"version":1}"#)
        .daemon(manners, async |engine, mut fake| {
            let all = ["remove a", "remove b", "remove c", "remove d"];
            fake.until("all are removed", |asked| asked == all).await;
            until(&engine, "nothing is left", |view| view.services.is_empty()).await;
        })
        .await;
}

#[tokio::test]
async fn a_removal_that_takes_time_stays_visible_until_it_is_done() {
    let place = Place::new();
    let manners = Manners { services: running(), slow_removal: true, ..Manners::default() };
    place
        .daemon(manners, async |engine, fake| {
            engine.remove(&names(&["a"])).await.unwrap();
            assert!(engine.read(|view| view.services.contains_key(&name("a"))));
            let error = engine.set_wish(&names(&["a"]), Wish::Up).await.unwrap_err();
            assert!(matches!(error, EngineError::UnknownService { .. }), "{error:?}");
            fake.say(proctor_core::wire::FromKeeper::Removed { name: name("a") });
            until(&engine, "it is gone", |view| !view.services.contains_key(&name("a"))).await;
        })
        .await;
}
