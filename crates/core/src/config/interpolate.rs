//! Expands `${VAR}` in the texts of a configuration after the YAML was parsed, so a value can never
//! become structure.
//!
//! A `$` before any character but `{` and `$` stays as it is, because shell commands are full of
//! them. Keys of mappings are not expanded.

use super::secret::{HIDDEN, is_secret};

/// Maximum length of one expanded value; the kernel takes 128 KiB for one argument or variable.
const MAX_TEXT: usize = 1 << 20;

/// Maximum nesting. `${A:-${B:-${C}}}` is three deep; nobody reads more than a few.
const MAX_NESTING: usize = 8;

/// A text after expansion.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Expanded {
    pub text: String,
    /// The expanded text with `***` for variables whose names look secret.
    pub shown: String,
    /// The variables that were set and used.
    pub variables: Vec<String>,
}

/// The reason a text could not be expanded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    #[error("the variable '{0}' is not set")]
    Unset(String),
    #[error("the variable '{0}' is not set: {1}")]
    Demanded(String, String),
    #[error("'${{' is not closed by '}}'")]
    Unclosed,
    #[error("'${{{0}}}' is not a known form")]
    BadForm(String),
    #[error("the text is longer than {MAX_TEXT} bytes after expansion")]
    TooLong,
}

impl Failure {
    pub(super) fn help(&self) -> Option<String> {
        match self {
            Failure::Unset(name) => Some(format!(
                "set {name} in the environment or in '.env' beside the file, or write '${{{name}:-a default}}'"
            )),
            Failure::Demanded(..) | Failure::TooLong => None,
            Failure::Unclosed | Failure::BadForm(_) => Some(
                "write ${VAR}, ${VAR:-default}, ${VAR-default} or ${VAR:?message}; \
                 for a shell to see '${', write '$${'"
                    .into(),
            ),
        }
    }
}

type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Expands the variables, or reports all errors.
pub(super) fn expand(text: &str, variable: Lookup<'_>) -> Result<Expanded, Vec<Failure>> {
    let mut expansion = Expansion { variable, out: Expanded::default(), failures: Vec::new() };
    expansion.run(text, 0);
    if expansion.failures.is_empty() { Ok(expansion.out) } else { Err(expansion.failures) }
}

/// Replaces each variable with a letter, which shows the text's own structure whatever the values
/// are.
pub(super) fn without_values(text: &str) -> String {
    expand(text, &|_| Some("x".into())).map_or_else(|_| text.to_owned(), |expanded| expanded.text)
}

struct Expansion<'a> {
    variable: Lookup<'a>,
    out: Expanded,
    failures: Vec<Failure>,
}

impl Expansion<'_> {
    fn run(&mut self, text: &str, nesting: usize) {
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            self.push(&rest[..at], &rest[..at]);
            let after = &rest[at + 1..];
            if let Some(tail) = after.strip_prefix('$') {
                self.push("$", "$");
                rest = tail;
            } else if let Some(inner) = after.strip_prefix('{') {
                let Some(end) = closing(inner) else {
                    return self.failures.push(Failure::Unclosed);
                };
                self.substitute(&inner[..end], nesting);
                rest = &inner[end + 1..];
            } else {
                self.push("$", "$");
                rest = after;
            }
        }
        self.push(rest, rest);
    }

    /// Expands one variable; `inner` is the text between the braces.
    fn substitute(&mut self, inner: &str, nesting: usize) {
        let end =
            inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
        let (name, form) = inner.split_at(end);
        let bad_name = name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit());
        if bad_name || nesting >= MAX_NESTING {
            return self.failures.push(Failure::BadForm(inner.into()));
        }
        let (empty_counts, form) = match form.strip_prefix(':') {
            Some(form) => (false, form),
            None => (true, form),
        };
        let value = (self.variable)(name).filter(|value| empty_counts || !value.is_empty());
        let operator = form.chars().next();
        match (operator, value) {
            (None, _) if !empty_counts => self.failures.push(Failure::BadForm(inner.into())),
            (None | Some('-' | '?'), Some(value)) => self.put(name, &value),
            (None, None) => self.failures.push(Failure::Unset(name.into())),
            (Some('-'), None) => self.run(&form[1..], nesting + 1),
            (Some('?'), None) if form.len() == 1 => self.failures.push(Failure::Unset(name.into())),
            (Some('?'), None) => {
                self.failures.push(Failure::Demanded(name.into(), form[1..].into()));
            }
            (Some(_), _) => self.failures.push(Failure::BadForm(inner.into())),
        }
    }

    fn put(&mut self, name: &str, value: &str) {
        self.push(value, if is_secret(name, value) { HIDDEN } else { value });
        if !self.out.variables.iter().any(|known| known == name) {
            self.out.variables.push(name.into());
        }
    }

    fn push(&mut self, text: &str, shown: &str) {
        if self.out.text.len() + text.len() > MAX_TEXT {
            if !self.failures.contains(&Failure::TooLong) {
                self.failures.push(Failure::TooLong);
            }
            return;
        }
        self.out.text.push_str(text);
        self.out.shown.push_str(shown);
    }
}

