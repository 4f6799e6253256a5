//! One call of git, from its arguments to its output.

use super::configuration::{self, Base};
use super::configuration_cache::FileStamps;
use super::error::GitError;
use super::output_fields::records;
use super::{Git, Repository, SYSTEM};
use crate::command::{CommandExit, Program, ProgramOutput};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Maximum size of an output that is a list or a few fields.
pub(super) const SOME: usize = 4 << 20;

/// Maximum size of a configuration: many times a real one.
const CONFIGURATION: usize = 1 << 20;

/// Memory limit of git in an untrusted repository, which may be made to need any amount. Mapped packs do not
/// count.
const MEMORY: u64 = 4 << 30;

/// Maximum number of bytes quoted from git's error output.
const COMPLAINT: usize = 1500;

/// SIGPIPE: git or its child kept writing after we had read enough.
const UNREAD: i32 = 13;
const CALLED_UNREAD: i32 = 128 + UNREAD;

/// The arguments of one call and its permissions.
#[derive(Debug)]
pub(super) struct GitCall {
    args: Vec<OsString>,
    input: Vec<u8>,
    file: Option<File>,
    env: Vec<(OsString, OsString)>,
    most: usize,
    reads: bool,
    wanted: Option<oneshot::Receiver<()>>,
    kept: Option<OwnedFd>,
}

/// The output of a call, with its exit code.
#[derive(Debug)]
pub(super) struct GitOutput {
    pub(super) code: i32,
    pub(super) out: Vec<u8>,
    /// The output was truncated.
    pub(super) cut: bool,
    pub(super) err: String,
    what: String,
}

impl GitCall {
    /// A call that changes nothing.
    pub(super) fn reading(words: &[&str]) -> GitCall {
        let args = words.iter().map(Into::into).collect();
        GitCall {
            args,
            input: Vec::new(),
            file: None,
            env: Vec::new(),
            most: SOME,
            reads: true,
            wanted: None,
            kept: None,
        }
    }

    /// A call that changes the repository or its work tree.
    pub(super) fn writing(words: &[&str]) -> GitCall {
        GitCall { reads: false, ..GitCall::reading(words) }
    }

    pub(super) fn arg(mut self, word: impl Into<OsString>) -> GitCall {
        self.args.push(word.into());
        self
    }

    pub(super) fn args<T: Into<OsString>>(mut self, words: impl IntoIterator<Item = T>) -> GitCall {
        self.args.extend(words.into_iter().map(Into::into));
        self
    }

    pub(super) fn input(self, input: Vec<u8>) -> GitCall {
        GitCall { input, ..self }
    }

    /// Uses the content of a file as input, without holding it in memory.
    pub(super) fn input_of(self, file: File) -> GitCall {
        GitCall { file: Some(file), ..self }
    }

    pub(super) fn env(mut self, name: &str, value: impl Into<OsString>) -> GitCall {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Uses another index than that of the repository.
    pub(super) fn in_index(self, index: Option<&Path>) -> GitCall {
        match index {
            Some(index) => self.env("GIT_INDEX_FILE", index),
            None => self,
        }
    }

    pub(super) fn most(self, most: usize) -> GitCall {
        GitCall { most, ..self }
    }

    /// Kills the call when the other end of this channel is dropped.
    pub(super) fn wanted(self, wanted: oneshot::Receiver<()>) -> GitCall {
        GitCall { wanted: Some(wanted), ..self }
    }

    /// Passes a descriptor that stays open as long as git runs, even if this process dies.
    pub(super) fn keeping(self, kept: OwnedFd) -> GitCall {
        GitCall { kept: Some(kept), ..self }
    }
}

impl GitOutput {
    /// Returns the output if the call succeeded.
    pub(super) fn good(self) -> Result<GitOutput, GitError> {
        match self.code {
            0 => Ok(self),
            _ => Err(self.failed()),
        }
    }

