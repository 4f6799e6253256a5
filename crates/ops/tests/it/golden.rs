//! Golden tests of readable output: each `NAME.json` in `tests/golden` (named `OPERATION.case.json`) is shown as
//! `NAME.txt` at several
//! widths. `UPDATE_GOLDEN=1` rewrites the texts; read the diff before committing it.

use proctor_ops::table::find;
use proctor_ops::text_output::{Page, Style};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Draws styles as marks, so the golden text shows them.
fn marked(style: Style, text: &str, out: &mut String) {
    let mark = match style {
        Style::Plain => return out.push_str(text),
        Style::Name => 'n',
        Style::Good => 'g',
        Style::Warn => 'w',
        Style::Bad => 'b',
        Style::Dim => 'd',
        Style::Heading => 'h',
    };
    write!(out, "{mark}<{text}>").expect("a string takes everything");
}

fn unmarked(_: Style, text: &str, out: &mut String) {
    out.push_str(text);
}

fn shown(file: &Path) -> String {
    let name = file.file_name().and_then(|n| n.to_str()).expect("a file name");
    let operation: Vec<&str> = name.split('.').take(2).collect();
    let entry = find(&operation.join(".")).unwrap_or_else(|| panic!("{name} names no operation"));
    let text = std::fs::read_to_string(file).expect("a golden input");
    let output: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut page = Page::new(|| jiff::tz::TimeZone::UTC);
    let verdict = entry.show(&output, &mut page).unwrap_or_else(|e| panic!("{name}: {e}"));
    let verdict = verdict.map_or("none", |code| code.as_str());
    let goes_on = page.next().map(|cursor| format!("goes on: {cursor}\n")).unwrap_or_default();
    let (text, remarks) = page.render_apart(None, unmarked);
    let remarks = match remarks.as_str() {
        "" => String::new(),
        remarks => format!("== remarks ==\n{remarks}"),
    };
    format!(
        "verdict: {verdict}\n{goes_on}== pipe ==\n{text}{remarks}== 60 columns ==\n{}== styles ==\n{}",
        page.render(Some(60), unmarked),
        page.render(None, marked),
    )
}

#[test]
fn outputs_look_as_they_did() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let entries = std::fs::read_dir(&folder).expect("the golden folder");
    let inputs: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a directory entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    assert!(inputs.len() >= 10, "only {} golden inputs were found", inputs.len());
    for input in inputs {
        let (text, expected) = (shown(&input), input.with_extension("txt"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&expected, &text).expect("the golden text is written");
        }
        let expected = std::fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(text, expected, "{}", input.display());
    }
}
