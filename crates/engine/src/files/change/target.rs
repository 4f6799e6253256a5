//! Places that may be written: reached without links, in a writable root, and not a file of Proctor or git.

use super::super::error::FileError;
use super::super::file_info::{self, FileVersion, settled};
use super::super::roots::{OwnFiles, PathInRoot, is_above};
use super::NewContent;
use proctor_core::home::Home;
use proctor_sys::beneath::{
    EntryInfo, EntryPath, FileAttributes, Folder, Id, Kind, LinkPolicy, PathError, RelativePath,
    Root,
};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::sync::Arc;

/// Maximum size of a file that is changed: old and new content are both held in memory.
const MAX_FILE_BYTES: u64 = file_info::MAX_FILE_BYTES;

/// A writable name below a root.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) spot: PathInRoot,
    /// The id of the root folder when this was resolved.
    pub(crate) root: Id,
    pub(crate) place: EntryPath,
}

/// A regular file as it was found.
#[derive(Debug)]
pub(crate) struct ExistingFile {
    pub(crate) file: File,
    pub(crate) look: EntryInfo,
    pub(crate) content: Vec<u8>,
    pub(crate) sha256: String,
}

impl ExistingFile {
    pub(crate) fn likeness(&self) -> Result<FileAttributes, PathError> {
        FileAttributes::of(&self.file, &self.look)
    }
}

impl Target {
    pub(crate) fn of(spot: &PathInRoot, guarded: &OwnFiles) -> Result<Target, FileError> {
        let root = writable(spot)?;
        if spot.rel.is_root() {
            return Err(FileError::BadInput("the root itself cannot be changed".into()));
        }
        let place = root.place(&spot.rel, LinkPolicy::Refuse).map_err(spot.at())?;
        guarded.check_write(&root, &place, spot)?;
        refuse_gits(spot, &root, &place)?;
        Ok(Target { spot: spot.clone(), root: root.folder().id(), place })
    }

    /// Identifies this name.
    pub(crate) fn key(&self) -> (Id, OsString) {
        (self.place.folder().id(), self.place.name().to_owned())
    }

    /// Another name in the same folder.
    pub(crate) fn beside(&self, name: &str) -> Result<EntryPath, FileError> {
        self.place.folder().place(OsStr::new(name)).map_err(self.spot.at())
    }

    /// The existing file, if any. Fails if it is not a regular file.
    pub(crate) fn find(&self) -> Result<Option<ExistingFile>, FileError> {
        self.find_within(&mut { MAX_FILE_BYTES })
    }

    /// Like [`Target::find`], but fails if the file is larger than the remaining budget.
    pub(crate) fn find_within(&self, room: &mut u64) -> Result<Option<ExistingFile>, FileError> {
        let (file, look) = match self.place.read() {
            Ok(opened) => opened,
            Err(fault) if fault.is_missing() => return Ok(None),
            Err(fault) => return Err(self.spot.at()(fault)),
        };
        self.weigh(look.size, room)?;
        let mut content = vec![0; usize::try_from(look.size).unwrap_or(0)];
        let length = file_info::read_at(&file, &mut content, 0)?;
        content.truncate(length);
        let sha256 = file_info::sha256(&content);
        Ok(Some(ExistingFile { file, look, content, sha256 }))
    }

    /// Takes `size` bytes from the budget.
    fn weigh(&self, size: u64, room: &mut u64) -> Result<(), FileError> {
        if size > MAX_FILE_BYTES {
            return Err(FileError::TooLarge {
                path: self.spot.shown.clone(),
                most: MAX_FILE_BYTES,
            });
        }
        *room = room.checked_sub(size).ok_or(FileError::TooMuch { most: MAX_FILE_BYTES })?;
        Ok(())
    }

    /// Takes the size of the existing file from the budget, without reading it.
    pub(crate) fn check_room(&self, room: &mut u64) -> Result<(), FileError> {
        match self.place.look() {
            Ok(Some(look)) if look.kind == Kind::File => self.weigh(look.size, room),
            _ => Ok(()),
        }
    }

    /// Returns true if the file, or its absence, is unchanged.
    pub(crate) fn is_still(&self, found: Option<&ExistingFile>) -> Result<bool, FileError> {
        let now = self.place.look().map_err(self.spot.at())?;
        match (found, now) {
            (None, now) => Ok(now.is_none()),
            (Some(_), None) => Ok(false),
            (Some(found), Some(now)) if FileVersion::of(&found.look) == FileVersion::of(&now) => {
                Ok(settled(&now) || self.same_content(found)?)
            }
            (Some(found), Some(_)) => self.same_content(found),
        }
    }

    fn same_content(&self, found: &ExistingFile) -> Result<bool, FileError> {
        Ok(self.find()?.is_some_and(|now| now.sha256 == found.sha256))
    }

