//! Fast path for the most frequent requests: `proctor [--home DIR] COMMAND [NAME…]`, for a command that only reads.
//!
//! They are parsed without clap and printed without decoding, because these two took longer than the rest of the command
//! (`docs/decisions/0008`). Everything else takes the usual path with the same result: options, other names, a Proctor that
//! does not respond or has another version.

use super::session::MARGIN;
use super::terminal::Terminal;
use crate::client::{CallError, Client};
use crate::protocol::TerminalLook;
use proctor_ops::error::Code;
use proctor_ops::operation::{Effect, MAX_WAIT, Meta};
use proctor_ops::table::{Entry, TABLE};
use std::ffi::OsString;
use std::path::PathBuf;

struct PlainCommand<'a> {
    home: Option<PathBuf>,
    entry: &'static Entry,
    names: Vec<&'a str>,
}

/// Returns the exit code if these words were a plain request and it was answered.
pub(crate) fn answered(words: &[OsString]) -> Option<u8> {
    let plain = PlainCommand::of(words)?;
    let terminal = Terminal::usual();
    let look = terminal.look(plain.entry)?;
    let home = super::home::usual(plain.home.as_ref()).ok()?;
    let mut client = Client::connect_at_once(&home)?;
    let code = match client.text(&plain.request(look), plain.entry.meta.timeout + MARGIN) {
        Ok((text, verdict)) => terminal.text(&text, verdict),
        // An older Proctor may not know this kind of request.
        Err(CallError::Refused(error)) if error.code == Code::BadInput => return None,
        Err(CallError::Refused(error)) => {
            terminal.error(&error);
            error.code.exit()
        }
        Err(CallError::Lost) => return None,
    };
    Some(code)
}

impl<'a> PlainCommand<'a> {
    fn of(words: &'a [OsString]) -> Option<PlainCommand<'a>> {
        let mut words = words.get(1..)?.iter().map(|word| word.to_str());
        let mut word = words.next()??;
        let mut home = None;
        if word == "--home" {
            let folder = words.next()??;
            if folder.is_empty() || folder.starts_with('-') {
                return None;
            }
            home = Some(PathBuf::from(folder));
            word = words.next()??;
        }
        let entry = TABLE.iter().find(|entry| is_plain(&entry.meta) && is_called(entry, word))?;
        let names: Vec<&str> =
            words.map(|word| word.filter(|w| is_name(w))).collect::<Option<_>>()?;
        let takes_names = field(entry).is_some();
        (names.is_empty() || takes_names).then_some(PlainCommand { home, entry, names })
    }

    fn request(&self, look: TerminalLook) -> String {
        let TerminalLook { width, colour, .. } = look;
        let width = width.map_or(String::new(), |width| format!(",\"width\":{width}"));
        let colour = if colour { ",\"colour\":true" } else { "" };
        let (op, input) = (self.entry.meta.name, self.input());
        format!(
            "{{\"op\":\"{op}\",\"input\":{input},\"page\":{{\"bytes\":true{width}{colour}}}}}\n"
        )
    }

    /// Returns the input as JSON; names need no escapes.
    fn input(&self) -> String {
        match (field(self.entry), self.names.as_slice()) {
            (None, _) | (_, []) => "{}".into(),
            (Some(field), names) => format!("{{\"{field}\":[\"{}\"]}}", names.join("\",\"")),
        }
    }
}

/// Returns true for a command of one word with a short response and no caller fields.
fn is_plain(meta: &Meta) -> bool {
    let at_once = meta.waits.is_none() && meta.timeout < MAX_WAIT;
    meta.effect == Effect::Read && meta.cli.len() == 1 && at_once && !meta.wants_caller
}

fn is_called(entry: &Entry, word: &str) -> bool {
    entry.meta.cli == [word] || entry.meta.aliases.contains(&word)
}

/// Returns the field for names: the one that its HTTP path fills.
fn field(entry: &Entry) -> Option<&'static str> {
    entry.meta.resource.map(|resource| resource.fills).filter(|field| !field.is_empty())
}

/// Returns true for characters without a meaning to clap or JSON; names of services have only these.
fn is_name(word: &str) -> bool {
    let letter =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'@');
    !word.is_empty() && !word.starts_with('-') && word.bytes().all(letter)
}

#[cfg(test)]
mod tests {
    use super::super::command_tree;
    use super::*;
    use crate::protocol::Request;
    use proctor_core::home::Home;

    fn split(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    /// Checks that a plain command means the same as in the tree of commands.
    #[track_caller]
    fn check(line: &str, plain: bool) {
        let words = split(line);
        let found = PlainCommand::of(&words);
        assert_eq!(found.is_some(), plain, "{line}");
        let Some(found) = found else { return };
        let matches = command_tree::parse(&words).unwrap();
        assert_eq!(matches.get_one::<PathBuf>("home"), found.home.as_ref(), "{line}");
        let (word, arguments) = matches.subcommand().unwrap();
        assert_eq!(found.entry.meta.cli, [word], "{line}");
        let look = TerminalLook { width: Some(80), colour: true, bytes: true };
        let request = found.request(look);
        let Request { op, input, page, .. } =
            Request::parse(request.trim_end().as_bytes()).unwrap().owned();
        assert_eq!(op, found.entry.meta.name, "{line}");
        assert_eq!(*input, found.entry.input(arguments).unwrap(), "{line}");
        assert_eq!(page, Some(look), "{line}");
    }

    #[test]
    fn a_plain_question_means_what_the_tree_of_commands_says() {
        check("proctor status web", true);
        check("proctor status web@1 my-api db_2 all", true);
        check("proctor --home /srv/app status", true);
        check("proctor --home x ls", true);
        check("proctor list", true);
        check("proctor status web --check", false);
        check("proctor --json status web", false);
        check("proctor status --home x", false);
        check("proctor status a\"b", false);
        check("proctor list web", false);
        check("proctor --home list", false);
        check("proctor --home -q list", false);
        check("proctor status -- web", false);
        check("proctor logs web", false);
        check("proctor wait web", false);
        check("proctor stop web", false);
        check("proctor config", false);
        check("proctor daemon status", false);
        check("proctor", false);
    }

    #[test]
    fn every_plain_command_is_an_operation_that_only_the_daemon_answers() {
        let home = Home { state: "/nowhere".into(), runtime: "/nowhere".into() };
        for entry in TABLE.iter().filter(|entry| is_plain(&entry.meta)) {
            let word = entry.meta.cli[0];
            check(&format!("proctor {word}"), true);
            let matches = command_tree::parse(&split(&format!("proctor {word}"))).unwrap();
            let input = entry.input(matches.subcommand().unwrap().1).unwrap();
            assert!(entry.without_daemon(&home, &input).is_none(), "{word}");
        }
    }
}
