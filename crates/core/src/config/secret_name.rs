//! Recognises the names of variables, options, headers and fields that hold secrets. In doubt it
//! hides.
//!
//! A name is split into words (`DB_PASS`, `dbPass`, `--db-pass`), because short words are parts of
//! harmless ones.

use super::secret_value::{is_number, is_plain, is_switch};

/// Secret anywhere in a name: `APIKEY`, `accesstoken`.
const PARTS: [&str; 9] =
    ["token", "secret", "passw", "passphrase", "credential", "key", "auth", "cookie", "bearer"];

/// Secret as a word of a name: `DB_PASS`, but not `COMPASS_HOST`.
const WORDS: [&str; 30] = [
    "pass",
    "passcode",
    "pwd",
    "pw",
    "pat",
    "jwt",
    "jws",
    "jwe",
    "salt",
    "pepper",
    "pin",
    "otp",
    "totp",
    "mfa",
    "hmac",
    "psk",
    "pem",
    "pfx",
    "sas",
    "csrf",
    "xsrf",
    "cred",
    "creds",
    "mnemonic",
    "connstr",
    "cvv",
    "ssn",
    "htpasswd",
    "sshpass",
    "kubeconfig",
];

/// Secret as a word, unless the value is a number or a switch: `--seed 42`, `SESSION_STORE=…`.
const WEAK_WORDS: [&str; 10] = [
    "session",
    "sessionid",
    "sid",
    "seed",
    "nonce",
    "signature",
    "private",
    "license",
    "licence",
    "webhook",
];

/// Words that contain part of a secret name by accident, and the shell's names for the working
/// directory.
const INNOCENT: [&str; 22] = [
    "author",
    "authors",
    "coauthor",
    "authority",
    "keyboard",
    "keyword",
    "keywords",
    "keymap",
    "keyframe",
    "monkey",
    "turkey",
    "hockey",
    "tokenizer",
    "passwordless",
    "compass",
    "encompass",
    "bypass",
    "overpass",
    "underpass",
    "trespass",
    "surpass",
    "multipass",
];
const WHOLE_NAMES: [&str; 2] = ["pwd", "oldpwd"];

/// Suffixes that state the type of the value; they count if the value looks like that type.
const OF_PATHS: [&str; 5] = ["file", "path", "dir", "folder", "location"];
const OF_NUMBERS: [&str; 18] = [
    "ttl",
    "timeout",
    "expiry",
    "expires",
    "expiration",
    "lifetime",
    "age",
    "interval",
    "size",
    "length",
    "count",
    "limit",
    "rounds",
    "days",
    "hours",
    "minutes",
    "seconds",
    "rotation",
];
const OF_KINDS: [&str; 8] =
    ["alg", "algorithm", "type", "mode", "method", "scheme", "provider", "format"];

/// Whether a variable, option or key of this name holds a secret.
pub fn looks_secret(name: &str) -> bool {
    let words = words(name);
    is_strong(name, &words) || words.iter().any(|word| WEAK_WORDS.contains(&word.as_str()))
}

/// Suffixes that only secrets have: `X-Api-Key`, `PGPASSWORD`, but not the hosts `auth` and
/// `keycloak`.
const ENDS: [&str; 10] = [
    "authorization",
    "password",
    "passwd",
    "passphrase",
    "token",
    "secret",
    "apikey",
    "cookie",
    "bearer",
    "pass",
];
const END_WORDS: [&str; 9] =
    ["key", "pwd", "pw", "pat", "jwt", "pin", "otp", "credential", "credentials"];

/// Whether the end of a name announces a secret and not a port, tag or path.
pub(super) fn names_a_secret(name: &str) -> bool {
    let words = words(name);
    let last = words.last().map_or("", String::as_str);
    let ends = END_WORDS.contains(&last) || ENDS.iter().any(|end| last.ends_with(end));
    ends && is_strong(name, &words)
}