    /// Writes a new file next to it, with this content and the given attributes or those of the existing file.
    /// Not synced.
    pub(crate) fn write_beside(
        &self,
        name: &str,
        new: &NewContent,
        like: Option<&ExistingFile>,
    ) -> Result<File, FileError> {
        use std::io::Write as _;
        let fault = |error: std::io::Error| self.spot.at()(PathError::from(error));
        let unlike = |fault| FileError::NotAlike { path: self.spot.shown.clone(), fault };
        let like = match (&new.like, like) {
            (Some(like), _) => Some(like.clone()),
            (None, Some(found)) => Some(found.likeness().map_err(unlike)?),
            (None, None) => None,
        };
        // A new file gets its mode from the umask; one with copied attributes stays private until it has them.
        let mode = if like.is_some() { 0o600 } else { new.mode.unwrap_or(0o666) };
        let mut file = self.beside(name)?.create(mode).map_err(self.spot.at())?;
        file.write_all(&new.content).map_err(fault)?;
        if let Some(like) = like {
            let mode = new.mode.unwrap_or(like.mode);
            FileAttributes { mode, ..like }.give(&file).map_err(unlike)?;
        }
        Ok(file)
    }
}

/// The root, if it is writable.
pub(crate) fn writable(spot: &PathInRoot) -> Result<Arc<Root>, FileError> {
    if !spot.root.write {
        return Err(FileError::ReadOnly { path: spot.shown.clone(), root: spot.root.name.clone() });
    }
    spot.root.held()
}

/// Those of these folders that are missing, the deepest last.
pub(crate) fn missing_folders(
    root: &Root,
    folder: &RelativePath,
) -> Result<Vec<RelativePath>, PathError> {
    let (mut path, mut missing) = (RelativePath::root(), Vec::new());
    for name in folder.names() {
        path = path.join(name)?;
        let place = root.place(&path, LinkPolicy::Refuse);
        if !missing.is_empty() || place.is_ok_and(|place| matches!(place.look(), Ok(None))) {
            missing.push(path.clone());
        }
    }
    Ok(missing)
}

/// Creates the missing folders above it and collects those it created, the deepest last.
pub(crate) fn make_folders(
    spot: &PathInRoot,
    folder: &RelativePath,
    guarded: &OwnFiles,
    made: &mut Vec<(EntryPath, RelativePath)>,
) -> Result<(), FileError> {
    let root = writable(spot)?;
    let mut path = RelativePath::root();
    for name in folder.names() {
        path = path.join(name).map_err(spot.at())?;
        let place = root.place(&path, LinkPolicy::Refuse).map_err(spot.at())?;
        match place.look().map_err(spot.at())? {
            Some(look) if look.kind == Kind::Folder => continue,
            Some(look) if look.kind == Kind::Link => return Err(spot.at()(PathError::Link)),
            Some(_) => return Err(FileError::Occupied { path: path.to_string() }),
            None => {}
        }
        guarded.check_write(&root, &place, spot)?;
        refuse_gits(&PathInRoot { rel: path.clone(), ..spot.clone() }, &root, &place)?;
        match place.make_folder(0o777) {
            Ok(()) => {
                place.folder().sync().map_err(|error| spot.at()(error.into()))?;
                made.push((place, path.clone()));
            }
            // Another process was quicker.
            Err(fault) if fault.is(std::io::ErrorKind::AlreadyExists) => {}
            Err(fault) => return Err(spot.at()(fault)),
        }
    }
    Ok(())
}

/// Rejects git's own files, which only git changes: in a folder named `.git`, or in one with the content of a
/// repository.
fn refuse_gits(spot: &PathInRoot, root: &Root, place: &EntryPath) -> Result<(), FileError> {
    let named = |name: &OsStr| name.eq_ignore_ascii_case(".git");
    let above = spot.root.path.components().any(|part| named(part.as_os_str()));
    let mut own = above || spot.rel.names().any(named);
    root.ascend(place.folder(), |folder| -> Result<(), PathError> {
        own |= is_gits(folder);
        Ok(())
    })
    .map_err(spot.at())?;
    own |= place.folder().child(place.name()).is_ok_and(|folder| is_gits(&folder));
    match own {
        true => {
            Err(FileError::Guarded { path: spot.shown.clone(), whose: "one of git's own files" })
        }
        false => Ok(()),
    }
}

/// Recognises a git directory as git itself does.
fn is_gits(folder: &Folder) -> bool {
    let has = |name: &str, kind: Kind| {
        folder.look(OsStr::new(name)).ok().flatten().is_some_and(|look| look.kind == kind)
    };
    has("objects", Kind::Folder) && has("refs", Kind::Folder) && has("HEAD", Kind::File)
}

/// Returns true if one of Proctor's own folders lies below this one.
pub(crate) fn holds_proctor(home: &Home, folder: Id) -> bool {
    is_above(folder, &home.state) || is_above(folder, &home.runtime)
}
