//! The configuration of a repository and of its owner, as `git config --list --show-scope --show-origin -z`
//! lists it; and the files that it names.

use super::output_fields::{self, text};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Sections of settings that the commands we call read.
const LOOKED_AT: [&[u8]; 18] = [
    b"am",
    b"apply",
    b"attr",
    b"blame",
    b"branch",
    b"checkout",
    b"commit",
    b"core",
    b"diff",
    b"index",
    b"log",
    b"mailmap",
    b"merge",
    b"notes",
    b"rebase",
    b"stash",
    b"status",
    b"tag",
];

/// Sections that matter when git connects to others.
const FOR_CONNECTIONS: [&[u8]; 6] =
    [b"bundle", b"credential", b"fetch", b"http", b"remote", b"transfer"];

/// Suffixes of settings that name a file or a folder. Git marks them in no other way, and a later git may have
/// more.
const NAMES_A_FILE: [&[u8]; 13] = [
    b"file",
    b"path",
    b"dir",
    b"directory",
    b"template",
    b"skiplist",
    b"cainfo",
    b"capath",
    b"cert",
    b"sslkey",
    b"pubkey",
    b"bundleuri",
    b"sslcrl",
];

/// Settings with such a suffix that are overridden or disabled by an option anyway.
const CLOSED_OTHERWISE: [&[u8]; 4] =
    [b"blame.ignorerevsfile", b"commit.template", b"core.hookspath", b"diff.orderfile"];

/// Programs at the other end of a connection. Git uses the first value, so they cannot be overridden.
const OTHER_ENDS: [&[u8]; 2] = [b".uploadpack", b".receivepack"];

/// Files that git reads to their end for any command.
const READ: [&[u8]; 3] = [b"core.attributesfile", b"core.excludesfile", b"mailmap.file"];

/// Files of the owner that git reads without a setting.
const USUAL: [&str; 3] = ["config", "ignore", "attributes"];

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Setting<'a> {
    /// It belongs to the owner, not to the repository.
    pub(super) owners: bool,
    /// Relative to the work tree; `None` for a setting of the call.
    file: Option<&'a Path>,
    /// In lower case, except for invented names.
    pub(super) name: &'a [u8],
    /// `None`: a setting without a value, which means true.
    value: Option<&'a [u8]>,
}

/// The base of a relative path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Base<'a> {
    pub(super) top: &'a Path,
    pub(super) home: Option<&'a Path>,
}

pub(super) fn settings(listed: &[u8]) -> Vec<Setting<'_>> {
    output_fields::groups::<3>(listed).into_iter().map(Setting::new).collect()
}