    /// The error of a failed call.
    pub(super) fn failed(self) -> GitError {
        let lock = self.err.split_once("Unable to create '").and_then(|(_, rest)| {
            rest.split_once("': File exists")
                .map(|(path, _)| path)
                .filter(|it| it.ends_with(".lock"))
        });
        if let Some(lock) = lock {
            return GitError::held(lock);
        }
        let nobody =
            ["Please tell me who you are", "auto-detection is disabled", "empty ident name"];
        if nobody.iter().any(|text| self.err.contains(text)) {
            return GitError::Nobody;
        }
        if let Some(path) = unmatched(&self.err) {
            return GitError::Nothing(format!("'{path}' among the files that git knows"));
        }
        // Some of git's commands print their error on stdout.
        let said = if self.err.trim().is_empty() {
            String::from_utf8_lossy(&self.out).into_owned()
        } else {
            self.err
        };
        // The prefix by which we mark a path as literal.
        let said = said.replace(":(literal)", "");
        let said = said.trim().trim_start_matches("fatal: ").trim_start_matches("error: ");
        let said = match said {
            "" => format!("exit code {}", self.code),
            said => proctor_core::text::beginning(said, COMPLAINT).into_owned(),
        };
        GitError::Failed { what: self.what, said }
    }
}

/// The unmatched path in git's message, without its `:(literal)` prefix.
fn unmatched(complaint: &str) -> Option<&str> {
    let (_, rest) = complaint.split_once("pathspec '")?;
    let (path, _) = rest.split_once("' did not match any file")?;
    Some(match path.strip_prefix(":(").and_then(|path| path.split_once(')')) {
        Some((_, path)) => path,
        None => path,
    })
}

impl Repository {
    /// Calls git; returns its output if it succeeded.
    pub(super) async fn ask(&self, call: GitCall) -> Result<GitOutput, GitError> {
        self.run(call).await?.good()
    }

    /// Calls git; returns its output and exit code.
    pub(super) async fn run(&self, call: GitCall) -> Result<GitOutput, GitError> {
        debug_assert!(call.reads || self.writing.is_some(), "{:?} without the lock", call.args);
        let Git { room, .. } = &*self.git;
        let what = call.args.first().map(|word| word.to_string_lossy().into_owned());
        let what = what.unwrap_or_default();
        let failed = |why: String| GitError::Failed { what: what.clone(), said: why };
        let late = |_| GitError::Late { what: what.clone(), limit: self.limit };
        let place = tokio::time::timeout(self.limit, room.acquire()).await.map_err(late)?;
        let _place = place.map_err(|error| failed(error.to_string()))?;
        let mut args: Vec<OsString> = vec!["--no-pager".into(), "--no-replace-objects".into()];
        args.extend(call.args);
        let mut env = self.environment(call.reads);
        env.extend(call.env);
        let program = Program {
            file: self.tool.file.clone(),
            args,
            env,
            working_dir: self
                .place
                .held
                .as_ref()
                .map_or_else(|| self.place.top.clone(), |it| it.top()),
            input: call.input,
            file_input: call.file,
            limit: self.limit,
            most: call.most,
            fence: self.fence(call.reads)?,
            memory: (!self.place.trusted).then_some(MEMORY),
            thorough: self.place.trusted,
            // A killed git would leave its locks, which block everything after it.
            gentle: !call.reads,
            wanted: None,
            started: None,
            kept: call.kept,
        };
        let ProgramOutput { end, stdout, cut, stderr } = self.produce(program, call.wanted).await?;
        let code = match end {
            CommandExit::Code(CALLED_UNREAD) | CommandExit::Signal(UNREAD) if cut => 0,
            CommandExit::Code(code) => code,
            CommandExit::Signal(number) => return Err(failed(format!("signal {number}"))),
            CommandExit::TimedOut => return Err(GitError::Late { what, limit: self.limit }),
            CommandExit::NotStarted(why) => return Err(failed(why)),
        };
        Ok(GitOutput { code, out: stdout, cut, err: stderr, what })
    }

