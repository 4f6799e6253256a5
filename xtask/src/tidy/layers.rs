//! Enforces the dependencies between crates: the picture in ARCHITECTURE.md.
//!
//! Checks direct dependencies as cargo resolves them; test dependencies are free.

use super::Finding;
use crate::step;
use anyhow::{Context as _, Result};
use std::path::Path;

/// The forbidden dependencies of a crate, with the reason.
struct Layer {
    package: &'static str,
    never: &'static [&'static str],
    why: &'static str,
}

const LAYERS: &[Layer] = &[
    Layer {
        package: "proctor-core",
        never: &[
            "proctor-sys",
            "proctor-keeper",
            "proctor-engine",
            "proctor-ops",
            "proctor-front",
            "tokio",
            "rustix",
            "libc",
        ],
        why: "core only decides: let the caller act and pass in the result",
    },
    Layer {
        package: "proctor-sys",
        never: &["proctor-keeper", "proctor-engine", "proctor-ops", "proctor-front"],
        why: "sys is the interface to the kernel and may use only core",
    },
    Layer {
        package: "proctor-keeper",
        never: &[
            "proctor-engine",
            "proctor-ops",
            "proctor-front",
            "tokio",
            "serde_json",
            "hyper",
            "tracing-subscriber",
        ],
        why: "the keeper stays small enough never to fail: let the daemon do it",
    },
    Layer {
        package: "proctor-engine",
        never: &["proctor-keeper", "proctor-ops", "proctor-front", "clap", "axum", "rmcp"],
        why: "the engine knows the keeper by messages and no front at all: use core::wire, or make it an operation",
    },
    Layer {
        package: "proctor-ops",
        never: &["proctor-keeper", "proctor-front"],
        why: "operations know the engine and no front: give the front what it needs as output",
    },
    Layer {
        package: "proctor-front",
        never: &["proctor-engine", "proctor-keeper"],
        why: "a front reaches services through the operations only: add an operation",
    },
    Layer {
        package: "xtask",
        never: &[
            "proctor-core",
            "proctor-sys",
            "proctor-keeper",
            "proctor-engine",
            "proctor-ops",
            "proctor-front",
            "proctor-decoders",
        ],
        why: "xtask is built before anything is checked: run a test of the crate that knows it",
    },
];

/// One dependency of one of our packages.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Edge {
    package: String,
    /// Folder of the package.
    folder: String,
    on: String,
}

pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let tree = step::cargo(&[
        "tree",
        "--quiet",
        "--workspace",
        "--no-dedupe",
        "--depth",
        "1",
        "--edges",
        "normal",
        "--prefix",
        "depth",
        "--format",
        "|{p}",
    ])?;
    let edges = edges(&step::output(tree).context("cannot read the dependencies from cargo")?);
    let mut findings = Vec::new();
    for (edge, why) in forbidden(&edges) {
        let manifest = Path::new(&edge.folder).join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest)
            .with_context(|| format!("cannot read {}", manifest.display()))?;
        let file = manifest.strip_prefix(root).unwrap_or(&manifest).display().to_string();
        let message = format!("{} must not depend on {}: {why}", edge.package, edge.on);
        findings.push(Finding { file, line: line_of(&text, &edge.on), message });
    }
    Ok(findings)
}

/// Parses `0|package v1.0.0 (folder)`, then `1|dependency v2.0.0` for each of its dependencies.
fn edges(tree: &str) -> Vec<Edge> {
    let mut edges = Vec::new();
    let mut current = None;
    for (depth, name, folder) in tree.lines().filter_map(entry) {
        match (depth, &current) {
            ("0", _) => current = Some((name, folder)),
            (_, Some((package, folder))) => edges.push(Edge {
                package: (*package).to_owned(),
                folder: (*folder).to_owned(),
                on: name.to_owned(),
            }),
            (_, None) => {}
        }
    }
    edges
}

