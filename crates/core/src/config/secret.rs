//! What must not be shown. By name, because a value does not say what it is; wrong in doubt, towards hiding.

/// What stands in the place of a secret.
pub const HIDDEN: &str = "***";

/// Anywhere in a name: `API_KEY`, `apikey`, `GithubToken`.
const PARTS: [&str; 7] = ["token", "secret", "passw", "passphrase", "credential", "key", "auth"];

/// Only as a whole word of a name: `DB_PASS`, but not `COMPASS_HOST`.
const WORDS: [&str; 2] = ["pass", "pwd"];

/// The shell's own names for the working directory.
const NOT_SECRET: [&str; 2] = ["pwd", "oldpwd"];

/// Does a variable, option or key of this name hold something that must not be shown?
pub fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    if NOT_SECRET.contains(&name.as_str()) {
        return false;
    }
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    PARTS.iter().any(|part| name.contains(part)) || words.any(|word| WORDS.contains(&word))
}

/// The value of the variable `name` as it may be shown.
pub fn shown_value(name: &str, value: &str) -> String {
    if looks_secret(name) { HIDDEN.into() } else { hide_url_password(value) }
}

/// Words of a command line as they may be shown: the value in `--token=x`, `TOKEN=x` and `--token x` is hidden.
pub fn shown_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut value_of_secret = false;
    let mut shown = Vec::new();
    for word in words {
        let is_option = word.starts_with('-');
        shown.push(match word.split_once('=') {
            _ if value_of_secret && !is_option => HIDDEN.into(),
            Some((name, _)) if looks_secret(name) => format!("{name}={HIDDEN}"),
            _ => hide_url_password(word),
        });
        value_of_secret = word.starts_with("--") && !word.contains('=') && looks_secret(word);
    }
    shown
}

/// `postgres://me:***@host/db` for an address with a password in it.
fn hide_url_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.into() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let Some((login, host)) = authority.rsplit_once('@') else { return text.into() };
    match login.split_once(':') {
        Some((user, _)) => format!("{scheme}://{user}:{HIDDEN}@{host}{}", &rest[authority.len()..]),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known_in_every_spelling() {
        for name in [
            "SUPERVISOR_TOKEN",
            "api_key",
            "APIKEY",
            "dbPassword",
            "AWS_SECRET_ACCESS_KEY",
            "credentials",
            "AUTH",
            "Authorization",
            "DB_PASS",
            "MYSQL_PWD",
            "passphrase",
            "--token",
            "PGPASSWORD",
        ] {
            assert!(looks_secret(name), "{name} was not taken as secret");
        }
        for name in ["PORT", "PWD", "OLDPWD", "COMPASS_HOST", "PATH", "LOG_LEVEL", "", "HOME"] {
            assert!(!looks_secret(name), "{name} was taken as secret");
        }
    }

    #[test]
    fn secret_values_are_hidden_in_words_and_addresses() {
        let table = [
            ("serve --token=abc -v", "serve --token=*** -v"),
            ("serve --password abc x", "serve --password *** x"),
            ("serve --password -v", "serve --password -v"),
            ("env API_KEY=1 run", "env API_KEY=*** run"),
            ("open postgres://me:abc@db/x?y", "open postgres://me:***@db/x?y"),
            ("open http://a/b@c:d", "open http://a/b@c:d"),
        ];
        for (words, shown) in table {
            assert_eq!(shown_words(words.split(' ')).join(" "), shown);
        }
        assert_eq!(shown_value("DATABASE_URL", "pg://u:p@h"), "pg://u:***@h");
        assert_eq!(shown_value("TOKEN", "abc"), "***");
        assert_eq!(shown_value("LEVEL", "info"), "info");
    }
}
