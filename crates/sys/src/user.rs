//! Looks up users and groups by name or number.
//!
//! The files come first; unknown names are looked up in the machine's directory service.

use crate::getent;
use proctor_core::spec::Credentials;
use rustix::thread::CapabilitySet;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    #[error("there is no user '{0}'")]
    User(String),
    #[error("there is no group '{0}'")]
    Group(String),
    #[error("user {0} has no entry that names a group: write '{0}:GROUP'")]
    NoGroup(u32),
}

/// An account that a process can run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub credentials: Credentials,
    /// Whether groups were requested besides those of the user.
    pub has_more_groups: bool,
    /// `HOME`, `USER`, `LOGNAME` and `SHELL`, as a login sets them.
    pub variables: [(String, String); 4],
}

/// The account of `user`: its group (or `group` instead), and its groups with `supplementary`
/// added.
pub fn account(
    user: &str,
    group: Option<&str>,
    supplementary: &[String],
) -> Result<Account, Unknown> {
    Database::of_this_machine().account(user, group, supplementary)
}

/// Returns true if this process may start others as another user: root with its capabilities.
pub fn may_change() -> bool {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    match rustix::thread::capabilities(None) {
        Ok(sets) => sets.effective.contains(needed),
        Err(_) => effective().0 == 0,
    }
}

/// The effective user and group of this process.
pub fn effective() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// `user ann (uid 1000)`; with the name only if the files contain it.
pub fn shown_user(uid: u32) -> String {
    match Database::of_this_machine().local_user(uid) {
        Some(user) => format!("user {} (uid {uid})", user.name),
        None => format!("user {uid}"),
    }
}

/// `group staff (gid 50)`; with the name only if the files contain it.
pub fn shown_group(gid: u32) -> String {
    let database = Database::of_this_machine();
    match database.local_group(gid) {
        Some(group) => format!("group {} (gid {gid})", group.name),
        None => format!("group {gid}"),
    }
}

/// Returns true if only the user is in the group: the private group that most systems create for
/// each user. For users that the files do not contain, the group of the same number counts.
pub fn is_private_group(gid: u32, uid: u32) -> bool {
    Database::of_this_machine().is_private_group(gid, uid)
}

/// The source of names; tests bring their own.
struct Database<'a> {
    passwd: String,
    group: String,
    /// Runs a program of the directory service and returns its output if it succeeds.
    ask: &'a dyn Fn(&str, &[&str]) -> Option<String>,
}

struct User {
    name: String,
    uid: u32,
    gid: u32,
    home: String,
    shell: String,
}

impl User {
    fn variables(self) -> [(String, String); 4] {
        let or = |text: String, otherwise: &str| match text.is_empty() {
            true => otherwise.to_owned(),
            false => text,
        };
        [
            ("HOME".into(), or(self.home, "/")),
            ("USER".into(), self.name.clone()),
            ("LOGNAME".into(), self.name),
            ("SHELL".into(), or(self.shell, "/bin/sh")),
        ]
    }
}

