//! Converts the tree to layers of values: looks up every key in the table and reads every value as
//! its kind.
//!
//! A [`Layer`] holds the values of one mapping: the supervisor's defaults, or one service. Nothing
//! is merged here.

use super::ConfigContext;
use super::envfile;
use super::interpolate::{self, Expanded};
use super::keys::planned::{self, Status};
use super::keys::{self, Absent, Key, Kind, Scope, suggest};
use super::own_secrets::OwnSecrets;
use super::problem::{MAX_PROBLEMS, Problem, TextPosition, quoted};
use super::scalar;
use super::secret::shown_strictly;
use super::tree::{Content, Entry, MAX_NODES, Node};
use super::value::{DisplayText, Value};
use crate::shell_syntax;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Maximum size of all texts after expansion: sixteen times the largest file.
const MAX_EXPANDED: usize = 16 << 20;

/// Maximum size of the arguments and variables of all services, counting each instance and each use
/// of an env file: a thousand services with 64 KiB each.
const MAX_MADE: usize = 64 << 20;
/// Overhead of a text besides its bytes.
const TEXT_COST: usize = 64;

/// The values of one mapping by full key: `restart.delay`.
pub(super) type Layer = BTreeMap<String, LocatedValue>;

/// A value and its origin.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LocatedValue {
    pub value: Value,
    pub place: Option<TextPosition>,
    /// `proctor.yaml:12:7`, `default`
    pub origin: String,
}

