//! File locations of one Proctor. Pure: the caller passes in the user and the environment.

use crate::hash::fnv1a;
use crate::name::{RunId, ServiceName};
use std::path::{Path, PathBuf};

/// The state and runtime folders of one Proctor, and the file names in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// Survives a reboot: wishes, added services, logs.
    pub state: PathBuf,
    /// Valid for one boot: sockets, FIFOs, run records, lock.
    pub runtime: PathBuf,
}

/// The folders of one Proctor: the table that the checks of `sys::own_folder` and their tests go by. Folders inside of these,
/// such as `logs/NAME` and `services/NAME`, follow [`FolderRule::INNER`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnFolder {
    State,
    Runtime,
    Logs,
    Backups,
    Audit,
    Changes,
    Services,
    Environments,
    Commands,
    HeldIndexes,
    McpSessions,
}

/// Requirements for a folder of ours, and the remedy where it does not meet them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FolderRule {
    /// An operator may have made it a link of theirs to a folder of theirs: on a larger disk, for example.
    pub may_be_link: bool,
    /// Proctor can go on without it: what is in its place is moved aside.
    pub may_be_replaced: bool,
    /// Others may write into it: the folder may be somebody's project, and starting judges it by itself.
    pub keeps_mode: bool,
}

impl FolderRule {
    /// The folder that the user named.
    pub const HOME: FolderRule =
        FolderRule { may_be_link: true, may_be_replaced: false, keeps_mode: true };
    /// A folder that grows large.
    pub const LARGE: FolderRule =
        FolderRule { may_be_link: true, may_be_replaced: true, keeps_mode: false };
    /// Every other folder.
    pub const INNER: FolderRule =
        FolderRule { may_be_link: false, may_be_replaced: true, keeps_mode: false };
}

impl OwnFolder {
    /// Each before those in it.
    pub const ALL: [OwnFolder; 11] = [
        OwnFolder::State,
        OwnFolder::Runtime,
        OwnFolder::Logs,
        OwnFolder::Backups,
        OwnFolder::Audit,
        OwnFolder::Changes,
        OwnFolder::Services,
        OwnFolder::Environments,
        OwnFolder::Commands,
        OwnFolder::HeldIndexes,
        OwnFolder::McpSessions,
    ];

    pub const fn rule(self) -> FolderRule {
        match self {
            OwnFolder::State => FolderRule::HOME,
            OwnFolder::Logs | OwnFolder::Backups => FolderRule::LARGE,
            OwnFolder::Runtime
            | OwnFolder::Audit
            | OwnFolder::Changes
            | OwnFolder::Services
            | OwnFolder::Environments
            | OwnFolder::Commands
            | OwnFolder::HeldIndexes
            | OwnFolder::McpSessions => FolderRule::INNER,
        }
    }

    /// Whether a keeper needs it from its first moment; others are made when they are needed.
    pub fn is_made_at_start(self) -> bool {
        match self {
            OwnFolder::State
            | OwnFolder::Runtime
            | OwnFolder::Logs
            | OwnFolder::Services
            | OwnFolder::Environments => true,
            OwnFolder::Backups
            | OwnFolder::Audit
            | OwnFolder::Changes
            | OwnFolder::Commands
            | OwnFolder::HeldIndexes
            | OwnFolder::McpSessions => false,
        }
    }
}

