//! Checks the documentation: its configurations are valid, its commands exist.

use crate::control::{Control, admin, listening};
use crate::support::{service, services, shell};
use proctor_testkit::{Home, Http, free_port, victim};
use std::path::{Path, PathBuf};

/// A fenced block of a page.
pub(crate) struct Block {
    /// Position: `README.md:12`.
    pub(crate) place: String,
    pub(crate) language: String,
    pub(crate) text: String,
}

/// Pages for users.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).unwrap();
    let mut pages: Vec<PathBuf> = docs
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.push(root.join("README.md"));
    pages
}

pub(crate) fn blocks(language: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for page in pages() {
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        let mut inside = false;
        for (line, number) in std::fs::read_to_string(&page).unwrap().lines().zip(1..) {
            if let Some(language) = line.strip_prefix("```") {
                inside = !inside;
                if inside {
                    let place = format!("{name}:{number}");
                    let language = language.to_owned();
                    blocks.push(Block { place, language, text: String::new() });
                }
            } else if inside {
                let block = blocks.last_mut().unwrap();
                block.text.push_str(line);
                block.text.push('\n');
            }
        }
        assert!(!inside, "{name} has a block without an end");
    }
    blocks.retain(|block| block.language == language);
    blocks
}

#[test]
fn every_configuration_in_the_documentation_is_right() {
    let home = Home::new();
    let blocks = blocks("yaml");
    assert!(blocks.len() >= 5, "only {} configurations were found", blocks.len());
    for block in blocks {
        home.write("proctor.yaml", &block.text);
        let output = home.run(["config", "--check", "proctor.yaml"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}\n{}", block.place, block.text);
    }
    assert!(!home.path().join("run/keeper.lock").exists(), "checking a file started Proctor");
}

#[test]
fn the_first_configuration_of_the_readme_runs_as_it_is_written() {
    let block = blocks("yaml").into_iter().find(|block| block.place.contains("README")).unwrap();
    let (home, port) = (Home::new(), free_port().to_string());
    let mut text = block.text.replace("8000", &port);
    let python = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join("python3").is_file())
    });
    if !python {
        let server = format!("{} --http {port}", victim().display());
        text = text.replace(&format!("python3 -m http.server {port}"), &server);
    }
    home.write("proctor.yaml", &text);
    home.ok(["up", "-d"]);
    home.ok(["wait", "web", "--until", "healthy"]);
    home.ok(["wait", "worker", "--log", "^mail: "]);
    for service in home.json(["list"])["services"].as_array().unwrap() {
        assert!(service["state"] == "running" && service["restarts"] == 0, "{service:#}");
    }
}

/// Returns the word after `proctor` and its own options.
fn command_of(line: &str) -> Option<&str> {
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let mut words = line.split_whitespace();
    let called = words.next()?;
    let after_cargo = called == "cargo" && words.any(|word| word == "--");
    if called != "proctor" && !after_cargo {
        return None;
    }
    let mut words = words.skip_while(|word| *word == "--json");
    match words.next()? {
        "--home" => words.nth(1),
        word => Some(word),
    }
}

#[test]
fn every_command_in_the_documentation_exists() {
    let home = Home::new();
    let help = home.ok(["--help"]);
    let known: Vec<&str> = help
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let blocks = blocks("console");
    let mut seen = 0;
    for block in &blocks {
        for word in block.text.lines().filter_map(command_of) {
            assert!(known.contains(&word), "{}: there is no `proctor {word}`", block.place);
            seen += 1;
        }
    }
    assert!(seen >= 5, "only {seen} commands were found in {} blocks", blocks.len());
}

/// Returns the typed lines of a block with their output.
fn exchanges(text: &str) -> Vec<(String, String)> {
    let mut exchanges: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("> "), exchanges.last_mut()) {
            (Some(said), _) => exchanges.push((said.to_owned(), String::new())),
            (None, Some((_, answer))) => *answer += &format!("{line}\n"),
            (None, None) => panic!("an answer to nothing: {line}"),
        }
    }
    exchanges
}

/// Returns true if the text matches, where `…` stands for anything.
fn matches(shown: &str, text: &str) -> bool {
    let (shown, text) = (shown.trim_end(), text.trim_end());
    let Some((begin, others)) = shown.split_once('…') else { return shown == text };
    let Some(mut rest) = text.strip_prefix(begin) else { return false };
    let (middle, end) = others.rsplit_once('…').map_or((None, others), |(m, end)| (Some(m), end));
    for part in middle.into_iter().flat_map(|middle| middle.split('…')) {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(end)
}

#[test]
fn every_session_at_the_control_port_in_the_documentation_goes_like_that() {
    let blocks = blocks("control");
    assert!(blocks.len() >= 2, "only {} sessions were found", blocks.len());
    for block in blocks {
        let all = [service("web", &["--lines", "2"], "primary: true"), service("db", &[], "")];
        let home = listening(&services(&all));
        let (token, mut control) = (admin(&home), Control::connect(home.port("tcp")));
        for (said, shown) in exchanges(&block.text) {
            let said = said.replace("TOKEN", &token);
            let answer = match said.starts_with(['{', '"']) {
                true => control.line(&said),
                false if said == "quit" => break,
                false => control.say(&said),
            };
            assert!(matches(&shown, &answer), "{}: > {said}\n{answer}\n{shown}", block.place);
        }
    }
}

/// Splits a line like a shell, without variables.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for letter in line.chars() {
        match (letter, quote) {
            ('\'' | '"', None) => quote = Some(letter),
            (end, Some(begin)) if end == begin => quote = None,
            (' ', None) => words.push(std::mem::take(&mut word)),
            (letter, _) => word.push(letter),
        }
    }
    words.push(word);
    words
}

/// Performs a line with `curl` with the tests' own client, and returns the status.
pub(crate) fn curl(line: &str, client: &Http) -> u16 {
    let (mut client, mut method, mut body, mut path, mut follow) =
        (client.clone(), "GET", String::new(), String::new(), false);
    let all = words(line);
    let mut words = all.iter().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "-N" => follow = true,
            "-X" => method = words.next().unwrap(),
            "-H" => {
                let (name, value) = words.next().unwrap().split_once(": ").unwrap();
                client = client.header(name, value);
            }
            "--json" => {
                (method, body) = ("POST", words.next().unwrap().clone());
                client = client.header("Content-Type", "application/json");
            }
            url => url.strip_prefix("http://127.0.0.1:3001").unwrap().clone_into(&mut path),
        }
    }
    match follow {
        true => client.stream(&path).status,
        false => client.send(method, &path, body.as_bytes()).status,
    }
}

#[test]
fn every_curl_in_the_documentation_works() {
    let home = listening(&services(&[
        service("web", &["--lines", "2"], ""),
        // HUP does not end it.
        shell("db", "trap : HUP; while :; do sleep 0.1; done", ""),
    ]));
    let client = Http::at(home.port("http"));
    let token = admin(&home);
    let mut tried = 0;
    for block in blocks("console").into_iter().filter(|block| block.place.starts_with("rest.md")) {
        for line in block.text.lines().filter_map(|line| line.strip_prefix("$ ")) {
            if line.starts_with("curl ") {
                let status = curl(&line.replace("$TOKEN", &token), &client);
                assert!((200..300).contains(&status), "{}: {line}: {status}", block.place);
                tried += 1;
            }
        }
    }
    assert!(tried >= 10, "only {tried} were found");
}
