//! Parses the unified diffs of `diff -u` and `git diff`, and in lenient mode those that people and
//! assistants write by hand.

use super::{DiffLine, Hunk, Patch, Relation, Sign};

/// The strictness of the parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Every hunk has exactly the number of lines that it states.
    Strict,
    /// Hunks may have any length and need not state their position.
    Lenient,
}

/// A diff that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the diff: {why}")]
pub struct BadDiff {
    /// From 1.
    pub line: usize,
    pub why: &'static str,
}

/// Parses the changes of a diff, file by file. Skips unrelated text around it.
pub fn parse(text: &[u8], reading: Reading) -> Result<Vec<Patch>, BadDiff> {
    let lines: Vec<&[u8]> = super::lines(text);
    let mut parser = Parser { lines, at: 0, reading, begins: false };
    let mut patches = Vec::new();
    while let Some(patch) = parser.patch()? {
        patches.push(patch);
    }
    Ok(patches)
}

struct Parser<'a> {
    lines: Vec<&'a [u8]>,
    at: usize,
    reading: Reading,
    /// Skipped text marked the start of another diff.
    begins: bool,
}

/// The lines of a git diff before the hunks of a file.
#[derive(Default)]
struct Header {
    git: bool,
    begins: bool,
    /// Names without their `a/` or `b/` prefix.
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
    relation: Relation,
    mode: Option<u32>,
    made: bool,
    removed: bool,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a [u8]> {
        self.lines.get(self.at).copied()
    }

    fn bad<T>(&self, why: &'static str) -> Result<T, BadDiff> {
        Err(BadDiff { line: self.at + 1, why })
    }

    /// Parses the changes to the next file.
    fn patch(&mut self) -> Result<Option<Patch>, BadDiff> {
        let mut header = Header::default();
        while let Some(line) = self.peek() {
            if let Some(names) = line.strip_prefix(b"diff --git ") {
                if header.git && header.says_something() {
                    return header.patch(Vec::new()).map(Some).or_else(|why| self.bad(why));
                }
                let begins = std::mem::take(&mut self.begins);
                header = Header { git: true, begins, ..Header::of_names(names) };
            } else if self.begins_file() {
                header.begins |= std::mem::take(&mut self.begins);
                return self.file(header).map(Some);
            } else if line.starts_with(b"@@ -") {
                return self.bad("a hunk has no file names (--- and +++) before it");
            } else if header.git
                && let Err(why) = header.note(line)
            {
                return self.bad(why);
            }
            self.begins |= is_commit(line);
            self.at += 1;
        }
        if header.git && header.says_something() {
            return header.patch(Vec::new()).map(Some).or_else(|why| self.bad(why));
        }
        Ok(None)
    }

    /// Whether the current line has the old name and the next line the new name.
    fn begins_file(&self) -> bool {
        let is = |at: usize, mark: &[u8]| self.lines.get(at).is_some_and(|l| l.starts_with(mark));
        is(self.at, b"--- ") && is(self.at + 1, b"+++ ")
    }

    fn file(&mut self, mut header: Header) -> Result<Patch, BadDiff> {
        let names = [self.at, self.at + 1].map(|at| name(&self.lines[at][4..]));
        let [Ok(old), Ok(new)] = names else { return self.bad("a file name is cut off") };
        if old.is_none() && new.is_none() {
            return self.bad("both names are /dev/null");
        }
        header.removed |= new.is_none();
        header.made |= old.is_none();
        header.take_names(old, new);
        self.at += 2;
        let mut hunks = Vec::new();
        while self.peek().is_some_and(|line| line.starts_with(b"@@")) {
            hunks.push(self.hunk()?);
        }
        header.patch(hunks).or_else(|why| self.bad(why))
    }

    fn hunk(&mut self) -> Result<Hunk, BadDiff> {
        let hunk = self.any_hunk()?;
        let ends = |text: &&[u8]| text.last() == Some(&b'\n');
        let sound = |side: Vec<&[u8]>| side.iter().rev().skip(1).all(ends);
        if !sound(hunk.before().collect()) || !sound(hunk.after().collect()) {
            return self.bad("a line without a newline is not the last one");
        }
        Ok(hunk)
    }

