//! One line of the audit: JSON in ASCII, with the hash of the previous line and its own.
//!
//! `…,"prev":"HASH OF THE LINE BEFORE",…,"hash":"SHA-256 OF THIS LINE UP TO HERE"}`: the hash covers the bytes
//! before `,"hash":`, so that `sha256sum` can check it. ASCII, so that no name can move a cursor or end a line.

use crate::secrets::hide;
use proctor_core::access::{Caller, ClientName, Front, Principal, Role};
use proctor_core::time::Wall;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// The previous hash of the first line.
pub(crate) const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Maximum length; a longer line is not ours.
pub(crate) const MAX_LINE: usize = 512 << 10;

/// `,"hash":"` and its end, with the hash between them.
const BEFORE_HASH: &str = ",\"hash\":\"";
const AFTER_HASH: &str = "\"}";

/// Maximum length of a name as written: our names are shorter, and longer ones are hostile.
const MAX_TEXT_BYTES: usize = 512;
/// Maximum length of all targets of one line as written: as many services as one request is expected to name.
const MAX_TARGETS_BYTES: usize = 16 << 10;
/// Maximum for a rejected request: it must not fill the files.
const MAX_REFUSED_BYTES: usize = 1 << 10;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AuditLine {
    /// Counts from 1, over all files.
    pub(crate) seq: u64,
    /// RFC 3339.
    pub(crate) at: String,
    pub(crate) prev: String,
    #[serde(flatten)]
    pub(crate) what: LineKind,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum LineKind {
    /// A daemon begins to write. Operations without a result before this were not finished.
    Started { pid: u32, version: String },
    /// A change begins.
    Intent(AuditedCall),
    /// A change has ended.
    Result { of: u64, code: String, millis: u64 },
    /// A request was rejected.
    Refused {
        #[serde(flatten)]
        call: AuditedCall,
        code: String,
    },
    /// Something was read.
    Read {
        #[serde(flatten)]
        call: AuditedCall,
        code: String,
        millis: u64,
    },
    /// Requests that were not recorded one by one, because a caller sent too many.
    Skipped { count: u64 },
    /// The bytes before this line are unfinished: their writer died.
    Torn { bytes: u64, sha256: String },
    /// Lines are missing.
    Lost { after: u64, up_to: u64 },
    /// There were lines, but no head with their number.
    NoHead,
    /// The line of this number was altered or removed.
    Altered { record: u64 },
}

/// The caller and the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditedCall {
    /// `local`, `token` or `anonymous`.
    pub who: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The id of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The name and role of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    pub front: Front,
    /// The client program, as it reports itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    pub operation: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// Number of further targets.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
    /// The time of the event, if it could not be recorded then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub happened: Option<String>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl AuditedCall {
    pub fn new(caller: &Caller, operation: &str, targets: &[String]) -> AuditedCall {
        let mut call = AuditedCall {
            who: String::new(),
            uid: None,
            token: None,
            name: None,
            role: None,
            front: caller.front,
            client: caller.client.clone(),
            peer: caller.peer.map(|peer| peer.to_string()),
            operation: cut(operation),
            targets: fitting(targets.iter().map(|target| cut(&hide(target))), MAX_TARGETS_BYTES),
            more: 0,
            happened: None,
        };
        call.more = targets.len() - call.targets.len();
        match &caller.principal {
            Principal::Local { uid } => (call.who, call.uid) = ("local".into(), Some(*uid)),
            Principal::Token { id, name, role } => {
                call.who = "token".into();
                (call.token, call.name, call.role) =
                    (Some(id.0.clone()), Some(name.clone()), Some(*role));
            }
            Principal::Anonymous => call.who = "anonymous".into(),
            Principal::Stranger => call.who = "stranger".into(),
        }
        call
    }

    pub(super) fn happened_at(self, wall: Wall) -> AuditedCall {
        AuditedCall { happened: Some(wall.rfc3339()), ..self }
    }

    /// This call with few targets.
    pub(super) fn short(mut self) -> AuditedCall {
        let targets = std::mem::take(&mut self.targets);
        let all = targets.len() + self.more;
        self.targets = fitting(targets.into_iter(), MAX_REFUSED_BYTES);
        self.more = all - self.targets.len();
        self
    }
}

/// The first targets that fit in a line.
fn fitting(targets: impl Iterator<Item = String>, mut room: usize) -> Vec<String> {
    /// Quotes and a comma.
    const AROUND: usize = 3;
    let fits = |target: &String| {
        let left = room.checked_sub(target.chars().map(written).sum::<usize>() + AROUND);
        room = left.unwrap_or(room);
        left.is_some()
    };
    targets.take_while(fits).collect()
}

