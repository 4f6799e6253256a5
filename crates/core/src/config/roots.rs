//! The folders that file operations may access: `roots`.

use super::keys::{Kind, suggest};
use super::problem::quoted;
use super::read::{Reader, is_extension};
use super::secret::shown_strictly;
use super::tree::{Content, Entry, Node};
use super::value::Value;

/// Pattern of a root name, for the schema. The name precedes a colon in a path.
pub(super) const NAME: &str = "[A-Za-z0-9._-]+";

/// Maximum number of roots: more than anybody declares, and few enough to hold each of them open.
const MAX_ROOTS: usize = 64;

/// A folder for file operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootDef {
    /// Letters, digits, '.', '_' and '-'.
    pub name: String,
    /// Absolute path; not checked yet.
    pub path: String,
    pub write: bool,
}

impl RootDef {
    /// Creates a writable root named after its folder.
    pub fn of(path: &str) -> RootDef {
        RootDef { name: name_of(path), path: path.to_owned(), write: true }
    }
}

/// Derives a name from the last part of a path.
fn name_of(path: &str) -> String {
    let last = path.split('/').rfind(|part| !matches!(*part, "" | "." | "..")).unwrap_or("root");
    last.chars().map(|c| if is_plain(c) { c } else { '-' }).collect()
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

impl Reader<'_> {
    pub(super) fn roots(&mut self, node: &Node, path: &str) -> Option<Value> {
        let items = self.items(node, path, &super::scalar::expected(&Kind::Roots))?;
        if items.len() > MAX_ROOTS {
            self.problem(node.place, format!("{path}: more than {MAX_ROOTS} roots"), None);
            return None;
        }
        let mut roots: Vec<RootDef> = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let Some(root) = self.root(item, &format!("{path}[{at}]")) else { continue };
            if roots.iter().any(|other| other.name == root.name) {
                let message = format!("{path}[{at}]: {} is already a root", quoted(&root.name));
                self.problem(item.place, message, Some("give it another 'name'".into()));
            }
            roots.push(root);
        }
        (roots.len() == items.len()).then_some(Value::Roots(roots))
    }

    /// Reads a path, or a mapping that contains one.
    fn root(&mut self, node: &Node, path: &str) -> Option<RootDef> {
        let entries = match &node.content {
            Content::Mapping(entries) => entries.as_slice(),
            Content::Scalar { .. } | Content::Sequence(_) => {
                return self.folder_of(node, path).map(|folder| RootDef::of(&folder));
            }
        };
        let (mut folder, mut name, mut write) = (None, None, true);
        for entry in entries {
            let path = format!("{path}.{}", entry.key);
            match &*entry.key {
                "path" => folder = Some(self.folder_of(&entry.value, &path)?),
                "name" => name = Some(self.root_name(&entry.value, &path)?),
                "write" => write = self.flag(&entry.value, &path)?,
                key if is_extension(key) => {}
                _ => self.stray_key(entry, &path),
            }
        }
        let Some(folder) = folder else {
            self.problem(node.place, format!("{path}: 'path' is missing"), None);
            return None;
        };
        let name = name.unwrap_or_else(|| name_of(&folder));
        Some(RootDef { name, path: folder, write })
    }

    fn folder_of(&mut self, node: &Node, path: &str) -> Option<String> {
        let value = self.value(&Kind::Folder, node, path)?;
        if let Value::Text(word) = value { Some(word.text) } else { None }
    }

    fn flag(&mut self, node: &Node, path: &str) -> Option<bool> {
        Some(self.value(&Kind::Bool, node, path)? == Value::Bool(true))
    }

    fn root_name(&mut self, node: &Node, path: &str) -> Option<String> {
        let word = self.word(node, path, "a name")?;
        if word.text.is_empty() || !word.text.chars().all(is_plain) {
            let found = quoted(&shown_strictly(&word.shown));
            let message = format!("{path}: found {found}, expected letters, digits, '.', '_', '-'");
            self.problem(node.place, message, None);
            return None;
        }
        Some(word.text)
    }

    fn stray_key(&mut self, entry: &Entry, path: &str) {
        let near = suggest::nearest(&entry.key, ["path", "name", "write"].into_iter());
        let help = near.map(|near| format!("did you mean '{near}'?"));
        self.problem(entry.place, format!("{path}: unknown key {}", quoted(&entry.key)), help);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, ConfigContext, parse};
    use super::*;

    fn read(roots: &str) -> Result<Config, String> {
        let text = format!("supervisor:\n  roots: {roots}\n  services: {{}}\n");
        let around =
            ConfigContext { base_dir: "/srv/app", var: &|_| None, read: &|_| Err(String::new()) };
        parse("p.yaml", &text, &around)
            .map_err(|problems| problems.iter().map(|p| format!("{p}\n")).collect())
    }

    #[track_caller]
    fn check(roots: &str, expected: &[(&str, &str, bool)]) {
        let found = read(roots).unwrap().roots.unwrap();
        let found: Vec<_> =
            found.iter().map(|root| (root.name.as_str(), root.path.as_str(), root.write)).collect();
        assert_eq!(found, expected, "{roots}");
    }

    #[test]
    fn roots_are_paths_or_mappings_with_one() {
        check("[]", &[]);
        check("[.]", &[("app", "/srv/app", true)]);
        check("[/]", &[("root", "/", true)]);
        check(
            "[{ path: ., name: code }, { path: ../docs, write: false, x-why: because }]",
            &[("code", "/srv/app", true), ("docs", "/srv/app/../docs", false)],
        );
        check("[\"/srv/my files:1\"]", &[("my-files-1", "/srv/my files:1", true)]);
    }

    #[test]
    fn what_is_wrong_with_a_root_is_said() {
        for (roots, word) in [
            ("x", "expected a list of folders"),
            ("[{ name: a }]", "'path' is missing"),
            ("[{ path: a, nmae: b }]", "did you mean 'name'?"),
            ("[{ path: a, name: 'b:c' }]", "expected letters"),
            ("[{ path: a, name: '' }]", "expected letters"),
            ("[{ path: '' }]", "expected a path"),
            ("[~/a]", "'~' is not expanded"),
            ("[{ path: a, write: maybe }]", "true or false"),
            ("[a, b/a]", "'a' is already a root"),
            ("[[a]]", "expected a folder"),
        ] {
            let problems = read(roots).unwrap_err();
            assert!(problems.contains(word), "{roots}: {problems}");
        }
        assert!(read(&format!("[{}]", "a, ".repeat(65))).unwrap_err().contains("more than 64"));
    }

    #[test]
    fn without_a_word_about_roots_nothing_is_said_of_them() {
        let around =
            ConfigContext { base_dir: "/srv", var: &|_| None, read: &|_| Err(String::new()) };
        let config = parse("p.yaml", "services: {}\n", &around).unwrap();
        assert_eq!(config.roots, None);
        assert_eq!(
            RootDef::of("/srv/x.y/"),
            RootDef { name: "x.y".into(), path: "/srv/x.y/".into(), write: true }
        );
    }
}
