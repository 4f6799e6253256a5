//! The commands and variables that network callers may use: `security.execute`.
//!
//! An entry allows exactly its words. `make test` with one more word is another command: `-f`,
//! `--eval` and `SHELL=` can each run any program. A pattern covers words that may vary. It matches
//! an option or an assignment only if the entry spells that part out.

use super::problem::{TextPosition, quoted};
use super::read::{Layer, Reader};
use super::secret::shown_strictly;
use super::value::{DisplayText, Value};
use std::fmt;

/// Matches any characters in a word.
const STAR: char = '*';
/// As the last word: any number of words that `*` matches.
const MANY: &str = "**";
/// As the last word: any words at all.
const ANYTHING: &str = "...";

const ALLOWED: &str = "security.execute.allowed";
const VARIABLES: &str = "security.execute.env";

/// The lists of `security.execute`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Execute {
    pub commands: Vec<CommandPattern>,
    pub variables: Vec<VariablePattern>,
}

/// An entry of `security.execute.allowed`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPattern {
    /// The program and words after it; never empty.
    words: Vec<String>,
    rest: FurtherArguments,
}

/// The words allowed after those that an entry spells out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FurtherArguments {
    Nothing,
    Plain,
    Anything,
}

/// An entry of `security.execute.env`: a name, or one with `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariablePattern(String);

impl Execute {
    pub const NOTHING: Execute = Execute { commands: Vec::new(), variables: Vec::new() };

    /// Parses both lists from the texts of a configuration; an error describes the expected form.
    pub fn parse(commands: &[&str], variables: &[&str]) -> Result<Execute, &'static str> {
        let commands = commands.iter().map(|text| CommandPattern::parse(text));
        let variables = variables.iter().map(|name| VariablePattern::parse(name));
        Ok(Execute {
            commands: commands.collect::<Result<_, _>>()?,
            variables: variables.collect::<Result<_, _>>()?,
        })
    }

    pub fn allows(&self, argv: &[String]) -> bool {
        self.commands.iter().any(|pattern| pattern.matches(argv))
    }

    /// Returns the entry whose fixed words start the command, so that an error can name it.
    pub fn beginning(&self, argv: &[String]) -> Option<&CommandPattern> {
        self.commands.iter().find(|pattern| {
            let mut fixed = pattern.words.iter().take_while(|word| !word.contains(STAR));
            let mut words = argv.iter();
            fixed.all(|word| words.next() == Some(word))
        })
    }

    pub fn allows_variable(&self, name: &str) -> bool {
        self.allows_any_shell_command()
            || self.variables.iter().any(|pattern| matches(&pattern.0, name))
    }

    /// A caller that may run any shell command can also set variables and change the folder.
    pub fn allows_any_shell_command(&self) -> bool {
        let is_shell = |words: &[String]| words == ["/bin/sh"] || words == ["/bin/sh", "-c"];
        self.commands
            .iter()
            .any(|pattern| pattern.rest == FurtherArguments::Anything && is_shell(&pattern.words))
    }
}

impl VariablePattern {
    fn parse(name: &str) -> Result<VariablePattern, &'static str> {
        match name.is_empty() || name.contains(['=', '\0']) {
            true => Err("the name of a variable"),
            false => Ok(VariablePattern(name.to_owned())),
        }
    }
}

impl CommandPattern {
    fn parse(text: &str) -> Result<CommandPattern, &'static str> {
        let mut words = shlex::split(text).unwrap_or_default();
        let rest = match words.last().map(String::as_str) {
            Some(MANY) => FurtherArguments::Plain,
            Some(ANYTHING) => FurtherArguments::Anything,
            Some(_) | None => FurtherArguments::Nothing,
        };
        if rest != FurtherArguments::Nothing {
            words.pop();
        }
        match words.first() {
            None => Err("a command"),
            Some(program) if program.contains(STAR) => Err("a program without '*'"),
            Some(_) if words.iter().any(|word| word == MANY || word == ANYTHING) => {
                Err("'**' or '...' as the last word only")
            }
            Some(_) => Ok(CommandPattern { words, rest }),
        }
    }

    pub fn matches(&self, argv: &[String]) -> bool {
        let count = self.words.len();
        let Some((first, more)) = argv.split_at_checked(count) else { return false };
        self.matches_words(first)
            && match self.rest {
                FurtherArguments::Nothing => more.is_empty(),
                FurtherArguments::Plain => more.iter().all(|word| matches("*", word)),
                FurtherArguments::Anything => true,
            }
    }

    fn matches_words(&self, words: &[String]) -> bool {
        self.words.iter().zip(words).all(|(pattern, word)| matches(pattern, word))
    }
}

/// Formats the entry as in the configuration.
impl fmt::Display for CommandPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words.join(" "))?;
        match self.rest {
            FurtherArguments::Nothing => Ok(()),
            FurtherArguments::Plain => write!(f, " {MANY}"),
            FurtherArguments::Anything => write!(f, " {ANYTHING}"),
        }
    }
}

