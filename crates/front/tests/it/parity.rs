//! Checks that all ways to send a request give the same input: words of the command line, the same words at the control port, and
//! the general form of both sockets. Generated from the table, argument by argument.

use crate::cli::{command, said};
use crate::script::{Daemon, now};
use clap::{Arg, Command};
use proctor_core::home::Home;
use proctor_ops::table::{Entry, TABLE};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;

/// Commands that combine several operations, or end Proctor and wait for that. Their requests have tests of their own.
const COMPOSED: [&str; 6] =
    ["service.up", "service.down", "log.read", "daemon.stop", "daemon.upgrade", "config.show"];

/// Values of which one is valid for every argument.
const VALUES: [&str; 8] = ["web", "1", "A=b", "TERM", "30s", "7d", "viewer", "/x"];

fn parser(entry: &Entry) -> Command {
    (entry.augment())(Command::new("x").no_binary_name(true).disable_help_flag(true))
}

/// Returns the ways to write an argument.
fn written(arg: &Arg) -> Vec<Vec<String>> {
    let flag = arg.get_long().map(|long| format!("--{long}"));
    if !arg.get_action().takes_values() {
        return flag.into_iter().map(|flag| vec![flag]).collect();
    }
    let possible: Vec<String> =
        arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    let values = if possible.is_empty() { VALUES.map(str::to_owned).to_vec() } else { possible };
    let last = arg.is_last_set().then(|| "--".to_owned());
    let with = |value: String| flag.clone().or(last.clone()).into_iter().chain([value]).collect();
    values.into_iter().map(with).collect()
}

/// Returns words with this argument and the required ones, and nothing else.
fn words(entry: &Entry, arg: Option<&Arg>) -> Option<Vec<String>> {
    let parser = parser(entry);
    let must = parser.get_arguments().filter(|it| it.is_required_set());
    let must: Vec<&Arg> =
        must.filter(|it| arg.is_none_or(|arg| arg.get_id() != it.get_id())).collect();
    let mut all = vec![Vec::new()];
    // The last argument of the line is also the last in our list.
    for part in must.into_iter().chain(arg) {
        let ways = written(part);
        all = all
            .iter()
            .flat_map(|begin: &Vec<String>| {
                ways.iter().map(move |way| [begin.as_slice(), way.as_slice()].concat())
            })
            .collect();
    }
    all.into_iter().find(|words| parser.clone().try_get_matches_from(words).is_ok())
}

/// Returns every line that the table allows with one argument.
fn lines(entry: &Entry) -> Vec<Vec<String>> {
    let parser = parser(entry);
    let with_each = parser.get_arguments().map(|arg| {
        let id = arg.get_id();
        // An argument that needs another is tested with that other.
        words(entry, Some(arg)).or_else(|| {
            let mut others = parser.get_arguments().filter(|it| it.get_id() != id);
            others.find_map(|other| {
                let mut line = words(entry, Some(other))?;
                line.extend(written(arg).into_iter().next()?);
                parser.clone().try_get_matches_from(&line).ok().map(|_| line)
            })
        })
    });
    words(entry, None).into_iter().chain(with_each.flatten()).collect()
}

/// Returns the first input of this operation, without the fields that only a local caller can add.
#[track_caller]
fn arrived(daemon: &Daemon, op: &str, begin: usize) -> Value {
    let calls = daemon.calls();
    let call = calls[begin..].iter().find(|(name, _)| name == op);
    let mut input =
        call.unwrap_or_else(|| panic!("{op} is not in {:?}", &calls[begin..])).1.clone();
    if let Value::Object(fields) = &mut input {
        fields.remove("environment");
        fields.remove("base_dir");
        fields.remove("from_base");
    }
    input
}

fn at_control(daemon: &Daemon, line: &str) {
    let mut stream = TcpStream::connect(daemon.control).unwrap();
    writeln!(stream, "{line}").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    stream.read_to_string(&mut String::new()).unwrap();
}

fn at_socket(daemon: &Daemon, op: &str, input: &Value) {
    let mut stream = UnixStream::connect(daemon.socket()).unwrap();
    writeln!(stream, "{}", json!({ "op": op, "input": input })).unwrap();
    BufReader::new(stream).read_line(&mut String::new()).unwrap();
}

#[test]
fn the_same_words_mean_the_same_everywhere() {
    let daemon = Daemon::new(|_, _| now(Ok(json!({}))));
    let home = Home::locate(Some(daemon.folder.path()), 0, &|_| None).unwrap();
    let mut seen = 0;
    for entry in TABLE {
        let op = entry.meta.name;
        let parser = parser(entry);
        let lines = lines(entry);
        let least = parser.get_arguments().count();
        assert!(lines.len() > least.saturating_sub(1), "{op}: only {lines:?} of {least} arguments");
        for line in lines {
            seen += 1;
            let matches = parser.clone().try_get_matches_from(&line).unwrap();
            let meant = entry.input(&matches).unwrap();
            let all: Vec<&str> =
                entry.meta.cli.iter().copied().chain(line.iter().map(String::as_str)).collect();

            let begin = daemon.calls().len();
            at_control(&daemon, &all.join(" "));
            assert_eq!(arrived(&daemon, op, begin), meant, "{all:?} at the control port");

            let begin = daemon.calls().len();
            at_control(&daemon, &json!({ "op": op, "input": meant }).to_string());
            assert_eq!(arrived(&daemon, op, begin), meant, "{all:?} in the general form");

            let begin = daemon.calls().len();
            at_socket(&daemon, op, &meant);
            assert_eq!(arrived(&daemon, op, begin), meant, "{all:?} at the unix socket");

            if !COMPOSED.contains(&op) && entry.without_daemon(&home, &meant).is_none() {
                // A caller that may cancel the operation requests its id.
                let mut meant = meant;
                if entry.meta.attended {
                    meant["background"] = json!(true);
                }
                let begin = daemon.calls().len();
                let mut words = vec!["--json"];
                words.extend(&all);
                said(command(daemon.folder.path(), &words));
                assert_eq!(arrived(&daemon, op, begin), meant, "{all:?} on the command line");
            }
        }
    }
    assert!(seen > TABLE.len() * 2, "only {seen} lines were tried");
}
