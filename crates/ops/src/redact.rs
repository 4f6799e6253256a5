//! Secrets in what is shown: a command line may carry a token, a status must not.
//!
//! Values of environment variables never get this far at all.

/// A command line as one text, secrets masked, quoted so that it can be read back as the same words.
pub(crate) fn command_line(argv: &[String]) -> String {
    let words = mask(argv);
    let quoted: Vec<String> = words
        .iter()
        .map(|word| {
            shlex::try_quote(word).map_or_else(|_| word.clone(), std::borrow::Cow::into_owned)
        })
        .collect();
    quoted.join(" ")
}

const MASK: &str = "***";

fn mask(argv: &[String]) -> Vec<String> {
    let mut previous_names_secret = false;
    let mut out = Vec::with_capacity(argv.len());
    for word in argv {
        if previous_names_secret && !word.starts_with('-') {
            out.push(MASK.to_owned());
            previous_names_secret = false;
            continue;
        }
        previous_names_secret = word.starts_with('-') && !word.contains('=') && looks_secret(word);
        out.push(mask_word(word));
    }
    out
}

/// A word may be a whole script (`sh -c '…'`): each piece of it is looked at.
fn mask_word(word: &str) -> String {
    word.split_inclusive(char::is_whitespace)
        .map(|piece| {
            let trimmed = piece.trim_end();
            mask_piece(trimmed) + &piece[trimmed.len()..]
        })
        .collect()
}

fn mask_piece(word: &str) -> String {
    match word.split_once('=') {
        Some((name, value)) if is_name(name) && looks_secret(name) && !value.is_empty() => {
            format!("{name}={MASK}")
        }
        _ => mask_url(word),
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// The password of `scheme://user:password@host`.
fn mask_url(word: &str) -> String {
    let masked = word.split_once("://").and_then(|(scheme, rest)| {
        let host = rest.find(['/', '?', '#', ' ']).unwrap_or(rest.len());
        let at = rest[..host].rfind('@')?;
        let (user, _) = rest[..at].split_once(':')?;
        Some(format!("{scheme}://{user}:{MASK}{}", &rest[at..]))
    });
    masked.unwrap_or_else(|| word.to_owned())
}

fn looks_secret(name: &str) -> bool {
    const WORDS: [&str; 9] = [
        "token",
        "secret",
        "password",
        "passwd",
        "passphrase",
        "credential",
        "api-key",
        "api_key",
        "apikey",
    ];
    const ENDINGS: [&str; 6] = ["-key", "_key", "-auth", "_auth", "-pass", "_pass"];
    let lower = name.to_ascii_lowercase();
    WORDS.iter().any(|word| lower.contains(word)) || ENDINGS.iter().any(|end| lower.ends_with(end))
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
