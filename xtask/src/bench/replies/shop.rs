//! The services in the questions: five services of a shop, with typical output.
//!
//! `web` crashed with a stack trace after some hundred lines, `site` is a dev server that is ready
//! after a second, the others run and log, with an occasional error.

use super::super::adapters::{write, write_script};
use super::super::interrupt;
use anyhow::{Context as _, Result, ensure};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(super) const NAMES: [&str; 5] = ["api", "db", "site", "web", "worker"];

/// The lines that explain the failure of `web`.
pub(super) const CRASH: [&str; 2] =
    ["TypeError: Cannot read properties of undefined (reading 'total')", "src/cart.js:42:31"];

/// The errors of the running services.
pub(super) const ERRORS: [&str; 2] =
    ["connect ECONNREFUSED 10.0.0.7:6379", "job 1290 failed: timeout after 30 s (attempt 2 of 5)"];

/// The line of `site` when it is ready.
pub(super) const READY: &str = "ready in";

/// Lines that each service has written: some minutes of a quiet day.
const LINES: usize = 400;

/// Distance of an error from the end: the last 50 lines contain it.
const AGO: usize = 30;

/// More time than `site` needs to be ready.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Shop {
    pub(super) folder: PathBuf,
    pub(super) port: u16,
}

impl Shop {
    pub(super) fn open(folder: &Path, serve: &Path) -> Result<Shop> {
        for name in NAMES.into_iter().filter(|name| *name != "site") {
            let text: String = (0..LINES).map(|number| line(name, number)).collect();
            write(&folder.join(format!("{name}.log")), &text)?;
        }
        write(&folder.join("web.err"), &trace())?;
        let port = TcpListener::bind("127.0.0.1:0").context("no port is free")?;
        let port = port.local_addr()?.port();
        for name in NAMES {
            let rest = match name {
                "site" => format!("exec {} {port}", serve.display()),
                "web" => "cat web.log; cat web.err >&2; exit 1".to_owned(),
                name => format!("cat {name}.log; exec sleep 100000"),
            };
            let text = format!("#!/bin/sh\ncd {}\n{rest}\n", folder.display());
            write_script(&folder.join(name), &text)?;
        }
        Ok(Shop { folder: folder.to_owned(), port })
    }

    /// A command as short as typical ones.
    pub(super) fn command(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    pub(super) fn is_ready(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.port)).is_ok()
    }

    /// Waits until `site` accepts connections and all output is stored.
    pub(super) fn wait(&self) -> Result<()> {
        let begin = Instant::now();
        while !self.is_ready() {
            ensure!(begin.elapsed() < REPLY_TIMEOUT, "the dev server does not get ready");
            interrupt::pause(interrupt::LOOK)?;
        }
        interrupt::pause(Duration::from_secs(1))
    }
}

fn line(name: &str, number: usize) -> String {
    let (minute, second) = (number / 60 % 60, number % 60);
    let time = format!("2026-03-01T12:{minute:02}:{second:02}.{:03}Z", number * 37 % 1000);
    let (milliseconds, user) = (number * 7 % 90 + 3, number * 31 % 997);
    let is_error = number + AGO == LINES;
    match name {
        "api" if is_error => {
            format!("{time} error POST /api/orders 500 31ms user={user} err=\"{}\"\n", ERRORS[0])
        }
        "api" | "web" => {
            let item = number * 13 % 500;
            format!("{time} info GET /{name}/items/{item} 200 {milliseconds}ms user={user}\n")
        }
        "worker" if is_error => format!("[{time}] ERROR {}\n", ERRORS[1]),
        "worker" => {
            format!("[{time}] job {} send-mail done in {milliseconds} ms\n", 1000 + number)
        }
        _ => format!(
            "{time} UTC [71] LOG:  checkpoint complete: wrote {milliseconds} buffers ({}.{}%); sync=0.0{user} s\n",
            milliseconds / 16,
            number % 10
        ),
    }
}

/// A stack trace in the format of Node.
fn trace() -> String {
    let [error, place] = CRASH;
    let mut text = format!(
        "/srv/shop/src/cart.js:42\n  return order.sum.total + shipping;\n                   ^\n\n{error}\n    \
         at renderCart (/srv/shop/{place})\n    at /srv/shop/src/routes.js:118:14\n"
    );
    for (function, file) in [
        ("Layer.handle [as handle_request]", "layer.js:95:5"),
        ("next", "route.js:149:13"),
        ("Route.dispatch", "route.js:119:3"),
        ("Layer.handle [as handle_request]", "layer.js:95:5"),
        ("/srv/shop/node_modules/express/lib/router", "index.js:284:15"),
        ("Function.process_params", "index.js:346:12"),
    ] {
        text += &format!("    at {function} (/srv/shop/node_modules/express/lib/router/{file})\n");
    }
    text + "    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)\n\nNode.js v20.20.2\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_among_the_last_lines() {
        for (name, error) in [("api", ERRORS[0]), ("worker", ERRORS[1])] {
            let found: Vec<usize> =
                (0..LINES).filter(|&number| line(name, number).contains(error)).collect();
            assert_eq!(found, [LINES - AGO], "{name}");
        }
        assert!(CRASH.iter().all(|fact| trace().contains(fact)));
    }
}
