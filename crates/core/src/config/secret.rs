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
    if looks_secret(name) { HIDDEN.into() } else { shown_text(value) }
}

/// A token of Proctor: this prefix and as many characters of base64 for URLs.
const TOKEN_PREFIX: &str = "proctor_";
const TOKEN_LENGTH: usize = 43;

/// Returns true if the text has a token that Proctor made in it.
pub fn has_proctor_token(text: &str) -> bool {
    text.match_indices(TOKEN_PREFIX).any(|(at, prefix)| {
        let rest = &text.as_bytes()[at + prefix.len()..];
        let of_token = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        rest.iter().take(TOKEN_LENGTH).filter(of_token).count() == TOKEN_LENGTH
    })
}

/// Words of a command line as they may be shown: each as a text, and the word after `--token` not at all.
pub fn shown_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut named = false;
    let show = |word: &'a str| {
        let hidden = named && !word.starts_with('-');
        named = names_next(word);
        if hidden { HIDDEN.into() } else { shown_text(word) }
    };
    words.into_iter().map(show).collect()
}

/// A text as it may be shown. It may be a word, an address, a header or a script: what follows `--token`, `TOKEN=` and
/// `Authorization: ` is hidden in it, and logins in addresses are.
pub fn shown_text(text: &str) -> String {
    shown(text, true)
}

/// What stands in quotes is a text again; quotes in that are not looked into.
fn shown(text: &str, into_quotes: bool) -> String {
    if let Some(header) = header(text) {
        return header;
    }
    let mut out = String::with_capacity(text.len());
    let mut named = false;
    for piece in pieces(text) {
        let is_space = piece.starts_with(char::is_whitespace);
        match quoted(piece).filter(|_| into_quotes) {
            _ if named && !is_space && !piece.starts_with('-') => out.push_str(HIDDEN),
            Some((quote, inner)) => out.extend([quote, &shown(inner, false), quote]),
            None => out.push_str(&shown_piece(piece)),
        }
        named = names_next(piece) || (named && is_space);
    }
    out
}

/// Is this an option whose value is the next word, and must not be shown?
fn names_next(word: &str) -> bool {
    word.starts_with('-') && !word.contains(['=', ' ']) && looks_secret(word)
}

/// `Authorization: ***`
fn header(text: &str) -> Option<String> {
    let (name, _) = text.split_once(": ")?;
    (name.chars().all(is_of_name) && looks_secret(name)).then(|| format!("{name}: {HIDDEN}"))
}

/// The text in its order: white space, words, and what quotes hold together.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut begin, mut quote, mut in_space) = (0, None, false);
    // A quote that nothing closes is a letter like any other.
    let last = ['\'', '"'].map(|quote| text.rfind(quote).unwrap_or(0));
    let opens = |at: usize, c: char| match c {
        '\'' => at < last[0],
        '"' => at < last[1],
        _ => false,
    };
    for (at, c) in text.char_indices() {
        let space = quote.is_none() && c.is_whitespace();
        if space != in_space && at > begin {
            pieces.push(&text[begin..at]);
            begin = at;
        }
        in_space = space;
        quote = match (quote, c) {
            (None, c) if opens(at, c) => Some(c),
            (Some(open), _) if open == c => None,
            (quote, _) => quote,
        };
    }
    pieces.push(&text[begin..]);
    pieces
}

/// The inside of a piece that is all in quotes.
fn quoted(piece: &str) -> Option<(&str, &str)> {
    let quote = piece.get(..1).filter(|quote| matches!(*quote, "'" | "\""))?;
    Some((quote, piece[1..].strip_suffix(quote)?))
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// The value of every `TOKEN=value`: to the end of the piece, or of the parameter of an address.
fn shown_piece(piece: &str) -> String {
    let (mut shown, mut rest) = (String::new(), piece);
    while let Some(at) = rest.find('=') {
        let (before, value) = (&rest[..at], &rest[at + 1..]);
        let outside = before.trim_end_matches(is_of_name);
        let parameter = outside.ends_with(['?', '&']);
        // Looked for only where it is skipped: once for each byte, however many `=` there are.
        let end = match looks_secret(&before[outside.len()..]) {
            true if parameter => value.find(['&', '#']).unwrap_or(value.len()),
            true => value.len(),
            false => 0,
        };
        shown.push_str(&rest[..=at]);
        shown.push_str(if end > 0 { HIDDEN } else { "" });
        rest = &value[end..];
    }
    shown.push_str(rest);
    hide_logins(&shown)
}

/// `postgres://me:***@host/db` for an address with a password in it, `https://***@host/` for one with a token.
fn hide_logins(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        shown.push_str(before);
        rest = after;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        let Some((login, _)) = authority.rsplit_once('@') else { continue };
        match login.split_once(':') {
            Some((user, _)) => shown.extend([user, ":", HIDDEN]),
            None if before.ends_with("http://") || before.ends_with("https://") => {
                shown.push_str(HIDDEN);
            }
            None => shown.push_str(login),
        }
        rest = &rest[login.len()..];
    }
    shown + rest
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
            ("app -password abc", "app -password ***"),
            ("env EMPTY_TOKEN= A=b", "env EMPTY_TOKEN= A=b"),
            ("get http://h/?a=b&token=abc&c=d#e", "get http://h/?a=b&token=***&c=d#e"),
            ("--peers=http://u:abc@a,http://v:abc@b", "--peers=http://u:***@a,http://v:***@b"),
            ("clone https://abc@forge.example/x", "clone https://***@forge.example/x"),
            ("clone ssh://git@forge.example/x", "clone ssh://git@forge.example/x"),
            ("app --options user=me,password=abc,d", "app --options user=me,password=***"),
        ];
        for (words, shown) in table {
            assert_eq!(shown_words(words.split(' ')).join(" "), shown);
        }
        assert_eq!(shown_value("DATABASE_URL", "pg://u:p@h"), "pg://u:***@h");
        assert_eq!(shown_value("TOKEN", "abc"), "***");
        assert_eq!(shown_value("LEVEL", "info"), "info");
        assert_eq!(shown_value("OPTIONS", "-v --token=abc"), "-v --token=***");
    }

    #[test]
    fn secrets_are_found_in_scripts_headers_and_quotes_and_the_rest_stays_as_it_is() {
        let table = [
            ("TOKEN=abc exec app", "TOKEN=*** exec app"),
            ("TOKEN=\"abc abc\" exec app", "TOKEN=*** exec app"),
            ("app --token abc;  echo  a", "app --token ***  echo  a"),
            ("app --token 'abc abc' x", "app --token *** x"),
            ("Authorization: Bearer abc", "Authorization: ***"),
            ("curl -H 'X-Api-Key: abc' http://h", "curl -H 'X-Api-Key: ***' http://h"),
            ("sh -c \"app --token abc\"", "sh -c \"app --token ***\""),
            ("app 'x --token abc", "app 'x --token ***"),
            ("echo 'a  b' \"c\" it's", "echo 'a  b' \"c\" it's"),
            ("while :; do date; sleep 2; done", "while :; do date; sleep 2; done"),
            ("", ""),
        ];
        for (text, shown) in table {
            assert_eq!(shown_text(text), shown);
        }
        // Long and full of what is looked at: neither deep nor slow.
        for hostile in ["'\"", "=", "?a=", "?token=", "://", "://a@", ": "] {
            let text = hostile.repeat(200_000);
            assert_eq!(shown_text(&text).contains(HIDDEN), hostile == "?token=", "{hostile}");
        }
    }
}
