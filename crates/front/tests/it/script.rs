//! A daemon with scripted responses: the real server of the socket, with a test's own answers.

use proctor_core::config::listen::{ListenAddress, Listeners};
use proctor_front::listen::{Listener, State};
use proctor_front::tcp;
use proctor_front::unix_socket::{Dispatch, serve_with};
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::{Caller, Principal, Role, TokenId};
use proctor_ops::reply::{Form, Reply};
use proctor_ops::table::{Entry, find};
use proctor_ops::text_output::Page;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::mpsc::{self, Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tempfile::TempDir;
use tokio::sync::{Notify, oneshot, watch};

pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<Value, OpError>> + Send>>;
type Script = Box<dyn Fn(&str, &Value) -> Answer + Send + Sync>;

/// Returns an immediate answer.
pub(crate) fn now(result: Result<Value, OpError>) -> Answer {
    Box::pin(std::future::ready(result))
}

/// Returns a long poll that never ends.
pub(crate) fn never() -> Answer {
    Box::pin(std::future::pending())
}

/// Known tokens: an operator's and an admin's.
pub(crate) const TOKEN: &str = "proctor_test";
pub(crate) const ADMIN: &str = "proctor_admin";

pub(crate) struct Daemon {
    pub(crate) folder: TempDir,
    calls: Arc<Mutex<Vec<(String, Value)>>>,
    callers: Arc<Mutex<Vec<Caller>>>,
    /// Address of the control port.
    pub(crate) control: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Scripted {
    script: Script,
    calls: Arc<Mutex<Vec<(String, Value)>>>,
    callers: Arc<Mutex<Vec<Caller>>>,
}

impl Dispatch for Scripted {
    fn dispatch(
        &self,
        caller: Caller,
        op: String,
        input: Value,
        form: Form,
    ) -> Pin<Box<dyn Future<Output = Result<Reply, OpError>> + Send>> {
        let answer = (self.script)(&op, &input);
        self.calls.lock().unwrap().push((op.clone(), input));
        self.callers.lock().unwrap().push(caller);
        Box::pin(async move { reply(&op, &answer.await?, form) })
    }

    fn authenticate(&self, _: Caller, presented: &str) -> Result<Principal, OpError> {
        let token = |id: &str, role| {
            Ok(Principal::Token { id: TokenId(id.into()), name: "ci".into(), role })
        };
        match presented {
            TOKEN => token("t1", Role::Operator),
            ADMIN => token("t2", Role::Admin),
            _ => Err(OpError::new(Code::Unauthenticated, "this token is not valid")),
        }
    }

    fn may_ask(&self, _: &Caller, _: &Entry, _: &Value) -> Result<(), OpError> {
        Ok(())
    }

    fn turned_away(&self, _: Caller, _: &'static str, _: &OpError) {}
}

/// Returns the scripted output in the requested form.
fn reply(op: &str, output: &Value, form: Form) -> Result<Reply, OpError> {
    match form {
        Form::Json => Ok(Reply { text: output.to_string(), ..Reply::default() }),
        Form::Page { width, paint, zone: _ } => {
            let mut page = Page::new(|| jiff::tz::TimeZone::UTC);
            let verdict = find(op).ok_or_else(|| unknown(op))?.show(output, &mut page)?;
            Ok(Reply { text: page.render(width, paint), verdict, ..Reply::default() })
        }
    }
}

impl Daemon {
    pub(crate) fn new(script: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static) -> Daemon {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("run")).unwrap();
        let listener =
            proctor_sys::socket::listen(&folder.path().join("run/proctor.sock")).unwrap();
        let (calls, callers) = <(Arc<Mutex<Vec<_>>>, Arc<Mutex<Vec<_>>>)>::default();
        let script: Script = Box::new(script);
        let scripted = Scripted { script, calls: calls.clone(), callers: callers.clone() };
        let (end, ended) = oneshot::channel();
        let (found, control) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let scripted: Arc<dyn Dispatch> = Arc::new(scripted);
            runtime.block_on(async {
                tokio::select! {
                    failed = serve_with(listener, Arc::clone(&scripted)) => panic!("{failed:?}"),
                    never = tcp::serve(anywhere(found), scripted) => match never {},
                    _ = ended => {}
                }
            });
        });
        let control = control.recv().unwrap();
        Daemon { folder, calls, callers, control, end: Some(end), thread: Some(thread) }
    }

    /// Answers one operation; everything else is unknown.
    pub(crate) fn answering(op: &'static str, answer: Value) -> Daemon {
        Daemon::new(move |asked, _| {
            now(if asked == op { Ok(answer.clone()) } else { Err(unknown(asked)) })
        })
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("run/proctor.sock")
    }

    /// Returns all requests so far.
    pub(crate) fn calls(&self) -> Vec<(String, Value)> {
        self.calls.lock().unwrap().clone()
    }

    /// Returns the callers, in the same order.
    pub(crate) fn callers(&self) -> Vec<Caller> {
        self.callers.lock().unwrap().clone()
    }

    /// Returns the input of the first call of this operation.
    pub(crate) fn input_of(&self, op: &str) -> Value {
        let calls = self.calls();
        calls
            .iter()
            .find(|(name, _)| name == op)
            .unwrap_or_else(|| panic!("{op} is not in {calls:?}"))
            .1
            .clone()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Returns a listener on any free port, and reports the port.
fn anywhere(found: mpsc::Sender<SocketAddr>) -> Listener<impl Fn(State)> {
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let (keep, wanted) =
        watch::channel(Arc::new(Listeners { tcp: ListenAddress::At(local), ..Listeners::OFF }));
    let report = move |state| {
        // Kept, so the listener does not move while the test runs.
        let _kept = &keep;
        match state {
            State::At(address) => found.send(address).unwrap(),
            State::Off | State::Trouble(_) => panic!("{state:?}"),
        }
    };
    Listener { wanted, place: Box::new(|wanted| wanted.tcp), report }
}

pub(crate) fn unknown(op: &str) -> OpError {
    OpError::new(Code::UnknownOperation, format!("not in the script: {op}"))
}

/// A service as in a response.
pub(crate) fn service(name: &str, state: &str) -> Value {
    json!({
        "name": name, "state": state, "restarts": 0, "wish": "up", "command": "npm run dev",
        "working_dir": "/srv", "groups": [], "added": false, "stale": false,
    })
}

/// A report of a change of a service.
pub(crate) fn report(name: &str, state: &str, result: &str, message: &str) -> Value {
    let mut report = service(name, state);
    report["result"] = json!(result);
    report["message"] = json!(message);
    report
}

/// A line of a log.
pub(crate) fn line(service: &str, stream: &str, text: &str) -> Value {
    json!({
        "service": service, "at": "2026-03-01T14:05:03Z", "stream": stream, "run": "5f0", "kind": "line", "text": text,
    })
}

/// Sends a message when it is dropped.
struct Told(Sender<&'static str>, &'static str);

impl Drop for Told {
    fn drop(&mut self) {
        // A test that has ended does not listen any more.
        let _ = self.0.send(self.1);
    }
}

/// A daemon that never answers `log.read`, lists at once, and holds every other request until it is released. It reports the end
/// of each request.
pub(crate) fn holding() -> (Daemon, Receiver<&'static str>, Arc<Notify>) {
    let (sender, told) = channel();
    let release = Arc::new(Notify::new());
    let held = release.clone();
    let daemon = Daemon::new(move |op, _| {
        let (sender, held) = (sender.clone(), held.clone());
        match op {
            "log.read" => Box::pin(async move {
                let _dropped = Told(sender.clone(), "poll ended");
                sender.send("poll begun").unwrap();
                std::future::pending().await
            }),
            "service.list" => now(Ok(json!({}))),
            _ => Box::pin(async move {
                let _dropped = Told(sender.clone(), "change dropped");
                sender.send("change begun").unwrap();
                held.notified().await;
                sender.send("change done").unwrap();
                Ok(json!({}))
            }),
        }
    });
    (daemon, told, release)
}
