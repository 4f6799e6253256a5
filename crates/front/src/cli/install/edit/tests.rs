//! Tests with texts as people keep them, then with generated ones.

use super::*;
use crate::cli::install::jsonc;
use proptest::prelude::*;
use serde_json::json;

const PATH: &[&str] = &["mcpServers", "proctor"];

/// Adds `{"command": "p", "args": ["mcp"]}`, and removes it again.
#[track_caller]
fn check(text: &str, expected: &str) {
    let entry = json!({"command": "p", "args": ["mcp"]});
    let written = set(text, PATH, &entry).unwrap();
    assert_eq!(written, expected, "\n{text}");
    assert_eq!(set(&written, PATH, &entry).unwrap(), written, "twice");
    assert_eq!(get(&written, PATH).unwrap(), Some(entry));
    let without = remove(&written, PATH).unwrap();
    assert_eq!(get(&without, PATH).unwrap(), None, "{without}");
}

#[test]
fn a_new_file_is_written_as_editors_write_it() {
    let whole = "{\n  \"mcpServers\": {\n    \"proctor\": {\n      \"command\": \"p\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}\n";
    check("", whole);
    check("{}\n", whole);
    check("{\n}\n", whole);
    check("// mine\n", &format!("// mine\n{whole}"));
}

#[test]
fn a_member_is_added_as_the_others_are_written() {
    check(
        "{\n\t\"mcpServers\": {\n\t\t\"a\": {}\n\t},\n\t\"b\": 1\n}",
        "{\n\t\"mcpServers\": {\n\t\t\"a\": {},\n\t\t\"proctor\": {\n\t\t\t\"command\": \"p\",\n\t\t\t\"args\": [\"mcp\"]\n\t\t}\n\t},\n\t\"b\": 1\n}",
    );
    check(
        "{\r\n    \"b\": 1\r\n}\r\n",
        "{\r\n    \"b\": 1,\r\n    \"mcpServers\": {\r\n        \"proctor\": {\r\n            \"command\": \"p\",\r\n            \"args\": [\"mcp\"]\r\n        }\r\n    }\r\n}\r\n",
    );
    check(
        "{\n  \"mcpServers\": {}\n}",
        "{\n  \"mcpServers\": {\n    \"proctor\": {\n      \"command\": \"p\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}",
    );
    check(
        "{\n  \"mcpServers\": { \"a\": {} }\n}",
        "{\n  \"mcpServers\": { \"a\": {}, \"proctor\": { \"command\": \"p\", \"args\": [\"mcp\"] } }\n}",
    );
    check(
        "{\"a\":1,\"mcpServers\":{\"b\":{}}}",
        "{\"a\":1,\"mcpServers\":{\"b\":{}, \"proctor\": { \"command\": \"p\", \"args\": [\"mcp\"] }}}",
    );
}

#[test]
fn comments_and_commas_too_many_stay_where_they_are() {
    check(
        "// top\n{\n  \"mcpServers\": {\n    \"a\": {} // why a\n    // \"b\": {}\n  }, // end\n}\n",
        "// top\n{\n  \"mcpServers\": {\n    \"a\": {}, // why a\n    // \"b\": {}\n    \"proctor\": {\n      \"command\": \"p\",\n      \"args\": [\"mcp\"]\n    }\n  }, // end\n}\n",
    );
    check(
        "{\n  \"mcpServers\": {\n    \"a\": {},\n  },\n}\n",
        "{\n  \"mcpServers\": {\n    \"a\": {},\n    \"proctor\": {\n      \"command\": \"p\",\n      \"args\": [\"mcp\"]\n    },\n  },\n}\n",
    );
    check(
        "{\n  \"mcpServers\": {\n    // none yet\n  }\n}\n",
        "{\n  \"mcpServers\": {\n    // none yet\n    \"proctor\": {\n      \"command\": \"p\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}\n",
    );
}

#[test]
fn a_value_that_says_the_same_is_left_as_it_is_written() {
    let text =
        "{ \"mcpServers\": {\"proctor\":{\"args\" : [ \"mcp\", ], \"command\":\"\\u0070\"}} }";
    check(text, text);
}

#[test]
fn another_value_is_replaced_and_nothing_around_it() {
    check(
        "{\n  \"mcpServers\": {\n    \"proctor\": 1, // ours\n    \"a\": {}\n  }\n}",
        "{\n  \"mcpServers\": {\n    \"proctor\": {\n      \"command\": \"p\",\n      \"args\": [\"mcp\"]\n    }, // ours\n    \"a\": {}\n  }\n}",
    );
}

