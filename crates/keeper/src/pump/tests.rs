//! The pump against real pipes and files.

mod retention;

use super::thread::Shared;
use super::worker::Worker;
use super::{Command, Drained, Pipes, Pump};
use crate::service_folder::ServiceFolder;
use proctor_core::lifecycle::Exit;
use proctor_core::log_index::{self, ExitMark, IndexMark, Stream};
use proctor_core::name::RunId;
use proctor_core::spec::{LogSpec, OnFull};
use proctor_sys::poll::{Ready, Waker};
use proctor_sys::{fifo, socket};
use proctor_testkit::wait_until;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

const SLOT: u32 = 3;
const LIMIT: Duration = Duration::from_secs(20);

fn spec() -> LogSpec {
    LogSpec {
        segment_bytes: 64 << 10,
        max_age: None,
        max_segments: 4,
        max_total_bytes: u64::MAX,
        on_full: OnFull::Drop,
    }
}

fn named(path: &Path) -> ServiceFolder {
    ServiceFolder::at(path, None).unwrap()
}

/// Passes a run to the pump whose stdout is the returned file.
fn begin(pump: &mut Pump, folder: &Path, run: u64, spec: LogSpec) -> File {
    let path = folder.join(format!("{run:x}.out"));
    let ends = fifo::create(&path, None).unwrap();
    let (folder, run) = (named(&folder.join("logs")), RunId(run));
    pump.send(Command::Begin {
        slot: SLOT,
        folder,
        spec: spec.into(),
        run,
        pipes: Pipes::Here([Some(ends.ours), None]),
        fresh: true,
    });
    pump.ring();
    File::from(ends.theirs)
}

/// Ends the run and waits until the pump reports that everything is stored.
fn end(pump: &mut Pump, run: u64) {
    pump.send(Command::End { slot: SLOT, run: RunId(run), exit: Exit::Code(7) });
    pump.ring();
    let drained = loop {
        use rustix::event::{PollFd, PollFlags, poll};
        poll(&mut [PollFd::from_borrowed_fd(pump.bell(), PollFlags::IN)], None).unwrap();
        pump.silence();
        if let Some(drained) = pump.drained() {
            break drained;
        }
    };
    assert_eq!(drained, Drained { slot: SLOT, run: RunId(run) });
}

/// All bytes of stdout, and the numbers of its segments.
fn stored(folder: &Path) -> (Vec<u8>, Vec<u64>) {
    let logs = folder.join("logs");
    let mut segments: Vec<u64> = std::fs::read_dir(&logs)
        .unwrap()
        .filter_map(|entry| log_index::parse_log_file(entry.unwrap().file_name().to_str()?))
        .filter(|(stream, _)| *stream == Stream::Stdout)
        .map(|(_, number)| number)
        .collect();
    segments.sort_unstable();
    let read = |n: &u64| std::fs::read(logs.join(log_index::log_file(Stream::Stdout, *n))).unwrap();
    (segments.iter().flat_map(read).collect(), segments)
}

#[test]
fn what_a_run_wrote_is_stored_with_its_beginning_and_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut pump = Pump::start().unwrap();
    let mut out = begin(&mut pump, dir.path(), 1, spec());
    out.write_all(b"hello\nunfinished").unwrap();
    drop(out);
    end(&mut pump, 1);
    pump.stop();
    assert_eq!(stored(dir.path()), (b"hello\nunfinished".to_vec(), vec![1]));
    let index = std::fs::read(dir.path().join("logs/stdout.00000001.idx")).unwrap();
    // The bytes have their own time if they came later than a moment after the start.
    let marks: Vec<(u64, IndexMark)> = log_index::decode_all(&index)
        .into_iter()
        .map(|entry| (entry.offset, entry.mark))
        .filter(|(_, mark)| *mark != IndexMark::Bytes)
        .collect();
    let exited = IndexMark::RunExited(ExitMark::of(&Exit::Code(7)));
    assert_eq!(marks, [(0, IndexMark::RunStarted), (16, exited)]);
}

#[test]
fn the_pipe_of_one_that_writes_has_room_for_much() {
    let dir = tempfile::tempdir().unwrap();
    let mut pump = Pump::start().unwrap();
    let mut out = begin(&mut pump, dir.path(), 1, spec());
    let size = |out: &File| rustix::pipe::fcntl_getpipe_size(out).unwrap();
    assert!(size(&out) < fifo::CAPACITY);
    out.write_all(b"hello\n").unwrap();
    wait_until("it has grown", LIMIT, || size(&out) == fifo::CAPACITY);
    drop(out);
    end(&mut pump, 1);
    pump.stop();
    assert_eq!(stored(dir.path()).0, b"hello\n");
}

