//! Reads values that are more than one text: commands, lists, environments, files.

use super::envfile;
use super::keys::{Choice, Kind, suggest};
use super::listen;
use super::problem::{TextPosition, quoted};
use super::read::Reader;
use super::scalar;
use super::secret::{shown_file_value, shown_strictly, shown_value};
use super::tree::{Content, Node};
use super::value::{DisplayText, Value, Variable};
use crate::command_allowlist;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The variable that holds the number of an instance.
pub(super) const INSTANCE: &str = "PROCTOR_INSTANCE";

impl Reader<'_> {
    /// Reads the value of a key, or reports problems.
    pub(super) fn value(&mut self, kind: &Kind, node: &Node, path: &str) -> Option<Value> {
        let is_list = matches!(node.content, Content::Sequence(_));
        match kind {
            Kind::Command if is_list => self.command(node, path),
            Kind::List => self.words(node, path, "a list of texts").map(Value::Words),
            Kind::ExitCodes => self.exit_codes(node, path),
            Kind::Choices(choices) => self.choices(choices, node, path),
            Kind::Environment => self.environment(node, path).map(Value::Variables),
            Kind::EnvFiles if is_list => {
                self.words(node, path, "a list of files").map(Value::Words)
            }
            Kind::EnvFiles => {
                let word = self.word(node, path, &scalar::expected(kind))?;
                Some(Value::Words(vec![word]))
            }
            Kind::Roots => self.roots(node, path),
            Kind::Folder | Kind::File => self.folder(kind, node, path),
            Kind::Hosts | Kind::Origins | Kind::Commands => self.names(kind, node, path),
            Kind::Text
            | Kind::Bool
            | Kind::Integer { .. }
            | Kind::Count { .. }
            | Kind::Float { .. }
            | Kind::Duration(_)
            | Kind::Size { .. }
            | Kind::Choice(_)
            | Kind::Signal
            | Kind::Umask
            | Kind::User
            | Kind::Url
            | Kind::Limit { .. }
            | Kind::Host
            | Kind::Port
            | Kind::Secret
            | Kind::Command
            | Kind::Block(_)
            | Kind::Services => self.scalar(kind, node, path),
        }
    }

    pub(super) fn items<'n>(
        &mut self,
        node: &'n Node,
        path: &str,
        expected: &str,
    ) -> Option<&'n [Rc<Node>]> {
        match &node.content {
            Content::Sequence(items) => Some(items),
            Content::Scalar { .. } | Content::Mapping(_) => {
                self.wrong(node, path, expected, None);
                None
            }
        }
    }

    fn words(&mut self, node: &Node, path: &str, expected: &str) -> Option<Vec<DisplayText>> {
        let items = self.items(node, path, expected)?;
        let read =
            |(at, item): (usize, &Rc<Node>)| self.word(item, &format!("{path}[{at}]"), "text");
        let words: Vec<Option<DisplayText>> = items.iter().enumerate().map(read).collect();
        words.into_iter().collect()
    }

    fn command(&mut self, node: &Node, path: &str) -> Option<Value> {
        let words = self.words(node, path, "")?;
        if words.first().is_none_or(|program| program.text.is_empty()) {
            let message = format!("{path}: found no program, expected it as the first word");
            self.problem(node.place, message, None);
            return None;
        }
        Some(Value::Words(words))
    }

    fn exit_codes(&mut self, node: &Node, path: &str) -> Option<Value> {
        const CODE: Kind = Kind::Integer { min: 0, max: 255 };
        let items = self.items(node, path, &scalar::expected(&Kind::ExitCodes))?;
        let mut codes = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let value = self.scalar(&CODE, item, &format!("{path}[{at}]"));
            let Some(Value::Number(code)) = value else { continue };
            codes.push(i32::try_from(code).expect("the kind ends at 255"));
        }
        (codes.len() == items.len()).then_some(Value::ExitCodes(codes))
    }

    /// Reads a list of choices: each word once, in the order of the file.
    fn choices(&mut self, choices: &'static [Choice], node: &Node, path: &str) -> Option<Value> {
        let items = self.items(node, path, &scalar::expected(&Kind::Choices(choices)))?;
        let (mut names, mut good) = (Vec::new(), true);
        for (at, item) in items.iter().enumerate() {
            match self.scalar(&Kind::Choice(choices), item, &format!("{path}[{at}]")) {
                Some(Value::Choice(name)) if !names.contains(&name) => names.push(name),
                found => good &= found.is_some(),
            }
        }
        good.then_some(Value::Choices(names))
    }

    fn folder(&mut self, kind: &Kind, node: &Node, path: &str) -> Option<Value> {
        let word = self.word(node, path, &scalar::expected(kind))?;
        let text = self.path(&word.text, node.place, path)?;
        Some(Value::Text(DisplayText { shown: self.absolute(&word.shown), text }))
    }

    /// Reads a list whose items all have the given kind.
    fn names(&mut self, kind: &Kind, node: &Node, path: &str) -> Option<Value> {
        let expected = scalar::expected(kind);
        let words = self.words(node, path, &expected)?;
        let is_commands = matches!(kind, Kind::Commands);
        for word in words.iter().filter(|word| !fits(kind, &word.text)) {
            let found = quoted(&shown_strictly(&word.shown));
            let message = format!("{path}: found {found}, expected {expected}");
            let near =
                suggest::nearest(&word.text, command_allowlist::words()).filter(|_| is_commands);
            let help = near.map(|near| format!("did you mean '{near}'?"));
            self.problem(node.place, message, help);
        }
        Some(Value::Words(words))
    }

    /// Makes a path absolute; it may be relative to the configuration file.
    pub(super) fn path(&mut self, text: &str, place: TextPosition, path: &str) -> Option<String> {
        if text.is_empty() {
            self.problem(place, format!("{path}: found '', expected a path"), None);
            return None;
        }
        if text.starts_with('~') {
            let message = format!("{path}: '~' is not expanded, found {}", quoted(text));
            self.problem(place, message, Some("write ${HOME}/…, or a path from '/'".into()));
            return None;
        }
        Some(self.absolute(text))
    }

    /// Keeps `..`, because its target depends on links, which `core` cannot follow.
    fn absolute(&self, text: &str) -> String {
        let joined = match text.starts_with('/') {
            true => text.to_string(),
            false => format!("{}/{text}", self.around.base_dir),
        };
        let parts: Vec<&str> = joined.split('/').filter(|it| !matches!(*it, "" | ".")).collect();
        format!("/{}", parts.join("/"))
    }

    fn environment(&mut self, node: &Node, path: &str) -> Option<Vec<Variable>> {
        match &node.content {
            Content::Mapping(entries) => {
                let mut variables = Vec::new();
                for entry in entries {
                    let path = format!("{path}.{}", entry.key);
                    let good = self.check_name(&entry.key, entry.place, &path);
                    let expected = "text, a number, true or false ('' for an empty one)";
                    self.variables.clear();
                    let Some(word) = self.word(&entry.value, &path, expected) else { continue };
                    if good {
                        variables.push(self.variable(&entry.key, &word, entry.value.place));
                    }
                }
                Some(variables)
            }
            Content::Sequence(items) => Some(self.assignments(items, path)),
            Content::Scalar { .. } => {
                self.wrong(node, path, &scalar::expected(&Kind::Environment), None);
                None
            }
        }
    }

    /// Reads a list of `KEY=VALUE`.
    fn assignments(&mut self, items: &[Rc<Node>], path: &str) -> Vec<Variable> {
        let mut variables = Vec::new();
        let mut names = BTreeSet::new();
        for (at, item) in items.iter().enumerate() {
            let path = format!("{path}[{at}]");
            self.variables.clear();
            let Some(word) = self.word(item, &path, "KEY=VALUE") else { continue };
            let Some((name, text)) = word.text.split_once('=') else {
                self.problem(item.place, format!("{path}: found no '=', expected KEY=VALUE"), None);
                continue;
            };
            if !self.check_name(name, item.place, &path) {
                continue;
            }
            if !names.insert(name.to_string()) {
                let message = format!("{path}: duplicate variable {}", quoted(name));
                self.problem(item.place, message, Some("remove one of them".into()));
            }
            let shown = word.shown.split_once('=').map_or("", |(_, shown)| shown);
            let word = DisplayText { text: text.into(), shown: shown.into() };
            variables.push(self.variable(name, &word, item.place));
        }
        variables
    }

    fn variable(&self, name: &str, word: &DisplayText, place: TextPosition) -> Variable {
        let shown = shown_value(name, &word.shown);
        Variable { name: name.into(), text: word.text.clone(), shown, origin: self.origin(place) }
    }

    fn check_name(&mut self, name: &str, place: TextPosition, path: &str) -> bool {
        let message = if name == INSTANCE {
            format!("{path}: '{INSTANCE}' is set by Proctor")
        } else if !envfile::is_name(name) {
            format!("{path}: {} is not a valid variable name", quoted(name))
        } else {
            return true;
        };
        self.problem(place, message, None);
        false
    }

    /// Reads the variables of the files in `env_file`, in order.
    pub(super) fn env_files(
        &mut self,
        files: &[DisplayText],
        place: TextPosition,
        path: &str,
    ) -> Vec<Variable> {
        let mut variables = Vec::new();
        for word in files {
            let (name, optional) = match word.text.strip_suffix('?') {
                Some(name) => (name, true),
                None => (word.text.as_str(), false),
            };
            let Some(file) = self.path(name, place, path) else { continue };
            match &*self.env_file(&file) {
                Ok(read) => {
                    let size = read.iter().map(|it| it.name.len() + it.value.len()).sum();
                    if self.charge(read.len(), size, place) {
                        let given =
                            |it: &&envfile::Variable| !self.own_secrets.holds(&it.name, &it.value);
                        variables.extend(read.iter().filter(given).map(|it| from_file(&file, it)));
                    }
                }
                Err(_) if optional => {}
                Err(why) => {
                    let message = format!("{path}: cannot read {}: {why}", quoted(&file));
                    let help = format!("create the file, or write '{name}?' if it may be missing");
                    self.problem(place, message, Some(help));
                }
            }
        }
        variables
    }

    /// The reason an optional env file was skipped, if it was.
    pub(super) fn skipped(&self, text: &str) -> Option<&str> {
        let file = self.absolute(text.strip_suffix('?')?);
        self.env_files.get(&file)?.as_ref().as_ref().err().map(String::as_str)
    }

    /// Reads one env file; reports its problems the first time only.
    fn env_file(&mut self, file: &str) -> Rc<Result<Vec<envfile::Variable>, String>> {
        if let Some(known) = self.env_files.get(file) {
            return Rc::clone(known);
        }
        let read = (self.around.read)(file).map(|text| {
            let variables = envfile::parse(file, &text).unwrap_or_else(|problems| {
                self.problems.extend(problems);
                Vec::new()
            });
            let reserved = variables.iter().filter(|it| it.name == INSTANCE);
            self.problems.extend(reserved.map(|it| {
                let place = TextPosition { line: it.line, column: 1 };
                place.problem(file, format!("'{INSTANCE}' is set by Proctor"), None)
            }));
            variables
        });
        let read = Rc::new(read);
        self.env_files.insert(file.to_string(), Rc::clone(&read));
        read
    }
}

fn from_file(file: &str, variable: &envfile::Variable) -> Variable {
    let shown = shown_file_value(&variable.name, &variable.value);
    Variable {
        name: variable.name.clone(),
        text: variable.value.clone(),
        shown,
        origin: format!("{file}:{}", variable.line),
    }
}

/// Whether a text is a valid item of such a list.
fn fits(kind: &Kind, text: &str) -> bool {
    if matches!(kind, Kind::Commands) {
        return !command_allowlist::operations(text).is_empty();
    }
    if matches!(kind, Kind::Origins) {
        return listen::origin(text).is_some();
    }
    scalar::is_host(text) && !text.ends_with('.')
}
