//! Access rules as pure values: callers, their fronts and the roles they have.
//!
//! A front identifies its caller: the kernel vouches for local users, a token for others.
//! [`allows`] is the one rule that every operation applies. The engine stores and compares tokens.

use crate::text::acts;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// The permission level of a token. Each role includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads services and their output.
    Viewer,
    /// Starts, stops, restarts and signals services that are already defined.
    Operator,
    /// Does everything: defines services, runs commands, changes Proctor itself, tokens and the
    /// audit.
    Admin,
}

impl Role {
    pub const ALL: [Role; 3] = [Role::Viewer, Role::Operator, Role::Admin];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Identifies a token in lists and in the audit; reveals nothing about its secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenId(pub String);

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The identity of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// A local process whose user the kernel vouches for: the owner of this Proctor, or root.
    Local { uid: u32 },
    /// A caller that presented this token.
    Token { id: TokenId, name: String, role: Role },
    /// A caller without a token. The kernel confirmed that it is a local process of the owner or
    /// root.
    Anonymous,
    /// A caller without a token that the kernel does not confirm as local. It may do nothing, but
    /// the audit records the attempt.
    Stranger,
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Principal::Local { uid } => write!(f, "user {uid}"),
            Principal::Token { name, role, .. } => write!(f, "token '{name}' ({role})"),
            Principal::Anonymous => f.write_str("a caller without a token"),
            Principal::Stranger => f.write_str("a stranger"),
        }
    }
}

/// The interface through which a request arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Front {
    /// The unix socket, used by the command line.
    Local,
    Rest,
    Tcp,
    Mcp,
    Web,
}

impl Front {
    pub const ALL: [Front; 5] = [Front::Local, Front::Rest, Front::Tcp, Front::Mcp, Front::Web];

    pub fn as_str(self) -> &'static str {
        match self {
            Front::Local => "local",
            Front::Rest => "rest",
            Front::Tcp => "tcp",
            Front::Mcp => "mcp",
            Front::Web => "web",
        }
    }
}

/// Maximum length of a client name in characters; real programs use fewer.
const MAX_CLIENT_NAME_BYTES: usize = 64;

/// The name a program gives itself: not empty, bounded, without characters a terminal would act on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClientName(Arc<str>);

impl ClientName {
    /// Returns `None` if the program gives no name.
    pub fn parse(text: &str) -> Option<ClientName> {
        let shown = text.trim().chars().take(MAX_CLIENT_NAME_BYTES);
        let name: String = shown.map(|c| if acts(c) { '_' } else { c }).collect();
        let name = name.trim_end();
        (!name.is_empty()).then(|| ClientName(name.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<ClientName> for String {
    fn from(name: ClientName) -> String {
        name.as_str().into()
    }
}

impl TryFrom<String> for ClientName {
    type Error = &'static str;

    fn try_from(text: String) -> Result<ClientName, &'static str> {
        ClientName::parse(&text).ok_or("a program name cannot be empty")
    }
}

/// The caller of an operation: identity, front and address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub principal: Principal,
    pub front: Front,
    /// The program that makes the call, as it names itself.
    pub client: Option<ClientName>,
    /// The remote address of a network connection.
    pub peer: Option<SocketAddr>,
}

impl Caller {
    /// A local user at the unix socket.
    pub fn local(uid: u32) -> Caller {
        let principal = Principal::Local { uid };
        Caller { principal, front: Front::Local, client: None, peer: None }
    }

    /// A caller at the remote end of a network connection.
    pub fn remote(principal: Principal, front: Front, peer: SocketAddr) -> Caller {
        Caller { principal, front, client: None, peer: Some(peer) }
    }

    /// Returns this caller, acting through a program at `front`.
    #[must_use]
    pub fn through(self, front: Front, client: Option<ClientName>) -> Caller {
        Caller { front, client, ..self }
    }

    /// Whether the call came over the network. An assistant at the unix socket did not, whatever
    /// its front.
    pub fn is_network(&self) -> bool {
        self.peer.is_some()
    }
}

/// Access granted to callers without a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnonymousAccess {
    /// No access.
    Nothing,
    /// The access of a viewer.
    #[default]
    Read,
    /// Full access: authentication is switched off.
    All,
}

/// The reason a caller was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessDenied {
    /// The caller presented no token; a token would help.
    Unauthenticated,
    /// The caller's role is too low.
    Forbidden { has: Role, needs: Role },
}

/// Checks that the caller has the role an operation needs. An assistant has the role of the user it
/// acts for, but never more than `assistants`.
pub fn allows(
    caller: &Caller,
    needs: Role,
    strangers: AnonymousAccess,
    assistants: Role,
) -> Result<(), AccessDenied> {
    let own = match &caller.principal {
        Principal::Local { .. } => Role::Admin,
        Principal::Token { role, .. } => *role,
        Principal::Anonymous => {
            anonymous(caller, strangers).ok_or(AccessDenied::Unauthenticated)?
        }
        Principal::Stranger => return Err(AccessDenied::Unauthenticated),
    };
    let has = if caller.front == Front::Mcp { own.min(assistants) } else { own };
    let nameless = matches!(caller.principal, Principal::Anonymous);
    match has >= needs {
        true => Ok(()),
        // A token does not raise the limit set for assistants.
        false if nameless && own < needs => Err(AccessDenied::Unauthenticated),
        false => Err(AccessDenied::Forbidden { has, needs }),
    }
}

