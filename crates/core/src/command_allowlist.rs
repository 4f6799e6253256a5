//! The words of `security.allowed_commands` and the operations each stands for.
//!
//! Operations are declared in `ops`; this list is what a configuration may name, and a test there compares the two.

/// A word known from the command line or the TCP port, and the operations it covers. An operation's
/// own name is a valid word too.
const WORDS: &[(&str, &[&str])] = &[
    ("up", &["service.up"]),
    ("down", &["service.down"]),
    ("start", &["service.start"]),
    ("stop", &["service.stop"]),
    ("restart", &["service.restart"]),
    ("custom-restart", &["service.custom_restart"]),
    ("list", &["service.list"]),
    ("status", &["service.status", "service.list", "daemon.status"]),
    ("logs", &["log.read"]),
    ("events", &["event.read"]),
    ("health", &["daemon.health"]),
    ("metrics", &["daemon.metrics"]),
    ("wait", &["service.wait"]),
    ("signal", &["service.signal"]),
    ("execute", &["command.execute"]),
    ("add", &["service.add"]),
    ("remove", &["service.remove"]),
    ("lease", &["service.lease"]),
    ("config", &["config.show"]),
    ("reload", &["config.reload"]),
    (
        "file",
        &[
            "file.read",
            "file.list",
            "file.find",
            "file.search",
            "file.write",
            "file.edit",
            "file.change",
            "file.apply_diff",
            "file.move",
            "file.delete",
            "file.make_folder",
            "file.undo",
            "file.history",
        ],
    ),
    ("change", &["change.check"]),
    (
        "git",
        &[
            "git.status",
            "git.diff",
            "git.log",
            "git.show",
            "git.blame",
            "git.add",
            "git.commit",
            "git.restore",
            "git.branch",
            "git.tag",
            "git.stash",
            "git.resolve",
        ],
    ),
    ("mode", &["mode.get", "mode.switch"]),
    ("operation", &["operation.list", "operation.status", "operation.cancel"]),
    ("audit", &["audit.read", "audit.verify"]),
    ("token", &["token.create", "token.list", "token.revoke", "token.path"]),
    ("daemon", &["daemon.status", "daemon.stop", "daemon.upgrade"]),
    ("shutdown", &["daemon.stop"]),
    ("upgrade", &["daemon.upgrade"]),
];

/// Returns the operations that a word covers.
pub fn operations(word: &str) -> Vec<&'static str> {
    let meant = WORDS.iter().find(|(name, _)| *name == word).map(|(_, meant)| meant.to_vec());
    let named = || all().find(|name| *name == word).map(|name| vec![name]);
    meant.or_else(named).unwrap_or_default()
}

/// Every valid word.
pub fn words() -> impl Iterator<Item = &'static str> {
    WORDS.iter().map(|(word, _)| *word).chain(all())
}

/// Every operation; some appear more than once.
pub fn all() -> impl Iterator<Item = &'static str> {
    WORDS.iter().flat_map(|(_, meant)| meant.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_means_operations_and_an_operation_means_itself() {
        assert_eq!(operations("restart"), ["service.restart"]);
        assert_eq!(operations("service.restart"), ["service.restart"]);
        assert_eq!(operations("status").len(), 3);
        assert_eq!(operations("dance"), [""; 0]);
        assert!(words().all(|word| !operations(word).is_empty()));
    }
}
