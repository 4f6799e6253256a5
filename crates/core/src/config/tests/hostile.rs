//! Untrusted text: no panic, no unbounded growth, and every problem has a place in the text.

use super::{around, problems};
use crate::config::own_secrets::OwnSecrets;
use crate::config::{Problem, parse, parse_service};
use proptest::prelude::*;

/// Any text results in a configuration or in problems with existing places.
fn check(text: &str) {
    let results = [
        parse("proctor.yaml", text, &around()).map(|_| ()),
        parse_service("proctor.yaml", "web", text, &around(), &OwnSecrets::default()).map(|_| ()),
    ];
    for problems in results.into_iter().filter_map(Result::err) {
        assert!(!problems.is_empty());
        let lines = text.split(['\n', '\r']).count() + 1;
        let exists = |it: &Problem| it.line >= 1 && it.column >= 1 && it.line as usize <= lines;
        let own = |it: &&Problem| it.file == "proctor.yaml";
        for problem in problems.iter().filter(own) {
            assert!(exists(problem), "{problem} is outside of {text:?}");
            assert!(!problem.message.chars().any(char::is_control), "{problem:?}");
        }
        let places: Vec<_> = problems.iter().filter(own).map(|it| (it.line, it.column)).collect();
        assert!(places.is_sorted(), "{places:?}");
    }
}

