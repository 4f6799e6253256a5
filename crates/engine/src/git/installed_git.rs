//! The installed git: found once, and tested.

use super::error::GitError;
use crate::command::{CommandExit, Commands, Program};
use proctor_sys::landlock::{AllowedAccess, Readable, Ruleset};
use proctor_sys::program;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// The first version that takes settings, and the name of the system's file, from the environment.
pub(super) const OLDEST: Version = (2, 32);

/// Timeout for printing its version.
const SOON: Duration = Duration::from_secs(10);

/// `PATH` for git, in addition to its own folder.
const USUAL_FOLDERS: &str = "/usr/bin:/bin";

const SHELL: &str = "/bin/sh";

/// Files that programs of the system read: the programs themselves, and public data.
const SYSTEM: [&str; 13] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/dev/urandom",
];

pub(super) type Version = (u32, u32);

/// A usable git.
#[derive(Debug)]
pub(super) struct InstalledGit {
    pub(super) file: PathBuf,
    pub(super) version: Version,
    /// All programs that it needs to execute, if known; then nothing else is executed for an untrusted
    /// repository.
    pub(super) programs: Option<Vec<PathBuf>>,
    /// Files that it needs to read besides repositories and the owner's files, if known.
    pub(super) readable: Option<Vec<PathBuf>>,
    /// The paths of the system's settings and attributes.
    pub(super) of_system: Vec<PathBuf>,
}

/// The cached git. A missing one is searched again: it may have been installed or replaced.
#[derive(Default)]
pub(super) struct GitCache(Mutex<Option<Arc<InstalledGit>>>);

impl GitCache {
    pub(super) async fn get(
        &self,
        commands: &Commands,
        path: Option<&str>,
    ) -> Result<Arc<InstalledGit>, GitError> {
        let mut found = self.0.lock().await;
        if let Some(tool) = found.as_ref().filter(|tool| tool.file.exists()) {
            return Ok(Arc::clone(tool));
        }
        let tool = find(commands, path).await?;
        *found = Some(Arc::clone(&tool));
        Ok(tool)
    }
}

impl InstalledGit {
    /// The programs that may be executed with these protocols, if known. Those for HTTP are in git's own
    /// folder.
    pub(super) fn executable(&self, protocols: &[String]) -> Option<Vec<PathBuf>> {
        let mut programs = self.programs.clone()?;
        let open = |name: &str| protocols.iter().any(|protocol| protocol == name);
        let mut more = Vec::new();
        if open("ssh") {
            let path = self.search_path().into_string().ok();
            more.extend(program::resolve("ssh", Path::new("/"), path.as_deref()));
        }
        // Git starts the other end with a shell.
        if open("ssh") || open("file") {
            more.push(PathBuf::from(SHELL));
        }
        for file in more.into_iter().filter(|file| file.exists()) {
            programs.extend(program::loader(&file));
            programs.push(file);
        }
        Some(programs)
    }

    pub(super) fn search_path(&self) -> OsString {
        let mut path = OsString::from(self.file.parent().unwrap_or(Path::new("/usr/bin")));
        path.push(":");
        path.push(USUAL_FOLDERS);
        path
    }
}

async fn find(commands: &Commands, path: Option<&str>) -> Result<Arc<InstalledGit>, GitError> {
    // Only absolute folders: a relative one would depend on the working directory.
    let absolute = path.map(|path| {
        let folders = path.split(':').filter(|folder| folder.starts_with('/'));
        folders.collect::<Vec<_>>().join(":")
    });
    let file = program::resolve("git", Path::new("/"), absolute.as_deref())
        .map_err(|missing| GitError::Missing { searched: missing.to_string() })?;
    let file = std::fs::canonicalize(&file).unwrap_or(file);
    let said = ask(commands, &file, &["version"], None).await?;
    let text = String::from_utf8_lossy(&said).trim().to_owned();
    let version = version(&text).ok_or_else(|| GitError::Failed {
        what: "version".into(),
        said: format!("it printed '{text}' as its version"),
    })?;
    if version < OLDEST {
        let found = text.trim_start_matches("git version ").to_owned();
        return Err(GitError::TooOld { file, found, oldest: OLDEST });
    }
    let mut folder = ask(commands, &file, &["--exec-path"], None).await?;
    folder.truncate(folder.trim_ascii_end().len());
    let folder = PathBuf::from(OsString::from_vec(folder));
    let near = [file.parent().unwrap_or(&file).to_owned(), folder.clone()];
    let of_system = of_system(commands, &file).await;
    let mut readable: Vec<PathBuf> = SYSTEM.into_iter().map(PathBuf::from).chain(near).collect();
    readable.extend(of_system.iter().cloned());
    let mut programs = vec![file.clone(), folder];
    programs.extend(program::loader(&file));
    let reads = does_with(commands, &file, None, Some(&readable)).await;
    let executes = does_with(commands, &file, Some(&programs), None).await;
    if !(reads && executes) {
        tracing::info!(git = %file.display(), reads, executes, "git runs without a full Landlock restriction");
    }
    let (programs, readable) = (executes.then_some(programs), reads.then_some(readable));
    Ok(Arc::new(InstalledGit { file, version, programs, readable, of_system }))
}

