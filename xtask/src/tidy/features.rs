//! What users get has no failpoints: no build but that of tests turns the feature on.

use super::Finding;
use crate::step;
use anyhow::{Context as _, Result};

const FEATURE: &str = "failpoints";

pub(crate) fn check() -> Result<Vec<Finding>> {
    // Without the edges of tests this is what `cargo build`, `cargo install` and a release see.
    let words = ["tree", "--quiet", "--workspace", "--edges", "normal", "--prefix", "none"];
    let mut tree = step::cargo(&words)?;
    tree.args(["--format", "{p}|{f}"]);
    let tree = step::output(tree).context("cannot ask cargo for the features")?;
    let message = |package| format!("{package} has {FEATURE} in a build that is not for tests");
    let findings = with_failpoints(&tree).into_iter();
    Ok(findings
        .map(|package| Finding { file: "Cargo.toml".into(), line: 1, message: message(package) })
        .collect())
}

/// Packages of lines like `name v1.0.0 (folder)|feature,feature (*)`.
fn with_failpoints(tree: &str) -> Vec<&str> {
    let has = |line: &&str| {
        let features = line.split_once('|').map_or("", |(_, features)| features);
        features.split([',', ' ']).any(|feature| feature == FEATURE)
    };
    let mut names: Vec<&str> =
        tree.lines().filter(has).filter_map(|line| line.split(' ').next()).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_tree(tree: &str, expected: &[&str]) {
        assert_eq!(with_failpoints(tree), expected, "{tree}");
    }

    #[test]
    fn only_a_feature_that_is_on_counts() {
        check_tree("proctor v0.1.0 (/x)|\nproctor-sys v0.1.0 (/x/failpoints)|\n", &[]);
        check_tree("proctor-sys v0.1.0 (/x)|failpoints\n", &["proctor-sys"]);
        check_tree("a v1.0.0|default,failpoints (*)\nb v1.0.0|std\n", &["a"]);
    }
}
