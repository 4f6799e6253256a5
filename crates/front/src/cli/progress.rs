//! Progress of a waiting command on stderr, shown after a moment.
//!
//! A thread with its own connection polls `service.wait`, so the command itself does not depend on this. On a terminal it is one
//! live line; otherwise a plain line for each change.

use super::session::Session;
use crate::client::{Breaker, Client};
use proctor_core::home::Home;
use proctor_ops::operations::service::wait;
use proctor_ops::status::{ServiceStatus, State};
use serde_json::{Value, json};
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Delay before the first line.
const MOMENT: Duration = Duration::from_millis(700);

/// Seconds between updates of a countdown.
const TICK: f64 = 1.0;

/// Minimum time between two updates.
const PAUSE: Duration = Duration::from_millis(100);

/// Minimum pause as a multiple of the time spent on decoding and showing a response, so watching a thousand services start does
/// not slow them down.
const SHARE: u32 = 10;

/// Timeout of a response, much longer than a tick.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Maximum names in a line.
const MAX_NAMES: usize = 3;

pub(crate) struct Progress {
    /// Dropped to end the thread.
    over: Option<Sender<()>>,
    watcher: Arc<Mutex<Watcher>>,
    thread: Option<JoinHandle<()>>,
}

/// State of the watching thread, and the way to end it.
enum Watcher {
    /// Not connected yet.
    Beginning,
    /// Possibly waiting for a response; ending its connection wakes it.
    Asking(Breaker),
    Over,
}

impl Progress {
    /// Shows progress until this is dropped. `what` completes "waiting for web …".
    pub(crate) fn begin(session: &Session<'_>, what: &'static str, input: &Value) -> Progress {
        Progress::with(session, what, input, session.terminal.live())
    }

    /// Shows progress in plain lines, for a command that writes other lines meanwhile.
    pub(crate) fn plain(session: &Session<'_>, what: &'static str, input: &Value) -> Progress {
        Progress::with(session, what, input, false)
    }

    fn with(session: &Session<'_>, what: &'static str, input: &Value, live: bool) -> Progress {
        let (over, ended) = mpsc::channel();
        let watcher = Arc::new(Mutex::new(Watcher::Beginning));
        let quiet = session.terminal.quiet || session.terminal.json || what.is_empty();
        let thread = (!quiet).then(|| {
            let (home, words) = (session.home.clone(), words(input));
            let watcher = watcher.clone();
            std::thread::spawn(move || {
                if ended.recv_timeout(MOMENT) == Err(RecvTimeoutError::Timeout) {
                    let mut line = LiveLine { live, shown: String::new() };
                    watch(&home, what, &words, &ended, &watcher, &mut line);
                    line.clear();
                }
            })
        });
        Progress { over: Some(over), watcher, thread }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.over = None;
        if let Ok(mut watcher) = self.watcher.lock()
            && let Watcher::Asking(breaker) = std::mem::replace(&mut *watcher, Watcher::Over)
        {
            breaker.end();
        }
        if let Some(thread) = self.thread.take() {
            // Progress is optional; its errors are ignored.
            let _ = thread.join();
        }
    }
}

/// Returns the services of an input.
fn words(input: &Value) -> Vec<String> {
    let list = input.get("names").and_then(Value::as_array);
    let names = list.into_iter().flatten().chain(input.get("name")).filter_map(Value::as_str);
    let names: Vec<String> = names.map(ToOwned::to_owned).collect();
    if names.is_empty() { vec!["all".into()] } else { names }
}

