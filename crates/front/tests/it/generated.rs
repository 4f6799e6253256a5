//! Checks the committed files, and sections of files, that are generated from the code.
//!
//! A section is between `<!-- generated NAME -->` and `<!-- end NAME -->`; the text around it is written by hand.
//! `cargo xtask gen` runs this test with `UPDATE_GENERATED=1`, which writes the stale ones.

use std::path::Path;

/// Path from the root; the generated section, or the whole file; the function that makes the text.
type Generated = (&'static str, Option<&'static str>, fn() -> String);

const GENERATED: &[Generated] = &[
    ("docs/cli.md", None, proctor_front::cli::reference),
    ("docs/configuration.md", Some("reference"), proctor_core::config::reference),
    ("docs/errors.md", None, proctor_ops::error::reference),
    ("docs/mcp.md", Some("clients"), proctor_front::cli::clients),
    ("docs/mcp.md", Some("tools"), proctor_front::mcp::reference),
    ("docs/openapi.json", None, openapi),
    ("docs/proctor.schema.json", None, schema),
];

#[test]
fn generated_files_are_fresh() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        write(&root, GENERATED).unwrap();
    }
    check(&root, GENERATED).unwrap();
}

fn openapi() -> String {
    serde_json::to_string_pretty(&proctor_front::http::openapi()).unwrap()
}

fn schema() -> String {
    serde_json::to_string_pretty(&proctor_core::config::schema()).unwrap()
}

/// Writes the stale files and returns their paths.
fn write(root: &Path, list: &[Generated]) -> Result<Vec<&'static str>, String> {
    let mut written = Vec::new();
    for one in list {
        if let Some(text) = fresh(root, one)? {
            let path = root.join(one.0);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            written.push(one.0);
        }
    }
    Ok(written)
}

fn check(root: &Path, list: &[Generated]) -> Result<(), String> {
    let mut stale = Vec::new();
    for one in list {
        if fresh(root, one)?.is_some() {
            stale.push(one.0);
        }
    }
    if !stale.is_empty() {
        return Err(format!(
            "not fresh: {}; run `cargo xtask gen` and commit the result",
            stale.join(", ")
        ));
    }
    Ok(())
}

/// Returns the text that the file should have, if it differs.
fn fresh(root: &Path, (path, section, make): &Generated) -> Result<Option<String>, String> {
    let old = read(&root.join(path));
    let new = match section {
        None => ended(make()),
        Some(name) => {
            let old = old
                .as_deref()
                .ok_or_else(|| format!("{path} has a generated section but does not exist"))?;
            replaced(old, name, &make()).map_err(|why| format!("in {path}: {why}"))?
        }
    };
    Ok((old.as_ref() != Some(&new)).then_some(new))
}

fn read(path: &Path) -> Option<String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => None,
        Err(why) => panic!("cannot read {}: {why}", path.display()),
    }
}

fn replaced(old: &str, name: &str, content: &str) -> Result<String, String> {
    let (begin, end) = (format!("<!-- generated {name} -->\n"), format!("<!-- end {name} -->"));
    let (before, rest) =
        old.split_once(&begin).ok_or_else(|| format!("no line {}", begin.trim_end()))?;
    let (_, after) =
        rest.split_once(&end).ok_or_else(|| format!("no line {end} after {}", begin.trim_end()))?;
    Ok(format!("{before}{begin}{}{end}{after}", ended(content.to_owned())))
}

/// Returns the text with exactly one line end at its end.
fn ended(text: String) -> String {
    format!("{}\n", text.trim_end())
}

const WHOLE: &[Generated] = &[("docs/whole.txt", None, || "content".to_owned())];
const SECTION: &[Generated] = &[("page.md", Some("keys"), || "| a |\n".to_owned())];

/// Writes a file that had the text `before`, and expects `after`.
#[track_caller]
fn check_list(list: &[Generated], before: Option<&str>, after: &str) {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join(list[0].0);
    if let Some(text) = before {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let was_fresh = before == Some(after);
    assert_eq!(check(root.path(), list).is_ok(), was_fresh);
    assert_eq!(write(root.path(), list).unwrap().is_empty(), was_fresh);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
    check(root.path(), list).unwrap();
}

#[test]
fn a_generated_file_is_written_when_it_differs() {
    check_list(WHOLE, None, "content\n");
    check_list(WHOLE, Some("old"), "content\n");
    check_list(WHOLE, Some("content\n"), "content\n");
}

#[test]
fn a_generated_section_leaves_its_surroundings_alone() {
    let fresh = "# Keys\n<!-- generated keys -->\n| a |\n<!-- end keys -->\nmore\n";
    check_list(SECTION, Some("# Keys\n<!-- generated keys -->\n<!-- end keys -->\nmore\n"), fresh);
    check_list(SECTION, Some(&fresh.replace("| a |", "| old |\n| older |")), fresh);
    check_list(SECTION, Some(fresh), fresh);
}

#[track_caller]
fn check_refused(text: Option<&str>, why: &str) {
    let root = tempfile::tempdir().unwrap();
    if let Some(text) = text {
        std::fs::write(root.path().join("page.md"), text).unwrap();
    }
    assert_eq!(write(root.path(), SECTION).unwrap_err(), why);
}

#[test]
fn a_section_without_its_marks_is_refused() {
    check_refused(None, "page.md has a generated section but does not exist");
    check_refused(Some("# Keys\n"), "in page.md: no line <!-- generated keys -->");
    check_refused(
        Some("<!-- generated keys -->\n"),
        "in page.md: no line <!-- end keys --> after <!-- generated keys -->",
    );
}

#[test]
fn a_stale_file_is_named_with_the_remedy() {
    let root = tempfile::tempdir().unwrap();
    let message = check(root.path(), WHOLE).unwrap_err();
    assert_eq!(message, "not fresh: docs/whole.txt; run `cargo xtask gen` and commit the result");
}
