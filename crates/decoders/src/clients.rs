//! Configuration files of MCP clients, which `proctor mcp install` changes. The first byte selects
//! the client.

use crate::{choice, lossy};
use proctor_front::cli::rewritten;
use serde_json::Value;

/// The key under which a client lists its servers, if its files are JSON.
const SERVERS: [Option<&str>; 6] = [
    Some("mcpServers"),
    Some("mcpServers"),
    Some("servers"),
    None,
    Some("mcpServers"),
    Some("context_servers"),
];

/// Maximum number of inserted lines, each indented like the text.
const LINES: usize = 20;

pub(crate) fn check(bytes: &[u8]) {
    let Some((client, bytes)) = choice(bytes) else { return };
    let text = lossy(bytes);
    let [with, without] = rewritten(client, &text);
    if let Some(without) = &without {
        assert!(without.len() <= text.len(), "it is longer without: {without:?}");
        assert_eq!(rewritten(client, without)[1].as_ref(), Some(without), "taken out twice");
    }
    let Some(with) = with else { return };
    assert!(with.len() <= LINES * (text.len() + 100), "{} of {} bytes", with.len(), text.len());
    let [again, taken_out] = rewritten(client, &with);
    assert_eq!(again.as_ref(), Some(&with), "put in twice");
    assert!(taken_out.is_some_and(|text| text != with), "it cannot be taken out: {with:?}");
    if let (Some(servers), Some(plain)) = (SERVERS[client % SERVERS.len()], unambiguous(&text)) {
        let written: Value = serde_json::from_str(&with).expect("what was JSON stays JSON");
        assert_eq!(written[servers]["proctor"]["command"], "proctor");
        assert_eq!(others(written, servers), others(plain, servers), "something else is another");
    }
}

/// Removes our server, and the servers key if no other server is left.
fn others(mut value: Value, servers: &str) -> Value {
    let place = value.get_mut(servers).and_then(Value::as_object_mut);
    let empty = place.is_some_and(|place| {
        place.shift_remove("proctor");
        place.is_empty()
    });
    if let Some(whole) = value.as_object_mut().filter(|_| empty) {
        whole.shift_remove(servers);
    }
    value
}

/// Parses plain JSON without duplicate keys, which could be read in two ways. Also skips texts that
/// contain a colon, which costs little coverage.
fn unambiguous(text: &str) -> Option<Value> {
    fn keys(value: &Value) -> usize {
        match value {
            Value::Object(members) => members.len() + members.values().map(keys).sum::<usize>(),
            Value::Array(items) => items.iter().map(keys).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        }
    }
    let value: Value = serde_json::from_str(text).ok()?;
    (value.is_object() && text.matches(':').count() == keys(&value)).then_some(value)
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let json = [
        "{}",
        "{\n  \"mcpServers\": {\n    \"a\": {}\n  }\n}\n",
        "// mine\n{\n\t\"servers\": { \"a\": 1, }, /* b */\n}\r\n",
        "{\"context_servers\":{\"proctor\":{\"command\":\"x\",\"args\":[],\"env\":{}}}}",
        "{\"mcpServers\":{\"proctor\":{\"httpUrl\":\"u\",\"headers\":{\"A\":\"b\"}},\"b\":null}}",
    ];
    let toml = [
        "model = \"o\" # mine\n\n[mcp_servers.a]\ncommand = 'a'\n",
        "[mcp_servers.proctor]\nurl = \"u\"\nother = [1, { a = 2 }]\n\n[mcp_servers.proctor.env]\nA = \"\"\"\nb\"\"\"\n[z]\n",
        "[mcp_servers]\r\na.command = \"x\"\r\nproctor = { command = \"y\" }\r\n",
    ];
    let with = |client: u8, text: &str| [&[client], text.as_bytes()].concat();
    let json =
        (0..6).filter(|client| *client != 3).flat_map(|client| json.map(|text| with(client, text)));
    json.chain(toml.map(|text| with(3, text))).collect()
}
