//! Every key of `proctor.yaml`, declared once. Validation, suggestions, the JSON Schema and the
//! reference all come from [`KEYS`]; known keys that are not supported are in [`planned`].

pub(super) mod blocks;
pub(super) mod planned;
pub(super) mod suggest;
mod table;

pub(super) use table::KEYS;

/// One key: its name, scope, type and documentation.
#[derive(Debug)]
pub(super) struct Key {
    pub name: &'static str,
    pub scope: Scope,
    pub kind: Kind,
    pub default: Absent,
    /// One or two sentences for the reference and for editors.
    pub doc: &'static str,
    /// An example value in YAML.
    pub example: &'static str,
}

/// The mapping in which a key may appear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Supervisor,
    Service,
    /// In a service, and in `supervisor:` as the default for all services.
    Both,
}

impl Scope {
    /// Whether a key of this scope may appear in the mapping of `here` (never [`Scope::Both`]).
    pub(super) fn allows(self, here: Scope) -> bool {
        self == Scope::Both || self == here
    }
}

/// The effect of a missing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absent {
    Required,
    /// A default in YAML.
    Value(&'static str),
    /// No default; the text describes the effect.
    Nothing(&'static str),
}

/// The type of a key's value.
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
    /// Names of this machine, without ports.
    Hosts,
    /// Origins of web pages: `https://example.org`.
    Origins,
    /// A text that is never shown.
    Secret,
    /// Words for operations.
    Commands,
    Limit {
        bytes: bool,
    },
    /// A text that is split as a shell does, or a list that is used unchanged.
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
    /// The unit of a plain number.
    pub unit: Unit,
    /// Milliseconds.
    pub min: u64,
    /// Whether `none` is valid; it removes a default of the supervisor.
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

/// One word of a choice, and its other spellings.
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
/// A pebibyte: larger than any disk under a log, small enough for sums.
pub(super) const MAX_BYTES: u64 = 1 << 50;

/// Finds the key of this name in `keys`, if it may appear `here`.
pub(super) fn find(keys: &'static [Key], name: &str, here: Scope) -> Option<&'static Key> {
    keys.iter().find(|key| key.name == name && key.scope.allows(here))
}

/// Every key with its full name (`restart.delay`). Expands blocks; omits `services` and the blocks
/// themselves.
pub(super) fn leaves(here: Scope) -> impl Iterator<Item = (String, &'static Key)> {
    KEYS.iter().filter(move |key| key.scope.allows(here)).flat_map(opened)
}

/// Like [`leaves`], for the keys of Proctor itself.
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
