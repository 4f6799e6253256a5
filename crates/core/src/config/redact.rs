//! A command line as it may be shown: it may carry a token, a status must not.
//!
//! What looks secret is decided in `secret`. Values of environment variables never get this far.

use super::secret::{shown_words, shown_words_strictly};

/// A command line as one text, secrets masked, quoted so that it can be read back as the same words.
pub fn command_line(argv: &[String]) -> String {
    joined(shown_words(argv.iter().map(String::as_str)))
}

/// The command line of a request: only plain words of it are shown, because nobody can know which of the others are secret.
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
            // How much is quoted is up to the quoting library; the words are ours.
            assert_eq!(shlex::split(&command_line(&argv)), shlex::split(expected), "{argv:?}");
        }
    }
}
