//! Scans TOML to positions in its text: headers and settings in order. Only strings and lists of strings are decoded.

use crate::cli::install::error::InstallError;
use serde_json::Value as Json;
use std::ops::Range;
use toml_parser::decoder::{Encoding, ScalarKind};
use toml_parser::parser::{EventReceiver, RecursionGuard, parse_document};
use toml_parser::{ErrorSink, ParseError, Raw, Source, Span};

/// Maximum nesting: deeper than any configuration, and far from the end of the stack.
const DEEPEST: u32 = 80;

/// A header or a setting.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) kind: Kind,
    /// Full path, with the table it is in.
    pub(super) path: Vec<String>,
    pub(super) place: Range<usize>,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// Header `[path]`.
    Table,
    /// Header `[[path]]`.
    List,
    /// Setting `key = value`.
    Setting {
        value: Range<usize>,
        /// Value, if it is a string or a list of strings.
        says: Option<Json>,
        /// Length of the part of the path that is its table.
        table: usize,
    },
}

pub(super) fn scan(text: &str) -> Result<Vec<Statement>, InstallError> {
    let tokens = Source::new(text).lex().into_vec();
    let mut errors: Vec<ParseError> = Vec::new();
    let mut reader =
        Reader { text, table: Vec::new(), keys: Vec::new(), value: None, out: Vec::new() };
    parse_document(&tokens, &mut RecursionGuard::new(&mut reader, DEEPEST), &mut errors);
    let place = |error: &ParseError| {
        error.unexpected().or(error.context()).map_or(text.len(), |span| span.start())
    };
    match errors.iter().min_by_key(|error| place(error)) {
        Some(error) => Err(InstallError::at(place(error), error.description())),
        None => Ok(reader.out),
    }
}

struct Reader<'a> {
    text: &'a str,
    /// Current header.
    table: Vec<String>,
    /// Keys of the header or the setting in progress.
    keys: Vec<(String, usize)>,
    /// Value in progress.
    value: Option<Value>,
    out: Vec<Statement>,
}

#[derive(Default)]
struct Value {
    start: Option<usize>,
    depth: usize,
    lists: usize,
    texts: Vec<String>,
    /// True if it contains something that is neither a string nor a list.
    other: bool,
}

impl Value {
    fn says(self) -> Option<Json> {
        match self.texts.as_slice() {
            _ if self.other => None,
            texts if self.lists == 1 => Some(Json::from(texts)),
            [text] if self.lists == 0 => Some(Json::from(text.as_str())),
            _ => None,
        }
    }
}

impl<'a> Reader<'a> {
    fn raw(&self, span: Span, encoding: Option<Encoding>) -> Raw<'a> {
        Raw::new_unchecked(&self.text[span.start()..span.end()], encoding, span)
    }

    fn header(&mut self, kind: Kind, end: usize) {
        let start = self.keys.first().map_or(end, |(_, at)| *at);
        self.table = self.keys.drain(..).map(|(key, _)| key).collect();
        self.out.push(Statement { kind, path: self.table.clone(), place: start..end });
    }

    fn open(&mut self, span: Span) -> Option<&mut Value> {
        let value = self.value.as_mut()?;
        value.start.get_or_insert(span.start());
        value.depth += 1;
        Some(value)
    }

    fn close(&mut self, span: Span) {
        if let Some(value) = &mut self.value {
            value.depth = value.depth.saturating_sub(1);
        }
        self.end(span);
    }

    /// Ends the setting, unless this was inside a list or a table of it.
    fn end(&mut self, span: Span) {
        let Some(value) = self.value.take_if(|value| value.depth == 0) else { return };
        let place = value.start.unwrap_or(span.start())..span.end();
        let start = self.keys.first().map_or(place.start, |(_, at)| *at)..span.end();
        let keys = self.keys.drain(..).map(|(key, _)| key);
        let path = self.table.iter().cloned().chain(keys).collect();
        let kind = Kind::Setting { value: place, says: value.says(), table: self.table.len() };
        self.out.push(Statement { kind, path, place: start });
    }
}

impl EventReceiver for Reader<'_> {
    fn std_table_close(&mut self, span: Span, _: &mut dyn ErrorSink) {
        self.header(Kind::Table, span.end());
    }

    fn array_table_close(&mut self, span: Span, _: &mut dyn ErrorSink) {
        self.header(Kind::List, span.end());
    }

    fn simple_key(&mut self, span: Span, encoding: Option<Encoding>, errors: &mut dyn ErrorSink) {
        let mut key = String::new();
        self.raw(span, encoding).decode_key(&mut key, errors);
        if self.value.is_none() {
            self.keys.push((key, span.start()));
        }
    }

    fn key_val_sep(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.value.get_or_insert_default();
    }

    fn scalar(&mut self, span: Span, encoding: Option<Encoding>, errors: &mut dyn ErrorSink) {
        let mut text = String::new();
        let kind = self.raw(span, encoding).decode_scalar(&mut text, errors);
        if let Some(value) = &mut self.value {
            value.start.get_or_insert(span.start());
            value.other |= kind != ScalarKind::String;
            value.texts.push(text);
        }
        self.end(span);
    }

    fn array_open(&mut self, span: Span, _: &mut dyn ErrorSink) -> bool {
        if let Some(value) = self.open(span) {
            value.lists += 1;
        }
        true
    }

    fn array_close(&mut self, span: Span, _: &mut dyn ErrorSink) {
        self.close(span);
    }

    fn inline_table_open(&mut self, span: Span, _: &mut dyn ErrorSink) -> bool {
        if let Some(value) = self.open(span) {
            value.other = true;
        }
        true
    }

    fn inline_table_close(&mut self, span: Span, _: &mut dyn ErrorSink) {
        self.close(span);
    }
}
