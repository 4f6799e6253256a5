//! Assistants: what their users complain about elsewhere, each with a test that it is not so here.

mod everyday;
mod page;
mod parity;
