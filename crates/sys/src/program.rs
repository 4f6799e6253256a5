//! Finds a program the way `exec` will find it, so that a missing one is reported before anything
//! starts.
//!
//! The kernel decides whether the service's user may execute it: permission bits of folders, mounts
//! and security modules matter, and a wrong guess would refuse a working program. The kernel also
//! handles files that we cannot read.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Search path for a program without `/` if the environment has no `PATH`.
pub(crate) const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The reason a program cannot be executed, with the places that were searched.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProgramError {
    #[error("there is no {0}")]
    NoFile(PathBuf),
    #[error("{0} is not a regular file")]
    NotAFile(PathBuf),
    #[error("{0} is not executable")]
    NotExecutable(PathBuf),
    #[error("not in PATH ({0})")]
    NotInPath(String),
    #[error("the program name is empty")]
    Empty,
    #[error(
        "the first line of {0} ends with CR LF (Windows line endings), and the kernel takes the CR for a part of its interpreter's name"
    )]
    CarriageReturn(PathBuf),
    #[error("the first line of {script} names the interpreter '{interpreter}', which is missing")]
    NoInterpreter { script: PathBuf, interpreter: String },
    #[error("{program} is loaded by {loader}, which is missing")]
    NoLoader { program: PathBuf, loader: PathBuf },
}

impl ProgramError {
    /// Advice for a file that exists but cannot be run; `None` if there is no such file.
    pub fn remedy(&self) -> Option<String> {
        match self {
            ProgramError::NoFile(_) | ProgramError::NotInPath(_) | ProgramError::Empty => None,
            ProgramError::NotAFile(_) => Some("name a program, not a folder".into()),
            ProgramError::NotExecutable(file) => {
                let file = file.display();
                Some(format!("`chmod +x {file}`, or begin the command with its interpreter: `sh {file}`"))
            }
            ProgramError::CarriageReturn(script) => {
                Some(format!("`sed -i 's/\\r$//' {}` converts it to Unix line endings", script.display()))
            }
            ProgramError::NoInterpreter { .. } => {
                Some("install the interpreter, correct the line, or add its folder to the service's PATH".into())
            }
            ProgramError::NoLoader { .. } => Some(
                "it was built for another system or C library: build it for this one, or statically".into(),
            ),
        }
    }
}

/// Returns the file of `program`: a name with `/` is relative to `working_dir`, any other is
/// searched in the folders of `path`. The interpreter of a script and the loader of a dynamic
/// program must exist too.
pub fn resolve(
    program: &str,
    working_dir: &Path,
    path: Option<&str>,
) -> Result<PathBuf, ProgramError> {
    let runnable = |file| check_interpreter(check(file)?, working_dir, path);
    find(program, working_dir, path, &runnable)
}

fn find(
    program: &str,
    working_dir: &Path,
    path: Option<&str>,
    check: &dyn Fn(PathBuf) -> Result<PathBuf, ProgramError>,
) -> Result<PathBuf, ProgramError> {
    if program.is_empty() {
        return Err(ProgramError::Empty);
    }
    if program.contains('/') {
        return check(working_dir.join(program));
    }
    let path = path.unwrap_or(DEFAULT_PATH);
    let mut refused = None;
    for folder in path.split(':') {
        // An empty entry is the working directory, as in shells.
        match check(working_dir.join(folder).join(program)) {
            Ok(found) => return Ok(found),
            Err(
                missing @ (ProgramError::NotExecutable(_)
                | ProgramError::CarriageReturn(_)
                | ProgramError::NoInterpreter { .. }
                | ProgramError::NoLoader { .. }),
            ) => refused = Some(missing),
            Err(
                ProgramError::NoFile(_)
                | ProgramError::NotAFile(_)
                | ProgramError::NotInPath(_)
                | ProgramError::Empty,
            ) => {}
        }
    }
    Err(refused.unwrap_or_else(|| ProgramError::NotInPath(path.to_owned())))
}

fn check(file: PathBuf) -> Result<PathBuf, ProgramError> {
    match std::fs::metadata(&file) {
        // The file may be in a folder that only the service's user can read; exec will decide.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(file),
        Err(_) => Err(ProgramError::NoFile(file)),
        Ok(found) if !found.is_file() => Err(ProgramError::NotAFile(file)),
        Ok(found) if found.permissions().mode() & 0o111 == 0 => {
            Err(ProgramError::NotExecutable(file))
        }
        Ok(_) => Ok(file),
    }
}

/// Number of leading bytes to examine: the kernel looks for `#!` in 256, and linkers put the name
/// of the loader first.
const BEGINNING: u64 = 4096;

/// Checks that the interpreter of a script or the loader of a dynamic program exists.
fn check_interpreter(
    file: PathBuf,
    working_dir: &Path,
    path: Option<&str>,
) -> Result<PathBuf, ProgramError> {
    let Some(bytes) = beginning(&file, BEGINNING) else { return Ok(file) };
    let Some(script) = bytes.strip_prefix(b"#!") else {
        return match loader_named(&bytes).filter(|loader| is_missing(loader)) {
            Some(loader) => Err(ProgramError::NoLoader { program: file, loader }),
            None => Ok(file),
        };
    };
    let line = script.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return Ok(file) };
    let (interpreter, argument) = parts(line);
    // Perl parses its own argument and accepts such line endings.
    if line.ends_with('\r') && (argument.is_empty() || !interpreter.ends_with("perl")) {
        return Err(ProgramError::CarriageReturn(file));
    }
    let missing = match env_program(interpreter, argument) {
        _ if is_missing(&working_dir.join(interpreter)) => Some(interpreter),
        Some(program) => find(program, working_dir, path, &check).is_err().then_some(program),
        None => None,
    };
    match missing {
        Some(name) => {
            Err(ProgramError::NoInterpreter { script: file, interpreter: name.to_owned() })
        }
        None => Ok(file),
    }
}

