//! How a client calls this very program.

use super::client::Scope;
use proctor_ops::error::{Code, OpError};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What others of a project call it, wherever they have it.
const NAME: &str = "proctor";

/// Ourselves, whatever became of the file we were started from.
const SELF: &str = "/proc/self/exe";

/// What a client is to execute, and a remark if that is only found on this machine.
pub(super) fn command(scope: Scope) -> Result<(String, Option<String>), OpError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = find(NAME, &path).filter(|found| is_this(found));
    let command = match (scope, usual) {
        // A file that is shared must not say where we have it.
        (Scope::Project, Some(_)) => return Ok((NAME.to_owned(), None)),
        // A client that is not started from a shell may have another PATH. And what PATH has may be a link that an upgrade moves.
        (Scope::User, Some(usual)) => return text(&usual).map(|text| (text, None)),
        (Scope::Project | Scope::User, None) => std::env::current_exe(),
    };
    let failed = |why: String| {
        OpError::new(Code::Failed, format!("cannot tell where this program is: {why}"))
            .help("run it again from where it is installed")
    };
    let command = command.map_err(|error| failed(error.to_string()))?;
    if !is_this(&command) {
        return Err(failed(format!("{} is another by now", command.display())));
    }
    let elsewhere = || {
        format!(
            "others may not have it as {}: put it into your PATH and try again",
            command.display()
        )
    };
    let note = matches!(scope, Scope::Project).then(elsewhere);
    Ok((text(&command)?, note))
}

/// The first program of this name in a PATH.
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
