//! The folders that file operations may look into, held open, and the way from a path in a request to a place in one of them.

use super::fault::FileError;
use proctor_core::config::roots::RootDef;
use proctor_core::home::Home;
use proctor_core::rooted::{self, Located, Lost};
use proctor_sys::beneath::{Fault, Folder, Id, Links, Place, Rel, Root};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// Where somebody stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// In no root.
    Elsewhere,
    /// At the top of this one.
    Top(String),
    /// In a folder of one.
    Below,
}

/// All of them, as one configuration declares them.
#[derive(Debug, Default)]
pub struct Roots(Vec<Arc<Declared>>);

/// A folder that was declared.
#[derive(Debug)]
pub struct Declared {
    pub name: String,
    /// As it was declared.
    pub path: PathBuf,
    pub write: bool,
    /// Without links, as it was when it was opened.
    real: RwLock<PathBuf>,
    held: RwLock<Option<Arc<Root>>>,
    /// Does this folder lie in what Proctor keeps? Looked up once for each folder that it was.
    own: RwLock<Option<(Id, bool)>>,
}

impl Declared {
    fn new(def: &RootDef) -> Declared {
        let path = PathBuf::from(&def.path);
        let declared = Declared {
            name: def.name.clone(),
            real: RwLock::new(path.clone()),
            path,
            write: def.write,
            held: RwLock::new(None),
            own: RwLock::new(None),
        };
        if let Err(error) = declared.held() {
            tracing::warn!(root = declared.name, %error, "a root cannot be opened");
        }
        declared
    }

    /// The folder, opened now if it was not there before, or if another is there since.
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

    /// Its folder, if that is Proctor's own.
    fn own(&self, guarded: &Guarded) -> Option<Id> {
        let root = self.held().ok()?;
        let id = root.folder().id();
        let known = *self.own.read().unwrap_or_else(PoisonError::into_inner);
        let own = match known.filter(|(folder, _)| *folder == id) {
            Some((_, own)) => own,
            // Where it cannot be known, nobody looks into it.
            None => guarded.lies_in_own(root.folder()).map_or(true, |own| {
                *self.own.write().unwrap_or_else(PoisonError::into_inner) = Some((id, own));
                own
            }),
        };
        own.then_some(id)
    }