fn cut(text: &str) -> String {
    let mut length = 0;
    let beyond = |(_, c): &(usize, char)| {
        length += written(*c);
        length > MAX_TEXT_BYTES
    };
    match text.char_indices().find(beyond) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Maximum number of bytes in a line.
fn written(c: char) -> usize {
    match c {
        '"' | '\\' => 2,
        ' '..='~' => 1,
        c => "\\u0000".len() * c.len_utf16(),
    }
}

impl AuditLine {
    /// The line with its end, and its hash.
    pub(crate) fn encode(&self) -> (String, String) {
        let body = serde_json::to_string(self).expect("plain data has a JSON text");
        let mut text = ascii(body.strip_suffix('}').unwrap_or(&body));
        let hash = sha256(text.as_bytes());
        text.extend([BEFORE_HASH, &hash, AFTER_HASH, "\n"]);
        (text, hash)
    }

    /// Decodes a line without its end, and its hash. `Err` is the rest of a sentence about the line.
    pub(crate) fn decode(line: &[u8]) -> Result<(AuditLine, String), String> {
        let text = std::str::from_utf8(line).map_err(|_| "is not text")?;
        let foreign = "is not a line of the audit";
        let rest = text.strip_suffix(AFTER_HASH).ok_or(foreign)?;
        let (body, hash) = rest.rsplit_once(BEFORE_HASH).ok_or(foreign)?;
        if sha256(body.as_bytes()) != hash {
            return Err("was altered: its hash does not match".into());
        }
        let line = serde_json::from_str(&format!("{body}}}")).map_err(|_| foreign)?;
        Ok((line, hash.to_owned()))
    }
}

/// JSON without characters that a terminal could interpret: those beyond ASCII occur only in strings, which
/// have an escape for each.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() && c != '\x7f' {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    crate::tokens::secret::hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::access::TokenId;

    fn call(operation: &str, targets: &[&str]) -> AuditedCall {
        let id = TokenId("t1".into());
        let principal = Principal::Token { id, name: "ci".into(), role: Role::Operator };
        let caller = Caller::remote(principal, Front::Rest, "127.0.0.1:5000".parse().unwrap());
        let targets: Vec<String> = targets.iter().map(|it| (*it).to_owned()).collect();
        AuditedCall::new(&caller, operation, &targets)
    }

    fn line(what: LineKind) -> AuditLine {
        AuditLine { seq: 7, at: "2026-11-15T07:48:12.345678Z".into(), prev: GENESIS.into(), what }
    }

    #[test]
    fn a_line_reads_as_it_is_documented() {
        let (text, hash) = line(LineKind::Intent(call("service.stop", &["web"]))).encode();
        let expected = format!(
            r#"{{"seq":7,"at":"2026-11-15T07:48:12.345678Z","prev":"{GENESIS}","kind":"intent","who":"token","token":"t1","name":"ci","role":"operator","front":"rest","peer":"127.0.0.1:5000","operation":"service.stop","targets":["web"],"hash":"{hash}"}}"#
        );
        assert_eq!(text, format!("{expected}\n"));
        let body = &expected[..expected.find(",\"hash\"").unwrap()];
        assert_eq!(hash, sha256(body.as_bytes()));
    }

    #[test]
    fn the_program_that_speaks_for_somebody_is_named() {
        let assistant = Caller::local(7).through(Front::Mcp, ClientName::parse("a\nb"));
        let line = line(LineKind::Intent(AuditedCall::new(&assistant, "service.stop", &[])));
        let (text, _) = line.encode();
        let said = r#""who":"local","uid":7,"front":"mcp","client":"a_b","operation":"#;
        assert!(text.contains(said), "{text}");
        assert_eq!(AuditLine::decode(text.trim_end().as_bytes()).unwrap().0, line);
    }

    #[test]
    fn every_kind_comes_back() {
        let refused = LineKind::Refused { call: call("x", &[]), code: "forbidden".into() };
        for what in [
            LineKind::Started { pid: 1, version: "0.1".into() },
            LineKind::Intent(call("service.stop", &["a", "b"])),
            LineKind::Result { of: 6, code: "ok".into(), millis: 3 },
            refused,
            LineKind::Read { call: call("service.list", &[]), code: "ok".into(), millis: 0 },
            LineKind::Skipped { count: 9 },
            LineKind::Torn { bytes: 4, sha256: GENESIS.into() },
            LineKind::Lost { after: 3, up_to: 6 },
            LineKind::NoHead,
            LineKind::Altered { record: 6 },
        ] {
            let line = line(what);
            let (text, hash) = line.encode();
            assert_eq!(AuditLine::decode(text.trim_end().as_bytes()), Ok((line, hash)));
        }
    }

    #[test]
    fn no_name_ends_a_line_or_reaches_a_terminal() {
        let hostile = [
            "a\nb",
            "\r\n{\"seq\":8}",
            "\x1b[2J",
            "\u{9b}2J",
            "\u{202e}txt",
            "\u{2028}",
            "\u{7f}",
            "\",\"hash\":\"",
            "\\",
            "\u{10ffff}",
            "\0",
            "🐚",
        ];
        let line = line(LineKind::Intent(call("a\nb\u{9b}", &hostile)));
        let (text, _) = line.encode();
        let inside = text.strip_suffix('\n').unwrap();
        assert!(inside.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{inside}");
        assert_eq!(AuditLine::decode(inside.as_bytes()).unwrap().0, line);
    }

    #[test]
    fn what_is_too_much_is_cut_and_counted() {
        // As written, a character has one byte, or twelve.
        for (c, kept) in [("x", 31), ("\u{1f41a}", 31), ("\0", 31), ("\\", 31)] {
            let long = c.repeat(10_000);
            let many = vec![long.as_str(); 300];
            let call = call(&long, &many);
            assert_eq!((call.targets.len(), call.more), (kept, 300 - kept), "{c:?}");
            let (text, _) = line(LineKind::Intent(call.clone())).encode();
            assert!(text.len() < 20 << 10, "{c:?}: {}", text.len());
            let short = call.short();
            assert_eq!(short.targets.len() + short.more, 300);
            let (text, _) =
                line(LineKind::Refused { call: short, code: "forbidden".into() }).encode();
            assert!(text.len() < 3 << 10, "{c:?}: {}", text.len());
        }
    }

    #[test]
    fn a_changed_byte_is_seen() {
        let (text, _) = line(LineKind::Intent(call("service.stop", &["web"]))).encode();
        let good = text.trim_end().as_bytes();
        for at in 0..good.len() {
            let mut bad = good.to_vec();
            bad[at] ^= 1;
            assert!(AuditLine::decode(&bad).is_err(), "byte {at}");
        }
        assert!(
            AuditLine::decode(b"").is_err() && AuditLine::decode(&good[..good.len() - 1]).is_err()
        );
    }
}
