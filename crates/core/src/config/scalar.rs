//! Parses the text of a scalar as a kind, and describes the expected form.

use super::keys::{Choice, Duration, Kind, MAX_BYTES, MAX_MILLIS, Unit};
use super::listen;
use super::secret::HIDDEN;
use super::signal;
use super::value::{DisplayText, Value};

/// Parses `word` as `kind`. `Err` holds advice if there is more to say than [`expected`] does.
/// Kinds that are not a single text (lists, mappings) are read elsewhere and return `Err` here.
pub(super) fn read(kind: &Kind, word: &DisplayText) -> Result<Value, Option<String>> {
    let text = word.text.as_str();
    let value = match kind {
        Kind::Text => Some(Value::Text(word.clone())),
        Kind::Bool => boolean(text)?,
        Kind::Integer { min, max } => integer(text, *min, *max).map(Value::Number),
        Kind::Count { .. } if text == "unlimited" => Some(Value::Without),
        Kind::Count { max } => integer(text, 0, *max).map(Value::Number),
        Kind::Float { min, max } => float(text, *min, *max).map(Value::Float),
        Kind::Duration(Duration { none: true, .. }) if text == "none" => Some(Value::Without),
        Kind::Duration(duration) => millis(text, duration).map(Value::Millis),
        Kind::Size { min } => bytes(text).filter(|size| size >= min).map(Value::Bytes),
        Kind::Choice(choices) => choice(text, choices).map(Value::Choice),
        Kind::Signal => signal::number(text).map(Value::Signal),
        Kind::Umask => umask(text).map(Value::Umask),
        Kind::User => user(text),
        Kind::Url => url(text)?.then(|| Value::Text(word.clone())),
        Kind::Limit { bytes } => limit(text, *bytes),
        Kind::Host => listen::host(text).map(|_| Value::Text(word.clone())),
        Kind::Port if text == "off" => Some(Value::Without),
        Kind::Secret => is_secret(text).then(|| Value::Text(word.clone())),
        Kind::Port => integer(text, 0, 65535).map(Value::Number),
        Kind::Command if text.trim().is_empty() => None,
        Kind::Command => Some(Value::Line(word.clone(), None)),
        Kind::Folder
        | Kind::File
        | Kind::Hosts
        | Kind::Origins
        | Kind::Commands
        | Kind::Choices(_)
        | Kind::List
        | Kind::ExitCodes
        | Kind::Environment
        | Kind::EnvFiles
        | Kind::Roots
        | Kind::Block(_)
        | Kind::Services => None,
    };
    value.ok_or(None)
}

/// Describes the values of a kind, for messages: "expected …".
pub(super) fn expected(kind: &Kind) -> String {
    match kind {
        Kind::Text => "text".into(),
        Kind::Bool => "true or false".into(),
        Kind::Integer { min, max } => format!("a whole number from {min} to {max}"),
        Kind::Count { max } => format!("a whole number from 0 to {max}, or 'unlimited'"),
        Kind::Float { min, max } => format!("a number from {min} to {max}"),
        Kind::Duration(duration) => expected_duration(duration),
        Kind::Size { min } => {
            format!(
                "a size of at least {min} bytes: a number, or with a unit as in '16MiB', '10MB', '1G'"
            )
        }
        Kind::Choice(choices) => format!("one of {}", names_of(choices)),
        Kind::Choices(choices) => format!("a list of {}", names_of(choices)),
        Kind::Signal => "a signal, such as TERM, SIGTERM or 15".into(),
        Kind::Umask => "an octal number up to 777, such as '022'".into(),
        Kind::User => "a user, or user:group, as names or numbers".into(),
        Kind::Url => "a URL, such as http://localhost:3000/health".into(),
        Kind::Folder => "a folder".into(),
        Kind::File => "a file".into(),
        Kind::Host => "an IP address, or 'localhost'".into(),
        Kind::Port => "a port from 0 (any free one) to 65535, or 'off'".into(),
        Kind::Hosts => "a list of names or addresses without ports".into(),
        Kind::Origins => "a list of origins, such as https://example.org:8443".into(),
        Kind::Secret => {
            format!("a secret of at least {SHORTEST_SECRET} characters, without spaces")
        }
        Kind::Commands => {
            "a list of commands (status, restart) or operations (service.restart)".into()
        }
        Kind::Limit { bytes: false } => {
            "a number, 'unlimited', or soft:hard (soft at most hard)".into()
        }
        Kind::Limit { bytes: true } => {
            "bytes, a size such as '64MiB', 'unlimited', or soft:hard (soft at most hard)".into()
        }
        Kind::Command => "a command as text, or a list of words".into(),
        Kind::List => "a list of texts".into(),
        Kind::ExitCodes => "a list of exit codes from 0 to 255".into(),
        Kind::Environment => "a mapping of variables, or a list of KEY=VALUE".into(),
        Kind::EnvFiles => "a file, or a list of files".into(),
        Kind::Roots => "a list of folders, each a path or { path, name, write }".into(),
        Kind::Block(_) => "a mapping".into(),
        Kind::Services => "a mapping from names to services".into(),
    }
}