/// A keeper that dies right after the fork has marked nothing; one that dies later has, possibly a
/// segment ago.
#[test]
fn a_run_that_is_taken_over_has_its_start_marked_once() {
    let dir = tempfile::tempdir().unwrap();
    let take_over = |run| {
        let mut pump = Pump::start().unwrap();
        let path = dir.path().join("out");
        let ends = fifo::create(&path, None).unwrap();
        pump.send(Command::Begin {
            slot: SLOT,
            folder: named(&dir.path().join("logs")),
            spec: spec().into(),
            run: RunId(run),
            pipes: Pipes::Here([Some(ends.ours), None]),
            fresh: false,
        });
        pump.ring();
        std::fs::remove_file(&path).unwrap();
        pump.stop();
    };
    let starts = || {
        let numbers = stored(dir.path()).1;
        let read = |n| {
            std::fs::read(dir.path().join("logs").join(log_index::index_file(Stream::Stdout, n)))
        };
        let entries = numbers.into_iter().flat_map(|n| log_index::decode_all(&read(n).unwrap()));
        let starts = entries.filter(|entry| entry.mark == IndexMark::RunStarted);
        starts.map(|entry| entry.run.0).collect::<Vec<_>>()
    };
    for run in [5, 5, 9, 9, 5] {
        take_over(run);
    }
    assert_eq!(starts(), [5, 9]);
    // The files of a keeper that died after it began a segment.
    for name in [log_index::log_file(Stream::Stdout, 2), log_index::index_file(Stream::Stdout, 2)] {
        File::create(dir.path().join("logs").join(name)).unwrap();
    }
    take_over(9);
    assert_eq!(starts(), [5, 9]);
    take_over(10);
    assert_eq!(starts(), [5, 9, 10]);
}

#[test]
fn segments_end_at_line_ends_and_the_oldest_are_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let mut pump = Pump::start().unwrap();
    let mut out = begin(&mut pump, dir.path(), 1, spec());
    let line = |n: u32| format!("{n:07} {}\n", "x".repeat(91));
    for n in 0..8000 {
        out.write_all(line(n).as_bytes()).unwrap();
    }
    drop(out);
    end(&mut pump, 1);
    pump.stop();
    let (bytes, segments) = stored(dir.path());
    let last: Vec<u8> =
        (8000 - bytes.len() as u32 / 100..8000).flat_map(|n| line(n).into_bytes()).collect();
    assert!(bytes == last, "the newest lines are all there, in order");
    assert!(segments.len() <= 4, "{segments:?}");
    for number in &segments[..segments.len() - 1] {
        let path = dir.path().join("logs").join(log_index::log_file(Stream::Stdout, *number));
        assert_eq!(std::fs::read(path).unwrap().last(), Some(&b'\n'), "segment {number}");
    }
}

#[test]
fn a_new_pump_goes_on_where_the_last_one_was_when_it_died() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = Pump::start().unwrap();
    let mut out = begin(&mut first, dir.path(), 1, spec());
    out.write_all(b"one\n").unwrap();
    first.stop();
    out.write_all(b"two\n").unwrap();
    let mut second = Pump::start().unwrap();
    let pipe = fifo::open(&dir.path().join("1.out")).unwrap();
    let folder = named(&dir.path().join("logs"));
    second.send(Command::Begin {
        slot: SLOT,
        folder,
        spec: spec().into(),
        run: RunId(1),
        pipes: Pipes::Here([Some(pipe), None]),
        fresh: false,
    });
    second.ring();
    out.write_all(b"three\n").unwrap();
    drop(out);
    end(&mut second, 1);
    second.stop();
    assert_eq!(stored(dir.path()).0, b"one\ntwo\nthree\n");
}

#[test]
fn a_log_that_cannot_be_written_loses_a_counted_number_of_bytes_when_its_run_ends() {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("logs");
    std::fs::create_dir(&logs).unwrap();
    let mut pump = Pump::start().unwrap();
    let mut out = begin(&mut pump, dir.path(), 1, LogSpec { segment_bytes: 200, ..spec() });
    out.write_all(&b"kept\n".repeat(50)).unwrap();
    end(&mut pump, 1);
    // The next segment cannot be created: a folder has its name.
    std::fs::create_dir(logs.join("stdout.00000002.log")).unwrap();
    let mut out = begin(&mut pump, dir.path(), 2, LogSpec { segment_bytes: 200, ..spec() });
    out.write_all(b"lost\n").unwrap();
    end(&mut pump, 2);
    pump.stop();
    let index = log_index::decode_all(&std::fs::read(logs.join("stdout.00000001.idx")).unwrap());
    assert!(index.iter().any(|entry| entry.mark == IndexMark::Dropped(5)), "{index:?}");
    assert_eq!(std::fs::read(logs.join("stdout.00000001.log")).unwrap(), b"kept\n".repeat(50));
}

