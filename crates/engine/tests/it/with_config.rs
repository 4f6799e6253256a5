//! Configurations: applied all or nothing, restored by the next daemon, changed while services run.

use crate::fake::{Fake, Manners, Place, failed, name, names, state, until, up};
use proctor_core::lifecycle::Wish;
use proctor_core::wire::{FromKeeper, PhaseView, ServiceState, ToKeeper};
use proctor_engine::api::{Applied, ConfigRequest, Engine, Health, NewService, RestartWith};
use proctor_engine::error::EngineError;
use std::path::PathBuf;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

pub(crate) fn write(place: &Place, file: &str, text: &str) -> PathBuf {
    let path = place.folder.path().join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

pub(crate) fn yaml(services: &str) -> String {
    format!("supervisor:\n  services:\n{services}")
}

fn environment(pairs: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
    Some(pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect())
}

pub(crate) fn request(path: PathBuf) -> ConfigRequest {
    ConfigRequest {
        path: Some(path),
        environment: environment(&[("PATH", "/bin")]),
        ..ConfigRequest::default()
    }
}

/// Waits until earlier commands are done.
pub(crate) async fn settle(engine: &Engine) {
    engine.set_wish(&[], Wish::Up).await.unwrap();
}

fn list(applied: &Applied) -> [Vec<&str>; 4] {
    let Applied { source: _, starting: _, begun: _, added, changed, removed, unchanged } = applied;
    [added, changed, removed, unchanged].map(|names| names.iter().map(|n| n.as_str()).collect())
}

pub(crate) fn spec_argv(fake: &Fake, service: &str) -> Vec<String> {
    let argv = |message: &ToKeeper| {
        let ToKeeper::Define { spec, .. } = message else { return None };
        (spec.name.as_str() == service).then(|| spec.exec.argv.clone())
    };
    fake.heard().iter().rev().find_map(|heard| argv(&heard.message)).unwrap()
}

#[tokio::test]
async fn a_new_daemon_says_only_what_the_keeper_does_not_know() {
    let known = |wish, phase| Some(state("web", wish, phase));
    let down = || PhaseView::Down;
    let rows: [(Option<&str>, Option<ServiceState>, &[&str]); 14] = [
        (Some("up"), None, &["up web"]),
        (Some("up"), known(Wish::Up, up(1)), &[]),
        (Some("up"), known(Wish::Up, failed()), &[]),
        (Some("up"), known(Wish::Up, down()), &[]),
        (Some("up"), known(Wish::Down, down()), &["up web"]),
        (Some("down"), None, &[]),
        (Some("down"), known(Wish::Up, up(1)), &["down web"]),
        (Some("down"), known(Wish::Up, failed()), &["down web"]),
        (Some("down"), known(Wish::Down, down()), &[]),
        (Some("down"), known(Wish::Once, up(1)), &[]),
        (None, None, &["up web"]),
        (None, known(Wish::Up, up(1)), &[]),
        (None, known(Wish::Up, failed()), &[]),
        (None, known(Wish::Down, down()), &[]),
    ];
    for (wish, keeper, expected) in rows {
        let place = Place::new();
        let path = write(&place, "proctor.yaml", &yaml("    web:\n      command: sleep 9\n"));
        let wishes = wish.map(|wish| format!(r#""web":"{wish}""#)).unwrap_or_default();
        let path = path.display();
        let stored = format!(r#"{{"version":1,"config":"{path}","wishes":{{{wishes}}}}}"#);
        let row = format!("stored {wish:?}, keeper {keeper:?}");
        let services = keeper.into_iter().collect();
        place
            .stored(&stored)
            .daemon(Manners { services, ..Manners::default() }, async |engine, fake| {
                settle(&engine).await;
                let all: Vec<&str> = [&["define web"], expected].concat();
                assert_eq!(fake.asked(), all, "{row}");
            })
            .await;
    }
}

#[tokio::test]
async fn a_configuration_with_anything_wrong_in_it_changes_nothing() {
    let place = Place::new();
    let good = yaml("    web:\n      command: sleep 9\n");
    let path = write(&place, "proctor.yaml", &good);
    place
        .daemon(Manners::default(), async |engine, fake| {
            let applied = engine.apply(request(path.clone())).await.unwrap();
            assert_eq!(list(&applied), [vec!["web"], vec![], vec![], vec![]]);
            let job = new_service("job", r#"{"command":"true"}"#);
            engine.add(job).await.unwrap();
            let before = (place.json(), fake.asked(), engine.read(|view| view.generation));
            let wrong = [
                "    web:\n      comand: sleep 9\n",
                "    web:\n      command: sleep 9\n    db:\n      command: sleep 8\n      user: no-such-user\n",
                "    db:\n      command: sleep 8\n    job:\n      command: sleep 9\n",
                "    web: [",
            ];
            for text in wrong {
                write(&place, "proctor.yaml", &yaml(text));
                let error = engine.apply(request(path.clone())).await.unwrap_err();
                let expected = matches!(&error, EngineError::BadConfig(_) | EngineError::UnknownUser { .. });
                assert!(expected, "{text}: {error:?}");
                let check = engine.check(request(path.clone())).await;
                assert!(check.is_err() || text.contains("job"), "{text}");
            }
            std::fs::remove_file(&path).unwrap();
            let error = engine.apply(request(path.clone())).await.unwrap_err();
            assert!(matches!(error, EngineError::Unreadable { .. }), "{error:?}");
            let after = (place.json(), fake.asked(), engine.read(|view| view.generation));
            assert_eq!(before, after);
        })
        .await;
}

#[tokio::test]
async fn applying_again_names_what_is_new_different_gone_and_stale() {
    let place = Place::new();
    let first = yaml(
        "    a:\n      command: run 1\n    b:\n      command: run 1\n    c:\n      command: run 1\n    d:\n      command: run 1\n",
    );
    let path = write(&place, "proctor.yaml", &first);
    place
        .daemon(Manners::default(), async |engine, mut fake| {
            engine.apply(request(path.clone())).await.unwrap();
            engine.set_wish(&names(&["a", "b", "c", "d"]), Wish::Up).await.unwrap();
            let second = yaml("    a:\n      command: run 1\n    b:\n      command: run 2\n    c:\n      command: run 1\n      restart_policy: always\n    e:\n      command: run 1\n");
            write(&place, "proctor.yaml", &second);
            let applied = engine.apply(ConfigRequest::default()).await.unwrap();
            assert_eq!(list(&applied), [vec!["e"], vec!["b", "c"], vec!["d"], vec!["a"]]);
            assert_eq!(stale(&engine), names(&["b"]));
            until(&engine, "d is gone", |view| !view.services.contains_key(&name("d"))).await;
            let asked = fake.asked();
            assert_eq!(asked[8..], ["define b", "define c", "define e", "remove d"]);

            // Back to the settings it runs with: no longer stale.
            write(&place, "proctor.yaml", &yaml("    b:\n      command: run 1\n"));
            engine.apply(ConfigRequest::default()).await.unwrap();
            assert_eq!(stale(&engine), []);
            write(&place, "proctor.yaml", &yaml("    b:\n      command: run 3\n"));
            engine.apply(ConfigRequest::default()).await.unwrap();
            assert_eq!(stale(&engine), names(&["b"]));
            fake.until("defined", |asked| asked.last().unwrap() == "define b").await;
        })
        .await;
    // The next daemon knows it too, for the current run and not for a newer one.
    for (run, expected) in [(1002, names(&["b"])), (2000, vec![])] {
        let services = vec![state("b", Wish::Up, up(run))];
        place
            .daemon(Manners { services, ..Manners::default() }, async |engine, _| {
                settle(&engine).await;
                assert_eq!(stale(&engine), expected, "run {run}");
            })
            .await;
    }
}

fn stale(engine: &Engine) -> Vec<proctor_core::name::ServiceName> {
    engine.read(|view| {
        let stale = view.services.values().filter(|service| service.stale);
        stale.map(|service| service.name.clone()).collect()
    })
}

#[tokio::test]
async fn a_second_configuration_is_refused_while_the_first_is_at_work() {
    let place = Place::new();
    let service = yaml("    web:\n      command: sleep 9\n");
    let (one, two) =
        (write(&place, "one/proctor.yaml", &service), write(&place, "two/p.yaml", &service));
    let link = place.folder.path().join("link.yaml");
    std::os::unix::fs::symlink(&one, &link).unwrap();
    place
        .daemon(Manners::default(), async |engine, _| {
            engine.apply(request(one.clone())).await.unwrap();
            engine.set_wish(&names(&["web"]), Wish::Up).await.unwrap();
            let error = engine.apply(request(two.clone())).await.unwrap_err();
            let named = matches!(&error, EngineError::HomeInUse { running, asked } if *running == one && *asked == two);
            assert!(named, "{error:?}");
            engine.apply(request(link)).await.expect("the same file by another name");
            engine.set_wish(&names(&["web"]), Wish::Down).await.unwrap();
            let applied = engine.apply(request(two.clone())).await.unwrap();
            assert_eq!(applied.source, two.display().to_string());
            assert_eq!(engine.read(|view| view.config.clone()), Some(two));
        })
        .await;
}

#[tokio::test]
async fn a_thousand_services_cost_one_message_each() {
    let place = Place::new();
    let text =
        yaml("    web:\n      command: sleep 9\n      instances: 1000\n      groups: [many]\n");
    let path = write(&place, "proctor.yaml", &text);
    place
        .daemon(Manners::default(), async |engine, fake| {
            let applied = engine.apply(request(path)).await.unwrap();
            assert_eq!(applied.added.len(), 1000);
            let all = engine.select(&["many".into()]).unwrap();
            engine.set_wish(&all, Wish::Up).await.unwrap();
            let count = |kind: fn(&ToKeeper) -> bool| {
                fake.heard().iter().filter(|heard| kind(&heard.message)).count()
            };
            assert_eq!(count(|m| matches!(m, ToKeeper::Environment { .. })), 1);
            assert_eq!(count(|m| matches!(m, ToKeeper::Define { .. })), 1000);
            assert_eq!(count(|m| matches!(m, ToKeeper::SetWish { .. })), 1000);
            assert_eq!(fake.heard().len(), 2002);
            // States that arrive together are one change.
            let generation = engine.read(|view| view.generation);
            assert!(generation < 2000, "{generation} changes");
        })
        .await;
}

/// A server that always responds with this status.
async fn server(status: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            let mut request = [0; 1024];
            let asked = stream.read(&mut request).await;
            assert!(asked.is_ok_and(|length| request[..length].starts_with(b"GET / HTTP/1.1")));
            stream.write_all(answer.as_bytes()).await.ok();
        }
    });
    port
}

fn checked(port: u16) -> String {
    let check = "health_check: { interval: 100ms, timeout: 5, retries: 3, start_period: 0 }";
    yaml(&format!(
        "    web:\n      command: sleep 9\n      health_check_url: http://localhost:{port}/\n      {check}\n"
    ))
}

fn health(view: &proctor_engine::api::View) -> Option<Health> {
    view.services.get(&name("web"))?.health.clone()
}

#[tokio::test]
async fn an_unhealthy_run_is_reported_once_and_the_next_run_anew() {
    let place = Place::new();
    let port = server("500 Internal Server Error").await;
    let path = write(&place, "proctor.yaml", &checked(port));
    place
        .daemon(Manners::default(), async |engine, mut fake| {
            engine.apply(request(path)).await.unwrap();
            assert_eq!(engine.read(health), None);
            engine.set_wish(&names(&["web"]), Wish::Up).await.unwrap();
            let failures = |view: &_| match health(view) {
                Some(Health::Failing { failures, why, .. })
                    if why == "500 Internal Server Error" =>
                {
                    failures
                }
                _ => 0,
            };
            until(&engine, "it keeps failing", |view| failures(view) >= 5).await;
            assert_eq!(fake.asked()[2..], ["unhealthy web 1001"]);
            fake.say(FromKeeper::State(Box::new(state("web", Wish::Up, up(7)))));
            fake.until("the next run too", |asked| {
                asked[2..] == ["unhealthy web 1001", "unhealthy web 7"]
            })
            .await;
            fake.say(FromKeeper::State(Box::new(state("web", Wish::Up, failed()))));
            until(&engine, "it has failed", |view| {
                view.services[&name("web")].state.as_ref().unwrap().phase == failed()
            })
            .await;
            assert!(engine.read(failures) >= 3, "what it failed of is still there");
            let reason = |view: &proctor_engine::api::View, run| {
                view.services[&name("web")].unhealthy(proctor_core::name::RunId(run)).unwrap().to_string()
            };
            let expected = format!(
                "unhealthy: GET http://localhost:{port}/: 500 Internal Server Error, 3 failures in a row"
            );
            assert_eq!(engine.read(|view| [reason(view, 1001), reason(view, 7)]), [expected.clone(), expected]);
            fake.say(FromKeeper::State(Box::new(state("web", Wish::Down, PhaseView::Down))));
            until(&engine, "nothing is checked", |view| health(view).is_none()).await;
        })
        .await;
}

#[tokio::test]
async fn a_healthy_run_is_seen_to_be_healthy() {
    let place = Place::new();
    let path = write(&place, "proctor.yaml", &checked(server("204 No Content").await));
    place
        .daemon(Manners::default(), async |engine, fake| {
            engine.apply(request(path)).await.unwrap();
            engine.set_wish(&names(&["web"]), Wish::Up).await.unwrap();
            until(&engine, "it is healthy", |view| {
                matches!(health(view), Some(Health::Healthy { .. }))
            })
            .await;
            assert_eq!(fake.asked(), ["define web", "up web"]);
        })
        .await;
}

pub(crate) fn new_service(service: &str, definition: &str) -> NewService {
    NewService {
        name: service.into(),
        definition: definition.into(),
        base_dir: "/".into(),
        environment: environment(&[("PATH", "/bin"), ("WHO", "me")]),
        replace: false,
        keep: false,
        owner: None,
        lease: None,
        start: None,
    }
}

#[tokio::test]
async fn an_added_service_is_kept_replaced_and_removed() {
    let place = Place::new();
    let many = r#"{"command":["echo","${WHO}"],"instances":2,"groups":["jobs"]}"#;
    place
        .daemon(Manners::default(), async |engine, fake| {
            let added = engine.add(new_service("job", many)).await.unwrap();
            assert_eq!(added, names(&["job@1", "job@2"]));
            assert_eq!(spec_argv(&fake, "job@2"), ["echo", "me"]);
            let again = engine.add(new_service("job", many)).await.unwrap_err();
            assert!(matches!(again, EngineError::AlreadyExists { .. }), "{again:?}");
            let bad = engine.add(new_service("bad", r#"{"comand":"true"}"#)).await.unwrap_err();
            assert!(matches!(bad, EngineError::BadConfig(_)), "{bad:?}");
            let part = engine.remove(&names(&["job@1"])).await.unwrap_err();
            assert!(part.to_string().contains("more instances"), "{part}");
            engine.set_wish(&names(&["job@2"]), Wish::Up).await.unwrap();
        })
        .await;
    place
        .daemon(Manners::default(), async |engine, mut fake| {
            settle(&engine).await;
            assert_eq!(fake.asked(), ["define job@1", "define job@2", "up job@1", "up job@2"]);
            assert_eq!(engine.select(&["jobs".into()]).unwrap().len(), 2);
            let one = NewService { replace: true, ..new_service("job", r#"{"command":"true"}"#) };
            assert_eq!(engine.add(one).await.unwrap(), names(&["job"]));
            fake.until("the instances go", |asked| {
                asked.ends_with(&[
                    "define job".into(),
                    "remove job@1".into(),
                    "remove job@2".into(),
                ])
            })
            .await;
            engine.remove(&names(&["job"])).await.unwrap();
            until(&engine, "nothing is left", |view| {
                view.services.is_empty() && view.groups.is_empty()
            })
            .await;
        })
        .await;
    assert_eq!(place.json()["added"], serde_json::json!({}));
}

#[tokio::test]
async fn arguments_given_with_a_restart_outlive_the_daemon_while_the_service_is_at_work() {
    let place = Place::new();
    let web = "    web:\n      command: serve\n      args: [--port, '1']\n";
    let path = write(&place, "proctor.yaml", &yaml(web));
    place
        .daemon(Manners::default(), async |engine, fake| {
            engine.apply(request(path)).await.unwrap();
            let args = Some(vec!["--port".into(), "2".into()]);
            let with = RestartWith { args, env: vec![("A".into(), "b".into())] };
            engine.restart(&names(&["web"]), with).await.unwrap();
            let restart = r#"restart web with [("A", "b")]"#;
            assert_eq!(fake.asked(), ["define web", "define web", restart]);
            assert_eq!(spec_argv(&fake, "web"), ["serve", "--port", "2"]);
            let shown = engine.read(|view| view.services[&name("web")].command.clone());
            assert_eq!(shown, "serve --port 2");
            assert_eq!(stale(&engine), [], "the run was made with them");
        })
        .await;
    let services = vec![state("web", Wish::Up, up(1001))];
    place
        .daemon(Manners { services, ..Manners::default() }, async |engine, fake| {
            settle(&engine).await;
            assert_eq!(spec_argv(&fake, "web"), ["serve", "--port", "2"]);
            assert_eq!(stale(&engine), []);
            let applied = engine.apply(ConfigRequest::default()).await.unwrap();
            assert_eq!(applied.unchanged, names(&["web"]));
        })
        .await;
}

#[tokio::test]
async fn without_a_file_the_target_or_the_example_is_applied() {
    let place = Place::new();
    place
        .daemon(Manners::default(), async |engine, fake| {
            let nothing =
                ConfigRequest { environment: environment(&[]), ..ConfigRequest::default() };
            assert!(engine.apply(nothing.clone()).await.is_err(), "there is nothing to apply");
            let example = ConfigRequest { example: true, ..nothing.clone() };
            let applied = engine.apply(example.clone()).await.unwrap();
            assert_eq!(list(&applied)[0], ["clock", "counter", "flaky"]);
            engine.set_wish(&applied.added, Wish::Up).await.unwrap();

            let pairs = [
                ("SUPERVISOR_TARGET_CMD", "serve 'two words'"),
                ("SUPERVISOR_WORKING_DIR", "sub"),
                ("PWD", "/base"),
            ];
            let target = ConfigRequest { environment: environment(&pairs), ..example.clone() };
            let applied = engine.apply(target).await.unwrap();
            assert_eq!(
                list(&applied)[..3],
                [vec!["target"], vec![], vec!["clock", "counter", "flaky"]]
            );
            assert_eq!(spec_argv(&fake, "target"), ["serve", "two words"]);
            let folder = engine.read(|view| view.services[&name("target")].working_dir.clone());
            assert_eq!(folder, "/base/sub");
        })
        .await;
    place
        .daemon(Manners::default(), async |engine, fake| {
            settle(&engine).await;
            assert_eq!(fake.asked(), ["define target", "up target"]);
        })
        .await;
}

#[tokio::test]
async fn variables_come_from_the_caller_and_then_from_the_file_beside() {
    let place = Place::new();
    write(&place, ".env", "ONE=file\nTWO=file\n");
    let path =
        write(&place, "proctor.yaml", &yaml("    web:\n      command: ['${ONE}', '${TWO}']\n"));
    place
        .daemon(Manners::default(), async |engine, fake| {
            let environment =
                environment(&[("ONE", "caller"), ("PWD", "/x"), ("PROCTOR_RUN", "9")]);
            let request =
                ConfigRequest { path: Some(path), environment, ..ConfigRequest::default() };
            engine.apply(request).await.unwrap();
            assert_eq!(spec_argv(&fake, "web"), ["caller", "file"]);
            let sent = fake.heard().into_iter().find_map(|heard| {
                let ToKeeper::Environment { vars, .. } = heard.message else { return None };
                Some(vars)
            });
            assert_eq!(sent, Some(vec![("ONE".into(), "caller".into())]));
        })
        .await;
}

#[tokio::test]
async fn a_definition_that_the_keeper_refused_is_tried_again() {
    let place = Place::new();
    let path = write(
        &place,
        "proctor.yaml",
        &yaml("    a:\n      command: x\n    b:\n      command: x\n"),
    );
    let manners = Manners { refuses: names(&["a"]), ..Manners::default() };
    place
        .daemon(manners, async |engine, fake| {
            let error = engine.apply(request(path.clone())).await.unwrap_err();
            assert!(matches!(error, EngineError::Refused(_)), "{error:?}");
            assert!(engine.read(|view| view.services[&name("a")].state.is_none()));
            assert!(engine.apply(request(path)).await.is_err());
            assert_eq!(fake.asked(), ["define a", "define b", "define a"]);
        })
        .await;
}

#[tokio::test]
async fn a_service_defined_anew_while_its_removal_is_under_way_is_there_in_the_end() {
    let place = Place::new();
    let manners = Manners { slow_removal: true, ..Manners::default() };
    place
        .daemon(manners, async |engine, mut fake| {
            engine.add(new_service("job", r#"{"command":"true"}"#)).await.unwrap();
            engine.remove(&names(&["job"])).await.unwrap();
            engine.add(new_service("job", r#"{"command":"false"}"#)).await.unwrap();
            engine.set_wish(&names(&["job"]), Wish::Up).await.unwrap();
            // The keeper finishes the old removal only now, and the new definition with it.
            fake.say(FromKeeper::Removed { name: name("job") });
            let all = ["define job", "remove job", "define job", "up job", "define job", "up job"];
            fake.until("it is defined and wanted again", |asked| asked == all).await;
            until(&engine, "it is up", |view| view.services[&name("job")].state.is_some()).await;
            assert_eq!(spec_argv(&fake, "job"), ["false"]);
        })
        .await;
}
