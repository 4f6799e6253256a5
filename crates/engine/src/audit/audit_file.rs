//! The files of the audit and their writer: numbered files with one hash chain across all of them.
//!
//! `audit/00000001.jsonl` is append-only. `audit.head` next to the folder records the end of the chain, so that
//! missing lines at its end, or a missing folder, are detected. An unfinished line of a killed writer stays;
//! the next line reports it. Every write reaches the kernel before the response, so that a killed process loses
//! nothing; it is on disk a second later.

use super::line::{AuditLine, GENESIS, LineKind, MAX_LINE, sha256};
use crate::own_folder;
use proctor_core::config::security::Audit as Settings;
use proctor_core::home::OwnFolder;
use proctor_sys::failpoint::{self, Point};
use proctor_sys::{clock, own_file, small_file};
use rustix::fs::FallocateFlags;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SUFFIX: &str = ".jsonl";

/// Space reserved at the end of a file, so that an owner can still stop services on a full disk: about a
/// hundred lines.
const RESERVE: u64 = 64 << 10;

/// Timeout for the lock: the last writer may still be ending.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const LOCK_AGAIN: Duration = Duration::from_millis(10);

/// The paths of an audit.
#[derive(Debug, Clone)]
pub(crate) struct AuditPaths {
    pub(crate) folder: PathBuf,
    pub(crate) head: PathBuf,
    /// The file that contains a [`ChainAnchor`]: `services.json`.
    pub(crate) anchor: PathBuf,
}

/// The end of the chain, stored outside the audit: removing folder and head together does not remove it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChainAnchor {
    pub(crate) seq: u64,
    pub(crate) hash: String,
}

impl ChainAnchor {
    /// `None`: there is none, or its file is invalid, which is reported elsewhere.
    pub(crate) fn read(path: &Path) -> Option<ChainAnchor> {
        #[derive(Deserialize)]
        struct Holder {
            audit: Option<ChainAnchor>,
        }
        let bytes = small_file::read_small(path, crate::service_store::MAX_BYTES).ok()?;
        let holder: Holder = serde_json::from_slice(&bytes).ok()?;
        holder.audit.filter(|anchor| anchor.hash.len() == GENESIS.len())
    }
}

/// The end of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChainHead {
    version: u32,
    /// The oldest kept line.
    pub(crate) first: u64,
    pub(crate) seq: u64,
    pub(crate) hash: String,
}

impl ChainHead {
    const VERSION: u32 = 1;
    /// Fixed length, so that it is written in place.
    const LENGTH: usize = 256;

    fn start() -> ChainHead {
        ChainHead { version: ChainHead::VERSION, first: 1, seq: 0, hash: GENESIS.into() }
    }

    /// Replaces a missing head.
    fn from_anchor(ChainAnchor { seq, hash }: ChainAnchor, first: u64) -> ChainHead {
        ChainHead { first, seq, hash, ..ChainHead::start() }
    }

    pub(crate) fn anchor(&self) -> ChainAnchor {
        ChainAnchor { seq: self.seq, hash: self.hash.clone() }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<ChainHead> {
        let head: ChainHead = serde_json::from_slice(bytes.trim_ascii_end()).ok()?;
        let sound = head.version == ChainHead::VERSION && head.hash.len() == GENESIS.len();
        (sound && head.first >= 1).then_some(head)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("plain data has a JSON text");
        bytes.resize(ChainHead::LENGTH - 1, b' ');
        bytes.push(b'\n');
        bytes
    }

    /// `None`: there is none. `Err`: it is invalid.
    pub(crate) fn read(path: &Path) -> Result<Option<ChainHead>, String> {
        match small_file::read_small(path, 4096) {
            Ok(bytes) => ChainHead::decode(&bytes).map(Some).ok_or_else(|| "is damaged".into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("cannot be read: {error}")),
        }
    }
}

fn path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:08}{SUFFIX}"))
}

/// The files of a folder with their numbers, oldest first.
pub(crate) fn files(folder: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let mut found = Vec::new();
    for name in proctor_sys::own_folder::names(folder, OwnFolder::Audit.rule())? {
        let path = folder.join(name);
        let name = path.file_name().and_then(|name| name.to_str());
        let digits = name.and_then(|name| name.strip_suffix(SUFFIX)).filter(|it| it.len() == 8);
        let number = digits.and_then(|it| it.parse().ok()).filter(|number| *number > 0);
        found.extend(number.map(|number| (number, path.clone())));
    }
    found.sort();
    Ok(found)
}

/// An audit that is open for writing.
pub(crate) struct AuditFile {
    place: AuditPaths,
    settings: Settings,
    file: File,
    number: u32,
    length: u64,
    /// Disk space is allocated up to here.
    reserved: u64,
    head: ChainHead,
    head_file: File,
}

/// The end of the chain as the last writer left it.
struct FileTail {
    number: u32,
    /// The oldest line.
    first: u64,
    /// The newest valid line.
    seq: u64,
    hash: String,
    /// The bytes after it.
    rest: Vec<u8>,
    /// The last line has no line end.
    open: bool,
}