/// Names that Proctor uses in its state folder. Some have temporary files beside them during a
/// write, or a damaged copy that was set aside.
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
    /// Whether a name in the state folder belongs to Proctor. The folder may also be somebody's
    /// project.
    pub fn keeps(name: &str) -> bool {
        let beside = |kept: &&str| {
            name.strip_prefix('.').is_some_and(|rest| rest.starts_with(&format!("{kept}.")))
                || (kept.ends_with(".json") && name.starts_with(&format!("{kept}.")))
                || name.starts_with(&format!("{kept}.damaged-"))
        };
        KEPT.iter().any(|kept| name == *kept || beside(kept))
    }

    /// `explicit` is `--home` or `PROCTOR_HOME`: everything is below one folder. Otherwise uses the
    /// folders of the XDG base directory specification, or the system's for root.
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

    /// The folder to pass as `--home` to select this home; `None` for the user's default home.
    pub fn explicit(&self) -> Option<&Path> {
        (self.runtime == self.state.join("run")).then_some(self.state.as_path())
    }

    /// A short name for this home among the Proctors of the machine: in cgroups and in marks.
    pub fn label(&self) -> String {
        use std::os::unix::ffi::OsStrExt;
        format!("{:016x}", fnv1a(self.state.as_os_str().as_bytes()))
    }

    /// The path of a folder of ours.
    pub fn folder(&self, folder: OwnFolder) -> PathBuf {
        let (state, runtime) = (&self.state, &self.runtime);
        match folder {
            OwnFolder::State => state.clone(),
            OwnFolder::Runtime => runtime.clone(),
            OwnFolder::Logs => state.join("logs"),
            OwnFolder::Backups => state.join("backups"),
            OwnFolder::Audit => state.join("audit"),
            OwnFolder::Changes => state.join("changes"),
            OwnFolder::Services => runtime.join("services"),
            OwnFolder::Environments => runtime.join("env"),
            OwnFolder::Commands => runtime.join("commands"),
            OwnFolder::HeldIndexes => runtime.join("indexes"),
            OwnFolder::McpSessions => runtime.join("mcp"),
        }
    }

    /// The socket that clients connect to.
    pub fn socket(&self) -> PathBuf {
        self.runtime.join("proctor.sock")
    }

    /// Locked by the running keeper; contains its pid.
    pub fn lock(&self) -> PathBuf {
        self.runtime.join("keeper.lock")
    }

    /// Locked by the running keeper as well, so that a second keeper cannot start after the runtime
    /// folder was deleted.
    pub fn state_lock(&self) -> PathBuf {
        self.state.join("keeper.lock")
    }

    /// The socket by which a new keeper reaches the guard of its predecessor.
    pub fn guard_socket(&self) -> PathBuf {
        self.runtime.join("guard.sock")
    }

    /// Run records, specs and FIFOs, one folder for each service.
    pub fn services(&self) -> PathBuf {
        self.folder(OwnFolder::Services)
    }

    pub fn service(&self, name: &ServiceName) -> PathBuf {
        self.services().join(name.as_str())
    }

    /// The FIFOs of a run's standard output and standard error.
    pub fn fifos(&self, name: &ServiceName, run: RunId) -> [PathBuf; 2] {
        let folder = self.service(name);
        [folder.join(format!("{run}.out")), folder.join(format!("{run}.err"))]
    }

    /// The FIFO that becomes the standard input of this service's next run, if a client offers one.
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

    /// Marks of the commands that requests run. A new daemon uses them to find commands that a
    /// killed one left.
    pub fn commands(&self) -> PathBuf {
        self.folder(OwnFolder::Commands)
    }

    /// Records of the git indexes that are locked for a commit. A new daemon uses them to release
    /// the locks of a killed one.
    pub fn held_indexes(&self) -> PathBuf {
        self.folder(OwnFolder::HeldIndexes)
    }

    /// Sessions of MCP over HTTP.
    pub fn mcp_sessions(&self) -> PathBuf {
        self.folder(OwnFolder::McpSessions)
    }

    /// Shared environments.
    pub fn environments(&self) -> PathBuf {
        self.folder(OwnFolder::Environments)
    }

    /// A copy of [`Home::services_json`] that could not be written yet.
    pub fn unsaved_services(&self) -> PathBuf {
        self.runtime.join("services.json")
    }

    /// Changes that could not be written to the audit yet.
    pub fn audit_owed(&self) -> PathBuf {
        self.runtime.join("audit.owed")
    }

    /// Wishes and services added at run time.
    pub fn services_json(&self) -> PathBuf {
        self.state.join("services.json")
    }

    /// The tokens, without their secrets.
    pub fn tokens_json(&self) -> PathBuf {
        self.state.join("tokens.json")
    }

    /// The folders whose configurations the owner trusts, whoever wrote them.
    pub fn trusted(&self) -> PathBuf {
        self.state.join("trusted")
    }

    /// The secret of the token created at the first start.
    pub fn first_token(&self) -> PathBuf {
        self.state.join("token")
    }

    /// The audit log.
    pub fn audit(&self) -> PathBuf {
        self.folder(OwnFolder::Audit)
    }

    /// The position of the last audit entry; reveals missing lines at the end of the audit.
    pub fn audit_head(&self) -> PathBuf {
        self.state.join("audit.head")
    }

    /// Previous contents of changed files.
    pub fn backups(&self) -> PathBuf {
        self.folder(OwnFolder::Backups)
    }

    /// Records of file changes in progress.
    pub fn changes(&self) -> PathBuf {
        self.folder(OwnFolder::Changes)
    }

    pub fn logs(&self) -> PathBuf {
        self.folder(OwnFolder::Logs)
    }

    pub fn log_dir(&self, name: &ServiceName) -> PathBuf {
        self.logs().join(name.as_str())
    }

    /// The log of the keeper and the daemon themselves.
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
        for name in [
            ".services.json.spare",
            ".token.1-2-3.tmp",
            "services.json.damaged-1",
            "logs.damaged-1",
        ] {
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