fn key() -> impl Strategy<Value = String> {
    let known: Vec<&str> = super::super::keys::KEYS.iter().map(|key| key.name).collect();
    let inner =
        vec!["delay", "signal", "max_size", "nofile", "interval", "<<", "supervisor", "x-a"];
    prop_oneof![
        6 => proptest::sample::select(known).prop_map(String::from),
        3 => proptest::sample::select(inner).prop_map(String::from),
        1 => "[a-z\"'&*!${}: -]{0,8}",
    ]
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just(String::new()),
        Just("~".to_string()),
        Just("true".to_string()),
        Just("&a b".to_string()),
        Just("*a".to_string()),
        Just("99999999999999999999999999".to_string()),
        Just("\"${HOME}\"".to_string()),
        Just("${NOPE:-${HOME}}".to_string()),
        Just("1.5GiB".to_string()),
        Just("http://localhost:80/x".to_string()),
        "-?[0-9]{1,6}(\\.[0-9])?(ms|s|m|h|d|k|MB|:[0-9]+)?",
        "[ -~é\\t]{0,12}",
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::vec((key(), inner), 0..5).prop_map(|entries| {
                let entries: Vec<String> =
                    entries.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                format!("{{{}}}", entries.join(", "))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}|[ \\n\\t:\\-\\[\\]{}#&*!|>'\"%@`a-z0-9?,~<$]{0,120}") {
        check(&text);
    }

    #[test]
    fn arbitrary_mappings_never_panic(entries in prop::collection::vec((key(), value()), 0..8)) {
        let lines: Vec<String> = entries.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        check(&lines.join("\n"));
        let nested: Vec<String> = lines.iter().map(|line| format!("      {line}")).collect();
        check(&format!("supervisor:\n  services:\n    web:\n      command: x\n{}", nested.join("\n")));
    }

    #[test]
    fn any_text_given_as_json_comes_back_as_it_was(words in prop::collection::vec(any::<String>(), 1..4)) {
        let words: Vec<String> = words.iter().map(|word| word.replace('\0', "")).collect();
        let written: Vec<String> = words.iter().map(|word| word.replace('$', "$$")).collect();
        let service = serde_json::json!({ "command": "serve", "args": written });
        for text in [service.to_string(), format!("{service:#}")] {
            let read = parse_service("given", "web", &text, &around(), &OwnSecrets::default()).unwrap();
            prop_assert_eq!(&read[0].argv[1..], &words[..]);
        }
    }

    #[test]
    fn a_broken_off_file_never_panics(end in 0_usize..400, flip in 0_usize..400, with in any::<char>()) {
        let text = super::with_key("env: {A: '${HOME}'}\n      restart: &r { delay: 5s, jitter: 0.5 }\n      logs: {\n        max_size: 1M }\n      args: [a, \"b\\n\", *r]");
        let mut letters: Vec<char> = text.chars().take(end).collect();
        if let Some(letter) = letters.get_mut(flip) {
            *letter = with;
        }
        check(&letters.into_iter().collect::<String>());
    }
}

fn first(text: &str, part: &str) {
    let found = problems(text);
    assert!(found.iter().any(|it| it.contains(part)), "{part}: {:?}", found.first());
}

#[test]
fn size_depth_and_number_of_values_are_bounded() {
    first(&"#".repeat((1 << 20) + 1), "the maximum is 1048576");
    first(&"[".repeat(100), "more than 32 levels deep");
    first(&"[".repeat(1000), "recursion limit");
    first(&"- ".repeat(1000), "levels deep");
    first(&"? ".repeat(1000), "levels deep");
    first(&format!("services: {}", "{a: ".repeat(100)), "levels deep");
    first(&format!("x-a: [{}]", "1,".repeat(200_001)), "more than 200000 values");
}

#[test]
fn alias_bombs_are_bounded() {
    let mut laughs = String::from("x-a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for level in 1..20 {
        let before = vec![format!("*a{}", level - 1); 9].join(", ");
        laughs.push_str(&format!("x-a{level}: &a{level} [{before}]\n"));
    }
    first(&format!("{laughs}services: {{a: {{command: *a19}}}}"), "found a list, expected text");

    let mut chain = String::from("x-a0: &a0 [x]\n");
    for level in 1..5000 {
        chain.push_str(&format!("x-a{level}: &a{level} [*a{}]\n", level - 1));
    }
    first(&chain, "more than 32 levels deep");

    let keys: Vec<String> = (0..1000).map(|it| format!("k{it}: 1")).collect();
    let merges = vec!["*a"; 1000].join(", ");
    first(
        &format!("x-a: &a {{{}}}\nx-b: {{<<: [{merges}]}}", keys.join(", ")),
        "more than 200000 values",
    );

    let services: Vec<String> = (0..1000).map(|it| format!("  s{it}: *a")).collect();
    let block = format!(
        "x-a: &a {{command: x, env: {{{}}}}}\nservices:\n{}",
        keys.join(", "),
        services.join("\n")
    );
    first(&block, "including those repeated by aliases");
}

#[test]
fn all_texts_together_are_bounded() {
    let long = "x".repeat(900_000);
    let services: Vec<String> = (0..20).map(|number| format!("s{number}: *a")).collect();
    let services = services.join(", ");
    let text = format!("x-a: &a {{command: x, description: '{long}'}}\nservices: {{{services}}}");
    first(&text, "all texts together");
}

#[test]
fn instances_and_shared_environments_are_bounded() {
    let services: Vec<String> =
        (0..11).map(|it| format!("  s{it}: {{command: x, instances: 1000}}")).collect();
    first(&format!("services:\n{}", services.join("\n")), "more than 10000, instances counted");

    let keys: Vec<String> = (0..1000).map(|it| format!("k{it}: {}", "v".repeat(500))).collect();
    let text =
        format!("env: {{{}}}\nservices: {{a: {{command: x, instances: 1000}}}}", keys.join(", "));
    first(&text, "arguments and variables of all services together");

    let files = ["large.env"; 100].join(", ");
    let text = format!("services: {{a: {{command: x, env_file: [{files}]}}}}");
    first(&text, "arguments and variables of all services together");
}

#[test]
fn a_file_of_mistakes_is_not_read_to_its_end() {
    let keys: Vec<String> = (0..5000).map(|it| format!("  k{it}: 1")).collect();
    let found = problems(&format!("supervisor:\n  services: {{}}\n{}", keys.join("\n")));
    assert_eq!(found.len(), 1001);
    assert!(found[1000].contains("the rest was not checked"));
    assert_eq!(problems(&"a: 1\n".repeat(5000)).len(), 1001);
}
