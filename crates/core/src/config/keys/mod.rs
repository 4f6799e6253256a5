//! Every key of `proctor.yaml`, declared once. Validation, suggestions, the JSON Schema and the reference all
//! come from [`KEYS`]; what is known but not built yet is in [`planned`].

pub(super) mod blocks;
pub(super) mod planned;
pub(super) mod suggest;
mod table;

pub(super) use table::KEYS;

/// One key: what it is called, where it may stand, what it takes, and what it is for.
#[derive(Debug)]
pub(super) struct Key {
    pub name: &'static str,
    pub scope: Scope,
    pub kind: Kind,
    pub default: Absent,
    /// One or two sentences for the reference and for editors.
    pub doc: &'static str,
    /// A value, as YAML.
    pub example: &'static str,
}

/// Where a key may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Supervisor,
    Service,
    /// In a service; and in `supervisor:`, where it is the default for all services.
    Both,
}

impl Scope {
    /// May a key of this scope stand in the mapping of `here` (never [`Scope::Both`])?
    pub(super) fn allows(self, here: Scope) -> bool {
        self == Scope::Both || self == here
    }
}

/// What holds when a key is nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absent {
    Required,
    /// As YAML.
    Value(&'static str),
    /// Nothing, and what that means.
    Nothing(&'static str),
}

/// What a key takes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Text,
    Bool,
    Integer {
        min: i64,
        max: i64,
    },
    /// A whole number, or `unlimited`.
    Count {
        max: i64,
    },
    Float {
        min: f64,
        max: f64,
    },
    Duration(Duration),
    Size {
        min: u64,
    },
    Choice(&'static [Choice]),
    /// A list of words of a choice.
    Choices(&'static [Choice]),
    Signal,
    Umask,
    User,
    Url,
    Folder,
    File,
    /// The address of a network interface.
    Host,
    /// A port to listen on, 0 for any, or `off`.
    Port,
    /// Names by which this machine is called, without ports.
    Hosts,
    /// Where web pages may come from: `https://example.org`.
    Origins,
    /// A text that is never shown.
    Secret,
    /// Words for operations.
    Commands,
    Limit {
        bytes: bool,
    },
    /// A text to be split like a shell does, or a list taken as it is.
    Command,
    List,
    ExitCodes,
    Environment,
    EnvFiles,
    /// Folders for file operations.
    Roots,
    Block(&'static [Key]),
    Services,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Duration {
    /// What a plain number counts.
    pub unit: Unit,
    /// Milliseconds.
    pub min: u64,
    /// `none` is a value, too: it takes a default of the supervisor away.
    pub none: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Milliseconds,
    Seconds,
}

impl Unit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Unit::Milliseconds => "milliseconds",
            Unit::Seconds => "seconds",
        }
    }

    pub(super) fn millis(self) -> u64 {
        match self {
            Unit::Milliseconds => 1,
            Unit::Seconds => 1000,
        }
    }
}

/// One word of a choice, and other spellings of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    pub name: &'static str,
    pub also: &'static [&'static str],
}

impl Choice {
    pub(super) const fn new(name: &'static str) -> Choice {
        Choice { name, also: &[] }
    }
}

/// A year: long enough for everything, and no arithmetic with it overflows.
pub(super) const MAX_MILLIS: u64 = 366 * 24 * 3600 * 1000;
/// A pebibyte: larger than any disk under a log, small enough to be added up.
pub(super) const MAX_BYTES: u64 = 1 << 50;

/// The key of this name among `keys`, if it may stand `here`.
pub(super) fn find(keys: &'static [Key], name: &str, here: Scope) -> Option<&'static Key> {
    keys.iter().find(|key| key.name == name && key.scope.allows(here))
}

/// Every key with its full name (`restart.delay`), blocks opened, `services` and the blocks themselves left out.
pub(super) fn leaves(here: Scope) -> impl Iterator<Item = (String, &'static Key)> {
    KEYS.iter().filter(move |key| key.scope.allows(here)).flat_map(opened)
}

/// The same of those that are about Proctor itself.
pub(super) fn own_leaves() -> impl Iterator<Item = (String, &'static Key)> {
    KEYS.iter().filter(|key| key.scope == Scope::Supervisor).flat_map(opened)
}

fn opened(key: &'static Key) -> Vec<(String, &'static Key)> {
    match key.kind {
        Kind::Block(inner) => {
            let below = inner.iter().flat_map(opened);
            below.map(|(name, leaf)| (format!("{}.{name}", key.name), leaf)).collect()
        }
        Kind::Services => Vec::new(),
        Kind::Text
        | Kind::Bool
        | Kind::Integer { .. }
        | Kind::Count { .. }
        | Kind::Float { .. }
        | Kind::Duration(_)
        | Kind::Size { .. }
        | Kind::Choice(_)
        | Kind::Choices(_)
        | Kind::Signal
        | Kind::Umask
        | Kind::User
        | Kind::Url
        | Kind::Folder
        | Kind::File
        | Kind::Host
        | Kind::Port
        | Kind::Hosts
        | Kind::Origins
        | Kind::Secret
        | Kind::Commands
        | Kind::Limit { .. }
        | Kind::Command
        | Kind::List
        | Kind::ExitCodes
        | Kind::Environment
        | Kind::EnvFiles
        | Kind::Roots => vec![(key.name.to_string(), key)],
    }
}

const fn key(
    name: &'static str,
    scope: Scope,
    kind: Kind,
    default: Absent,
    doc: &'static str,
    example: &'static str,
) -> Key {
    Key { name, scope, kind, default, doc, example }
}