/// Interpreter and argument of a `#!` line.
fn parts(line: &str) -> (&str, &str) {
    const BLANK: [char; 2] = [' ', '\t'];
    let line = line.trim_matches(BLANK);
    let (interpreter, argument) = line.split_once(BLANK).unwrap_or((line, ""));
    (interpreter, argument.trim_matches(BLANK))
}

/// The program that `#!/usr/bin/env NAME` or `env -S NAME …` searches for, if it is a plain name.
fn env_program<'a>(interpreter: &str, argument: &'a str) -> Option<&'a str> {
    Path::new(interpreter).file_name().filter(|name| *name == "env")?;
    let words = argument.strip_prefix("-S").unwrap_or(argument);
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+/-".contains(c);
    words
        .split_ascii_whitespace()
        .next()
        .filter(|word| !word.starts_with('-') && word.chars().all(plain))
}

fn is_missing(file: &Path) -> bool {
    std::fs::metadata(file).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn beginning(file: &Path, most: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(file).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Program headers are at the beginning.
const HEADERS: u64 = 64 << 10;

/// The loader of this program, if it is a dynamic executable for this machine.
pub fn loader(program: &Path) -> Option<PathBuf> {
    loader_named(&beginning(program, HEADERS)?)
}

/// The loader named in the first bytes of a program.
fn loader_named(bytes: &[u8]) -> Option<PathBuf> {
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

    fn check(base: &Path, program: &str, path: Option<&str>, expected: Result<&str, ProgramError>) {
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
        check(base, "tool", Some("flat"), Err(ProgramError::NotExecutable(base.join("flat/tool"))));
        check(base, "./tool", Some(&both), Err(ProgramError::NoFile(base.join("./tool"))));
        check(base, "bin/folder", None, Err(ProgramError::NotAFile(base.join("bin/folder"))));
        check(base, "folder", Some(&both), Err(ProgramError::NotInPath(both.clone())));
        check(base, "here/x", None, Err(ProgramError::NoFile(base.join("here/x"))));
        check(base, "", Some(&both), Err(ProgramError::Empty));
    }

    #[test]
    fn a_script_needs_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path();
        put(base, "bin/known", 0o755);
        let script = base.join("script");
        let cr = || Err(ProgramError::CarriageReturn(script.clone()));
        let none = |interpreter: &str| {
            let interpreter = interpreter.to_owned();
            Err(ProgramError::NoInterpreter { script: script.clone(), interpreter })
        };
        for (text, expected) in [
            ("#!/bin/sh\necho\r\n", Ok(())),
            ("#! /bin/sh -e\n", Ok(())),
            ("#!/bin/sh", Ok(())),
            ("no script at all", Ok(())),
            ("", Ok(())),
            ("#!/bin/sh\r\necho\r\n", cr()),
            ("#!/bin/sh -e\r\n", cr()),
            ("#!/usr/bin/env known\r\n", cr()),
            ("#!/no/such/python3 -u\n", none("/no/such/python3")),
            ("#!bin/known\n", Ok(())),
            ("#!/usr/bin/env known\n", Ok(())),
            ("#!/usr/bin/env -S known --flag\n", Ok(())),
            ("#!/usr/bin/env unknown\n", none("unknown")),
            ("#!/usr/bin/env -S unknown --flag\n", none("unknown")),
            ("#!/usr/bin/env -S A=1 unknown\n", Ok(())),
            ("#!/usr/bin/env -i unknown\n", Ok(())),
        ] {
            put(base, "script", 0o755);
            fs::write(&script, text).unwrap();
            let found = resolve("./script", base, Some("bin")).map(drop);
            assert_eq!(found, expected.map(drop), "{text:?}");
        }
    }

    #[test]
    fn a_dynamic_program_needs_its_loader() {
        let folder = tempfile::tempdir().unwrap();
        let (path, shell) = (folder.path().join("sh"), fs::canonicalize("/bin/sh").unwrap());
        let loader = loader(&shell).unwrap();
        let mut bytes = fs::read(&shell).unwrap();
        let name = loader.as_os_str().as_bytes();
        let at = bytes.windows(name.len()).position(|window| window == name).unwrap();
        bytes[at + 1] = b'?';
        fs::write(&path, &bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let error = resolve("./sh", folder.path(), None).unwrap_err();
        assert!(
            matches!(&error, ProgramError::NoLoader { .. }) && error.remedy().is_some(),
            "{error}"
        );
    }

    #[test]
    fn without_a_path_the_usual_folders_are_searched() {
        assert!(resolve("sh", Path::new("/"), None).is_ok());
        let missing = resolve("surely-not-a-program", Path::new("/"), None);
        assert_eq!(missing, Err(ProgramError::NotInPath(DEFAULT_PATH.into())));
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
