//! Lists every effective value with its origin, for `proctor config`.

use super::Setting;
use super::keys::{self, Scope};
use super::read::Reader;
use super::service::{BuiltService, Service};
use super::value::Value;
use serde_json::{Value as Json, json};

/// The settings of one service. Variables are listed one by one, because each has its own origin.
pub(super) fn of(
    reader: &Reader<'_>,
    service: &Service<'_>,
    built: &BuiltService,
    out: &mut Vec<Setting>,
) {
    for (key, declared) in keys::leaves(Scope::Service) {
        let full = format!("{}.{key}", service.path);
        match (key.as_str(), service.find(&key)) {
            ("env", _) => variables(&full, built, out),
            // Already listed as `health_check.interval`.
            ("health_check_interval", _) => {}
            ("env_file", Some(found)) => {
                out.push(setting(full, files(reader, &found.value), &found.origin));
            }
            (_, Some(found)) => {
                out.push(setting(full, found.value.json(&declared.kind), &found.origin));
            }
            (_, None) => out.push(setting(full, Json::Null, "default")),
        }
    }
}

fn variables(full: &str, built: &BuiltService, out: &mut Vec<Setting>) {
    out.extend(built.variables.iter().map(|variable| {
        setting(format!("{full}.{}", variable.name), json!(variable.shown), &variable.origin)
    }));
}

/// Lists env files; an optional one that could not be read is marked.
fn files(reader: &Reader<'_>, value: &Value) -> Json {
    let Value::Words(words) = value else { return Json::Null };
    let shown = words.iter().map(|word| match reader.skipped(&word.text) {
        Some(why) => format!("{} (skipped: {why})", word.shown),
        None => word.shown.clone(),
    });
    shown.collect()
}

pub(super) fn setting(key: String, value: Json, origin: &str) -> Setting {
    Setting { key, value: value.to_string(), origin: origin.into() }
}
