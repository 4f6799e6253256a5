//! Lookups in the machine's directory service by child processes (`getent`, `id`). The C library's
//! lookups are deliberately not used: they load modules at run time, which a static binary cannot
//! do.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::Read;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Timeout of a lookup. A slower directory service counts as down; a configuration must not hang
/// with it.
const GETENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum output: a group of ten thousand members fits, an endless output does not.
const ANSWER: usize = 1 << 20;

/// Runs a lookup program; returns `None` if it is missing, fails, prints too much or takes too
/// long.
pub(crate) fn ask(program: &str, arguments: &[&str]) -> Option<String> {
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(crate::plain_environment::variables())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let answer = child.stdout.take().and_then(|out| read_until(out, GETENT_TIMEOUT));
    let success = finish(&mut child, answer.is_some());
    let text = String::from_utf8(answer.filter(|_| success)?).ok()?;
    (!text.trim().is_empty()).then_some(text)
}

/// Reads until the end of the stream; returns `None` at the time or size limit.
fn read_until(mut out: ChildStdout, patience: Duration) -> Option<Vec<u8>> {
    let deadline = Instant::now() + patience;
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    while answer.len() < ANSWER {
        let left = deadline.checked_duration_since(Instant::now())?;
        let left = Timespec::try_from(left).ok()?;
        let ready = poll(&mut [PollFd::new(&out, PollFlags::IN)], Some(&left)).ok()?;
        if ready == 0 {
            return None;
        }
        match out.read(&mut chunk).ok()? {
            0 => return Some(answer),
            length => answer.extend_from_slice(&chunk[..length]),
        }
    }
    None
}

/// Reaps the child; kills it first if it did not close its output in time.
fn finish(child: &mut Child, answered: bool) -> bool {
    if !answered {
        child.kill().ok();
    }
    child.wait().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_is_missing_or_hangs_gives_no_answer() {
        assert_eq!(ask("sh", &["-c", "echo yes"]), Some("yes\n".into()));
        assert_eq!(ask("sh", &["-c", "echo yes; exit 2"]), None);
        assert_eq!(ask("sh", &["-c", "exit 0"]), None);
        // The test harness has CARGO_… and more in its environment.
        let inherited = ask("sh", &["-c", "env | grep -c ^CARGO; echo ."]);
        assert_eq!(inherited.as_deref(), Some("0\n.\n"));
        assert_eq!(ask("surely-not-a-program", &[]), None);
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let out = child.stdout.take().unwrap();
        assert_eq!(read_until(out, Duration::from_millis(20)), None);
        assert!(!finish(&mut child, false));
    }
}
