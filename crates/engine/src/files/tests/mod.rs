//! Files in real folders.

mod listing;
mod reading;
mod searching;
mod walls;

use super::roots::{OwnFiles, PathInRoot, Roots};
use proctor_core::config::roots::RootDef;
use proctor_core::home::Home;
use std::path::PathBuf;
use tempfile::TempDir;

/// A root with a home next to it.
pub(crate) struct Place {
    folder: TempDir,
    pub(crate) roots: Roots,
    pub(crate) guarded: OwnFiles,
}

impl Place {
    pub(crate) fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["app", "app/.state/run", "outside"] {
            std::fs::create_dir_all(path(name)).unwrap();
        }
        let roots = Roots::open(&[RootDef::of(path("app").to_str().unwrap())]);
        let home = Home { state: path("app/.state"), runtime: path("app/.state/run") };
        let guarded = OwnFiles::of(&home);
        Place { folder, roots, guarded }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path("app").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn spot(&self, path: &str) -> PathInRoot {
        self.roots.find(path).unwrap()
    }
}

#[test]
fn a_path_is_found_by_its_root_by_itself_or_from_the_top() {
    let place = Place::new();
    let top = place.path("app").join("a/b");
    for text in ["a/b", "./a//b", "app:a/b", "app:./a/b/", top.to_str().unwrap()] {
        let spot = place.spot(text);
        assert_eq!((spot.root.name.as_str(), spot.shown.as_str()), ("app", "a/b"), "{text}");
    }
    assert_eq!(place.spot("other:a").shown, "other:a", "a name with a colon is a name");
    let sibling = place.path("app-sibling").join("x");
    let up = place.path("app").join("../outside/x");
    for text in
        ["../x", "a/../../x", "/etc/passwd", sibling.to_str().unwrap(), up.to_str().unwrap()]
    {
        assert!(place.roots.find(text).is_err(), "{text}");
    }
    assert!(Roots::default().find("a").unwrap_err().to_string().contains("no folder is declared"));
}

#[test]
fn with_several_roots_one_is_named_and_the_deepest_counts() {
    let place = Place::new();
    std::fs::create_dir(place.path("app/docs")).unwrap();
    let link = place.path("link");
    std::os::unix::fs::symlink(place.path("outside"), &link).unwrap();
    let def = |path: PathBuf| RootDef::of(path.to_str().unwrap());
    let roots =
        Roots::open(&[def(place.path("app")), def(place.path("app/docs")), def(link.clone())]);
    let found = |text: &str| roots.find(text).map(|spot| spot.shown).map_err(|e| e.to_string());
    assert_eq!(found("docs:a"), Ok("docs:a".into()));
    assert_eq!(found(place.path("app/docs/a").to_str().unwrap()), Ok("docs:a".into()));
    assert_eq!(found(place.path("app/x").to_str().unwrap()), Ok("app:x".into()));
    assert_eq!(found(link.join("x").to_str().unwrap()), Ok("link:x".into()));
    assert_eq!(
        found(place.path("outside/x").to_str().unwrap()),
        Ok("link:x".into()),
        "its real name"
    );
    assert!(found("a").unwrap_err().contains("app, docs, link"));
}

#[test]
fn where_somebody_stands_paths_begin_there_and_are_said_so_that_they_mean_the_same() {
    let place = Place::new();
    let def = |name: &str| RootDef::of(place.path(name).to_str().unwrap());
    let (one, two) = (Roots::open(&[def("app")]), Roots::open(&[def("app"), def("outside")]));
    for (roots, here, text, shown) in [
        (&one, "app/docs", "a", "app:docs/a"),
        (&one, "app/docs", "../a", "app:a"),
        (&one, "app/docs", "", "app:docs"),
        (&one, "app", "a", "a"),
        (&one, "outside", "a", "a"),
        (&two, "app/docs", "a", "app:docs/a"),
        (&two, "outside", "a", "a"),
        (&two, "app/docs", "outside:a", "outside:a"),
    ] {
        let here = place.path(here);
        let found = roots.find_from(text, Some(&here)).unwrap();
        assert_eq!(found.shown, shown, "{} {text}", here.display());
        let again = roots.find_from(&found.shown, Some(&here)).unwrap();
        assert_eq!((again.rel, again.shown), (found.rel, found.shown));
    }
    let tops = |roots: &Roots, here: Option<PathBuf>| -> Vec<String> {
        let around = roots.around(here.as_deref()).unwrap();
        around.into_iter().map(|spot| spot.shown).collect()
    };
    assert_eq!(tops(&two, None), ["app:.", "outside:."]);
    assert_eq!(tops(&two, Some(place.path(""))), ["app:.", "outside:."]);
    assert_eq!(tops(&two, Some(place.path("app/docs"))), ["app:docs"]);
    assert_eq!(tops(&one, None), ["."]);
    let top = two.top_from(Some(&place.path("outside/deep"))).unwrap();
    assert_eq!(top.shown, "outside:.", "a diff begins at the top");
}

#[test]
fn a_root_that_comes_later_is_found_then() {
    let place = Place::new();
    let roots = Roots::open(&[RootDef::of(place.path("later").to_str().unwrap())]);
    let spot = roots.find("x").unwrap();
    assert!(spot.folder(&place.guarded).unwrap_err().to_string().contains("cannot open the root"));
    std::fs::create_dir_all(place.path("later/x")).unwrap();
    spot.folder(&place.guarded).unwrap();
    std::fs::remove_dir_all(place.path("later")).unwrap();
    assert!(spot.folder(&place.guarded).is_err());
    std::fs::create_dir_all(place.path("later/x")).unwrap();
    spot.folder(&place.guarded).expect("one that was made anew, as a fresh clone is");
}

#[test]
fn what_is_proctors_own_is_not_looked_at_by_any_name() {
    let place = Place::new();
    place.write(".state/token", "secret");
    std::os::unix::fs::symlink(".state", place.path("app/link")).unwrap();
    for path in [".state/token", "link/token", ".state", "link", ".state/run", "link/run/x"] {
        let refused = place.spot(path).place(&place.guarded).unwrap_err();
        assert!(refused.to_string().contains("Proctor's own"), "{path}: {refused}");
    }
}

#[test]
fn in_the_folder_of_the_state_only_what_proctor_keeps_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let own =
        ["token", "services.json", ".services.json.spare", "audit/1", "logs/web/x", "run/sock"];
    for name in own.into_iter().chain(["src/token", "proctor.yaml", "src/logs/x"]) {
        std::fs::create_dir_all(path(name).parent().unwrap()).unwrap();
        std::fs::write(path(name), "text").unwrap();
    }
    let home = Home { state: path(""), runtime: path("run") };
    let guarded = OwnFiles::of(&home);
    let roots = Roots::open(&[RootDef::of(folder.path().to_str().unwrap())]);
    for name in own.into_iter().chain(["audit", "logs", "logs/web", "run"]) {
        let refused = roots.find(name).unwrap().place(&guarded).unwrap_err();
        assert!(refused.to_string().contains("Proctor's own"), "{name}: {refused}");
    }
    for name in ["src/token", "proctor.yaml", "src/logs/x", "src/logs", ""] {
        roots.find(name).unwrap().place(&guarded).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let query = super::list::ListQuery { most: 100, ..super::list::ListQuery::default() };
    let listing = super::list::list(&roots.find("").unwrap(), &query, &guarded, &|| false);
    let names: Vec<_> = listing.unwrap().entries.into_iter().map(|entry| entry.path).collect();
    assert_eq!(names, ["proctor.yaml", "src", "src/logs", "src/logs/x", "src/token"]);
}