impl Database<'_> {
    fn of_this_machine() -> Database<'static> {
        let read = |path| {
            let bytes = std::fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Database { passwd: read("/etc/passwd"), group: read("/etc/group"), ask: &getent::ask }
    }

    fn account(
        &self,
        user: &str,
        group: Option<&str>,
        supplementary: &[String],
    ) -> Result<Account, Unknown> {
        let entry = self.user(user);
        let uid = match (&entry, user.parse()) {
            (Some(entry), _) => entry.uid,
            (None, Ok(number)) => number,
            (None, Err(_)) => return Err(Unknown::User(user.into())),
        };
        let gid = match (group, &entry) {
            (Some(group), _) => self.group(group)?,
            (None, Some(entry)) => entry.gid,
            (None, None) => return Err(Unknown::NoGroup(uid)),
        };
        let mut groups = entry.as_ref().map(|entry| self.memberships(entry)).unwrap_or_default();
        groups.push(gid);
        for name in supplementary {
            groups.push(self.group(name)?);
        }
        groups.sort_unstable();
        groups.dedup();
        // A number without an entry has no name and no home folder.
        let bare =
            || User { name: uid.to_string(), uid, gid, home: String::new(), shell: String::new() };
        Ok(Account {
            credentials: Credentials { uid, gid, groups },
            has_more_groups: !supplementary.is_empty(),
            variables: entry.unwrap_or_else(bare).variables(),
        })
    }

    fn user(&self, name: &str) -> Option<User> {
        let matches =
            |user: &User| user.name == name || name.parse().is_ok_and(|uid: u32| uid == user.uid);
        self.passwd.lines().filter_map(user_entry).find(matches).or_else(|| {
            let answer = (self.ask)("getent", &["passwd", "--", name])?;
            answer.lines().find_map(user_entry)
        })
    }

    fn local_user(&self, uid: u32) -> Option<User> {
        self.passwd.lines().filter_map(user_entry).find(|user| user.uid == uid)
    }

    fn local_group(&self, gid: u32) -> Option<Group<'_>> {
        self.group.lines().filter_map(group_entry).find(|group| group.gid == gid)
    }

    fn is_private_group(&self, gid: u32, uid: u32) -> bool {
        let Some(user) = self.local_user(uid) else { return gid == uid };
        let others = |entry: &User| entry.gid == gid && entry.uid != uid;
        let of_others = self.passwd.lines().filter_map(user_entry).any(|entry| others(&entry));
        let listed = self.local_group(gid).is_some_and(|group| {
            let mut members = group.members.split(',').filter(|member| !member.is_empty());
            members.any(|member| member != user.name)
        });
        user.gid == gid && !listed && !of_others
    }

    /// A group's number; a number need not have a name.
    fn group(&self, name: &str) -> Result<u32, Unknown> {
        let find = |text: &str| {
            text.lines().filter_map(group_entry).find(|group| group.name == name).map(|g| g.gid)
        };
        if let Some(gid) = find(&self.group).or_else(|| name.parse().ok()) {
            return Ok(gid);
        }
        let answer = (self.ask)("getent", &["group", "--", name]);
        answer.and_then(|text| find(&text)).ok_or_else(|| Unknown::Group(name.into()))
    }

    /// The groups that list the user: from the file for a user of the file, otherwise from the
    /// directory.
    fn memberships(&self, user: &User) -> Vec<u32> {
        let local = self.passwd.lines().filter_map(user_entry).any(|entry| entry.name == user.name);
        if !local && let Some(answer) = (self.ask)("id", &["-G", "--", &user.name]) {
            return answer.split_ascii_whitespace().filter_map(|gid| gid.parse().ok()).collect();
        }
        let lists = |group: &Group<'_>| group.members.split(',').any(|member| member == user.name);
        self.group.lines().filter_map(group_entry).filter(lists).map(|group| group.gid).collect()
    }
}

struct Group<'a> {
    name: &'a str,
    gid: u32,
    members: &'a str,
}

/// `name:password:uid:gid:comment:home:shell`
fn user_entry(line: &str) -> Option<User> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| !name.is_empty() && !name.starts_with('#'))?;
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    let home = fields.nth(1).unwrap_or("").to_owned();
    let shell = fields.next().unwrap_or("").to_owned();
    Some(User { name: name.to_owned(), uid, gid, home, shell })
}

