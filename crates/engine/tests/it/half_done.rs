//! Nothing is left half done: a change is rejected before it begins, or the next daemon finishes it; and a new
//! daemon makes no unrequested changes.

use crate::fake::{Fake, Manners, Place, name, state, up};
use crate::with_config::{new_service, request, settle, spec_argv, write, yaml};
use proctor_core::lifecycle::Wish;
use proctor_core::wire::{PhaseView, ServiceState};
use proctor_engine::api::{ConfigRequest, Engine, NewService};
use proctor_engine::error::EngineError;
use std::path::PathBuf;

const TWO: &str = "    db:\n      command: sleep 8\n    web:\n      command: sleep 9\n";

/// Applies a file and starts its services.
fn starting(path: PathBuf, words: &[&str]) -> ConfigRequest {
    let start = Some(words.iter().map(|word| (*word).to_owned()).collect());
    ConfigRequest { start, ..request(path) }
}

fn running(services: &[&str]) -> Manners {
    let one = |(at, service): (usize, &&str)| state(service, Wish::Up, up(at as u64 + 1));
    Manners { services: services.iter().enumerate().map(one).collect(), ..Manners::default() }
}

#[tokio::test]
async fn a_file_that_is_being_edited_is_nothing_to_a_daemon_that_comes_back() {
    let place = Place::new();
    let extra = write(&place, "extra.env", "LEVEL=1\n");
    let file = TWO.replace("sleep 9", "sleep 9\n      env_file: extra.env");
    let path = write(&place, "proctor.yaml", &yaml(&file));
    place
        .daemon(Manners::default(), async |engine, _| {
            let applied = engine.apply(starting(path.clone(), &[])).await.unwrap();
            engine.set_wish(&applied.starting, Wish::Up).await.unwrap();
        })
        .await;

    let edits = [Some("    web:\n      command: other\n    new:\n      command: sleep 1\n"), None];
    for edit in edits {
        match edit {
            Some(text) => drop(write(&place, "proctor.yaml", &yaml(text))),
            None => [&path, &extra].iter().for_each(|file| std::fs::remove_file(file).unwrap()),
        }
        place
            .daemon(running(&["db", "web"]), async |engine, fake| {
                settle(&engine).await;
                assert_eq!(fake.asked(), ["define db", "define web"], "{edit:?}");
                assert_eq!(spec_argv(&fake, "web"), ["sleep", "9"]);
                let problems = engine.read(|view| view.problems.clone());
                assert_eq!(problems, [""; 0]);
                assert!(engine.read(|view| view.services.values().all(|service| !service.stale)));
            })
            .await;
    }

    // Nothing is at work: Proctor starts afresh and reads the file.
    write(&place, "proctor.yaml", &yaml("    web:\n      command: sleep 7\n"));
    let at_rest = |service| state(service, Wish::Down, PhaseView::Down);
    let services: Vec<ServiceState> = ["db", "web"].map(at_rest).into();
    place
        .daemon(Manners { services, ..Manners::default() }, async |engine, fake| {
            settle(&engine).await;
            assert_eq!(fake.asked(), ["define web", "remove db", "up web"]);
            assert_eq!(spec_argv(&fake, "web"), ["sleep", "7"]);
        })
        .await;
}

/// Everything that could change.
fn everything(place: &Place, engine: &Engine, fake: &Fake) -> (String, Vec<String>, u64) {
    let stored = std::fs::read_to_string(place.home.services_json()).unwrap();
    (stored, fake.asked(), engine.read(|view| view.generation))
}