/// The role of a caller without a token; `None` for a connection from another machine.
fn anonymous(caller: &Caller, strangers: AnonymousAccess) -> Option<Role> {
    let near = caller.peer.is_none_or(|peer| peer.ip().to_canonical().is_loopback());
    match strangers {
        AnonymousAccess::Read if near => Some(Role::Viewer),
        AnonymousAccess::All if near => Some(Role::Admin),
        AnonymousAccess::Nothing | AnonymousAccess::Read | AnonymousAccess::All => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(principal: Principal, peer: Option<&str>) -> Caller {
        let peer = peer.map(|text| text.parse().unwrap());
        Caller { principal, front: Front::Rest, client: None, peer }
    }

    fn token(role: Role) -> Principal {
        Principal::Token { id: TokenId("t1".into()), name: "ci".into(), role }
    }

    #[test]
    fn each_role_may_do_what_the_one_before_it_may() {
        for has in Role::ALL {
            for needs in Role::ALL {
                let expected =
                    if has >= needs { Ok(()) } else { Err(AccessDenied::Forbidden { has, needs }) };
                let from_afar = caller(token(has), Some("10.0.0.7:4000"));
                assert_eq!(
                    allows(&from_afar, needs, AnonymousAccess::Nothing, Role::Viewer),
                    expected
                );
            }
        }
        let local = Caller::local(0);
        assert_eq!(allows(&local, Role::Admin, AnonymousAccess::Nothing, Role::Viewer), Ok(()));
    }

    #[test]
    fn an_assistant_may_do_what_its_user_may_and_no_more_than_assistants() {
        let peer = Some("127.0.0.1:9");
        for assistants in Role::ALL {
            for needs in Role::ALL {
                let callers = Role::ALL.map(|role| (caller(token(role), peer), role));
                let nobody = (caller(Principal::Anonymous, peer), Role::Admin);
                let all = callers.into_iter().chain([(Caller::local(0), Role::Admin), nobody]);
                for (caller, role) in all {
                    let caller = caller.through(Front::Mcp, None);
                    let allowed = allows(&caller, needs, AnonymousAccess::All, assistants);
                    let has = role.min(assistants);
                    let expected = has >= needs;
                    assert_eq!(allowed.is_ok(), expected, "{caller:?} {needs} {assistants}");
                    let refused = Err(AccessDenied::Forbidden { has, needs });
                    assert!(expected || allowed == refused, "{caller:?} {needs}: {allowed:?}");
                }
            }
        }
        let nobody = caller(Principal::Anonymous, peer).through(Front::Mcp, None);
        let allowed = allows(&nobody, Role::Operator, AnonymousAccess::Read, Role::Admin);
        assert_eq!(allowed, Err(AccessDenied::Unauthenticated), "a token would help");
    }

    #[test]
    fn a_program_calls_itself_what_it_likes_and_moves_no_cursor() {
        let check = |given: &str, expected: Option<&str>| {
            let name = ClientName::parse(given);
            assert_eq!(name.as_ref().map(ClientName::as_str), expected, "{given:?}");
            let again = name.as_ref().and_then(|name| ClientName::parse(name.as_str()));
            assert_eq!(again, name, "a name is its own name");
        };
        check("claude-code", Some("claude-code"));
        check(" Visual Studio Code\n", Some("Visual Studio Code"));
        check("a\x1b[2J\u{202e}b", Some("a_[2J_b"));
        check(&"ä".repeat(100), Some(&"ä".repeat(64)));
        check(&format!("{} b", "a".repeat(63)), Some(&"a".repeat(63)));
        check("", None);
        check(" \t", None);
    }

    #[test]
    fn only_who_has_another_end_came_over_the_network() {
        let assistant = Caller::local(0).through(Front::Mcp, ClientName::parse("x"));
        assert!(!assistant.is_network() && !Caller::local(0).is_network());
        let peer = "127.0.0.1:9".parse().unwrap();
        assert!(Caller::remote(Principal::Anonymous, Front::Mcp, peer).is_network());
    }

    #[test]
    fn who_has_no_token_reads_on_this_machine_only() {
        let check = |peer, needs, strangers, expected: bool| {
            let nobody = caller(Principal::Anonymous, peer);
            let allowed = allows(&nobody, needs, strangers, Role::Viewer);
            let expected = if expected { Ok(()) } else { Err(AccessDenied::Unauthenticated) };
            assert_eq!(allowed, expected, "{peer:?} {needs} {strangers:?}");
        };
        for near in [None, Some("127.0.0.1:9"), Some("[::1]:9"), Some("[::ffff:127.0.0.1]:9")] {
            check(near, Role::Viewer, AnonymousAccess::Read, true);
            check(near, Role::Operator, AnonymousAccess::Read, false);
            check(near, Role::Admin, AnonymousAccess::All, true);
            check(near, Role::Viewer, AnonymousAccess::Nothing, false);
        }
        for far in [Some("10.0.0.7:9"), Some("[fe80::1]:9"), Some("[::ffff:10.0.0.7]:9")] {
            check(far, Role::Viewer, AnonymousAccess::Read, false);
            check(far, Role::Viewer, AnonymousAccess::All, false);
        }
        let stranger = caller(Principal::Stranger, Some("127.0.0.1:9"));
        for strangers in [AnonymousAccess::Nothing, AnonymousAccess::Read, AnonymousAccess::All] {
            let allowed = allows(&stranger, Role::Viewer, strangers, Role::Admin);
            assert_eq!(allowed, Err(AccessDenied::Unauthenticated), "{strangers:?}");
        }
    }
}
