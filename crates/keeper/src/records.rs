//! The keeper's files in the runtime directory: read with suspicion, written in one step.

use proctor_core::home::Home;
use proctor_core::name::{RunId, ServiceName};
use proctor_core::record::{self, Body, RecordError};
use proctor_sys::file;
use std::io;
use std::path::{Path, PathBuf};

/// Larger than any record can be; an environment may hold a few megabytes.
const MOST: u64 = 32 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("cannot read {path}: {source}", path = .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {path}: {source}", path = .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{path} {source}", path = .path.display())]
    Damaged { path: PathBuf, source: RecordError },
}

/// Paths of one service's folder.
pub(crate) struct Folder {
    home: Home,
    name: ServiceName,
    pub(crate) path: PathBuf,
}

impl Folder {
    pub(crate) fn of(home: &Home, name: &ServiceName) -> Folder {
        Folder { home: home.clone(), name: name.clone(), path: home.service(name) }
    }

    pub(crate) fn name(&self) -> &ServiceName {
        &self.name
    }

    pub(crate) fn spec(&self) -> PathBuf {
        self.path.join("spec")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path.join("state")
    }

    pub(crate) fn run(&self, run: RunId) -> PathBuf {
        self.path.join(format!("{run}.run"))
    }

    /// The record of a run that is over: a full disk has room for the next one's in it.
    pub(crate) fn spare(&self) -> PathBuf {
        self.path.join("spare")
    }

    /// The FIFOs of standard output and standard error.
    pub(crate) fn fifos(&self, run: RunId) -> [PathBuf; 2] {
        self.home.fifos(&self.name, run)
    }

    /// Remove all files of a run. The record goes last: while it is there, the rest is cleaned up by whoever finds it.
    pub(crate) fn remove_run(&self, run: RunId) {
        for path in self.fifos(run) {
            let _ = file::remove(&path);
        }
        if std::fs::rename(self.run(run), self.spare()).is_err() {
            let _ = file::remove(&self.run(run));
        }
    }

    /// The runs that have files here, whatever kind.
    pub(crate) fn runs(&self) -> Vec<RunId> {
        let mut runs: Vec<RunId> = entries(&self.path)
            .into_iter()
            .filter_map(|(name, _)| {
                let (run, kind) = name.split_once('.')?;
                ["run", "out", "err"].contains(&kind).then_some(())?;
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

/// Name and path of everything in a folder; nothing if it cannot be read.
pub(crate) fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect()
}

/// `None` if there is no such file.
pub(crate) fn read<B: Body>(path: &Path) -> Result<Option<B>, StoreError> {
    let bytes = match file::read_small(path, MOST) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(StoreError::Read { path: path.into(), source }),
    };
    record::open(&bytes)
        .map(Some)
        .map_err(|source| StoreError::Damaged { path: path.into(), source })
}

pub(crate) fn write<B: Body>(path: &Path, body: &B) -> Result<(), StoreError> {
    let bytes =
        record::seal(body).map_err(|source| StoreError::Damaged { path: path.into(), source })?;
    file::replace(path, &bytes).map_err(|source| StoreError::Write { path: path.into(), source })
}

/// The same on a full disk: over what is there, which needs no more room. A keeper that dies in the middle leaves
/// something damaged, which the next one notices.
pub(crate) fn write_over<B: Body>(path: &Path, body: &B) -> Result<(), StoreError> {
    let bytes =
        record::seal(body).map_err(|source| StoreError::Damaged { path: path.into(), source })?;
    file::overwrite(path, &bytes)
        .map(drop)
        .map_err(|source| StoreError::Write { path: path.into(), source })
}

impl StoreError {
    pub(crate) fn is_for_want_of_room(&self) -> bool {
        match self {
            StoreError::Write { source, .. } => file::no_room(source),
            StoreError::Read { .. } | StoreError::Damaged { .. } => false,
        }
    }
}
