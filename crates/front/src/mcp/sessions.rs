//! Sessions of the handshake era: who began each and what it follows, kept in files, so that a client which knows nothing of our
//! end goes on with its session at the next daemon.

#![expect(deprecated, reason = "clients of the handshake era still set levels of logging")]

use async_trait::async_trait;
use proctor_ops::operation::Principal;
use proctor_sys::file;
use rmcp::model::LoggingLevel;
use rmcp::transport::streamable_http_server::session::{
    SessionState, SessionStore, SessionStoreError,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::SystemTime;

/// Kept at once. The oldest is forgotten for a new one: its client begins again.
const MOST: usize = 256;

/// What a client says of itself when it begins.
const LARGEST: u64 = 64 << 10;

pub(super) struct Sessions {
    /// `None`: they end with us.
    folder: Option<PathBuf>,
    /// Whose each is that was used since we began.
    owners: Mutex<BTreeMap<String, String>>,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    /// Whose it is; empty until that is known.
    owner: String,
    state: SessionState,
    #[serde(default)]
    followed: Followed,
}

/// What a client wants to be told of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Followed {
    /// Resources that change.
    pub(super) uris: BTreeSet<String>,
    /// Resources that come and go.
    pub(super) list: bool,
    /// What happens, from this level on.
    pub(super) level: Option<LoggingLevel>,
}

/// Whose a session is: of this token, or of this user.
fn owner(principal: &Principal) -> String {
    match principal {
        Principal::Token { id, .. } => format!("token {id}"),
        Principal::Local { uid } => format!("user {uid}"),
        Principal::Anonymous => "nobody".into(),
        Principal::Stranger => "a stranger".into(),
    }
}

/// An id as we make them; it becomes the name of a file.
fn is_ours(id: &str) -> bool {
    id.len() == 36 && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

impl Sessions {
    pub(super) fn new(folder: Option<PathBuf>) -> Sessions {
        Sessions { folder, owners: Mutex::default() }
    }

    /// Whether this one may use the session. Nobody learns that there is one of another.
    pub(super) fn is_of(&self, id: &str, principal: &Principal) -> bool {
        let owner = owner(principal);
        let known = self.owners().get(id).cloned();
        known.or_else(|| self.read(id).map(|kept| kept.owner)).is_some_and(|whose| whose == owner)
    }

    /// Whether it began at this daemon, not at one before.
    pub(super) fn began_here(&self, id: &str) -> bool {
        self.owners().contains_key(id)
    }

    /// A session begins: it belongs to who began it.
    pub(super) fn begun(&self, id: &str, principal: &Principal) {
        let owner = owner(principal);
        let mut owners = self.owners();
        if owners.len() >= MOST
            && let Some(some) = owners.keys().next().cloned()
        {
            owners.remove(&some);
        }
        owners.insert(id.to_owned(), owner.clone());
        drop(owners);
        if let Some(kept) = self.read(id) {
            self.write(id, &Kept { owner, ..kept });
        }
    }

    /// What the client of a session follows.
    pub(super) fn followed(&self, id: &str) -> Followed {
        self.read(id).map(|kept| kept.followed).unwrap_or_default()
    }

    /// It follows something else from now on.
    pub(super) fn follow(&self, id: &str, change: impl FnOnce(&mut Followed)) {
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

    fn read(&self, id: &str) -> Option<Kept> {
        let path = self.path(id)?;
        serde_json::from_slice(&file::read_small(&path, LARGEST).ok()?).ok()
    }

    /// A session that cannot be kept ends with us; that is no reason not to begin it.
    fn write(&self, id: &str, kept: &Kept) {
        let Some(path) = self.path(id) else { return };
        let Ok(bytes) = serde_json::to_vec(kept) else { return };
        if bytes.len() as u64 > LARGEST {
            return;
        }
        let written = path.parent().map_or(Ok(()), file::private_dir);
        if let Err(error) = written.and_then(|()| file::replace(&path, &bytes)) {
            tracing::debug!(%error, "a session cannot be kept");
        }
    }

    fn path(&self, id: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref().filter(|_| is_ours(id))?.join(id))
    }

    fn owners(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.owners.lock().expect("nothing panics in between")
    }

    /// Make room for one more.
    fn forget_oldest(&self) {
        let Some(folder) = &self.folder else { return };
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut all: Vec<(SystemTime, PathBuf)> = entries
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        all.sort();
        for (_, path) in all.iter().take((all.len() + 1).saturating_sub(MOST)) {
            // It is tried again with the next one.
            let _ = file::remove(path);
        }
    }
}

/// For the transport: it asks when it does not know a session.
pub(super) struct Store(pub(super) std::sync::Arc<Sessions>);

#[async_trait]
impl SessionStore for Store {
    async fn load(&self, id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        // It was let go before: what comes of it now does not begin here.
        self.0.ended(id);
        Ok(self.0.read(id).map(|kept| kept.state))
    }

    async fn store(&self, id: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        self.0.forget_oldest();
        self.0.write(
            id,
            &Kept { owner: String::new(), state: state.clone(), followed: Followed::default() },
        );
        Ok(())
    }

    async fn delete(&self, id: &str) -> Result<(), SessionStoreError> {
        if let Some(path) = self.0.path(id) {
            // Not there is as good.
            let _ = file::remove(&path);
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
        for number in 0..MOST + 20 {
            let id = format!("00000000-0000-0000-0000-{number:012}");
            store.store(&id, &state()).await.unwrap();
            sessions.begun(&id, &token("a"));
        }
        let files = std::fs::read_dir(folder.path().join("mcp")).unwrap().count();
        assert!(files <= MOST && sessions.owners().len() <= MOST, "{files}");
    }
}
