//! One file for each supervisor. The settings they share are in the case.

pub(super) mod bare;
pub(super) mod circus;
pub(super) mod horust;
pub(super) mod pitchfork;
pub(super) mod pm2;
pub(super) mod proctor;
pub(super) mod runit;
pub(super) mod s6;
pub(super) mod supervisord;

use anyhow::{Context as _, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Writes a file; creates its folders.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().context("a file is in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes an executable script.
pub(super) fn write_script(path: &Path, text: &str) -> Result<()> {
    write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", path.display()))
}
