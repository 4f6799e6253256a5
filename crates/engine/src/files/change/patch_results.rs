//! The state of files while the parts of a diff are applied one after the other.
//!
//! All parts of one diff refer to the files before it, as with `git apply`: a move or copy takes the original
//! content, even if another part changes that file or reuses its name. A second diff in the same text refers to
//! the result of the first.

use super::patch::NamedPatch;
use super::{ExistingFile, FileResult, NewContent, OldContents, PlannedFile};
use crate::files::PathInRoot;
use crate::files::error::{Conflict, FileError, PatchMismatch};
use proctor_core::diff::{self, Applied, AppliedHunk, ComparisonBudget, MatchMode, Relation};
use proctor_sys::beneath::{FileAttributes, RelativePath};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::rc::Rc;

pub(super) struct PatchWork<'a> {
    /// The index of each file in the following lists.
    numbers: HashMap<&'a RelativePath, usize>,
    before: &'a [OldContents<'a>],
    /// Their states at the start of this diff, and now.
    was: Vec<State>,
    now: Vec<State>,
    /// Names to which this diff gave a new or another file.
    given: HashSet<usize>,
    /// Names that this diff removes.
    taken: HashSet<usize>,
    hunks: Vec<Vec<AppliedHunk>>,
    how: MatchMode,
}

#[derive(Clone)]
enum State {
    /// As found on disk.
    Found,
    Gone,
    Is(Rc<NewContent>),
}

impl From<State> for FileResult {
    fn from(state: State) -> FileResult {
        match state {
            State::Found => FileResult::Stays,
            State::Gone => FileResult::Gone,
            State::Is(new) => FileResult::Is(Rc::unwrap_or_clone(new)),
        }
    }
}

/// The content that a part of the diff is applied to.
struct Source<'w> {
    content: &'w [u8],
    /// Permissions set by an earlier part.
    mode: Option<u32>,
    /// Attributes of the file it came from.
    like: Option<&'w FileAttributes>,
    found: OldContents<'w>,
}

impl Source<'_> {
    fn likeness(&self) -> Result<Option<FileAttributes>, String> {
        let found = || self.found.map(ExistingFile::likeness).transpose();
        self.like.map_or_else(found, |like| Ok(Some(like.clone()))).map_err(|it| it.to_string())
    }
}