impl<'a> Setting<'a> {
    fn new([scope, origin, line]: [&'a [u8]; 3]) -> Setting<'a> {
        let end = line.iter().position(|byte| *byte == b'\n');
        let (name, value) = end.map_or((line, None), |at| (&line[..at], Some(&line[at + 1..])));
        let owners = matches!(scope, b"system" | b"global" | b"command");
        let file = origin.strip_prefix(b"file:").map(path);
        Setting { owners, file, name, value }
    }

    /// Returns true if git reads the value as true.
    pub(super) fn is_true(&self) -> bool {
        let Some(value) = self.value else { return true };
        let words = [&b"true"[..], b"yes", b"on"];
        let number = std::str::from_utf8(value).ok().and_then(|text| text.parse::<i64>().ok());
        words.iter().any(|word| value.eq_ignore_ascii_case(word))
            || number.is_some_and(|it| it != 0)
    }

    /// Returns true if it names a file that git reads as more configuration.
    pub(super) fn includes(&self) -> bool {
        let (first, last) = (b"includeif.", b".path");
        self.name == b"include.path" || (self.name.starts_with(first) && self.name.ends_with(last))
    }

    /// The file that git reads for it, if any; an error if git's interpretation is not known.
    pub(super) fn reads(&self, base: Base<'_>) -> Result<Option<PathBuf>, String> {
        match self.includes() || READ.contains(&self.name) {
            true => self.path(base),
            false => Ok(None),
        }
    }

    /// The file that it names, if a command we call may read it. It is recognised by the name of the setting,
    /// not by a list of those known today.
    pub(super) fn may_read(
        &self,
        base: Base<'_>,
        connects: bool,
    ) -> Result<Option<PathBuf>, String> {
        let section = self.name.split(|byte| *byte == b'.').next().unwrap_or_default();
        let counts =
            LOOKED_AT.contains(&section) || (connects && FOR_CONNECTIONS.contains(&section));
        let named = NAMES_A_FILE.iter().any(|end| self.name.ends_with(end));
        match counts && named && !CLOSED_OTHERWISE.contains(&self.name) {
            true => self.path(base),
            false => self.reads(base),
        }
    }

    /// Returns true if it names a program that git runs for a connection.
    pub(super) fn is_other_end(&self) -> bool {
        self.name.starts_with(b"remote.") && OTHER_ENDS.iter().any(|end| self.name.ends_with(end))
    }

    fn path(&self, base: Base<'_>) -> Result<Option<PathBuf>, String> {
        let (includes, value) = (self.includes(), self.value.unwrap_or_default());
        if value.is_empty() {
            return Ok(None);
        }
        let odd = [&b"~"[..], b"%(", b":("].iter().any(|odd| value.starts_with(odd));
        let in_home = value.strip_prefix(b"~/").zip(base.home);
        let beside = self.file.filter(|_| includes).and_then(Path::parent);
        let begins = base.top.join(beside.unwrap_or(Path::new("")));
        match in_home {
            Some((rest, home)) => Ok(Some(home.join(path(rest)))),
            None if odd => Err(format!("its {} is '{}'", text(self.name), text(value))),
            None => Ok(Some(begins.join(path(value)))),
        }
    }
}

/// The files of the owner that git reads, and the names of settings that only git can interpret.
pub(super) fn of_owner(
    listed: &[u8],
    base: Base<'_>,
    configured: Option<&Path>,
) -> (Vec<PathBuf>, Vec<String>) {
    let usual = base.home.map(|home| home.join(".config"));
    let folders = [configured.map(Path::to_owned), usual].into_iter().flatten();
    let mut files: Vec<PathBuf> =
        folders.flat_map(|folder| USUAL.map(|name| folder.join("git").join(name))).collect();
    files.extend(base.home.map(|home| home.join(".gitconfig")));
    let mut odd = Vec::new();
    for setting in settings(listed).iter().filter(|setting| setting.owners) {
        files.extend(setting.file.filter(|file| file.is_absolute()).map(Path::to_owned));
        match setting.reads(base) {
            Ok(file) => files.extend(file),
            Err(_) => odd.push(text(setting.name)),
        }
    }
    files.sort();
    files.dedup();
    odd.sort();
    odd.dedup();
    (files, odd)
}

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Base<'static> {
        Base { top: Path::new("/top"), home: Some(Path::new("/home/me")) }
    }

    fn listed(lines: &[(&str, &str, &str)]) -> Vec<u8> {
        let line = |(scope, file, line): &(&str, &str, &str)| format!("{scope}\0{file}\0{line}\0");
        lines.iter().map(line).collect::<String>().into_bytes()
    }

