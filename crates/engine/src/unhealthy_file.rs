//! `logs/NAME/unhealthy.json`: why Proctor ended the latest unhealthy runs of a service, for the daemons after this one.
//!
//! It is beside the log whose exits it explains, and goes with it. A reason that cannot be read or written is missing in views and
//! nothing else.

use crate::service_view::{FailedChecks, UnhealthyRun};
use proctor_core::home::Home;
use proctor_core::name::{RunId, ServiceName};
use proctor_sys::small_file;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum size of the file; the kept reasons are smaller.
const MAX_BYTES: u64 = 64 << 10;

#[derive(Serialize, Deserialize)]
struct StoredReason {
    run: RunId,
    url: String,
    why: String,
    failures: u32,
}

fn path(home: &Home, name: &ServiceName) -> PathBuf {
    home.log_dir(name).join("unhealthy.json")
}

/// Replaces the stored reasons of a service.
pub(crate) fn write(home: &Home, name: &ServiceName, runs: &[UnhealthyRun]) -> io::Result<()> {
    let reason = |it: &UnhealthyRun| {
        let FailedChecks { url, why, failures } = (*it.checks).clone();
        StoredReason { run: it.run, url, why, failures }
    };
    let reasons: Vec<StoredReason> = runs.iter().map(reason).collect();
    small_file::replace(&path(home, name), &serde_json::to_vec(&reasons)?)
}

/// The stored reasons of a service, oldest first.
pub(crate) fn read(home: &Home, name: &ServiceName) -> Vec<UnhealthyRun> {
    let path = path(home, name);
    let read = small_file::read_small(&path, MAX_BYTES)
        .and_then(|bytes| Ok(serde_json::from_slice::<Vec<StoredReason>>(&bytes)?));
    match read {
        Ok(reasons) => reasons.into_iter().map(UnhealthyRun::from).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot read why runs were unhealthy");
            Vec::new()
        }
    }
}

impl From<StoredReason> for UnhealthyRun {
    fn from(stored: StoredReason) -> UnhealthyRun {
        let StoredReason { run, url, why, failures } = stored;
        UnhealthyRun { run, checks: Arc::new(FailedChecks { url, why, failures }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_come_back_as_they_were_and_damage_is_no_reason() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home { state: folder.path().into(), runtime: folder.path().join("run") };
        let name = ServiceName::parse("web").unwrap();
        assert!(read(&home, &name).is_empty());
        let checks = FailedChecks { url: "http://h/".into(), why: "500".into(), failures: 2 };
        let runs = [UnhealthyRun { run: RunId(7), checks: Arc::new(checks) }];
        assert!(write(&home, &name, &runs).is_err(), "without a log there is nothing to explain");
        std::fs::create_dir_all(home.log_dir(&name)).unwrap();
        write(&home, &name, &runs).unwrap();
        assert_eq!(read(&home, &name), runs);
        std::fs::write(path(&home, &name), "[{").unwrap();
        assert!(read(&home, &name).is_empty());
    }
}
