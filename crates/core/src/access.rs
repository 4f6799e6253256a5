//! Who calls, through which front, and what that allows: the rules alone, as values.
//!
//! A front says who it is (the kernel's word for a user of this machine, a token's for others); [`allows`] is the one
//! rule that every operation goes by. How tokens are kept and compared is the engine's.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;

/// What a token may be used for. Each may do what the one before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Sees services and their output.
    Viewer,
    /// Starts, stops, restarts and signals services that are defined.
    Operator,
    /// Everything: defines services, runs commands, changes Proctor itself, tokens, the audit.
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

/// Names a token in lists and in the audit; says nothing about its secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenId(pub String);

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// A process of this machine whose user the kernel vouches for: the owner of this Proctor, or root.
    Local { uid: u32 },
    /// Whoever presented this token.
    Token { id: TokenId, name: String, role: Role },
    /// Nobody said who. The front has asked the kernel that it is a process of this machine, of the owner or root.
    Anonymous,
    /// Nobody said who, and the kernel does not say that it is one of those. They get nothing, and it is known that they tried.
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

/// The way a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Front {
    /// The unix socket: the command line.
    Local,
    Rest,
    Tcp,
    Mcp,
    Web,
}

impl Front {
    pub const ALL: [Front; 5] = [Front::Local, Front::Rest, Front::Tcp, Front::Mcp, Front::Web];

    /// Reachable by more than this machine's unix socket.
    pub fn is_network(self) -> bool {
        self != Front::Local
    }

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

/// Who calls, how, and from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub principal: Principal,
    pub front: Front,
    /// The other end of a network connection.
    pub peer: Option<SocketAddr>,
}

impl Caller {
    /// A user of this machine at the unix socket.
    pub fn local(uid: u32) -> Caller {
        Caller { principal: Principal::Local { uid }, front: Front::Local, peer: None }
    }
}

/// What callers without a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strangers {
    /// Nothing.
    Nothing,
    /// What a viewer may.
    #[default]
    Read,
    /// Everything: authentication was switched off.
    All,
}

/// Why a caller may not do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// A token would help.
    Unauthenticated,
    /// It is known who calls, and that is not enough.
    Forbidden { has: Role, needs: Role },
}

/// May this caller do what needs this role?
pub fn allows(caller: &Caller, needs: Role, strangers: Strangers) -> Result<(), Refused> {
    let has = match &caller.principal {
        Principal::Local { .. } => Role::Admin,
        Principal::Token { role, .. } => *role,
        Principal::Anonymous => anonymous(caller, strangers).ok_or(Refused::Unauthenticated)?,
        Principal::Stranger => return Err(Refused::Unauthenticated),
    };
    match &caller.principal {
        _ if has >= needs => Ok(()),
        Principal::Anonymous | Principal::Stranger => Err(Refused::Unauthenticated),
        Principal::Local { .. } | Principal::Token { .. } => Err(Refused::Forbidden { has, needs }),
    }
}

/// The role of who does not say who they are: none for a connection from elsewhere.
fn anonymous(caller: &Caller, strangers: Strangers) -> Option<Role> {
    let near = caller.peer.is_none_or(|peer| peer.ip().to_canonical().is_loopback());
    match strangers {
        Strangers::Read if near => Some(Role::Viewer),
        Strangers::All if near => Some(Role::Admin),
        Strangers::Nothing | Strangers::Read | Strangers::All => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(principal: Principal, peer: Option<&str>) -> Caller {
        Caller { principal, front: Front::Rest, peer: peer.map(|text| text.parse().unwrap()) }
    }

    fn token(role: Role) -> Principal {
        Principal::Token { id: TokenId("t1".into()), name: "ci".into(), role }
    }

    #[test]
    fn each_role_may_do_what_the_one_before_it_may() {
        for has in Role::ALL {
            for needs in Role::ALL {
                let expected =
                    if has >= needs { Ok(()) } else { Err(Refused::Forbidden { has, needs }) };
                let from_afar = caller(token(has), Some("10.0.0.7:4000"));
                assert_eq!(allows(&from_afar, needs, Strangers::Nothing), expected);
            }
        }
        assert_eq!(allows(&Caller::local(0), Role::Admin, Strangers::Nothing), Ok(()));
    }

    #[test]
    fn who_has_no_token_reads_on_this_machine_only() {
        let check = |peer, needs, strangers, expected: bool| {
            let allowed = allows(&caller(Principal::Anonymous, peer), needs, strangers);
            let expected = if expected { Ok(()) } else { Err(Refused::Unauthenticated) };
            assert_eq!(allowed, expected, "{peer:?} {needs} {strangers:?}");
        };
        for near in [None, Some("127.0.0.1:9"), Some("[::1]:9"), Some("[::ffff:127.0.0.1]:9")] {
            check(near, Role::Viewer, Strangers::Read, true);
            check(near, Role::Operator, Strangers::Read, false);
            check(near, Role::Admin, Strangers::All, true);
            check(near, Role::Viewer, Strangers::Nothing, false);
        }
        for far in [Some("10.0.0.7:9"), Some("[fe80::1]:9"), Some("[::ffff:10.0.0.7]:9")] {
            check(far, Role::Viewer, Strangers::Read, false);
            check(far, Role::Viewer, Strangers::All, false);
        }
        let stranger = caller(Principal::Stranger, Some("127.0.0.1:9"));
        for strangers in [Strangers::Nothing, Strangers::Read, Strangers::All] {
            let allowed = allows(&stranger, Role::Viewer, strangers);
            assert_eq!(allowed, Err(Refused::Unauthenticated), "{strangers:?}");
        }
    }
}
