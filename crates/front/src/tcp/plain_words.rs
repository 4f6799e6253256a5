//! Plain words for `nc` and `telnet`: those of the command line with the same arguments, and a few of this port.

use super::parsed_line::{OperationCall, ParsedLine, ReplyFormat, Shape};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};
use proctor_ops::error::{Code, OpError};
use proctor_ops::table::{Entry, TABLE};
use std::fmt::Write as _;

/// Short forms of two-word commands.
const SHORT: [(&str, &[&str]); 1] = [("shutdown", &["daemon", "stop"])];

/// Operations that choose the only or the primary service if none is named; a command line requires a name.
const DEFAULT_SERVICE: [&str; 2] = ["service.restart", "service.stop"];

/// Words that are not operations.
const OWN: [(&str, &str); 3] = [
    ("auth TOKEN", "Authenticate for the rest of this connection"),
    ("help [COMMAND]", "Show this list, or the arguments of a command"),
    ("quit", "Close this connection"),
];

pub(super) fn understand(text: &str) -> (ReplyFormat, Result<ParsedLine, OpError>) {
    let Some(words) = shlex::split(text) else {
        return (ReplyFormat::Words, Err(OpError::bad_input("a quote is not closed")));
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = match words.as_slice() {
        [] => Ok(ParsedLine::Nothing),
        ["quit" | "exit"] => Ok(ParsedLine::Quit),
        ["auth", token] => Ok(ParsedLine::Auth((*token).to_owned())),
        ["auth", ..] => Err(OpError::bad_input("auth: the token is missing").help("auth TOKEN")),
        ["help"] => Ok(ParsedLine::Help(overview())),
        ["help", about @ ..] => return operation(&[about, &["--help"]].concat()),
        words => return operation(words),
    };
    (ReplyFormat::Words, said)
}

fn operation(words: &[&str]) -> (ReplyFormat, Result<ParsedLine, OpError>) {
    let short = SHORT.iter().find(|(word, _)| words.first() == Some(word));
    let words: Vec<&str> = match short {
        Some((_, long)) => long.iter().chain(&words[1..]).copied().collect(),
        None => words.to_vec(),
    };
    let Some((entry, rest)) = find(&words) else {
        return (ReplyFormat::Words, Err(unknown(&words)));
    };
    match command(entry).try_get_matches_from(rest) {
        Ok(matches) => {
            let manner =
                if matches.get_flag("json") { ReplyFormat::Json } else { ReplyFormat::Words };
            let call = entry.input(&matches).map(|input| OperationCall {
                op: entry.meta.name.to_owned(),
                input,
                token: None,
                shape: Shape::AsItIs,
            });
            (manner, call.map(ParsedLine::Call))
        }
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            (ReplyFormat::Words, Ok(ParsedLine::Help(error.to_string())))
        }
        Err(error) => {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
            (ReplyFormat::Words, Err(OpError::bad_input(text)))
        }
    }
}

/// Returns the operation of the first words, and the remaining words.
fn find<'a>(words: &'a [&'a str]) -> Option<(&'static Entry, &'a [&'a str])> {
    let named = |entry: &&Entry| match entry.meta.cli {
        [word] => words.first().is_some_and(|it| it == word || entry.meta.aliases.contains(it)),
        cli => words.starts_with(cli),
    };
    let entry = TABLE.iter().find(named)?;
    Some((entry, &words[entry.meta.cli.len()..]))
}

/// Built for each line: a few arguments cost less than keeping all of them.
fn command(entry: &Entry) -> Command {
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue);
    let command = Command::new(entry.meta.name)
        .bin_name(entry.meta.cli.join(" "))
        .no_binary_name(true)
        .disable_version_flag(true)
        .after_help(entry.meta.details)
        .arg(json.help("Respond with one line of JSON"));
    let command = (entry.augment())(command);
    match DEFAULT_SERVICE.contains(&entry.meta.name) {
        true => command.mut_arg("names", |names| names.required(false)),
        false => command,
    }
}