    /// Where it really is now.
    fn real(&self) -> PathBuf {
        self.held().ok();
        self.real.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A path of a request, in its root.
#[derive(Debug, Clone)]
pub struct Spot {
    pub(crate) root: Arc<Declared>,
    pub(crate) rel: Rel,
    /// As answers call it.
    pub(crate) shown: String,
    /// Answers call it by its root: without that, it would mean something else where the caller stands.
    pub(super) by_root: bool,
}

impl Spot {
    pub(crate) fn at(&self) -> impl Fn(Fault) -> FileError {
        FileError::at(&self.shown)
    }

    /// Another path in the same root.
    pub(crate) fn sibling(&self, rel: Rel) -> Spot {
        let (root, by_root) = (Arc::clone(&self.root), self.by_root);
        Spot { shown: self.shown_at(&rel), root, rel, by_root }
    }

    /// How answers call another path in the same root.
    pub(crate) fn shown_at(&self, rel: &Rel) -> String {
        let (path, name) = (rel.to_string(), &self.root.name);
        let taken_for_one = path.split_once(':').is_some_and(|(first, _)| first == name);
        if self.by_root || taken_for_one { format!("{name}:{path}") } else { path }
    }

    /// Where it really is, if no link is on the way.
    pub(crate) fn real(&self) -> PathBuf {
        self.root.real().join(self.rel.as_path())
    }

    /// Its place, for reading.
    pub(crate) fn place(&self, guarded: &Guarded) -> Result<Place, FileError> {
        let root = self.root.held()?;
        let place = root.place(&self.rel, Links::Follow).map_err(self.at())?;
        guarded.check(&root, &place, &self.shown)?;
        Ok(place)
    }

    /// The folder there, for listing.
    pub(crate) fn folder(&self, guarded: &Guarded) -> Result<Folder, FileError> {
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
        Roots(defs.iter().map(|def| Arc::new(Declared::new(def))).collect())
    }

    /// As the configuration declares them.
    pub(crate) fn declared(&self) -> Vec<RootDef> {
        let def = |root: &Arc<Declared>| RootDef {
            name: root.name.clone(),
            path: root.path.to_string_lossy().into_owned(),
            write: root.write,
        };
        self.0.iter().map(def).collect()
    }

    pub fn all(&self) -> &[Arc<Declared>] {
        &self.0
    }

    /// Does a path begin with the name of one of them?
    pub fn names_one(&self, text: &str) -> bool {
        let name = text.split_once(':').map(|(name, _)| name);
        self.0.iter().any(|root| Some(&*root.name) == name)
    }

    /// The first of them.
    pub(crate) fn first(&self) -> Result<Spot, FileError> {
        self.0.first().ok_or(FileError::NoRoot)?;
        Ok(self.top(0, self.0.len() > 1))
    }

    /// Where a path of a request is: `NAME:path`, `path` if there is one root, or an absolute path below one of them.
    pub fn find(&self, text: &str) -> Result<Spot, FileError> {
        self.find_from(text, None)
    }

    /// Where a path of somebody is who stands in a folder and writes paths as seen from there ([`rooted`] has the rule).
    pub(crate) fn find_from(&self, text: &str, here: Option<&Path>) -> Result<Spot, FileError> {
        let roots = self.placed(here.is_some() || text.starts_with('/'));
        let Located { root, path } = rooted::locate(text, here, &roots).map_err(|lost| {
            let (path, names) = (text.to_owned(), self.names());
            match lost {
                Lost::NoRoot => FileError::NoRoot,
                Lost::Which => FileError::WhichRoot { path, names },
                Lost::Elsewhere => self.elsewhere(&path),
                Lost::Outside => FileError::at(text)(Fault::Outside),
            }
        })?;
        let rel = Rel::parse(path).map_err(FileError::at(text))?;
        Ok(self.top(root, by_root(here, root, &roots)).sibling(rel))
    }

    /// Whether a folder lies in one of them, by its path.
    pub(super) fn holds(&self, folder: &Path) -> bool {
        rooted::innermost(folder, &self.placed(true)).is_some()
    }

    /// The error about a path that is in none of them.
    pub(super) fn elsewhere(&self, path: &str) -> FileError {
        let shown = |root: &Arc<Declared>| format!("{} ({})", root.name, root.path.display());
        let names: Vec<String> = self.0.iter().map(shown).collect();
        match names.is_empty() {
            true => FileError::NoRoot,
            false => FileError::Elsewhere { path: path.to_owned(), names },
        }
    }

    /// These and more.
    pub(super) fn and_folders(&self, more: &[RootDef]) -> Roots {
        let more = more.iter().map(|def| Arc::new(Declared::new(def)));
        Roots(self.0.iter().cloned().chain(more).collect())
    }

    /// The top of the root that somebody stands in, or of the only one.
    pub(crate) fn top_from(&self, here: Option<&Path>) -> Result<Spot, FileError> {
        let roots = self.placed(here.is_some());
        match here.and_then(|here| rooted::innermost(here, &roots)) {
            Some(Located { root, .. }) => Ok(self.top(root, by_root(here, root, &roots))),
            None => self.find_from("", here),
        }
    }

    /// Where to look if nobody says: where somebody stands, if that is in a root, and otherwise everywhere.
    pub(crate) fn around(&self, here: Option<&Path>) -> Result<Vec<Spot>, FileError> {
        match self.find_from("", here) {
            Ok(spot) => Ok(vec![spot]),
            Err(FileError::WhichRoot { .. }) => {
                Ok((0..self.0.len()).map(|root| self.top(root, true)).collect())
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn standing(&self, here: &Path) -> Standing {
        match rooted::innermost(here, &self.placed(true)) {
            Some(at) if at.path.as_os_str().is_empty() => {
                Standing::Top(self.0[at.root].name.clone())
            }
            Some(_) => Standing::Below,
            None => Standing::Elsewhere,
        }
    }

    fn top(&self, root: usize, by_root: bool) -> Spot {
        let (root, rel) = (Arc::clone(&self.0[root]), Rel::root());
        let spot = Spot { root, rel, by_root, shown: String::new() };
        Spot { shown: spot.shown_at(&spot.rel), ..spot }
    }

    /// With where they really are, if that is of interest: to know it, each is looked at.
    fn placed(&self, real: bool) -> Vec<rooted::Root<'_>> {
        let placed = |root: &Declared| if real { root.real() } else { root.path.clone() };
        let each = self.0.iter().map(|root| (root, placed(root)));
        each.map(|(root, real)| rooted::Root { name: &root.name, path: &root.path, real }).collect()
    }

    /// These, and the roots of what was found when others were declared.
    pub(crate) fn and_of<'s>(
        self: Arc<Roots>,
        spots: impl Iterator<Item = &'s Spot>,
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

/// Whether paths in a root have to be said with its name, so that they mean the same where somebody stands.
fn by_root(here: Option<&Path>, root: usize, roots: &[rooted::Root<'_>]) -> bool {
    match here.and_then(|here| rooted::innermost(here, roots)) {
        Some(at) => at.root != root || !at.path.as_os_str().is_empty(),
        None => roots.len() > 1,
    }
}

/// What is nobody's business: Proctor's own files, which hold tokens, the audit and environments.
#[derive(Debug, Clone)]
pub(crate) struct Guarded {
    state: Option<Id>,
    runtime: Option<Id>,
    /// Roots that lie in what Proctor keeps.
    own_roots: Vec<Id>,
    /// Roots that are read only, which may lie in others.
    read_only: Vec<Closed>,
}

/// A root that is read only.
#[derive(Debug, Clone)]
struct Closed {
    name: String,
    path: PathBuf,
    /// `None`: it cannot be opened, and is known by its path.
    id: Option<Id>,
}

impl Guarded {
    pub(crate) fn of(home: &Home) -> Guarded {
        let id = |path: &Path| Some(Folder::open(path).ok()?.id());
        let (own_roots, read_only) = (Vec::new(), Vec::new());
        Guarded { state: id(&home.state), runtime: id(&home.runtime), own_roots, read_only }
    }

    /// With where these roots lie, and what they say about writing.
    pub(crate) fn with(self, roots: &Roots) -> Guarded {
        let own_roots = roots.all().iter().filter_map(|root| root.own(&self)).collect();
        let closed = roots.all().iter().filter(|root| !root.write);
        let closed = closed.map(|root| Closed {
            name: root.name.clone(),
            path: root.path.clone(),
            id: root.held().ok().map(|root| root.folder().id()),
        });
        Guarded { read_only: closed.collect(), own_roots, ..self }
    }

    /// Is this folder somewhere in what Proctor keeps?
    fn lies_in_own(&self, folder: &Folder) -> Result<bool, Fault> {
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

    /// Refuse to write what is not to be looked at, and what is in a root that is read only, wherever that lies.
    pub(crate) fn check_write(
        &self,
        root: &Root,
        place: &Place,
        spot: &Spot,
    ) -> Result<(), FileError> {
        self.check(root, place, &spot.shown)?;
        let closed = |id: Id| self.read_only.iter().find(|closed| closed.id == Some(id));
        let mut found = place.folder().child(place.name()).ok().and_then(|it| closed(it.id()));
        root.ascend(place.folder(), |folder| -> Result<(), Fault> {
            found = found.or(closed(folder.id()));
            Ok(())
        })
        .map_err(spot.at())?;
        let unknown = |closed: &&Closed| {
            closed.id.is_none() && spot.real().starts_with(far_as_it_goes(&closed.path))
        };
        match found.or_else(|| self.read_only.iter().find(unknown)) {
            Some(Closed { name, .. }) => {
                Err(FileError::ReadOnly { path: spot.shown.clone(), root: name.clone() })
            }
            None => Ok(()),
        }
    }

    /// Is a root that is read only somewhere below this folder?
    pub(crate) fn holds_read_only(&self, folder: Id) -> bool {
        self.read_only.iter().any(|closed| is_above(folder, &closed.path))
    }

    /// Is it Proctor's own, by its folder and its name? Where somebody works in the folder of the state itself, it is only
    /// what Proctor keeps there.
    pub(crate) fn owns(&self, folder: Id, name: &OsStr) -> bool {
        self.state == Some(folder) && name.to_str().is_some_and(Home::keeps)
    }

    /// Is all of this folder Proctor's own, below this root?
    pub(crate) fn owns_all(&self, root: Id, folder: Id) -> bool {
        self.runtime == Some(folder) || (self.state == Some(folder) && folder != root)
    }

    /// Refuse what is Proctor's own, or not below its root any more.
    pub(crate) fn check(&self, root: &Root, place: &Place, shown: &str) -> Result<(), FileError> {
        let top = root.folder().id();
        let mut own = self.own_roots.contains(&top) || self.owns(place.folder().id(), place.name());
        let mut below: Option<Folder> = None;
        root.ascend(place.folder(), |folder| -> Result<(), Fault> {
            own |= self.owns_all(top, folder.id());
            // Which of the names in the folder of the state leads here is known by what they are.
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
            return Err(FileError::Guarded { path: shown.to_owned(), whose: "Proctor's own" });
        }
        Ok(())
    }

    /// Is this one of the folders that Proctor keeps in the folder of its state?
    fn kept(&self, state: &Folder, folder: Id) -> bool {
        let kept = ["audit", "logs", "backups", "changes", "run"];
        kept.iter().any(|name| state.child(OsStr::new(name)).is_ok_and(|own| own.id() == folder))
    }
}

/// Is this folder above what is at that path, by the names of the path or by where it really is?
pub(crate) fn is_above(folder: Id, path: &Path) -> bool {
    let is = |path: &Path| Folder::open(path).is_ok_and(|above| above.id() == folder);
    path.ancestors().any(is) || far_as_it_goes(path).ancestors().any(is)
}

/// A path without links as far as there is something at it.
pub(crate) fn far_as_it_goes(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|part| Some((part, part.canonicalize().ok()?)));
    let rest = there.and_then(|(part, real)| Some(real.join(path.strip_prefix(part).ok()?)));
    // With an empty rest, a slash would be left behind.
    rest.map_or_else(|| path.to_path_buf(), |path| path.components().collect())
}
