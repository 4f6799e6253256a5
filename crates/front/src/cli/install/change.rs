//! Adds, changes and removes a server in the text of a client's file. Pure; callers do not depend on the format.

use super::client::{Client, Format, Settings};
use super::error::InstallError;
use super::{edit, toml};
use serde_json::{Map, Value as Json};

/// Returns the text with this server. In an existing entry, settings of others are kept.
pub(super) fn put(
    client: Client,
    text: &str,
    name: &str,
    ours: &Settings,
) -> Result<String, InstallError> {
    match client.format() {
        Format::Json => put_json(text, &[client.servers(), name], ours),
        Format::Toml => {
            let set: Vec<(&str, Json)> =
                ours.set.iter().map(|(path, value)| (path[0], value.clone())).collect();
            toml::put(text, &[client.servers(), name], &set, ours.dropped)
        }
    }
}

/// Returns the text without this server.
pub(super) fn remove(client: Client, text: &str, name: &str) -> Result<String, InstallError> {
    match client.format() {
        Format::Json => edit::remove(text, &[client.servers(), name]),
        Format::Toml => toml::remove(text, &[client.servers(), name]),
    }
}

/// Returns true if the text has this server.
pub(super) fn has(client: Client, text: &str, name: &str) -> Result<bool, InstallError> {
    is_there(client, text, &[client.servers(), name])
}

/// Returns true if the text has a list of servers, even an empty one.
pub(super) fn lists(client: Client, text: &str) -> Result<bool, InstallError> {
    is_there(client, text, &[client.servers()])
}

fn is_there(client: Client, text: &str, path: &[&str]) -> Result<bool, InstallError> {
    match client.format() {
        Format::Json => edit::get(text, path).map(|found| found.is_some()),
        Format::Toml => toml::has(text, path),
    }
}

fn put_json(text: &str, at: &[&str], ours: &Settings) -> Result<String, InstallError> {
    if !edit::get(text, at)?.is_some_and(|entry| entry.is_object()) {
        return edit::set(text, at, &whole(ours));
    }
    let mut text = text.to_owned();
    for key in ours.dropped {
        text = edit::remove(&text, &[at, &[*key]].concat())?;
    }
    for (path, value) in &ours.set {
        text = edit::set(&text, &[at, *path].concat(), value)?;
    }
    Ok(text)
}

fn whole(ours: &Settings) -> Json {
    let mut entry = Json::Object(Map::new());
    for (path, value) in &ours.set {
        let place = path.iter().fold(&mut entry, |place, key| &mut place[*key]);
        *place = value.clone();
    }
    entry
}
