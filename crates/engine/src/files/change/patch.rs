//! Applying a unified diff to several files, all or none.

use super::{Before, Changed, Found, MOST_FILES, Made, New, Wish};
use crate::error::EngineError;
use crate::files::fault::{Conflict, FileError, Unfit};
use crate::files::{Files, Roots, Spot};
use proctor_core::diff::{self, Effort, How, Patch, Reading, Relation};
use proctor_sys::beneath::{Likeness, Rel};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// A diff, and how exact it has to fit.
#[derive(Debug, Clone, Default)]
pub struct DiffQuery {
    pub text: Vec<u8>,
    /// The folder that its names are below of; the root if not given.
    pub folder: Option<String>,
    /// As many lines as it says, and the ends of lines as in the file.
    pub strict: bool,
    /// So many lines around a change may be others.
    pub fuzz: usize,
}

impl Files {
    pub async fn apply_diff(
        &self,
        query: DiffQuery,
        mut wish: Wish,
    ) -> Result<Vec<Changed>, EngineError> {
        // Which file it is of is known when the others are.
        let if_hash = wish.if_hash.take();
        let applied = self.work(move |files, stop| {
            let reading = if query.strict { Reading::Strict } else { Reading::Lenient };
            let patches = diff::parse(&query.text, reading)?;
            if patches.is_empty() {
                return Err(FileError::BadInput("there is no file in the diff".into()));
            }
            let many = || FileError::BadInput(format!("more than {MOST_FILES} files in one diff"));
            if patches.len() > MOST_FILES {
                return Err(many());
            }
            if if_hash.is_some() && patches.len() > 1 {
                let why =
                    format!("'if_hash' is for a diff of one file, and this has {}", patches.len());
                return Err(FileError::BadInput(why));
            }
            let roots = files.roots();
            let base = roots.find(query.folder.as_deref().unwrap_or_default())?;
            let named = patches.into_iter().map(|patch| Named::of(&roots, &base, patch));
            let named = named.collect::<Result<Vec<_>, _>>()?;
            let spots = spots(&named);
            if spots.len() > MOST_FILES {
                return Err(many());
            }
            let how = How { fuzz: query.fuzz, any_ends: !query.strict };
            files.change(&spots, &wish, stop, |before| {
                let work = Work::of(&spots, before, how);
                if let Some(hash) = &if_hash {
                    work.check_hash(&named, hash)?;
                }
                work.all(&named)
            })
        });
        Ok(applied.await??)
    }
}

/// A patch with the files that it may be about.
struct Named {
    patch: Patch,
    old: Option<Spot>,
    new: Option<Spot>,
    /// Both names without their first folder, where that is all they differ in: `diff -r one other`.
    tail: Option<Spot>,
}

impl Named {
    fn of(roots: &Roots, base: &Spot, patch: Patch) -> Result<Named, FileError> {
        let spot = |name: &[u8]| -> Result<Spot, FileError> {
            let path = [base.rel.as_bytes(), b"/", name].concat();
            let path = path.strip_prefix(b"/").unwrap_or(&path);
            // A name that begins with a slash stays one.
            let path = if base.rel.is_root() { name } else { path };
            let shown = String::from_utf8_lossy(name).into_owned();
            let rel = Rel::parse(OsStr::from_bytes(path)).map_err(FileError::at(&shown))?;
            Ok(roots.made(&base.root, rel))
        };
        let named = |name: &Option<Vec<u8>>| name.as_deref().map(spot).transpose();
        let (old, new) = (named(&patch.old)?, named(&patch.new)?);
        let tail = match (&patch.old, &patch.new) {
            (Some(old), Some(new)) if old != new && tail(old) == tail(new) => {
                tail(old).map(spot).transpose()?
            }
            _ => None,
        };
        Ok(Named { patch, old, new, tail })
    }
}

fn tail(name: &[u8]) -> Option<&[u8]> {
    name.iter().position(|byte| *byte == b'/').map(|at| &name[at + 1..])
}

/// What a diff says of permissions is whether a file can be executed; who may read it is not the diff's business. A new one
/// gets what the umask leaves.
fn executable(mode: Option<u32>, said: u32) -> u32 {
    match (mode, said & 0o100 != 0) {
        (Some(mode), true) => mode | (mode & 0o444) >> 2,
        (Some(mode), false) => mode & !0o111,
        (None, true) => 0o777,
        (None, false) => 0o666,
    }
}

/// The fewest folders, then the shortest name.
fn plainness(spot: &Spot) -> (usize, usize) {
    (spot.rel.names().count(), spot.rel.names().last().map_or(0, OsStr::len))
}

fn is_same(one: &Spot, other: &Spot) -> bool {
    one.rel == other.rel
}

/// Every file that may be meant, each once.
fn spots(named: &[Named]) -> Vec<Spot> {
    let mut known = HashSet::new();
    let all = named.iter().flat_map(|named| [&named.old, &named.new, &named.tail]).flatten();
    all.filter(|spot| known.insert(&spot.rel)).cloned().collect()
}

/// What the files are while one patch after the other is applied.
struct Work<'a> {
    /// Where each is in what follows.
    numbers: HashMap<&'a Rel, usize>,
    before: &'a [Before<'a>],
    made: Vec<Made>,
    how: How,
    effort: Effort,
}

