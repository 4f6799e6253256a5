//! The folders that file operations may access, held open, and the resolution of a request's path to a place in
//! one of them.

use super::error::FileError;
use proctor_core::config::roots::RootDef;
use proctor_core::home::Home;
use proctor_core::root_paths::{self, RootError, RootedPath};
use proctor_sys::beneath::{EntryPath, Folder, Id, LinkPolicy, PathError, RelativePath, Root};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// The position of a caller relative to the roots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerFolder {
    /// Outside all roots.
    Elsewhere,
    /// At the top of this root.
    Top(String),
    /// In a folder below a root.
    Below,
}

/// All roots of one configuration.
#[derive(Debug, Default)]
pub struct Roots(Vec<Arc<DeclaredRoot>>);

/// A declared root.
#[derive(Debug)]
pub struct DeclaredRoot {
    pub name: String,
    /// The path as declared.
    pub path: PathBuf,
    pub write: bool,
    /// The path without links, when it was opened.
    real: RwLock<PathBuf>,
    held: RwLock<Option<Arc<Root>>>,
    /// Whether this folder lies in Proctor's own folders. Cached by the id of the folder.
    own: RwLock<Option<(Id, bool)>>,
}

impl DeclaredRoot {
    fn new(def: &RootDef) -> DeclaredRoot {
        let path = PathBuf::from(&def.path);
        let declared = DeclaredRoot {
            name: def.name.clone(),
            real: RwLock::new(path.clone()),
            path,
            write: def.write,
            held: RwLock::new(None),
            own: RwLock::new(None),
        };
        if let Err(error) = declared.held() {
            tracing::warn!(root = declared.name, %error, "cannot open a root");
        }
        declared
    }

