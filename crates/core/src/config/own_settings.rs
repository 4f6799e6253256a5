//! The configuration of Proctor itself, as a separate layer: `port` has one meaning in
//! `supervisor:` and another in a service.

use super::Setting;
use super::keys;
use super::problem::{TextPosition, quoted};
use super::read::{Layer, LocatedValue, Reader};
use super::scalar;
use super::secret::shown_strictly;
use super::settings::setting;
use super::value::DisplayText;
use serde_json::Value as Json;

/// Variables that override the file.
const VARIABLES: &[(&str, &str)] = &[
    ("host", "SUPERVISOR_HOST"),
    ("port", "SUPERVISOR_PORT"),
    ("security.authentication.token", "SUPERVISOR_TOKEN"),
    ("http.host", "PROCTOR_HTTP_HOST"),
    ("http.port", "PROCTOR_HTTP_PORT"),
];

/// Takes Proctor's own keys out of the supervisor's layer: environment over file over default.
pub(super) fn take(reader: &mut Reader<'_>, supervisor: &mut Layer) -> Layer {
    let mut own = reader.defaults_of(keys::own_leaves());
    for (key, declared) in keys::own_leaves() {
        own.extend(supervisor.remove_entry(&key));
        let variable =
            VARIABLES.iter().find(|(name, _)| *name == key).map(|(_, variable)| *variable);
        let Some(variable) = variable else { continue };
        let Some(text) = (reader.around.var)(variable).filter(|text| !text.is_empty()) else {
            continue;
        };
        let origin = format!("environment {variable}");
        match scalar::read(&declared.kind, &DisplayText { shown: text.clone(), text: text.clone() })
        {
            Ok(value) => drop(own.insert(key, LocatedValue { value, place: None, origin })),
            Err(help) => {
                let expected = scalar::expected(&declared.kind);
                let found = quoted(scalar::shown(&declared.kind, &shown_strictly(&text)));
                let message = format!("{origin}: found {found}, expected {expected}");
                reader.problem(TextPosition::START, message, help);
            }
        }
    }
    own
}

/// Lists all of them for `proctor config`.
pub(super) fn settings(own: &Layer, out: &mut Vec<Setting>) {
    for (key, declared) in keys::own_leaves() {
        let full = format!("supervisor.{key}");
        out.push(match own.get(&key) {
            Some(found) => setting(full, found.value.json(&declared.kind), &found.origin),
            None => setting(full, Json::Null, "default"),
        });
    }
}