impl FileTail {
    /// The marks that the next writer adds. `headless`: the head is missing, and at most an anchor replaces it.
    /// `altered`: the line of the head has changed.
    fn marks(&self, head: Option<&ChainHead>, headless: bool, altered: bool) -> Vec<LineKind> {
        let mut marks = Vec::new();
        match head {
            // Then the bytes after the last valid line were a line, which is damaged now.
            Some(head) if head.seq > self.seq => {
                marks.push(LineKind::Lost { after: self.seq, up_to: head.seq });
            }
            _ if !self.rest.is_empty() => {
                let rest = self.rest.strip_suffix(b"\n").unwrap_or(&self.rest);
                let (bytes, sha256) = (rest.len() as u64, sha256(rest));
                marks.push(LineKind::Torn { bytes, sha256 });
            }
            Some(_) | None => {}
        }
        if let Some(head) = head.filter(|_| altered) {
            marks.push(LineKind::Altered { record: head.seq });
        }
        if headless && self.seq > 0 {
            marks.push(LineKind::NoHead);
        }
        let version = env!("CARGO_PKG_VERSION").into();
        marks.push(LineKind::Started { pid: std::process::id(), version });
        marks
    }
}

impl AuditFile {
    /// Opens it at the end of the last writer, and records what is wrong with that. `make`: the folder may be
    /// created.
    pub(crate) fn open(
        place: &AuditPaths,
        settings: Settings,
        make: bool,
    ) -> io::Result<AuditFile> {
        match make {
            true => own_folder::make_at(&place.folder, OwnFolder::Audit.rule())?,
            false => proctor_sys::own_folder::check(&place.folder, OwnFolder::Audit.rule())?,
        }
        let head_file = own_file::modify_or_create(&place.head)
            .map_err(|error| io::Error::other(format!("{}: {error}", place.head.display())))?;
        lock(&head_file)?;
        let end = find_end(&place.folder)?;
        let known = ChainHead::read(&place.head).ok().flatten();
        let headless = known.is_none();
        let known = known
            .or_else(|| Some(ChainHead::from_anchor(ChainAnchor::read(&place.anchor)?, end.first)));
        let altered = known.as_ref().map_or(Ok(false), |head| is_altered(place, head, &end))?;
        let marks = end.marks(known.as_ref(), headless, altered);
        let head = match known {
            // Missing lines stay missing: the chain continues after them.
            Some(head) if head.seq > end.seq => head,
            Some(head) => ChainHead { seq: end.seq, hash: end.hash, ..head },
            None => {
                ChainHead { first: end.first, seq: end.seq, hash: end.hash, ..ChainHead::start() }
            }
        };
        let path = path(&place.folder, end.number);
        let file = own_file::append(&path)?;
        let length = file.metadata()?.len();
        let (place, number) = (place.clone(), end.number);
        let mut book =
            AuditFile { place, settings, file, number, length, reserved: 0, head, head_file };
        book.put(if end.open { "\n" } else { "" }, marks)?;
        Ok(book)
    }

    /// Writes lines with one call; returns the number of the first. After an error this book must not be used
    /// again.
    pub(crate) fn append(&mut self, records: Vec<LineKind>) -> io::Result<u64> {
        self.put("", records)
    }

    fn put(&mut self, before: &str, records: Vec<LineKind>) -> io::Result<u64> {
        failpoint::step(Point::AuditBegin)?;
        self.still_there()?;
        if self.length >= self.settings.max_size {
            self.next_file()?;
        }
        let first = self.head.seq + 1;
        let at = clock::now().wall.rfc3339();
        let (mut text, mut head) = (before.to_owned(), self.head.clone());
        for what in records {
            let line = AuditLine { seq: head.seq + 1, at: at.clone(), prev: head.hash, what };
            let (encoded, hash) = line.encode();
            text.push_str(&encoded);
            (head.seq, head.hash) = (line.seq, hash);
        }
        self.reserve(text.len() as u64);
        self.write(text.as_bytes())?;
        self.head_file.write_all_at(&head.encode(), 0)?;
        self.head = head;
        failpoint::moment(Point::AuditWritten);
        Ok(first)
    }

