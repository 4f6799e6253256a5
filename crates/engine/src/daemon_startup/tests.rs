//! Plans of a start, from stored services and a snapshot of the keeper.

use super::*;
use crate::definition::tests::{definition, plain};
use proctor_core::name::RunId;
use proctor_core::time::Wall;
use proctor_core::wire::{PhaseView, RunView};

fn name(text: &str) -> ServiceName {
    ServiceName::parse(text).unwrap()
}

fn state(service: &str, wish: Wish, run: Option<u64>) -> ServiceState {
    let view = |id| RunView { id: RunId(id), pid: 1, started: Wall(0), cgroup: None };
    let phase = run.map_or(PhaseView::Down, |id| PhaseView::Up { run: view(id) });
    ServiceState { name: name(service), wish, phase, since: Wall(0), restarts: 0, last_exit: None }
}

#[test]
fn a_wish_is_sent_only_where_the_keeper_wants_something_else_or_is_new_to_the_service() {
    use StoredWish::{Down, Up};
    let rows = [
        // stored, keeper, autostart → sent
        (Some(Up), Some(Wish::Up), true, None),
        (Some(Up), Some(Wish::Down), true, Some(Wish::Up)),
        (Some(Up), Some(Wish::Once), false, Some(Wish::Up)),
        (Some(Down), Some(Wish::Up), true, Some(Wish::Down)),
        (Some(Down), Some(Wish::Down), true, None),
        (Some(Down), Some(Wish::Once), true, None),
        (Some(Up), None, false, Some(Wish::Up)),
        (Some(Down), None, true, None),
        (None, None, true, Some(Wish::Up)),
        (None, None, false, None),
        (None, Some(Wish::Up), false, None),
        (None, Some(Wish::Down), true, None),
        (None, Some(Wish::Once), true, None),
    ];
    for (stored, keeper, autostart, expected) in rows {
        let sent = decide_wish(stored, keeper, autostart);
        assert_eq!(sent, expected, "stored {stored:?}, keeper {keeper:?}, {autostart}");
    }
}

#[test]
fn a_file_that_is_damaged_or_gone_forgets_no_service() {
    let snapshot: Snapshot =
        [("a", Wish::Up, Some(1)), ("b@1", Wish::Once, Some(2)), ("c", Wish::Down, None)]
            .map(|(service, wish, run)| (name(service), state(service, wish, run)))
            .into();
    for found in [LoadedStore::Nothing, LoadedStore::Damaged { problem: "x is damaged".into() }] {
        let plan = Startup::plan(found, &snapshot, false);
        assert_eq!(plan.removes, []);
        assert_eq!(plan.wishes, []);
        assert!(plan.kept.values().all(|origin| *origin == Origin::Added));
        assert_eq!(plan.kept.keys().collect::<Vec<_>>(), snapshot.keys().collect::<Vec<_>>());
        assert_eq!(plan.stored.wishes[&name("a")], StoredWish::Up);
        assert_eq!(plan.stored.wishes[&name("b@1")], StoredWish::Down);
        assert_eq!(plan.troubles.texts().len(), 2 + snapshot.len());
        // The next daemon reads this file, and forgets nothing either.
        let again = Startup::plan(LoadedStore::Stored(Box::new(plan.stored)), &snapshot, false);
        assert_eq!((again.removes.len(), again.kept.len()), (0, 3));
        assert_eq!(again.troubles.texts().len(), 1 + snapshot.len());
    }
    let fresh = Startup::plan(LoadedStore::Nothing, &Snapshot::new(), false);
    assert_eq!(fresh.troubles.texts(), [""; 0]);
}

#[test]
fn a_lost_configuration_opens_nothing_until_one_is_applied() {
    let shown = |plan: &Startup| {
        let registry = Registry::new();
        plan.show(&registry);
        (registry.guard().security.clone(), Listeners::clone(&registry.listeners().borrow()))
    };
    let damaged = LoadedStore::Damaged { problem: "x is damaged".into() };
    let mut plan = Startup::plan(damaged, &Snapshot::new(), false);
    assert_eq!(shown(&plan), (Security::CLOSED, Listeners::OFF));
    assert_eq!(plan.troubles.texts()[1], CLOSED);
    let stored = std::mem::take(&mut plan.stored);
    let mut next = Startup::plan(LoadedStore::Stored(Box::new(stored)), &Snapshot::new(), false);
    assert_eq!(shown(&next), (Security::CLOSED, Listeners::OFF));
    assert_eq!(next.troubles.texts(), [CLOSED]);
    next.stored.set_source(&crate::config_source::ConfigSource::Example);
    let applied =
        Startup::plan(LoadedStore::Stored(Box::new(next.stored)), &Snapshot::new(), false);
    assert_ne!(shown(&applied).0, Security::CLOSED);
}

#[test]
fn what_nobody_defines_is_removed_unless_the_file_that_may_define_it_cannot_be_read() {
    let snapshot: Snapshot = [(name("old"), state("old", Wish::Up, Some(1)))].into();
    let plan = Startup::plan(LoadedStore::Stored(Box::default()), &snapshot, false);
    assert_eq!(plan.removes, [name("old")]);
    let mut stored = StoredServices::default();
    stored.set_source(&crate::config_source::ConfigSource::File("/nowhere/proctor.yaml".into()));
    let plan = Startup::plan(LoadedStore::Stored(Box::new(stored)), &snapshot, false);
    assert_eq!(plan.removes, []);
    assert_eq!(plan.kept[&name("old")], Origin::File);
    assert!(plan.troubles.texts()[0].starts_with("cannot apply /nowhere/proctor.yaml"));
}

#[test]
fn a_run_made_with_other_settings_is_known_to_be_so_by_the_next_daemon() {
    let new = definition(plain("web", &["new"]), Origin::File);
    let (old, now) = (77, new.exec());
    let rows = [
        // defined when stored, run when stored, run now → exec part of the run now
        (old, None, Some(5), Some(old)),
        (now, None, Some(5), Some(now)),
        (now, Some((5, old)), Some(5), Some(old)),
        (now, Some((4, old)), Some(5), Some(now)),
        (now, Some((5, old)), None, None),
    ];
    for (defined, stored_run, run, expected) in rows {
        let mut plan = Startup { definitions: vec![Arc::clone(&new)], ..Startup::default() };
        let stored_run = stored_run.map(|(id, exec)| StoredRun { id: RunId(id), exec });
        plan.stored.execs.insert(name("web"), Execs { defined, run: stored_run });
        let snapshot: Snapshot = [(name("web"), state("web", Wish::Up, run))].into();
        plan.recall_runs(&snapshot);
        assert_eq!(plan.began.get(&name("web")).copied(), expected, "{defined} {stored_run:?}");
        assert_eq!(plan.stored.execs[&name("web")].defined, now);
    }
}