impl<'a> PatchWork<'a> {
    pub(super) fn of(
        spots: &'a [PathInRoot],
        before: &'a [OldContents<'a>],
        how: MatchMode,
    ) -> PatchWork<'a> {
        let numbers = spots.iter().enumerate().map(|(number, spot)| (&spot.rel, number)).collect();
        let (was, now) = (vec![State::Found; before.len()], vec![State::Found; before.len()]);
        let (given, taken) = (HashSet::new(), HashSet::new());
        let hunks = vec![Vec::new(); before.len()];
        PatchWork { numbers, before, was, now, given, taken, hunks, how }
    }

    pub(super) fn all(
        mut self,
        named: &[NamedPatch],
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<PlannedFile>, FileError> {
        let (mut conflicts, mut effort) = (Vec::new(), ComparisonBudget::default());
        for diff in named.chunk_by(|_, next| !next.patch.begins) {
            self.begin(diff);
            for named in diff {
                if stop() {
                    return Err(FileError::Cancelled);
                }
                conflicts.extend(self.apply(named, &mut effort).err());
            }
        }
        if !conflicts.is_empty() {
            return Err(FileError::Conflicts(conflicts));
        }
        self.was.clear();
        let each = self.now.into_iter().zip(self.hunks);
        Ok(each
            .map(|(now, hunks)| PlannedFile { after: now.into(), hunks, ..PlannedFile::default() })
            .collect())
    }

    fn begin(&mut self, diff: &[NamedPatch]) {
        self.was = self.now.clone();
        self.given.clear();
        let taken = diff.iter().filter(|named| takes_away(named)).flat_map(|named| &named.old);
        self.taken = taken.map(|spot| self.at(spot)).collect();
    }

    /// Verifies that each patched file has this hash.
    pub(super) fn check_hash(&self, named: &[NamedPatch], hash: &str) -> Result<(), FileError> {
        for (from, to) in named.iter().map(|named| self.meant(named)) {
            let Some(spot) = from.or(to) else { continue };
            let now = self.before[self.at(spot)].map(|found| found.sha256.clone());
            if !now.as_ref().is_some_and(|now| now.eq_ignore_ascii_case(hash)) {
                return Err(FileError::Stale { path: spot.shown.clone(), found: now });
            }
        }
        Ok(())
    }

    fn at(&self, spot: &PathInRoot) -> usize {
        // Every spot of every patch is in the map.
        self.numbers.get(&spot.rel).copied().unwrap_or(0)
    }

    fn is_there(&self, spot: &PathInRoot) -> bool {
        self.there(&self.now, spot).is_some()
    }

    fn there<'w>(&'w self, states: &'w [State], spot: &PathInRoot) -> Option<Source<'w>> {
        let at = self.at(spot);
        let found = self.before[at];
        match &states[at] {
            State::Found => {
                found.map(|it| Source { content: &it.content, mode: None, like: None, found })
            }
            State::Gone => None,
            State::Is(new) => Some(Source {
                content: &new.content,
                mode: new.mode,
                like: new.like.as_ref(),
                found,
            }),
        }
    }

    /// The state of a file at the start of the diff, if that is meant and it existed; otherwise its state now.
    fn source(&self, named: &NamedPatch, from: &PathInRoot) -> Option<Source<'_>> {
        let copied = named.patch.relation == Relation::Copied;
        let was = copied || (takes_away(named) && self.given.contains(&self.at(from)));
        let was = if was { self.there(&self.was, from) } else { None };
        was.or_else(|| self.there(&self.now, from))
    }

    fn apply(&mut self, named: &NamedPatch, effort: &mut ComparisonBudget) -> Result<(), Conflict> {
        let conflict = |spot: &PathInRoot, why| Conflict { path: spot.shown.clone(), why };
        let (from, to) = self.meant(named);
        let Some(spot) = to.or(from) else { return Ok(()) };
        let other = from.is_none_or(|from| to.is_some_and(|to| !is_same(from, to)));
        if let Some(to) = to
            && other
            && self.is_there(to)
            && (!self.taken.contains(&self.at(to)) || self.given.contains(&self.at(to)))
        {
            return Err(conflict(to, PatchMismatch::Exists));
        }
        let missing = |from: &PathInRoot| conflict(from, PatchMismatch::Missing);
        let source =
            from.map(|from| self.source(named, from).ok_or_else(|| missing(from))).transpose()?;
        let content = source.as_ref().map_or(&[][..], |source| source.content);
        let applied = diff::apply_with(content, &named.patch.hunks, self.how, effort)
            .map_err(|outcomes| conflict(spot, PatchMismatch::Hunks(outcomes)))?;
        let Some(to) = to else {
            // Without hunks, people mean any content, and git an empty file.
            let whatever = named.patch.hunks.is_empty() && self.how != MatchMode::AsGit;
            if !whatever && !applied.content.is_empty() {
                return Err(conflict(spot, PatchMismatch::Remains));
            }
            self.take_away(spot);
            return Ok(());
        };
        let Applied { content, hunks } = applied;
        let new = self.made(named, source.as_ref(), to, other, content);
        let new = new.map_err(|why| conflict(from.unwrap_or(to), PatchMismatch::Unlike(why)))?;
        if let Some(from) = from.filter(|_| other && takes_away(named)) {
            self.take_away(from);
        }
        let at = self.at(to);
        if other {
            self.given.insert(at);
        }
        self.hunks[at].extend(hunks);
        self.now[at] = State::Is(Rc::new(new));
        Ok(())
    }

    /// A moved file keeps its attributes, and permissions set by an earlier part of the diff apply.
    fn made(
        &self,
        named: &NamedPatch,
        source: Option<&Source<'_>>,
        to: &PathInRoot,
        other: bool,
        content: Vec<u8>,
    ) -> Result<NewContent, String> {
        let like = match source {
            Some(source) if other => source.likeness()?,
            Some(source) => source.like.cloned(),
            None => None,
        };
        let earlier = source.and_then(|source| source.mode);
        let there = like.as_ref().map(|like| like.mode);
        let there = there.or(self.before[self.at(to)].map(|found| found.look.mode));
        let said = named.patch.mode.map(|mode| executable(earlier.or(there), mode));
        Ok(NewContent { content, mode: said.or(earlier), like })
    }

    /// Removes the name, unless another file has got it.
    fn take_away(&mut self, spot: &PathInRoot) {
        let at = self.at(spot);
        if !self.given.contains(&at) {
            self.now[at] = State::Gone;
        }
    }

    /// The file before and after. Two different names mean a move only if the diff says so; otherwise the
    /// existing one is meant, and of two existing ones the one that `patch` would choose.
    fn meant<'n>(&self, named: &'n NamedPatch) -> (Option<&'n PathInRoot>, Option<&'n PathInRoot>) {
        let (Some(old), Some(new)) = (&named.old, &named.new) else {
            return (named.old.as_ref(), named.new.as_ref());
        };
        let both = |spot: &'n PathInRoot| (Some(spot), Some(spot));
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

/// Returns true if the first name does not exist afterwards.
fn takes_away(named: &NamedPatch) -> bool {
    named.new.is_none() || named.patch.relation == Relation::Moved
}

fn is_same(one: &PathInRoot, other: &PathInRoot) -> bool {
    one.rel == other.rel
}

/// Sort key: the fewest folders, then the shortest name.
fn plainness(spot: &PathInRoot) -> (usize, usize) {
    (spot.rel.names().count(), spot.rel.names().last().map_or(0, OsStr::len))
}

/// A diff only says whether a file is executable, not who may read it. A new file gets its mode from the umask.
fn executable(mode: Option<u32>, said: u32) -> u32 {
    match (mode, said & 0o100 != 0) {
        (Some(mode), true) => mode | (mode & 0o444) >> 2,
        (Some(mode), false) => mode & !0o111,
        (None, true) => 0o777,
        (None, false) => 0o666,
    }
}