fn entry(line: &str) -> Option<(&str, &str, &str)> {
    let (depth, package) = line.split_once('|')?;
    let name = package.split(' ').next()?;
    let folder = package.rsplit_once('(').map_or("", |(_, folder)| folder.trim_end_matches(')'));
    Some((depth, name, folder))
}

fn forbidden(edges: &[Edge]) -> Vec<(&Edge, &'static str)> {
    let rule = |edge: &Edge| {
        let layer = LAYERS.iter().find(|layer| layer.package == edge.package)?;
        layer.never.contains(&edge.on.as_str()).then_some(layer.why)
    };
    edges.iter().filter_map(|edge| Some((edge, rule(edge)?))).collect()
}

/// The line of a manifest that names a dependency; the first line if it uses another name.
fn line_of(manifest: &str, dependency: &str) -> usize {
    let names = |line: &str| {
        let rest = line.trim_start_matches("[dependencies.").strip_prefix(dependency);
        rest.is_some_and(|rest| rest.starts_with(['.', ' ', '=', ']']))
    };
    manifest.lines().position(names).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_edge(package: &str, on: &str, allowed: bool) {
        let tree =
            format!("0|{package} v0.1.0 (/somewhere/crates/x)\n1|serde v1.0.0\n1|{on} v1.2.3\n");
        let edges = edges(&tree);
        assert_eq!(edges.len(), 2, "{tree}");
        assert_eq!(edges[1].folder, "/somewhere/crates/x");
        assert_eq!(forbidden(&edges).is_empty(), allowed, "{package} on {on}");
    }

    #[test]
    fn dependencies_follow_the_picture() {
        for never in
            ["proctor-sys", "proctor-keeper", "proctor-engine", "proctor-ops", "proctor-front"]
        {
            check_edge("proctor-core", never, false);
        }
        for never in ["tokio", "rustix", "libc"] {
            check_edge("proctor-core", never, false);
        }
        check_edge("proctor-sys", "proctor-core", true);
        check_edge("proctor-sys", "proctor-engine", false);
        check_edge("proctor-keeper", "proctor-sys", true);
        for never in ["tokio", "serde_json", "hyper", "tracing-subscriber"] {
            check_edge("proctor-keeper", never, false);
        }
        for never in ["proctor-engine", "proctor-ops", "proctor-front"] {
            check_edge("proctor-keeper", never, false);
        }
        for never in ["proctor-keeper", "proctor-ops", "proctor-front"] {
            check_edge("proctor-engine", never, false);
        }
        check_edge("proctor-engine", "tokio", true);
        check_edge("proctor-engine", "clap", false);
        check_edge("proctor-ops", "proctor-engine", true);
        check_edge("proctor-ops", "proctor-keeper", false);
        check_edge("proctor-ops", "proctor-front", false);
        check_edge("proctor-front", "proctor-ops", true);
        check_edge("proctor-front", "proctor-engine", false);
        check_edge("proctor-front", "proctor-keeper", false);
        check_edge("proctor", "proctor-keeper", true);
    }

    #[test]
    fn each_package_has_its_own_dependencies() {
        let tree = "0|proctor-core v0.1.0 (/a)\n\n0|proctor-engine v0.1.0 (/b)\n1|tokio v1.0.0 (proc-macro)\n";
        let edge =
            Edge { package: "proctor-engine".into(), folder: "/b".into(), on: "tokio".into() };
        assert_eq!(edges(tree), [edge]);
    }

    #[track_caller]
    fn check_line(manifest: &str, line: usize) {
        assert_eq!(line_of(manifest, "tokio"), line, "{manifest}");
    }

    #[test]
    fn a_finding_names_the_line_of_the_manifest() {
        check_line("[dependencies]\ntokio-util = \"1\"\ntokio.workspace = true\n", 3);
        check_line("[dependencies]\ntokio = \"1\"\n", 2);
        check_line("[package]\n\n[dependencies.tokio]\n", 3);
        check_line("[dependencies]\nasync = { package = \"tokio\" }\n", 1);
    }
}
