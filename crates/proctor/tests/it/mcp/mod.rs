//! Assistants: frequent complaints about other servers, each with a test.

mod crowds;
mod everyday;
mod halves;
mod page;
mod paging;
mod parity;
mod pipes;
mod projects;
mod web;
