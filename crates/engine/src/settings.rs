//! The settings in force, packed. There are fifty for each service, most of them alike, and hardly anybody ever asks: as they
//! come they would be most of a daemon's memory.

use proctor_core::config::Setting;
use std::collections::HashMap;

/// Settings of which each word is kept once.
#[derive(Debug, Default)]
pub struct Settings {
    words: Vec<Box<str>>,
    rows: Vec<Row>,
}

/// Numbers of words. A key is two of them, because its end is the same in every service.
#[derive(Debug)]
struct Row {
    key: [u32; 2],
    value: u32,
    origin: u32,
}

impl Settings {
    pub(crate) fn pack(settings: &[Setting]) -> Settings {
        let mut known = HashMap::new();
        let mut words: Vec<Box<str>> = Vec::new();
        let mut rows = Vec::with_capacity(settings.len());
        for setting in settings {
            let mut number = |word| {
                *known.entry(word).or_insert_with(|| {
                    words.push(Box::from(word));
                    // More words than that would not fit into a configuration.
                    u32::try_from(words.len() - 1).expect("a configuration is at most a mebibyte")
                })
            };
            let (service, rest) = parts(&setting.key);
            let key = [number(service), number(rest)];
            rows.push(Row { key, value: number(&setting.value), origin: number(&setting.origin) });
        }
        words.shrink_to_fit();
        Settings { words, rows }
    }

    pub fn unpack(&self) -> Vec<Setting> {
        let word = |number: u32| &*self.words[number as usize];
        let setting = |row: &Row| Setting {
            key: row.key.map(word).concat(),
            value: word(row.value).to_owned(),
            origin: word(row.origin).to_owned(),
        };
        self.rows.iter().map(setting).collect()
    }
}

/// `services.web` and `.restart.delay`.
fn parts(key: &str) -> (&str, &str) {
    let at = key.match_indices('.').nth(1).map_or(0, |(at, _)| at);
    key.split_at(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_out_as_they_went_in_and_each_word_is_kept_once() {
        let keys = [
            "supervisor.enabled",
            "x",
            "services.a.b.port",
            "services.a.b.user",
            "services.c.user",
        ];
        let setting = |key: &str| Setting {
            key: key.to_owned(),
            value: "\"x\"".to_owned(),
            origin: "default".to_owned(),
        };
        let settings: Vec<Setting> = keys.into_iter().map(setting).collect();
        let packed = Settings::pack(&settings);
        assert_eq!(packed.unpack(), settings);
        let mut words: Vec<&str> = packed.words.iter().map(|word| &**word).collect();
        words.sort_unstable();
        assert_eq!(
            words,
            [
                "",
                "\"x\"",
                ".b.port",
                ".b.user",
                ".user",
                "default",
                "services.a",
                "services.c",
                "supervisor.enabled",
                "x"
            ]
        );
    }
}