/// `name:password:gid:member,member`
fn group_entry(line: &str) -> Option<Group<'_>> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| !name.is_empty() && !name.starts_with('#'))?;
    let gid = fields.nth(1)?.parse().ok()?;
    Some(Group { name, gid, members: fields.next().unwrap_or("") })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/:/bin/sh\n# comment:x:5:5\nbroken\n\
                          ann:x:1000:100:Ann:/home/ann:/bin/zsh\n1000x:x:7:8::/:/bin/sh\n\
                          bare:x:9:9\n";
    const GROUP: &str = "root:x:0:\nusers:x:100:\ndocker:x:50:bob,ann\naudio:x:60:annette\n";

    fn fake(program: &str, arguments: &[&str]) -> Option<String> {
        match (program, arguments) {
            ("getent", ["passwd", "--", "dora"]) => {
                Some("dora:*:7000:7001::/far/dora:/bin/ksh\n".into())
            }
            ("getent", ["group", "--", "remote"]) => Some("remote:*:7002:dora\n".into()),
            ("id", ["-G", "--", "dora"]) => Some("7001 7002\n".into()),
            _ => None,
        }
    }

    fn check(
        user: &str,
        group: Option<&str>,
        supplementary: &[&str],
        expected: Result<(u32, u32, &[u32]), Unknown>,
    ) {
        let database = Database { passwd: PASSWD.into(), group: GROUP.into(), ask: &fake };
        let names: Vec<String> = supplementary.iter().map(|name| (*name).to_owned()).collect();
        let found = database.account(user, group, &names).map(|account| account.credentials);
        let expected =
            expected.map(|(uid, gid, groups)| Credentials { uid, gid, groups: groups.to_vec() });
        assert_eq!(found, expected, "{user}:{group:?} with {supplementary:?}");
    }

    #[test]
    fn names_and_numbers_become_credentials() {
        check("ann", None, &[], Ok((1000, 100, &[50, 100])));
        check("1000", None, &[], Ok((1000, 100, &[50, 100])));
        check("ann", Some("audio"), &[], Ok((1000, 60, &[50, 60])));
        check("ann", Some("4242"), &["audio", "9"], Ok((1000, 4242, &[9, 50, 60, 4242])));
        check("root", None, &[], Ok((0, 0, &[0])));
        check("12345", Some("users"), &[], Ok((12345, 100, &[100])));
        check("1000x", None, &[], Ok((7, 8, &[8])));
    }

    #[test]
    fn an_account_has_the_variables_of_a_login() {
        for (user, group, expected) in [
            ("ann", None, ["/home/ann", "ann", "ann", "/bin/zsh"]),
            ("bare", None, ["/", "bare", "bare", "/bin/sh"]),
            ("12345", Some("users"), ["/", "12345", "12345", "/bin/sh"]),
            ("dora", None, ["/far/dora", "dora", "dora", "/bin/ksh"]),
        ] {
            let database = Database { passwd: PASSWD.into(), group: GROUP.into(), ask: &fake };
            let variables = database.account(user, group, &[]).unwrap().variables;
            let names = ["HOME", "USER", "LOGNAME", "SHELL"].map(str::to_owned);
            let pairs = names.into_iter().zip(expected.map(str::to_owned));
            assert_eq!(variables.to_vec(), pairs.collect::<Vec<_>>(), "{user}");
        }
    }

    #[test]
    fn a_directory_knows_what_the_files_do_not() {
        check("dora", None, &[], Ok((7000, 7001, &[7001, 7002])));
        check("ann", Some("remote"), &[], Ok((1000, 7002, &[50, 7002])));
    }

    #[test]
    fn what_nobody_knows_is_named() {
        check("nobody-here", None, &[], Err(Unknown::User("nobody-here".into())));
        check("# comment", None, &[], Err(Unknown::User("# comment".into())));
        check("ann", Some("nogroup-here"), &[], Err(Unknown::Group("nogroup-here".into())));
        check("ann", None, &["no"], Err(Unknown::Group("no".into())));
        check("12345", None, &[], Err(Unknown::NoGroup(12345)));
        check("-1", None, &[], Err(Unknown::User("-1".into())));
    }

    #[test]
    fn a_private_group_has_one_member() {
        let passwd = "root:x:0:0::/:\nann:x:1000:1000::/:\nbob:x:1001:100::/:\neve:x:1002:100::/:\n\
                      dan:x:1003:1003::/:\n";
        let group = "root:x:0:\nann:x:1000:\nusers:x:100:\ndan:x:1003:dan,eve\n";
        let database = Database { passwd: passwd.into(), group: group.into(), ask: &fake };
        for (gid, uid, expected) in [
            (0, 0, true),
            (1000, 1000, true),
            (1000, 1001, false),
            (100, 1001, false),
            (1003, 1003, false),
            (5000, 5000, true),
            (5001, 5000, false),
        ] {
            assert_eq!(database.is_private_group(gid, uid), expected, "{gid} of {uid}");
        }
    }
}
