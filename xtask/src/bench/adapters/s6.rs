//! s6 with s6-log, from Debian's packages, unpacked.

use super::super::adapter::{Adapter, Case, Stop, sorted_files};
use super::super::scratch::Scratch;
use super::write_script;
use anyhow::{Context as _, Result};
use rustix::process::Signal;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const HELPER: &str = "s6-supervise";
const INSTALLED: &[u8] = b"/usr/bin/s6-supervise\0";

pub(crate) fn install(scratch: &Scratch) -> Result<Box<dyn Adapter>> {
    let folder = scratch.debian("s6", &["libs6", "libskarnet", "libexecline"])?;
    let libraries = libraries(&folder.join("usr/lib"))?;
    let bin = folder.join("usr/bin");
    let scanner = relocate(&bin)?;
    Ok(Box::new(S6 { bin, scanner, libraries }))
}

/// The scanner finds its helper by a compiled-in path, but the package is not installed there. A
/// patched copy uses a path relative to its working folder, `services`, to a link beside it.
fn relocate(bin: &Path) -> Result<PathBuf> {
    let mut program = std::fs::read(bin.join("s6-svscan")).context("s6 came without a scanner")?;
    let copy = bin.join("s6-svscan-here");
    let here = format!("../{HELPER}\0");
    if let Some(at) = program.windows(INSTALLED.len()).position(|part| part == INSTALLED) {
        program[at..at + here.len()].copy_from_slice(here.as_bytes());
    }
    std::fs::write(&copy, program).context("cannot write a copy of the scanner")?;
    std::fs::set_permissions(&copy, Permissions::from_mode(0o755))
        .context("cannot make the copy of the scanner executable")?;
    Ok(copy)
}

/// The library folder of this machine's architecture.
fn libraries(folder: &Path) -> Result<PathBuf> {
    let mut entries = std::fs::read_dir(folder).context("s6 came without libraries")?.flatten();
    let found = entries.find(|entry| entry.file_name().to_string_lossy().contains("linux"));
    Ok(found.map_or_else(|| folder.to_path_buf(), |entry| entry.path()))
}

struct S6 {
    bin: PathBuf,
    scanner: PathBuf,
    libraries: PathBuf,
}

impl S6 {
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("LD_LIBRARY_PATH", &self.libraries);
        // It runs its helpers by name.
        command.env("PATH", format!("{}:{path}", self.bin.display()));
        command
    }
}

impl Adapter for S6 {
    fn settings(&self) -> &'static str {
        "one s6-log for each service; it waits a second before it starts one again (cannot be set); the path of its helper was changed in a copy, as the package is not installed"
    }

    /// `services/NAME/{run,log/run}`, complete before the first scan.
    fn prepare(&self, case: &Case) -> Result<()> {
        std::fs::create_dir_all(case.folder.join("services"))?;
        symlink(self.bin.join(HELPER), case.folder.join(HELPER))?;
        for name in case.names() {
            let service = case.folder.join("services").join(&name);
            write_script(&service.join("run"), &format!("#!/bin/sh\nexec {}\n", case.line()))?;
            let logs = case.folder.join("logs").join(&name);
            std::fs::create_dir_all(&logs)?;
            let logger = format!(
                "#!/bin/sh\nexec {} n{} s{} {}\n",
                self.bin.join("s6-log").display(),
                case.files(),
                case.rotate,
                logs.display()
            );
            write_script(&service.join("log/run"), &logger)?;
        }
        Ok(())
    }

    /// `-c`: by default it refuses more than 500 services.
    fn launch(&self, case: &Case) -> Command {
        let mut command = self.command(&self.scanner);
        command.arg("-c").arg((case.services * 2 + 16).to_string());
        command.arg(case.folder.join("services"));
        command
    }

    fn stop(&self, _case: &Case) -> Stop {
        Stop::Signal(Signal::TERM)
    }

    fn logs(&self, case: &Case, service: usize) -> Result<Vec<PathBuf>> {
        let folder = case.folder.join("logs").join(case.name(service));
        let mut files = sorted_files(&folder, |name| name.starts_with('@'));
        files.push(folder.join("current"));
        Ok(files)
    }

    fn status(&self, case: &Case, service: usize) -> Option<Command> {
        let mut command = self.command(&self.bin.join("s6-svstat"));
        command.arg(case.folder.join("services").join(case.name(service)));
        Some(command)
    }
}
