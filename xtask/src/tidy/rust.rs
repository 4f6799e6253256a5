//! Rules for a Rust file.

use super::Finding;
use super::code::code_only;

const MAX_FILE_LINES: usize = 500;

/// Refused in comments, strings and code.
const LEFT_UNDONE: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME")];
const STUBS: &[&str] = &["todo!", "unimplemented!", "dbg!"];

pub(crate) fn check(file: &str, text: &str) -> Vec<Finding> {
    let code = code_only(text);
    let mut findings = whole_file(file, text);
    for (index, (line, code)) in text.lines().zip(code.lines()).enumerate() {
        let messages = in_text(line).into_iter().chain(in_code(code)).chain(in_place(file, code));
        findings.extend(messages.map(|message| finding(file, index + 1, message)));
    }
    findings.extend(waits(file, &code));
    findings
}

fn whole_file(file: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !text.starts_with("//!") && !is_build_script(file) {
        let message = "open the file with //!: its purpose, and what it deliberately leaves out";
        findings.push(finding(file, 1, message.to_owned()));
    }
    let lines = text.lines().count();
    if lines > MAX_FILE_LINES {
        let message = format!("{lines} lines, {MAX_FILE_LINES} at most: split it by purpose");
        findings.push(finding(file, MAX_FILE_LINES + 1, message));
    }
    findings
}

fn in_text(line: &str) -> Vec<String> {
    let words = LEFT_UNDONE.iter().filter(|word| has_word(line, word));
    words
        .map(|word| {
            format!("{word}: do it now, or write an issue and describe the current behaviour")
        })
        .collect()
}

fn in_code(code: &str) -> Vec<String> {
    let stubs = STUBS.iter().filter(|stub| has_word(code, stub));
    let mut messages: Vec<String> =
        stubs.map(|stub| format!("{stub} is a stub or a leftover: write the real code")).collect();
    if code.contains("#[ignore") {
        messages.push("an ignored test tests nothing: make it pass, or delete it".to_owned());
    }
    if ["[allow(", ", allow("].iter().any(|text| code.contains(text)) {
        let message = "allow(…) outlives its reason: use #[expect(lint, reason = \"…\")]";
        messages.push(message.to_owned());
    }
    messages
}

fn in_place(file: &str, code: &str) -> Option<String> {
    let forbidden = !file.starts_with("crates/sys/") && has_word(code, "unsafe");
    forbidden
        .then(|| "unsafe is for crates/sys only: put a safe function there and call it".to_owned())
}

/// Finds sleeps in files of tests and in test modules.
fn waits(file: &str, code: &str) -> Vec<Finding> {
    let first = if is_test_file(file) { Some(0) } else { test_module(code) };
    let Some(first) = first else { return Vec::new() };
    let sleeping =
        code.lines().enumerate().skip(first).filter(|(_, line)| has_word(line, "sleep("));
    let message = "a test that sleeps is slow or flaky: wait for the event itself, with a deadline (wait_until)";
    sleeping.map(|(index, _)| finding(file, index + 1, message.to_owned())).collect()
}

fn is_test_file(file: &str) -> bool {
    file.starts_with("crates/testkit/") || file.starts_with("tests/") || file.contains("/tests/")
}

/// Index of the line on which a test module begins; it lasts to the end of the file.
fn test_module(code: &str) -> Option<usize> {
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    let begins = |pair: &[&str]| {
        pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
    };
    lines.windows(2).position(begins)
}

fn is_build_script(file: &str) -> bool {
    file == "build.rs" || file.ends_with("/build.rs")
}

/// Whether the line has the word, not as part of a longer one.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let ends_as_name = word.bytes().last().is_some_and(|byte| is_name(&byte));
    line.match_indices(word).any(|(at, _)| {
        let before = line.as_bytes()[..at].last();
        let after = line.as_bytes().get(at + word.len());
        !before.is_some_and(is_name) && (!ends_as_name || !after.is_some_and(is_name))
    })
}

