//! Formats a command line for display with its secrets masked: it may contain a token, which a
//! status must not show.
//!
//! `secret` decides what looks secret. Values of environment variables are never passed here.

use super::secret::{shown_words, shown_words_strictly};

/// Formats a command line as one text: secrets masked, and quoted so that it splits into the same
/// words.
pub fn command_line(argv: &[String]) -> String {
    joined(shown_words(argv.iter().map(String::as_str)))
}

/// Formats the command line of a request. Shows only plain words, because any of the others may be
/// secret.
pub fn request_command_line(argv: &[String]) -> String {
    joined(shown_words_strictly(argv.iter().map(String::as_str)))
}

fn joined(words: Vec<String>) -> String {
    let quote = |word: String| {
        shlex::try_quote(&word).map_or_else(|_| word.clone(), std::borrow::Cow::into_owned)
    };
    words.into_iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_the_rest_is_not() {
        for (words, expected) in [
            (vec!["npm", "run", "dev"], "npm run dev"),
            (vec!["app", "--token=abc", "--port=3"], "app '--token=***' '--port=3'"),
            (vec!["app", "--api-key", "abc", "x"], "app --api-key '***' x"),
            (vec!["app", "--password", "--verbose"], "app --password --verbose"),
            (
                vec!["env", "DB_PASSWORD=x", "EMPTY_TOKEN=", "A=b"],
                "env 'DB_PASSWORD=***' EMPTY_TOKEN= 'A=b'",
            ),
            (vec!["psql", "postgres://me:pw@db:5432/x?y"], "psql 'postgres://me:***@db:5432/x?y'"),
            (vec!["curl", "http://h/a@b:c"], "curl http://h/a@b:c"),
            (vec!["sh", "-c", "echo a  b"], "sh -c 'echo a  b'"),
            (vec!["sh", "-c", "TOKEN=abc exec app"], "sh -c 'TOKEN=*** exec app'"),
        ] {
            let argv: Vec<String> = words.into_iter().map(Into::into).collect();
            // The quoting library decides how much is quoted; only the words matter.
            assert_eq!(shlex::split(&command_line(&argv)), shlex::split(expected), "{argv:?}");
        }
    }
}
