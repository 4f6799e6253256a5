//! Sessions of the handshake era: owner and subscriptions of each, stored in files, so a client continues its session at the
//! next daemon.

#![expect(deprecated, reason = "clients of the handshake era still set levels of logging")]

use async_trait::async_trait;
use proctor_core::home::{FolderRule, OwnFolder};
use proctor_ops::operation::Principal;
use proctor_sys::{own_folder, small_file};
use rmcp::model::LoggingLevel;
use rmcp::transport::streamable_http_server::session::{
    SessionState, SessionStore, SessionStoreError,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::{Instant, SystemTime};

/// Maximum sessions. A new one replaces the oldest of the caller with the most sessions; its client starts again.
pub(super) const MAX_SESSIONS: usize = 256;

/// Maximum sessions of one caller in memory: a quarter, so nobody keeps others out.
const MAX_SHARE: usize = MAX_SESSIONS / 4;

/// Maximum size of a client's initialize request.
const MAX_SESSION_BYTES: u64 = 64 << 10;

const RULE: FolderRule = OwnFolder::McpSessions.rule();

pub(super) struct Sessions {
    /// Folder of the files; `None` keeps sessions only in memory.
    folder: Option<PathBuf>,
    /// Owner of each session used since our start.
    owners: Mutex<BTreeMap<String, String>>,
    /// Last user of each session, and the time.
    used: Mutex<BTreeMap<String, (String, Instant)>>,
}

#[derive(Serialize, Deserialize)]
struct StoredSession {
    /// Owner; empty until known.
    owner: String,
    state: SessionState,
    #[serde(default)]
    followed: Subscriptions,
}

/// Subscriptions of a client.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Subscriptions {
    /// Resources with change notifications.
    pub(super) uris: BTreeSet<String>,
    /// True for notifications about the list of resources.
    pub(super) list: bool,
    /// Minimum level of log messages.
    pub(super) level: Option<LoggingLevel>,
}

/// Returns the owner key of a session: a token or a user.
fn owner(principal: &Principal) -> String {
    match principal {
        Principal::Token { id, .. } => format!("token {id}"),
        Principal::Local { uid } => format!("user {uid}"),
        Principal::Anonymous => "nobody".into(),
        Principal::Stranger => "a stranger".into(),
    }
}

