//! Release builds have no failpoints and no fixtures: only test builds enable these features.

use super::Finding;
use crate::step;
use anyhow::{Context as _, Result};

const FEATURES: &[&str] = &["failpoints", "fixtures"];

pub(crate) fn check() -> Result<Vec<Finding>> {
    // Without the edges of tests this is what `cargo build`, `cargo install` and a release see.
    let words = ["tree", "--quiet", "--workspace", "--edges", "normal", "--prefix", "none"];
    let mut tree = step::cargo(&words)?;
    tree.args(["--format", "{p}|{f}"]);
    let tree = step::output(tree).context("cannot read the features from cargo")?;
    let message =
        |(package, feature)| format!("{package} has {feature} in a build that is not for tests");
    let findings = for_tests(&tree).into_iter();
    Ok(findings
        .map(|found| Finding { file: "Cargo.toml".into(), line: 1, message: message(found) })
        .collect())
}

/// Finds test features in lines like `name v1.0.0 (folder)|feature,feature (*)`.
fn for_tests(tree: &str) -> Vec<(&str, &str)> {
    let found = |line| {
        let (package, features) = str::split_once(line, '|')?;
        let mut features = features.split([',', ' ']);
        let feature = features.find(|feature| FEATURES.contains(feature))?;
        Some((package.split(' ').next()?, feature))
    };
    let mut all: Vec<(&str, &str)> = tree.lines().filter_map(found).collect();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_tree(tree: &str, expected: &[(&str, &str)]) {
        assert_eq!(for_tests(tree), expected, "{tree}");
    }

    #[test]
    fn only_a_feature_that_is_on_counts() {
        check_tree("proctor v0.1.0 (/x)|\nproctor-sys v0.1.0 (/x/failpoints)|\n", &[]);
        check_tree("proctor-sys v0.1.0 (/x)|failpoints\n", &[("proctor-sys", "failpoints")]);
        check_tree("a v1.0.0|default,failpoints (*)\nb v1.0.0|std\n", &[("a", "failpoints")]);
        check_tree("proctor-front v0.1.0 (/x)|fixtures\n", &[("proctor-front", "fixtures")]);
    }
}
