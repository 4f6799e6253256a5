//! Tokens, by which a client of a network front is authenticated.
//!
//! Only hashes are kept, in `tokens.json` and in memory, so that authentication touches no disk. A file that
//! cannot be read admits nobody and is never overwritten: its content may help to repair it.

pub(crate) mod secret;
mod store;

pub use self::secret::Secret;

use self::secret::{Digest, hex};
use self::store::{MAX_TOKENS, Record};
use proctor_core::access::{Principal, Role, TokenId};
use proctor_core::home::Home;
use proctor_core::time::Wall;
use proctor_sys::{atomic, clock, small_file};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::Duration;
use tokio::sync::watch;

/// The name of the token created at the first start.
const FIRST: &str = "admin";

/// Maximum number of revoked tokens remembered: more than anybody revokes while a request lasts.
const MAX_REVOKED: usize = 4096;

/// The name of the configured token.
pub const CONFIGURED: &str = "configuration";

/// A token without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenView {
    pub id: TokenId,
    pub name: String,
    pub role: Role,
    pub created: Wall,
    pub expires: Option<Wall>,
    /// Approximate: the file is not written for every use.
    pub last_used: Option<Wall>,
}

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("{0}")]
    BadName(String),
    #[error("token '{0}' already exists")]
    Taken(String),
    #[error("token '{0}' does not exist")]
    Unknown(String),
    #[error("the limit of {MAX_TOKENS} tokens is reached; revoke one first")]
    TooMany,
    #[error("{0}")]
    Unreadable(String),
    #[error("cannot write {path}: {why}", path = .path.display())]
    Unwritable { path: PathBuf, why: io::Error },
}

pub struct Tokens {
    path: PathBuf,
    first: PathBuf,
    known: RwLock<KnownToken>,
    /// Held while the file is written; readers never wait for it.
    writing: Mutex<()>,
    /// Tokens revoked since this daemon started, for requests that began before.
    revoked: watch::Sender<BTreeSet<TokenId>>,
}

struct KnownToken {
    tokens: Vec<Token>,
    /// Why the file admits nobody.
    unreadable: Option<String>,
    /// The first token is not in the file yet.
    unsaved: bool,
}

struct Token {
    record: Record,
    /// Seconds; 0: never.
    last_used: AtomicI64,
}

impl Tokens {
    /// Reads the file; creates a token at the first start. Blocks.
    pub(crate) fn open(home: &Home) -> Tokens {
        let (path, first) = (home.tokens_json(), home.first_token());
        let mut known = KnownToken { tokens: Vec::new(), unreadable: None, unsaved: false };
        match store::read(&path) {
            Ok(Some(records)) => known.tokens = records.into_iter().map(Token::of).collect(),
            Ok(None) => match make_first(&first) {
                Ok(record) => {
                    known.tokens.push(Token::of(record));
                    known.unsaved = true;
                }
                Err(error) => {
                    known.unreadable =
                        Some(format!("{} cannot be written: {error}", first.display()));
                }
            },
            Err(why) => {
                known.unreadable = Some(format!(
                    "{} {why}; no token is accepted until the file is repaired or removed and Proctor's daemon is restarted",
                    path.display()
                ));
            }
        }
        if let Some(problem) = &known.unreadable {
            tracing::error!(problem, "no token is valid");
        }
        Tokens {
            path,
            first,
            known: RwLock::new(known),
            writing: Mutex::new(()),
            revoked: watch::Sender::default(),
        }
    }

    /// Writes the file if the first token is not in it yet. Blocks; separate from `open`, because it waits for
    /// the disk.
    pub(crate) fn save_first(&self) {
        let _turn = self.turn();
        if !std::mem::take(&mut self.change().unsaved) {
            return;
        }
        if let Err(error) = self.write(&self.records()) {
            tracing::error!(%error, "cannot store the first token; it is valid until the daemon ends");
        }
    }

    /// Returns the owner of this secret. Every token is compared, in constant time.
    pub(crate) fn authenticate(
        &self,
        presented: &str,
        configured: Option<&Digest>,
    ) -> Option<Principal> {
        let (presented, now) = (Digest::of(presented), seconds(clock::now().wall));
        let known = self.look();
        let mut found = None;
        for token in &known.tokens {
            if token.record.sha256.is(&presented) {
                found = Some(token);
            }
        }
        let configured = configured.is_some_and(|it| it.is(&presented));
        match found {
            Some(token) if token.record.expires.is_none_or(|end| now < end) => {
                token.last_used.store(now, Ordering::Relaxed);
                Some(token.principal())
            }
            _ if configured => Some(Principal::Token {
                id: TokenId(CONFIGURED.into()),
                name: CONFIGURED.into(),
                role: Role::Admin,
            }),
            Some(_) | None => None,
        }
    }

    /// Creates a token; its secret is returned here and never again. Blocks.
    pub fn create(
        &self,
        name: &str,
        role: Role,
        expires: Option<Wall>,
    ) -> Result<(TokenView, Secret), TokenError> {
        store::check_name(name).map_err(TokenError::BadName)?;
        let _turn = self.turn();
        let mut records = self.readable()?;
        if name == CONFIGURED || records.iter().any(|record| record.name == name) {
            return Err(TokenError::Taken(name.into()));
        }
        if records.len() >= MAX_TOKENS {
            return Err(TokenError::TooMany);
        }
        let secret = Secret::random();
        let token = Token::of(record(name, role, expires.map(seconds), &secret));
        records.push(token.record.clone());
        self.write(&records)?;
        let view = token.view();
        self.change().tokens.push(token);
        Ok((view, secret))
    }