    #[test]
    fn files_that_are_read_are_known_by_what_names_them() {
        let check = |origin: &str, line: &str, expected: Result<Option<&str>, ()>| {
            let listed = listed(&[("local", origin, line)]);
            let found = settings(&listed)[0].reads(base()).map_err(|_| ());
            assert_eq!(found, expected.map(|path| path.map(PathBuf::from)), "{line}");
        };
        let own = "file:.git/config";
        check(own, "include.path\nmore", Ok(Some("/top/.git/more")));
        check(own, "include.path\n/etc/x", Ok(Some("/etc/x")));
        check("file:/a/b", "includeif.gitdir:/x/.path\n../c", Ok(Some("/a/../c")));
        check(own, "core.excludesfile\nmine", Ok(Some("/top/mine")));
        check(own, "mailmap.file\n~/mine", Ok(Some("/home/me/mine")));
        check(own, "core.attributesfile", Ok(None));
        check(own, "core.attributesfile\n", Ok(None));
        check(own, "x.excludesfile\nmine", Ok(None));
        for odd in ["~root/x", "~", "%(prefix)/x", ":(optional)/x"] {
            check(own, &format!("include.path\n{odd}"), Err(()));
        }
    }

    #[test]
    fn a_setting_that_may_name_a_file_is_known_by_its_name() {
        let check = |line: &str, connects: bool, expected: Option<&str>| {
            let listed = listed(&[("local", "file:.git/config", line)]);
            let found = settings(&listed)[0].may_read(base(), connects).unwrap();
            assert_eq!(found, expected.map(PathBuf::from), "{line}");
        };
        // Known today, and in the future.
        for name in ["core.attributesfile", "mailmap.file", "log.somefile", "core.newskiplist"] {
            check(&format!("{name}\n/etc/x"), false, Some("/etc/x"));
        }
        for name in ["http.cookiefile", "http.https://a.b.sslcert", "fetch.fsck.skiplist"] {
            check(&format!("{name}\n/etc/x"), false, None);
            check(&format!("{name}\n/etc/x"), true, Some("/etc/x"));
        }
        let others = ["core.hookspath", "commit.template", "user.signingkey", "difftool.x.path"];
        for name in others.into_iter().chain(["lfs.somefile", "core.bigfilethreshold"]) {
            check(&format!("{name}\n/etc/x"), true, None);
        }
        check("core.quotepath\nfalse", false, Some("/top/false"));
        for (line, expected) in [("remote.o.uploadpack\nx", true), ("uploadpack.x\nx", false)] {
            let listed = listed(&[("local", "file:.git/config", line)]);
            assert_eq!(settings(&listed)[0].is_other_end(), expected, "{line}");
        }
    }

    #[test]
    fn a_setting_says_yes_as_git_reads_it() {
        for (line, expected) in [
            ("core.bare", true),
            ("core.bare\n", false),
            ("core.bare\nTrue", true),
            ("core.bare\non", true),
            ("core.bare\n1", true),
            ("core.bare\n0", false),
            ("core.bare\nfalse", false),
        ] {
            let listed = listed(&[("local", "file:x", line)]);
            assert_eq!(settings(&listed)[0].is_true(), expected, "{line}");
        }
    }

    #[test]
    fn what_belongs_to_the_owner_is_read_and_nothing_of_the_repository() {
        let listed = listed(&[
            ("global", "file:/home/me/.gitconfig", "include.path\ndots/git"),
            ("global", "file:/home/me/dots/git", "core.excludesfile\n~/dots/ignored"),
            ("command", "command line:", "core.editor\n:"),
            ("local", "file:/top/.git/config", "include.path\n/etc/shadow"),
            ("global", "file:/home/me/.gitconfig", "safe.directory\n/"),
            ("global", "file:/home/me/.gitconfig", "mailmap.file\n~you/map"),
        ]);
        let (files, odd) = of_owner(&listed, base(), None);
        assert_eq!(odd, ["mailmap.file"]);
        let usual = USUAL.map(|name| format!("/home/me/.config/git/{name}"));
        let named = ["/home/me/.gitconfig", "/home/me/dots/git", "/home/me/dots/ignored"];
        let mut expected: Vec<PathBuf> =
            usual.into_iter().chain(named.map(str::to_owned)).map(PathBuf::from).collect();
        expected.sort();
        assert_eq!(files, expected);
    }
}