#[track_caller]
fn check_removed(text: &str, expected: &str) {
    assert_eq!(remove(text, &["proctor"]).unwrap(), expected, "{text}");
}

#[test]
fn a_member_is_taken_out_with_its_comma() {
    check_removed("{\"proctor\": 1}", "{}");
    check_removed("{\n  \"proctor\": 1,\n}", "{}");
    check_removed("{ \"proctor\": 1, \"a\": 2 }", "{ \"a\": 2 }");
    check_removed("{ \"a\": 2, \"proctor\": 1 }", "{ \"a\": 2 }");
    check_removed("{\n  \"a\": 2, // a\n  \"proctor\": 1\n}", "{\n  \"a\": 2 // a\n}");
    check_removed(
        "{\n  \"a\": 2,\n  \"proctor\": 1, // p\n  \"b\": 3\n}",
        "{\n  \"a\": 2, // p\n  \"b\": 3\n}",
    );
    check_removed("{ // c\n\"proctor\": 1 }", "{ // c\n }");
    check_removed("{ // c\n  \"proctor\": 1, \"a\": 2 }", "{ // c\n   \"a\": 2 }");
    check_removed("{ \"a\": 1 }", "{ \"a\": 1 }");
    check_removed("", "");
}

#[track_caller]
fn check_refused(text: &str, expected: &str) {
    let faults =
        [set(text, PATH, &json!({})).expect_err(text), remove(text, PATH).expect_err(text)];
    for fault in faults {
        assert_eq!(fault.told(text), expected, "{text}");
    }
}

#[test]
fn a_text_that_can_mean_two_things_is_refused() {
    check_refused("{\"a\": 1", "line 1, column 1: this { is not closed");
    check_refused("[]", "line 1, column 1: the document must be an object, in braces");
    check_refused(
        "{\"mcpServers\": []}",
        "line 1, column 16: mcpServers must be an object, in braces",
    );
    check_refused(
        "{\"mcpServers\": {}, \"mcpServers\": {}}",
        "line 1, column 20: mcpServers is a duplicate key",
    );
    check_refused(
        "{\"mcpServers\": {\"proctor\": 1,\n\"proctor\": 2}}",
        "line 2, column 1: proctor is a duplicate key",
    );
}

/// Generates objects that may have our member at any place and of any kind.
fn documents() -> impl Strategy<Value = Json> {
    let key = prop_oneof![
        Just("mcpServers".to_owned()),
        Just("proctor".to_owned()),
        Just("// \"k\"".to_owned()),
        "[a-c]",
    ];
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<i32>().prop_map(|n| json!(n)),
        Just(json!(true)),
        "[a\"\\\\/ *ü\n]{0,6}".prop_map(|s| json!(s)),
    ];
    let object = move |value: BoxedStrategy<Json>| {
        prop::collection::vec((key.clone(), value), 0..4)
            .prop_map(|members| Json::Object(members.into_iter().collect()))
    };
    let value = leaf.boxed().prop_recursive(4, 24, 4, {
        let object = object.clone();
        move |inner| {
            prop_oneof![
                object(inner.clone()),
                prop::collection::vec(inner, 0..3).prop_map(Json::Array)
            ]
        }
    });
    object(value.boxed())
}

/// Text that may be between two tokens.
const TRIVIA: &[&str] =
    &["", "", " ", "\n", "\n  ", "\n\t", "\r\n ", "/* , { */", " // }\n", " // \"\r\n\t"];

/// Writes a document with random text between its tokens.
struct Writer<'a> {
    out: String,
    dice: std::iter::Cycle<std::slice::Iter<'a, u8>>,
}

impl Writer<'_> {
    fn throw(&mut self, sides: usize) -> usize {
        self.dice.next().map_or(0, |side| usize::from(*side) % sides)
    }

    fn token(&mut self, token: &str) {
        let before = self.throw(TRIVIA.len());
        self.out.push_str(TRIVIA[before]);
        self.out.push_str(token);
    }

    fn items<T>(&mut self, [open, close]: [&str; 2], items: Vec<T>, item: impl Fn(&mut Self, T)) {
        self.token(open);
        let count = items.len();
        for (index, each) in items.into_iter().enumerate() {
            item(self, each);
            if index + 1 < count || self.throw(3) == 0 {
                self.token(",");
            }
        }
        self.token(close);
    }

    fn value(&mut self, value: &Json) {
        match value {
            Json::Object(object) => {
                self.items(["{", "}"], object.iter().collect(), |writer, (key, value)| {
                    writer.token(&Json::from(key.as_str()).to_string());
                    writer.token(":");
                    writer.value(value);
                });
            }
            Json::Array(items) => self.items(["[", "]"], items.iter().collect(), Self::value),
            Json::String(_) | Json::Number(_) | Json::Bool(_) | Json::Null => {
                self.token(&value.to_string());
            }
        }
    }
}

