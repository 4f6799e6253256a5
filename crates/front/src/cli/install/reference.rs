//! Markdown with the text to paste for each client. The documentation is generated from it.

use super::client::{Client, Format, Transport};
use super::{URL, change};
use clap::ValueEnum;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Returns a section for each client.
pub fn reference() -> String {
    Client::value_variants().iter().map(|client| section(*client)).collect()
}

fn section(client: Client) -> String {
    let mut out = format!("### {}\n\n", client.title());
    // Writing to a String cannot fail.
    let _ = write!(out, "```console\n$ proctor mcp install {}\n```\n\n", client.word());
    let _ = write!(
        out,
        "or, by hand, in `{}` or a project's `{}`:\n\n",
        own_file(client),
        client.project_file()
    );
    let stdio = Transport::Stdio { command: "proctor".to_owned(), args: vec!["mcp".to_owned()] };
    out += &snippet(client, &stdio).unwrap_or_default();
    match snippet(client, &Transport::Http { url: URL.to_owned() }) {
        Some(http) => {
            let _ = write!(
                out,
                "Over HTTP (`proctor mcp install {} --http`):\n\n{http}",
                client.word()
            );
        }
        None => {
            let _ = write!(
                out,
                "{} sends a header literally, so over HTTP its settings would have to contain the token itself; this is refused.\n\n",
                client.title()
            );
        }
    }
    if let Some(command) = client.own_command() {
        let _ = write!(out, "Its own command for stdio: `{command}`. ");
    }
    let pages: Vec<String> = client.pages().iter().map(|page| format!("<{page}>")).collect();
    let _ = write!(out, "Source: {}.\n\n", pages.join(", "));
    out
}

fn snippet(client: Client, way: &Transport) -> Option<String> {
    let language = match client.format() {
        Format::Json => "json",
        Format::Toml => "toml",
    };
    let text = change::put(client, "", "proctor", &client.settings(way)?).ok()?;
    Some(format!("```{language}\n{text}```\n\n"))
}

/// Returns the path with `~` for the home folder.
fn own_file(client: Client) -> String {
    let home = "/home";
    let file = client.user_file(&|name| (name == "HOME").then(|| PathBuf::from(home)));
    let file = file.unwrap_or_default();
    format!("~{}", file.display().to_string().trim_start_matches(home))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_has_its_place_its_entry_and_its_source() {
        let text = reference();
        for client in Client::value_variants() {
            for expected in [
                format!("\n$ proctor mcp install {}\n", client.word()),
                format!("`{}`", client.project_file()),
                format!("<{}>", client.pages()[0]),
            ] {
                assert!(text.contains(&expected), "{expected} is missing:\n{text}");
            }
        }
        assert!(text.contains("in `~/.config/Code/User/mcp.json` or"), "{text}");
        assert_eq!(text.matches("```toml\n[mcp_servers.proctor]\n").count(), 2);
    }
}
