//! Tests with configurations as people keep them, then with generated ones.

use super::*;
use proptest::prelude::*;
use serde_json::json;

const TABLE: &[&str] = &["mcp_servers", "proctor"];

fn settings() -> [(&'static str, Json); 2] {
    [("command", json!("p")), ("args", json!(["mcp", "--toolsets", "logs"]))]
}

const WRITTEN: &str =
    "[mcp_servers.proctor]\ncommand = \"p\"\nargs = [\"mcp\", \"--toolsets\", \"logs\"]\n";

fn put_ours(text: &str) -> Result<String, InstallError> {
    put(text, TABLE, &settings(), &["url", "http_headers"])
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let written = put_ours(text).unwrap();
    assert_eq!(written, expected, "\n{text}");
    assert_eq!(put_ours(&written).unwrap(), written, "twice");
    assert!(has(&written, TABLE).unwrap());
    let without = remove(&written, TABLE).unwrap();
    assert!(!has(&without, TABLE).unwrap(), "{without}");
    without.parse::<toml::Table>().unwrap();
}

#[test]
fn a_table_is_added_at_the_end() {
    check("", WRITTEN);
    check("model = \"o\" # mine", &format!("model = \"o\" # mine\n\n{WRITTEN}"));
    let text = "[mcp_servers.a]\r\ncommand = 'a'\r\n";
    check(text, &format!("{text}\r\n{}", WRITTEN.replace('\n', "\r\n")));
    let text = "a = \"\"\"\n[mcp_servers.proctor]\ncommand = 'x'\"\"\"\n[mcp_servers]\nb.command = \"b\"\n";
    check(text, &format!("{text}\n{WRITTEN}"));
    let text = "[mcp_servers.proctor.env]\nA = \"1\"\n";
    check(text, &format!("{text}\n{WRITTEN}"));
}

#[test]
fn what_was_added_is_taken_out_again() {
    for text in ["", "a = 1\n", "# a\n[b]\nc = 1\n\n\n", "[mcp_servers.a]\r\ncommand = 'a'\r\n"] {
        let written = put_ours(text).unwrap();
        let without = remove(&written, TABLE).unwrap();
        assert_eq!(without.trim_end(), text.trim_end());
    }
}

#[test]
fn a_table_that_is_there_is_changed_in_place() {
    let around = |inner: &str| {
        format!("# top\n[ mcp_servers . \"proctor\" ] # ours\n{inner}\n# of b\n[b]\nc = 1\n")
    };
    check(
        &around(
            "  command = 'q' # why\n  startup_timeout_sec = 20\n  args = [\n    \"mcp\", # one\n    \"x\",\n  ]\n",
        ),
        &around(
            "  command = \"p\" # why\n  startup_timeout_sec = 20\n  args = [\"mcp\", \"--toolsets\", \"logs\"]\n",
        ),
    );
    let same = around("args = [ 'mcp', \"\"\"--toolsets\"\"\",\n'logs' ]\ncommand = 'p'\n");
    check(&same, &same);
    check(
        &around("url = \"u\"\nenabled = false\nhttp_headers = { A = \"b\" }\n"),
        &around("enabled = false\ncommand = \"p\"\nargs = [\"mcp\", \"--toolsets\", \"logs\"]\n"),
    );
    check(
        "[mcp_servers.proctor]\n[mcp_servers.proctor.http_headers]\nA = \"b\"\n[mcp_servers.proctor.tools.a]\nb = 1\n",
        "[mcp_servers.proctor]\ncommand = \"p\"\nargs = [\"mcp\", \"--toolsets\", \"logs\"]\n[mcp_servers.proctor.tools.a]\nb = 1\n",
    );
    check("[mcp_servers.proctor]", WRITTEN.trim_end());
}

#[track_caller]
fn check_removed(text: &str, expected: &str) {
    assert_eq!(remove(text, TABLE).unwrap(), expected, "\n{text}");
}

#[test]
fn a_table_is_taken_out_with_all_below_it() {
    check_removed("a = 1\n", "a = 1\n");
    check_removed(
        "[mcp_servers.a]\nb = 1\n\n[mcp_servers.proctor]\nc = 1\n# of c\nd = 2\n\n[mcp_servers.proctor.env]\nE = \"1\"\n\n# of f\n[f]\n",
        "[mcp_servers.a]\nb = 1\n\n# of f\n[f]\n",
    );
    check_removed(
        "[mcp_servers]\nproctor = { command = \"p\" }\na.b = 1\n",
        "[mcp_servers]\na.b = 1\n",
    );
    check_removed(
        "mcp_servers.proctor.command = \"p\"\nmcp_servers.a.b = 1\n",
        "mcp_servers.a.b = 1\n",
    );
    check_removed("[a]\n[mcp_servers.proctor]\n[b]\n", "[a]\n[b]\n");
    check_removed("[a]\n\n[mcp_servers.proctor]\n[b]\n", "[a]\n\n[b]\n");
}

#[track_caller]
fn check_refused(text: &str, expected: &str) {
    assert_eq!(put_ours(text).expect_err(text).told(text), expected, "{text}");
}

#[test]
fn what_cannot_be_changed_in_place_is_refused() {
    let own = "this must be a table of its own, [mcp_servers.proctor]";
    check_refused("mcp_servers = {}", &format!("line 1, column 1: {own}"));
    check_refused(
        "a = 1\nmcp_servers.proctor.command = \"x\"",
        &format!("line 2, column 1: {own}"),
    );
    check_refused(
        "[mcp_servers]\n proctor = { command = \"x\" }",
        &format!("line 2, column 2: {own}"),
    );
    check_refused("[[mcp_servers]]\n", &format!("line 1, column 3: {own}"));
    check_refused(
        "[mcp_servers.proctor]\n[mcp_servers.proctor]\n",
        "line 2, column 2: [mcp_servers.proctor] is a duplicate table",
    );
    check_refused("a = \n", "line 1, column 5: string values must be quoted");
    check_refused("a = 'x", "line 1, column 7: invalid literal string");
    check_refused("[a", "line 1, column 3: unclosed table");
    check_refused("a = 1 b = 2", "line 1, column 5: string values must be quoted");
    check_refused("a = 1e", "line 1, column 7: invalid exponent");
    assert!(put_ours(&format!("a = {}", "[".repeat(1_000_000))).is_err());
    assert!(remove("mcp_servers = { proctor = {} }", TABLE).is_err());
}

/// Pieces that may be anywhere, at most once each.
const PIECES: &[&str] = &[
    "[a]\nb = 1\n",
    "[mcp_servers.b]\ncommand = \"b\" # b\n",
    "\n# a remark\n",
    "[[list]]\nx = '''\n[mcp_servers.proctor]\n'''\n",
    "[mcp_servers.proctor]\n# in ours\ncommand = \"old\"\nother = 1\n",
    "[mcp_servers.proctor.env]\nA = \"1\"\n\n",
    "[mcp_servers.proctor.http_headers]\nA = \"b\"\n",
    "[c.d]\ne = { f = [1, { g = 2 }] } # g\n\n\n",
    "  [\"mcp_servers\".'z']\n  args = [\n    'mcp', # ]\n  ]\n",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_table_is_put_in_and_every_other_stays(
        pieces in prop::sample::subsequence(PIECES, 0..=PIECES.len()).prop_shuffle(),
        crlf in any::<bool>(),
    ) {
        let text = pieces.concat();
        let text = if crlf { text.replace('\n', "\r\n") } else { text };
        let new = put_ours(&text).unwrap();
        let mut expected: toml::Table = text.parse().unwrap();
        let servers = expected.entry("mcp_servers").or_insert_with(|| toml::Table::new().into());
        let servers = servers.as_table_mut().unwrap();
        let ours = servers.entry("proctor").or_insert_with(|| toml::Table::new().into());
        let ours = ours.as_table_mut().unwrap();
        ours.insert("command".into(), "p".into());
        ours.insert("args".into(), vec!["mcp", "--toolsets", "logs"].into());
        ours.remove("http_headers");
        prop_assert_eq!(new.parse::<toml::Table>().unwrap(), expected, "{}\n---\n{}", &text, &new);
        prop_assert_eq!(put_ours(&new).unwrap(), new.as_str());
        let kept = |text: &str| -> Vec<String> {
            text.split_inclusive('\n').filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
        };
        let ours = ["command", "args", "[mcp_servers.proctor", "A = \"b\""];
        let others = |text: &str| -> Vec<String> {
            kept(text).into_iter().filter(|line| !ours.iter().any(|o| line.starts_with(o))).collect()
        };
        prop_assert_eq!(others(&new), others(&text));

        let without = remove(&text, TABLE).unwrap();
        let mut expected: toml::Table = text.parse().unwrap();
        if let Some(servers) = expected.get_mut("mcp_servers").and_then(|value| value.as_table_mut()) {
            servers.remove("proctor");
            if servers.is_empty() {
                expected.remove("mcp_servers");
            }
        }
        prop_assert_eq!(without.parse::<toml::Table>().unwrap(), expected, "{}\n---\n{}", &text, &without);
    }

    #[test]
    fn no_text_makes_it_stumble(text in "[\\[\\]{}=.'\"#\n a1ü,\\\\]{0,40}") {
        let _ = put_ours(&text).map(|new| put_ours(&new).map(|again| assert_eq!(again, new)));
        let _ = remove(&text, TABLE);
    }
}