fn overview() -> String {
    let mut rows: Vec<(String, &str)> =
        TABLE.iter().map(|entry| (entry.meta.cli.join(" "), entry.meta.summary)).collect();
    let about = |long: &[&str]| TABLE.iter().find(|entry| entry.meta.cli == long);
    rows.extend(SHORT.iter().filter_map(|(word, long)| {
        about(long).map(|entry| ((*word).to_owned(), entry.meta.summary))
    }));
    rows.extend(OWN.iter().map(|(word, what)| ((*word).to_owned(), *what)));
    let width = rows.iter().map(|(word, _)| word.len()).max().unwrap_or(0);
    let mut text = String::from("One command per line, as after `proctor` on the command line:\n");
    for (word, what) in rows {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {word:width$}  {what}");
    }
    text.push_str("An empty line ends a response. Programs send JSON: \"Status\", {\"op\":\"service.status\",\"input\":{}}\n");
    text
}

fn unknown(words: &[&str]) -> OpError {
    let word = words.first().unwrap_or(&"");
    OpError::new(Code::UnknownOperation, format!("unknown command '{word}'"))
        .help("`help` lists the commands")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[track_caller]
    fn check(text: &str, op: &str, input: Value) {
        match understand(text) {
            (ReplyFormat::Words, Ok(ParsedLine::Call(call))) => {
                assert_eq!((call.op.as_str(), call.input), (op, input), "{text}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn words_are_those_of_the_command_line() {
        check("status", "service.status", json!({}));
        check("status web", "service.status", json!({ "names": ["web"] }));
        check("restart web", "service.restart", json!({ "names": ["web"] }));
        check("stop web", "service.stop", json!({ "names": ["web"] }));
        check("restart", "service.restart", json!({ "names": [] }));
        check("stop", "service.stop", json!({ "names": [] }));
        check("start web", "service.start", json!({ "names": ["web"] }));
        check("logs web -n 5", "log.read", json!({ "services": ["web"], "tail": 5 }));
        check("logs --grep 'a b' web", "log.read", json!({ "services": ["web"], "grep": "a b" }));
        check("ls", "service.list", json!({}));
        check("daemon status", "daemon.status", json!({}));
        check("shutdown", "daemon.stop", json!({}));
        let args = json!({ "names": ["web"], "args": ["--port", "1"] });
        check("restart web --args '--port 1'", "service.restart", args);
    }

    #[test]
    fn every_operation_has_words_and_a_help() {
        let text = overview();
        for entry in TABLE {
            let words = entry.meta.cli.join(" ");
            let first: Vec<&str> = words.split(' ').collect();
            let (found, rest) = find(&first).unwrap();
            assert_eq!((found.meta.name, rest.len()), (entry.meta.name, 0));
            assert!(text.contains(&format!("  {words} ")), "{words} is missing in:\n{text}");
            let (_, help) = understand(&format!("help {words}"));
            let Ok(ParsedLine::Help(help)) = help else { panic!("{words}: {help:?}") };
            assert!(help.contains(entry.meta.summary), "{help}");
            assert_eq!(understand(&format!("{words} --help")).1.unwrap(), ParsedLine::Help(help));
        }
    }

    #[test]
    fn json_can_be_asked_for_with_words() {
        let (manner, said) = understand("status web --json");
        assert_eq!(manner, ReplyFormat::Json);
        assert!(matches!(said, Ok(ParsedLine::Call(_))), "{said:?}");
    }

    #[test]
    fn mistakes_are_told_as_on_the_command_line() {
        for (text, part) in [
            ("stauts", "unknown command 'stauts'"),
            ("daemon", "unknown command 'daemon'"),
            ("remove", "required"),
            ("status --chekc", "--check"),
            ("logs 'web", "quote"),
            ("auth", "the token is missing"),
            ("help nothing", "unknown command 'nothing'"),
        ] {
            let (manner, said) = understand(text);
            let error = said.unwrap_err();
            assert_eq!(manner, ReplyFormat::Words);
            assert!(error.message.contains(part), "{text}: {}", error.message);
        }
        assert_eq!(understand("quit").1.unwrap(), ParsedLine::Quit);
        assert_eq!(understand("auth abc").1.unwrap(), ParsedLine::Auth("abc".to_owned()));
        assert_eq!(understand("''").1.unwrap_err().code, Code::UnknownOperation);
    }
}