/// The paths of the system's files. Older versions do not report them; most are below `/etc`, or next to git's
/// folder.
async fn of_system(commands: &Commands, file: &Path) -> Vec<PathBuf> {
    let beside = file.parent().and_then(Path::parent).map(|prefix| prefix.join("etc"));
    let mut files = Vec::new();
    for (variable, name) in
        [("GIT_CONFIG_SYSTEM", "gitconfig"), ("GIT_ATTR_SYSTEM", "gitattributes")]
    {
        let said = ask(commands, file, &["var", variable], None).await.unwrap_or_default();
        match said.trim_ascii_end() {
            [] => {
                let folders = [Some(PathBuf::from("/etc")), beside.clone()].into_iter().flatten();
                files.extend(folders.map(|folder| folder.join(name)));
            }
            path => files.push(PathBuf::from(OsString::from_vec(path.to_vec()))),
        }
    }
    files
}

/// Tests whether git works with this restriction.
async fn does_with(
    commands: &Commands,
    file: &Path,
    programs: Option<&[PathBuf]>,
    readable: Option<&[PathBuf]>,
) -> bool {
    let programs: Option<Vec<&Path>> =
        programs.map(|programs| programs.iter().map(PathBuf::as_path).collect());
    let gates = AllowedAccess {
        writable: &[],
        readable: readable.map(|named| Readable { folders: &[], named }),
        executable: programs.as_deref(),
        network: false,
    };
    let Ok(Some(fence)) = Ruleset::new(&gates) else { return false };
    ask(commands, file, &["version"], Some(fence)).await.is_ok()
}

async fn ask(
    commands: &Commands,
    file: &Path,
    words: &[&str],
    fence: Option<Ruleset>,
) -> Result<Vec<u8>, GitError> {
    let program = Program {
        file: file.to_owned(),
        args: words.iter().map(Into::into).collect(),
        env: vec![("LC_ALL".into(), "C".into())],
        working_dir: "/".into(),
        limit: SOON,
        most: 4096,
        fence,
        ..Program::default()
    };
    let failed = |said: String| GitError::Failed { what: words.join(" "), said };
    let produced = commands.produce(program).await.map_err(|error| failed(error.to_string()))?;
    match produced.end {
        CommandExit::Code(0) => Ok(produced.stdout),
        CommandExit::NotStarted(why) => Err(failed(why)),
        CommandExit::Code(_) | CommandExit::Signal(_) | CommandExit::TimedOut => {
            Err(failed(produced.stderr))
        }
    }
}

/// `git version 2.39.5 (Apple Git-154)` is 2.39.
fn version(text: &str) -> Option<Version> {
    let mut numbers = text.strip_prefix("git version ")?.split(['.', ' ', '-']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::home::Home;

    #[test]
    fn an_open_protocol_opens_what_it_needs_and_no_more() {
        let tool = |programs: Option<Vec<PathBuf>>| InstalledGit {
            file: "/usr/bin/git".into(),
            version: OLDEST,
            programs,
            readable: None,
            of_system: Vec::new(),
        };
        let known = vec![PathBuf::from("/usr/bin/git"), PathBuf::from("/usr/lib/git-core")];
        let opened = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            tool(Some(known.clone())).executable(&names).unwrap()
        };
        assert_eq!(opened(&[]), known);
        assert_eq!(opened(&["https", "http", "git"]), known);
        for protocol in ["ssh", "file"] {
            let open = opened(&[protocol]);
            assert!(open.starts_with(&known) && open.contains(&SHELL.into()), "{open:?}");
            let more = open.iter().filter(|file| file.is_dir()).count();
            assert_eq!(more, known.iter().filter(|file| file.is_dir()).count(), "{open:?}");
        }
        assert_eq!(tool(None).executable(&["ssh".into()]), None);
    }

    #[tokio::test]
    async fn where_the_files_of_the_system_are_is_asked_of_git_itself() {
        let check = async |tells: &str, expected: &dyn Fn(&Path) -> Vec<PathBuf>| {
            let folder = tempfile::tempdir().unwrap();
            let prefix = folder.path().canonicalize().unwrap();
            let git = prefix.join("bin/git");
            // Written by another process: a file that is open for writing here cannot be executed.
            let script = format!(
                "mkdir '{0}/bin'; echo '#!/bin/sh\ncase $1 in version) echo git version 2.47.0;; \
                 --exec-path) echo {0};; {tells} *) exit 129;; esac' > '{1}'; chmod 755 '{1}'",
                prefix.display(),
                git.display()
            );
            let made = std::process::Command::new("sh").args(["-c", &script]).status();
            assert!(made.unwrap().success());
            let home = Home { state: prefix.clone(), runtime: prefix.clone() };
            let found = find(&Commands::new(home), prefix.join("bin").to_str()).await.unwrap();
            assert_eq!(found.of_system, expected(&prefix), "{tells}");
        };
        let files = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        check("var) echo /opt/etc/$2;;", &|_| {
            files(&["/opt/etc/GIT_CONFIG_SYSTEM", "/opt/etc/GIT_ATTR_SYSTEM"])
        })
        .await;
        check("", &|prefix| {
            let beside = |name: &str| prefix.join("etc").join(name);
            let usual = files(&["/etc/gitconfig", "/etc/gitattributes"]);
            let [config, attributes] = &usual[..] else { panic!("{usual:?}") };
            vec![config.clone(), beside("gitconfig"), attributes.clone(), beside("gitattributes")]
        })
        .await;
    }

    #[test]
    fn versions_are_two_numbers() {
        for (text, expected) in [
            ("git version 2.47.3", Some((2, 47))),
            ("git version 2.39.5 (Apple Git-154)", Some((2, 39))),
            ("git version 3.0-rc1", Some((3, 0))),
            ("git version 2", None),
            ("hello", None),
        ] {
            assert_eq!(version(text), expected, "{text}");
        }
    }
}