impl<'a> Work<'a> {
    fn of(spots: &'a [Spot], before: &'a [Before<'a>], how: How) -> Work<'a> {
        let made = before.iter().map(|found| match found {
            Some(found) => Made::content(found.content.clone()),
            None => Made::default(),
        });
        let numbers = spots.iter().enumerate().map(|(number, spot)| (&spot.rel, number)).collect();
        Work { numbers, before, made: made.collect(), how, effort: Effort::default() }
    }

    fn all(mut self, named: &[Named]) -> Result<Vec<Made>, FileError> {
        let conflicts: Vec<Conflict> =
            named.iter().filter_map(|named| self.apply(named).err()).collect();
        if conflicts.is_empty() { Ok(self.made) } else { Err(FileError::Conflicts(conflicts)) }
    }

    /// Does the file that each is about have this hash?
    fn check_hash(&self, named: &[Named], hash: &str) -> Result<(), FileError> {
        for (from, to) in named.iter().map(|named| self.meant(named)) {
            let Some(spot) = from.or(to) else { continue };
            let now = self.before[self.at(spot)].map(|found| found.sha256.clone());
            if !now.as_ref().is_some_and(|now| now.eq_ignore_ascii_case(hash)) {
                return Err(FileError::Stale { path: spot.shown.clone(), found: now });
            }
        }
        Ok(())
    }
}

impl Work<'_> {
    fn at(&self, spot: &Spot) -> usize {
        // Every spot of every patch is one of these.
        self.numbers.get(&spot.rel).copied().unwrap_or(0)
    }

    /// Of what is moved: what it was like, wherever it was before.
    fn likeness(&self, spot: &Spot) -> Result<Option<Likeness>, String> {
        let at = self.at(spot);
        let moved = self.made[at].new.as_ref().and_then(|new| new.like.clone());
        let found = || self.before[at].map(Found::likeness).transpose();
        moved.map_or_else(found, |like| Ok(Some(like))).map_err(|fault| fault.to_string())
    }

    fn is_there(&self, spot: &Spot) -> bool {
        self.made[self.at(spot)].new.is_some()
    }

    fn apply(&mut self, named: &Named) -> Result<(), Conflict> {
        let conflict = |spot: &Spot, why| Conflict { path: spot.shown.clone(), why };
        let (from, to) = self.meant(named);
        let content = match from {
            Some(from) => match &self.made[self.at(from)].new {
                Some(new) => new.content.clone(),
                None => return Err(conflict(from, Unfit::Missing)),
            },
            None => Vec::new(),
        };
        let other = matches!((from, to), (Some(from), Some(to)) if !is_same(from, to));
        let moves = other && named.patch.relation != Relation::Copied;
        if let Some(to) = to
            && (from.is_none() || other)
            && self.is_there(to)
        {
            return Err(conflict(to, Unfit::Exists));
        }
        let Some(spot) = to.or(from) else { return Ok(()) };
        let applied = diff::apply_with(&content, &named.patch.hunks, self.how, &mut self.effort)
            .map_err(|outcomes| conflict(spot, Unfit::Hunks(outcomes)))?;
        let like = match from.filter(|_| other) {
            Some(from) => self.likeness(from).map_err(|why| conflict(from, Unfit::Unlike(why)))?,
            None => to.and_then(|to| self.made[self.at(to)].new.as_ref()?.like.clone()),
        };
        if let (Some(from), true) = (from, to.is_none() || moves) {
            if to.is_none() && !named.patch.hunks.is_empty() && !applied.content.is_empty() {
                return Err(conflict(from, Unfit::Remains));
            }
            let at = self.at(from);
            self.made[at].new = None;
        }
        if let Some(to) = to {
            let at = self.at(to);
            // What is moved stays what it is, and what an earlier part of the diff said holds.
            let earlier = self.made[at].new.as_ref().and_then(|new| new.mode);
            let there = like.as_ref().map(|like| like.mode);
            let there = there.or(self.before[at].map(|found| found.look.mode));
            let said = named.patch.mode.map(|mode| executable(earlier.or(there), mode));
            let made = &mut self.made[at];
            made.hunks.extend(applied.hunks);
            made.new = Some(New { content: applied.content, mode: said.or(earlier), like });
        }
        Ok(())
    }

    /// The file before and after. Two names that differ mean a move only where the diff says so; otherwise the one that is there is
    /// meant, and of two that are, the one that `patch` would take.
    fn meant<'n>(&self, named: &'n Named) -> (Option<&'n Spot>, Option<&'n Spot>) {
        let (Some(old), Some(new)) = (&named.old, &named.new) else {
            return (named.old.as_ref(), named.new.as_ref());
        };
        let both = |spot: &'n Spot| (Some(spot), Some(spot));
        let there = (self.is_there(old), self.is_there(new));
        match (named.patch.relation, there, &named.tail) {
            // It was moved before.
            (Relation::Moved, (false, true), _) => both(new),
            (Relation::Moved | Relation::Copied, ..) => (Some(old), Some(new)),
            (Relation::Same, (true, false), _) => both(old),
            (Relation::Same, (false, true), _) => both(new),
            (Relation::Same, _, Some(tail)) if self.is_there(tail) => both(tail),
            (Relation::Same, (true, true), _) => {
                both(if plainness(new) < plainness(old) { new } else { old })
            }
            (Relation::Same, (false, false), _) => both(old),
        }
    }
}
