//! The keeper's files in the runtime directory: validated when read, written in one step.

use proctor_core::home::{FolderRule, Home};
use proctor_core::name::{RunId, ServiceName};
use proctor_core::record_encoding::{self, Body, IDENTITY_SIZE, RecordError};
use proctor_core::state_file::{self, Layout, StateFile, StoredState};
use proctor_sys::failpoint::{self, Point};
use proctor_sys::{own_file, own_folder, small_file};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Larger than any record can be; an environment may hold a few megabytes.
const MAX_RECORD_BYTES: u64 = 32 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("cannot read {path}: {source}", path = .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {path}: {source}", path = .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{path} {source}", path = .path.display())]
    Damaged { path: PathBuf, source: RecordError },
    #[error("{path} belongs to another service, {name}", path = .path.display())]
    Stranger { path: PathBuf, name: ServiceName },
}

impl StoreError {
    /// Converts to the kernel's error.
    pub(crate) fn into_io(self) -> io::Error {
        match self {
            StoreError::Read { source, .. } | StoreError::Write { source, .. } => source,
            StoreError::Damaged { .. } | StoreError::Stranger { .. } => {
                io::ErrorKind::InvalidData.into()
            }
        }
    }
}

/// Paths of one service's folder.
pub(crate) struct Folder {
    home: Home,
    pub(crate) name: ServiceName,
    pub(crate) path: PathBuf,
}

impl Folder {
    pub(crate) fn of(home: &Home, name: &ServiceName) -> Folder {
        Folder { home: home.clone(), name: name.clone(), path: home.service(name) }
    }

    pub(crate) fn spec(&self) -> PathBuf {
        self.path.join("spec")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path.join("state")
    }

    /// Variables for the next run.
    pub(crate) fn once(&self) -> PathBuf {
        self.path.join("once")
    }

    /// The FIFOs of standard output and standard error.
    pub(crate) fn fifos(&self, run: RunId) -> [PathBuf; 2] {
        self.home.fifos(&self.name, run)
    }

    /// Removes the files of a run.
    pub(crate) fn remove_run(&self, run: RunId) {
        for path in self.fifos(run) {
            let _ = small_file::remove(&path);
            failpoint::moment(Point::RunRemove);
        }
    }

    /// The runs that have files of any kind here.
    pub(crate) fn runs(&self) -> Vec<RunId> {
        let mut runs: Vec<RunId> = entries(&self.path)
            .into_iter()
            .filter_map(|(name, _)| {
                let (run, kind) = name.split_once('.')?;
                ["out", "err"].contains(&kind).then_some(())?;
                u64::from_str_radix(run, 16).ok().map(RunId)
            })
            .collect();
        runs.sort_unstable();
        runs.dedup();
        runs
    }

    pub(crate) fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Name and path of every entry of a folder; empty if it cannot be read.
pub(crate) fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let names = own_folder::names(folder, FolderRule::INNER).unwrap_or_default();
    let named =
        |name: OsString| name.into_string().ok().map(|name| (name.clone(), folder.join(name)));
    names.into_iter().filter_map(named).collect()
}

/// Reads a service's state file; returns `None` if it is missing, or empty because its keeper died
/// before the first write.
pub(crate) fn read_state(path: &Path, name: &ServiceName) -> Result<Option<StateFile>, StoreError> {
    let read = failpoint::step(Point::TakeoverRead)
        .and_then(|()| small_file::read_small(path, MAX_RECORD_BYTES));
    match read {
        Ok(bytes) if bytes.is_empty() => Ok(None),
        Ok(bytes) => match state_file::decode(&bytes) {
            Ok(found) if found.state.name == *name => Ok(Some(found)),
            Ok(found) => Err(StoreError::Stranger { path: path.into(), name: found.state.name }),
            Err(source) => Err(StoreError::Damaged { path: path.into(), source }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StoreError::Read { path: path.into(), source }),
    }
}

/// Writes a service's state in place, or to a new file if there is none or it has grown too large.
/// `fixed`: a child is about to write its identity, so the file must not be replaced.
pub(crate) fn write_state(
    path: &Path,
    layout: &mut Option<Layout>,
    state: &StoredState,
    fixed: bool,
) -> Result<File, StoreError> {
    let unwritten = |source| StoreError::Write { path: path.into(), source };
    let damaged = |source| StoreError::Damaged { path: path.into(), source };
    let mut identity = None;
    if let Some(known) = layout {
        let patch = known.next(state).map_err(damaged)?;
        match (patch, own_file::modify(path)) {
            (Some(patch), Ok(file)) => {
                failpoint::step(Point::StateBegin).map_err(unwritten)?;
                file.write_all_at(&patch.bytes, patch.offset).map_err(unwritten)?;
                known.written();
                failpoint::step(Point::StateWritten).map_err(unwritten)?;
                return Ok(file);
            }
            (None, _) if fixed => return Err(unwritten(io::ErrorKind::FileTooLarge.into())),
            (None, Ok(file)) => {
                let mut bytes = [0; IDENTITY_SIZE];
                identity =
                    file.read_exact_at(&mut bytes, known.identity_offset()).ok().map(|()| bytes);
            }
            // The file was removed or replaced by something else.
            (_, Err(_)) => {}
        }
    }
    create_state(path, layout, state, identity.as_ref())
}

/// Writes a service's state to a new file.
pub(crate) fn create_state(
    path: &Path,
    layout: &mut Option<Layout>,
    state: &StoredState,
    identity: Option<&[u8; IDENTITY_SIZE]>,
) -> Result<File, StoreError> {
    let unwritten = |source| StoreError::Write { path: path.into(), source };
    let (new, bytes) = Layout::create(state, identity)
        .map_err(|source| StoreError::Damaged { path: path.into(), source })?;
    // A missing file is created directly. If the keeper dies before the write, an empty file is
    // left, which counts as no state.
    let file = match small_file::create_new(path) {
        Ok(mut file) => {
            failpoint::step(Point::StateEmpty).map_err(unwritten)?;
            file.write_all(&bytes).map(|()| file).map_err(unwritten)?
        }
        Err(_) => {
            small_file::replace(path, &bytes).map_err(unwritten)?;
            own_file::modify(path).map_err(unwritten)?
        }
    };
    *layout = Some(new);
    Ok(file)
}

/// Returns `None` if there is no such file.
pub(crate) fn read<B: Body>(path: &Path) -> Result<Option<B>, StoreError> {
    let read = failpoint::step(Point::TakeoverRead)
        .and_then(|()| small_file::read_small(path, MAX_RECORD_BYTES));
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(StoreError::Read { path: path.into(), source }),
    };
    record_encoding::open(&bytes)
        .map(Some)
        .map_err(|source| StoreError::Damaged { path: path.into(), source })
}

pub(crate) fn write<B: Body>(path: &Path, body: &B) -> Result<(), StoreError> {
    write_encoded::<B>(path, &body.encode())
}

/// Write a record with a body that was encoded before.
pub(crate) fn write_encoded<B: Body>(path: &Path, body: &[u8]) -> Result<(), StoreError> {
    let bytes = record_encoding::seal_encoded::<B>(body)
        .map_err(|source| StoreError::Damaged { path: path.into(), source })?;
    small_file::replace(path, &bytes)
        .map_err(|source| StoreError::Write { path: path.into(), source })
}
