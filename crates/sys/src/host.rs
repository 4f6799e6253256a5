//! Resolves host names: `/etc/hosts` first, then `getent`.

use crate::getent;
use std::net::IpAddr;

/// Returns no address for an unknown name. May take seconds.
pub fn addresses(name: &str) -> Vec<IpAddr> {
    let hosts = std::fs::read("/etc/hosts").unwrap_or_default();
    find(name, &String::from_utf8_lossy(&hosts), &getent::ask)
}

fn find(name: &str, hosts: &str, ask: &dyn Fn(&str, &[&str]) -> Option<String>) -> Vec<IpAddr> {
    let found = listed(name, hosts);
    if !found.is_empty() {
        return found;
    }
    let answer = ask("getent", &["ahosts", "--", name]).unwrap_or_default();
    let mut found = Vec::new();
    // One line for each address and socket type.
    for address in answer.lines().filter_map(address) {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    found
}

/// `address name name … # comment`
fn listed(name: &str, hosts: &str) -> Vec<IpAddr> {
    let lines = hosts.lines().map(|line| line.split('#').next().unwrap_or(line));
    let names_it = |line: &&str| {
        line.split_ascii_whitespace().skip(1).any(|word| word.eq_ignore_ascii_case(name))
    };
    lines.filter(names_it).filter_map(address).collect()
}

/// The first word of a line.
fn address(line: &str) -> Option<IpAddr> {
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTS: &str =
        "127.0.0.1 localhost\n10.0.0.7\tdb DB.lan # mail\nfd00::7 db\nbroken db\n#10.0.0.9 old\n";

    fn fake(program: &str, arguments: &[&str]) -> Option<String> {
        match (program, arguments) {
            ("getent", ["ahosts", "--", "far"]) => {
                Some("fd00::8 STREAM far\nfd00::8 DGRAM \n10.0.0.8 STREAM\n10.0.0.8 RAW\n".into())
            }
            _ => None,
        }
    }

    #[test]
    fn the_file_comes_before_the_directory() {
        for (name, expected) in [
            ("db", &["10.0.0.7", "fd00::7"][..]),
            ("db.LAN", &["10.0.0.7"]),
            ("far", &["fd00::8", "10.0.0.8"]),
            ("mail", &[]),
            ("old", &[]),
            ("--help", &[]),
        ] {
            let expected: Vec<IpAddr> = expected.iter().map(|text| text.parse().unwrap()).collect();
            assert_eq!(find(name, HOSTS, &fake), expected, "{name}");
        }
    }

    #[test]
    fn this_machine_knows_localhost_and_not_what_is_reserved_for_nothing() {
        assert!(addresses("localhost").iter().all(IpAddr::is_loopback));
        assert!(!addresses("localhost").is_empty());
        assert_eq!(addresses("no-such-host.invalid"), Vec::<IpAddr>::new());
    }
}
