//! Text for a terminal: no output of a service or response of a daemon can control the terminal.

use jiff::tz::TimeZone;
use proctor_ops::table::TABLE;
use proctor_ops::text_output::escape_filter::{Colours, harmless, harmless_line};
use proctor_ops::text_output::{Page, unpainted};
use serde_json::Value;

pub(crate) fn check(bytes: &[u8]) {
    let text = crate::lossy(bytes);
    let plain = harmless(&text);
    assert!(!plain.contains(acts), "{plain:?}");
    assert_eq!(harmless(&plain), plain, "what is harmless is left alone");
    let stripped = harmless_line(&text, Colours::Strip);
    assert!(!stripped.contains(|c| c != '\t' && acts(c)), "{stripped:?}");
    let kept = harmless_line(&text, Colours::Keep);
    let uncoloured = without_colours(&kept);
    assert!(!uncoloured.contains(|c| c != '\t' && acts(c)), "{kept:?}");
    assert_eq!(uncoloured, stripped, "colours are all that is kept");
    assert!(kept == uncoloured || kept.ends_with("\x1b[0m"), "a colour outlives its line");
}

/// Whether a character would mislead a terminal or a reader of right-to-left text.
fn acts(c: char) -> bool {
    let invisible = ['\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}'];
    let turns = ('\u{202a}'..='\u{202e}').contains(&c) || ('\u{2066}'..='\u{2069}').contains(&c);
    c.is_control() || invisible.contains(&c) || turns
}

/// Removes `ESC [ numbers m`, and nothing else.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ';' && c != ':');
        match end.filter(|end| part[*end..].starts_with('m')) {
            Some(end) => out += &part[end + 1..],
            None => out += &format!("\x1b[{part}"),
        }
    }
    out
}

/// The first byte selects the operation, the rest is its response.
pub(crate) fn output(bytes: &[u8]) {
    let Some((entry, bytes)) = crate::choice(bytes) else { return };
    let Ok(output) = serde_json::from_slice::<Value>(bytes) else { return };
    let mut page = Page::new(|| TimeZone::UTC);
    if TABLE[entry % TABLE.len()].show(&output, &mut page).is_err() {
        return;
    }
    for width in [None, Some(0), Some(1), Some(40)] {
        let text = page.render(width, unpainted);
        assert!(!text.contains(|c| c != '\n' && c != '\t' && acts(c)), "{text:?}");
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    [
        "plain \u{fc}n\u{ef}code",
        "\x1b[32mok\x1b[0m \x1b[1;38;5;7mx",
        "\x1b[2J\x1b]0;title\x07\u{9b}31m",
        "10%\r20%\ta\r",
        "abc\u{202e}fdp.exe\u{2066}",
        "\x1b[31",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

pub(crate) fn seeds_output() -> Vec<Vec<u8>> {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../ops/tests/golden");
    let Ok(entries) = std::fs::read_dir(golden) else { return Vec::new() };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|it| it == "json"));
    files.sort();
    let seed = |file: &std::path::PathBuf| {
        let name = file.file_name()?.to_str()?;
        let operation = name.split('.').take(2).collect::<Vec<_>>().join(".");
        let at = TABLE.iter().position(|entry| entry.meta.name == operation)?;
        let value: Value = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
        Some([&[at as u8], value.to_string().as_bytes()].concat())
    };
    files.iter().filter_map(seed).collect()
}
