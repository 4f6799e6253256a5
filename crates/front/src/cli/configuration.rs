//! Finds the configuration of a command. `up`, `daemon start` and a keeper in the foreground share this rule and report its
//! result.
//!
//! 1. `--config FILE`
//! 2. `PROCTOR_CONFIG`, then `MAGICTUNNEL_CONFIG`
//! 3. the nearest `proctor.yaml` or `proctor.yml`, from the working directory upwards to the home directory
//! 4. `SUPERVISOR_TARGET_CMD`: one service named `target`
//! 5. the configuration that this home ran last
//! 6. for `up`, the built-in example

use proctor_ops::error::OpError;
use serde_json::{Value, json};
use std::path::{Component, Path, PathBuf};

/// File names of a configuration, in search order.
const NAMES: [&str; 2] = ["proctor.yaml", "proctor.yml"];

/// Variables that name a configuration, by precedence.
const VARIABLES: [&str; 2] = ["PROCTOR_CONFIG", "MAGICTUNNEL_CONFIG"];

/// Command of the only service, if there is no file.
const TARGET_COMMAND: &str = "SUPERVISOR_TARGET_CMD";

/// Configuration of a command, by the part of the rule that found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    Flag(PathBuf),
    Variable(&'static str, PathBuf),
    Nearest(PathBuf),
    Target,
    /// The last configuration of this home, or none.
    Last,
}

impl Choice {
    /// Returns the choice of this process, with the value of `--config`.
    pub(crate) fn new(flag: Option<PathBuf>) -> Result<Choice, OpError> {
        Choice::from_folder(flag, std::env::current_dir().ok().as_deref())
    }

    /// Returns the choice for work in this folder.
    pub(crate) fn from_folder(
        flag: Option<PathBuf>,
        folder: Option<&Path>,
    ) -> Result<Choice, OpError> {
        let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let named = VARIABLES.iter().find_map(|name| Some((*name, var(name)?)));
        let choice = match (flag, named) {
            (Some(path), _) => Choice::Flag(absolute(path)?),
            (None, Some((name, path))) => Choice::Variable(name, absolute(path.into())?),
            (None, None) => {
                let home = var("HOME").map(PathBuf::from);
                match folder.and_then(|folder| nearest(folder, home.as_deref())) {
                    Some(path) => Choice::Nearest(path),
                    None if var(TARGET_COMMAND).is_some() => Choice::Target,
                    None => Choice::Last,
                }
            }
        };
        Ok(choice)
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Choice::Flag(path) | Choice::Variable(_, path) | Choice::Nearest(path) => Some(path),
            Choice::Target | Choice::Last => None,
        }
    }

    /// Completes the input of `service.up`.
    pub(crate) fn fill(&self, input: &mut Value) {
        if let Some(path) = self.path() {
            input["config"] = json!(path.to_string_lossy());
        }
    }

    /// Returns one line about the configuration `source` and why it was chosen.
    pub(crate) fn describe(&self, source: &str) -> String {
        let why = match self {
            Choice::Flag(_) => "--config".to_owned(),
            Choice::Variable(name, _) => (*name).to_owned(),
            Choice::Nearest(path) if path.parent() == std::env::current_dir().ok().as_deref() => {
                "in this folder".to_owned()
            }
            Choice::Nearest(_) => "the nearest in a parent folder".to_owned(),
            Choice::Target => "no file was found".to_owned(),
            Choice::Last => "the last one of this home; no file was found".to_owned(),
        };
        format!("configuration: {source} ({why})")
    }
}

/// Returns one spelling for one file, because another path counts as another configuration. A folder is resolved only if its
/// name has `..`, so a link to a folder keeps the name that the user gave.
fn absolute(path: PathBuf) -> Result<PathBuf, OpError> {
    let absolute = std::path::absolute(&path).map_err(|error| {
        OpError::bad_input(format!("cannot resolve {}: {error}", path.display()))
    })?;
    let climbs = absolute.components().any(|part| part == Component::ParentDir);
    let folder = absolute.parent().filter(|_| climbs).and_then(|it| it.canonicalize().ok());
    Ok(match (folder, absolute.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        (None, _) | (_, None) => absolute,
    })
}

/// Searches upwards from `folder` to the root, or to `home` if that comes first.
fn nearest(folder: &Path, home: Option<&Path>) -> Option<PathBuf> {
    for folder in folder.ancestors() {
        if let Some(path) = NAMES.iter().map(|name| folder.join(name)).find(|path| path.is_file()) {
            return Some(path);
        }
        if Some(folder) == home {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_configuration_counts_and_home_is_the_limit() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b/c");
        std::fs::create_dir_all(&deep).unwrap();
        let check = |home: &str, expected: Option<&str>| {
            let found = nearest(&deep, Some(&root.path().join(home)));
            assert_eq!(found, expected.map(|path| root.path().join(path)), "home {home}");
        };
        check("a", None);
        std::fs::write(root.path().join("proctor.yaml"), "").unwrap();
        check("a", None);
        check("elsewhere", Some("proctor.yaml"));
        std::fs::write(root.path().join("a/proctor.yml"), "").unwrap();
        check("a", Some("a/proctor.yml"));
        check("a/b", None);
        std::fs::write(deep.join("proctor.yml"), "").unwrap();
        std::fs::write(deep.join("proctor.yaml"), "").unwrap();
        check("a", Some("a/b/c/proctor.yaml"));
    }
}