    fn any_hunk(&mut self) -> Result<Hunk, BadDiff> {
        let line = self.lines[self.at];
        let ranges = ranges(line);
        if ranges.is_none() && self.reading == Reading::Strict {
            return self.bad("expected a hunk header such as @@ -1,2 +3,4 @@");
        }
        self.at += 1;
        let begin = self.at;
        if let Some([old, new]) = ranges {
            let counted = self.counted(old.1, new.1);
            match (counted, self.reading) {
                (Ok(lines), Reading::Strict) => {
                    return Ok(Hunk { old: Some(old.0), new: Some(new.0), lines });
                }
                // The hunk has the stated number of lines, and what follows belongs to no hunk.
                (Ok(lines), Reading::Lenient) if !self.goes_on() || self.is_signed() => {
                    return Ok(Hunk { old: Some(old.0), new: Some(new.0), lines });
                }
                (Err(bad), Reading::Strict) => return Err(bad),
                (_, Reading::Lenient) => self.at = begin,
            }
        }
        let lines = self.uncounted()?;
        Ok(Hunk { old: ranges.map(|[old, _]| old.0), new: ranges.map(|[_, new]| new.0), lines })
    }

    /// Reads the stated number of lines of each side.
    fn counted(&mut self, mut old: usize, mut new: usize) -> Result<Vec<DiffLine>, BadDiff> {
        let mut lines = Vec::new();
        while old > 0 || new > 0 {
            let Some(line) = self.peek().and_then(body) else {
                return self.bad("a hunk has fewer lines than its header states");
            };
            let (uses_old, uses_new) = (line.sign != Sign::New, line.sign != Sign::Gone);
            if (uses_old && old == 0) || (uses_new && new == 0) {
                return self.bad("the lines of a hunk do not match the counts in its header");
            }
            old -= usize::from(uses_old);
            new -= usize::from(uses_new);
            self.at += 1;
            lines.push(line);
            self.take_mark(&mut lines);
        }
        Ok(lines)
    }

    /// Reads all lines that look like part of the hunk.
    fn uncounted(&mut self) -> Result<Vec<DiffLine>, BadDiff> {
        let mut lines = Vec::new();
        while self.goes_on() {
            let Some(line) = self.peek().and_then(body) else { break };
            self.at += 1;
            lines.push(line);
            self.take_mark(&mut lines);
        }
        // Empty lines at the end more likely separate hunks than belong to one.
        while lines.last().is_some_and(|line| line.sign == Sign::Same && line.text == b"\n")
            && self.lines[self.at - 1] == b"\n"
        {
            lines.pop();
            self.at -= 1;
        }
        if !lines.iter().any(|line| line.sign != Sign::Same) {
            return self.bad("a hunk changes nothing");
        }
        Ok(lines)
    }

    /// Whether the current line belongs to a hunk and starts nothing else.
    fn goes_on(&self) -> bool {
        let begins = |line: &[u8]| !line.starts_with(b"diff --git ") && body(line).is_some();
        self.peek().is_some_and(begins) && !self.begins_file()
    }

    /// Whether the current line is the mail signature that `git format-patch` writes after the last
    /// hunk, with no hunk line after it.
    fn is_signed(&self) -> bool {
        let part = |line: &&[u8]| {
            line.starts_with(b"@@") || matches!(line, [b' ' | b'+' | b'-' | b'\\', ..])
        };
        self.peek().is_some_and(|line| trimmed(line) == b"-- ")
            && !self.lines.get(self.at + 1).is_some_and(part)
    }

    /// Removes the ending of the last line if a mark says that it has none.
    fn take_mark(&mut self, lines: &mut [DiffLine]) {
        if self.peek().is_some_and(|line| line.starts_with(b"\\"))
            && let Some(last) = lines.last_mut()
        {
            self.at += 1;
            if last.text.last() == Some(&b'\n') {
                last.text.pop();
            }
        }
    }
}

impl Header {
    /// Parses `a/name b/name` if both names are equal, as they are unless later lines differ. Two
    /// identical names have no prefix.
    fn of_names(names: &[u8]) -> Header {
        let names = trimmed(names);
        let (old, new) = match names.first() {
            Some(b'"') => {
                let end = closing(names).unwrap_or(names.len());
                (&names[..end], names[end..].trim_ascii_start())
            }
            _ => {
                let middle = names.len() / 2;
                (&names[..middle], names.get(middle + 1..).unwrap_or_default())
            }
        };
        let plain = |text: &[u8]| name(text).ok().flatten();
        let (Some(old), Some(new)) = (plain(old), plain(new)) else { return Header::default() };
        let bare = match (without_side(&old), without_side(&new)) {
            _ if old == new => Some(old),
            (Some(one), Some(other)) if one == other => Some(one.to_vec()),
            _ => None,
        };
        Header { old: bare.clone(), new: bare, ..Header::default() }
    }

