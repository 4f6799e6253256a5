//! Where Proctor keeps its things. Pure: the caller says who it is and what the environment holds.

use crate::name::{RunId, ServiceName};
use std::path::{Path, PathBuf};

/// The two folders of one Proctor, and the names in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// Survives a reboot: wishes, added services, logs.
    pub state: PathBuf,
    /// Meaningful during one boot: sockets, FIFOs, run records, lock.
    pub runtime: PathBuf,
}

/// What Proctor keeps in the folder of its state: names, of which some have others beside them while they are written, or after
/// they were found damaged.
const KEPT: &[&str] = &[
    "services.json",
    "tokens.json",
    "token",
    "audit",
    "audit.head",
    "keeper.lock",
    "logs",
    "proctor.log",
    "backups",
    "changes",
    "run",
    "trusted",
];

impl Home {
    /// Is a file or folder of this name in the folder of the state Proctor's? The folder may also be somebody's project.
    pub fn keeps(name: &str) -> bool {
        let beside = |kept: &&str| {
            name.strip_prefix('.').is_some_and(|rest| rest.starts_with(&format!("{kept}.")))
                || (kept.ends_with(".json") && name.starts_with(&format!("{kept}.")))
        };
        KEPT.iter().any(|kept| name == *kept || beside(kept))
    }

