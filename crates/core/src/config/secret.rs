//! Masks secrets in texts: variables, command lines, URLs, headers, JSON, scripts.
//!
//! `secret_name` and `secret_value` define a secret. Untrusted texts (commands in the audit, wrong
//! values in errors, env files) are masked strictly: only plain words are shown.

use super::secret_name::names_a_secret;
pub use super::secret_name::{is_secret, looks_secret};
use super::secret_option::PrecedingWords;
use super::secret_value::{is_plain, is_secret_word};
use std::borrow::Cow;

/// The replacement for a secret.
pub const HIDDEN: &str = "***";

/// Returns the value of the variable `name` with secrets masked.
pub fn shown_value(name: &str, value: &str) -> String {
    if is_secret(name, value) { HIDDEN.into() } else { shown_text(value) }
}

/// Returns the value of a variable from an env file. Such files hold secrets, so only plain words
/// are shown.
pub fn shown_file_value(name: &str, value: &str) -> String {
    if is_secret(name, value) { HIDDEN.into() } else { shown_strictly(value) }
}

/// Masks an untrusted text: only its plain words are shown.
pub fn shown_strictly(text: &str) -> String {
    strictly(&shown_text(text))
}

/// Masks the words of an untrusted command line.
pub fn shown_words_strictly<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    shown_words(words).iter().map(|word| strictly(word)).collect()
}

fn strictly(shown: &str) -> String {
    each_word(shown, |word| !is_plain(word))
}

/// Whether a character separates words.
fn is_delimiter(c: char) -> bool {
    c.is_whitespace() || "\"'`=:/,;?&#@()[]{}<>|\\".contains(c)
}

/// Masks the words that `is_hidden` selects. Existing masks stay.
fn each_word(text: &str, is_hidden: impl Fn(&str) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(is_delimiter).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        shown.push_str(if word != HIDDEN && is_hidden(word) { HIDDEN } else { word });
        let next = after.find(|c: char| !is_delimiter(c)).unwrap_or(after.len());
        shown.push_str(&after[..next]);
        rest = &after[next..];
    }
    shown
}

/// Proctor's tokens have this prefix and this many characters of URL-safe base64.
const TOKEN_PREFIX: &str = "proctor_";
const TOKEN_LENGTH: usize = 43;

/// Returns true if the text contains a token that Proctor made.
pub fn has_proctor_token(text: &str) -> bool {
    text.match_indices(TOKEN_PREFIX).any(|(at, prefix)| {
        let rest = &text.as_bytes()[at + prefix.len()..];
        let of_token = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        rest.iter().take(TOKEN_LENGTH).filter(of_token).count() == TOKEN_LENGTH
    })
}

/// Masks the words of a command line: each as a text, and the word after `--token` completely.
pub fn shown_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut before = PrecedingWords::default();
    words.into_iter().map(|word| before.show(word, shown_text)).collect()
}

/// Masks a word, URL, header or script. Hides the text after `--token`, `TOKEN=` and
/// `Authorization: `, logins in URLs, and words that look like secrets.
pub fn shown_text(text: &str) -> String {
    if let Some((before, _)) = text.split_once("-----BEGIN ") {
        return format!("{}{HIDDEN}", shown_text(before));
    }
    let text = hide_fields(text);
    each_word(&shown(&hide_schemes(&text), true), is_secret_word)
}

/// Text in quotes is masked recursively, but only one level deep.
fn shown(text: &str, into_quotes: bool) -> String {
    if let Some(header) = header(text) {
        return header;
    }
    let mut out = String::with_capacity(text.len());
    let mut before = PrecedingWords::default();
    for piece in pieces(text) {
        if piece.starts_with(char::is_whitespace) {
            out.push_str(piece);
            continue;
        }
        out.push_str(&before.show(piece, |piece| match quoted(piece).filter(|_| into_quotes) {
            Some((quote, inner)) => [quote, &shown(inner, false), quote].concat(),
            None => shown_piece(piece),
        }));
    }
    out
}

/// Masks `"password": "***"` in JSON with any quotes, including escaped ones, and `password: ***`
/// in one-line YAML.
fn hide_fields(text: &str) -> Cow<'_, str> {
    let mut shown = String::new();
    let (mut kept, mut at) = (0, 0);
    while let Some(found) = text[at..].find(':') {
        let colon = at + found;
        at = colon + 1;
        let Some((begin, end)) = field_value(text, colon) else { continue };
        shown.push_str(&text[kept..begin]);
        shown.push_str(HIDDEN);
        (kept, at) = (end, end);
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    shown.push_str(&text[kept..]);
    Cow::Owned(shown)
}

