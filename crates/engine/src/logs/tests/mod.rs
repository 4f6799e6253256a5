//! Tests of reading, with a writer that creates segments as the keeper does.

mod budget;
mod damage;
mod follow;
mod pages;
mod random;
mod selection;
mod watching;

use super::{Scan, page};
use crate::api::{LogItem, LogLine, LogPage, LogQuery, LogWhat, Repeats};
use proctor_core::log_index::{ExitMark, IndexEntry, IndexMark, Stream, index_file, log_file};
use proctor_core::name::{RunId, ServiceName};
use proctor_core::time::Wall;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

pub(super) const OUT: Stream = Stream::Stdout;
pub(super) const ERR: Stream = Stream::Stderr;

/// Actions of the keeper on the log of `web`, or of another service. Times and runs are small numbers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Do {
    /// Stream, time, run, bytes.
    Write(Stream, i64, u64, &'static str),
    /// Bytes without a record.
    Bare(Stream, &'static str),
    Start(Stream, i64, u64),
    Exit(Stream, i64, u64),
    Drop(Stream, i64, u64, u32),
    Rotate(Stream),
    Delete(Stream, u64),
    /// Switches to another service.
    Service(&'static str),
}

pub(super) struct Writer {
    pub(super) folder: tempfile::TempDir,
    service: String,
    segments: [u64; 2],
}

impl Writer {
    pub(super) fn new() -> Writer {
        let folder = tempfile::tempdir().unwrap();
        Writer { folder, service: "web".into(), segments: [1, 1] }
    }

    pub(super) fn after(script: &[Do]) -> Writer {
        let mut writer = Writer::new();
        script.iter().for_each(|step| writer.perform(*step));
        writer
    }

    pub(super) fn perform(&mut self, step: Do) {
        match step {
            Do::Write(stream, wall, run, bytes) => self.write(stream, wall, run, bytes.as_bytes()),
            Do::Bare(stream, bytes) => self.append(stream, bytes.as_bytes()),
            Do::Start(stream, wall, run) => self.record(stream, wall, run, IndexMark::RunStarted),
            Do::Exit(stream, wall, run) => {
                self.record(stream, wall, run, IndexMark::RunExited(ExitMark(0)))
            }
            Do::Drop(stream, wall, run, bytes) => {
                self.record(stream, wall, run, IndexMark::Dropped(bytes))
            }
            Do::Rotate(stream) => self.segments[stream as usize] += 1,
            Do::Delete(stream, number) => {
                fs::remove_file(self.log(stream, number)).unwrap();
                fs::remove_file(self.index(stream, number)).unwrap();
            }
            Do::Service(name) => {
                self.service = name.into();
                self.segments = [1, 1];
            }
        }
    }

    /// Writes a record, then its bytes.
    pub(super) fn write(&mut self, stream: Stream, wall: i64, run: u64, bytes: &[u8]) {
        self.record(stream, wall, run, IndexMark::Bytes);
        self.append(stream, bytes);
    }

    pub(super) fn record(&mut self, stream: Stream, wall: i64, run: u64, mark: IndexMark) {
        self.append(stream, b"");
        let number = self.segments[stream as usize];
        let offset = fs::metadata(self.log(stream, number)).unwrap().len();
        self.record_at(stream, offset, wall, run, mark);
    }

    pub(super) fn record_at(
        &mut self,
        stream: Stream,
        offset: u64,
        wall: i64,
        run: u64,
        mark: IndexMark,
    ) {
        let entry = IndexEntry { offset, wall: Wall(wall), run: RunId(run), mark };
        append(self.index(stream, self.segments[stream as usize]), &entry.encode());
    }

    pub(super) fn append(&mut self, stream: Stream, bytes: &[u8]) {
        append(self.log(stream, self.segments[stream as usize]), bytes);
    }

    pub(super) fn logs(&self) -> PathBuf {
        self.folder.path().join("logs")
    }

    pub(super) fn log(&self, stream: Stream, number: u64) -> PathBuf {
        self.logs().join(&self.service).join(log_file(stream, number))
    }

    pub(super) fn index(&self, stream: Stream, number: u64) -> PathBuf {
        self.logs().join(&self.service).join(index_file(stream, number))
    }

    pub(super) fn read(&self, query: &LogQuery) -> LogPage {
        super::read(&self.logs(), query).unwrap()
    }

    /// The page, and the number of bytes read for it.
    pub(super) fn read_counted(&self, query: &LogQuery) -> (LogPage, u64) {
        let mut scan = Scan::new(query.services.len() * 2);
        let page = page::read(&self.logs(), query, &mut scan).unwrap();
        (page, scan.read)
    }

    /// All items of the query, page by page, and the last cursor.
    pub(super) fn read_all(&self, query: &LogQuery) -> (Vec<LogItem>, String) {
        let mut query = query.clone();
        let mut items = Vec::new();
        loop {
            let page = self.read(&query);
            items.extend(page.items);
            if !page.more {
                return (items, page.cursor);
            }
            query.cursor = Some(page.cursor);
        }
    }
}

fn append(path: PathBuf, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

pub(super) fn name(text: &str) -> ServiceName {
    ServiceName::parse(text).unwrap()
}

/// A query for everything of `web`, in one large page.
pub(super) fn everything() -> LogQuery {
    LogQuery { services: vec![name("web")], max_bytes: 1 << 30, ..LogQuery::default() }
}

pub(super) fn from(cursor: &str) -> LogQuery {
    LogQuery { cursor: Some(cursor.into()), ..everything() }
}

/// `12 out1 text`: time, stream and run, then the line (`~` where it is cut) or the mark in brackets.
pub(super) fn show(items: &[LogItem]) -> Vec<String> {
    items.iter().map(show_one).collect()
}

fn show_one(item: &LogItem) -> String {
    let what = match &item.what {
        LogWhat::Line(LogLine { bytes, cut, .. }) => {
            format!("{}{}", String::from_utf8_lossy(bytes), if *cut { "~" } else { "" })
        }
        LogWhat::Started => "[started]".into(),
        LogWhat::Exited(exit) => format!("[{exit}]"),
        LogWhat::Dropped(bytes) => format!("[dropped {bytes}]"),
    };
    let prefix =
        if item.service.as_str() == "web" { String::new() } else { format!("{}:", item.service) };
    format!("{prefix}{} {}{} {what}", item.wall.0, &item.stream.as_str()[3..], item.run.0)
}

/// The lines of a stream as written, with pieces joined.
pub(super) fn lines_of(items: &[LogItem], stream: Stream) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    let mut open: Option<Vec<u8>> = None;
    for item in items.iter().filter(|item| item.stream == stream) {
        let LogWhat::Line(LogLine { bytes, cut, .. }) = &item.what else { continue };
        let mut line = open.take().unwrap_or_default();
        line.extend_from_slice(bytes);
        if *cut { open = Some(line) } else { lines.push(line) }
    }
    lines.extend(open);
    lines
}

/// Checks the result of a query over a script's log, in one page and item by item.
pub(super) fn check(title: &str, script: &[Do], query: &LogQuery, expected: &[&str]) {
    let writer = Writer::after(script);
    assert_eq!(show(&writer.read(query).items), expected, "{title}");
    let (items, cursor) = writer.read_all(&LogQuery { max_bytes: 0, ..query.clone() });
    let held =
        items.len() < expected.len() && expected.last().is_some_and(|last| last.ends_with('~'));
    let shown = &expected[..expected.len() - usize::from(held)];
    assert_eq!(show(&items), shown, "{title}, item by item");
    let again = LogQuery { cursor: Some(cursor), ..query.clone() };
    let rest = writer.read(&again);
    assert_eq!(show(&rest.items), [""; 0], "{title}, after its end");
    let again = LogQuery { cursor: Some(rest.cursor), ..query.clone() };
    assert_eq!(show(&writer.read(&again).items), [""; 0], "{title}, and again");
}
