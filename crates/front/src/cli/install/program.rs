//! The command with which a client starts this program.

use super::client::Scope;
use proctor_ops::error::{Code, OpError};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Name of the program in a shared file.
const NAME: &str = "proctor";

/// Path of the running program, even if its file was replaced.
const SELF: &str = "/proc/self/exe";

/// Returns the command for a client, and a remark if it is valid only on this machine.
pub(super) fn command(scope: Scope) -> Result<(String, Option<String>), OpError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = find(NAME, &path).filter(|found| is_this(found));
    let command = match (scope, usual) {
        // A shared file must not contain a path of this machine.
        (Scope::Project, Some(_)) => return Ok((NAME.to_owned(), None)),
        // A client that is not started from a shell may have another PATH, and the entry in PATH may be a link that
        // an upgrade moves.
        (Scope::User, Some(usual)) => return text(&usual).map(|text| (text, None)),
        (Scope::Project | Scope::User, None) => std::env::current_exe(),
    };
    let failed = |why: String| {
        OpError::new(Code::Failed, format!("cannot determine the path of this program: {why}"))
            .help("run the installed program again")
    };
    let command = command.map_err(|error| failed(error.to_string()))?;
    if !is_this(&command) {
        return Err(failed(format!("{} was replaced meanwhile", command.display())));
    }
    let elsewhere = || {
        format!(
            "other users may not have {}: put the program into your PATH and retry",
            command.display()
        )
    };
    let note = matches!(scope, Scope::Project).then(elsewhere);
    Ok((text(&command)?, note))
}

/// Returns the first program with this name in a PATH.
pub(super) fn find(name: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| {
            fs::metadata(file)
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        })
}

fn is_this(path: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let this = identity(Path::new(SELF));
    this.is_some() && identity(path) == this
}

fn text(path: &Path) -> Result<String, OpError> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| OpError::bad_input(format!("{} is not UTF-8 text", path.display())))
}
