//! Golden tests of each client's file (`tests/golden/install/CLIENT.json`, or `.toml`) before and after a change.
//! `UPDATE_GOLDEN=1` rewrites the results; read the diff before committing it.

use super::change;
use super::client::{Client, Format, Settings, Transport};
use clap::ValueEnum;
use std::path::{Path, PathBuf};

fn file(client: Client, case: &str) -> PathBuf {
    let extension = match client.format() {
        Format::Json => "json",
        Format::Toml => "toml",
    };
    let name = format!("{}{case}.{extension}", client.word());
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/install").join(name)
}

#[track_caller]
fn check(client: Client, case: &str, text: &str) {
    let path = file(client, case);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap_or_default(), "{}", path.display());
}

fn stdio() -> Transport {
    let args = ["mcp", "--home", "/srv/my app", "--toolsets", "processes,logs"];
    Transport::Stdio { command: "/usr/bin/proctor".into(), args: args.map(String::from).to_vec() }
}

fn http() -> Transport {
    Transport::Http { url: "http://127.0.0.1:3001/mcp".into() }
}

#[track_caller]
fn put(client: Client, text: &str, ours: &Settings) -> String {
    let new = change::put(client, text, "proctor", ours).unwrap();
    assert_eq!(change::put(client, &new, "proctor", ours).unwrap(), new, "{client:?}, twice");
    assert!(change::has(client, &new, "proctor").unwrap() && change::lists(client, &new).unwrap());
    new
}

#[test]
fn every_client_gets_what_it_reads() {
    for client in Client::value_variants() {
        let before = std::fs::read_to_string(file(*client, "")).unwrap();
        let ways = [(".new", ".stdio", stdio()), (".new-http", ".http", http())];
        for (new, changed, way) in ways {
            let Some(ours) = client.settings(&way) else { continue };
            check(*client, new, &put(*client, "", &ours));
            check(*client, changed, &put(*client, &before, &ours));
        }
        check(*client, ".removed", &change::remove(*client, &before, "proctor").unwrap());
    }
}

#[test]
fn there_and_back_leaves_one_way_only() {
    for client in Client::value_variants() {
        let (Some(stdio), Some(http)) = (client.settings(&stdio()), client.settings(&http()))
        else {
            assert_eq!(*client, Client::Zed, "all others read a token from the environment");
            continue;
        };
        let first = put(*client, "", &stdio);
        let second = put(*client, &first, &http);
        assert_ne!(first, second);
        assert!(!second.contains("command"), "{second}");
        assert_eq!(put(*client, &second, &stdio), first);
    }
}

#[test]
fn no_secret_is_ever_written() {
    for client in Client::value_variants() {
        let Some(ours) = client.settings(&http()) else { continue };
        let text = put(*client, "", &ours);
        assert!(text.contains("PROCTOR_TOKEN"), "{text}");
    }
}
