//! Verifies the audit. Reads only the files; needs no daemon.

use super::audit_file::{AuditPaths, ChainAnchor, ChainHead, files};
use super::line::{AuditLine, GENESIS, LineKind, MAX_LINE, sha256};
use proctor_sys::own_file;
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Maximum number of findings: the first ones say enough.
const MAX_FINDINGS: usize = 100;

/// The result of a verification.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct AuditReport {
    pub files: usize,
    /// Number of valid lines.
    pub lines: u64,
    /// The oldest and the newest of them.
    pub first: u64,
    pub last: u64,
    /// The hash of the newest line: keep it elsewhere to detect later whether the past was rewritten.
    pub hash: String,
    /// Altered, removed, inserted, reordered or truncated lines: where, and what.
    pub problems: Vec<String>,
    /// Findings that are in order and worth knowing.
    pub notes: Vec<String>,
    /// AuditLine numbers of operations without a result: the daemon ended in between, or they are in progress.
    pub unfinished: Vec<u64>,
}

/// Blocks. `Err`: the folder cannot be read at all.
pub(crate) fn verify(place: &AuditPaths) -> io::Result<AuditReport> {
    // The head is read before the lines: lines written meanwhile are beyond it, which is fine.
    let (head, anchor) = (ChainHead::read(&place.head), ChainAnchor::read(&place.anchor));
    let files = match files(&place.folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        files => files?,
    };
    let mut check = Check { prev: GENESIS.into(), anchor, ..Check::default() };
    let mut number = None;
    for (this, path) in &files {
        if number.is_some_and(|number: u32| number + 1 != *this) {
            let name = path.display();
            check.problem(format!("{name}: a file is missing before it"));
        }
        number = Some(*this);
        check.file(path)?;
    }
    check.verdict.files = files.len();
    check.against(head, place);
    Ok(check.finish())
}

#[derive(Default)]
struct Check {
    verdict: AuditReport,
    prev: String,
    seq: u64,
    begun: BTreeSet<u64>,
    anchor: Option<ChainAnchor>,
    /// Invalid bytes since the last line, and their position.
    strange: Vec<u8>,
    strange_at: String,
    /// Number of invalid lines already reported as problems.
    told: u64,
}

impl Check {
    fn problem(&mut self, text: String) {
        if self.verdict.problems.len() < MAX_FINDINGS {
            self.verdict.problems.push(text);
        }
    }

    fn file(&mut self, path: &Path) -> io::Result<()> {
        let mut reader = BufReader::new(own_file::read(path)?);
        let mut bytes = Vec::new();
        for number in 1.. {
            bytes.clear();
            let read = reader.by_ref().take(MAX_LINE as u64).read_until(b'\n', &mut bytes)?;
            if read == 0 {
                break;
            }
            let place = format!("{}:{number}", path.display());
            match bytes.strip_suffix(b"\n").map(AuditLine::decode) {
                Some(Ok((line, hash))) => self.line(&place, line, hash),
                Some(Err(_)) | None => {
                    if self.strange.is_empty() {
                        self.strange_at = place;
                    }
                    self.strange.extend_from_slice(&bytes);
                    if self.strange.len() > 2 * MAX_LINE {
                        self.strange(None);
                    }
                }
            }
        }
        Ok(())
    }

    fn line(&mut self, place: &str, line: AuditLine, hash: String) {
        self.strange(Some(&line.what));
        let begins =
            self.verdict.lines == 0 && !matches!(line.what, LineKind::Lost { after: 0, .. });
        if begins && self.told == 0 && line.seq > 1 {
            // If older files were dropped, the chain begins later; the head knows where.
            (self.seq, self.prev) = (line.seq - 1, line.prev.clone());
        }
        let marked_loss = matches!(line.what, LineKind::Lost { after, up_to } if after == self.seq && line.seq == up_to + 1);
        if marked_loss {
            let (from, to) = (self.seq + 1, line.seq - 1);
            let at = &line.at;
            self.problem(format!(
                "{place}: records {from} to {to} are missing; a daemon noticed at {at}"
            ));
        } else if self.told > 0 && line.seq == self.seq + 1 + self.told {
            // Its previous hash cannot be compared with anything.
        } else if line.seq != self.seq + 1 || line.prev != self.prev {
            self.problem(misplaced(place, self.seq, line.seq));
        }
        self.told = 0;
        if self.anchor.as_ref().is_some_and(|it| it.seq == line.seq && it.hash != hash) {
            self.problem(format!(
                "{place}: record {} does not match the one recorded in services.json",
                line.seq
            ));
        }
        match &line.what {
            LineKind::Intent(_) => drop(self.begun.insert(line.seq)),
            LineKind::Result { of, .. } => drop(self.begun.remove(of)),
            LineKind::Skipped { count } => self.verdict.notes.push(format!(
                "{place}: {count} rejected requests or reads, more than there was room for, were not recorded one by one"
            )),
            LineKind::NoHead => self.problem(format!(
                "{place}: a daemon found lines and no audit.head at {}: lines may be missing before this one",
                line.at
            )),
            LineKind::Altered { record } => self.problem(format!(
                "{place}: record {record} was altered; a daemon noticed at {}",
                line.at
            )),
            LineKind::Started { .. }
            | LineKind::Refused { .. }
            | LineKind::Read { .. }
            | LineKind::Torn { .. }
            | LineKind::Lost { .. } => {}
        }
        if self.verdict.lines == 0 {
            self.verdict.first = line.seq;
        }
        self.verdict.lines += 1;
        (self.seq, self.prev) = (line.seq, hash);
    }

