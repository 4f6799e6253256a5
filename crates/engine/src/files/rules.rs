//! Which files are left out: hidden ones, and those that `.gitignore` and `.ignore` name. Rules above a root are not looked at.

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use proctor_sys::beneath::{Entry, Folder, Kind};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Files with rules, the ones that count more first.
const FILES: [&str; 2] = [".ignore", ".gitignore"];

/// A longer file with rules is read up to here: nobody writes so many.
const LONGEST: u64 = 1 << 20;

/// What is left out, everywhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeaveOut {
    /// Also what the rules name.
    pub no_ignore: bool,
    /// Also what begins with a dot.
    pub hidden: bool,
}

/// The rules of a folder and of those above it.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    own: Vec<Gitignore>,
    /// How long the path of this folder is, with the slash behind it.
    begin: usize,
    above: Option<Arc<Rules>>,
}

impl Rules {
    /// The rules in a folder, whose entries are these, below those of `above`.
    pub(crate) fn of(
        folder: &Folder,
        entries: &[Entry],
        begin: usize,
        above: Option<Arc<Rules>>,
    ) -> Arc<Rules> {
        let has =
            |name: &str| entries.iter().find(|entry| entry.name == name).map(|entry| entry.kind);
        let mut own = Vec::new();
        for name in FILES {
            if has(name) == Some(Kind::File) {
                own.extend(parse(folder, OsStr::new(name)));
            }
        }
        if has(".git") == Some(Kind::Folder) {
            let info =
                folder.child(OsStr::new(".git")).and_then(|git| git.child(OsStr::new("info")));
            own.extend(info.ok().and_then(|info| parse(&info, OsStr::new("exclude"))));
        }
        match (own.is_empty(), above) {
            (true, Some(above)) => above,
            (_, above) => Arc::new(Rules { own, begin, above }),
        }
    }

    /// Is this path, below the root, to be left out?
    pub(crate) fn name(&self, path: &[u8], folder: bool) -> bool {
        let below = path.get(self.begin..).unwrap_or_default();
        for rules in &self.own {
            match rules.matched(Path::new(OsStr::from_bytes(below)), folder) {
                Match::None => {}
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
            }
        }
        self.above.as_ref().is_some_and(|above| above.name(path, folder))
    }
}

fn parse(folder: &Folder, name: &OsStr) -> Option<Gitignore> {
    let (file, _) = folder.read(name).ok()?;
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes).ok()?;
    let mut builder = GitignoreBuilder::new(".");
    for line in String::from_utf8_lossy(&bytes).lines() {
        // A line that is no pattern leaves nothing out.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}