#[tokio::test]
async fn what_has_no_chance_is_refused_before_anything_changes() {
    let place = Place::new();
    let path = write(&place, "proctor.yaml", &yaml(TWO));
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("      port: {}\n", held.local_addr().unwrap().port());
    place
        .daemon(Manners::default(), async |engine, fake| {
            let applied = engine.apply(starting(path.clone(), &[])).await.unwrap();
            assert_eq!(applied.starting, [name("db"), name("web")]);
            // Each starts as soon as it is defined.
            assert_eq!(fake.asked(), ["define db", "up db", "define web", "up web"]);
            assert_eq!(applied.begun, [name("db"), name("web")].into());
            engine.add(new_service("job", r#"{"command":"true"}"#)).await.unwrap();
            let before = everything(&place, &engine, &fake);
            let bad_files: [(&str, &[&str], &str); 6] = [
                (&TWO.replace("sleep 8", "nosuch"), &[], "db: program 'nosuch'"),
                // It runs and would get a new process.
                (&TWO.replace("sleep 9", "nosuch"), &["web"], "web: program 'nosuch'"),
                (&TWO.replace("sleep 8\n", &format!("sleep 8\n{port}")), &[], "is in use"),
                (&TWO.replace("sleep 9\n", &format!("sleep 9\n{port}")), &[], "is in use"),
                (&TWO.replace("sleep 8", "true\n      working_dir: gone"), &[], "must be a folder"),
                (&TWO.replace("db:", "database:"), &["db"], "no service or group 'db'"),
            ];
            for (text, words, expected) in bad_files {
                write(&place, "proctor.yaml", &yaml(text));
                let error = engine.apply(starting(path.clone(), words)).await.unwrap_err();
                assert!(error.to_string().contains(expected), "{text}: {error}");
            }
            let nosuch = NewService {
                start: Some(Wish::Up),
                ..new_service("new", r#"{"command":"nosuch"}"#)
            };
            let other = NewService { name: "job".into(), replace: true, ..nosuch.clone() };
            for service in [nosuch, other] {
                let error = engine.add(service).await.unwrap_err();
                assert!(error.to_string().contains("program 'nosuch'"), "{error}");
            }
            assert_eq!(everything(&place, &engine, &fake), before);
            // Services that are not started are not checked.
            write(&place, "proctor.yaml", &yaml(&TWO.replace("sleep 8", "nosuch")));
            let applied = engine.apply(starting(path, &["web"])).await.unwrap();
            assert_eq!((applied.starting, applied.changed), (vec![name("web")], vec![name("db")]));
            let error = engine.check_restartable(&[name("db")]).unwrap_err().to_string();
            assert!(error.contains("program 'nosuch'"), "{error}");
        })
        .await;
}

#[tokio::test]
async fn a_restart_is_refused_where_the_new_process_has_no_chance() {
    let place = Place::new();
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    let program = place.folder.path().join("tool");
    std::fs::copy("/bin/true", &program).unwrap();
    let web = format!("    web:\n      command: {}\n      port: {port}\n", program.display());
    let path = write(&place, "proctor.yaml", &yaml(&web));
    place
        .daemon(running(&["web"]), async |engine, _| {
            engine.apply(request(path)).await.unwrap();
            let web = [name("web")];
            engine.check_restartable(&web).expect("the port is its own");
            engine.check_startable(&web).expect("it is started already");
            std::fs::remove_file(&program).unwrap();
            engine.check_startable(&web).expect("it is started already");
            let error = engine.check_restartable(&web).unwrap_err().to_string();
            assert!(error.contains("was not found"), "{error}");
        })
        .await;
}

#[tokio::test]
async fn a_daemon_that_dies_before_the_keeper_heard_a_wish_leaves_it_to_the_next() {
    let place = Place::new();
    let path = write(&place, "proctor.yaml", &yaml(TWO));
    place
        .daemon(Manners::default(), async |engine, _| {
            engine.apply(starting(path.clone(), &["web"])).await.unwrap();
            for (service, wish) in [("job", Wish::Up), ("once", Wish::Once)] {
                let service = new_service(service, r#"{"command":"true"}"#);
                engine.add(NewService { start: Some(wish), ..service }).await.unwrap();
            }
        })
        .await;
    for keeper in [&["db", "job", "once", "web"][..], &["job", "once"], &[]] {
        let known = |service: &&str| state(service, Wish::Down, PhaseView::Down);
        let services = keeper.iter().map(known).chain([state("other", Wish::Up, up(1))]).collect();
        place
            .daemon(Manners { services, ..Manners::default() }, async |engine, fake| {
                settle(&engine).await;
                let wishes = |asked: &String| asked.starts_with("up");
                let asked: Vec<String> = fake.asked().into_iter().filter(wishes).collect();
                assert_eq!(asked, ["up web", "up job"], "{keeper:?}");
            })
            .await;
    }
}

#[tokio::test]
async fn a_removal_that_the_last_daemon_left_is_a_removal() {
    let manners = Manners { slow_removal: true, ..running(&["old"]) };
    Place::new()
        .stored(r#"{"version":1}"#)
        .daemon(manners, async |engine, fake| {
            let old = [name("old")];
            for wish in [Wish::Up, Wish::Down] {
                let error = engine.set_wish(&old, wish).await.unwrap_err();
                assert!(matches!(error, EngineError::UnknownService { .. }), "{error:?}");
            }
            assert_eq!(fake.asked(), ["remove old"]);
            assert!(
                engine.read(|view| view.services.contains_key(&old[0])),
                "it is still stopping"
            );
        })
        .await;
}