    /// Judges invalid bytes by the next line: a daemon that found an unfinished line reports it.
    fn strange(&mut self, next: Option<&LineKind>) {
        if self.strange.is_empty() {
            return;
        }
        let found = std::mem::take(&mut self.strange);
        // The next writer added the line end.
        let left = found.strip_suffix(b"\n").unwrap_or(&found);
        let place = std::mem::take(&mut self.strange_at);
        match next {
            Some(LineKind::Torn { bytes, sha256: hash })
                if *bytes == left.len() as u64 && *hash == sha256(left) =>
            {
                self.verdict.notes.push(format!(
                    "{place}: unfinished, because its writer was killed; the next line says so"
                ));
                return;
            }
            _ => {}
        }
        let why = match AuditLine::decode(left) {
            Ok(_) => "is not a line of the audit".into(),
            Err(why) => why,
        };
        self.problem(format!("{place}: {why}"));
        self.told += left.split(|byte| *byte == b'\n').count() as u64;
    }

    /// Checks the bytes at the very end against the head.
    fn against(&mut self, head: Result<Option<ChainHead>, String>, place: &AuditPaths) {
        let ended = self.strange.ends_with(b"\n");
        if !self.strange.is_empty() && !ended {
            let at = std::mem::take(&mut self.strange_at);
            self.strange.clear();
            self.verdict.notes.push(format!("{at}: unfinished; the next daemon will mark it"));
        }
        self.strange(None);
        let unknown = match &head {
            Ok(Some(head)) => head.seq < self.anchor.as_ref().map_or(0, |it| it.seq),
            Ok(None) | Err(_) => true,
        };
        if let Some(ChainAnchor { seq, .. }) = self.anchor.clone()
            && unknown
            && seq > self.seq
        {
            let (from, name) = (self.seq + 1, place.anchor.display());
            self.problem(format!(
                "records {from} to {seq} are missing at the end; {name} knows of them"
            ));
        }
        let name = place.head.display();
        match head {
            Err(why) => self.problem(format!(
                "{name} {why}: cannot determine whether lines are missing at the end"
            )),
            Ok(None) if self.seq > 0 => self.problem(format!(
                "{name} is missing: cannot determine whether lines are missing at the end"
            )),
            Ok(None) => {}
            Ok(Some(head)) => {
                if head.seq > self.seq {
                    let (from, to) = (self.seq + 1, head.seq);
                    self.problem(format!("records {from} to {to} are missing at the end"));
                } else if head.seq == self.seq && head.hash != self.prev {
                    self.problem(format!("{name} has another hash for record {}", head.seq));
                }
                if self.verdict.lines > 0 && self.verdict.first > head.first {
                    let (from, to) = (head.first, self.verdict.first - 1);
                    self.problem(format!("records {from} to {to} are missing at the beginning"));
                }
                if head.first > 1 {
                    let first = head.first;
                    self.verdict
                        .notes
                        .push(format!("records before {first} were dropped by rotation"));
                }
            }
        }
    }

    fn finish(mut self) -> AuditReport {
        (self.verdict.last, self.verdict.hash) = (self.seq, self.prev);
        self.verdict.unfinished = self.begun.into_iter().collect();
        self.verdict
    }
}

fn misplaced(place: &str, before: u64, seq: u64) -> String {
    match seq {
        _ if seq == before + 1 => {
            format!("{place}: record {seq} does not follow the one before it")
        }
        _ if seq == before + 2 => {
            format!("{place}: record {} is missing before record {seq}", before + 1)
        }
        _ if seq > before => {
            format!(
                "{place}: records {} to {} are missing before record {seq}",
                before + 1,
                seq - 1
            )
        }
        _ => format!("{place}: record {seq} follows record {before}: inserted, repeated or moved"),
    }
}