    /// The folder; opened now if it did not exist before or was replaced since.
    pub(crate) fn held(&self) -> Result<Arc<Root>, FileError> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(root) = held.filter(|root| root.folder().is_at(&self.path)) {
            return Ok(root);
        }
        let why = |error: std::io::Error| FileError::RootGone {
            name: self.name.clone(),
            path: self.path.clone(),
            why: error.to_string(),
        };
        let root = Arc::new(Root::open(&self.path).map_err(why)?);
        if let Ok(real) = self.path.canonicalize() {
            *self.real.write().unwrap_or_else(PoisonError::into_inner) = real;
        }
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&root));
        Ok(root)
    }

    /// The id of its folder, if that belongs to Proctor.
    fn own(&self, guarded: &OwnFiles) -> Option<Id> {
        let root = self.held().ok()?;
        let id = root.folder().id();
        let known = *self.own.read().unwrap_or_else(PoisonError::into_inner);
        let own = match known.filter(|(folder, _)| *folder == id) {
            Some((_, own)) => own,
            // If it cannot be determined, access is denied.
            None => guarded.lies_in_own(root.folder()).map_or(true, |own| {
                *self.own.write().unwrap_or_else(PoisonError::into_inner) = Some((id, own));
                own
            }),
        };
        own.then_some(id)
    }

    /// Its current path without links.
    fn real(&self) -> PathBuf {
        self.held().ok();
        self.real.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A path of a request, in its root.
#[derive(Debug, Clone)]
pub struct PathInRoot {
    pub(crate) root: Arc<DeclaredRoot>,
    pub(crate) rel: RelativePath,
    /// The path as shown in responses.
    pub(crate) shown: String,
    /// Responses prefix the path with its root: without it, the path would mean another file at the caller's
    /// folder.
    pub(super) by_root: bool,
}

impl PathInRoot {
    pub(crate) fn at(&self) -> impl Fn(PathError) -> FileError {
        FileError::at(&self.shown)
    }

    /// Another path in the same root.
    pub(crate) fn sibling(&self, rel: RelativePath) -> PathInRoot {
        let (root, by_root) = (Arc::clone(&self.root), self.by_root);
        PathInRoot { shown: self.shown_at(&rel), root, rel, by_root }
    }

    /// Another path in the same root, as shown in responses.
    pub(crate) fn shown_at(&self, rel: &RelativePath) -> String {
        let (path, name) = (rel.to_string(), &self.root.name);
        let taken_for_one = path.split_once(':').is_some_and(|(first, _)| first == name);
        if self.by_root || taken_for_one { format!("{name}:{path}") } else { path }
    }

    /// Its actual path, if there is no link on the way.
    pub(crate) fn real(&self) -> PathBuf {
        self.root.real().join(self.rel.as_path())
    }

    /// Its place, for reading.
    pub(crate) fn place(&self, guarded: &OwnFiles) -> Result<EntryPath, FileError> {
        let root = self.root.held()?;
        let place = root.place(&self.rel, LinkPolicy::Follow).map_err(self.at())?;
        guarded.check(&root, &place, &self.shown)?;
        Ok(place)
    }

    /// Its folder, for listing.
    pub(crate) fn folder(&self, guarded: &OwnFiles) -> Result<Folder, FileError> {
        let place = self.place(guarded)?;
        place.folder().child(place.name()).map_err(|fault| {
            match fault.is(io::ErrorKind::NotADirectory) {
                true => FileError::NotAFolder { path: self.shown.clone() },
                false => self.at()(fault),
            }
        })
    }
}

impl Roots {
    pub(crate) fn open(defs: &[RootDef]) -> Roots {
        Roots(defs.iter().map(|def| Arc::new(DeclaredRoot::new(def))).collect())
    }

    /// The definitions in the configuration.
    pub(crate) fn declared(&self) -> Vec<RootDef> {
        let def = |root: &Arc<DeclaredRoot>| RootDef {
            name: root.name.clone(),
            path: root.path.to_string_lossy().into_owned(),
            write: root.write,
        };
        self.0.iter().map(def).collect()
    }

    pub fn all(&self) -> &[Arc<DeclaredRoot>] {
        &self.0
    }

    /// Returns true if the path begins with the name of a root.
    pub fn names_one(&self, text: &str) -> bool {
        let name = text.split_once(':').map(|(name, _)| name);
        self.0.iter().any(|root| Some(&*root.name) == name)
    }

    /// The first root.
    pub(crate) fn first(&self) -> Result<PathInRoot, FileError> {
        self.0.first().ok_or(FileError::NoRoot)?;
        Ok(self.top(0, self.0.len() > 1))
    }

    /// Resolves a path: `NAME:path`, `path` if there is one root, or an absolute path below a root.
    pub fn find(&self, text: &str) -> Result<PathInRoot, FileError> {
        self.find_from(text, None)
    }

    /// Resolves a path of a caller in folder `here`, whose relative paths start there ([`rooted`] has the
    /// rule).
    pub(crate) fn find_from(
        &self,
        text: &str,
        here: Option<&Path>,
    ) -> Result<PathInRoot, FileError> {
        let roots = self.placed(here.is_some() || text.starts_with('/'));
        let RootedPath { root, path } = root_paths::locate(text, here, &roots).map_err(|lost| {
            let (path, names) = (text.to_owned(), self.names());
            match lost {
                RootError::NoRoot => FileError::NoRoot,
                RootError::Which => FileError::WhichRoot { path, names },
                RootError::Elsewhere => self.elsewhere(&path),
                RootError::Outside => FileError::at(text)(PathError::Outside),
            }
        })?;
        let rel = RelativePath::parse(path).map_err(FileError::at(text))?;
        Ok(self.top(root, by_root(here, root, &roots)).sibling(rel))
    }

    /// Returns true if a folder lies in one of the roots, by its path.
    pub(super) fn holds(&self, folder: &Path) -> bool {
        root_paths::innermost(folder, &self.placed(true)).is_some()
    }

    /// The error for a path outside all roots.
    pub(super) fn elsewhere(&self, path: &str) -> FileError {
        let shown = |root: &Arc<DeclaredRoot>| format!("{} ({})", root.name, root.path.display());
        let names: Vec<String> = self.0.iter().map(shown).collect();
        match names.is_empty() {
            true => FileError::NoRoot,
            false => FileError::Elsewhere { path: path.to_owned(), names },
        }
    }

    /// These roots and more.
    pub(super) fn and_folders(&self, more: &[RootDef]) -> Roots {
        let more = more.iter().map(|def| Arc::new(DeclaredRoot::new(def)));
        Roots(self.0.iter().cloned().chain(more).collect())
    }

    /// The top of the root that the caller is in, or of the only root.
    pub(crate) fn top_from(&self, here: Option<&Path>) -> Result<PathInRoot, FileError> {
        let roots = self.placed(here.is_some());
        match here.and_then(|here| root_paths::innermost(here, &roots)) {
            Some(RootedPath { root, .. }) => Ok(self.top(root, by_root(here, root, &roots))),
            None => self.find_from("", here),
        }
    }

    /// The default places: the caller's folder if that is in a root, otherwise all roots.
    pub(crate) fn around(&self, here: Option<&Path>) -> Result<Vec<PathInRoot>, FileError> {
        match self.find_from("", here) {
            Ok(spot) => Ok(vec![spot]),
            Err(FileError::WhichRoot { .. }) => {
                Ok((0..self.0.len()).map(|root| self.top(root, true)).collect())
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn standing(&self, here: &Path) -> CallerFolder {
        match root_paths::innermost(here, &self.placed(true)) {
            Some(at) if at.path.as_os_str().is_empty() => {
                CallerFolder::Top(self.0[at.root].name.clone())
            }
            Some(_) => CallerFolder::Below,
            None => CallerFolder::Elsewhere,
        }
    }

    fn top(&self, root: usize, by_root: bool) -> PathInRoot {
        let (root, rel) = (Arc::clone(&self.0[root]), RelativePath::root());
        let spot = PathInRoot { root, rel, by_root, shown: String::new() };
        PathInRoot { shown: spot.shown_at(&spot.rel), ..spot }
    }

    /// The roots, with their actual paths if `real` is set: that costs a look at each.
    fn placed(&self, real: bool) -> Vec<root_paths::Root<'_>> {
        let placed = |root: &DeclaredRoot| if real { root.real() } else { root.path.clone() };
        let each = self.0.iter().map(|root| (root, placed(root)));
        each.map(|(root, real)| root_paths::Root { name: &root.name, path: &root.path, real })
            .collect()
    }

    /// These roots, and the roots of spots that were resolved with an earlier declaration.
    pub(crate) fn and_of<'s>(
        self: Arc<Roots>,
        spots: impl Iterator<Item = &'s PathInRoot>,
    ) -> Arc<Roots> {
        let mut all = self.0.clone();
        for spot in spots {
            if !all.iter().any(|root| root.path == spot.root.path) {
                all.push(Arc::clone(&spot.root));
            }
        }
        if all.len() == self.0.len() { self } else { Arc::new(Roots(all)) }
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|root| root.name.clone()).collect()
    }
}

/// Returns true if paths in a root need its name to be unambiguous at the caller's folder.
fn by_root(here: Option<&Path>, root: usize, roots: &[root_paths::Root<'_>]) -> bool {
    match here.and_then(|here| root_paths::innermost(here, roots)) {
        Some(at) => at.root != root || !at.path.as_os_str().is_empty(),
        None => roots.len() > 1,
    }
}

/// Paths that file operations never touch: Proctor's own files, which contain tokens, the audit and
/// environments.
#[derive(Debug, Clone)]
pub(crate) struct OwnFiles {
    state: Option<Id>,
    runtime: Option<Id>,
    /// Roots that lie in Proctor's own folders.
    own_roots: Vec<Id>,
    /// Read-only roots, which may lie in others.
    read_only: Vec<ReadOnlyRoot>,
}

/// A read-only root.
#[derive(Debug, Clone)]
struct ReadOnlyRoot {
    name: String,
    path: PathBuf,
    /// `None`: it cannot be opened, and is identified by its path.
    id: Option<Id>,
}

impl OwnFiles {
    pub(crate) fn of(home: &Home) -> OwnFiles {
        let id = |path: &Path| Some(Folder::open(path).ok()?.id());
        let (own_roots, read_only) = (Vec::new(), Vec::new());
        OwnFiles { state: id(&home.state), runtime: id(&home.runtime), own_roots, read_only }
    }

    /// Adds the position of these roots, and whether they are read-only.
    pub(crate) fn with(self, roots: &Roots) -> OwnFiles {
        let own_roots = roots.all().iter().filter_map(|root| root.own(&self)).collect();
        let closed = roots.all().iter().filter(|root| !root.write);
        let closed = closed.map(|root| ReadOnlyRoot {
            name: root.name.clone(),
            path: root.path.clone(),
            id: root.held().ok().map(|root| root.folder().id()),
        });
        OwnFiles { read_only: closed.collect(), own_roots, ..self }
    }

    /// Returns true if this folder lies in one of Proctor's own folders.
    fn lies_in_own(&self, folder: &Folder) -> Result<bool, PathError> {
        let mut here = folder.again()?;
        loop {
            let above = here.above()?;
            if above.id() == here.id() {
                return Ok(false);
            }
            let kept = self.state == Some(above.id()) && self.kept(&above, here.id());
            if kept || self.runtime == Some(above.id()) {
                return Ok(true);
            }
            here = above;
        }
    }

    /// Rejects a write to Proctor's own files, and to a read-only root, wherever it lies.
    pub(crate) fn check_write(
        &self,
        root: &Root,
        place: &EntryPath,
        spot: &PathInRoot,
    ) -> Result<(), FileError> {
        self.check(root, place, &spot.shown)?;
        let closed = |id: Id| self.read_only.iter().find(|closed| closed.id == Some(id));
        let mut found = place.folder().child(place.name()).ok().and_then(|it| closed(it.id()));
        root.ascend(place.folder(), |folder| -> Result<(), PathError> {
            found = found.or(closed(folder.id()));
            Ok(())
        })
        .map_err(spot.at())?;
        let unknown = |closed: &&ReadOnlyRoot| {
            closed.id.is_none() && spot.real().starts_with(far_as_it_goes(&closed.path))
        };
        match found.or_else(|| self.read_only.iter().find(unknown)) {
            Some(ReadOnlyRoot { name, .. }) => {
                Err(FileError::ReadOnly { path: spot.shown.clone(), root: name.clone() })
            }
            None => Ok(()),
        }
    }

    /// Returns true if a read-only root lies below this folder.
    pub(crate) fn holds_read_only(&self, folder: Id) -> bool {
        self.read_only.iter().any(|closed| is_above(folder, &closed.path))
    }

    /// Returns true if the entry belongs to Proctor, by its folder and its name. In the state folder itself,
    /// only the names that Proctor uses belong to it.
    pub(crate) fn owns(&self, folder: Id, name: &OsStr) -> bool {
        self.state == Some(folder) && name.to_str().is_some_and(Home::keeps)
    }

    /// Returns true if all of this folder belongs to Proctor, below this root.
    pub(crate) fn owns_all(&self, root: Id, folder: Id) -> bool {
        self.runtime == Some(folder) || (self.state == Some(folder) && folder != root)
    }

    /// Rejects a place that belongs to Proctor or has left its root.
    pub(crate) fn check(
        &self,
        root: &Root,
        place: &EntryPath,
        shown: &str,
    ) -> Result<(), FileError> {
        let top = root.folder().id();
        let mut own = self.own_roots.contains(&top) || self.owns(place.folder().id(), place.name());
        let mut below: Option<Folder> = None;
        root.ascend(place.folder(), |folder| -> Result<(), PathError> {
            own |= self.owns_all(top, folder.id());
            // The entry of the state folder that leads here is identified by its id.
            if self.state == Some(folder.id())
                && let Some(below) = &below
            {
                own |= self.kept(folder, below.id());
            }
            below = Some(folder.again()?);
            Ok(())
        })
        .map_err(FileError::at(shown))?;
        if let Ok(folder) = place.folder().child(place.name()) {
            own |= self.owns_all(top, folder.id());
        }
        if own {
            return Err(FileError::Guarded {
                path: shown.to_owned(),
                whose: "one of Proctor's own files",
            });
        }
        Ok(())
    }

    /// Returns true if this is one of the folders that Proctor keeps in its state folder.
    fn kept(&self, state: &Folder, folder: Id) -> bool {
        let kept = ["audit", "logs", "backups", "changes", "run"];
        kept.iter().any(|name| state.child(OsStr::new(name)).is_ok_and(|own| own.id() == folder))
    }
}

/// Returns true if this folder is above that path, by its names or by its actual location.
pub(crate) fn is_above(folder: Id, path: &Path) -> bool {
    let is = |path: &Path| Folder::open(path).is_ok_and(|above| above.id() == folder);
    path.ancestors().any(is) || far_as_it_goes(path).ancestors().any(is)
}

/// The path with links resolved in its existing part.
pub(crate) fn far_as_it_goes(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|part| Some((part, part.canonicalize().ok()?)));
    let rest = there.and_then(|(part, real)| Some(real.join(path.strip_prefix(part).ok()?)));
    // With an empty rest, a trailing slash would remain.
    rest.map_or_else(|| path.to_path_buf(), |path| path.components().collect())
}