    /// Takes the names above the hunks. Names that are already known tell a prefix from a folder.
    fn take_names(&mut self, old: Option<Vec<u8>>, new: Option<Vec<u8>>) {
        let fits = |named: &Option<Vec<u8>>, known: &Option<Vec<u8>>| {
            let Some(named) = named else { return true };
            let known = known.as_deref();
            known.is_some() && (known == Some(named) || known == without_side(named))
        };
        if !fits(&old, &self.old) || !fits(&new, &self.new) {
            [self.old, self.new] = stripped(old, new);
        }
    }

    /// Applies one header line of git. Fails if the file is not a regular text file.
    fn note(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let line = trimmed(line);
        // Names after these words have no prefix.
        let bare = |text: &[u8]| name(text).ok().flatten();
        if let Some(text) = line.strip_prefix(b"new file mode ") {
            (self.made, self.mode) = (true, regular(text)?);
        } else if let Some(text) = line.strip_prefix(b"deleted file mode ") {
            regular(text)?;
            self.removed = true;
        } else if let Some(text) = line.strip_prefix(b"new mode ") {
            self.mode = regular(text)?;
        } else if let Some(text) = line.strip_prefix(b"old mode ").or_else(|| mode_of_both(line)) {
            regular(text)?;
        } else if let Some(text) = line.strip_prefix(b"rename from ") {
            (self.old, self.relation) = (bare(text), Relation::Moved);
        } else if let Some(text) = line.strip_prefix(b"copy from ") {
            (self.old, self.relation) = (bare(text), Relation::Copied);
        } else if let Some(text) =
            line.strip_prefix(b"rename to ").or_else(|| line.strip_prefix(b"copy to "))
        {
            self.new = bare(text);
        } else if line.starts_with(b"Binary files ") || line.starts_with(b"GIT binary patch") {
            return Err("it contains a binary file; a diff can change only text files");
        }
        Ok(())
    }

    /// Whether the header alone changes something.
    fn says_something(&self) -> bool {
        self.made || self.removed || self.mode.is_some() || self.old != self.new
    }

    fn patch(self, hunks: Vec<Hunk>) -> Result<Patch, &'static str> {
        let old = self.old.filter(|_| !self.made);
        let new = self.new.filter(|_| !self.removed);
        if old.is_none() && new.is_none() {
            return Err("a file has no name");
        }
        let Header { begins, relation, mode, .. } = self;
        Ok(Patch { begins, old, new, relation, mode, hunks })
    }
}

/// Parses the mode of a regular file; `None` if the text is not a mode.
fn regular(text: &[u8]) -> Result<Option<u32>, &'static str> {
    let digits = std::str::from_utf8(text).ok();
    let Some(mode) = digits.and_then(|digits| u32::from_str_radix(digits, 8).ok()) else {
        return Ok(None);
    };
    match mode >> 12 {
        0o10 => Ok(Some(mode)),
        0o12 => Err(
            "it contains a symbolic link, but a diff can change only regular files; leave it out and create the link yourself",
        ),
        0o16 => Err(
            "it contains a submodule, but a diff can change only regular files; leave it out and change the submodule with git",
        ),
        _ => Err(
            "it contains a mode that no regular file has; use 100644, or 100755 for an executable",
        ),
    }
}

/// The mode in `index 1234567..89abcde 100644`, which holds before and after.
fn mode_of_both(line: &[u8]) -> Option<&[u8]> {
    let mut words = line.strip_prefix(b"index ")?.split(|byte| *byte == b' ');
    let hashes = words.next()?;
    let is_part = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b',');
    words.next().filter(|_| words.next().is_none() && hashes.iter().all(is_part))
}

