//! Parses YAML (and so JSON) into a small tree that records the place of every node.
//!
//! It does not know the meaning of keys. An alias shares its target, so that a file of a kilobyte
//! cannot become gigabytes. Merge keys (`<<`) are resolved here, because YAML defines them. Tags,
//! keys that are not text and multiple documents are deliberately unsupported; each is refused, not
//! ignored.

use super::problem::{MAX_PROBLEMS, Problem, TextPosition, quoted};
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Maximum size. A thousand services with ten lines each need a tenth of this.
pub(super) const MAX_TEXT: usize = 1 << 20;
/// Maximum number of nodes: more than the largest sensible file has, and few enough to parse in a
/// blink.
pub(super) const MAX_NODES: usize = 200_000;
/// Maximum depth, including aliases. The deepest existing key is 6 deep.
pub(super) const MAX_DEPTH: usize = 32;

#[derive(Debug)]
pub(super) struct Node {
    pub place: TextPosition,
    pub content: Content,
    /// Height of this node's tree: 1 for a scalar.
    height: usize,
}

#[derive(Debug)]
pub(super) enum Content {
    /// `plain`: without quotes, and so possibly a `null`.
    Scalar {
        text: String,
        plain: bool,
    },
    Sequence(Vec<Rc<Node>>),
    Mapping(Vec<Entry>),
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub key: Rc<str>,
    pub place: TextPosition,
    pub value: Rc<Node>,
}

impl Node {
    /// Whether there is no value: `key:`, `~` or `null`.
    pub(super) fn is_null(&self) -> bool {
        match &self.content {
            Content::Scalar { text, plain } => {
                *plain && matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
            }
            Content::Sequence(_) | Content::Mapping(_) => false,
        }
    }

    /// The text of a scalar; empty for any other node.
    pub(super) fn text(&self) -> &str {
        match &self.content {
            Content::Scalar { text, .. } => text,
            Content::Sequence(_) | Content::Mapping(_) => "",
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        match &self.content {
            Content::Mapping(entries) => entries.iter().find(|entry| &*entry.key == key),
            Content::Scalar { .. } | Content::Sequence(_) => None,
        }
    }
}

/// Parses the text. May return problems and a tree, so that both syntax and meaning are checked in
/// one pass. No tree and no problem means an empty file.
pub(super) fn parse(file: &str, text: &str) -> (Option<Rc<Node>>, Vec<Problem>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = Builder { file, ..Builder::default() };
    match check_text(file, text).and_then(|()| builder.run(text)) {
        Ok(()) => (builder.root, builder.problems),
        Err(problem) => {
            builder.problems.push(problem);
            (None, builder.problems)
        }
    }
}

fn check_text(file: &str, text: &str) -> Result<(), Problem> {
    if text.len() > MAX_TEXT {
        let message = format!("the file has {} bytes; the maximum is {MAX_TEXT}", text.len());
        return Err(TextPosition::START.problem(file, message, None));
    }
    // The YAML scanner treats a NUL as the end of the text and would omit the rest.
    let Some(at) = text.find('\0') else { return Ok(()) };
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let message = "the file contains a NUL byte".to_string();
    Err(place(line, column).problem(file, message, None))
}

fn place(line: usize, column: usize) -> TextPosition {
    let number = |n: usize| u32::try_from(n).expect("a text of MAX_TEXT bytes has fewer lines");
    TextPosition { line: number(line), column: number(column) }
}

/// A missing value has no place, so it gets the place of its key.
fn entry(key: Key, value: Rc<Node>) -> Entry {
    let value = match &value.content {
        Content::Scalar { text, plain: true } if text.is_empty() => {
            let content = Content::Scalar { text: String::new(), plain: true };
            Rc::new(Node { place: key.place, content, height: 1 })
        }
        Content::Scalar { .. } | Content::Sequence(_) | Content::Mapping(_) => value,
    };
    Entry { key: key.text, place: key.place, value }
}

#[derive(Default)]
struct Builder<'a> {
    file: &'a str,
    open: Vec<OpenCollection>,
    anchors: BTreeMap<usize, Rc<Node>>,
    documents: usize,
    nodes: usize,
    root: Option<Rc<Node>>,
    problems: Vec<Problem>,
}

/// A sequence or mapping whose end has not been seen.
struct OpenCollection {
    place: TextPosition,
    anchor: usize,
    height: usize,
    part: CollectionItems,
}

