//! The threads that work on files, and their Landlock restriction.

use super::Place;
use crate::error::EngineError;
use crate::files::roots::{OwnFiles, Roots};
use crate::files::workers::{Purpose, Workers};
use proctor_core::config::roots::RootDef;
use proctor_core::home::Home;
use proctor_sys::landlock::Ruleset;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, ThreadId};

/// A writable root and a read-only one, both in one folder with a home.
struct Site {
    place: Place,
    roots: Arc<Roots>,
    workers: Workers,
    runtime: tokio::runtime::Runtime,
}

impl Site {
    fn new() -> Site {
        let place = Place::new();
        std::fs::create_dir(place.path("closed")).unwrap();
        for name in ["app/file", "closed/file", "outside/file", "app/.state/token"] {
            std::fs::write(place.path(name), name).unwrap();
        }
        let def = |name: &str| RootDef::of(place.path(name).to_str().unwrap());
        let closed = RootDef { write: false, ..def("closed") };
        let roots = Arc::new(Roots::open(&[RootDef { write: true, ..def("app") }, closed]));
        let home = Home { state: place.path("outside/state"), runtime: place.path("outside/run") };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Site { place, roots, workers: Workers::new(home), runtime }
    }

    fn work<R: Send + 'static>(
        &self,
        purpose: Purpose,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, EngineError> {
        self.runtime.block_on(self.workers.work(Arc::clone(&self.roots), purpose, work))
    }

    fn thread(&self, purpose: Purpose) -> ThreadId {
        self.work(purpose, || thread::current().id()).unwrap()
    }

    /// Tries to open these by path, for reading and for writing. The engine itself never opens a path.
    fn opened(&self, purpose: Purpose, names: &[&str]) -> (Vec<bool>, Vec<bool>) {
        let paths: Vec<PathBuf> = names.iter().map(|name| self.place.path(name)).collect();
        self.work(purpose, move || {
            let can = |opened: io::Result<std::fs::File>| match opened {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => false,
                opened => opened.map(|_| true).unwrap(),
            };
            let read = paths.iter().map(|path| can(std::fs::File::open(path))).collect();
            let write = |path| std::fs::File::options().append(true).create(true).open(path);
            (read, paths.iter().map(|path| can(write(path))).collect())
        })
        .unwrap()
    }
}

#[test]
fn behind_the_wall_only_the_roots_are_there_and_only_some_can_be_written() {
    let site = Site::new();
    // Without Landlock there is nothing to test, and nothing is promised.
    if Ruleset::of_folders(&[], &[]).unwrap().is_none() {
        return;
    }
    let names = ["app/file", "closed/file", "outside/file"];
    let none = vec![false; 3];
    let read = vec![true, true, false];
    assert_eq!(site.opened(Purpose::Look, &names), (read.clone(), none));
    assert_eq!(site.opened(Purpose::Change, &names), (read, vec![true, false, false]));
    let noted = ["outside/state/changes/1", "outside/state/backups/1"];
    for name in noted {
        std::fs::write(site.place.path(name), "").unwrap();
    }
    assert_eq!(site.opened(Purpose::Change, &noted), (vec![true; 2], vec![true; 2]));
    assert_eq!(site.opened(Purpose::Look, &noted), (vec![false; 2], vec![false; 2]));
    assert!(std::fs::read(site.place.path("outside/file")).is_ok(), "others are not inside");
}

#[test]
fn a_thread_is_used_again_but_not_for_other_folders() {
    let site = Site::new();
    let first = site.thread(Purpose::Look);
    assert_eq!(site.thread(Purpose::Look), first);
    let writer = site.thread(Purpose::Change);
    assert_ne!(writer, first);
    assert_eq!((site.thread(Purpose::Change), site.thread(Purpose::Look)), (writer, first));
    std::fs::rename(site.place.path("app"), site.place.path("outside/app")).unwrap();
    std::fs::create_dir(site.place.path("app")).unwrap();
    std::fs::write(site.place.path("app/new"), "").unwrap();
    assert_ne!(site.thread(Purpose::Look), first, "another folder is at the path of the root");
    let names = ["app/new"];
    assert_eq!(site.opened(Purpose::Look, &names).0, [true], "another thread, another wall");
}

#[test]
fn work_that_panics_is_an_error_and_the_next_goes_on() {
    let site = Site::new();
    site.thread(Purpose::Look);
    let error = site.work(Purpose::Look, || panic!("as it is to")).map(|()| "done").unwrap_err();
    assert!(error.to_string().contains("ended before its work was done"), "{error}");
    site.thread(Purpose::Look);
}

#[test]
fn a_root_in_what_proctor_keeps_is_proctors_own() {
    let place = Place::new();
    let home = Home { state: place.path("app/.state"), runtime: place.path("app/.state/run") };
    for name in ["audit/x", "logs/web/x", "run/web/x", "mine/x"] {
        place.write(&format!(".state/{name}"), "secret\n");
    }
    let owned = |folder: &str| {
        let path = place.path("app/.state").join(folder);
        let roots = Roots::open(&[RootDef::of(path.to_str().unwrap())]);
        let guarded = OwnFiles::of(&home).with(&roots);
        let looked = roots.find("x").unwrap().place(&guarded);
        assert!(looked.as_ref().err().is_none_or(|it| it.to_string().contains("Proctor's own")));
        looked.is_err()
    };
    assert_eq!(
        ["audit", "logs/web", "run", "run/web", "mine", ""].map(owned),
        [true, true, true, true, false, false]
    );
    // By any path.
    std::os::unix::fs::symlink(place.path("app/.state/audit"), place.path("link")).unwrap();
    let roots = Roots::open(&[RootDef::of(place.path("link").to_str().unwrap())]);
    let guarded = OwnFiles::of(&home).with(&roots);
    for _ in 0..2 {
        assert!(roots.find("x").unwrap().place(&guarded).is_err());
        assert!(roots.find("").unwrap().folder(&guarded).is_err());
    }
}
