//! The output of a service, its index, and cursors that callers send back.

use crate::messages::name;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proctor_core::lifecycle::Exit;
use proctor_core::log_index::{
    ExitMark, IndexEntry, IndexMark, RECORD, Stream, decode_all, index_file, log_file,
    parse_log_file,
};
use proctor_core::name::RunId;
use proctor_core::time::Wall;
use proctor_engine::api::{LogItem, LogPage, LogQuery, LogWhat};
use proctor_engine::fuzz_entry_points;
use std::path::{Path, PathBuf};

/// Maximum number of pages of a log in these checks, even with one item a page.
const MAX_PAGES: usize = 20_000;

pub(crate) fn index(bytes: &[u8]) {
    let entries = decode_all(bytes);
    assert!(entries.len() <= bytes.len() / RECORD);
    for entry in &entries {
        assert_eq!(IndexEntry::decode(&entry.encode()), Some(*entry));
        if let IndexMark::RunExited(exit) = entry.mark {
            assert!(!exit.to_string().contains(char::is_control), "{exit}");
        }
    }
    let again: Vec<u8> = entries.iter().flat_map(IndexEntry::encode).collect();
    assert_eq!(decode_all(&again), entries);
    if let Some((stream, number)) = std::str::from_utf8(bytes).ok().and_then(parse_log_file) {
        assert_eq!(parse_log_file(&log_file(stream, number)), Some((stream, number)));
    }
}

/// Two streams with any bytes and any index: every byte is shown once, in order, and reading ends.
pub(crate) fn page(bytes: &[u8]) {
    let Some((split, bytes)) = crate::choice(bytes) else { return };
    let (log, rest) = bytes.split_at(bytes.len() * split / 256);
    let (index, other) = rest.split_at(rest.len() / 2 / RECORD * RECORD);
    let folder = Folder::new();
    folder.write(Stream::Stdout, log, index);
    folder.write(Stream::Stderr, other, &[]);
    let everything = LogQuery { max_bytes: 1 << 20, ..folder.query() };
    let all = folder.read(&everything);
    assert_eq!(shown(&all.items, Stream::Stdout), without_newlines(log));
    assert_eq!(shown(&all.items, Stream::Stderr), without_newlines(other));

    let paged = folder.read_all(LogQuery { max_bytes: split, ..folder.query() });
    for (stream, written) in [(Stream::Stdout, log), (Stream::Stderr, other)] {
        let (paged, written) = (shown(&paged, stream), without_newlines(written));
        assert!(written.starts_with(&paged), "pages show something else than was written");
    }
    let narrowed = match split % 6 {
        0 => LogQuery { tail: Some(split % 8), ..everything },
        1 => LogQuery { since: Some(Wall(split as i64)), ..everything },
        2 => LogQuery { until: Some(Wall(split as i64)), ..everything },
        3 => LogQuery { grep: Some("[a-m]".into()), context: split % 5, ..everything },
        4 => LogQuery { fold: true, max_line: Some(split), ..everything },
        _ => LogQuery { grep: Some("[a-m]".into()), ..everything },
    };
    let some = folder.read(&narrowed).items;
    assert!(some.len() <= all.items.len(), "a part is more than the whole: {narrowed:?}");
    folder.read_all(LogQuery { max_bytes: split, ..narrowed });
}

/// A cursor as arbitrary text, and one with a valid envelope around arbitrary positions.
pub(crate) fn cursor(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        cursor_text(text);
    }
    cursor_text(&URL_SAFE_NO_PAD.encode(bytes));
    for version in VERSIONS {
        cursor_text(&forged(version, bytes));
        if fuzz_entry_points::cursor(&forged(version, bytes)).is_ok() {
            let longer = forged(version, &[bytes, &[0]].concat());
            assert!(
                fuzz_entry_points::cursor(&longer).is_err(),
                "a byte behind the positions was taken"
            );
        }
    }
}

/// Cursor versions, each with the length of its checksum in bytes.
const VERSIONS: [(u8, usize); 2] = [(1, 4), (2, 3)];

fn cursor_text(text: &str) {
    match fuzz_entry_points::cursor(text) {
        Ok(again) => assert_eq!(fuzz_entry_points::cursor(&again).as_ref().ok(), Some(&again)),
        Err(error) => {
            let said = error.to_string();
            assert!(said.chars().count() < 80, "a refused cursor is repeated at length: {said}");
            return;
        }
    }
    let folder = Folder::new();
    folder.write(Stream::Stdout, LINES, &records().concat());
    for max_bytes in [1, 1 << 20] {
        let query = LogQuery { cursor: Some(text.into()), max_bytes, ..folder.query() };
        let items = folder.read_all(query);
        assert!(items.len() < 16, "a cursor shows more than there is");
    }
}

