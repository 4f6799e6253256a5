//! Reads the structure of a whole file: `supervisor:`, its services, their groups.

use super::keys::{self, Scope, suggest};
use super::listen::{self, Listeners};
use super::own_secrets::OwnSecrets;
use super::own_settings;
use super::problem::{TextPosition, quoted};
use super::read::{Layer, Reader, is_extension};
use super::security::{self, Security};
use super::service::{BuiltService, Service, plain_name};
use super::settings;
use super::tree::{Content, Entry, Node};
use super::value::Value;
use super::{Config, ServiceDef};
use std::collections::BTreeMap;

/// An example for the author of an empty file.
pub(super) const EXAMPLE: &str = "write, for example:\n\
    supervisor:\n\
    \x20 services:\n\
    \x20   web:\n\
    \x20     command: npm run dev";

/// Maximum number of services; more than one machine is asked to supervise.
const MAX_SERVICES: usize = 10_000;

/// Reads the file with the tree `root`. The result is valid only if there are no problems.
pub(super) fn read(reader: &mut Reader<'_>, root: &Node) -> Config {
    let mut config = Config {
        services: Vec::new(),
        groups: BTreeMap::new(),
        settings: Vec::new(),
        listeners: Listeners::OFF,
        security: Security::CLOSED,
        own_secrets: OwnSecrets::default(),
        roots: None,
        ambiguities: Vec::new(),
    };
    let Some(node) = supervisor(reader, root) else { return config };
    let defaults = reader.defaults();
    let mut layer = reader.layer(node, Scope::Supervisor, "supervisor");
    let own = own_settings::take(reader, &mut layer);
    let on = own.get("enabled").is_none_or(|found| found.value != Value::Bool(false));
    own_settings::settings(&own, &mut config.settings);
    let own_settings = config.settings.len();
    config.listeners = listen::read(reader, &own, node.place);
    config.security = security::read(reader, &own, &config.listeners, node.place);
    if let Some(token) = &config.security.token {
        reader.own_secrets.add_value(&token.0);
    }
    config.own_secrets.clone_from(&reader.own_secrets);
    config.roots = match own.get("roots").map(|found| &found.value) {
        Some(Value::Roots(roots)) => Some(roots.clone()),
        _ => None,
    };
    match node.get("services") {
        Some(entry) => services(reader, entry, &layer, &defaults, &mut config),
        None => {
            let message = "supervisor: 'services' is missing".to_string();
            reader.problem(node.place, message, Some(EXAMPLE.into()));
        }
    }
    if !on {
        config.services.clear();
        config.groups.clear();
        config.settings.truncate(own_settings);
        reader.ambiguities.clear();
    }
    config
}

/// Finds the mapping with the supervisor's keys: below `supervisor`, or the whole file if
/// `services` is at the top.
fn supervisor<'n>(reader: &mut Reader<'_>, root: &'n Node) -> Option<&'n Node> {
    let entries = reader.entries(root, "the file", "a mapping with 'supervisor'");
    if entries.is_empty() {
        if reader.problems.is_empty() {
            reader.problem(root.place, "the file has no keys".into(), Some(EXAMPLE.into()));
        }
        return None;
    }
    let block = root.get("supervisor");
    if block.is_none() && root.get("services").is_some() {
        return Some(root);
    }
    let mut suggested = false;
    for entry in entries {
        if &*entry.key != "supervisor" && !is_extension(&entry.key) {
            suggested |= stray(reader, entry);
        }
    }
    if block.is_none() && !suggested {
        reader.problem(root.place, "'supervisor' is missing".into(), Some(EXAMPLE.into()));
    }
    block.map(|entry| &*entry.value)
}

/// Reports a key that is not allowed at the top; returns true if it was probably meant to be
/// `supervisor`.
fn stray(reader: &mut Reader<'_>, entry: &Entry) -> bool {
    let is_supervisors = keys::find(keys::KEYS, &entry.key, Scope::Supervisor).is_some();
    let nearest = suggest::nearest(&entry.key, ["supervisor", "services"].into_iter());
    let help = match nearest {
        _ if is_supervisors => Some("move it into 'supervisor'".to_string()),
        Some(name) => Some(format!("did you mean '{name}'?")),
        None => Some("names that begin with 'x-' are free for your own use".to_string()),
    };
    let message = format!("unknown key {} at the top", quoted(&entry.key));
    reader.problem(entry.place, message, help);
    !is_supervisors && nearest.is_some()
}

fn services(
    reader: &mut Reader<'_>,
    services: &Entry,
    supervisor: &Layer,
    defaults: &Layer,
    config: &mut Config,
) {
    let entries = reader.entries(&services.value, "services", "a mapping from names to services");
    for entry in entries {
        if reader.is_stopped() {
            return;
        }
        let layers = (supervisor, defaults);
        let made = one(
            reader,
            (&entry.key, entry.place),
            &entry.value,
            layers,
            |built, service, reader| {
                settings::of(reader, service, built, &mut config.settings);
            },
        );
        config.services.extend(made);
        if config.services.len() > MAX_SERVICES {
            let message = format!("services: more than {MAX_SERVICES}, instances counted");
            return reader.stop(entry.place, message);
        }
    }
    for definition in &config.services {
        for group in &definition.groups {
            config.groups.entry(group.clone()).or_default().push(definition.name.clone());
        }
    }
    check_groups(reader, entries, config);
    check_primary(reader, entries, config);
}

/// Reads one service from its block. Calls `look` before its layers are dropped.
pub(super) fn one(
    reader: &mut Reader<'_>,
    (name, place): (&str, TextPosition),
    node: &Node,
    (supervisor, defaults): (&Layer, &Layer),
    look: impl FnOnce(&BuiltService, &Service<'_>, &Reader<'_>),
) -> Vec<ServiceDef> {
    let path = format!("services.{name}");
    let mut own = reader.layer(node, Scope::Service, &path);
    Service::join_intervals(reader, &mut own, &path);
    let name = match plain_name(name) {
        Ok(name) => name,
        Err(why) => {
            reader.problem(place, format!("services: {why}"), None);
            return Vec::new();
        }
    };
    // A value that was refused is not reported as missing too.
    let is_mapping = matches!(node.content, Content::Mapping(_));
    if !is_mapping || (node.get("command").is_some() && !own.contains_key("command")) {
        return Vec::new();
    }
    let service = Service { name, place, path, own: &own, supervisor, defaults };
    let built = service.build(reader);
    look(&built, &service, reader);
    built.definitions
}

/// A request without a service name must have one meaning too.
fn check_primary(reader: &mut Reader<'_>, services: &[Entry], config: &Config) {
    let is_primary = |entry: &&Entry| {
        config.services.iter().any(|it| it.primary && it.name.base() == &*entry.key)
    };
    let mut primary = services.iter().filter(is_primary);
    let Some(first) = primary.next() else { return };
    for entry in primary {
        let (key, other) = (&entry.key, &first.key);
        let message = format!("services.{key}.primary: '{other}' is already the primary service");
        reader.problem(entry.place, message, Some("remove it from one of them".into()));
    }
}

/// `proctor stop NAME` must have one meaning.
fn check_groups(reader: &mut Reader<'_>, services: &[Entry], config: &Config) {
    for entry in services {
        let Some(members) = config.groups.get(&*entry.key) else { continue };
        let message = format!(
            "services.{}: a group of '{}' has the same name",
            entry.key,
            members.first().map_or("", |name| name.base())
        );
        reader.problem(entry.place, message, Some("rename the service or the group".into()));
    }
}
