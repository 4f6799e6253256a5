//! Names and numbers of signals, as Linux counts them.

const SIGNALS: &[(i32, &str)] = &[
    (1, "HUP"),
    (2, "INT"),
    (3, "QUIT"),
    (4, "ILL"),
    (5, "TRAP"),
    (6, "ABRT"),
    (7, "BUS"),
    (8, "FPE"),
    (9, "KILL"),
    (10, "USR1"),
    (11, "SEGV"),
    (12, "USR2"),
    (13, "PIPE"),
    (14, "ALRM"),
    (15, "TERM"),
    (16, "STKFLT"),
    (17, "CHLD"),
    (18, "CONT"),
    (19, "STOP"),
    (20, "TSTP"),
    (21, "TTIN"),
    (22, "TTOU"),
    (23, "URG"),
    (24, "XCPU"),
    (25, "XFSZ"),
    (26, "VTALRM"),
    (27, "PROF"),
    (28, "WINCH"),
    (29, "IO"),
    (30, "PWR"),
    (31, "SYS"),
];

/// Real-time signals that a program may use; the two below belong to the C library.
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;

/// `TERM`, `SIGTERM`, `term` or `15` → 15.
pub fn number(text: &str) -> Option<i32> {
    if let Ok(number) = text.parse::<i32>() {
        let known = SIGNALS.iter().any(|(it, _)| *it == number) || REAL_TIME.contains(&number);
        return known.then_some(number);
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    SIGNALS.iter().find(|(_, known)| *known == name).map(|(number, _)| *number)
}

/// 15 → `TERM`; real-time signals have only numbers.
pub fn name(number: i32) -> Option<&'static str> {
    SIGNALS.iter().find(|(it, _)| *it == number).map(|(_, name)| *name)
}

/// 15 → `SIGTERM`, 40 → `SIG40`.
pub fn long_name(number: i32) -> String {
    name(number).map_or_else(|| format!("SIG{number}"), |name| format!("SIG{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_known_by_name_and_number() {
        for (text, want) in [
            ("TERM", Some(15)),
            ("SIGTERM", Some(15)),
            ("sigint", Some(2)),
            ("9", Some(9)),
            ("40", Some(40)),
            ("32", None),
            ("0", None),
            ("65", None),
            ("-1", None),
            ("TERMINATE", None),
            ("", None),
            ("SIG", None),
        ] {
            assert_eq!(number(text), want, "{text}");
        }
        assert_eq!(name(15), Some("TERM"));
        assert_eq!(name(40), None);
        assert_eq!((long_name(9), long_name(40)), ("SIGKILL".into(), "SIG40".into()));
    }
}
