//! Compares the permissions of two configurations: does one allow anything that the other does not?
//!
//! A configuration from an assistant may narrow permissions but not widen them; otherwise it could
//! lift its own limits. This module destructures every struct field by field, so that a new setting
//! does not compile until somebody decides how it widens permissions. Services are not compared:
//! `hands` decides who may change them.

use super::backups::Backups;
use super::execute::Execute;
use super::git::Git;
use super::listen::{Http, ListenAddress, Listeners};
use super::mcp::Mcp;
use super::own_secrets::OwnSecrets;
use super::roots::RootDef;
use super::security::{Audit, Security};
use crate::access::AnonymousAccess;
use crate::assistant_policy::AssistantLimits;

/// All permissions of a configuration outside of its services.
#[derive(Debug, Clone, Copy)]
pub struct Grants<'a> {
    pub security: &'a Security,
    pub listeners: &'a Listeners,
    /// Variables that programs do not inherit.
    pub own_secrets: &'a OwnSecrets,
    /// The declared or default roots; `None` to skip their comparison.
    pub roots: Option<&'a [RootDef]>,
}

impl Grants<'_> {
    /// Returns the keys that allow something `other` does not.
    pub fn wider_than(&self, other: &Grants<'_>) -> Vec<&'static str> {
        let mut keys = Keys(Vec::new());
        let Grants { security, listeners, own_secrets, roots } = self;
        keys.security(security, other.security);
        keys.listeners(listeners, other.listeners);
        let hides = other.own_secrets.names().is_subset(own_secrets.names());
        keys.note("security (a variable that it no longer hides from services)", !hides);
        if let (Some(new), Some(old)) = (roots, other.roots) {
            keys.note("roots", widens_roots(new, old));
        }
        keys.0
    }
}

struct Keys(Vec<&'static str>);

impl Keys {
    fn note(&mut self, key: &'static str, wider: bool) {
        if wider {
            self.0.push(key);
        }
    }

    fn security(&mut self, new: &Security, old: &Security) {
        let Security { strangers, token, allowed, execute, mcp, audit, git, backups } = new;
        self.note("security.authentication", rank(*strangers) > rank(old.strangers));
        self.note("security.authentication.token", token.is_some() && *token != old.token);
        let offers_more = match (allowed, &old.allowed) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(new), Some(old)) => !new.is_subset(old),
        };
        self.note("security.allowed_commands", offers_more);
        self.execute(execute, &old.execute);
        self.mcp(mcp, &old.mcp);
        self.audit(*audit, old.audit);
        self.git(git, &old.git);
        // Fewer generations delete undo data; more of them fill the disk.
        let Backups { generations, bytes } = *backups;
        self.note("backups", (generations, bytes) != (old.backups.generations, old.backups.bytes));
    }

    fn execute(&mut self, new: &Execute, old: &Execute) {
        let Execute { commands, variables } = new;
        self.note("security.execute.allowed", has_more(commands, &old.commands));
        self.note("security.execute.env", has_more(variables, &old.variables));
    }

    fn mcp(&mut self, new: &Mcp, old: &Mcp) {
        let Mcp { reach: AssistantLimits { role, control }, toolsets } = new;
        self.note("mcp.role", *role > old.reach.role);
        self.note("mcp.control", *control > old.reach.control);
        self.note("mcp.toolsets", has_more(toolsets, &old.toolsets));
    }

    /// An audit that keeps less hides past actions.
    fn audit(&mut self, new: Audit, old: Audit) {
        let Audit { reads, max_size, max_files } = new;
        self.note("security.audit.reads", old.reads && !reads);
        self.note("security.audit.max_size", max_size < old.max_size);
        self.note("security.audit.max_files", max_files < old.max_files);
    }

    fn git(&mut self, new: &Git, old: &Git) {
        let Git { trusted, protocols, timeout } = new;
        self.note("git.trusted", has_more(trusted, &old.trusted));
        self.note("git.protocols", has_more(protocols, &old.protocols));
        self.note("git.timeout", *timeout > old.timeout);
    }

    fn listeners(&mut self, new: &Listeners, old: &Listeners) {
        let Listeners { tcp, http: Http { place, tls, allowed_hosts, allowed_origins } } = new;
        let opens =
            |new: ListenAddress, old: ListenAddress| new != ListenAddress::Off && new != old;
        self.note("port", opens(*tcp, old.tcp));
        self.note("http", opens(*place, old.http.place));
        self.note("http.tls", *place != ListenAddress::Off && *tls != old.http.tls);
        self.note("http.allowed_hosts", has_more(allowed_hosts, &old.http.allowed_hosts));
        self.note("http.allowed_origins", has_more(allowed_origins, &old.http.allowed_origins));
    }
}

fn rank(strangers: AnonymousAccess) -> u8 {
    match strangers {
        AnonymousAccess::Nothing => 0,
        AnonymousAccess::Read => 1,
        AnonymousAccess::All => 2,
    }
}

fn has_more<T: PartialEq>(new: &[T], old: &[T]) -> bool {
    new.iter().any(|item| !old.contains(item))
}