/// Whether a word matches a pattern. `*` never matches a `=`, a leading `-` or a `..` between
/// slashes.
fn matches(pattern: &str, word: &str) -> bool {
    if !pattern.contains(STAR) {
        return pattern == word;
    }
    let climbs = word.split('/').any(|part| part == "..");
    let is_option = pattern.starts_with(STAR) && word.starts_with('-');
    let assignments = |text: &str| text.matches('=').count();
    !climbs
        && !is_option
        && assignments(pattern) == assignments(word)
        && fits(pattern.as_bytes(), word.as_bytes())
}

/// Matches by retrying the last star at each later position; time grows with the product of the
/// lengths.
fn fits(pattern: &[u8], word: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while seen < word.len() {
        if pattern.get(at) == Some(&(STAR as u8)) {
            at += 1;
            retry = Some((at, seen));
        } else if pattern.get(at) == Some(&word[seen]) {
            (at, seen) = (at + 1, seen + 1);
        } else if let Some((after, from)) = retry {
            (at, seen) = (after, from + 1);
            retry = Some((after, from + 1));
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == STAR as u8)
}

pub(super) fn read(reader: &mut Reader<'_>, own: &Layer, start: TextPosition) -> Execute {
    let spot = |key: &str| own.get(key).and_then(|found| found.place).unwrap_or(start);
    let words = |key: &str| match own.get(key).map(|found| &found.value) {
        Some(Value::Words(words)) => words.clone(),
        _ => Vec::<DisplayText>::new(),
    };
    let mut execute = Execute::NOTHING;
    let mut refuse = |key: &str, word: &DisplayText, expected: &str| {
        let found = quoted(&shown_strictly(&word.shown));
        let message = format!("supervisor.{key}: found {found}, expected {expected}");
        reader.problem(spot(key), message, None);
    };
    for word in words(ALLOWED) {
        match CommandPattern::parse(&word.text) {
            Ok(pattern) => execute.commands.push(pattern),
            Err(expected) => refuse(ALLOWED, &word, expected),
        }
    }
    for word in words(VARIABLES) {
        match VariablePattern::parse(&word.text) {
            Ok(pattern) => execute.variables.push(pattern),
            Err(expected) => refuse(VARIABLES, &word, expected),
        }
    }
    execute
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        shlex::split(text).unwrap()
    }

    #[test]
    fn an_entry_allows_its_words_and_what_its_patterns_match() {
        let check = |entry: &str, allowed: &[&str], refused: &[&str]| {
            let pattern = CommandPattern::parse(entry).unwrap();
            for (commands, expected) in [(allowed, true), (refused, false)] {
                for command in commands {
                    assert_eq!(pattern.matches(&words(command)), expected, "{entry}: {command}");
                }
            }
        };
        let hostile = [
            "make test -f x.mk",
            "make test --eval=x",
            "make test SHELL=/tmp/x",
            "make test V=$(shell id)",
            "make test other",
            "make",
            "make testing",
            "/tmp/make test",
        ];
        check("make test", &["make test", "'make' 'test'"], &hostile);
        let one =
            ["make test -f", "make test --eval=x", "make test A=b", "make test", "make test a b"];
        check("make test *", &["make test unit", "make test a/b", "make test ''"], &one);
        check(
            "make test V=*",
            &["make test V=1", "make test V="],
            &["make test V=a=b", "make test W=1"],
        );
        let many = ["pytest", "pytest a", "pytest a b/c"];
        check("pytest **", &many, &["pytest -p evil", "pytest a -p", "pytest a=b", "pytest ../x"]);
        check(
            "tool --name=*",
            &["tool --name=a", "tool --name=-x"],
            &["tool --name=a=b", "tool --n"],
        );
        check("tool tests/*.py", &["tool tests/a.py"], &["tool tests/a.txt", "tool tests/../x.py"]);
        check("tool a*b*c", &["tool abc", "tool aXbbYc"], &["tool abcd", "tool ac", "tool acb"]);
        check("/bin/sh -c ...", &["/bin/sh -c 'x; y' sh -z A=b", "/bin/sh -c"], &["/bin/sh -x"]);
    }

    #[test]
    fn an_entry_that_could_not_be_meant_is_no_command() {
        for entry in ["", "it's", "**", "...", "* test", "./* a", "make ** test", "make ... x"] {
            assert!(CommandPattern::parse(entry).is_err(), "{entry}");
        }
    }

    #[test]
    fn variables_are_allowed_by_their_names() {
        let execute = |commands: &[&str], names: &[&str]| Execute::parse(commands, names).unwrap();
        let some = execute(&["make test"], &["MODE", "APP_*"]);
        for (name, expected) in
            [("MODE", true), ("APP_X", true), ("PYTHONPATH", false), ("XMODE", false), ("", false)]
        {
            assert_eq!(some.allows_variable(name), expected, "{name}");
        }
        assert!(execute(&["/bin/sh -c ..."], &[]).allows_variable("PATH"));
        assert!(!execute(&["/bin/sh -c", "/bin/sh -c true"], &[]).allows_variable("PATH"));
    }
}