/// Returns true for an id of our form; it becomes a file name.
fn is_ours(id: &str) -> bool {
    id.len() == 36 && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

impl Sessions {
    pub(super) fn new(folder: Option<PathBuf>) -> Sessions {
        Sessions { folder, owners: Mutex::default(), used: Mutex::default() }
    }

    /// Returns true if this principal may use the session. A foreign session looks like a missing one.
    pub(super) fn is_of(&self, id: &str, principal: &Principal) -> bool {
        let owner = owner(principal);
        let known = self.owners().get(id).cloned();
        let known = known.or_else(|| self.read(id).map(|kept| kept.owner));
        let is_theirs = known.is_some_and(|whose| whose == owner);
        if is_theirs {
            self.used().insert(id.to_owned(), (owner, Instant::now()));
        }
        is_theirs
    }

    /// Returns the session to evict for a new one of this caller, if there are too many: one of its own if it has its
    /// share, else one of
    /// the caller with the most. The least recently used one is evicted, and one with a listener only if there is no other.
    pub(super) fn makes_room(
        &self,
        principal: &Principal,
        in_memory: &BTreeMap<String, bool>,
    ) -> Option<String> {
        let owner = owner(principal);
        let mut used = self.used();
        used.retain(|id, _| in_memory.contains_key(id));
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (owner, _) in used.values() {
            *counts.entry(owner).or_default() += 1;
        }
        let whose = match counts.get(owner.as_str()) {
            Some(count) if *count >= MAX_SHARE => owner.as_str(),
            _ if in_memory.len() < MAX_SESSIONS => return None,
            _ => counts.iter().max_by_key(|(_, count)| **count).map(|(owner, _)| *owner)?,
        };
        let theirs = used.iter().filter(|(_, (owner, _))| owner == whose);
        let rank = |id: &String, at: Instant| (in_memory.get(id).copied().unwrap_or(false), at);
        theirs.min_by_key(|(id, (_, at))| rank(id, *at)).map(|(id, _)| id.clone())
    }

    /// Returns true if the session started at this daemon, not at an earlier one.
    pub(super) fn began_here(&self, id: &str) -> bool {
        self.owners().contains_key(id)
    }

    /// Records a new session and its owner.
    pub(super) fn begun(&self, id: &str, principal: &Principal) {
        let owner = owner(principal);
        let mut owners = self.owners();
        if owners.len() >= MAX_SESSIONS
            && let Some(some) = owners.keys().next().cloned()
        {
            owners.remove(&some);
        }
        owners.insert(id.to_owned(), owner.clone());
        drop(owners);
        self.used().insert(id.to_owned(), (owner.clone(), Instant::now()));
        if let Some(kept) = self.read(id) {
            self.write(id, &StoredSession { owner, ..kept });
        }
    }

    /// Returns the subscriptions of a session.
    pub(super) fn followed(&self, id: &str) -> Subscriptions {
        self.read(id).map(|kept| kept.followed).unwrap_or_default()
    }

    /// Changes the subscriptions of a session.
    pub(super) fn follow(&self, id: &str, change: impl FnOnce(&mut Subscriptions)) {
        let Some(mut kept) = self.read(id) else { return };
        let before = kept.followed.clone();
        change(&mut kept.followed);
        if kept.followed != before {
            self.write(id, &kept);
        }
    }

    pub(super) fn ended(&self, id: &str) {
        self.owners().remove(id);
    }

    fn read(&self, id: &str) -> Option<StoredSession> {
        let path = self.path(id)?;
        serde_json::from_slice(&small_file::read_small(&path, MAX_SESSION_BYTES).ok()?).ok()
    }

    /// Writes the file of a session. On an error the session lasts until our end.
    fn write(&self, id: &str, kept: &StoredSession) {
        let Some(path) = self.path(id) else { return };
        let Ok(bytes) = serde_json::to_vec(kept) else { return };
        if bytes.len() as u64 > MAX_SESSION_BYTES {
            return;
        }
        if let Err(error) = self.make_folder().and_then(|()| small_file::replace(&path, &bytes)) {
            tracing::debug!(%error, "cannot store a session");
        }
    }

    fn make_folder(&self) -> io::Result<()> {
        let made = self.folder.as_ref().map(|folder| own_folder::make(folder, RULE)).transpose()?;
        if let Some(mended) = made.flatten() {
            tracing::warn!("{mended}");
        }
        Ok(())
    }

    fn path(&self, id: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref().filter(|_| is_ours(id))?.join(id))
    }

    fn owners(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.owners.lock().expect("nothing panics in between")
    }

    fn used(&self) -> MutexGuard<'_, BTreeMap<String, (String, Instant)>> {
        self.used.lock().expect("nothing panics in between")
    }

    /// Makes room for one more.
    fn forget_oldest(&self) {
        let Some(folder) = &self.folder else { return };
        let names = own_folder::names(folder, RULE).unwrap_or_default();
        let paths = names.into_iter().map(|name| folder.join(name));
        let mut all: Vec<(SystemTime, PathBuf)> = paths
            .filter_map(|path| Some((path.symlink_metadata().ok()?.modified().ok()?, path)))
            .collect();
        all.sort();
        let mut too_many = (all.len() + 1).saturating_sub(MAX_SESSIONS);
        if too_many == 0 {
            return;
        }
        // The oldest of the caller with the most sessions, according to the files.
        let mut by_owner: BTreeMap<String, VecDeque<PathBuf>> = BTreeMap::new();
        for (_, path) in all {
            let id = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let owner = self.read(id).map(|kept| kept.owner).unwrap_or_default();
            by_owner.entry(owner).or_default().push_back(path);
        }
        while too_many > 0 {
            let most = by_owner.values_mut().max_by_key(|paths| paths.len());
            let Some(path) = most.and_then(VecDeque::pop_front) else { return };
            // Retried with the next session.
            let _ = small_file::remove(&path);
            too_many -= 1;
        }
    }
}

/// Store for the transport, which asks for unknown sessions.
pub(super) struct Store(pub(super) std::sync::Arc<Sessions>);

#[async_trait]
impl SessionStore for Store {
    async fn load(&self, id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        // It was evicted before, so it did not start here.
        self.0.ended(id);
        Ok(self.0.read(id).map(|kept| kept.state))
    }

    async fn store(&self, id: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        self.0.forget_oldest();
        self.0.write(
            id,
            &StoredSession {
                owner: String::new(),
                state: state.clone(),
                followed: Subscriptions::default(),
            },
        );
        Ok(())
    }