enum CollectionItems {
    Sequence(Vec<Rc<Node>>),
    Mapping(OpenMapping),
}

#[derive(Default)]
struct OpenMapping {
    entries: Vec<Entry>,
    names: BTreeSet<Rc<str>>,
    /// The key whose value comes next.
    key: Option<Key>,
    merges: Vec<Rc<Node>>,
}

struct Key {
    text: Rc<str>,
    place: TextPosition,
    merge: bool,
}

impl Builder<'_> {
    fn run(&mut self, text: &str) -> Result<(), Problem> {
        let mut parser: Parser<'_, StrInput<'_>> = Parser::new_from_str(text);
        while let Some(next) = parser.next_event() {
            let (event, span) = next.map_err(|error| self.syntax(text, &error))?;
            self.event(event, span)?;
        }
        Ok(())
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Problem> {
        let place = place(span.start.line(), span.start.col() + 1);
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => self.document(place),
            Event::Alias(id) => self.alias(id, place),
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.as_ref(), place)?;
                let content =
                    Content::Scalar { text: text.into_owned(), plain: style == ScalarStyle::Plain };
                self.add(Node { place, content, height: 1 }, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag.as_ref(), place)?;
                self.begin(place, anchor, CollectionItems::Sequence(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(tag.as_ref(), place)?;
                self.begin(place, anchor, CollectionItems::Mapping(OpenMapping::default()))
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
        }
    }

    fn document(&mut self, place: TextPosition) -> Result<(), Problem> {
        self.documents += 1;
        match self.documents {
            1 => Ok(()),
            _ => Err(self.problem(
                place,
                "a second document begins here; a file may have only one",
                None,
            )),
        }
    }

    fn alias(&mut self, id: usize, place: TextPosition) -> Result<(), Problem> {
        let Some(target) = self.anchors.get(&id).cloned() else {
            return Err(self.problem(place, "this alias refers to a node that contains it", None));
        };
        self.check_depth(target.height, place)?;
        self.attach(target, place)
    }

    fn begin(
        &mut self,
        place: TextPosition,
        anchor: usize,
        part: CollectionItems,
    ) -> Result<(), Problem> {
        self.check_depth(1, place)?;
        self.open.push(OpenCollection { place, anchor, height: 1, part });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Problem> {
        let mut frame = self.open.pop().expect("the parser ends only what it began");
        let content = match frame.part {
            CollectionItems::Sequence(items) => Content::Sequence(items),
            CollectionItems::Mapping(mut mapping) => {
                self.merge(&mut mapping)?;
                let below = mapping.entries.iter().map(|entry| entry.value.height).max();
                frame.height = frame.height.max(1 + below.unwrap_or(0));
                Content::Mapping(mapping.entries)
            }
        };
        self.add(Node { place: frame.place, content, height: frame.height }, frame.anchor)
    }

    fn add(&mut self, node: Node, anchor: usize) -> Result<(), Problem> {
        let place = node.place;
        let node = Rc::new(node);
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        self.attach(node, place)
    }

    /// Adds a finished node to the open container. `place` is the place of use; for an alias it
    /// differs from that of its target.
    fn attach(&mut self, node: Rc<Node>, place: TextPosition) -> Result<(), Problem> {
        self.count(place)?;
        let Some(frame) = self.open.last_mut() else {
            self.root = (!node.is_null()).then_some(node);
            return Ok(());
        };
        frame.height = frame.height.max(node.height + 1);
        match &mut frame.part {
            CollectionItems::Sequence(items) => items.push(node),
            CollectionItems::Mapping(mapping) => match mapping.key.take() {
                None => return self.key(&node, place),
                Some(key) if key.merge => mapping.merges.push(node),
                Some(key) => mapping.entries.push(entry(key, node)),
            },
        }
        Ok(())
    }

    /// Adds the next key of the innermost mapping. A repeated key is a problem, but parsing
    /// continues.
    fn key(&mut self, node: &Node, place: TextPosition) -> Result<(), Problem> {
        let key = match &node.content {
            Content::Scalar { text, plain } if !node.is_null() => {
                Key { text: text.as_str().into(), place, merge: *plain && text == "<<" }
            }
            Content::Scalar { .. } | Content::Sequence(_) | Content::Mapping(_) => {
                return Err(self.problem(place, "a key must be text", None));
            }
        };
        if self.open_mapping().is_some_and(|it| !it.names.insert(Rc::clone(&key.text))) {
            let message = format!("duplicate key {}", quoted(&key.text));
            let problem = self.problem(place, &message, Some("remove one of them".into()));
            if self.problems.len() >= MAX_PROBLEMS {
                return Err(problem);
            }
            self.problems.push(problem);
        }
        if let Some(mapping) = self.open_mapping() {
            mapping.key = Some(key);
        }
        Ok(())
    }

    /// The innermost open container, if it is a mapping.
    fn open_mapping(&mut self) -> Option<&mut OpenMapping> {
        match &mut self.open.last_mut()?.part {
            CollectionItems::Mapping(mapping) => Some(mapping),
            CollectionItems::Sequence(_) => None,
        }
    }

    /// Merges `<<`: the mapping's own keys win, then those merged first.
    fn merge(&mut self, mapping: &mut OpenMapping) -> Result<(), Problem> {
        for source in std::mem::take(&mut mapping.merges) {
            match &source.content {
                Content::Mapping(entries) => self.merge_one(mapping, entries)?,
                Content::Sequence(items) => {
                    for item in items {
                        let Content::Mapping(entries) = &item.content else {
                            return Err(self.not_mergeable(item.place));
                        };
                        self.merge_one(mapping, entries)?;
                    }
                }
                Content::Scalar { .. } => return Err(self.not_mergeable(source.place)),
            }
        }
        Ok(())
    }

    fn merge_one(&mut self, into: &mut OpenMapping, from: &[Entry]) -> Result<(), Problem> {
        for entry in from {
            self.count(entry.place)?;
            if into.names.insert(Rc::clone(&entry.key)) {
                into.entries.push(entry.clone());
            }
        }
        Ok(())
    }

    fn not_mergeable(&self, place: TextPosition) -> Problem {
        self.problem(place, "'<<' takes a mapping or a list of mappings", None)
    }

    fn count(&mut self, place: TextPosition) -> Result<(), Problem> {
        self.nodes += 1;
        if self.nodes <= MAX_NODES {
            return Ok(());
        }
        Err(self.problem(place, &format!("the file has more than {MAX_NODES} values"), None))
    }

    /// Checks that a node of this `height` stays within the maximum depth here.
    fn check_depth(&self, height: usize, place: TextPosition) -> Result<(), Problem> {
        if self.open.len() + height <= MAX_DEPTH {
            return Ok(());
        }
        Err(self.problem(place, &format!("more than {MAX_DEPTH} levels deep"), None))
    }

    fn refuse_tag(&self, tag: Option<&Cow<'_, Tag>>, place: TextPosition) -> Result<(), Problem> {
        let Some(tag) = tag else { return Ok(()) };
        let name = match tag.is_yaml_core_schema() {
            true => format!("!!{}", tag.suffix),
            false => format!("{}{}", tag.handle, tag.suffix),
        };
        let message = format!("the tag {} is not supported", quoted(&name));
        Err(self.problem(place, &message, Some("remove it".into())))
    }

    fn problem(&self, place: TextPosition, message: &str, help: Option<String>) -> Problem {
        place.problem(self.file, format!("{}{message}", self.path()), help)
    }

    fn syntax(&self, text: &str, error: &ScanError) -> Problem {
        let mark = error.marker();
        let line = text.lines().nth(mark.line().saturating_sub(1)).unwrap_or_default();
        let indent = &line[..line.len() - line.trim_start().len()];
        let help = indent.contains('\t').then(|| "indent with spaces, not with tabs".to_string());
        let message = format!("invalid YAML: {}", error.info());
        place(mark.line().max(1), mark.col() + 1).problem(self.file, message, help)
    }

    /// The keys that lead here, as `services.web: `; empty at the top.
    fn path(&self) -> String {
        let keys = self.open.iter().filter_map(|frame| match &frame.part {
            CollectionItems::Mapping(mapping) => mapping.key.as_ref().map(|key| &*key.text),
            CollectionItems::Sequence(_) => None,
        });
        let keys: Vec<&str> = keys.collect();
        let keys = match keys.as_slice() {
            ["supervisor", rest @ ..] if rest.first() == Some(&"services") => rest,
            all => all,
        };
        if keys.is_empty() { String::new() } else { format!("{}: ", keys.join(".")) }
    }
}