#[test]
fn a_service_that_only_starts_and_ends_is_rotated_by_its_index() {
    let dir = tempfile::tempdir().unwrap();
    let mut pump = Pump::start().unwrap();
    for run in 1..=100 {
        drop(begin(&mut pump, dir.path(), run, LogSpec { segment_bytes: 320, ..spec() }));
        end(&mut pump, run);
    }
    pump.stop();
    let mut indexes: Vec<_> = std::fs::read_dir(dir.path().join("logs"))
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_str().unwrap().starts_with("stdout"))
        .filter(|entry| entry.path().extension().is_some_and(|kind| kind == "idx"))
        .collect();
    indexes.sort_by_key(|entry| entry.file_name());
    assert_eq!(indexes.len(), 4, "{indexes:?}");
    assert!(indexes.iter().all(|entry| entry.metadata().unwrap().len() <= 384));
    let newest = log_index::decode_all(&std::fs::read(indexes[3].path()).unwrap());
    assert_eq!(newest.last().map(|entry| entry.run), Some(RunId(100)));
}

#[test]
fn more_pipes_than_there_is_room_for_on_the_way_all_arrive() {
    const RUNS: u32 = 700;
    let dir = tempfile::tempdir().unwrap();
    let mut pump = Pump::start().unwrap();
    let log = |slot: u32| dir.path().join(format!("{slot}/stdout.00000001.log"));
    for slot in 0..RUNS {
        let ends = fifo::create(&dir.path().join(format!("{slot}.out")), None).unwrap();
        File::from(ends.theirs).write_all(slot.to_string().as_bytes()).unwrap();
        pump.send(Command::Begin {
            slot,
            folder: named(&dir.path().join(slot.to_string())),
            spec: spec().into(),
            run: RunId(1),
            pipes: Pipes::Here([Some(ends.ours), None]),
            fresh: true,
        });
        pump.ring();
    }
    let all_stored = |pump: &mut Pump| {
        pump.silence();
        pump.ring();
        (0..RUNS).all(|slot| {
            std::fs::read(log(slot)).is_ok_and(|text| text == slot.to_string().as_bytes())
        })
    };
    wait_until("what all of them wrote is stored", LIMIT, || all_stored(&mut pump));
    // They are open in the pump's own table, not in that of the threads that create processes.
    let in_ours = std::fs::read_dir("/proc/thread-self/fd").unwrap();
    let in_ours = in_ours.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    assert_eq!(in_ours.filter(|path| path.starts_with(dir.path())).count(), 0);
    pump.stop();
}

#[test]
fn a_pipe_that_always_has_more_gets_one_turn_like_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let (_commands, inbox) = channel();
    let (answers, _drained) = channel();
    let bell = || Waker::new().unwrap();
    let shared = Shared { wake: bell(), bell: bell().into(), wants_room: false.into() };
    let (_ours, chute) = socket::chute().unwrap();
    let mut worker = Worker::new(inbox, chute, Arc::new(shared), answers).unwrap();
    let ends = fifo::create(&dir.path().join("1.out"), None).unwrap();
    let mut out = File::from(ends.theirs);
    worker.begin(
        SLOT,
        named(&dir.path().join("logs")),
        spec().into(),
        RunId(1),
        [Some(ends.ours), None],
        true,
    );
    for _ in 0..100 {
        out.write_all(b"more\n").unwrap();
        worker.see(&[Ready { token: u64::from(SLOT) * 2, readable: true, writable: false }]);
    }
    assert_eq!(worker.busy, [u64::from(SLOT) * 2]);
}

