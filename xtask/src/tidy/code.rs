//! Blanks everything in Rust text that is not code, so that a rule about code ignores comments and
//! strings. Lines and columns stay.

/// Replaces comments and literals with spaces.
pub(crate) fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let skipped = not_code(&bytes[at..]);
        if skipped == 0 {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        let end = (at + skipped).min(bytes.len());
        out.extend(bytes[at..end].iter().map(|&byte| if byte == b'\n' { b'\n' } else { b' ' }));
        at = end;
    }
    String::from_utf8(out)
        .expect("whole literals and comments became spaces, the rest is unchanged")
}

/// Length of the comment or literal that begins here; 0 for code.
fn not_code(rest: &[u8]) -> usize {
    match rest {
        [b'/', b'/', ..] => rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => block_comment(rest),
        [b'r', b'"' | b'#', ..] => raw_string(rest),
        [b'"', ..] => string(rest),
        [b'\'', ..] => character(rest),
        _ => 0,
    }
}

/// Block comments nest.
fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// `r"…"`, `r#"…"#`; not `r#name`.
fn raw_string(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
    let open = 1 + hashes;
    if rest.get(open) != Some(&b'"') {
        return 0;
    }
    let close = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    let content = &rest[open + 1..];
    let end = content.windows(close.len()).position(|part| part == close);
    end.map_or(rest.len(), |end| open + 1 + end + close.len())
}

fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `'x'` and `'\n'`; a lifetime has no second quote.
fn character(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        let end = rest.iter().skip(3).position(|&byte| byte == b'\'');
        return end.map_or(rest.len(), |end| end + 4);
    }
    let length = match rest.get(1) {
        Some(0xf0..) => 4,
        Some(0xe0..) => 3,
        Some(0xc0..) => 2,
        Some(_) | None => 1,
    };
    if rest.get(1 + length) == Some(&b'\'') { length + 2 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, code: &str) {
        let found = code_only(text);
        assert_eq!(found.len(), text.len(), "{text}");
        assert_eq!(found.split_whitespace().collect::<Vec<_>>().join(" "), code, "{text}");
    }

    #[test]
    fn only_code_is_left() {
        check("a // b", "a");
        check("a /* b /* c */ d */ e", "a e");
        check("a /* never closed", "a");
        check("f(\"b\") c", "f( ) c");
        check("f(\"b \\\" c\", d)", "f( , d)");
        check("f(\"// no comment\") // one", "f( )");
        check("r\"a \\\" b", "b");
        check("r#\"a \" b\"# c", "c");
        check("br#\"a\"# c", "b c");
        check("let r#type = 1;", "let r#type = 1;");
        check("'a' 'é' '€' '😀' '\\n' '\\'' '\"' b", "b");
        check("'\\u{1F600}' b", "b");
        check("fn f<'a>(x: &'a str, y: &'static str)", "fn f<'a>(x: &'a str, y: &'static str)");
    }

    #[test]
    fn lines_stay_where_they_are() {
        assert_eq!(code_only("a\n/* b\nc */\nd \"e\nf\" g"), "a\n    \n    \nd   \n   g");
    }
}