/// Finds the closing brace that belongs to the one before `text`.
fn closing(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut open) = (0, 1_usize);
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'$', Some(b'$')) => at += 1,
            (b'$', Some(b'{')) => {
                open += 1;
                at += 1;
            }
            (b'}', _) if open == 1 => return Some(at),
            (b'}', _) => open -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str) -> Option<String> {
        match name {
            "A" => Some("one".into()),
            "EMPTY" => Some(String::new()),
            "API_TOKEN" => Some("hunter2".into()),
            "BIG" => Some("x".repeat(100_000)),
            _ => None,
        }
    }

    #[test]
    fn every_form_means_what_a_shell_means_by_it() {
        let table = [
            ("plain", "plain"),
            ("${A}", "one"),
            ("<${A}${A}>", "<oneone>"),
            ("${NO:-two}", "two"),
            ("${NO-two}", "two"),
            ("${EMPTY:-two}", "two"),
            ("${EMPTY-two}", ""),
            ("${EMPTY}", ""),
            ("${A:-two}", "one"),
            ("${A:?why}", "one"),
            ("${A?why}", "one"),
            ("${EMPTY?why}", ""),
            ("${NO:-}", ""),
            ("${NO:-${A}-${ALSO_NO:-x}}", "one-x"),
            ("${NO:-$${x}}", "${x}"),
            ("$$", "$"),
            ("$${A}", "${A}"),
            ("$$$${A}", "$${A}"),
            ("$HOME $(date) $1 $@ $", "$HOME $(date) $1 $@ $"),
            ("ü${A}ü", "üoneü"),
            ("a}b", "a}b"),
        ];
        for (text, want) in table {
            assert_eq!(expand(text, &variable).unwrap().text, want, "{text}");
        }
    }

    #[test]
    fn everything_wrong_with_a_text_is_said() {
        let bad = |text: &str| Failure::BadForm(text.into());
        let table = [
            (
                "${NO} ${A} ${NEITHER}",
                vec![Failure::Unset("NO".into()), Failure::Unset("NEITHER".into())],
            ),
            ("${NO:?give it}", vec![Failure::Demanded("NO".into(), "give it".into())]),
            ("${EMPTY:?give it}", vec![Failure::Demanded("EMPTY".into(), "give it".into())]),
            ("${NO:?}", vec![Failure::Unset("NO".into())]),
            ("${A", vec![Failure::Unclosed]),
            ("${}", vec![bad("")]),
            ("${1}", vec![bad("1")]),
            ("${A:+x}", vec![bad("A:+x")]),
            ("${A%/}", vec![bad("A%/")]),
            ("${A:}", vec![bad("A:")]),
            ("${#A}", vec![bad("#A")]),
        ];
        for (text, want) in table {
            assert_eq!(expand(text, &variable).unwrap_err(), want, "{text}");
        }
    }

    #[test]
    fn secrets_are_put_in_but_not_shown() {
        let out = expand("a ${API_TOKEN} ${A}", &variable).unwrap();
        assert_eq!((out.text.as_str(), out.shown.as_str()), ("a hunter2 one", "a *** one"));
        assert_eq!(out.variables, ["API_TOKEN", "A"]);
    }

    #[test]
    fn growth_and_nesting_are_bounded() {
        assert_eq!(expand(&"${BIG}".repeat(11), &variable).unwrap_err(), [Failure::TooLong]);
        let deep = format!("{}{}", "${NO:-".repeat(9), "}".repeat(9));
        assert!(matches!(expand(&deep, &variable).unwrap_err()[..], [Failure::BadForm(_)]));
        assert_eq!(expand(&"${A:-".repeat(50_000), &variable).unwrap_err(), [Failure::Unclosed]);
    }
}
