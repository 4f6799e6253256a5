//! Finding a program the way `exec` will find it, so that a missing one is reported before anything is started.
//!
//! Whether the service's user may execute it is left to the kernel: permission bits of folders, mounts and
//! security modules decide that, and guessing wrong would refuse what works.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where a program without `/` is looked for when the environment has no `PATH`.
pub(crate) const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Why a program cannot be executed, and where it was looked for.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Missing {
    #[error("there is no {0}")]
    NoFile(PathBuf),
    #[error("{0} is not a regular file")]
    NotAFile(PathBuf),
    #[error("{0} is not executable")]
    NotExecutable(PathBuf),
    #[error("not in PATH ({0})")]
    NotInPath(String),
    #[error("the name of the program is empty")]
    Empty,
}

/// The file that `program` stands for: a name with `/` from `working_dir` on, any other from the folders of `path`.
pub fn resolve(program: &str, working_dir: &Path, path: Option<&str>) -> Result<PathBuf, Missing> {
    if program.is_empty() {
        return Err(Missing::Empty);
    }
    if program.contains('/') {
        return check(working_dir.join(program));
    }
    let path = path.unwrap_or(DEFAULT_PATH);
    let mut refused = None;
    for folder in path.split(':') {
        // An empty entry is the working directory, as the shells have it.
        match check(working_dir.join(folder).join(program)) {
            Ok(found) => return Ok(found),
            Err(missing @ Missing::NotExecutable(_)) => refused = Some(missing),
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| Missing::NotInPath(path.to_owned())))
}

fn check(file: PathBuf) -> Result<PathBuf, Missing> {
    match std::fs::metadata(&file) {
        // The file may be there where only the service's own user can look; exec will tell.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(file),
        Err(_) => Err(Missing::NoFile(file)),
        Ok(found) if !found.is_file() => Err(Missing::NotAFile(file)),
        Ok(found) if found.permissions().mode() & 0o111 == 0 => Err(Missing::NotExecutable(file)),
        Ok(_) => Ok(file),
    }
}

/// Headers of a program stand at its beginning.
const HEADERS: u64 = 64 << 10;

/// The file that loads this program, if it is one that is loaded: a dynamic executable of this machine's kind.
pub fn loader(program: &Path) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    fs::File::open(program).ok()?.take(HEADERS).read_to_end(&mut bytes).ok()?;
    let number = |at: usize, size: usize| -> Option<usize> {
        let mut value = [0; 8];
        value[..size].copy_from_slice(bytes.get(at..at.checked_add(size)?)?);
        usize::try_from(u64::from_le_bytes(value)).ok()
    };
    // 64 bits, little endian.
    bytes.starts_with(b"\x7fELF\x02\x01").then_some(())?;
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let entries = (0..count).filter_map(|entry| table.checked_add(entry.checked_mul(size)?));
    let loads = |at: &usize| number(*at, 4) == Some(libc::PT_INTERP as usize);
    let entry = entries.into_iter().find(loads)?;
    let (begin, length) = (number(entry.checked_add(8)?, 8)?, number(entry.checked_add(32)?, 8)?);
    let name = bytes.get(begin..begin.checked_add(length)?)?.strip_suffix(b"\0")?;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(base: &Path, program: &str, path: Option<&str>, expected: Result<&str, Missing>) {
        let found = resolve(program, base, path);
        assert_eq!(found, expected.map(|relative| base.join(relative)), "{program} in {path:?}");
    }

    fn put(base: &Path, name: &str, mode: u32) {
        fs::create_dir_all(base.join(name).parent().unwrap()).unwrap();
        fs::write(base.join(name), "#!/bin/sh\n").unwrap();
        fs::set_permissions(base.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_program_is_found_where_exec_would_find_it() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path();
        put(base, "bin/tool", 0o755);
        put(base, "late/tool", 0o755);
        put(base, "flat/tool", 0o644);
        put(base, "here", 0o755);
        fs::create_dir(base.join("bin/folder")).unwrap();
        let (bin, late) = (base.join("bin"), base.join("late"));
        let both = format!("{}:{}", bin.display(), late.display());
        let flat_first = format!("{}/flat:{}", base.display(), late.display());
        let absolute = bin.join("tool").display().to_string();

        check(base, "tool", Some(&both), Ok("bin/tool"));
        check(base, "tool", Some(&flat_first), Ok("late/tool"));
        check(base, "tool", Some("late:bin"), Ok("late/tool"));
        check(base, "here", Some("/nowhere:"), Ok("here"));
        check(base, "bin/tool", None, Ok("bin/tool"));
        check(base, &absolute, Some(""), Ok("bin/tool"));
        check(base, "tool", Some("flat"), Err(Missing::NotExecutable(base.join("flat/tool"))));
        check(base, "./tool", Some(&both), Err(Missing::NoFile(base.join("./tool"))));
        check(base, "bin/folder", None, Err(Missing::NotAFile(base.join("bin/folder"))));
        check(base, "folder", Some(&both), Err(Missing::NotInPath(both.clone())));
        check(base, "here/x", None, Err(Missing::NoFile(base.join("here/x"))));
        check(base, "", Some(&both), Err(Missing::Empty));
    }

    #[test]
    fn without_a_path_the_usual_folders_are_searched() {
        assert!(resolve("sh", Path::new("/"), None).is_ok());
        let missing = resolve("surely-not-a-program", Path::new("/"), None);
        assert_eq!(missing, Err(Missing::NotInPath(DEFAULT_PATH.into())));
    }

    #[test]
    fn a_dynamic_program_names_what_loads_it() {
        let shell = fs::canonicalize("/bin/sh").unwrap();
        let loader = loader(&shell).unwrap();
        assert!(loader.is_absolute() && loader.exists(), "{}", loader.display());
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "script", 0o755);
        assert_eq!(super::loader(&folder.path().join("script")), None);
        assert_eq!(super::loader(&folder.path().join("nothing")), None);
        fs::write(folder.path().join("half"), &fs::read(&shell).unwrap()[..60]).unwrap();
        assert_eq!(super::loader(&folder.path().join("half")), None);
    }
}