fn watch(
    home: &Home,
    what: &str,
    words: &[String],
    ended: &Receiver<()>,
    watcher: &Mutex<Watcher>,
    line: &mut LiveLine,
) {
    let Ok(Some(mut client)) = Client::connect(home) else { return };
    match (client.breaker(), watcher.lock()) {
        (Ok(breaker), Ok(mut watcher)) if !matches!(*watcher, Watcher::Over) => {
            *watcher = Watcher::Asking(breaker);
        }
        _ => return,
    }
    let mut generation = 0;
    loop {
        let input = json!({ "names": words, "timeout": TICK, "generation": generation });
        let Ok(answer) = client.call("service.wait", &input, ANSWER_LIMIT) else { return };
        let answered = Instant::now();
        let Ok(news) = serde_json::from_value::<wait::Output>(answer) else { return };
        generation = news.generation;
        line.show(what, &news.services);
        let pause = PAUSE.max(answered.elapsed() * SHARE);
        if ended.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

struct LiveLine {
    live: bool,
    /// Line without its countdown, so a plain log gets a line only for each change.
    shown: String,
}

impl LiveLine {
    fn show(&mut self, what: &str, services: &[ServiceStatus]) {
        let waiting: Vec<&ServiceStatus> =
            services.iter().filter(|s| is_waited_for(what, s)).collect();
        if waiting.is_empty() {
            return self.clear();
        }
        let text = sentence(what, &waiting);
        let mut err = std::io::stderr().lock();
        // Progress is optional; its errors are ignored.
        let _ = if self.live {
            self.shown = text.clone();
            // A wrapped line could not be rewritten: only its last row would be.
            let text = cut(&text, columns(&err));
            write!(err, "\r\x1b[K{text}").and_then(|()| err.flush())
        } else {
            let key: String = text.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect();
            if key == self.shown {
                return;
            }
            self.shown = key;
            writeln!(err, "{text}")
        };
    }

    fn clear(&mut self) {
        if self.live && !self.shown.is_empty() {
            self.shown.clear();
            let mut err = std::io::stderr().lock();
            // Progress is optional; its errors are ignored.
            let _ = write!(err, "\r\x1b[K").and_then(|()| err.flush());
        }
    }
}

/// Returns the columns of the terminal.
fn columns(terminal: impl AsFd) -> usize {
    /// Default if a terminal does not report its width.
    const USUAL: usize = 80;
    let size = rustix::termios::tcgetwinsize(terminal);
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(USUAL)
}

/// Cuts to one column less than the width: some terminals wrap when the last one is written.
fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() < columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(2)).chain(['…']).collect()
}

fn is_waited_for(what: &str, service: &ServiceStatus) -> bool {
    match service.state {
        State::Starting | State::Stopping | State::Waiting => true,
        State::Running | State::Backoff | State::Cooling => what == "to stop",
        State::Stopped | State::Failed => false,
    }
}

/// Formats as `waiting for web to stop: killed in 8 s`.
fn sentence(what: &str, waiting: &[&ServiceStatus]) -> String {
    let mut names: Vec<&str> = waiting.iter().take(MAX_NAMES).map(|s| s.name.as_str()).collect();
    let more = format!("{} more", waiting.len() - names.len());
    if waiting.len() > names.len() {
        names.push(&more);
    }
    let next = waiting.iter().find_map(|service| service.next.as_ref());
    let left = waiting.iter().filter_map(|service| service.left).sum::<u32>();
    let next = next.map(|next| format!(": stop requested, {next}")).unwrap_or_default();
    let left = if left > 0 { format!(" ({left} processes left)") } else { String::new() };
    format!("waiting for {} {what}{next}{left}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, state: &str, next: Option<&str>, left: u32) -> ServiceStatus {
        let status = json!({
            "name": name, "state": state, "restarts": 0, "wish": "down", "next": next, "left": left,
            "command": "x", "working_dir": "/", "groups": [], "added": false, "stale": false,
        });
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn it_says_what_is_waited_for() {
        let web = service("web", "stopping", Some("killed in 8 s"), 2);
        let db = service("db", "starting", None, 0);
        for (what, waiting, expected) in [
            (
                "to stop",
                vec![&web],
                "waiting for web to stop: stop requested, killed in 8 s (2 processes left)",
            ),
            ("to start", vec![&db], "waiting for db to start"),
            ("to start", vec![&db, &db, &db, &db, &db], "waiting for db, db, db, 2 more to start"),
        ] {
            assert_eq!(sentence(what, &waiting), expected);
        }
    }

    #[test]
    fn a_line_that_is_rewritten_fits_its_terminal() {
        for (columns, expected) in [(8, "waiting"), (7, "waiti…"), (2, "…"), (0, "…")] {
            assert_eq!(cut("waiting", columns), expected, "{columns} columns");
        }
    }

    #[test]
    fn what_has_arrived_is_not_waited_for() {
        for (what, state, expected) in [
            ("to stop", "running", true),
            ("to stop", "backoff", true),
            ("to stop", "stopped", false),
            ("to start", "running", false),
            ("to start", "starting", true),
            ("to start", "failed", false),
        ] {
            assert_eq!(
                is_waited_for(what, &service("web", state, None, 0)),
                expected,
                "{what} {state}"
            );
        }
    }

    #[test]
    fn an_input_names_its_services() {
        assert_eq!(words(&json!({ "names": ["a", "b"] })), ["a", "b"]);
        assert_eq!(words(&json!({ "name": "a" })), ["a"]);
        assert_eq!(words(&json!({})), ["all"]);
    }
}