/// Strips `a/` and `b/` if each side has its own.
fn stripped(old: Option<Vec<u8>>, new: Option<Vec<u8>>) -> [Option<Vec<u8>>; 2] {
    let has =
        |name: &Option<Vec<u8>>, side: &[u8]| name.as_ref().is_none_or(|n| n.starts_with(side));
    let cut = |name: Option<Vec<u8>>| name.map(|name| name[2..].to_vec());
    if has(&old, b"a/") && has(&new, b"b/") { [cut(old), cut(new)] } else { [old, new] }
}

/// Strips the prefix that git writes for a side: `a`, `b`, or the letter of a commit, the index, an
/// object, the work tree, the first or the second.
fn without_side(name: &[u8]) -> Option<&[u8]> {
    match name {
        [b'a' | b'b' | b'c' | b'i' | b'o' | b'w' | b'1' | b'2', b'/', bare @ ..]
            if !bare.is_empty() =>
        {
            Some(bare)
        }
        _ => None,
    }
}

/// `From 1234… Mon Sep 17` above a mail, or `commit 1234…` of a log: another diff follows.
fn is_commit(line: &[u8]) -> bool {
    let word = line.strip_prefix(b"From ").or_else(|| line.strip_prefix(b"commit "));
    let hash = word.and_then(|rest| rest.split(|byte| byte.is_ascii_whitespace()).next());
    hash.is_some_and(|hash| matches!(hash.len(), 40 | 64) && hash.iter().all(u8::is_ascii_hexdigit))
}

/// Parses a line of a hunk. An empty line is a context line whose blank an editor removed.
fn body(line: &[u8]) -> Option<DiffLine> {
    let (sign, text) = match line {
        [b' ', text @ ..] => (Sign::Same, text),
        [b'-', text @ ..] => (Sign::Gone, text),
        [b'+', text @ ..] => (Sign::New, text),
        b"\n" | b"\r\n" => (Sign::Same, line),
        _ => return None,
    };
    let mut text = text.to_vec();
    // The end of the diff text is not a line ending.
    if text.last() != Some(&b'\n') {
        text.push(b'\n');
    }
    Some(DiffLine { sign, text })
}

/// Parses `@@ -1,2 +3,4 @@`: first line and number of lines of both sides.
fn ranges(line: &[u8]) -> Option<[(usize, usize); 2]> {
    let text = std::str::from_utf8(line.strip_prefix(b"@@ -")?.split(|byte| *byte == b'@').next()?);
    let (old, new) = text.ok()?.trim_end().split_once(" +")?;
    let range = |text: &str| -> Option<(usize, usize)> {
        let (begin, count) = text.split_once(',').unwrap_or((text, "1"));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let number = |text: &str| text.parse().ok().filter(|_| digits(text));
        Some((number(begin)?, number(count)?))
    };
    Some([range(old)?, range(new)?])
}

/// Parses a file name; `None` for `/dev/null`.
fn name(text: &[u8]) -> Result<Option<Vec<u8>>, ()> {
    let text = trimmed(text);
    let name = match text.first() {
        Some(b'"') => unquoted(&text[..closing(text).ok_or(())?]),
        // A tab separates the name from a time.
        _ => text.split(|byte| *byte == b'\t').next().unwrap_or_default().to_vec(),
    };
    match name.as_slice() {
        b"" => Err(()),
        b"/dev/null" => Ok(None),
        _ => Ok(Some(name)),
    }
}

/// Returns the length of a quoted name, including its quotes.
fn closing(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

/// Decodes C string escapes, including octal bytes.
fn unquoted(text: &[u8]) -> Vec<u8> {
    let mut bytes = text[1..text.len() - 1].iter().copied().peekable();
    let mut name = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            name.push(byte);
            continue;
        }
        match bytes.next() {
            Some(first @ b'0'..=b'7') => {
                let mut value = u32::from(first - b'0');
                for _ in 0..2 {
                    let Some(digit) = bytes.next_if(|byte| (b'0'..=b'7').contains(byte)) else {
                        break;
                    };
                    value = value * 8 + u32::from(digit - b'0');
                }
                name.push(value as u8);
            }
            Some(b'n') => name.push(b'\n'),
            Some(b't') => name.push(b'\t'),
            Some(b'r') => name.push(b'\r'),
            Some(b'a') => name.push(7),
            Some(b'b') => name.push(8),
            Some(b'v') => name.push(11),
            Some(b'f') => name.push(12),
            Some(other) => name.push(other),
            None => {}
        }
    }
    name
}

fn trimmed(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
