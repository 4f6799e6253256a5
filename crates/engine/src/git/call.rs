//! One call of git, from its words to what it said.

use super::configuration::{self, Base};
use super::error::GitError;
use super::fields::records;
use super::names::Look;
use super::{Git, Repository, SYSTEM};
use crate::command::{End, Produced, Program};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Of an answer that is a list or a few fields.
pub(super) const SOME: usize = 4 << 20;

/// A configuration: many times what anybody has.
const CONFIGURATION: usize = 1 << 20;

/// What git may have of its own for a repository that is not trusted, which may be made to want any amount. What it only
/// maps, its packs, does not count.
const MEMORY: u64 = 4 << 30;

/// Of what git complains, this much is told.
const COMPLAINT: usize = 1500;

/// SIGPIPE: it, or what it had called, wrote on when nobody wanted more.
const UNREAD: i32 = 13;
const CALLED_UNREAD: i32 = 128 + UNREAD;

/// The words of one call and what it may do.
#[derive(Debug)]
pub(super) struct Call {
    args: Vec<OsString>,
    input: Vec<u8>,
    file: Option<File>,
    env: Vec<(OsString, OsString)>,
    most: usize,
    reads: bool,
    wanted: Option<oneshot::Receiver<()>>,
    kept: Option<OwnedFd>,
}

/// What a call said, however it ended.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) code: i32,
    pub(super) out: Vec<u8>,
    /// There was more.
    pub(super) cut: bool,
    pub(super) err: String,
    what: String,
}

impl Call {
    /// One that changes nothing.
    pub(super) fn reading(words: &[&str]) -> Call {
        let args = words.iter().map(Into::into).collect();
        Call {
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

    /// One that changes the repository or its work tree.
    pub(super) fn writing(words: &[&str]) -> Call {
        Call { reads: false, ..Call::reading(words) }
    }

    pub(super) fn arg(mut self, word: impl Into<OsString>) -> Call {
        self.args.push(word.into());
        self
    }

    pub(super) fn args<T: Into<OsString>>(mut self, words: impl IntoIterator<Item = T>) -> Call {
        self.args.extend(words.into_iter().map(Into::into));
        self
    }

    pub(super) fn input(self, input: Vec<u8>) -> Call {
        Call { input, ..self }
    }

    /// With what is in a file as its input, which is not held in memory for it.
    pub(super) fn input_of(self, file: File) -> Call {
        Call { file: Some(file), ..self }
    }

    pub(super) fn env(mut self, name: &str, value: impl Into<OsString>) -> Call {
        self.env.push((name.into(), value.into()));
        self
    }

    /// With another index than that of the repository.
    pub(super) fn in_index(self, index: Option<&Path>) -> Call {
        match index {
            Some(index) => self.env("GIT_INDEX_FILE", index),
            None => self,
        }
    }

    pub(super) fn most(self, most: usize) -> Call {
        Call { most, ..self }
    }

    /// Ended as soon as the other end of this is dropped.
    pub(super) fn wanted(self, wanted: oneshot::Receiver<()>) -> Call {
        Call { wanted: Some(wanted), ..self }
    }

    /// With a descriptor that stays open as long as it runs, whatever becomes of us.
    pub(super) fn keeping(self, kept: OwnedFd) -> Call {
        Call { kept: Some(kept), ..self }
    }
}

impl Said {
    /// What it said, if it succeeded.
    pub(super) fn good(self) -> Result<Said, GitError> {
        match self.code {
            0 => Ok(self),
            _ => Err(self.failed()),
        }
    }

    /// Why it did not do what it was to do.
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
        // Some of its commands say on the wrong stream what they could not do.
        let said = if self.err.trim().is_empty() {
            String::from_utf8_lossy(&self.out).into_owned()
        } else {
            self.err
        };
        // How it is told that a path means nothing else.
        let said = said.replace(":(literal)", "");
        let said = said.trim().trim_start_matches("fatal: ").trim_start_matches("error: ");
        let said = match said {
            "" => format!("exit code {}", self.code),
            said => proctor_core::text::beginning(said, COMPLAINT).into_owned(),
        };
        GitError::Failed { what: self.what, said }
    }
}

/// The path that git has nothing for, without the word before it that says how it is to be read.
fn unmatched(complaint: &str) -> Option<&str> {
    let (_, rest) = complaint.split_once("pathspec '")?;
    let (path, _) = rest.split_once("' did not match any file")?;
    Some(match path.strip_prefix(":(").and_then(|path| path.split_once(')')) {
        Some((_, path)) => path,
        None => path,
    })
}

impl Repository {
    /// Call git; what it said, if it succeeded.
    pub(super) async fn ask(&self, call: Call) -> Result<Said, GitError> {
        self.run(call).await?.good()
    }

    /// Call git; what it said, however it ended.
    pub(super) async fn run(&self, call: Call) -> Result<Said, GitError> {
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
            // Its locks would stay, and be in the way of everything after it.
            gentle: !call.reads,
            wanted: None,
            started: None,
            kept: call.kept,
        };
        let Produced { end, stdout, cut, stderr } = self.produce(program, call.wanted).await?;
        let code = match end {
            End::Code(CALLED_UNREAD) | End::Signal(UNREAD) if cut => 0,
            End::Code(code) => code,
            End::Signal(number) => return Err(failed(format!("signal {number}"))),
            End::TimedOut => return Err(GitError::Late { what, limit: self.limit }),
            End::NotStarted(why) => return Err(failed(why)),
        };
        Ok(Said { code, out: stdout, cut, err: stderr, what })
    }

    /// Read the names in the configuration, and close what could run something.
    pub(super) async fn close(&mut self) -> Result<(), GitError> {
        let files = self.configurations();
        let look = crate::blocking(move || Look::at(&files)).await.ok().flatten();
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

    /// What git makes of a setting of the owner's, or of the system's, that names a file.
    async fn owners_files(&self, name: &str) -> Result<Vec<PathBuf>, GitError> {
        let mut files = Vec::new();
        for whose in ["--system", "--global"] {
            let call = Call::reading(&["config", whose, "--includes", "--type=path", "-z"]);
            let said = self.run(call.args(["--get-all", name])).await?;
            files.extend(records(&said.out).map(|path| PathBuf::from(OsStr::from_bytes(path))));
        }
        Ok(files)
    }

    /// All of it, listed by the only call that reads whatever it includes. What git has to say of that is kept to itself:
    /// it may be of any file.
    async fn configured(&self) -> Result<Arc<[u8]>, GitError> {
        let list = Call::reading(&["config", "--list", "--show-scope", "--show-origin", "-z"]);
        match self.run(list.most(CONFIGURATION)).await? {
            said if said.cut => Err(self.unsafe_("its configuration is too large")),
            said if said.code == 0 => Ok(said.out.into()),
            said if self.place.trusted => Err(said.failed()),
            _ => Err(self.unsafe_("git cannot read its configuration, or the owner's")),
        }
    }

    /// The files that it is read from, those that are not there too.
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

    /// A folder that a variable of the owner's names.
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