pub(super) struct Reader<'a> {
    pub file: &'a str,
    pub around: &'a ConfigContext<'a>,
    pub problems: Vec<Problem>,
    /// Problems that refuse a new configuration, but not one in force: services that ran before an
    /// upgrade still run.
    pub ambiguities: Vec<Problem>,
    /// Env files already read, by path: many services share one.
    pub env_files: BTreeMap<String, Rc<Result<Vec<envfile::Variable>, String>>>,
    /// Number of values read; the target of several aliases counts each time.
    visited: usize,
    expanded: usize,
    made: usize,
    /// Variables used by the current value.
    pub variables: Vec<String>,
    /// The variables that env files do not set.
    pub own_secrets: OwnSecrets,
    stopped: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &'a str, around: &'a ConfigContext<'a>) -> Reader<'a> {
        Reader {
            file,
            around,
            problems: Vec::new(),
            ambiguities: Vec::new(),
            env_files: BTreeMap::new(),
            visited: 0,
            expanded: 0,
            made: 0,
            variables: Vec::new(),
            own_secrets: OwnSecrets::default(),
            stopped: false,
        }
    }

    pub(super) fn problem(&mut self, place: TextPosition, message: String, help: Option<String>) {
        if self.stopped {
            return;
        }
        if self.problems.len() >= MAX_PROBLEMS {
            let message = "too many problems; the rest was not checked";
            self.problems.push(place.problem(self.file, message.into(), None));
            self.stopped = true;
            return;
        }
        self.problems.push(place.problem(self.file, message, help));
    }

    /// Records a problem that refuses only a new configuration.
    pub(super) fn ambiguity(&mut self, place: TextPosition, message: String, help: String) {
        if self.ambiguities.len() < MAX_PROBLEMS {
            self.ambiguities.push(place.problem(self.file, message, Some(help)));
        }
    }

    /// Gives up with one last problem.
    pub(super) fn stop(&mut self, place: TextPosition, message: String) {
        self.problem(place, message, None);
        self.stopped = true;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// The place of the last value, and the variables expanded in it.
    pub(super) fn origin(&self, place: TextPosition) -> String {
        let origin = format!("{}:{}:{}", self.file, place.line, place.column);
        match self.variables.as_slice() {
            [] => origin,
            variables => format!("{origin}, environment {}", variables.join(", ")),
        }
    }

    /// The default of every key of a service.
    pub(super) fn defaults(&mut self) -> Layer {
        self.defaults_of(keys::leaves(Scope::Service))
    }

    /// The default of each of these keys.
    pub(super) fn defaults_of(
        &mut self,
        leaves: impl Iterator<Item = (String, &'static Key)>,
    ) -> Layer {
        let mut layer = Layer::new();
        for (full, key) in leaves {
            let Absent::Value(text) = key.default else { continue };
            let (node, _) = super::tree::parse("default", text);
            let node = node.expect("a default of the table is YAML and not null");
            if let Some(value) = self.value(&key.kind, &node, &full) {
                layer.insert(full, LocatedValue { value, place: None, origin: "default".into() });
            }
        }
        layer
    }

    /// Reads the mapping `node` at `path`. The caller handles `services`.
    pub(super) fn layer(&mut self, node: &Node, here: Scope, path: &str) -> Layer {
        let mut layer = Layer::new();
        self.block(node, (keys::KEYS, None), here, path, &mut layer);
        layer
    }

    fn block(
        &mut self,
        node: &Node,
        (keys, block): (&'static [Key], Option<&str>),
        here: Scope,
        path: &str,
        layer: &mut Layer,
    ) {
        for entry in self.entries(node, path, "a mapping") {
            if is_extension(&entry.key) || !self.visit(entry.place) {
                continue;
            }
            let Some(key) = keys::find(keys, &entry.key, here) else {
                self.unknown(entry, (keys, block), here, path);
                continue;
            };
            let full_path = format!("{path}.{}", key.name);
            let full = block.map_or(key.name.to_string(), |it| format!("{it}.{}", key.name));
            if let Kind::Block(inner) = key.kind {
                self.block(&entry.value, (inner, Some(&full)), here, &full_path, layer);
            } else if !matches!(key.kind, Kind::Services) {
                self.leaf(key, entry, full, &full_path, layer);
            }
        }
    }

    fn leaf(&mut self, key: &Key, entry: &Entry, full: String, path: &str, layer: &mut Layer) {
        self.variables.clear();
        let Some(value) = self.value(&key.kind, &entry.value, path) else { return };
        let place = entry.value.place;
        let origin = self.origin(place);
        if full.starts_with("security.") {
            self.own_secrets.add_names(&self.variables, matches!(key.kind, Kind::Secret));
        }
        layer.insert(full, LocatedValue { value, place: Some(place), origin });
    }

    /// Returns the entries of a mapping, or reports a problem.
    pub(super) fn entries<'n>(&mut self, node: &'n Node, path: &str, what: &str) -> &'n [Entry] {
        match &node.content {
            Content::Mapping(entries) => return entries,
            Content::Scalar { .. } | Content::Sequence(_) => {}
        }
        self.wrong(node, path, what, None);
        &[]
    }

    /// Reports that `node` is not the expected kind.
    pub(super) fn wrong(&mut self, node: &Node, path: &str, expected: &str, help: Option<String>) {
        let found = match &node.content {
            Content::Scalar { .. } if node.is_null() => "nothing".to_string(),
            Content::Scalar { text, .. } => quoted(&shown_strictly(text)),
            Content::Sequence(_) => "a list".into(),
            Content::Mapping(_) => "a mapping".into(),
        };
        self.problem(node.place, format!("{path}: found {found}, expected {expected}"), help);
    }

    fn unknown(
        &mut self,
        entry: &Entry,
        (keys, block): (&'static [Key], Option<&str>),
        here: Scope,
        path: &str,
    ) {
        let name = quoted(&entry.key);
        if let Some(it) = planned::find(block, &entry.key, here) {
            let (message, help) = match it.status {
                Status::Later(what) => (format!("is not supported yet ({what}): remove it"), None),
                Status::Instead(hint) => ("is not a key here".to_owned(), Some(hint.to_owned())),
            };
            return self.problem(entry.place, format!("{path}: {name} {message}"), help);
        }
        let elsewhere =
            block.is_none().then(|| keys.iter().find(|key| key.name == &*entry.key)).flatten();
        let help = match elsewhere.map(|key| key.scope) {
            Some(Scope::Service) => Some("it belongs in a service, below 'services'".to_string()),
            Some(Scope::Supervisor | Scope::Both) => Some("it belongs in 'supervisor'".to_string()),
            None => {
                let names = keys.iter().filter(|key| key.scope.allows(here)).map(|key| key.name);
                suggest::nearest(&entry.key, names).map(|it| format!("did you mean '{it}'?"))
            }
        };
        self.problem(entry.place, format!("{path}: unknown key {name}"), help);
    }

    /// Counts one more value; returns false at the limit.
    pub(super) fn visit(&mut self, place: TextPosition) -> bool {
        self.visited += 1;
        if self.visited > MAX_NODES {
            self.stop(
                place,
                format!("more than {MAX_NODES} values, including those repeated by aliases"),
            );
        }
        !self.stopped
    }

    /// Charges `count` texts of `size` bytes in total that services will hold; returns false at the
    /// limit.
    pub(super) fn charge(&mut self, count: usize, size: usize, place: TextPosition) -> bool {
        self.made = self.made.saturating_add(count * TEXT_COST + size);
        if self.made > MAX_MADE {
            let message = "the arguments and variables of all services together take more than";
            self.stop(place, format!("{message} {MAX_MADE} bytes"));
        }
        !self.stopped
    }

    /// Returns the text of a scalar after expansion.
    pub(super) fn word(&mut self, node: &Node, path: &str, expected: &str) -> Option<DisplayText> {
        if !self.visit(node.place) {
            return None;
        }
        let text = match &node.content {
            Content::Scalar { text, .. } if !node.is_null() => text,
            Content::Scalar { .. } | Content::Sequence(_) | Content::Mapping(_) => {
                self.wrong(node, path, expected, None);
                return None;
            }
        };
        let expanded = self.expand(text, node.place, path)?;
        if expanded.text.contains('\0') {
            self.problem(node.place, format!("{path}: the text contains a NUL character"), None);
            return None;
        }
        Some(DisplayText { text: expanded.text, shown: expanded.shown })
    }

    fn expand(&mut self, text: &str, place: TextPosition, path: &str) -> Option<Expanded> {
        let expanded = match interpolate::expand(text, self.around.var) {
            Ok(expanded) => expanded,
            Err(failures) => {
                for failure in failures {
                    self.problem(place, format!("{path}: {failure}"), failure.help());
                }
                return None;
            }
        };
        self.expanded += expanded.text.len();
        if self.expanded > MAX_EXPANDED {
            let message =
                "all texts together, after expansion of variables and aliases, are longer than";
            self.stop(place, format!("{message} {MAX_EXPANDED} bytes"));
            return None;
        }
        for name in &expanded.variables {
            if !self.variables.contains(name) {
                self.variables.push(name.clone());
            }
        }
        Some(expanded)
    }

    /// Reads a value that is a single text.
    pub(super) fn scalar(&mut self, kind: &Kind, node: &Node, path: &str) -> Option<Value> {
        let expected = scalar::expected(kind);
        let word = self.word(node, path, &expected)?;
        match scalar::read(kind, &word) {
            Ok(Value::Line(word, _)) => {
                let syntax = shell_syntax::find(&interpolate::without_values(node.text()));
                Some(Value::Line(word, syntax))
            }
            Ok(value) => Some(value),
            Err(help) => {
                let found = quoted(scalar::shown(kind, &shown_strictly(&word.shown)));
                let message = format!("{path}: found {found}, expected {expected}");
                self.problem(node.place, message, help);
                None
            }
        }
    }
}

/// Keys for anchors and for other programs: allowed in every mapping, and deliberately without
/// meaning.
pub(super) fn is_extension(key: &str) -> bool {
    key.starts_with("x-")
}
