//! The effective settings, packed. There are fifty for each service, most of them alike, and they are rarely
//! read. Unpacked they would take most of a daemon's memory.

use proctor_core::config::Setting;
use std::collections::HashMap;

/// Settings in which each word is stored once.
#[derive(Debug, Default)]
pub struct PackedSettings {
    words: Vec<Box<str>>,
    /// Four numbers for each setting: the word its key begins with (0: the same as before, else its number plus
    /// one), the word its key ends with, its value and its origin.
    numbers: Vec<u8>,
}

impl PackedSettings {
    pub(crate) fn pack(settings: &[Setting]) -> PackedSettings {
        let mut known = HashMap::new();
        let mut words: Vec<Box<str>> = Vec::new();
        let (mut numbers, mut before) = (Vec::new(), 0);
        for setting in settings {
            let mut number = |word| {
                *known.entry(word).or_insert_with(|| {
                    words.push(Box::from(word));
                    words.len() - 1
                })
            };
            let (service, rest) = parts(&setting.key);
            let begin = number(service) + 1;
            let changed = if begin == before { 0 } else { begin };
            before = begin;
            for n in [changed, number(rest), number(&setting.value), number(&setting.origin)] {
                push(&mut numbers, n);
            }
        }
        words.shrink_to_fit();
        numbers.shrink_to_fit();
        PackedSettings { words, numbers }
    }

    pub fn unpack(&self) -> Vec<Setting> {
        let word = |number: usize| &*self.words[number];
        let (mut left, mut settings, mut begin) = (self.numbers.as_slice(), Vec::new(), 0);
        while !left.is_empty() {
            let [changed, rest, value, origin] = [(); 4].map(|()| pop(&mut left));
            begin = if changed == 0 { begin } else { changed };
            settings.push(Setting {
                key: [word(begin - 1), word(rest)].concat(),
                value: word(value).to_owned(),
                origin: word(origin).to_owned(),
            });
        }
        settings
    }
}

/// Seven bits per byte, the last byte below 128: most numbers are small.
fn push(bytes: &mut Vec<u8>, mut number: usize) {
    while number >= 1 << 7 {
        bytes.push(number as u8 | 1 << 7);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn pop(bytes: &mut &[u8]) -> usize {
    let (mut number, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= usize::from(byte & 0x7f) << shift;
        if byte & 1 << 7 == 0 {
            break;
        }
        shift += 7;
    }
    number
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
        let packed = PackedSettings::pack(&settings);
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
