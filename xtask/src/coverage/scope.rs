//! Selects the lines of a crate that count: those of the program, not those of its tests.

use super::counts::Counts;
use anyhow::{Context as _, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// One file of a crate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lines {
    /// Relative to the root of the repository.
    file: PathBuf,
    pub(super) covered: usize,
    /// From 1, in order.
    pub(super) missing: Vec<usize>,
}

/// `crates/core/src/home.rs: 12, 40-43`
impl fmt::Display for Lines {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges: Vec<String> = ranges(&self.missing)
            .into_iter()
            .map(|(first, last)| match first == last {
                true => first.to_string(),
                false => format!("{first}-{last}"),
            })
            .collect();
        write!(out, "{}: {}", self.file.display(), ranges.join(", "))
    }
}

fn ranges(lines: &[usize]) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &line in lines {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == line => *last = line,
            Some(_) | None => ranges.push((line, line)),
        }
    }
    ranges
}

/// The files of `crates/NAME/src` that have lines of the program.
pub(super) fn of_crate(root: &Path, name: &str, counts: &Counts) -> Result<Vec<Lines>> {
    let source = root.join("crates").join(name).join("src");
    let own = || counts.files.iter().filter(|(file, _)| file.starts_with(&source));
    let mut texts = Vec::new();
    for (file, _) in own() {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        texts.push((file.as_path(), text));
    }
    // A file without a line of code may still declare a module of tests.
    texts.push((&source, std::fs::read_to_string(source.join("lib.rs")).unwrap_or_default()));
    let tests: Vec<PathBuf> =
        texts.iter().flat_map(|(file, text)| test_modules(file, text)).collect();
    let mut found = Vec::new();
    for ((file, lines), (_, text)) in own().zip(&texts) {
        if tests.iter().any(|module| file.with_extension("").starts_with(module)) {
            continue;
        }
        let end = tests_begin(text).unwrap_or(usize::MAX);
        let program = || lines.range(..end);
        found.push(Lines {
            file: file.strip_prefix(root).unwrap_or(file).to_path_buf(),
            covered: program().filter(|(_, count)| **count > 0).count(),
            missing: program().filter(|(_, count)| **count == 0).map(|(line, _)| *line).collect(),
        });
    }
    Ok(found)
}

/// Line of `#[cfg(test)]` before a module in this file; the module is the last item.
fn tests_begin(text: &str) -> Option<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |pair: &[&str]| {
        pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
    };
    lines.windows(2).position(begins).map(|index| index + 1)
}

/// Paths without `.rs` of the modules that are files of tests.
fn test_modules(file: &Path, text: &str) -> Vec<PathBuf> {
    let folder = match file.file_stem().and_then(|stem| stem.to_str()) {
        Some("mod" | "lib" | "main") => file.parent().unwrap_or(file).to_path_buf(),
        Some(_) | None => file.with_extension(""),
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declared = |pair: &[&str]| {
        let name = pair[1].strip_prefix("mod ")?.strip_suffix(';')?;
        (pair[0] == "#[cfg(test)]").then(|| folder.join(name))
    };
    lines.windows(2).filter_map(declared).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn lines_of_tests_do_not_count() {
        let root = tempfile::tempdir().unwrap();
        let source = root.path().join("crates/x/src");
        std::fs::create_dir_all(source.join("part/model")).unwrap();
        let files = [
            ("lib.rs", "//! x\nmod part;\n"),
            (
                "part/mod.rs",
                "fn a() {\n}\n#[cfg(test)]\nmod model;\n\n#[cfg(test)]\nmod tests {\n}\n",
            ),
            ("part/model.rs", "fn b() {}\n"),
            ("part/model/world.rs", "fn c() {}\n"),
        ];
        let mut counts = Counts::default();
        for (name, text) in files {
            std::fs::write(source.join(name), text).unwrap();
            let lines = (1..=text.lines().count()).map(|line| (line, u64::from(line == 1)));
            if name != "lib.rs" {
                counts.files.insert(source.join(name), lines.collect::<BTreeMap<_, _>>());
            }
        }
        let found = of_crate(root.path(), "x", &counts).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].covered, found[0].missing.as_slice()), (1, &[2, 3, 4, 5][..]));
        assert_eq!(found[0].to_string(), "crates/x/src/part/mod.rs: 2-5");
    }

    #[test]
    fn neighbouring_lines_are_one_range() {
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10]), [(1, 3), (7, 7), (9, 10)]);
        assert_eq!(ranges(&[]), []);
    }
}