    /// Reads the names in the configuration, and disables settings that could run something.
    pub(super) async fn close(&mut self) -> Result<(), GitError> {
        let files = self.configurations();
        let look = crate::blocking(move || FileStamps::at(&files)).await.ok().flatten();
        let key = (self.place.git_dir.clone(), self.place.trusted);
        let known = &self.git.names;
        let remembered = look.as_ref().and_then(|look| known.get(&key, look));
        let listed = match remembered {
            Some(listed) => listed,
            None => {
                let listed = self.configured().await?;
                if let Some(look) = look {
                    known.put(key, look, &listed);
                }
                listed
            }
        };
        let settings = configuration::settings(&listed);
        let closed = self.settings.close(&settings, self.place.trusted);
        closed.map_err(|why| self.unsafe_(&why))?;
        if !self.place.trusted {
            self.check_named_files(&settings).await?;
            let own = self.own_variable("XDG_CONFIG_HOME");
            let (mut files, odd) = configuration::of_owner(&listed, self.paths_begin(), own);
            files.extend(self.own_variable(SYSTEM).map(Path::to_owned));
            for name in odd {
                files.extend(self.owners_files(&name).await?);
            }
            self.owners = Some(files);
        }
        Ok(())
    }

    /// The files that git finds for a path setting of the owner or the system.
    async fn owners_files(&self, name: &str) -> Result<Vec<PathBuf>, GitError> {
        let mut files = Vec::new();
        for whose in ["--system", "--global"] {
            let call = GitCall::reading(&["config", whose, "--includes", "--type=path", "-z"]);
            let said = self.run(call.args(["--get-all", name])).await?;
            files.extend(records(&said.out).map(|path| PathBuf::from(OsStr::from_bytes(path))));
        }
        Ok(files)
    }

    /// The whole configuration, listed by the one call that reads all includes. Git's errors are not shown:
    /// they may quote any file.
    async fn configured(&self) -> Result<Arc<[u8]>, GitError> {
        let list = GitCall::reading(&["config", "--list", "--show-scope", "--show-origin", "-z"]);
        match self.run(list.most(CONFIGURATION)).await? {
            said if said.cut => Err(self.unsafe_("its configuration is too large")),
            said if said.code == 0 => Ok(said.out.into()),
            said if self.place.trusted => Err(said.failed()),
            _ => Err(self.unsafe_("git cannot read its configuration, or the owner's")),
        }
    }

    /// The files of the configuration, including missing ones.
    fn configurations(&self) -> Vec<PathBuf> {
        let home = self.own_variable("HOME");
        let mut files =
            vec![self.place.common_dir.join("config"), self.place.git_dir.join("config.worktree")];
        files.extend(self.tool.of_system.iter().cloned());
        files.extend(self.own_variable(SYSTEM).map(Path::to_owned));
        files.extend(home.iter().map(|home| home.join(".gitconfig")));
        files.extend(home.iter().map(|home| home.join(".config/git/config")));
        files.extend(self.own_variable("XDG_CONFIG_HOME").map(|folder| folder.join("git/config")));
        files
    }

    /// A folder from a variable of the owner.
    fn own_variable(&self, name: &str) -> Option<&Path> {
        let found = self.env.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| Path::new(value)).filter(|path| path.is_absolute())
    }

    pub(super) fn paths_begin(&self) -> Base<'_> {
        Base { top: &self.place.top, home: self.own_variable("HOME") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_git_has_nothing_for_is_told_as_it_was_given() {
        let known = "did not match any file(s) known to git";
        for (word, expected) in [
            ("nosuch", "nosuch"),
            (":(literal)nosuch", "nosuch"),
            (":(literal,prefix:0)it's (not)", "it's (not)"),
        ] {
            let complaint = format!("error: pathspec '{word}' {known}\n");
            assert_eq!(unmatched(&complaint), Some(expected));
        }
        assert_eq!(unmatched("fatal: something else"), None);
    }
}
