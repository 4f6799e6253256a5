//! The newest entries of the audit: one for each operation, with its result joined to its beginning.

use super::audit_file::{AuditPaths, files};
use super::line::{AuditLine, AuditedCall, LineKind, MAX_LINE};
use proctor_core::access::ClientName;
use proctor_sys::own_file;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// A query; a missing field matches everything.
#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    /// Maximum number of entries; the newest are returned.
    pub most: usize,
    pub operation: Option<String>,
    /// A service or other target.
    pub target: Option<String>,
    /// The name or id of a token, a uid, the name of a program, `local`, `token` or `anonymous`.
    pub who: Option<String>,
    /// The result: `ok`, an error code, or `unfinished`.
    pub code: Option<String>,
}

/// One operation, or one mark of a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    pub seq: u64,
    /// RFC 3339.
    pub at: String,
    pub call: Option<AuditedCall>,
    /// `None`: begun, and no result was written.
    pub code: Option<String>,
    pub millis: Option<u64>,
    /// The text of a mark.
    pub mark: Option<String>,
}

/// Oldest first. Blocks.
pub(crate) fn read(place: &AuditPaths, query: &AuditQuery) -> io::Result<Vec<AuditEntry>> {
    let mut found: VecDeque<AuditEntry> = VecDeque::new();
    // Results of operations that began in an older file.
    let mut results = BTreeMap::new();
    for (_, path) in files(&place.folder)?.iter().rev() {
        let room = query.most - found.len();
        for entry in of_file(path, query, room, &mut results)?.into_iter().rev() {
            found.push_front(entry);
        }
        if found.len() >= query.most {
            break;
        }
    }
    Ok(found.into())
}

fn of_file(
    path: &Path,
    query: &AuditQuery,
    most: usize,
    results: &mut BTreeMap<u64, (String, u64)>,
) -> io::Result<VecDeque<AuditEntry>> {
    let mut reader = BufReader::new(own_file::read(path)?);
    let mut bytes = Vec::new();
    let mut kept: VecDeque<AuditEntry> = VecDeque::new();
    loop {
        bytes.clear();
        if reader.by_ref().take(MAX_LINE as u64).read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        let Some(Ok((line, _))) = bytes.strip_suffix(b"\n").map(AuditLine::decode) else {
            continue;
        };
        if let LineKind::Result { of, code, millis } = line.what {
            let code_fits = query.code.as_ref().is_none_or(|wanted| *wanted == code);
            match kept.binary_search_by_key(&of, |entry| entry.seq) {
                Ok(at) if code_fits => {
                    (kept[at].code, kept[at].millis) = (Some(code), Some(millis));
                }
                Ok(at) => drop(kept.remove(at)),
                Err(_) => drop(results.insert(of, (code, millis))),
            }
            continue;
        }
        let mut entry = entry(line);
        if let Some((code, millis)) = results.remove(&entry.seq) {
            (entry.code, entry.millis) = (Some(code), Some(millis));
        }
        if fits(&entry, query) {
            kept.push_back(entry);
            // Twice as many: later results may filter some out.
            if kept.len() > 2 * most.max(64) {
                kept.pop_front();
            }
        }
    }
    kept.retain(|entry| ended_as(entry, query));
    let excess = kept.len().saturating_sub(most);
    Ok(kept.split_off(excess))
}

fn entry(line: AuditLine) -> AuditEntry {
    let (seq, at) = (line.seq, line.at);
    let entry = |call, code, millis, mark| AuditEntry { seq, at, call, code, millis, mark };
    match line.what {
        LineKind::Intent(call) => entry(Some(call), None, None, None),
        LineKind::Refused { call, code } => entry(Some(call), Some(code), None, None),
        LineKind::Read { call, code, millis } => entry(Some(call), Some(code), Some(millis), None),
        LineKind::Result { of, code, millis } => {
            entry(None, Some(code), Some(millis), Some(format!("result of {of}")))
        }
        LineKind::Started { pid, version } => {
            entry(None, None, None, Some(format!("daemon {pid} of version {version} began")))
        }
        LineKind::Skipped { count } => {
            let text = format!("{count} rejected requests or reads were not recorded one by one");
            entry(None, None, None, Some(text))
        }
        LineKind::Torn { bytes, .. } => entry(
            None,
            None,
            None,
            Some(format!("{bytes} bytes before this are an unfinished line")),
        ),
        LineKind::Lost { after, up_to } => {
            entry(None, None, None, Some(format!("records {} to {up_to} are missing", after + 1)))
        }
        LineKind::NoHead => entry(None, None, None, Some("audit.head was missing".into())),
        LineKind::Altered { record } => {
            entry(None, None, None, Some(format!("record {record} was altered")))
        }
    }
}

/// Matches everything but the result, which may come later.
fn fits(entry: &AuditEntry, query: &AuditQuery) -> bool {
    let Some(call) = &entry.call else {
        let any = query.operation.is_some() || query.target.is_some() || query.who.is_some();
        return !any && query.code.is_none();
    };
    let is_who = |wanted: &String| {
        let uid = call.uid.map(|uid| uid.to_string());
        let client = call.client.as_ref().map(ClientName::as_str);
        let names = [call.name.as_deref(), call.token.as_deref(), uid.as_deref(), client];
        call.who == *wanted || names.into_iter().flatten().any(|who| who == wanted)
    };
    query.operation.as_ref().is_none_or(|wanted| *wanted == call.operation)
        && query.target.as_ref().is_none_or(|wanted| call.targets.contains(wanted))
        && query.who.as_ref().is_none_or(is_who)
}

fn ended_as(entry: &AuditEntry, query: &AuditQuery) -> bool {
    match (&query.code, &entry.code) {
        (None, _) => true,
        (Some(wanted), Some(code)) => wanted == code,
        (Some(wanted), None) => wanted == "unfinished" && entry.call.is_some(),
    }
}
