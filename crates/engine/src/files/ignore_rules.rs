//! Decides which files are skipped: hidden ones, and those that `.gitignore` and `.ignore` name. Rules above a
//! root are not read.
//!
//! As in ripgrep, any `.ignore` takes precedence over any `.gitignore`; among each, the innermost matching one
//! decides. As in git, the rules of a repository do not apply in another repository inside it.

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use proctor_core::content::Encoding;
use proctor_sys::beneath::{Entry, Folder, Kind};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// A file with rules is read up to this size: nobody writes more.
const MAX_IGNORE_FILE_BYTES: u64 = 1 << 20;

/// The filters of a walk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SkipRules {
    /// Include files that the rules name.
    pub no_ignore: bool,
    /// Include hidden files.
    pub hidden: bool,
}

/// The rules of a folder and of those above it.
#[derive(Debug, Default)]
pub(crate) struct IgnoreRules {
    /// From `.ignore`.
    own: Option<Gitignore>,
    /// From `.gitignore`, then from `.git/info/exclude`.
    git: Vec<Gitignore>,
    /// Git's rules of the folders above do not apply here.
    repository: bool,
    /// Length of the path of this folder, with the slash after it.
    begin: usize,
    above: Option<Arc<IgnoreRules>>,
}

impl IgnoreRules {
    /// The rules of a folder with these entries, below those of `above`.
    pub(crate) fn of(
        folder: &Folder,
        entries: &[Entry],
        begin: usize,
        above: Option<Arc<IgnoreRules>>,
    ) -> Arc<IgnoreRules> {
        let has =
            |name: &str| entries.iter().find(|entry| entry.name == name).map(|entry| entry.kind);
        let parsed = |name: &str| match has(name) {
            Some(Kind::File) => parse(folder, OsStr::new(name)),
            _ => None,
        };
        let own = parsed(".ignore");
        let mut git: Vec<Gitignore> = parsed(".gitignore").into_iter().collect();
        if has(".git") == Some(Kind::Folder) {
            let info =
                folder.child(OsStr::new(".git")).and_then(|git| git.child(OsStr::new("info")));
            git.extend(info.ok().and_then(|info| parse(&info, OsStr::new("exclude"))));
        }
        // In a worktree and in a submodule it is a file.
        let repository = has(".git").is_some();
        match (own.is_none() && git.is_empty() && !repository, above) {
            (true, Some(above)) => above,
            (_, above) => Arc::new(IgnoreRules { own, git, repository, begin, above }),
        }
    }

    /// Returns true if this path, below the root, is skipped.
    pub(crate) fn name(&self, path: &[u8], folder: bool) -> bool {
        self.said(path, folder).or_else(|| self.said_by_git(path, folder)).unwrap_or(false)
    }

    fn said(&self, path: &[u8], folder: bool) -> Option<bool> {
        let own = self.own.as_ref().and_then(|rules| self.said_in(rules, path, folder));
        own.or_else(|| self.above.as_ref()?.said(path, folder))
    }

    fn said_by_git(&self, path: &[u8], folder: bool) -> Option<bool> {
        let own = self.git.iter().find_map(|rules| self.said_in(rules, path, folder));
        let above = self.above.as_ref().filter(|_| !self.repository);
        own.or_else(|| above?.said_by_git(path, folder))
    }

    fn said_in(&self, rules: &Gitignore, path: &[u8], folder: bool) -> Option<bool> {
        let below = path.get(self.begin..).unwrap_or_default();
        match rules.matched(Path::new(OsStr::from_bytes(below)), folder) {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        }
    }
}

fn parse(folder: &Folder, name: &OsStr) -> Option<Gitignore> {
    let (file, _) = folder.read(name).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_IGNORE_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    let bytes = bytes.strip_prefix(Encoding::Utf8Bom.mark()).unwrap_or(&bytes);
    let mut builder = GitignoreBuilder::new(".");
    for line in String::from_utf8_lossy(bytes).lines() {
        // An invalid pattern matches nothing.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}