fn names_of(choices: &[Choice]) -> String {
    let names: Vec<&str> = choices.iter().map(|choice| choice.name).collect();
    names.join(", ")
}

/// Returns a value in the form that may appear in a message.
pub(super) fn shown<'a>(kind: &Kind, text: &'a str) -> &'a str {
    if matches!(kind, Kind::Secret) { HIDDEN } else { text }
}

/// At ten guesses a second, eight lower case letters last for centuries.
const SHORTEST_SECRET: usize = 8;

fn is_secret(text: &str) -> bool {
    text.chars().count() >= SHORTEST_SECRET
        && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn expected_duration(duration: &Duration) -> String {
    let none = if duration.none { ", or 'none'" } else { "" };
    let least = match duration.min {
        0 => String::new(),
        min => format!(" of at least {min}ms"),
    };
    let unit = duration.unit.name();
    format!(
        "a duration{least}: {unit} as a number, or with a unit as in '500ms', '30s', '5m', '2h'{none}"
    )
}

fn boolean(text: &str) -> Result<Option<Value>, Option<String>> {
    match text {
        "true" | "True" | "TRUE" => Ok(Some(Value::Bool(true))),
        "false" | "False" | "FALSE" => Ok(Some(Value::Bool(false))),
        _ => match text.to_ascii_lowercase().as_str() {
            "yes" | "on" | "y" => Err(Some("write true".into())),
            "no" | "off" | "n" => Err(Some("write false".into())),
            _ => Ok(None),
        },
    }
}

/// Parses decimal digits with an optional sign, and nothing else.
pub(super) fn integer(text: &str, min: i64, max: i64) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse::<i64>().ok())?.filter(|number| (min..=max).contains(number))
}

fn float(text: &str, min: f64, max: f64) -> Option<f64> {
    decimal(text).filter(|number| (min..=max).contains(number))
}

/// Parses digits with at most one point; no exponents, no infinity.
fn decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    (plain && has_digit && text.len() <= 20).then(|| text.parse().ok())?
}

/// Splits a number and its unit: `1.5` and `s` of "1.5s".
fn with_unit(text: &str) -> Option<(f64, String)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((decimal(number)?, unit.trim_start().to_ascii_lowercase()))
}

/// Returns a whole number after scaling, or `None`: half a millisecond is an error, not zero.
fn whole(number: f64, max: u64) -> Option<u64> {
    let rounded = number.round();
    let close = (number - rounded).abs() < 1e-6;
    (close && rounded >= 0.0 && rounded <= max as f64).then_some(rounded as u64)
}

