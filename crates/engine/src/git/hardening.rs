//! Disables the settings of a repository's configuration that could run programs.
//!
//! Settings from the environment take precedence over all files, including included ones. Names that a
//! repository invents (`filter.NAME.clean`) are read from it first and disabled one by one. An attribute that
//! names an unconfigured driver has no effect.

use super::configuration::Setting;
use std::ffi::OsString;

/// Maximum number of settings to disable: more than any real repository has.
const MAX_SETTINGS: usize = 2000;

/// A program that does nothing and fails.
const NOTHING: &str = "false";

/// For every repository: outputs are the same everywhere, and nothing keeps running afterwards.
const ALWAYS: &[(&str, &str)] = &[
    ("color.ui", "false"),
    ("i18n.logOutputEncoding", "UTF-8"),
    ("log.follow", "false"),
    ("log.showRoot", "true"),
    ("core.abbrev", "auto"),
    ("diff.orderFile", "/dev/null"),
    ("user.useConfigOnly", "true"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("status.submoduleSummary", "false"),
    ("diff.submodule", "short"),
    ("diff.ignoreSubmodules", "dirty"),
];

/// For untrusted repositories, whatever they configure.
const CLOSED: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.editor", ":"),
    ("sequence.editor", ":"),
    ("core.askPass", ""),
    ("core.sshCommand", NOTHING),
    ("core.alternateRefsCommand", NOTHING),
    ("credential.helper", ""),
    ("http.saveCookies", "false"),
    ("commit.template", "/dev/null"),
    ("diff.external", NOTHING),
    ("interactive.diffFilter", NOTHING),
    ("gc.recentObjectsHook", NOTHING),
    ("uploadpack.packObjectsHook", NOTHING),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("tag.forceSignAnnotated", "false"),
    ("log.showSignature", "false"),
    ("merge.verifySignatures", "false"),
    ("gpg.program", NOTHING),
    ("gpg.openpgp.program", NOTHING),
    ("gpg.x509.program", NOTHING),
    ("gpg.ssh.program", NOTHING),
    ("gpg.ssh.defaultKeyCommand", NOTHING),
];

/// The settings that override those of a repository.
#[derive(Debug, Clone)]
pub(super) struct HardenedSettings {
    pairs: Vec<(String, String)>,
    /// The configured filters.
    pub(super) filters: Vec<String>,
    /// A name and an address for commits are configured.
    pub(super) has_identity: bool,
    /// A merge strategy is configured. Git uses the first value, so it cannot be overridden.
    pub(super) has_strategy: bool,
    /// It configures its work tree, or may do so as long as its configuration is not known.
    pub(super) has_worktree: bool,
    /// It is configured as bare.
    pub(super) is_bare: bool,
}

impl HardenedSettings {
    pub(super) fn new(trusted: bool, protocols: &[String]) -> HardenedSettings {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let closed = if trusted { &[] } else { CLOSED };
        let mut pairs: Vec<_> = ALWAYS.iter().chain(closed).map(owned).collect();
        pairs.push(("protocol.allow".into(), "never".into()));
        let open = |name: &String| (format!("protocol.{name}.allow"), "always".to_owned());
        pairs.extend(protocols.iter().map(open));
        let filters = Vec::new();
        let (has_identity, has_strategy, has_worktree) = (false, false, true);
        let is_bare = false;
        HardenedSettings { pairs, filters, has_identity, has_strategy, has_worktree, is_bare }
    }

    /// Disables settings with invented names, from all that the repository and its owner configure.
    pub(super) fn close(&mut self, settings: &[Setting<'_>], trusted: bool) -> Result<(), String> {
        let mut identity = (false, false);
        for setting in settings {
            let Ok(name) = std::str::from_utf8(setting.name) else {
                // A setting can be disabled only by its exact name.
                match closing(&String::from_utf8_lossy(setting.name)) {
                    Some(_) => return Err("a name in its configuration is not UTF-8".into()),
                    None => continue,
                }
            };
            identity.0 |= name == "user.name" || name == "committer.name";
            identity.1 |= name == "user.email" || name == "committer.email";
            self.has_strategy |= name == "pull.twohead";
            if !trusted {
                self.close_one(name);
            }
            if self.pairs.len() > MAX_SETTINGS {
                return Err("its configuration names too many programs".into());
            }
        }
        self.has_identity = identity == (true, true);
        let bare = settings.iter().rfind(|setting| setting.name == b"core.bare");
        self.is_bare = bare.is_some_and(Setting::is_true);
        self.has_worktree = settings.iter().any(|setting| setting.name == b"core.worktree");
        Ok(())
    }

    fn close_one(&mut self, name: &str) {
        let Some(value) = closing(name) else { return };
        let driver = name.strip_prefix("filter.").and_then(|rest| rest.rsplit_once('.'));
        if let Some((driver, _)) = driver
            && !self.filters.iter().any(|known| known == driver)
        {
            self.filters.push(driver.to_owned());
            self.push(format!("filter.{driver}.required"), "false");
        }
        self.push(name.to_owned(), value);
    }

    /// Skips a setting that is already disabled. Invented names are case-sensitive.
    fn push(&mut self, key: String, value: &str) {
        if !self.pairs.iter().any(|(known, _)| *known == key) {
            self.pairs.push((key, value.to_owned()));
        }
    }

    /// Disables entering these submodules.
    pub(super) fn ignore_submodules(&mut self, names: impl Iterator<Item = String>) {
        self.pairs.extend(names.map(|name| (format!("submodule.{name}.ignore"), "dirty".into())));
    }

    /// In the form that git reads: `=` and dots in a name are safe there.
    pub(super) fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut all = vec![("GIT_CONFIG_COUNT".into(), self.pairs.len().to_string().into())];
        for (at, (key, value)) in self.pairs.iter().enumerate() {
            all.push((format!("GIT_CONFIG_KEY_{at}").into(), key.into()));
            all.push((format!("GIT_CONFIG_VALUE_{at}").into(), value.into()));
        }
        all
    }
}

