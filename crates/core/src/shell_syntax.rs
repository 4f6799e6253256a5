//! Finds syntax in a command text that only a shell understands.
//!
//! A command text is split into words like a shell splits it, but no shell runs it: `true && false`
//! would start `true` with two arguments and succeed. Commands given as a list of words are not
//! checked; each word is an argument.

use std::fmt;

/// A piece of shell syntax that is not quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellSyntax {
    pub kind: SyntaxKind,
    /// The piece as written: `&&`, `PORT=`, `$HOME`.
    pub token: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyntaxKind {
    /// `|`, `&&`, `;`, `>`, or a `(` at the start.
    Operator,
    /// `PORT=3` before the program.
    Assignment,
    /// `$VAR`, `${VAR}`, `$(…)` or a backquote.
    Expansion,
    /// `*`, `?`, `~/` or a line break. A program may want these unchanged.
    Pattern,
}

impl ShellSyntax {
    /// Whether the text can only be meant for a shell.
    pub fn is_certain(&self) -> bool {
        match self.kind {
            SyntaxKind::Operator | SyntaxKind::Assignment | SyntaxKind::Expansion => true,
            SyntaxKind::Pattern => false,
        }
    }

    /// Advice for the author of a service definition.
    pub fn advice(&self) -> String {
        let instead = match self.kind {
            SyntaxKind::Assignment => {
                let name = self.token.trim_end_matches('=');
                return format!("set {name} below 'env', or 'shell: true' to use /bin/sh");
            }
            SyntaxKind::Operator | SyntaxKind::Expansion | SyntaxKind::Pattern => {
                "put it in single quotes if it is an argument"
            }
        };
        format!("set 'shell: true' to use /bin/sh, or {instead}")
    }
}

impl fmt::Display for ShellSyntax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' needs a shell", self.token)
    }
}

/// Returns the first certain piece of shell syntax in a command text, or else the first likely one.
pub fn find(text: &str) -> Option<ShellSyntax> {
    let mut scan = Scan::new(text.trim());
    let mut likely = None;
    while let Some(found) = scan.next_syntax() {
        if found.is_certain() {
            return Some(found);
        }
        likely = likely.or(Some(found));
    }
    likely
}

/// Scans a text with the quoting rules of POSIX.
struct Scan<'t> {
    text: &'t str,
    at: usize,
    /// Start of the current word; `None` between words.
    word: Option<usize>,
    /// No word has ended yet.
    in_first: bool,
    /// A word like `-c` or `-e` came before, so text in double quotes may be meant for that
    /// program.
    has_script: bool,
}