    /// `explicit` is `--home` or `PROCTOR_HOME`: everything below one folder. Otherwise the folders of the XDG base
    /// directory specification, or the system's for root.
    pub fn locate(
        explicit: Option<&Path>,
        uid: u32,
        var: &dyn Fn(&str) -> Option<PathBuf>,
    ) -> Option<Home> {
        if let Some(home) = explicit {
            return Some(Home { state: home.to_path_buf(), runtime: home.join("run") });
        }
        if uid == 0 {
            return Some(Home { state: "/var/lib/proctor".into(), runtime: "/run/proctor".into() });
        }
        let absolute = |name: &str| var(name).filter(|path| path.is_absolute());
        let state = absolute("XDG_STATE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?
            .join("proctor");
        let runtime = absolute("XDG_RUNTIME_DIR")
            .map_or_else(|| state.join("run"), |dir| dir.join("proctor"));
        Some(Home { state, runtime })
    }

    /// The folder that `--home` would have to name for this home; `None` if it is the user's usual one.
    pub fn explicit(&self) -> Option<&Path> {
        (self.runtime == self.state.join("run")).then_some(self.state.as_path())
    }

    /// Clients connect here.
    pub fn socket(&self) -> PathBuf {
        self.runtime.join("proctor.sock")
    }

    /// Held by the living keeper; contains its pid.
    pub fn lock(&self) -> PathBuf {
        self.runtime.join("keeper.lock")
    }

    /// Held by the living keeper as well: somebody who tidies the runtime folder away does not let a second keeper in.
    pub fn state_lock(&self) -> PathBuf {
        self.state.join("keeper.lock")
    }

    /// Where a keeper finds the guard of the one before it.
    pub fn guard_socket(&self) -> PathBuf {
        self.runtime.join("guard.sock")
    }

    /// Run records, specs and FIFOs, one folder for each service.
    pub fn services(&self) -> PathBuf {
        self.runtime.join("services")
    }

    pub fn service(&self, name: &ServiceName) -> PathBuf {
        self.services().join(name.as_str())
    }

    /// The FIFOs of a run's standard output and standard error.
    pub fn fifos(&self, name: &ServiceName, run: RunId) -> [PathBuf; 2] {
        let folder = self.service(name);
        [folder.join(format!("{run}.out")), folder.join(format!("{run}.err"))]
    }

    /// The FIFO that the next run of this service has as its standard input, if somebody offers one.
    pub fn input(&self, name: &ServiceName) -> PathBuf {
        self.runtime.join(format!("{name}.stdin"))
    }

    /// The terminal that the next run of this service has, if somebody offers one.
    pub fn terminal(&self, name: &ServiceName) -> PathBuf {
        self.runtime.join(format!("{name}.terminal"))
    }

    /// The FIFO for what appears on that terminal.
    pub fn terminal_output(&self, name: &ServiceName) -> PathBuf {
        self.runtime.join(format!("{name}.screen"))
    }

    /// Which boot the runtime folder is about.
    pub fn boot(&self) -> PathBuf {
        self.runtime.join("boot")
    }

    /// Marks of the commands that a request waits for: what a killed daemon left is found by them.
    pub fn commands(&self) -> PathBuf {
        self.runtime.join("commands")
    }

    /// Where indexes of git are held for a commit: what a killed daemon held is released by these.
    pub fn held_indexes(&self) -> PathBuf {
        self.runtime.join("indexes")
    }

    /// Sessions of MCP over HTTP.
    pub fn mcp_sessions(&self) -> PathBuf {
        self.runtime.join("mcp")
    }

    /// Shared environments.
    pub fn environments(&self) -> PathBuf {
        self.runtime.join("env")
    }

    /// What could not be written at [`Home::services_json`], until it can be.
    pub fn unsaved_services(&self) -> PathBuf {
        self.runtime.join("services.json")
    }

    /// Changes that could not be written into the audit, until they can be.
    pub fn audit_owed(&self) -> PathBuf {
        self.runtime.join("audit.owed")
    }

    /// Wishes and services added at run time.
    pub fn services_json(&self) -> PathBuf {
        self.state.join("services.json")
    }

    /// The tokens that exist, without their secrets.
    pub fn tokens_json(&self) -> PathBuf {
        self.state.join("tokens.json")
    }

    /// The folders whose configurations the owner trusts, whoever wrote them.
    pub fn trusted(&self) -> PathBuf {
        self.state.join("trusted")
    }

    /// The secret of the token that was made at the first start.
    pub fn first_token(&self) -> PathBuf {
        self.state.join("token")
    }

    /// Who did what.
    pub fn audit(&self) -> PathBuf {
        self.state.join("audit")
    }

    /// How far the audit went: lines that are missing at its end are noticed by it.
    pub fn audit_head(&self) -> PathBuf {
        self.state.join("audit.head")
    }

    /// What files held before they were changed.
    pub fn backups(&self) -> PathBuf {
        self.state.join("backups")
    }

    /// Changes of files that are under way.
    pub fn changes(&self) -> PathBuf {
        self.state.join("changes")
    }

    pub fn logs(&self) -> PathBuf {
        self.state.join("logs")
    }

    pub fn log_dir(&self, name: &ServiceName) -> PathBuf {
        self.logs().join(name.as_str())
    }

    /// What keeper and daemon themselves have to say.
    pub fn own_log(&self) -> PathBuf {
        self.state.join("proctor.log")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `NAME=path` for each variable that is set.
    #[track_caller]
    fn check(
        explicit: Option<&str>,
        uid: u32,
        vars: &[(&str, &str)],
        expected: Option<(&str, &str)>,
    ) {
        let var = |name: &str| {
            let found = vars.iter().find(|(known, _)| *known == name);
            found.map(|(_, path)| PathBuf::from(path))
        };
        let found = Home::locate(explicit.map(Path::new), uid, &var);
        let expected =
            expected.map(|(state, runtime)| Home { state: state.into(), runtime: runtime.into() });
        assert_eq!(found, expected, "{explicit:?} {uid} {vars:?}");
    }

    #[test]
    fn a_home_is_where_the_user_said_or_where_such_things_are_kept() {
        let me: &[_] = &[("HOME", "/home/me")];
        let full: &[_] =
            &[("HOME", "/home/me"), ("XDG_STATE_HOME", "/s"), ("XDG_RUNTIME_DIR", "/run/user/7")];
        let relative: &[_] =
            &[("HOME", "/home/me"), ("XDG_STATE_HOME", "s"), ("XDG_RUNTIME_DIR", "r")];
        check(Some("/srv/p"), 7, full, Some(("/srv/p", "/srv/p/run")));
        check(None, 0, full, Some(("/var/lib/proctor", "/run/proctor")));
        check(None, 7, full, Some(("/s/proctor", "/run/user/7/proctor")));
        let usual = ("/home/me/.local/state/proctor", "/home/me/.local/state/proctor/run");
        check(None, 7, me, Some(usual));
        check(None, 7, relative, Some(usual));
        check(None, 7, &[], None);
        check(None, 7, &[("HOME", "me")], None);
    }

    #[test]
    fn what_proctor_keeps_is_told_from_what_lies_beside_it() {
        let home = Home { state: "/s".into(), runtime: "/s/run".into() };
        let own = [
            home.services_json(),
            home.tokens_json(),
            home.first_token(),
            home.audit(),
            home.audit_head(),
            home.state_lock(),
            home.logs(),
            home.own_log(),
            home.backups(),
            home.changes(),
            home.runtime.clone(),
        ];
        for path in own {
            assert!(Home::keeps(path.file_name().unwrap().to_str().unwrap()), "{path:?}");
        }
        for name in [".services.json.spare", ".token.1-2-3.tmp", "services.json.damaged-1"] {
            assert!(Home::keeps(name), "{name}");
        }
        for name in ["proctor.yaml", "tokens", "token.rs", "src", ".env", "audits", "logs.txt", ""]
        {
            assert!(!Home::keeps(name), "{name}");
        }
    }

    #[test]
    fn only_a_home_that_was_named_has_to_be_named_again() {
        let var = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| PathBuf::from("/run/user/7"));
        let named = Home::locate(Some(Path::new("/srv/p")), 7, &var).unwrap();
        assert_eq!(named.explicit(), Some(Path::new("/srv/p")));
        let root = Home::locate(None, 0, &var).unwrap();
        assert_eq!(root.explicit(), None);
    }
}