fn forged((version, sum): (u8, usize), positions: &[u8]) -> String {
    let mut bytes = [&[version], positions].concat();
    let all = crc32fast::hash(&bytes).to_le_bytes();
    bytes.extend(&all[..sum]);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The logs of one service `web`; removed on drop.
struct Folder(tempfile::TempDir);

impl Folder {
    /// In memory if possible, because thousands are created.
    fn new() -> Folder {
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let folder = Folder(made.expect("a temporary folder can be made"));
        std::fs::create_dir(folder.path("")).expect("a folder can be made");
        folder
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join("web").join(file)
    }

    fn write(&self, stream: Stream, log: &[u8], index: &[u8]) {
        for (file, content) in [(log_file(stream, 1), log), (index_file(stream, 1), index)] {
            std::fs::write(self.path(&file), content).expect("a file can be written");
        }
    }

    fn query(&self) -> LogQuery {
        LogQuery { services: vec![name("web")], ..LogQuery::default() }
    }

    fn read(&self, query: &LogQuery) -> LogPage {
        let page =
            fuzz_entry_points::page(self.0.path(), query).expect("what is there can be read");
        assert!(fuzz_entry_points::cursor(&page.cursor).is_ok(), "our own cursor is refused");
        page
    }

    fn read_all(&self, mut query: LogQuery) -> Vec<LogItem> {
        let mut items = Vec::new();
        for _ in 0..MAX_PAGES {
            let page = self.read(&query);
            items.extend(page.items);
            if !page.more {
                return items;
            }
            query.cursor = Some(page.cursor);
        }
        panic!("reading never ends: {query:?}");
    }
}

fn shown(items: &[LogItem], stream: Stream) -> Vec<u8> {
    let line = |item: &LogItem| match &item.what {
        LogWhat::Line(line) if item.stream == stream => line.bytes.clone(),
        LogWhat::Line(_) | LogWhat::Started | LogWhat::Exited(_) | LogWhat::Dropped(_) => {
            Vec::new()
        }
    };
    items.iter().flat_map(line).collect()
}

fn without_newlines(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().filter(|byte| *byte != b'\n').collect()
}

const LINES: &[u8] = b"one\ntwo\nthree\nfour without an end";

fn records() -> Vec<[u8; RECORD]> {
    let exit = ExitMark::of(&Exit::Signal { signal: 9, oom: false, core: false });
    let marks = [
        (0, IndexMark::RunStarted),
        (0, IndexMark::Bytes),
        (4, IndexMark::Bytes),
        (8, IndexMark::Dropped(77)),
        (14, IndexMark::RunExited(exit)),
    ];
    let entry = |(offset, mark)| IndexEntry { offset, wall: Wall(100), run: RunId(7), mark };
    marks.map(|mark| entry(mark).encode()).to_vec()
}

pub(crate) fn seeds_index() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = records().iter().map(|record| record.to_vec()).collect();
    seeds.extend([records().concat(), b"stdout.00000001.log".to_vec(), b"stderr.9.log".to_vec()]);
    seeds
}

pub(crate) fn seeds_page() -> Vec<Vec<u8>> {
    let index = records().concat();
    let stderr = b"a warning\nanother\n";
    // The end of the log in units of 256, and the index in the first half of the rest.
    let whole = [LINES, &index, &vec![b'x'; index.len()]].concat();
    let split = (LINES.len() * 256).div_ceil(whole.len()) as u8;
    let plain = [LINES, stderr].concat();
    vec![
        [&[split], whole.as_slice()].concat(),
        [&[128], plain.as_slice()].concat(),
        [&[255], b"\r\x1b[2J\n\n\0\n".as_slice()].concat(),
    ]
}

pub(crate) fn seeds_cursor() -> Vec<Vec<u8>> {
    let folder = Folder::new();
    folder.write(Stream::Stdout, LINES, &records().concat());
    folder.write(Stream::Stderr, LINES, &[]);
    let cursors = [0, 6, 1 << 20]
        .map(|max_bytes| folder.read(&LogQuery { max_bytes, ..folder.query() }).cursor);
    let positions = cursors.iter().map(|text| {
        let bytes = URL_SAFE_NO_PAD.decode(text).expect("our own cursor is base64");
        let (_, sum) = VERSIONS[1];
        bytes[1..bytes.len() - sum].to_vec()
    });
    // One service, its streams at two positions in the first version.
    let first = b"\x01\x03web\x01\x02\x02\x00\x00\x00\x00\x00\x00\x01\x01\x02\x01".to_vec();
    positions.chain([first]).chain(cursors.iter().map(|text| text.clone().into_bytes())).collect()
}
