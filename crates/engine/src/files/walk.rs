//! Walks everything below a folder, in order of names, without following links: each folder is opened from the
//! one above.

use super::error::FileError;
use super::ignore_rules::{IgnoreRules, SkipRules};
use super::roots::{OwnFiles, PathInRoot};
use proctor_sys::beneath::{Entry, Folder, Id, Kind, LinkPolicy, RelativePath};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// The parameters of a walk.
pub(crate) struct WalkOptions<'a> {
    pub(crate) spot: &'a PathInRoot,
    pub(crate) guarded: &'a OwnFiles,
    pub(crate) leave_out: SkipRules,
    /// Folders deeper than this are listed but not entered.
    pub(crate) depth: usize,
    /// Continue after this path, including its content if it is a folder.
    pub(crate) after: Option<&'a RelativePath>,
    /// Continue with that path itself.
    pub(crate) again: bool,
}

/// A visited entry.
#[derive(Debug, Clone)]
pub(crate) struct WalkEntry {
    pub(crate) folder: Arc<Folder>,
    pub(crate) name: OsString,
    /// Below the root.
    pub(crate) path: Vec<u8>,
    pub(crate) kind: Kind,
    /// 1 for the entries of the requested folder.
    pub(crate) depth: usize,
}

impl WalkEntry {
    pub(crate) fn rel(&self) -> Result<RelativePath, FileError> {
        let text = String::from_utf8_lossy(&self.path);
        RelativePath::parse(OsStr::from_bytes(&self.path)).map_err(FileError::at(&text))
    }
}

pub(crate) struct Walk {
    levels: Vec<OpenFolder>,
    guarded: OwnFiles,
    root: Id,
    leave_out: SkipRules,
    /// Maximum requested depth.
    depth: usize,
    /// Maximum depth of a path.
    deepest: usize,
    /// Names on the way to the end of an earlier walk, in reverse order.
    ahead: Vec<OsString>,
    /// WalkEntry the last of them again.
    again: bool,
    /// Number of folders that could not be read, and of entries that no path can name.
    pub(crate) unreadable: usize,
}

struct OpenFolder {
    folder: Arc<Folder>,
    /// With a slash after it, unless it is the root.
    path: Vec<u8>,
    entries: std::vec::IntoIter<Entry>,
    rules: Option<Arc<IgnoreRules>>,
}

impl Walk {
    pub(crate) fn begin(walking: &WalkOptions<'_>) -> Result<Walk, FileError> {
        let WalkOptions { spot, guarded, leave_out, depth, after, again } = *walking;
        let folder = spot.folder(guarded)?;
        let mut walk = Walk {
            levels: Vec::new(),
            guarded: guarded.clone(),
            root: spot.root.held()?.folder().id(),
            leave_out,
            depth,
            deepest: RelativePath::DEEPEST.saturating_sub(spot.rel.names().count()),
            ahead: after.map(|rel| ahead(&spot.rel, rel)).transpose()?.unwrap_or_default(),
            again,
            unreadable: 0,
        };
        let rules = if leave_out.no_ignore { None } else { rules_above(spot)? };
        let mut path = spot.rel.as_bytes().to_vec();
        if !path.is_empty() {
            path.push(b'/');
        }
        let entries = folder.entries().map_err(spot.at())?;
        walk.enter(Arc::new(folder), path, entries, rules);
        Ok(walk)
    }

    fn enter(
        &mut self,
        folder: Arc<Folder>,
        path: Vec<u8>,
        mut entries: Vec<Entry>,
        above: Option<Arc<IgnoreRules>>,
    ) {
        entries.sort_unstable();
        let rules = (!self.leave_out.no_ignore)
            .then(|| IgnoreRules::of(&folder, &entries, path.len(), above));
        if let Some(begin) = self.ahead.last() {
            entries.retain(|entry| entry.name >= *begin);
            if entries.first().is_none_or(|entry| entry.name != *begin) {
                // It is gone; continue with the entry that came after it.
                self.ahead.clear();
            }
        }
        self.levels.push(OpenFolder { folder, path, entries: entries.into_iter(), rules });
    }

