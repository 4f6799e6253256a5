//! Folders of a conversation on this machine: the client's MCP roots if it offers them, otherwise the folder in which `proctor
//! mcp` was started. Relative paths start there, so no other project is changed by accident.

#![expect(deprecated, reason = "clients of the handshake era still offer roots")]

use crate::cli::configuration::Choice;
use crate::http::query::decoded;
use proctor_ops::operation::Meta;
use rmcp::model::Root;
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::Mutex;

/// Timeout of the client's response, which it gives from memory.
const ROOTS_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum roots: more folders than a person has open.
const MAX_ROOTS: usize = 16;

/// Folders of one conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Project {
    /// Folder that relative paths start from.
    base: PathBuf,
    folders: Vec<PathBuf>,
}

/// Project of a conversation, requested once and again after the client reports a change.
#[derive(Default)]
pub(super) struct KnownProject(Mutex<Option<Project>>);

impl KnownProject {
    /// Returns the project; `None` if our start folder is gone and the client has no roots.
    pub(super) async fn get(&self, context: &RequestContext<RoleServer>) -> Option<Project> {
        let mut known = self.0.lock().await;
        if known.is_none() {
            *known = Project::new(std::env::current_dir().ok(), roots(context).await);
        }
        known.clone()
    }

    pub(super) async fn forget(&self) {
        *self.0.lock().await = None;
    }
}

/// Returns the folders that the client offers; none in the era without requests to a client.
async fn roots(context: &RequestContext<RoleServer>) -> Vec<PathBuf> {
    let offered = context.client_capabilities().is_some_and(|can| can.roots.is_some());
    let can_ask = context.protocol_version().is_some_and(|version| version.has_initialize());
    if !(offered && can_ask) {
        return Vec::new();
    }
    match tokio::time::timeout(ROOTS_TIMEOUT, context.peer.list_roots()).await {
        Ok(Ok(listed)) => listed.roots.iter().filter_map(folder).take(MAX_ROOTS).collect(),
        // Without a response, the folder of our start counts.
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

/// Returns the folder of a `file://` URI.
fn folder(root: &Root) -> Option<PathBuf> {
    let path = root.uri.strip_prefix("file://")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let path = PathBuf::from(decoded(&path.replace('+', "%2B"))?);
    path.is_absolute().then_some(path)
}

impl Project {
    fn new(started_in: Option<PathBuf>, roots: Vec<PathBuf>) -> Option<Project> {
        let inside =
            started_in.clone().filter(|cwd| roots.iter().any(|root| cwd.starts_with(root)));
        let base = inside.or_else(|| roots.first().cloned()).or(started_in)?;
        let folders = if roots.is_empty() { vec![base.clone()] } else { roots };
        Some(Project { base, folders })
    }

    /// Adds the caller fields that an operation wants.
    pub(super) fn fill(&self, meta: &Meta, input: &mut Map<String, Value>) {
        if !(meta.wants_caller || meta.wants_folder) {
            return;
        }
        input.insert("base_dir".into(), json!(self.base.to_string_lossy()));
        if meta.wants_folder {
            let folders = self.folders.iter().map(|folder| folder.to_string_lossy());
            input.insert("from_base".into(), json!(true));
            input.insert("folders".into(), folders.collect());
        }
        if meta.name == "service.up"
            && !input.contains_key("config")
            && let Ok(choice) = Choice::from_folder(None, Some(&self.base))
            && let Some(file) = choice.path()
        {
            input.insert("config".into(), json!(file.to_string_lossy()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_conversation_begins_where_it_was_started_or_in_the_roots_of_its_client() {
        let path = |text: &str| Some(PathBuf::from(text));
        let check = |cwd: Option<PathBuf>, roots: &[&str], expected: Option<&str>| {
            let project = Project::new(cwd, roots.iter().map(PathBuf::from).collect());
            assert_eq!(project.as_ref().map(|project| &*project.base), expected.map(Path::new));
        };
        check(path("/srv/app"), &[], Some("/srv/app"));
        check(path("/"), &["/srv/app", "/srv/lib"], Some("/srv/app"));
        check(path("/srv/lib/src"), &["/srv/app", "/srv/lib"], Some("/srv/lib/src"));
        check(None, &["/srv/app"], Some("/srv/app"));
        check(None, &[], None);
    }

    #[test]
    fn a_root_is_a_folder_of_this_machine() {
        let check = |uri: &str, expected: Option<&str>| {
            assert_eq!(folder(&Root::new(uri)), expected.map(PathBuf::from), "{uri}");
        };
        check("file:///srv/my%20app", Some("/srv/my app"));
        check("file://localhost/srv/c++", Some("/srv/c++"));
        check("file://srv", None);
        check("https://example.org/x", None);
    }
}
