//! `/proc/PID/stat`, in which the service controls one field: its name.

use proctor_sys::proc::{Stat, parse_stat};

/// The fields after the name in the seeds.
const FIELDS: &str =
    " S 7 42 42 0 -1 4194304 1 2 3 4 50 60 7 8 20 0 1 0 999 1000 55 18446744073709551615 1 1";

pub(crate) fn check(bytes: &[u8]) {
    let told = parse_stat(bytes);
    assert!(told.is_none() || bytes.contains(&b')'), "{told:?} was read where there is no name");
    let line = [b"42 (", bytes, b")", FIELDS.as_bytes()].concat();
    let stat = parse_stat(&line).expect("the fields are all there, whatever the name is");
    let Stat { state, ppid, session, user_ticks, start_ticks, rss_pages, .. } = stat;
    assert_eq!((state, ppid, session), (b'S', 7, 42), "the name moved the fields");
    assert_eq!((user_ticks, start_ticks, rss_pages), (50, 999, 55), "the name moved the fields");
    assert!(!stat.is_dead());
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let own = std::fs::read("/proc/self/stat").unwrap_or_default();
    let names = ["sh", "a) R 1 (b", "", ")", "((", "a b\nc"];
    let named = names.map(|name| format!("42 ({name}){FIELDS}").into_bytes());
    names.map(|name| name.as_bytes().to_vec()).into_iter().chain(named).chain([own]).collect()
}
