//! The folders of a conversation as roots, in addition to those of the configuration: an assistant works in the
//! project that its client was started in, with or without a proctor.yaml.
//!
//! A folder inside a declared root adds nothing: the settings of that root apply. Neither `/` nor the home
//! folder becomes a root by itself, since it would contain all files of a person.

use super::roots::{Roots, far_as_it_goes};
use proctor_core::config::roots::RootDef;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of folder sets remembered: as many conversations as work at once on one machine.
const MAX_REMEMBERED: usize = 32;

/// Maximum number of folders in one request: far more than a client has open.
pub const MAX_FOLDERS: usize = 16;

/// Roots by the folders they were made for. One set of folders gives one value, so that its threads can be
/// reused.
#[derive(Default)]
pub(super) struct ConversationRoots(Mutex<Vec<CachedRoots>>);

struct CachedRoots {
    declared: Arc<Roots>,
    projects: Vec<PathBuf>,
    roots: Arc<Roots>,
}

impl ConversationRoots {
    /// The declared roots and the projects of these folders. Waits for disks.
    pub(super) fn with(&self, declared: Arc<Roots>, folders: &[PathBuf]) -> Arc<Roots> {
        let home = std::env::var_os("HOME").map(|home| far_as_it_goes(Path::new(&home)));
        let mut projects: Vec<PathBuf> = Vec::new();
        for folder in folders.iter().take(MAX_FOLDERS) {
            let Some(project) = project_of(folder, home.as_deref()) else { continue };
            if !declared.holds(folder) && !projects.contains(&project) {
                projects.push(project);
            }
        }
        if projects.is_empty() {
            return declared;
        }
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |known: &CachedRoots| {
            Arc::ptr_eq(&known.declared, &declared) && known.projects == projects
        };
        if let Some(known) = remembered.iter().find(|known| same(known)) {
            return Arc::clone(&known.roots);
        }
        if remembered.len() >= MAX_REMEMBERED {
            remembered.remove(0);
        }
        let roots = Arc::new(declared.and_folders(&definitions(&declared, &projects)));
        remembered.push(CachedRoots { declared, projects, roots: Arc::clone(&roots) });
        roots
    }
}

/// The root for a folder: its repository, or itself. `None` for `/`, the home folder and folders above it.
fn project_of(folder: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok().filter(|folder| folder.is_dir())?;
    let is_too_wide = |folder: &Path| {
        folder.parent().is_none() || home.is_some_and(|home| home.starts_with(folder))
    };
    if is_too_wide(&folder) {
        return None;
    }
    let repository = folder.ancestors().find(|above| above.join(".git").exists());
    let repository = repository.filter(|top| !is_too_wide(top)).map(Path::to_owned);
    Some(repository.unwrap_or(folder))
}

/// Root definitions named like their folders, but never like another root.
fn definitions(declared: &Roots, projects: &[PathBuf]) -> Vec<RootDef> {
    let mut taken: Vec<String> = declared.all().iter().map(|root| root.name.clone()).collect();
    let mut definitions = Vec::new();
    for project in projects.iter().filter_map(|project| project.to_str()) {
        let mut definition = RootDef::of(project);
        let plain = definition.name.clone();
        let mut number = 2;
        while taken.contains(&definition.name) {
            definition.name = format!("{plain}-{number}");
            number += 1;
        }
        taken.push(definition.name.clone());
        definitions.push(definition);
    }
    definitions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_the_repository_or_the_folder_and_never_all_of_somebody() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        let home = top.join("home/me");
        let make = |path: &str| {
            let path = top.join(path);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let (plain, deep) = (make("home/me/plain"), make("home/me/app/src"));
        make("home/me/app/.git");
        let check = |folder: &Path, expected: Option<&Path>| {
            let found = project_of(folder, Some(&home));
            assert_eq!(found.as_deref(), expected, "{}", folder.display());
        };
        check(&plain, Some(&plain));
        check(&deep, Some(&top.join("home/me/app")));
        check(&home, None);
        check(&top.join("home"), None);
        check(Path::new("/"), None);
        check(&top.join("missing"), None);
        make("home/me/.git");
        check(&plain, Some(&plain));
    }

    #[test]
    fn one_set_of_folders_has_one_set_of_roots_and_names_are_unique() {
        let top = tempfile::tempdir().unwrap();
        let folders: Vec<PathBuf> = ["a/app", "b/app"].map(|name| top.path().join(name)).into();
        folders.iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
        let (made, declared) = (ConversationRoots::default(), Arc::new(Roots::default()));
        let first = made.with(Arc::clone(&declared), &folders);
        let names: Vec<&str> = first.all().iter().map(|root| &*root.name).collect();
        assert_eq!(names, ["app", "app-2"]);
        assert!(Arc::ptr_eq(&first, &made.with(Arc::clone(&declared), &folders)));
        let inner = made.with(Arc::clone(&first), &folders[..1]);
        assert!(Arc::ptr_eq(&inner, &first), "a folder in a declared root adds none");
    }
}
