//! "Did you mean …?": the nearest key to one that does not exist.

/// Words from other supervisors and from habit that no spelling distance would find.
const SYNONYMS: &[(&str, &str)] = &[
    ("cmd", "command"),
    ("exec", "command"),
    ("script", "command"),
    ("run", "command"),
    ("entrypoint", "command"),
    ("cwd", "working_dir"),
    ("dir", "working_dir"),
    ("directory", "working_dir"),
    ("workdir", "working_dir"),
    ("environment", "env"),
    ("arguments", "args"),
    ("numprocs", "instances"),
    ("replicas", "instances"),
    ("scale", "instances"),
    ("autorestart", "restart_policy"),
    ("policy", "restart_policy"),
    ("startretries", "max_restarts"),
    ("stopsignal", "stop"),
    ("stop_signal", "stop"),
    ("kill_signal", "stop"),
    ("stopwaitsecs", "stop"),
    ("stop_timeout", "stop"),
    ("kill_timeout", "stop"),
    ("stop_grace_period", "stop"),
    ("exitcodes", "success_exit_codes"),
    ("priority", "nice"),
    ("rlimits", "limits"),
    ("ulimits", "limits"),
    ("healthcheck", "health_check_url"),
    ("group", "groups"),
    ("programs", "services"),
    ("processes", "services"),
    ("apps", "services"),
    ("timeout", "grace"),
];

/// Longer words are not misspelt keys, and comparing them costs time.
const MAX_WORD: usize = 40;

/// Minimum likeness (0 to 1); below it a suggestion only confuses.
const ALIKE: f64 = 0.84;

/// Returns the name that `word` was probably meant to be.
pub(in super::super) fn nearest<'a>(
    word: &str,
    names: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    if word.len() > MAX_WORD {
        return None;
    }
    let word = word.to_ascii_lowercase().replace('-', "_");
    let likeness = |name: &str| {
        let synonyms = SYNONYMS.iter().filter(|(_, to)| *to == name).map(|(from, _)| *from);
        let spellings = std::iter::once(name).chain(synonyms);
        spellings.map(|it| strsim::jaro_winkler(&word, it)).fold(0.0, f64::max)
    };
    names
        .map(|name| (likeness(name), name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_and_words_of_others_find_their_key() {
        let names = || super::super::KEYS.iter().map(|key| key.name);
        let table = [
            ("comand", Some("command")),
            ("Command", Some("command")),
            ("working-dir", Some("working_dir")),
            ("workingDir", Some("working_dir")),
            ("cwd", Some("working_dir")),
            ("enviroment", Some("env")),
            ("environment", Some("env")),
            ("numprocs", Some("instances")),
            ("restart_polcy", Some("restart_policy")),
            ("maxrestarts", Some("max_restarts")),
            ("zzz", None),
            ("", None),
        ];
        for (word, want) in table {
            assert_eq!(nearest(word, names()), want, "{word}");
        }
        assert_eq!(nearest(&"command".repeat(100), names()), None);
    }
}