    /// Revokes a token, by its name or id. Blocks.
    pub fn revoke(&self, which: &str) -> Result<TokenView, TokenError> {
        let _turn = self.turn();
        let mut records = self.readable()?;
        let at = records.iter().position(|record| record.name == which || record.id.0 == which);
        let at = at.ok_or_else(|| TokenError::Unknown(which.into()))?;
        records.remove(at);
        self.write(&records)?;
        let token = self.change().tokens.remove(at);
        self.revoked.send_modify(|all| {
            if all.len() >= MAX_REVOKED {
                all.pop_first();
            }
            all.insert(token.record.id.clone());
        });
        if token.record.name == FIRST {
            // The secret is invalid now; failing to remove its file does no harm.
            small_file::remove(&self.first).ok();
        }
        Ok(token.view())
    }

    /// Returns true if the token was revoked since this daemon started.
    pub fn is_revoked(&self, id: &TokenId) -> bool {
        self.revoked.borrow().contains(id)
    }

    /// Waits until the token is revoked or expires.
    pub(crate) async fn gone(&self, id: &TokenId) {
        let mut revoked = self.revoked.subscribe();
        let expires = self
            .look()
            .tokens
            .iter()
            .find(|token| token.record.id == *id)
            .and_then(|token| token.record.expires);
        let expired = async {
            let Some(expires) = expires else { return std::future::pending().await };
            let left = expires.saturating_sub(seconds(clock::now().wall));
            tokio::time::sleep(Duration::from_secs(u64::try_from(left).unwrap_or(0))).await;
        };
        tokio::select! {
            biased;
            // An error would mean that the sender is gone, but `self` owns it.
            _ = revoked.wait_for(|all| all.contains(id)) => {}
            () = expired => {}
        }
    }

    pub fn list(&self) -> Vec<TokenView> {
        self.look().tokens.iter().map(Token::view).collect()
    }

    /// The path of the first token's secret.
    pub fn first_path(&self) -> &Path {
        &self.first
    }

    /// Why no token is valid, if none is.
    pub fn problem(&self) -> Option<String> {
        self.look().unreadable.clone()
    }

    fn write(&self, records: &[Record]) -> Result<(), TokenError> {
        let written = atomic::write(&self.path, &store::encode(records));
        written.map_err(|why| TokenError::Unwritable { path: self.path.clone(), why })?;
        self.change().unsaved = false;
        Ok(())
    }

    fn readable(&self) -> Result<Vec<Record>, TokenError> {
        match self.problem() {
            Some(problem) => Err(TokenError::Unreadable(problem)),
            None => Ok(self.records()),
        }
    }

    fn records(&self) -> Vec<Record> {
        self.look().tokens.iter().map(Token::now).collect()
    }

    fn turn(&self) -> std::sync::MutexGuard<'_, ()> {
        self.writing.lock().expect("nothing panics while it writes tokens")
    }

    fn look(&self) -> std::sync::RwLockReadGuard<'_, KnownToken> {
        self.known.read().expect("nothing panics while it changes the tokens")
    }

    fn change(&self) -> std::sync::RwLockWriteGuard<'_, KnownToken> {
        self.known.write().expect("nothing panics while it changes the tokens")
    }
}

impl Token {
    fn of(record: Record) -> Token {
        let last_used = AtomicI64::new(record.last_used.unwrap_or(0));
        Token { record, last_used }
    }

    fn used(&self) -> Option<i64> {
        Some(self.last_used.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// The record with its last use.
    fn now(&self) -> Record {
        Record { last_used: self.used(), ..self.record.clone() }
    }

    fn principal(&self) -> Principal {
        let Record { id, name, role, .. } = &self.record;
        Principal::Token { id: id.clone(), name: name.clone(), role: *role }
    }

    fn view(&self) -> TokenView {
        let Record { id, name, role, created, expires, .. } = &self.record;
        TokenView {
            id: id.clone(),
            name: name.clone(),
            role: *role,
            created: wall(*created),
            expires: expires.map(wall),
            last_used: self.used().map(wall),
        }
    }
}

/// Creates the token of the first start, with its secret in a file that only the owner can read.
fn make_first(path: &Path) -> io::Result<Record> {
    let secret = Secret::random();
    small_file::replace(path, format!("{}\n", secret.reveal()).as_bytes())?;
    tracing::info!(path = %path.display(), "created the first token");
    Ok(record(FIRST, Role::Admin, None, &secret))
}

fn record(name: &str, role: Role, expires: Option<i64>, secret: &Secret) -> Record {
    Record {
        id: TokenId(format!("t{}", hex(&proctor_sys::random::bytes::<6>()))),
        name: name.into(),
        role,
        sha256: Digest::of(secret.reveal()),
        created: seconds(clock::now().wall),
        expires,
        last_used: None,
    }
}

fn seconds(wall: Wall) -> i64 {
    wall.0.div_euclid(1_000_000)
}

fn wall(seconds: i64) -> Wall {
    Wall(seconds.saturating_mul(1_000_000))
}

/// Decodes `tokens.json` and encodes it again, for the checks in `decoders`.
pub(crate) fn again(bytes: &[u8]) -> Result<Vec<u8>, String> {
    Ok(store::encode(&store::parse(bytes)?))
}

#[cfg(test)]
mod tests;
