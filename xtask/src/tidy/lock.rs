//! `Cargo.lock` names the one public registry, so that everyone builds from the same sources.

use super::Finding;

const SOURCE: &str = "source = ";
const DEFAULT: &str = "\"registry+https://github.com/rust-lang/crates.io-index\"";

pub(crate) fn check(file: &str, text: &str) -> Vec<Finding> {
    let foreign = |line: &str| {
        line.strip_prefix(SOURCE).filter(|&source| source != DEFAULT).map(str::to_owned)
    };
    let lines = text.lines().enumerate().filter_map(|(index, line)| Some((index, foreign(line)?)));
    lines
        .map(|(index, source)| Finding {
            file: file.to_owned(),
            line: index + 1,
            message: format!("{source} is not crates.io: use a published version of this package"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_source(source: &str, allowed: bool) {
        let text = format!("[[package]]\nname = \"a\"\nsource = {source}\n");
        assert_eq!(check("Cargo.lock", &text).is_empty(), allowed, "{source}");
    }

    #[test]
    fn only_the_public_registry_is_a_source() {
        check_source(DEFAULT, true);
        check_source("\"registry+https://registry.example.org/index\"", false);
        check_source("\"sparse+https://registry.example.org/\"", false);
        check_source("\"git+https://example.org/a.git#0123\"", false);
        assert_eq!(check("Cargo.lock", "[[package]]\nname = \"ours\"\n"), []);
    }
}