    /// The next entry.
    pub(crate) fn next(&mut self) -> Option<WalkEntry> {
        loop {
            let depth = self.levels.len();
            let level = self.levels.last_mut()?;
            let Some(entry) = level.entries.next() else {
                self.levels.pop();
                continue;
            };
            let path = [level.path.as_slice(), entry.bytes()].concat();
            let (folder, rules) = (Arc::clone(&level.folder), level.rules.clone());
            let known = self.ahead.pop_if(|name| *name == entry.name).is_some();
            let inside = self.look(&folder, &entry, &path, depth, rules.as_deref());
            if known && !matches!(inside, Some(Some(_))) {
                // The way led through this entry, which no longer exists.
                self.ahead.clear();
            }
            let Some(inside) = inside else { continue };
            let said = known && !(self.again && self.ahead.is_empty());
            if let Some((inner, entries)) = inside {
                let path = [path.as_slice(), b"/"].concat();
                self.enter(Arc::new(inner), path, entries, rules);
            }
            if !said {
                let Entry { name, kind } = entry;
                return Some(WalkEntry { folder, name, path, kind, depth });
            }
        }
    }

    /// `None`: skipped; otherwise its content, if it is to be entered.
    fn look(
        &mut self,
        folder: &Folder,
        entry: &Entry,
        path: &[u8],
        depth: usize,
        rules: Option<&IgnoreRules>,
    ) -> Option<Option<(Folder, Vec<Entry>)>> {
        let is_folder = entry.kind == Kind::Folder;
        let hidden = entry.bytes().first() == Some(&b'.') && !self.leave_out.hidden;
        let git = entry.name == ".git" && !self.leave_out.no_ignore;
        let own = self.guarded.owns(folder.id(), &entry.name);
        if hidden || git || own || rules.is_some_and(|rules| rules.name(path, is_folder)) {
            return None;
        }
        if path.len() > RelativePath::MAX_PATH_BYTES {
            self.unreadable += 1;
            return None;
        }
        if !is_folder {
            return Some(None);
        }
        let Ok(inner) = folder.child(&entry.name) else {
            // It is gone, was replaced, or may not be read.
            self.unreadable += 1;
            return Some(None);
        };
        if self.guarded.owns_all(self.root, inner.id()) {
            return None;
        }
        if depth >= self.depth {
            return Some(None);
        }
        if depth >= self.deepest {
            self.unreadable += 1;
            return Some(None);
        }
        match inner.entries() {
            Ok(entries) => Some(Some((inner, entries))),
            Err(_) => {
                self.unreadable += 1;
                Some(None)
            }
        }
    }
}

/// The names from a folder to a path below it, in reverse order.
fn ahead(from: &RelativePath, to: &RelativePath) -> Result<Vec<OsString>, FileError> {
    let mut names = to.names();
    if !from.names().all(|name| names.next() == Some(name)) {
        return Err(FileError::BadCursor(to.to_string()));
    }
    let mut names: Vec<OsString> = names.map(OsStr::to_owned).collect();
    names.reverse();
    Ok(names)
}

/// The rules of the folders from the root down to the parent of this one.
fn rules_above(spot: &PathInRoot) -> Result<Option<Arc<IgnoreRules>>, FileError> {
    let root = spot.root.held()?;
    let (mut rules, mut here) = (None, RelativePath::root());
    for name in spot.rel.names() {
        let folder = root.folder_at(&here, LinkPolicy::Follow).map_err(spot.at())?;
        // If a folder cannot be listed, its rules cannot be read either.
        if let Ok(entries) = folder.entries() {
            let begin = if here.is_root() { 0 } else { here.as_bytes().len() + 1 };
            rules = Some(IgnoreRules::of(&folder, &entries, begin, rules));
        }
        here = here.join(name).map_err(spot.at())?;
    }
    Ok(rules)
}
