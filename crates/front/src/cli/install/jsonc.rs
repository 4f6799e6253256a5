//! Scans JSON with comments and trailing commas to positions in its text. Only keys are decoded, so [`super::edit`] can change
//! one member and keep every other byte.

use super::error::InstallError;
use serde_json::Value as Json;

/// Maximum nesting: deeper than any configuration, and far from the end of the stack.
const DEEPEST: usize = 200;

/// A value at `start..end` in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Object(Object),
    Array(Vec<Value>),
    /// A string, a number or a word of JSON.
    Scalar,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Object {
    /// Position of the opening brace.
    pub(super) open: usize,
    /// Position of the closing brace.
    pub(super) close: usize,
    /// End of the last token or comment in it.
    pub(super) tail: usize,
    pub(super) members: Vec<Member>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) key: String,
    pub(super) at: usize,
    /// End of the last token or comment before it.
    pub(super) lead: usize,
    /// True if that is a line comment.
    pub(super) after_remark: bool,
    pub(super) value: Value,
    /// Position of the comma after it.
    pub(super) comma: Option<usize>,
}

/// Scans the text; `None` if it is empty or has only comments.
pub(super) fn scan(text: &str) -> Result<Option<Value>, InstallError> {
    let mut scanner = Scanner { text, at: 0, solid: 0, remark: false, depth: 0 };
    if text.starts_with('\u{feff}') {
        scanner.step('\u{feff}'.len_utf8());
    }
    scanner.trivia()?;
    if scanner.at == text.len() {
        return Ok(None);
    }
    let root = scanner.value()?;
    scanner.trivia()?;
    if scanner.at < text.len() {
        return Err(scanner.fault("unexpected text after the end"));
    }
    Ok(Some(root))
}

/// Decodes a value.
pub(super) fn decode(text: &str, value: &Value) -> Json {
    match &value.kind {
        Kind::Object(object) => Json::Object(
            object.members.iter().map(|m| (m.key.clone(), decode(text, &m.value))).collect(),
        ),
        Kind::Array(items) => items.iter().map(|item| decode(text, item)).collect(),
        // It was parsed before, by the scan.
        Kind::Scalar => serde_json::from_str(&text[value.start..value.end]).unwrap_or(Json::Null),
    }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// End of the last token or comment.
    solid: usize,
    /// True if that was a line comment.
    remark: bool,
    depth: usize,
}

