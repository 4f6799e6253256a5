//! Processes as a test sees them: from outside, through `/proc` and signals.

use crate::binary;
use rustix::process::{Pid, Signal};
use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Below the kernel's range of ports for outgoing connections, above the well-known ports of
/// services.
const PORTS: Range<u16> = 20_000..32_000;
/// Distance between the first ports of two test processes.
const PORT_STRIDE: u32 = 131;
const PORT_TRIES: u32 = 100;

/// A line of a victim's pid file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedProcess {
    /// `main`, `child`, `session`, `middle`, `daemon`, `holder-middle`, `holder` or `brief`.
    pub role: String,
    pub pid: u32,
}

/// Whether a process with this pid exists and is not a zombie.
pub fn alive(pid: u32) -> bool {
    // `4711 (any name) S …`: the name may contain anything, so the state is searched from the
    // right.
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.iter().rposition(|&byte| byte == b')').and_then(|end| stat.get(end + 2));
    state.is_some_and(|state| !b"ZX".contains(state))
}

/// `kill -9`
#[track_caller]
pub fn kill9(pid: u32) {
    signal(pid, Signal::KILL);
}

/// Sends a signal to a process, which must exist.
#[track_caller]
pub fn signal(pid: u32, signal: Signal) {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid");
    if let Err(why) = rustix::process::kill_process(number, signal) {
        panic!("cannot send {signal:?} to {pid}: {why}");
    }
}

/// The live processes with all of these words in their command line.
pub fn running(words: &[&str]) -> Vec<u32> {
    living(|pid| words.iter().all(|word| has_entry(pid, "cmdline", word.as_bytes())))
}

/// The live processes with this `NAME=value` in their initial environment.
pub fn with_variable(entry: &str) -> Vec<u32> {
    living(|pid| has_entry(pid, "environ", entry.as_bytes()))
}

/// The live children of a process.
pub fn children(of: u32) -> Vec<u32> {
    living(|pid| parent(pid) == Some(of))
}

fn living(wanted: impl Fn(u32) -> bool) -> Vec<u32> {
    pids().into_iter().filter(|&pid| wanted(pid) && alive(pid)).collect()
}

/// Whether `/proc/PID/<file>`, a list of NUL-terminated texts, contains this text.
pub(crate) fn has_entry(pid: u32, file: &str, entry: &[u8]) -> bool {
    let list = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    list.split(|&byte| byte == 0).any(|one| one == entry)
}

pub(crate) fn pids() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc is mounted");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

pub(crate) fn parent(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}

/// All processes in a victim's pid file, dead or alive; empty if there is no such file yet.
#[track_caller]
pub fn recorded(pid_file: &Path) -> Vec<RecordedProcess> {
    let text = std::fs::read_to_string(pid_file).unwrap_or_default();
    let line = |line: &str| {
        let (role, pid) = line.split_once(' ')?;
        Some(RecordedProcess { role: role.to_owned(), pid: pid.parse().ok()? })
    };
    text.lines()
        .map(|text| line(text).unwrap_or_else(|| panic!("not a line of a pid file: {text}")))
        .collect()
}

/// The live ones among them: main and every descendant. A reused pid does not count.
#[track_caller]
pub fn descendants_alive(pid_file: &Path) -> Vec<RecordedProcess> {
    let victim = binary::victim();
    let is_ours =
        |pid| program(pid).as_ref() == Some(&victim) && mentions(pid, "cmdline", pid_file);
    recorded(pid_file).into_iter().filter(|one| alive(one.pid) && is_ours(one.pid)).collect()
}

/// The program a process runs, even if its file has been replaced since.
pub(crate) fn program(pid: u32) -> Option<PathBuf> {
    let path = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(
        path.to_str()
            .and_then(|path| path.strip_suffix(" (deleted)"))
            .map(PathBuf::from)
            .unwrap_or(path),
    )
}

/// Whether `/proc/PID/<file>`, a list of NUL-terminated texts, contains this path or one below it.
pub(crate) fn mentions(pid: u32, file: &str, path: &Path) -> bool {
    let path = path.as_os_str().as_encoded_bytes();
    let text = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    // A longer name with the same beginning is another path.
    let ends = |at: usize| text.get(at + path.len()).is_none_or(|next| b"\0/:".contains(next));
    text.windows(path.len()).enumerate().any(|(at, part)| part == path && ends(at))
}

/// Returns a loopback TCP port that no process listens on, never the same twice in a test run.
///
/// The port is below the kernel's automatic range. It is not bound to test it: a bound socket would
/// be copied into every child that another thread starts at that moment, and stay bound until that
/// child's `exec`.
#[track_caller]
pub fn free_port() -> u16 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(PORT_STRIDE);
    for _ in 0..PORT_TRIES {
        let offset = first.wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed))
            % u32::from(PORTS.end - PORTS.start);
        let port =
            PORTS.start + u16::try_from(offset).expect("an offset within the range of ports");
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            return port;
        }
    }
    panic!("{PORT_TRIES} ports in a row are in use");
}

/// Runs a command to its end and collects its output. Panics if it, or a process that inherited its
/// output, has not ended within `limit`.
#[track_caller]
pub fn finish(command: &mut Command, limit: Duration) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|why| panic!("cannot run {command:?}: {why}"));
    let stdout = collect(child.stdout.take().expect("stdout is a pipe"));
    let stderr = collect(child.stderr.take().expect("stderr is a pipe"));
    let deadline = Instant::now() + limit;
    let mut take = |stream: &Receiver<Vec<u8>>, name: &str| {
        let left = deadline.saturating_duration_since(Instant::now());
        stream
            .recv_timeout(left)
            .unwrap_or_else(|_| give_up(&mut child, &format!("{command:?}"), name, limit))
    };
    let (stdout, stderr) = (take(&stdout, "stdout"), take(&stderr, "stderr"));
    let status = child.wait().expect("a child can be waited for");
    Output { status, stdout, stderr }
}

/// Reads a stream to its end on its own thread, so that neither stream can fill up and block the
/// other.
fn collect(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // A read error ends the stream; the exit status shows the cause.
        let _ended = stream.read_to_end(&mut bytes);
        // The receiver is gone if the test has given up.
        let _given_up = sender.send(bytes);
    });
    receiver
}

#[track_caller]
fn give_up(child: &mut Child, command: &str, stream: &str, limit: Duration) -> ! {
    let state = match child.try_wait() {
        Ok(Some(status)) => {
            format!("it ended ({status}), but someone else keeps its {stream} open")
        }
        Ok(None) | Err(_) => "it is still running".to_owned(),
    };
    // It may already be gone.
    let _gone = child.kill();
    panic!("{command} did not finish within {limit:?}: {state}");
}