/// Returns the range of a secret field's value; the field name ends at this colon.
fn field_value(text: &str, colon: usize) -> Option<(usize, usize)> {
    let quotes = ['"', '\'', '\\'];
    let before = text[..colon].trim_end();
    let unquoted = before.trim_end_matches(quotes);
    let is_quoted = unquoted.len() < before.len();
    let outside = unquoted.trim_end_matches(is_of_name);
    let name = &unquoted[outside.len()..];
    let after = &text[colon + 1..];
    let value = after.trim_start();
    if !is_quoted && before.len() == colon && after.len() == value.len() {
        let length = attached_value(outside, name, value)?;
        return Some((colon + 1, colon + 1 + length));
    }
    // `http://…`, `a:b`: without quotes a field is a separate word.
    let is_field = is_quoted || (after.len() > value.len() && outside.ends_with(['{', ',', ' ']));
    // The end is searched only here, and then skipped, so each byte is read once.
    if !is_field || value.starts_with(['{', '[']) || !looks_secret(name) {
        return None;
    }
    let inner = value.trim_start_matches(quotes);
    let quote = value[..value.len() - inner.len()].chars().last();
    let length = match quote {
        Some(quote) => inner.find(quote).map(|end| inner[..end].trim_end_matches('\\').len()),
        None => {
            inner.find(|c: char| c.is_whitespace() || matches!(c, ',' | '}' | ']' | '\'' | '"'))
        }
    };
    let length = length.unwrap_or(inner.len());
    let begin = text.len() - inner.len();
    is_secret(name, &inner[..length]).then_some((begin, begin + length))
}

/// Returns the length of the secret in `Authorization:abc`. Hosts and images look alike, so the
/// name must end with a secret word.
fn attached_value(outside: &str, name: &str, value: &str) -> Option<usize> {
    let quotes = ['"', '\''];
    let begins = |c: char| c.is_whitespace() || "\"'={[(,;".contains(c);
    let is_field = outside.is_empty() || (outside.ends_with(begins) && !outside.ends_with("${"));
    if !is_field || !names_a_secret(name) {
        return None;
    }
    let inner = value.trim_start_matches(quotes);
    let skipped = value.len() - inner.len();
    let length = match outside.chars().last().filter(|last| quotes.contains(last)) {
        // `Authorization:Bearer abc`: the whole text, or the whole quoted part.
        None if outside.is_empty() => inner.len(),
        Some(quote) => inner.find(quote).unwrap_or(inner.len()),
        // `password:"abc d"`
        None if skipped > 0 => inner.find(quotes).map_or(inner.len(), |end| end + 1),
        None => {
            let ends = |c: char| c.is_whitespace() || quotes.contains(&c);
            let word = &inner[..inner.find(ends).unwrap_or(inner.len())];
            let in_braces = word.find(',').filter(|_| word.contains('}'));
            in_braces.or_else(|| word.find('}')).unwrap_or(word.len())
        }
    };
    is_secret(name, &inner[..length]).then_some(skipped + length)
}

/// Masks `Bearer ***` and `Basic ***` anywhere.
fn hide_schemes(text: &str) -> Cow<'_, str> {
    let bearer = hide_scheme(Cow::Borrowed(text), "bearer ", |_| true);
    hide_scheme(bearer, "basic ", |word| !is_plain(word))
}

fn hide_scheme<'a>(
    text: Cow<'a, str>,
    scheme: &str,
    is_hidden: impl Fn(&str) -> bool,
) -> Cow<'a, str> {
    let lower = text.to_ascii_lowercase();
    let (mut shown, mut kept) = (String::new(), 0);
    for (at, _) in lower.match_indices(scheme) {
        let begin = at + scheme.len();
        let rest = &text[begin..];
        let ends = |c: char| c.is_whitespace() || "\"',]}".contains(c);
        let word = rest[..rest.find(ends).unwrap_or(rest.len())].trim_end_matches('\\');
        let is_part = text[..at].ends_with(char::is_alphanumeric);
        if !is_part && !word.is_empty() && begin >= kept && is_hidden(word) {
            shown.push_str(&text[kept..begin]);
            shown.push_str(HIDDEN);
            kept = begin + word.len();
        }
    }
    if kept == 0 {
        return text;
    }
    shown.push_str(&text[kept..]);
    Cow::Owned(shown)
}

/// `Authorization: ***`
fn header(text: &str) -> Option<String> {
    let (name, _) = text.split_once(": ")?;
    let named = name.chars().all(is_of_name) && !name.is_empty() && looks_secret(name);
    named.then(|| format!("{name}: {HIDDEN}"))
}

/// Splits a text in order: white space, words, and quoted parts.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut begin, mut quote, mut in_space) = (0, None, false);
    // An unclosed quote is an ordinary character.
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