#[test]
fn a_log_that_can_be_written_again_is_tried_although_others_keep_the_pump_busy() {
    let dir = tempfile::tempdir().unwrap();
    let mut pump = Pump::start().unwrap();
    // A folder that is for everybody is neither used nor moved aside.
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::create_dir(dir.path().join("logs")).unwrap();
    std::fs::set_permissions(dir.path().join("logs"), mode(0o1777)).unwrap();
    let mut waiting = begin(&mut pump, dir.path(), 1, spec());
    waiting.write_all(b"waited\n").unwrap();
    let other = tempfile::tempdir().unwrap();
    let ends = fifo::create(&other.path().join("2.out"), None).unwrap();
    let mut chatty = File::from(ends.theirs);
    pump.send(Command::Begin {
        // A service that the same thread serves.
        slot: SLOT + super::MAX_THREADS as u32,
        folder: named(&other.path().join("logs")),
        spec: spec().into(),
        run: RunId(2),
        pipes: Pipes::Here([Some(ends.ours), None]),
        fresh: true,
    });
    pump.ring();
    let log = other.path().join("logs/stdout.00000001.log");
    wait_until("the other's log", LIMIT, || {
        chatty.write_all(b"chat\n").unwrap();
        log.exists()
    });
    assert_eq!(std::fs::read_dir(dir.path().join("logs")).unwrap().count(), 0);
    std::fs::set_permissions(dir.path().join("logs"), mode(0o700)).unwrap();
    wait_until("what waited", LIMIT, || {
        chatty.write_all(b"chat\n").unwrap();
        std::fs::read(dir.path().join("logs/stdout.00000001.log")).is_ok_and(|it| it == b"waited\n")
    });
    pump.stop();
}

/// One run writes `before`, somebody changes its log, the next run writes `after`; then checks the
/// stored output.
#[track_caller]
fn check_meddling(meddle: impl Fn(&Path), expected: &[u8], segments: &[u64]) {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("logs");
    let mut pump = Pump::start().unwrap();
    for (run, text) in [(1, b"before\n" as &[u8]), (2, b"after\n")] {
        if run == 2 {
            meddle(&logs);
        }
        let mut out = begin(&mut pump, dir.path(), run, spec());
        out.write_all(text).unwrap();
        end(&mut pump, run);
    }
    pump.stop();
    assert_eq!(stored(dir.path()), (expected.to_vec(), segments.to_vec()));
    let newest = log_index::index_file(Stream::Stdout, *segments.last().unwrap());
    let index = log_index::decode_all(&std::fs::read(logs.join(newest)).unwrap());
    let exit = index.last().map(|entry| entry.mark);
    assert_eq!(exit, Some(IndexMark::RunExited(ExitMark::of(&Exit::Code(7)))), "{index:?}");
}

#[test]
fn a_log_that_is_deleted_goes_on_in_a_new_segment() {
    let log = |logs: &Path| logs.join("stdout.00000001.log");
    check_meddling(|_| {}, b"before\nafter\n", &[1]);
    check_meddling(|logs| std::fs::remove_dir_all(logs).unwrap(), b"after\n", &[2]);
    check_meddling(move |logs| std::fs::remove_file(log(logs)).unwrap(), b"after\n", &[2]);
    check_meddling(
        move |logs| std::fs::rename(log(logs), logs.join("aside")).unwrap(),
        b"after\n",
        &[2],
    );
    check_meddling(
        move |logs| {
            std::fs::remove_file(log(logs)).unwrap();
            std::fs::write(log(logs), "theirs\n").unwrap();
        },
        b"theirs\nafter\n",
        &[1, 2],
    );
}

#[test]
fn a_log_that_is_emptied_goes_on_at_its_beginning() {
    check_meddling(
        |logs| drop(File::create(logs.join("stdout.00000001.log")).unwrap()),
        b"after\n",
        &[1],
    );
}

#[test]
fn the_end_of_a_run_is_marked_once_however_many_keepers_see_it() {
    let dir = tempfile::tempdir().unwrap();
    for keeper in 1..=3 {
        let mut pump = Pump::start().unwrap();
        let pipes = if keeper == 1 {
            begin(&mut pump, dir.path(), 1, spec())
        } else {
            taken_over(&mut pump, dir.path())
        };
        end(&mut pump, 1);
        drop(pipes);
        pump.stop();
    }
    let index = std::fs::read(dir.path().join("logs/stdout.00000001.idx")).unwrap();
    let exits = log_index::decode_all(&index);
    let exits = exits.iter().filter(|entry| matches!(entry.mark, IndexMark::RunExited(_))).count();
    assert_eq!(exits, 1);
}

/// Passes run 1 to the pump as a keeper does that found it.
fn taken_over(pump: &mut Pump, folder: &Path) -> File {
    let path = folder.join("1.out");
    let theirs = File::options().read(true).write(true).open(&path).unwrap();
    let pipes = Pipes::Here([Some(fifo::open(&path).unwrap()), None]);
    let (folder, run) = (named(&folder.join("logs")), RunId(1));
    pump.send(Command::Begin { slot: SLOT, folder, spec: spec().into(), run, pipes, fresh: false });
    pump.ring();
    theirs
}