    async fn delete(&self, id: &str) -> Result<(), SessionStoreError> {
        if let Some(path) = self.0.path(id) {
            // A missing file is fine.
            let _ = small_file::remove(&path);
        }
        self.0.ended(id);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_ops::operation::{Role, TokenId};
    use std::sync::Arc;

    const ID: &str = "7d444840-9dc0-11d1-b245-5ffdce74fad2";

    fn token(id: &str) -> Principal {
        Principal::Token { id: TokenId(id.into()), name: "ci".into(), role: Role::Viewer }
    }

    fn state() -> SessionState {
        SessionState::new(rmcp::model::InitializeRequestParams::default())
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_session_is_known_to_the_next_daemon_and_to_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = |_| Arc::new(Sessions::new(Some(folder.path().join("mcp"))));
        let first = sessions(1);
        Store(Arc::clone(&first)).store(ID, &state()).await.unwrap();
        assert!(!sessions(2).is_of(ID, &Principal::Anonymous), "nobody knows yet whose it is");
        first.begun(ID, &token("a"));
        let second = sessions(2);
        assert!(second.is_of(ID, &token("a")));
        for other in [token("b"), Principal::Anonymous, Principal::Local { uid: 0 }] {
            assert!(!second.is_of(ID, &other), "{other:?}");
        }
        first.follow(ID, |followed| followed.list = true);
        assert!(second.followed(ID).list && second.began_here(ID) != first.began_here(ID));
        let store = Store(Arc::clone(&second));
        assert!(store.load(ID).await.unwrap().is_some());
        store.delete(ID).await.unwrap();
        assert!(store.load(ID).await.unwrap().is_none() && !second.is_of(ID, &token("a")));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn an_id_is_no_path_and_there_are_not_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = Arc::new(Sessions::new(Some(folder.path().join("mcp"))));
        let store = Store(Arc::clone(&sessions));
        for id in ["../../../../../../../../etc/passwd-pad", "", "x", &"a".repeat(400)] {
            store.store(id, &state()).await.unwrap();
            assert!(store.load(id).await.unwrap().is_none(), "{id}");
        }
        for number in 0..MAX_SESSIONS + 20 {
            let id = format!("00000000-0000-0000-0000-{number:012}");
            store.store(&id, &state()).await.unwrap();
            sessions.begun(&id, &token("a"));
        }
        let files = std::fs::read_dir(folder.path().join("mcp")).unwrap().count();
        assert!(files <= MAX_SESSIONS && sessions.owners().len() <= MAX_SESSIONS, "{files}");
    }

    #[test]
    fn idle_sessions_make_room_and_nobody_takes_more_than_their_share() {
        let sessions = Sessions::new(None);
        let (flood, other) = (token("flood"), token("other"));
        let id = |number: usize| format!("00000000-0000-0000-0000-{number:012}");
        let mut in_memory = BTreeMap::new();
        for number in 0..MAX_SHARE {
            assert_eq!(sessions.makes_room(&flood, &in_memory), None, "{number}");
            in_memory.insert(id(number), false);
            sessions.begun(&id(number), &flood);
        }
        // Recently used or with a listener: neither is evicted first.
        assert!(sessions.is_of(&id(0), &flood));
        in_memory.insert(id(1), true);
        assert_eq!(sessions.makes_room(&flood, &in_memory), Some(id(2)));
        assert_eq!(sessions.makes_room(&other, &in_memory), None);
        for number in MAX_SHARE..MAX_SESSIONS {
            let whose = token(&format!("of {}", number % 100));
            in_memory.insert(id(number), false);
            sessions.begun(&id(number), &whose);
        }
        assert_eq!(sessions.makes_room(&other, &in_memory), Some(id(2)), "of who has the most");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn files_of_a_caller_with_many_sessions_go_before_those_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = Arc::new(Sessions::new(Some(folder.path().join("mcp"))));
        let store = Store(Arc::clone(&sessions));
        store.store(ID, &state()).await.unwrap();
        sessions.begun(ID, &token("first"));
        for number in 0..MAX_SESSIONS + 20 {
            let id = format!("00000000-0000-0000-0000-{number:012}");
            store.store(&id, &state()).await.unwrap();
            sessions.begun(&id, &token("flood"));
        }
        assert!(store.load(ID).await.unwrap().is_some(), "a flood pushed another's session out");
    }
}