/// Whether this value of a variable, option or key of this name is secret.
pub fn is_secret(name: &str, value: &str) -> bool {
    let words = words(name);
    if value.is_empty() || is_switch(value) {
        return false;
    }
    if !is_strong(name, &words) {
        let weak = words.iter().any(|word| WEAK_WORDS.contains(&word.as_str()));
        return weak && !is_number(value);
    }
    let last = words.last().map_or("", String::as_str);
    let is_path =
        value.starts_with(['/', '~']) || value.starts_with("./") || value.starts_with("../");
    let ordinary = (OF_PATHS.contains(&last) && is_path)
        || (OF_NUMBERS.contains(&last) && is_number(value))
        || (OF_KINDS.contains(&last) && is_plain(value));
    !ordinary
}

fn is_strong(name: &str, words: &[String]) -> bool {
    if WHOLE_NAMES.contains(&name.to_ascii_lowercase().as_str()) {
        return false;
    }
    let public = words.iter().any(|word| word == "public");
    let part =
        |word: &String| PARTS.iter().any(|part| word.contains(part) && !(public && *part == "key"));
    let whole = words.concat();
    let innocent = words.iter().any(|word| INNOCENT.contains(&word.as_str()));
    words.iter().any(|word| {
        let innocent = INNOCENT.contains(&word.as_str());
        let known = part(word) || WORDS.contains(&word.as_str()) || word.ends_with("pass");
        !innocent && known
    }) || (!innocent
        && !public
        && ["apikey", "passw", "accesskey"].iter().any(|it| whole.contains(it)))
}

/// Returns the words of a name in lower case: `GITHUB_PAT`, `githubPat` and `--github-pat` have the
/// same.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_was_lower = false;
    for c in name.chars() {
        let begins = before_was_lower && c.is_ascii_uppercase();
        before_was_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        if begins || !c.is_ascii_alphanumeric() {
            words.push(String::new());
        }
        if c.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(c.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
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
            "GITHUB_PAT",
            "JWT",
            "COOKIE",
            "Set-Cookie",
            "BEARER",
            "SALT",
            "PASSWORD_SALT",
            "dbPw",
            "--github-pat",
            "githubPat",
            "SESSION_ID",
            "connect.sid",
            "PRIVATE",
            "OTP",
            "X-CSRF-Token",
            "HMAC",
            "WEBHOOK_URL",
            "LICENSE",
            "signature",
            "pin",
            "--requirepass",
            "SMTPPASS",
        ] {
            assert!(looks_secret(name), "{name} was not taken as secret");
            assert!(is_secret(name, "hunter2"), "{name}=hunter2 was shown");
        }
        for name in [
            "PORT",
            "PWD",
            "OLDPWD",
            "COMPASS_HOST",
            "--bypass",
            "PATH",
            "LOG_LEVEL",
            "",
            "HOME",
            "GIT_AUTHOR_NAME",
            "AUTHOR",
            "KEYBOARD",
            "MONKEY",
            "PUBLIC_KEY",
            "PATTERN",
            "SPIN",
            "HOST",
            "OPTIONS",
            "USER",
            "RUST_LOG",
            "SIDE",
        ] {
            assert!(!looks_secret(name), "{name} was taken as secret");
        }
    }

    #[test]
    fn an_ordinary_value_stays_visible_where_the_name_says_what_it_is() {
        for (name, value) in [
            ("USE_AUTH", "true"),
            ("TOKEN", ""),
            ("TOKEN_TTL", "3600"),
            ("TOKEN_TIMEOUT", "30s"),
            ("KEY_FILE", "/etc/ssl/a.pem"),
            ("SESSION_TIMEOUT", "30"),
            ("SEED", "42"),
            ("AUTH_TYPE", "oauth2"),
            ("JWT_ALGORITHM", "RS256"),
            ("COOKIE_SECURE", "off"),
        ] {
            assert!(!is_secret(name, value), "{name}={value} was hidden");
        }
        for (name, value) in [
            ("TOKEN", "3600"),
            ("KEY_FILE", "hunter2"),
            ("TOKEN_TTL", "hunter2"),
            ("AUTH_TYPE", "s3cr3t-x9"),
            ("SESSION", "abcdef"),
            ("PIN", "1234"),
        ] {
            assert!(is_secret(name, value), "{name}={value} was shown");
        }
    }
}