/// Compares paths as written, because the target of a link may change. A read-only root closes a
/// part of the root around it, so removing it opens that part.
fn widens_roots(new: &[RootDef], old: &[RootDef]) -> bool {
    let allows = |RootDef { name: _, path, write }: &RootDef| {
        old.iter().any(|old| old.path == *path && (old.write || !write))
    };
    let writes = new.iter().any(|root| root.write);
    let opened = old.iter().filter(|old| !old.write);
    let mut opened = opened.filter(|old| !new.iter().any(|new| new.path == old.path));
    !new.iter().all(allows) || (writes && opened.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::super::{Config, ConfigContext, parse};
    use super::*;

    fn config(keys: &str) -> Config {
        let around = ConfigContext {
            base_dir: "/srv",
            var: &|_| None,
            read: &|_| Err("there is none".into()),
        };
        let text = format!("supervisor:\n  {keys}\n  services: {{}}\n");
        parse("proctor.yaml", &text, &around).unwrap_or_else(|why| panic!("{text}{why:?}"))
    }

    fn wider(new: &str, old: &str) -> Vec<&'static str> {
        let (new, old) = (config(new), config(old));
        let grants = |config: &'static Config| Grants {
            security: &config.security,
            listeners: &config.listeners,
            own_secrets: &config.own_secrets,
            roots: config.roots.as_deref(),
        };
        let (new, old) = (Box::leak(Box::new(new)), Box::leak(Box::new(old)));
        grants(new).wider_than(&grants(old))
    }

    /// Each pair is a narrower and a wider setting.
    const PAIRS: &[(&str, &str, &str)] = &[
        ("security.authentication", "", "security: { authentication: { enabled: false } }"),
        ("security.authentication", "security: { authentication: { anonymous_read: false } }", ""),
        ("security.authentication.token", "", "security: { authentication: { token: abcdefgh } }"),
        ("security.allowed_commands", "security: { allowed_commands: [status] }", ""),
        (
            "security.allowed_commands",
            "security: { allowed_commands: [status] }",
            "security: { allowed_commands: [status, up] }",
        ),
        ("security.execute.allowed", "", "security: { execute: { allowed: [make test] } }"),
        (
            "security.execute.allowed",
            "security: { execute: { allowed: [make test] } }",
            "security: { execute: { allowed: [make test, make test *] } }",
        ),
        ("security.execute.env", "", "security: { execute: { env: [MODE] } }"),
        ("mcp.role", "mcp: { role: viewer }", "mcp: { role: operator }"),
        ("mcp.control", "mcp: { control: own }", "mcp: { control: all }"),
        ("mcp.toolsets", "mcp: { toolsets: [logs] }", "mcp: { toolsets: [logs, system] }"),
        ("security.audit.reads", "security: { audit: { reads: true } }", ""),
        ("security.audit.max_size", "", "security: { audit: { max_size: 1M } }"),
        ("security.audit.max_files", "", "security: { audit: { max_files: 2 } }"),
        ("git.trusted", "", "git: { trusted: [.] }"),
        ("git.protocols", "", "git: { protocols: [file] }"),
        ("git.timeout", "git: { timeout: 5 }", "git: { timeout: 6 }"),
        ("backups", "", "backups: { generations: 0 }"),
        ("backups", "", "backups: { max_total: 1G }"),
        ("http", "http: { port: off }", "http: { port: 8080 }"),
        ("port", "port: off", "port: 9999"),
        ("http.allowed_hosts", "", "http: { allowed_hosts: [a.example] }"),
        ("http.allowed_origins", "", "http: { allowed_origins: ['https://a.example'] }"),
        ("roots", "roots: [app]", "roots: [app, /]"),
        ("roots", "roots: [{ path: app, write: false }]", "roots: [app]"),
        ("roots", "roots: [app, { path: app/secret, write: false }]", "roots: [app]"),
    ];

    #[test]
    fn every_setting_that_allows_more_is_named_and_no_other() {
        for (key, narrow, wide) in PAIRS {
            assert_eq!(wider(wide, narrow), [*key], "{narrow} -> {wide}");
            assert_eq!(wider(wide, wide), [""; 0], "{wide}");
            assert_eq!(wider(narrow, narrow), [""; 0], "{narrow}");
        }
    }

    #[test]
    fn a_variable_that_was_hidden_stays_hidden() {
        let config = config("x-nothing: 1");
        let hidden = OwnSecrets::named(["DEPLOY_KEY".to_owned()].into());
        let new = Grants {
            security: &config.security,
            listeners: &config.listeners,
            own_secrets: &config.own_secrets,
            roots: None,
        };
        let old = Grants { own_secrets: &hidden, ..new };
        assert_eq!(new.wider_than(&old).len(), 1);
        assert_eq!(old.wider_than(&new), [""; 0]);
    }

    #[test]
    fn less_may_always_be_allowed() {
        for (new, old) in [
            ("", "security: { authentication: { enabled: false, token: abcdefgh } }"),
            ("security: { allowed_commands: [] }", ""),
            ("", "security: { execute: { allowed: [make test], env: [MODE] } }"),
            ("mcp: { role: viewer, control: own, toolsets: [] }", ""),
            ("", "git: { trusted: [.], protocols: [file] }"),
            ("port: off\n  http: { port: off }", "port: 9999\n  http: { port: 8080 }"),
            ("roots: []", "roots: [app, { path: app/secret, write: false }]"),
            ("roots: [{ path: app, write: false }]", "roots: [app]"),
        ] {
            assert_eq!(wider(new, old), [""; 0], "{old} -> {new}");
        }
    }
}