impl Scanner<'_> {
    fn value(&mut self) -> Result<Value, InstallError> {
        let start = self.at;
        let kind = match self.byte() {
            Some(b'{') => self.nested(|scanner| scanner.object().map(Kind::Object))?,
            Some(b'[') => self.nested(|scanner| scanner.array().map(Kind::Array))?,
            _ => {
                self.scalar()?;
                Kind::Scalar
            }
        };
        Ok(Value { start, end: self.at, kind })
    }

    fn nested<T>(
        &mut self,
        inner: impl Fn(&mut Self) -> Result<T, InstallError>,
    ) -> Result<T, InstallError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.fault("the nesting is too deep"));
        }
        let found = inner(self);
        self.depth -= 1;
        found
    }

    fn object(&mut self) -> Result<Object, InstallError> {
        let open = self.at;
        self.step(1);
        let mut members: Vec<Member> = Vec::new();
        loop {
            self.trivia()?;
            match self.byte() {
                Some(b'}') => {
                    let (tail, close) = (self.solid, self.at);
                    self.step(1);
                    return Ok(Object { open, close, tail, members });
                }
                Some(b'"') if members.last().is_none_or(|last| last.comma.is_some()) => {
                    members.push(self.member()?);
                }
                Some(b',') => match members.last_mut() {
                    Some(last) if last.comma.is_none() => {
                        last.comma = Some(self.at);
                        self.step(1);
                    }
                    _ => return Err(self.fault("expected a key in quotes, not a comma")),
                },
                Some(b'"') => return Err(self.fault("a comma is missing before this key")),
                Some(_) => return Err(self.fault("expected a key in quotes, or }")),
                None => return Err(InstallError::at(open, "this { is not closed")),
            }
        }
    }

    fn member(&mut self) -> Result<Member, InstallError> {
        let (at, lead, after_remark) = (self.at, self.solid, self.remark);
        let key = self.string()?;
        self.trivia()?;
        if self.byte() != Some(b':') {
            return Err(self.fault("expected a colon after the key"));
        }
        self.step(1);
        self.trivia()?;
        let value = self.value()?;
        Ok(Member { key, at, lead, after_remark, value, comma: None })
    }

    fn array(&mut self) -> Result<Vec<Value>, InstallError> {
        let open = self.at;
        self.step(1);
        let (mut items, mut separated) = (Vec::new(), true);
        loop {
            self.trivia()?;
            match self.byte() {
                Some(b']') => {
                    self.step(1);
                    return Ok(items);
                }
                Some(b',') if !separated => {
                    separated = true;
                    self.step(1);
                }
                Some(_) if separated => {
                    separated = false;
                    items.push(self.value()?);
                }
                Some(_) => return Err(self.fault("expected a comma or ]")),
                None => return Err(InstallError::at(open, "this [ is not closed")),
            }
        }
    }

    fn scalar(&mut self) -> Result<(), InstallError> {
        if self.byte() == Some(b'"') {
            return self.string().map(drop);
        }
        let rest = &self.text[self.at..];
        let ends = |c: char| c.is_whitespace() || ",:{}[]\"/".contains(c);
        let word = &rest[..rest.find(ends).unwrap_or(rest.len())];
        if serde_json::from_str::<Json>(word).is_err() {
            return Err(self.fault("expected a value"));
        }
        self.step(word.len());
        Ok(())
    }

    fn string(&mut self) -> Result<String, InstallError> {
        let bytes = &self.text.as_bytes()[self.at + 1..];
        let mut length = 0;
        while let Some(byte) = bytes.get(length).filter(|byte| !matches!(byte, b'"' | b'\n')) {
            length += if *byte == b'\\' { 2 } else { 1 };
        }
        if bytes.get(length) != Some(&b'"') {
            return Err(self.fault("this string is not closed"));
        }
        let quoted = &self.text[self.at..self.at + length + 2];
        let text = serde_json::from_str(quoted)
            .map_err(|_| self.fault("this string is not valid JSON"))?;
        self.step(quoted.len());
        Ok(text)
    }

    /// Skips white space and comments.
    fn trivia(&mut self) -> Result<(), InstallError> {
        loop {
            let rest = &self.text[self.at..];
            self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
            let rest = &self.text[self.at..];
            if rest.starts_with("//") {
                let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
                self.step(line.trim_end_matches('\r').len());
                self.remark = true;
            } else if rest.starts_with("/*") {
                let end =
                    rest.find("*/").ok_or_else(|| self.fault("this comment is not closed"))?;
                self.step(end + 2);
            } else {
                return Ok(());
            }
        }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn step(&mut self, length: usize) {
        self.at += length;
        (self.solid, self.remark) = (self.at, false);
    }

    fn fault(&self, what: &'static str) -> InstallError {
        InstallError::at(self.at, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(text: &str, expected: Option<Json>) {
        let found = scan(text).unwrap_or_else(|fault| panic!("{text}: {}", fault.told(text)));
        assert_eq!(found.map(|value| decode(text, &value)), expected, "{text}");
    }

    #[test]
    fn what_editors_write_is_read() {
        check("", None);
        check(" // nothing\n/* at all */ \n", None);
        check("\u{feff}{}", Some(json!({})));
        check(
            "{\"a\": [1, -2.5e3, true, null, \"\\u00e4\\\"\"]}",
            Some(json!({"a": [1, -2500.0, true, null, "ä\""]})),
        );
        check(
            "{ // first\r\n \"a\" /* b */ : {\"b\": \"//\"}, /* , */ }\n// end",
            Some(json!({"a": {"b": "//"}})),
        );
        check("[[], [1,],]", Some(json!([[], [1]])));
        check(
            "{\"a\": \"/* no comment */\", \"b\": 1/* one */}",
            Some(json!({"a": "/* no comment */", "b": 1})),
        );
    }

    #[track_caller]
    fn check_fault(text: &str, expected: &str) {
        let fault = scan(text).expect_err(text);
        assert_eq!(fault.told(text), expected, "{text}");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        check_fault(
            "{\n  \"a\": 1\n  \"b\": 2\n}",
            "line 3, column 3: a comma is missing before this key",
        );
        check_fault("{\"a\" 1}", "line 1, column 6: expected a colon after the key");
        check_fault("{a: 1}", "line 1, column 2: expected a key in quotes, or }");
        check_fault("{,}", "line 1, column 2: expected a key in quotes, not a comma");
        check_fault("{\"a\": 1,,}", "line 1, column 9: expected a key in quotes, not a comma");
        check_fault("[1 2]", "line 1, column 4: expected a comma or ]");
        check_fault("[,]", "line 1, column 2: expected a value");
        check_fault("{\"a\": }", "line 1, column 7: expected a value");
        check_fault("{\"a\": tru}", "line 1, column 7: expected a value");
        check_fault("{\"ä\": 01}", "line 1, column 7: expected a value");
        check_fault("{\"a\": \"x\n\"}", "line 1, column 7: this string is not closed");
        check_fault("{\"a\\", "line 1, column 2: this string is not closed");
        check_fault("{\"\\x\": 1}", "line 1, column 2: this string is not valid JSON");
        check_fault("\n {\"a\": {}", "line 2, column 2: this { is not closed");
        check_fault("[[]", "line 1, column 1: this [ is not closed");
        check_fault("{} /* ", "line 1, column 4: this comment is not closed");
        check_fault("{} {}", "line 1, column 4: unexpected text after the end");
        check_fault(&"[".repeat(1_000_000), "line 1, column 201: the nesting is too deep");
    }
}