fn millis(text: &str, duration: &Duration) -> Option<u64> {
    let (number, unit) = with_unit(text)?;
    let scale = match unit.as_str() {
        "" => duration.unit.millis(),
        "ms" => Unit::Milliseconds.millis(),
        "s" => Unit::Seconds.millis(),
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    whole(number * scale as f64, MAX_MILLIS).filter(|millis| *millis >= duration.min)
}

fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = with_unit(text)?;
    let scale: u64 = match unit.as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1000,
        "mb" => 1000 * 1000,
        "gb" => 1000 * 1000 * 1000,
        "tb" => 1000 * 1000 * 1000 * 1000,
        _ => return None,
    };
    whole(number * scale as f64, MAX_BYTES)
}

fn choice(text: &str, choices: &'static [Choice]) -> Option<&'static str> {
    choices.iter().find(|it| it.name == text || it.also.contains(&text)).map(|it| it.name)
}

/// Reads the digits as octal in every notation: `022`, `22`, `"022"`, `0o22`.
fn umask(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| u32::from_str_radix(digits, 8).ok())?.filter(|mask| *mask <= 0o777)
}

fn user(text: &str) -> Option<Value> {
    let (user, group) = match text.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (text, None),
    };
    let good = is_account(user) && group.is_none_or(is_account);
    good.then(|| Value::User { user: user.into(), group: group.map(String::from) })
}

/// Whether this can be the name or number of a user or group. Its existence is checked later.
pub(super) fn is_account(text: &str) -> bool {
    let legal = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, ':' | '/' | ',');
    !text.is_empty() && !text.starts_with('-') && text.chars().all(legal)
}

fn limit(text: &str, in_bytes: bool) -> Option<Value> {
    let one = |text: &str| match text {
        "unlimited" => Some(None),
        _ if in_bytes => bytes(text).map(Some),
        _ => integer(text, 0, i64::MAX).map(|number| Some(number.unsigned_abs())),
    };
    let (soft, hard) = match text.split_once(':') {
        Some((soft, hard)) => (one(soft)?, one(hard)?),
        None => (one(text)?, one(text)?),
    };
    let ordered = soft.unwrap_or(u64::MAX) <= hard.unwrap_or(u64::MAX);
    ordered.then_some(Value::Limit { soft, hard })
}

/// Parses `http://host[:port][/path]`. HTTPS and logins are not supported.
fn url(text: &str) -> Result<bool, Option<String>> {
    if text.to_ascii_lowercase().starts_with("https://") {
        return Err(Some("https is not supported yet: use http".into()));
    }
    let Some(rest) = text.strip_prefix("http://") else { return Ok(false) };
    let clean =
        text.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '#' | '"' | '<' | '>' | '\\'));
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    if authority.contains('@') {
        return Err(Some("a login in the address is not supported yet: remove it".into()));
    }
    Ok(clean && split_authority(authority).is_some())
}

/// Splits host and port of `host:port`, `host`, `[::1]:port`.
pub(super) fn split_authority(authority: &str) -> Option<(&str, Option<u16>)> {
    let host_end = match authority.strip_prefix('[') {
        Some(inner) => inner.find(']')? + 2,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, rest) = authority.split_at(host_end);
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => None,
        None => return None,
        Some(digits) => Some(u16::try_from(integer(digits, 1, 65535)?).ok()?),
    };
    is_host(host).then_some((host, port))
}

pub(super) fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !host.is_empty() && host.chars().all(legal)
}

/// Replaces port `from` with `to`, for the URL of another instance.
pub(super) fn with_port(url: &str, from: u16, to: u16) -> String {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    match split_authority(authority) {
        Some((host, Some(port))) if port == from => {
            format!("http://{host}:{to}{}", &rest[authority.len()..])
        }
        Some((host, None)) if from == 80 => {
            format!("http://{host}:{to}{}", &rest[authority.len()..])
        }
        _ => url.into(),
    }
}
