//! HTTP of the real daemon, with real sockets.

mod answers;
mod dashboard;
mod guarded;
mod listeners;
mod malformed;
mod streams;
mod tls;

use crate::control::{admin, listening};
use crate::support::{service, services};
use proctor_testkit::{Home, Http};

/// A home that listens, with two services, of which one runs and has written something.
fn two() -> Home {
    listening(&services(&[
        service("web", &["--lines", "3"], "groups: [front]"),
        service("db", &[], "autostart: false"),
    ]))
}

/// A client without a token.
fn nobody(home: &Home) -> Http {
    Http::at(home.port("http"))
}

/// A client with the token of the first start.
fn owner(home: &Home) -> Http {
    nobody(home).token(&admin(home))
}
