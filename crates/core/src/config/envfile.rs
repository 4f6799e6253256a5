//! Parses env files: `KEY=VALUE` lines, as shells and many tools write them.
//!
//! Supports a leading `export `, comments, blank lines, single quotes (literal), double quotes
//! (`\n`, `\r`, `\t`, `\"`, `\\`, `\$`), and quoted values over several lines. There is
//! deliberately no interpolation: a `$` in a password stays a `$`.

use super::problem::{Problem, TextPosition};

/// Maximum size in bytes; a larger file is not an env file.
pub const MAX_TEXT: usize = 1 << 20;

/// A file with more errors than this is some other kind of file.
const MAX_PROBLEMS: usize = 20;

/// One variable of an env file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub value: String,
    /// From 1.
    pub line: u32,
}

/// Parses the text of an env file; `file` names it in problems. The last value of a repeated name
/// wins.
pub fn parse(file: &str, text: &str) -> Result<Vec<Variable>, Vec<Problem>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = Lines { rest: text, line: 1 };
    let mut variables = Vec::new();
    let mut problems = Vec::new();
    if text.len() > MAX_TEXT {
        let message = format!("the file has {} bytes; the maximum is {MAX_TEXT}", text.len());
        return Err(vec![TextPosition::START.problem(file, message, None)]);
    }
    while !lines.rest.is_empty() && problems.len() < MAX_PROBLEMS {
        let line = lines.line;
        match lines.variable() {
            Ok(Some((name, value))) => variables.push(Variable { name, value, line }),
            Ok(None) => {}
            Err(message) => {
                problems.push(TextPosition { line, column: 1 }.problem(file, message, None))
            }
        }
    }
    if problems.is_empty() { Ok(variables) } else { Err(problems) }
}

/// Whether a name is valid. Shells reject dots and dashes, but programs read such names.
pub fn is_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(legal)
}

/// The rest of the text, and the number of its first line.
struct Lines<'a> {
    rest: &'a str,
    line: u32,
}

impl<'a> Lines<'a> {
    /// Reads one line, or the lines of a quoted value.
    fn variable(&mut self) -> Result<Option<(String, String)>, String> {
        let here = self.rest.split('\n').next().unwrap_or_default();
        let code = here.trim();
        if code.is_empty() || code.starts_with('#') {
            self.take_line();
            return Ok(None);
        }
        let Some(equals) = here.find('=') else {
            self.take_line();
            // The line is not shown, because env files hold secrets.
            return Err("expected KEY=VALUE, found no '='".into());
        };
        let name = here[..equals].trim();
        let name = name.strip_prefix("export ").map_or(name, str::trim).to_string();
        self.rest = &self.rest[equals + 1..];
        let value = self.value()?;
        if !is_name(&name) {
            return Err("the text before '=' is not a valid variable name".into());
        }
        if value.contains('\0') {
            return Err(format!("the value of '{name}' contains a NUL byte"));
        }
        Ok(Some((name, value)))
    }

    fn value(&mut self) -> Result<String, String> {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        let Some(quote) = self.rest.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
            let line = self.take_line();
            return Ok(without_comment(line).trim_end().to_string());
        };
        let Some((value, length)) = quoted_value(&self.rest[1..], quote) else {
            self.take_line();
            return Err(format!("the value's {quote} is not closed"));
        };
        let (taken, rest) = self.rest.split_at(length + 1);
        self.line += line_ends(taken);
        self.rest = rest;
        match self.take_line().trim() {
            tail if tail.is_empty() || tail.starts_with('#') => Ok(value),
            _ => {
                Err(format!("expected the end of the line after the {quote} that closes the value"))
            }
        }
    }

    fn take_line(&mut self) -> &'a str {
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.rest = rest;
        self.line += 1;
        line
    }
}

fn line_ends(text: &str) -> u32 {
    u32::try_from(text.matches('\n').count()).expect("the text is at most MAX_TEXT bytes")
}

/// Removes a comment. `#` starts one at the beginning of a value and after white space.
fn without_comment(line: &str) -> &str {
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        if c == '#' && before.is_whitespace() {
            return &line[..at];
        }
        before = c;
    }
    line
}

/// Returns the value up to the closing quote, and its length in bytes including that quote.
fn quoted_value(text: &str, quote: char) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if c == quote {
            return Some((value, at + 1));
        }
        if c != '\\' || quote == '\'' {
            value.push(c);
            continue;
        }
        match chars.next()?.1 {
            'n' => value.push('\n'),
            'r' => value.push('\r'),
            't' => value.push('\t'),
            escaped @ ('"' | '\\' | '$') => value.push(escaped),
            other => value.extend(['\\', other]),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_written() {
        type Want = &'static [(&'static str, &'static str, u32)];
        let table: &[(&str, Want)] = &[
            ("A=1\nB=2", &[("A", "1", 1), ("B", "2", 2)]),
            ("\n# c\n  export A = 1 # note \r\n", &[("A", "1", 3)]),
            ("A=", &[("A", "", 1)]),
            ("A=#c", &[("A", "", 1)]),
            ("A=a#b", &[("A", "a#b", 1)]),
            ("A=b=c", &[("A", "b=c", 1)]),
            ("A=\"x\\ny\\\"\\\\ \\q\" # c\nB=1", &[("A", "x\ny\"\\ \\q", 1), ("B", "1", 2)]),
            ("A=\"a\\tb\\rc\\$d\"", &[("A", "a\tb\rc$d", 1)]),
            ("A='x\\n$B \"'", &[("A", "x\\n$B \"", 1)]),
            (
                "A=\"one\ntwo\"\nB='three\n'\nC=4",
                &[("A", "one\ntwo", 1), ("B", "three\n", 3), ("C", "4", 5)],
            ),
            ("\u{feff}A=ü ${B} $C", &[("A", "ü ${B} $C", 1)]),
            ("a.b-c=1\nA=1\nA=2", &[("a.b-c", "1", 1), ("A", "1", 2), ("A", "2", 3)]),
            ("", &[]),
        ];
        for (text, want) in table {
            let got = parse(".env", text).unwrap();
            let got: Vec<_> =
                got.iter().map(|v| (v.name.as_str(), v.value.as_str(), v.line)).collect();
            assert_eq!(got, *want, "{text:?}");
        }
    }

    #[test]
    fn every_wrong_line_is_named() {
        let text = "GOOD=1\nnonsense\n1A=x\nB='open\nC=\"x\" y\nD=a\0b\n=x\nE='z";
        let problems = parse("/etc/app.env", text).unwrap_err();
        let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "/etc/app.env:2:1: expected KEY=VALUE, found no '='",
                "/etc/app.env:3:1: the text before '=' is not a valid variable name",
                "/etc/app.env:4:1: expected the end of the line after the ' that closes the value",
            ]
        );
        let open = parse("f", "A=1\nB=\"x\nC=2\nD=a\0b\n=x").unwrap_err();
        let shown: Vec<String> = open.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "f:2:1: the value's \" is not closed",
                "f:4:1: the value of 'D' contains a NUL byte",
                "f:5:1: the text before '=' is not a valid variable name",
            ]
        );
        assert!(parse("f", &"#".repeat(MAX_TEXT + 1)).is_err());
    }
}