    /// Fails if the file was removed or moved away: writes would succeed, and nobody would find them.
    fn still_there(&self) -> io::Result<()> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, "its file was removed or replaced");
        let place = |found: &fs::Metadata| (found.dev(), found.ino());
        proctor_sys::own_folder::check(&self.place.folder, OwnFolder::Audit.rule())?;
        let named = fs::symlink_metadata(self.path()).map_err(|_| gone())?;
        if place(&self.file.metadata()?) == place(&named) { Ok(()) } else { Err(gone()) }
    }

    fn path(&self) -> PathBuf {
        path(&self.place.folder, self.number)
    }

    /// Syncs all written lines to disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        self.head_file.sync_data()
    }

    pub(crate) fn anchor(&self) -> ChainAnchor {
        self.head.anchor()
    }

    pub(crate) fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        // In a build for tests a writer can die between two halves of a line.
        let half = if failpoint::ENABLED { bytes.len() / 2 } else { 0 };
        if half > 0 {
            self.file.write_all(&bytes[..half])?;
            failpoint::moment(Point::AuditHalf);
        }
        self.file.write_all(&bytes[half..])?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Best effort: a write may still find space later.
    fn reserve(&mut self, more: u64) {
        let wanted = self.length + more + RESERVE / 2;
        if wanted > self.reserved {
            let end = self.length + more + RESERVE;
            let keep = FallocateFlags::KEEP_SIZE;
            if rustix::fs::fallocate(&self.file, keep, self.length, end - self.length).is_ok() {
                self.reserved = end;
            }
        }
    }

    fn next_file(&mut self) -> io::Result<()> {
        // Frees the reserved space after its end.
        self.file.set_len(self.length)?;
        self.file.sync_data()?;
        let number = self.number + 1;
        let path = path(&self.place.folder, number);
        self.file = File::options().append(true).create_new(true).mode(0o600).open(path)?;
        (self.number, self.length, self.reserved) = (number, 0, 0);
        self.drop_oldest()
    }

    fn drop_oldest(&mut self) -> io::Result<()> {
        let files = files(&self.place.folder)?;
        let excess = files.len().saturating_sub(self.settings.max_files);
        if excess == 0 {
            return Ok(());
        }
        // The head is updated before the files are deleted, so that they are not reported as missing.
        if let Some(first) = first_seq(&files[excess].1)? {
            self.head.first = first;
        } else {
            self.head.first = self.head.seq + 1;
        }
        self.head_file.write_all_at(&self.head.encode(), 0)?;
        files[..excess].iter().try_for_each(|(_, path)| small_file::remove(path))
    }
}

/// Locks the file for this writer; the previous one may need a moment.
fn lock(file: &File) -> io::Result<()> {
    let give_up = std::time::Instant::now() + LOCK_TIMEOUT;
    while !small_file::try_lock(file)? {
        if std::time::Instant::now() >= give_up {
            return Err(io::Error::other("another process holds its lock"));
        }
        std::thread::sleep(LOCK_AGAIN);
    }
    Ok(())
}

fn find_end(folder: &Path) -> io::Result<FileTail> {
    let files = files(folder)?;
    let mut end = FileTail {
        number: 1,
        first: 1,
        seq: 0,
        hash: GENESIS.into(),
        rest: Vec::new(),
        open: false,
    };
    let Some((number, newest)) = files.last() else { return Ok(end) };
    end.number = *number;
    end.first = first_seq(&files[0].1)?.unwrap_or(1);
    let (mut last, rest) = last_line(newest)?;
    (end.open, end.rest) = (!rest.is_empty() && !rest.ends_with(b"\n"), rest);
    if let Ok((line, hash)) = AuditLine::decode(&end.rest) {
        // A complete line without its line end.
        last = Some((line.seq, hash));
        end.rest.clear();
    }
    // A writer that died right after creating a file left no line in it.
    for (_, older) in files.iter().rev().skip(1) {
        if last.is_some() {
            break;
        }
        last = last_line(older)?.0;
    }
    if let Some((seq, hash)) = last {
        (end.seq, end.hash) = (seq, hash);
    }
    Ok(end)
}

/// Returns true if the line of the head was changed or removed. The head is written after its line, so a killed
/// writer can only leave it some lines before the end.
fn is_altered(place: &AuditPaths, head: &ChainHead, end: &FileTail) -> io::Result<bool> {
    if head.seq == 0 || head.seq > end.seq {
        return Ok(false);
    }
    if head.seq == end.seq {
        return Ok(head.hash != end.hash);
    }
    for (_, path) in files(&place.folder)?.iter().rev() {
        let mut bytes = Vec::new();
        own_file::read(path)?.read_to_end(&mut bytes)?;
        let lines = bytes.split(|byte| *byte == b'\n').rev();
        for (line, hash) in lines.filter_map(|line| AuditLine::decode(line).ok()) {
            if line.seq <= head.seq {
                return Ok((line.seq, &hash) != (head.seq, &head.hash));
            }
        }
    }
    Ok(true)
}

type LastLine = Option<(u64, String)>;

/// The newest valid line of a file, and the bytes after it. `verify` reports altered lines before it.
fn last_line(path: &Path) -> io::Result<(LastLine, Vec<u8>)> {
    let mut file = own_file::read(path)?;
    let length = file.metadata()?.len();
    // Room for one whole line and one unfinished line.
    file.seek(SeekFrom::Start(length.saturating_sub(2 * MAX_LINE as u64)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let mut end = tail.len();
    while let Some(newline) = tail[..end].iter().rposition(|byte| *byte == b'\n') {
        let begin = tail[..newline].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if let Ok((line, hash)) = AuditLine::decode(&tail[begin..newline]) {
            return Ok((Some((line.seq, hash)), tail.split_off(newline + 1)));
        }
        end = newline;
    }
    Ok((None, tail))
}

fn first_seq(path: &Path) -> io::Result<Option<u64>> {
    let mut head = Vec::new();
    own_file::read(path)?.take(MAX_LINE as u64).read_to_end(&mut head)?;
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(AuditLine::decode(line).ok().map(|(line, _)| line.seq))
}
