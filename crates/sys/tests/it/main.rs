//! `sys` against the real kernel.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod beneath;
mod spawn;
