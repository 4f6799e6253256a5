//! A matcher that checks the time limit before each match. The searcher itself reports matches only after it
//! has found all in the same lines.

use super::super::regex_deadline::{RegexDeadline, StopReason};
use grep_matcher::{ByteSet, LineMatchKind, LineTerminator, Match, Matcher, NoCaptures};
use grep_regex::RegexMatcher;

pub(super) struct InterruptibleMatcher<'a> {
    pub(super) matcher: &'a RegexMatcher,
    pub(super) patience: &'a RegexDeadline<'a>,
}

/// Captures are not used.
impl Matcher for InterruptibleMatcher<'_> {
    type Captures = NoCaptures;
    type Error = StopReason;

    fn find_at(&self, text: &[u8], at: usize) -> Result<Option<Match>, StopReason> {
        self.patience.ask()?;
        Ok(known(self.matcher.find_at(text, at)))
    }

    fn new_captures(&self) -> Result<NoCaptures, StopReason> {
        Ok(NoCaptures::new())
    }

    /// Line-by-line searches call this method and `find_candidate_line`. They read each line once, and the
    /// reader checks the limit.
    fn shortest_match_at(&self, text: &[u8], at: usize) -> Result<Option<usize>, StopReason> {
        Ok(known(self.matcher.shortest_match_at(text, at)))
    }

    fn non_matching_bytes(&self) -> Option<&ByteSet> {
        self.matcher.non_matching_bytes()
    }

    fn line_terminator(&self) -> Option<LineTerminator> {
        self.matcher.line_terminator()
    }

    fn find_candidate_line(&self, text: &[u8]) -> Result<Option<LineMatchKind>, StopReason> {
        Ok(known(self.matcher.find_candidate_line(text)))
    }
}

fn known<T>(found: Result<Option<T>, grep_matcher::NoError>) -> Option<T> {
    found.ok().flatten()
}