impl<'t> Scan<'t> {
    fn new(text: &'t str) -> Scan<'t> {
        Scan { text, at: 0, word: None, in_first: true, has_script: false }
    }

    fn next_syntax(&mut self) -> Option<ShellSyntax> {
        while let Some(letter) = self.rest().chars().next() {
            let begin = self.at;
            self.at += letter.len_utf8();
            let found = match letter {
                ' ' | '\t' | '\r' | '\n' => self.blank(letter),
                '#' if self.word.is_none() => self.skip_comment(),
                _ => self.in_word(letter, begin),
            };
            if let Some((kind, end)) = found {
                let from = match kind {
                    SyntaxKind::Assignment => self.word.unwrap_or(begin),
                    SyntaxKind::Operator | SyntaxKind::Expansion | SyntaxKind::Pattern => begin,
                };
                let token = self.text[from..end].to_owned();
                self.at = self.at.max(end);
                return Some(ShellSyntax { kind, token: shown(kind, token) });
            }
        }
        None
    }

    /// The kind and the end of the shell syntax that starts with `letter`, if it is any.
    fn in_word(&mut self, letter: char, begin: usize) -> Option<(SyntaxKind, usize)> {
        let word = *self.word.get_or_insert(begin);
        let is_url = self.text[word..begin].contains("://");
        match letter {
            '\\' => {
                self.at += self.rest().chars().next().map_or(0, char::len_utf8);
                None
            }
            '\'' => {
                self.at += self.rest().find('\'').map_or(self.rest().len(), |end| end + 1);
                None
            }
            '"' => self.in_double_quotes(),
            '&' | ';' if is_url => None,
            '|' | '&' | ';' | '<' | '>' => Some((SyntaxKind::Operator, self.operator_end(letter))),
            '(' if begin == 0 => Some((SyntaxKind::Operator, self.at)),
            '=' if self.in_first && is_name(&self.text[word..begin]) => {
                Some((SyntaxKind::Assignment, self.at))
            }
            '`' => Some((SyntaxKind::Expansion, self.at)),
            '$' => self.expansion_end().map(|end| (SyntaxKind::Expansion, end)),
            '*' => Some((SyntaxKind::Pattern, self.at)),
            '?' if !is_url => Some((SyntaxKind::Pattern, self.at)),
            '~' if begin == word && self.rest().chars().next().is_none_or(ends_tilde) => {
                Some((SyntaxKind::Pattern, self.at))
            }
            _ => None,
        }
    }

    fn blank(&mut self, letter: char) -> Option<(SyntaxKind, usize)> {
        if let Some(begin) = self.word.take() {
            let word = &self.text[begin..self.at - 1];
            self.in_first = false;
            self.has_script |= is_script_flag(word);
        }
        (letter == '\n').then_some((SyntaxKind::Pattern, self.at))
    }

    fn skip_comment(&mut self) -> Option<(SyntaxKind, usize)> {
        self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        None
    }

    /// Inside double quotes a shell expands variables and commands; nothing else is special there.
    fn in_double_quotes(&mut self) -> Option<(SyntaxKind, usize)> {
        let mut found = None;
        while let Some(letter) = self.rest().chars().next() {
            self.at += letter.len_utf8();
            let is_expansion = match letter {
                '"' => return found,
                '\\' => {
                    self.at += self.rest().chars().next().map_or(0, char::len_utf8);
                    false
                }
                '$' => self.expansion_end().is_some(),
                '`' => true,
                _ => false,
            };
            if is_expansion && !self.has_script && found.is_none() {
                found = Some((SyntaxKind::Expansion, self.expansion_end().unwrap_or(self.at)));
            }
        }
        found
    }

    fn operator_end(&self, letter: char) -> usize {
        let doubled = letter != '<' && self.rest().starts_with(letter);
        self.at + usize::from(doubled)
    }

    /// After a `$`: the end of the name that a shell would expand, if any.
    fn expansion_end(&self) -> Option<usize> {
        let rest = self.rest();
        match rest.chars().next()? {
            '(' | '{' => Some(self.at + 1),
            letter if letter == '_' || letter.is_ascii_alphabetic() => {
                let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
                Some(self.at + end.unwrap_or(rest.len()))
            }
            _ => None,
        }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or("")
    }
}

/// The text of a piece for use in a message.
fn shown(kind: SyntaxKind, token: String) -> String {
    match (kind, token.as_str()) {
        (SyntaxKind::Pattern, "\n") => "a line break".into(),
        (SyntaxKind::Assignment, _) => token,
        // Inside quotes the text starts with the quote.
        (SyntaxKind::Expansion, text) => match text.rfind(['$', '`']) {
            Some(at) => text[at..].to_owned(),
            None => token,
        },
        (SyntaxKind::Operator | SyntaxKind::Pattern, _) => token,
    }
}

fn is_name(text: &str) -> bool {
    let is_legal = |c: char| c == '_' || c.is_ascii_alphanumeric();
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(is_legal)
}

fn ends_tilde(letter: char) -> bool {
    letter == '/' || letter.is_whitespace()
}

/// `-c`, `-lc`, `-e`, `--eval`: the next word is a script for the program.
fn is_script_flag(word: &str) -> bool {
    let short = word.starts_with('-') && !word.starts_with("--") && word.len() <= 4;
    matches!(word, "--eval" | "--command" | "--exec") || (short && word.ends_with(['c', 'e']))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expected`: the token, prefixed with `?` if it is only likely; empty if there is none.
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let found = match find(text) {
            None => String::new(),
            Some(found) if found.is_certain() => found.token,
            Some(found) => format!("?{}", found.token),
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn operators_that_are_not_quoted_are_found() {
        for (text, token) in [
            ("true && false", "&&"),
            ("a || b", "||"),
            ("a | b", "|"),
            ("cd x;ls", ";"),
            ("echo x > f", ">"),
            ("echo x >> f", ">>"),
            ("make 2>&1", ">"),
            ("cat < f", "<"),
            ("cat <<EOF\nit's\nEOF", "<"),
            ("sleep 5 &", "&"),
            ("(cd x; make)", "("),
            ("sh -c 'a; b' > log", ">"),
        ] {
            check(text, token);
        }
    }

    #[test]
    fn assignments_stand_before_the_program() {
        check("PORT=3 node x", "PORT=");
        check("A=b", "A=");
        check("env PORT=3 node x", "");
        check("node --port=3", "");
        check("./a=b", "");
        check("3=x y", "");
    }

    #[test]
    fn expansions_count_within_double_quotes_unless_they_are_meant_for_an_inner_program() {
        check("echo $HOME", "$HOME");
        check("test -n \"${HOME}\"", "${");
        check("echo \"a $(date) b\"", "$(");
        check("echo `date`", "`");
        check("echo '$HOME' \\$HOME", "");
        check("sh -c \"echo $HOME\"", "");
        check("bash -lc \"for i in 1 2; do echo $i; done\"", "");
        check("grep '^x$' f", "");
        check("grep ^x$ f", "");
        check("awk '{print $1}' f", "");
        check("echo 5$ $5", "");
    }

    #[test]
    fn quoted_escaped_and_commented_pieces_are_arguments() {
        check("echo 'a && b' \"c | d; e > f\" g\\;h", "");
        check("find . -exec rm {} \\;", "");
        check("make test # and > more", "");
        check("node app.js --color#x", "");
        check("curl http://localhost:1/?a=1&b=2;c", "");
        check("python -m http.server (8000)", "");
        check("it's", "");
        check("echo \"", "");
        check("", "");
        check("serve\\\n  --quick", "");
    }

    #[test]
    fn patterns_and_line_breaks_are_only_likely() {
        check("ls *.txt", "?*");
        check("ls a?", "??");
        check("ls ~/x", "?~");
        check("git show HEAD~ HEAD~2", "");
        check("serve\n  --quick\n", "?a line break");
        check("rm -f *.log && make", "&&");
    }

    #[test]
    fn the_advice_fits_what_was_found() {
        let advice = |text: &str| find(text).unwrap().advice();
        assert!(advice("PORT=3 node x").contains("set PORT below 'env'"));
        assert!(advice("a | b").contains("single quotes"));
        assert!(advice("a | b").contains("shell: true"));
        assert_eq!(find("a | b").unwrap().to_string(), "'|' needs a shell");
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_looked_at(text in "[-a=$&|;<>()'\"\\\\#~*? \n`{ä]{0,24}") {
            if let Some(found) = find(&text) {
                assert!(!found.token.is_empty());
            }
        }
    }
}
