//! Assistants: what their users complain about elsewhere, each with a test that it is not so here.

mod crowds;
mod everyday;
mod halves;
mod page;
mod paging;
mod parity;
mod pipes;
mod projects;
mod web;