fn finding(file: &str, line: usize, message: String) -> Finding {
    Finding { file: file.to_owned(), line, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "crates/core/src/lib.rs";

    /// Each finding as `line: first words of the message`.
    #[track_caller]
    fn check_file(file: &str, text: &str, expected: &[(usize, &str)]) {
        let findings = check(file, text);
        let found: Vec<(usize, &str)> =
            findings.iter().map(|one| (one.line, one.message.as_str())).collect();
        let same = found.len() == expected.len()
            && found
                .iter()
                .zip(expected)
                .all(|(one, other)| one.0 == other.0 && one.1.starts_with(other.1));
        assert!(same, "{file}: {text}\nfound {found:?}\nexpected {expected:?}");
    }

    #[track_caller]
    fn check_line(line: &str, expected: Option<&str>) {
        let expected: Vec<(usize, &str)> =
            expected.into_iter().map(|message| (2, message)).collect();
        check_file(FILE, &format!("//! A file.\n{line}\n"), &expected);
    }

    #[test]
    fn a_file_opens_with_what_it_is_for() {
        check_file(FILE, "//! Something.\n", &[]);
        check_file(FILE, "", &[(1, "open the file with //!")]);
        check_file(FILE, "use std;\n//! Late.\n", &[(1, "open the file with //!")]);
        check_file("crates/core/build.rs", "fn main() {}\n", &[]);
        check_file("crates/core/src/rebuild.rs", "fn f() {}\n", &[(1, "open the file with //!")]);
    }

    #[test]
    fn a_file_has_at_most_500_lines() {
        check_file(FILE, &"//!\n".repeat(500), &[]);
        check_file(FILE, &"//!\n".repeat(501), &[(501, "501 lines, 500 at most")]);
    }

    #[test]
    fn nothing_is_left_undone() {
        for word in LEFT_UNDONE {
            check_line(&format!("// {word}: later"), Some(word));
            check_line(&format!("let x = \"{word}\";"), Some(word));
            check_line(&format!("// {word}S are many"), None);
        }
        check_line("todo!()", Some("todo! is a stub"));
        check_line("    unimplemented!(\"x\")", Some("unimplemented! is a stub"));
        check_line("dbg!(x);", Some("dbg! is a stub"));
        check_line("my_todo!()", None);
        check_line("// todo!() is not code here", None);
        check_line("let x = \"dbg!\";", None);
    }

    #[test]
    fn lints_are_expected_and_tests_are_run() {
        check_line("#[allow(dead_code)]", Some("allow(…) outlives"));
        check_line("#![allow(dead_code)]", Some("allow(…) outlives"));
        check_line("#[cfg_attr(test, allow(dead_code))]", Some("allow(…) outlives"));
        check_line("#[expect(dead_code, reason = \"soon\")]", None);
        check_line("#[ignore = \"slow\"]", Some("an ignored test"));
        check_line("#[ignore]", Some("an ignored test"));
    }

    #[test]
    fn unsafe_is_for_sys() {
        check_line("unsafe { f() }", Some("unsafe is for crates/sys only"));
        check_line("unsafe fn f() {}", Some("unsafe is for crates/sys only"));
        check_line("// unsafe in a comment", None);
        check_line("#![forbid(unsafe_code)]", None);
        check_file("crates/sys/src/spawn.rs", "//! Spawn.\nunsafe { f() }\n", &[]);
    }

    #[test]
    fn tests_do_not_sleep() {
        let text = "//! A file.\nthread::sleep(time);\n";
        let expected = (2, "a test that sleeps");
        check_file("crates/keeper/src/pump.rs", text, &[]);
        check_file("crates/keeper/tests/it/main.rs", text, &[expected]);
        check_file("crates/testkit/src/wait.rs", text, &[expected]);
        check_file("crates/testkit/src/wait.rs", "//! A file.\nasleep(1); sleep_until(2);\n", &[]);
        let module = "//! A file.\nsleep(1);\n#[cfg(test)]\nmod tests {\n    sleep(2);\n}\n";
        check_file(FILE, module, &[(5, "a test that sleeps")]);
        check_file(FILE, "//! A file.\n#[cfg(test)]\nmod tables;\nfn f() { sleep(1); }\n", &[]);
    }
}
