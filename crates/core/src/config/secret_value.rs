//! Recognises secrets by their form: tokens of known services, and texts that look random.
//!
//! Hexadecimal hashes and UUIDs are not hidden: they name commits, images and runs.

/// Prefixes of tokens from other services, as their secret scanners know them.
const PREFIXES: [&str; 36] = [
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xapp-",
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "pk_live_",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "npm_",
    "pypi-",
    "dop_v1_",
    "hf_",
    "SG.",
    "eyJ",
    "proctor_",
    "AGE-SECRET-KEY-",
    "whsec_",
    "shpat_",
    "dckr_pat_",
    "lin_api_",
    "tskey-",
    "pat_",
    "glsa_",
    "hvs.",
];

/// Minimum length after such a prefix: every real token has it, and few other words do.
const MIN_AFTER_PREFIX: usize = 10;

/// Minimum length of a random text; shorter ones are versions, names and abbreviations.
const MIN_RANDOM: usize = 20;

/// Whether a word has the form of a secret.
pub(super) fn is_secret_word(word: &str) -> bool {
    let known = PREFIXES.iter().any(|prefix| {
        let rest = word.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.len() >= MIN_AFTER_PREFIX && !is_plain(rest))
    });
    known || looks_random(word)
}

/// Whether a word mixes letters of both cases and digits at random.
fn looks_random(word: &str) -> bool {
    let of_token =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '=' | '.' | '~');
    if word.len() < MIN_RANDOM || !word.chars().all(of_token) || is_uuid(word) {
        return false;
    }
    let longest = word.split(|c: char| !c.is_ascii_alphanumeric()).max_by_key(|part| part.len());
    let Some(part) = longest.filter(|part| part.len() >= MIN_RANDOM) else { return false };
    let has = |class: fn(&char) -> bool| part.chars().any(|c| class(&c));
    let mixed =
        has(char::is_ascii_uppercase) && has(char::is_ascii_lowercase) && has(char::is_ascii_digit);
    mixed && changes_of_class(part) * 5 >= part.len()
}

/// Counts the changes between lower case, upper case and digits. A capital at the start of a word
/// does not count.
fn changes_of_class(text: &str) -> usize {
    let class = |c: char| match c {
        'a'..='z' => 0,
        'A'..='Z' => 1,
        _ => 2,
    };
    let classes: Vec<u8> = text.chars().map(class).collect();
    classes.windows(2).filter(|pair| pair[0] != pair[1] && *pair != [1, 0]).count()
}

fn is_uuid(word: &str) -> bool {
    let lengths: Vec<usize> = word.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && word.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

/// True, false and their other spellings.
pub(super) fn is_switch(value: &str) -> bool {
    let known = ["true", "false", "yes", "no", "on", "off", "none", "null"];
    known.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Whether a value is a number, a size or a duration: `42`, `1.5`, `512Mi`, `1h30m`.
pub(super) fn is_number(value: &str) -> bool {
    let unit_is_short =
        value.split(|c: char| c.is_ascii_digit() || c == '.').all(|unit| unit.len() <= 3);
    value.starts_with(|c: char| c.is_ascii_digit())
        && unit_is_short
        && value.chars().all(|c| c.is_ascii_alphanumeric() || c == '.')
        && value.len() <= 12
}

/// Whether this is a word, a name, a version or a number: `production`, `web-1`, `x86_64`,
/// `v1.2.3`, `30s`.
pub(super) fn is_plain(word: &str) -> bool {
    word.split(|c: char| !c.is_alphanumeric()).all(is_plain_part)
}

fn is_plain_part(part: &str) -> bool {
    /// Maximum length of a word, and of one with digits inside (`utf8mb4`).
    const WORD: usize = 24;
    const MIXED: usize = 8;
    let runs = runs(part);
    match runs.as_slice() {
        [] => true,
        [only] => only.len() <= WORD && !is_jumbled(only),
        [first, second] if first.starts_with(char::is_alphabetic) => {
            first.len() <= WORD && second.len() <= 4 && !is_jumbled(first)
        }
        [_, second] => second.len() <= 3,
        _ => is_number(part) || (runs.len() <= 4 && part.len() <= MIXED),
    }
}

/// Whether a word has more inner capitals than a name of three words.
fn is_jumbled(letters: &str) -> bool {
    let chars: Vec<char> = letters.chars().collect();
    chars.windows(2).filter(|pair| pair[0].is_lowercase() && pair[1].is_uppercase()).count() > 3
}

/// Splits into runs of letters and of digits.
fn runs(part: &str) -> Vec<&str> {
    let (mut runs, mut begin) = (Vec::new(), 0);
    let mut before: Option<bool> = None;
    for (at, c) in part.char_indices() {
        let digit = c.is_numeric();
        if before.is_some_and(|before| before != digit) {
            runs.push(&part[begin..at]);
            begin = at;
        }
        before = Some(digit);
    }
    runs.push(&part[begin..]);
    runs.retain(|run| !run.is_empty());
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_their_form_and_ordinary_words_are_not_taken_for_them() {
        for word in [
            "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
            "github_pat_11AAAAAAA0aBcDeFgHiJ_kLm",
            "AKIAIOSFODNN7EXAMPLE",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP",
            "xoxb-123456789012-aBc1dEf2gHi3jKl4",
            "sk-proj-a1B2c3D4e5F6g7H8i9",
            "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY9",
            "Zm9vYmFyOjEyMzQ1Njc4OTBhYmNkZWY=",
        ] {
            assert!(is_secret_word(word), "{word} is shown");
        }
        for word in [
            "node_modules",
            "x86_64-unknown-linux-gnu",
            "2026-01-02T03:04:05Z",
            "sha256",
            "MyApplicationConfiguration2Factory",
            "8f14e45fceea167a5a36dedd4bea2543",
            "123e4567-e89b-12d3-a456-426614174000",
            "com.example.project.ServiceImplementation",
            "sk-learn",
            "npm_config_cache",
            "postgres-15-alpine-2026",
            "production",
            "PYTHONUNBUFFERED",
            "eyJ",
            "pypi-server-image",
        ] {
            assert!(!is_secret_word(word), "{word} is hidden");
        }
    }

    #[test]
    fn plain_words_are_those_of_command_lines() {
        for word in [
            "production",
            "web-1",
            "v1.2.3",
            "python3",
            "x86_64",
            "utf8mb4",
            "30s",
            "1h30m",
            "512Mi",
            "server.js",
            "k8s",
            "i18n",
            "MyService",
            "SIGTERM",
            "0.0.0.0",
            "--max-old-space-size",
            "log4j",
            "es2020",
            "RS256",
            "größe",
        ] {
            assert!(is_plain(word), "{word} is hidden");
        }
        for word in [
            "s3cr3t-12-x",
            "p4ssw0rd",
            "h4x0r9z1",
            "aB3dE5fG7",
            "Tr0ub4dor",
            "abcdefghijklmnopqrstuvwxyzabc",
        ] {
            assert!(!is_plain(word), "{word} is shown");
        }
    }
}