/// Returns the inside of a piece that is fully quoted.
fn quoted(piece: &str) -> Option<(&str, &str)> {
    let quote = piece.get(..1).filter(|quote| matches!(*quote, "'" | "\""))?;
    Some((quote, piece[1..].strip_suffix(quote)?))
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// Masks the value of every `TOKEN=value`: to the end of the piece, or of the URL parameter.
fn shown_piece(piece: &str) -> String {
    let (mut shown, mut rest) = (String::new(), piece);
    while let Some(at) = rest.find('=') {
        let (before, value) = (&rest[..at], &rest[at + 1..]);
        let outside = before.trim_end_matches(is_of_name);
        let parameter = outside.ends_with(['?', '&']);
        // Searched only if it is skipped afterwards: once for each byte, however many `=` there
        // are.
        let name = &before[outside.len()..];
        let end = match looks_secret(name) {
            true if parameter => value.find(['&', '#']).unwrap_or(value.len()),
            true => value.len(),
            false => 0,
        };
        let end = if is_secret(name, &value[..end]) { end } else { 0 };
        shown.push_str(&rest[..=at]);
        shown.push_str(if end > 0 { HIDDEN } else { "" });
        rest = &value[end..];
    }
    shown.push_str(rest);
    hide_logins(&hide_bare_login(&shown))
}

/// Masks `admin:***@host` and `pass:***` without a scheme.
fn hide_bare_login(text: &str) -> Cow<'_, str> {
    if let Some(rest) = text.strip_prefix("pass:").filter(|rest| !rest.is_empty()) {
        return Cow::Owned(format!("pass:{}", if rest == HIDDEN { rest } else { HIDDEN }));
    }
    let Some((login, host)) = text.split_once('@').filter(|_| !text.contains("://")) else {
        return Cow::Borrowed(text);
    };
    match login.rsplit_once(':') {
        Some((user, password))
            if !password.is_empty() && !login.contains('/') && !host.is_empty() =>
        {
            Cow::Owned(format!("{user}:{HIDDEN}@{host}"))
        }
        Some(_) | None => Cow::Borrowed(text),
    }
}

/// Masks `postgres://me:***@host/db` for a URL with a password, `https://***@host/` for one with a
/// token.
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
            (
                r#"app --config {"user":"me","password":"abc"}"#,
                r#"app --config {"user":"me","password":"***"}"#,
            ),
            (
                r#"app '{ "db" : { "password" : "a, b" , "port" : 5 } }'"#,
                r#"app '{ "db" : { "password" : "***" , "port" : 5 } }'"#,
            ),
            (r#"{\"token\":\"abc\",\"n\":1}"#, r#"{\"token\":\"***\",\"n\":1}"#),
            ("app {'pin': 1234, 'a': 'b'}", "app {'pin': ***, 'a': 'b'}"),
            ("app {password: abc, user: me}", "app {password: ***, user: me}"),
            ("curl -u admin:abc http://h", "curl -u admin:*** http://h"),
            ("curl --user admin:abc http://h", "curl --user admin:*** http://h"),
            ("docker run -u 1000:1000 x", "docker run -u 1000:1000 x"),
            ("docker run -u www-data:www-data x", "docker run -u www-data:www-data x"),
            ("smbclient -U admin%abc x", "smbclient -U admin%*** x"),
            ("mysql -uroot -pabc db", "mysql -uroot -p*** db"),
            ("sshpass -p abc ssh h", "sshpass -p *** ssh h"),
            ("redis-cli -h h -a abc ping", "redis-cli -h h -a *** ping"),
            ("openssl rsa -passin pass:abc", "openssl rsa -passin pass:***"),
            ("app admin:abc@db:5432", "app admin:***@db:5432"),
            ("git clone git@forge.example:a/b", "git clone git@forge.example:a/b"),
            ("curl -H 'Cookie: a=abc'", "curl -H 'Cookie: ***'"),
            ("run Bearer abc", "run Bearer ***"),
            ("psql -c \"ALTER ROLE me PASSWORD 'abc'\"", "psql -c \"ALTER ROLE me PASSWORD ***\""),
            ("--pat abc --seed 42 --port 80", "--pat *** --seed 42 --port 80"),
            ("x ghp_16C7e42F292c6912E7710c838347Ae178B4a", "x ***"),
            ("cert '-----BEGIN PRIVATE KEY-----abc", "cert '***"),
        ];
        for (text, shown) in table {
            assert_eq!(shown_text(text), shown);
        }
        // Long texts full of special characters must cause neither deep recursion nor slow runs.
        for hostile in ["'\"", "=", "?a=", "?token=", "://", "://a@", ": ", "a:", " token:b"] {
            let text = hostile.repeat(200_000);
            assert_eq!(shown_text(&text).contains(HIDDEN), hostile.contains("token"), "{hostile}");
        }
    }

    #[test]
    fn only_plain_words_are_shown_strictly() {
        for (text, shown) in [
            ("make test", "make test"),
            ("./bin/migrate --to 42 -v", "./bin/migrate --to 42 -v"),
            ("curl -f http://localhost:3000/health", "curl -f http://localhost:3000/health"),
            ("app --odd s3cr3t-1-x", "app --odd ***"),
            ("app --odd=s3cr3t-1-x --level=info", "app --odd=*** --level=info"),
            ("ODD=p4ssw0rd exec app", "ODD=*** exec app"),
            ("sh -c 'echo a; date +%s'", "sh -c 'echo a; date +%s'"),
        ] {
            assert_eq!(shown_strictly(text), shown);
        }
        assert_eq!(shown_words_strictly(["x", "--odd", "s3cr3t-1-x"]), ["x", "--odd", "***"]);
        assert_eq!(shown_file_value("ODD", "s3cr3t-1-x"), "***");
        assert_eq!(shown_file_value("LEVEL", "info"), "info");
    }
}
