//! The socket and the command line, against a scripted daemon.

mod cli;
mod local;
mod script;
