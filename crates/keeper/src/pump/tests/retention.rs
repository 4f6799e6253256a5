//! Retention of segments: both streams share one size by need, and the newest segment of a stream
//! is never deleted.

use super::super::stream_copy::{Pipe, ServiceStreams};
use super::super::writer::WriteOutcome;
use super::named;
use proctor_core::log_index::{self, Stream};
use proctor_core::name::RunId;
use proctor_core::spec::{LogSpec, OnFull};
use proctor_sys::fifo;
use std::fs::File;
use std::io::Write;
use std::path::Path;

const SEGMENT: u64 = 4096;

/// Eight files of each stream, and room for eight in all.
fn spec() -> LogSpec {
    LogSpec {
        segment_bytes: SEGMENT,
        max_age: None,
        max_segments: 8,
        max_total_bytes: 8 * (SEGMENT + 512),
        on_full: OnFull::Drop,
    }
}

/// One service's output without a thread: each line is stored before the next is written.
struct Output {
    lane: ServiceStreams,
    null: File,
    ends: [File; 2],
}

impl Output {
    fn of(folder: &Path, spec: LogSpec) -> Output {
        let mut lane = ServiceStreams::new(named(&folder.join("logs")), spec.into());
        let ends = Stream::BOTH.map(|stream| {
            let path = folder.join(stream.as_str());
            let _ = std::fs::remove_file(&path);
            let ends = fifo::create(&path, None).unwrap();
            let (fd, run) = (ends.ours, RunId(1));
            lane.pipes[stream as usize] = Some(Pipe { fd, run, queued: false, grown: false });
            File::from(ends.theirs)
        });
        let null = File::options().write(true).open("/dev/null").unwrap();
        Output { lane, null, ends }
    }

    fn write(&mut self, stream: Stream, lines: u32) {
        for n in 0..lines {
            let line = format!("{n:07} {}\n", "x".repeat(91));
            self.ends[stream as usize].write_all(line.as_bytes()).unwrap();
            assert_eq!(self.lane.store(stream, &self.null), WriteOutcome::Moved(100));
        }
    }
}

/// Files and bytes of a stream.
fn kept(folder: &Path, stream: Stream) -> (usize, u64) {
    let files = std::fs::read_dir(folder.join("logs")).unwrap().flatten();
    let log = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        log_index::parse_log_file(name.to_str().unwrap()).is_some_and(|(found, _)| found == stream)
    };
    let sizes: Vec<u64> = files.filter(log).map(|entry| entry.metadata().unwrap().len()).collect();
    (sizes.len(), sizes.iter().sum())
}

#[test]
fn a_stream_that_is_alone_keeps_as_many_files_as_configured() {
    for stream in Stream::BOTH {
        let dir = tempfile::tempdir().unwrap();
        Output::of(dir.path(), spec()).write(stream, 2000);
        let (files, bytes) = kept(dir.path(), stream);
        assert_eq!(files, 8, "{stream:?}: {bytes} bytes");
        assert!((7 * SEGMENT..=spec().max_total_bytes).contains(&bytes), "{bytes}");
    }
}

#[test]
fn streams_share_the_size_and_a_flood_does_not_delete_what_the_other_keeps() {
    let dir = tempfile::tempdir().unwrap();
    let mut output = Output::of(dir.path(), spec());
    // A quarter of the size.
    output.write(Stream::Stderr, 90);
    let quiet = kept(dir.path(), Stream::Stderr);
    output.write(Stream::Stdout, 2000);
    assert_eq!(kept(dir.path(), Stream::Stderr), quiet);
    let flood = kept(dir.path(), Stream::Stdout);
    assert!(flood.1 > spec().max_total_bytes / 2, "it has what the other does not need: {flood:?}");
    // A stream that starts later gets its half, and the limit holds.
    output.write(Stream::Stderr, 2000);
    let (out, err) = (kept(dir.path(), Stream::Stdout).1, kept(dir.path(), Stream::Stderr).1);
    assert!(out + err <= spec().max_total_bytes, "{out} {err}");
    assert!(out.abs_diff(err) <= 2 * SEGMENT, "{out} {err}");
}

#[test]
fn the_size_holds_for_a_keeper_that_takes_over() {
    let dir = tempfile::tempdir().unwrap();
    Output::of(dir.path(), spec()).write(Stream::Stderr, 200);
    // Two thirds of the size belong to the other stream, which this keeper never opens.
    Output::of(dir.path(), spec()).write(Stream::Stdout, 300);
    let (out, err) = (kept(dir.path(), Stream::Stdout), kept(dir.path(), Stream::Stderr));
    assert!(out.1 + err.1 <= spec().max_total_bytes, "{out:?} {err:?}");
    assert!(err.0 >= 2, "{err:?}");
}

/// Makes room repeatedly, as on a full disk, before and after a change of keeper.
fn check_room(on_full: OnFull, expected: [usize; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let spec = LogSpec { on_full, ..spec() };
    let mut output = Output::of(dir.path(), spec.clone());
    output.write(Stream::Stdout, 150);
    output.write(Stream::Stderr, 10);
    let newest = |stream| std::fs::read(newest_log(dir.path(), stream)).unwrap();
    let before = Stream::BOTH.map(newest);
    for keeper in 1..=3 {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let pipe = output.lane.pipes[stream as usize].take().unwrap();
            while output.lane.make_room(stream, &pipe, &output.null) == WriteOutcome::Moved(0) {}
            output.lane.pipes[stream as usize] = Some(pipe);
        }
        assert_eq!(Stream::BOTH.map(newest), before, "{on_full:?}, keeper {keeper}");
        let files = Stream::BOTH.map(|stream| kept(dir.path(), stream).0);
        assert_eq!(files, expected, "{on_full:?}, keeper {keeper}");
        output = Output::of(dir.path(), spec.clone());
    }
}

fn newest_log(folder: &Path, stream: Stream) -> std::path::PathBuf {
    let files = std::fs::read_dir(folder.join("logs")).unwrap().flatten();
    let numbers = files.filter_map(|entry| log_index::parse_log_file(entry.file_name().to_str()?));
    let newest = numbers.filter(|(found, _)| *found == stream).map(|(_, number)| number).max();
    folder.join("logs").join(log_index::log_file(stream, newest.unwrap()))
}

#[test]
fn on_a_full_disk_closed_files_go_and_the_newest_stays_whoever_is_the_keeper() {
    check_room(OnFull::Drop, [1, 1]);
}

#[test]
fn on_a_full_disk_nothing_stored_is_deleted_where_the_service_is_to_wait() {
    check_room(OnFull::Block, [4, 1]);
}