/// The value that disables a setting with an invented name, if it needs disabling.
fn closing(name: &str) -> Option<&'static str> {
    let (section, rest) = name.split_once('.')?;
    // The name of an alias may contain any number of dots. Git has no such command of its own.
    if section == "alias" {
        return Some(NOTHING);
    }
    let (_, last) = rest.rsplit_once('.')?;
    match (section, last) {
        ("filter", "clean" | "smudge" | "process") | ("credential", "helper") => Some(""),
        ("submodule", "ignore") => Some("dirty"),
        ("submodule", "update") => Some("none"),
        // It writes to any file.
        ("http", "savecookies") => Some("false"),
        ("hook", "enabled") => Some("false"),
        ("remote", "uploadpack" | "receivepack" | "vcs") => Some(NOTHING),
        (_, "command" | "cmd" | "program" | "driver" | "textconv" | "helper") => Some(NOTHING),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::configuration;
    use super::*;

    /// Closes settings of one scope, without values.
    fn close(settings: &mut HardenedSettings, names: &[u8], trusted: bool) -> Result<(), String> {
        let mut listed = Vec::new();
        for name in names.split(|byte| *byte == b' ') {
            listed.extend_from_slice(&[b"local\0file:x\0", name, b"\0"].concat());
        }
        settings.close(&configuration::settings(&listed), trusted)
    }

    fn closed(names: &str) -> Vec<(String, String)> {
        let mut settings = HardenedSettings::new(false, &[]);
        let known = settings.pairs.len();
        close(&mut settings, names.as_bytes(), false).unwrap();
        settings.pairs.split_off(known)
    }

    #[test]
    fn every_name_that_runs_something_is_closed_and_no_other() {
        let check = |names: &str, expected: &[(&str, &str)]| {
            let found = closed(names);
            let found: Vec<(&str, &str)> =
                found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            assert_eq!(found, expected, "{names}");
        };
        check(
            "filter.a=b.c.clean filter.a=b.c.process",
            &[
                ("filter.a=b.c.required", "false"),
                ("filter.a=b.c.clean", ""),
                ("filter.a=b.c.process", ""),
            ],
        );
        check(
            "merge.A.driver merge.a.driver",
            &[("merge.A.driver", "false"), ("merge.a.driver", "false")],
        );
        check("filter..smudge", &[("filter..required", "false"), ("filter..smudge", "")]);
        check(
            "merge.x.driver diff.x.textconv",
            &[("merge.x.driver", "false"), ("diff.x.textconv", "false")],
        );
        check(
            "diff.x.command trailer.t.cmd gpg.new.program",
            &[
                ("diff.x.command", "false"),
                ("trailer.t.cmd", "false"),
                ("gpg.new.program", "false"),
            ],
        );
        check(
            "credential.https://x.y.helper hook.h.command http.https://x.y.savecookies",
            &[
                ("credential.https://x.y.helper", ""),
                ("hook.h.command", "false"),
                ("http.https://x.y.savecookies", "false"),
            ],
        );
        check(
            "submodule.s.update submodule.s.ignore remote.o.uploadpack",
            &[
                ("submodule.s.update", "none"),
                ("submodule.s.ignore", "dirty"),
                ("remote.o.uploadpack", "false"),
            ],
        );
        check(
            "alias.merge-evil alias.Two.parts.here",
            &[("alias.merge-evil", "false"), ("alias.Two.parts.here", "false")],
        );
        check("core.fsmonitor user.name remote.o.url branch.main.merge diff.x.xfuncname", &[]);
    }

    #[test]
    fn who_commits_is_known_by_two_names() {
        let identity = |names: &str| {
            let mut settings = HardenedSettings::new(true, &[]);
            close(&mut settings, names.as_bytes(), true).unwrap();
            settings.has_identity
        };
        assert!(identity("user.name user.email") && identity("user.email committer.name"));
        assert!(!identity("user.name") && !identity("user.email"));
    }

    #[test]
    fn a_configuration_without_end_is_refused() {
        let many: Vec<String> = (0..MAX_SETTINGS).map(|n| format!("filter.{n}.clean")).collect();
        let refused =
            |names: &[u8]| close(&mut HardenedSettings::new(false, &[]), names, false).is_err();
        assert!(refused(many.join(" ").as_bytes()));
        assert!(refused(b"filter.\xff.clean") && refused(b"alias.\xff.x"));
        assert!(!refused(b"user.\xff.x"));
    }
}
