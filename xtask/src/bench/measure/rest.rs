//! The status of a service over HTTP compared with a bare axum server that sends as many bytes,
//! each under `wrk`.
//!
//! Both have one thread. The difference is Proctor's work for each request: authentication,
//! authorization, state, JSON.

use super::super::adapter::{Adapter, Case};
use super::super::book::{Book, Measure, Port};
use super::super::options::Plan;
use super::super::scratch::Scratch;
use super::super::session::{SOCKET, Session};
use super::super::{interrupt, release};
use super::crowd::listening;
use super::{Programs, ROTATE};
use crate::step::output;
use anyhow::{Context as _, Result, ensure};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The server that Proctor is compared with.
pub(crate) const BARE: &str = "bare axum";

/// A busy monitoring system and a few people.
const CONNECTIONS: &str = "16";
const SECONDS: &str = "5";
const QUICK_SECONDS: &str = "1";

pub(crate) struct Rest<'a> {
    pub(crate) scratch: &'a Scratch,
    pub(crate) programs: &'a Programs,
    pub(crate) plan: &'a Plan,
}

impl Rest<'_> {
    pub(crate) fn measure(&self, who: &str, adapter: &dyn Adapter, book: &mut Book) -> Result<()> {
        let wrk = Wrk::install(self.scratch, self.plan.quick)?;
        let bare = release(&["--package", "proctor-front", "--example", "bare"])?;
        let folder = self.scratch.fresh(who)?;
        let socket = folder.join(SOCKET).display().to_string();
        let case =
            Case { folder, services: 1, command: self.programs.idle(&socket), rotate: ROTATE };
        let mut session = Session::launch(adapter, case)?;
        session.all_begun()?;
        session.settle(self.plan.settle)?;
        let ports = listening(adapter, &session.case)?;
        let http = ports.into_iter().find(|(port, _)| *port == Port::Http);
        let (_, address) = http.context("it does not serve HTTP")?;
        // CPU and memory require reading every process of the service, which is not the work of a
        // server.
        let path = format!("/api/v1/services/{}?no_usage=true", session.case.name(0));
        let length = body_length(address, &path)?;
        let bare = Bare::start(&bare, length)?;
        for (who, url) in
            [(who, format!("http://{address}{path}")), (BARE, format!("http://{}/", bare.address))]
        {
            interrupt::check()?;
            book.add(Measure::Requests, who, wrk.requests_per_second(&url)?);
        }
        Ok(())
    }
}

struct Wrk {
    folder: PathBuf,
    seconds: &'static str,
}

impl Wrk {
    fn install(scratch: &Scratch, quick: bool) -> Result<Wrk> {
        let folder = scratch.debian("wrk", &["libluajit-5.1"])?;
        Ok(Wrk { folder, seconds: if quick { QUICK_SECONDS } else { SECONDS } })
    }

    fn requests_per_second(&self, url: &str) -> Result<f64> {
        let mut command = Command::new(self.folder.join("usr/bin/wrk"));
        command.args(["--threads", "1", "--connections", CONNECTIONS]);
        command.args(["--duration", &format!("{}s", self.seconds), url]);
        command.env("LD_LIBRARY_PATH", libraries(&self.folder)?);
        let said = output(command)?;
        ensure!(!said.contains("Non-2xx"), "not every answer was good:\n{said}");
        let line = said.lines().find_map(|line| line.strip_prefix("Requests/sec:"));
        line.and_then(|number| number.trim().parse().ok())
            .with_context(|| format!("wrk said:\n{said}"))
    }
}

/// The library folder of a Debian package, named after the machine's architecture.
fn libraries(folder: &Path) -> Result<PathBuf> {
    let lib = folder.join("usr/lib");
    let below =
        std::fs::read_dir(&lib).with_context(|| format!("cannot read {}", lib.display()))?;
    let mut folders = below.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    folders
        .find(|path| path.to_string_lossy().ends_with("-gnu"))
        .context("wrk came without libraries")
}

/// Length of the response that is requested repeatedly.
fn body_length(address: SocketAddr, path: &str) -> Result<usize> {
    let mut stream = TcpStream::connect(address).context("cannot connect")?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").context("an answer without a body")?;
    Ok(body.len())
}

/// The bare server; stopped on drop.
struct Bare {
    server: Child,
    address: SocketAddr,
}

impl Bare {
    fn start(program: &Path, length: usize) -> Result<Bare> {
        let mut command = Command::new(program);
        command.arg(length.to_string()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut server = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
        let mut line = String::new();
        let said = server.stdout.take().context("its output is a pipe")?;
        BufReader::new(said).read_line(&mut line).context("the bare server prints no address")?;
        let address = line.trim().parse().with_context(|| format!("no address: {line:?}"))?;
        Ok(Bare { server, address })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // It may already have exited.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