fn written(document: &Json, dice: &[u8]) -> String {
    let mut writer = Writer { out: String::new(), dice: dice.iter().cycle() };
    writer.value(document);
    writer.token("");
    writer.out
}

/// Returns the value at a path, or the first key that is missing.
fn reach<'a>(document: &'a Json, path: &[&str]) -> Result<&'a Json, usize> {
    let mut value = document;
    for (index, key) in path.iter().enumerate() {
        value = value.get(key).ok_or(index)?;
    }
    Ok(value)
}

/// Returns the text of every value in an object, except those on the path.
fn others(text: &str) -> Vec<String> {
    fn collect(text: &str, value: &jsonc::Value, path: Option<&[&str]>, out: &mut Vec<String>) {
        let jsonc::Kind::Object(object) = &value.kind else { return };
        for member in &object.members {
            match path.and_then(|path| path.split_first()).filter(|(key, _)| **key == member.key) {
                Some((_, [])) => {}
                Some((_, rest)) => collect(text, &member.value, Some(rest), out),
                None => out.push(format!(
                    "{} {}",
                    member.key,
                    &text[member.value.start..member.value.end]
                )),
            }
        }
    }
    let mut out = Vec::new();
    if let Some(root) = scan(text).unwrap() {
        collect(text, &root, Some(PATH), &mut out);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_written_is_read(document in documents(), dice in prop::collection::vec(any::<u8>(), 1..40)) {
        let text = written(&document, &dice);
        prop_assert_eq!(get(&text, &[]).unwrap(), Some(document), "{}", text);
    }

    #[test]
    fn a_member_is_put_in_and_every_other_byte_stays(
        document in documents(),
        dice in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        let (text, entry) = (written(&document, &dice), json!({"command": "p", "args": ["mcp"], "env": {}}));
        let Ok(new) = set(&text, PATH, &entry) else {
            // A value that is not an object blocks the path.
            prop_assert!(document.get(PATH[0]).is_some_and(|value| !value.is_object()), "{}", text);
            return Ok(());
        };
        let mut expected = document.clone();
        expected[PATH[0]][PATH[1]] = entry.clone();
        prop_assert_eq!(get(&new, &[]).unwrap(), Some(expected), "{}\n{}", text, new);
        prop_assert_eq!(&set(&new, PATH, &entry).unwrap(), &new);
        prop_assert_eq!(others(&new), others(&text));
        if let Err(missing) = reach(&document, PATH) {
            let back = remove(&new, &PATH[..=missing]).unwrap();
            let object = reach(&document, &PATH[..missing]).unwrap().as_object().unwrap();
            let bare = |text: &str| text.replace([' ', '\t', '\r', '\n'], "");
            // Only white space alone in braces is not restored.
            prop_assert!(back == text || object.is_empty() && bare(&back) == bare(&text), "{}\n{}", text, back);
        }
    }

    #[test]
    fn a_member_is_taken_out_and_every_other_stays(
        document in documents(),
        dice in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        let text = written(&document, &dice);
        let Ok(new) = remove(&text, PATH) else {
            prop_assert!(document.get(PATH[0]).is_some_and(|value| !value.is_object()), "{}", text);
            return Ok(());
        };
        let mut expected = document.clone();
        if let Some(servers) = expected.get_mut(PATH[0]).and_then(Json::as_object_mut) {
            servers.shift_remove(PATH[1]);
        }
        prop_assert_eq!(get(&new, &[]).unwrap(), Some(expected), "{}\n{}", text, new);
        prop_assert_eq!(others(&new), others(&text));
    }

    #[test]
    fn no_text_makes_it_stumble(text in "[{}\\[\\]\",:/*\\\\\n a1ü]{0,40}") {
        if let Ok(new) = set(&text, PATH, &json!({"a": 1})) {
            prop_assert_eq!(get(&new, PATH).unwrap(), Some(json!({"a": 1})), "{:?}", text);
        }
        let _ = remove(&text, PATH).map(|new| scan(&new).unwrap());
    }
}
