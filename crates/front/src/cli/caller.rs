//! Where the caller stands: folder, environment, and the configuration that is meant when none is named.

use proctor_ops::operation::Meta;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Names of the configuration, in the order in which they are looked for.
const NAMES: [&str; 2] = ["proctor.yaml", "proctor.yml"];

/// Variables that name it, in the order in which they count.
const VARIABLES: [&str; 2] = ["PROCTOR_CONFIG", "MAGICTUNNEL_CONFIG"];

/// Add what an operation wants to know of the caller.
pub(crate) fn fill_for(meta: &Meta, input: &mut Value) {
    if meta.wants_caller {
        fill(input);
    } else if meta.wants_folder {
        fill_folder(input);
    }
}

fn fill_folder(input: &mut Value) {
    if let (Value::Object(fields), Ok(folder)) = (input, std::env::current_dir()) {
        fields.insert("base_dir".into(), json!(folder.to_string_lossy()));
    }
}

/// Add the caller's environment and folder to an input that wants them.
pub(crate) fn fill(input: &mut Value) {
    fill_folder(input);
    let Value::Object(fields) = input else { return };
    // What is not text cannot be in a request; the service does without it.
    let variables: Map<String, Value> = std::env::vars_os()
        .filter_map(|(key, value)| {
            Some((key.into_string().ok()?, json!(value.into_string().ok()?)))
        })
        .collect();
    fields.insert("environment".into(), Value::Object(variables));
}

/// The configuration that the environment names, or the nearest one from this folder upwards.
pub(crate) fn configuration() -> Option<PathBuf> {
    let named =
        VARIABLES.iter().find_map(|name| std::env::var_os(name).filter(|value| !value.is_empty()));
    if let Some(path) = named {
        return Some(path.into());
    }
    let folder = std::env::current_dir().ok()?;
    let home = std::env::var_os("HOME").map(PathBuf::from);
    nearest(&folder, home.as_deref())
}

/// Upwards from `folder` to the root, or to `home` if that comes first.
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
