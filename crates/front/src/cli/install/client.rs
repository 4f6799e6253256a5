//! MCP clients: the files with their servers, and the form of an entry. Pure: the caller passes the environment. `docs/mcp.md`
//! lists the sources of these facts.

use clap::ValueEnum;
use serde_json::{Value as Json, json};
use std::path::PathBuf;

/// Variable with the token of a client that uses HTTP. Its value is written to no file.
pub(super) const TOKEN: &str = "PROCTOR_TOKEN";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Client {
    #[value(alias = "claude")]
    ClaudeCode,
    Cursor,
    #[value(name = "vscode", alias = "code")]
    VsCode,
    Codex,
    #[value(alias = "gemini-cli")]
    Gemini,
    Zed,
}

/// Scope of an entry: a folder, shared with everybody who works on it, or the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scope {
    Project,
    User,
}

impl Scope {
    pub(super) fn word(self) -> &'static str {
        match self {
            Scope::Project => "project",
            Scope::User => "user",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON with comments and trailing commas.
    Json,
    Toml,
}

/// Connection of a client to Proctor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Transport {
    /// The client starts this program and talks to it.
    Stdio {
        command: String,
        args: Vec<String>,
    },
    Http {
        url: String,
    },
}

/// Settings of ours in a server's entry.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    pub(super) set: Vec<(&'static [&'static str], Json)>,
    /// Settings that belong only to the other connection type.
    pub(super) dropped: &'static [&'static str],
}

type Var<'a> = &'a dyn Fn(&str) -> Option<PathBuf>;

impl Client {
    pub(super) fn word(self) -> &'static str {
        match self {
            Client::ClaudeCode => "claude-code",
            Client::Cursor => "cursor",
            Client::VsCode => "vscode",
            Client::Codex => "codex",
            Client::Gemini => "gemini",
            Client::Zed => "zed",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Client::ClaudeCode => "Claude Code",
            Client::Cursor => "Cursor",
            Client::VsCode => "VS Code",
            Client::Codex => "Codex",
            Client::Gemini => "Gemini CLI",
            Client::Zed => "Zed",
        }
    }

    /// Returns the key of the server list.
    pub(super) fn servers(self) -> &'static str {
        match self {
            Client::ClaudeCode | Client::Cursor | Client::Gemini => "mcpServers",
            Client::VsCode => "servers",
            Client::Codex => "mcp_servers",
            Client::Zed => "context_servers",
        }
    }

    pub(super) fn format(self) -> Format {
        match self {
            Client::Codex => Format::Toml,
            Client::ClaudeCode | Client::Cursor | Client::VsCode | Client::Gemini | Client::Zed => {
                Format::Json
            }
        }
    }

    /// Returns the file in a project folder.
    pub(super) fn project_file(self) -> &'static str {
        match self {
            Client::ClaudeCode => ".mcp.json",
            Client::Cursor => ".cursor/mcp.json",
            Client::VsCode => ".vscode/mcp.json",
            Client::Codex => ".codex/config.toml",
            Client::Gemini => ".gemini/settings.json",
            Client::Zed => ".zed/settings.json",
        }
    }

    /// Returns the user's file; `None` if the environment does not name the home folder.
    pub(super) fn user_file(self, var: Var<'_>) -> Option<PathBuf> {
        let own = self.own_folder(var)?;
        Some(match self {
            Client::ClaudeCode => match absolute(var, "CLAUDE_CONFIG_DIR") {
                Some(folder) => folder.join(".claude.json"),
                None => absolute(var, "HOME")?.join(".claude.json"),
            },
            Client::Cursor => own.join("mcp.json"),
            Client::VsCode => own.join("User/mcp.json"),
            Client::Codex => own.join("config.toml"),
            Client::Gemini | Client::Zed => own.join("settings.json"),
        })
    }

    /// Returns the folder that the client creates at its first start.
    pub(super) fn own_folder(self, var: Var<'_>) -> Option<PathBuf> {
        let home = || absolute(var, "HOME");
        let config =
            || absolute(var, "XDG_CONFIG_HOME").or_else(|| home().map(|home| home.join(".config")));
        match self {
            Client::ClaudeCode => absolute(var, "CLAUDE_CONFIG_DIR")
                .or_else(|| home().map(|home| home.join(".claude"))),
            Client::Cursor => home().map(|home| home.join(".cursor")),
            Client::VsCode => config().map(|config| config.join("Code")),
            Client::Codex => {
                absolute(var, "CODEX_HOME").or_else(|| home().map(|home| home.join(".codex")))
            }
            Client::Gemini => {
                absolute(var, "GEMINI_CLI_HOME").or_else(home).map(|home| home.join(".gemini"))
            }
            Client::Zed => config().map(|config| config.join("zed")),
        }
    }

    /// Returns the names of its program, which differ between systems.
    pub(super) fn programs(self) -> &'static [&'static str] {
        match self {
            Client::ClaudeCode => &["claude"],
            Client::Cursor => &["cursor", "cursor-agent"],
            Client::VsCode => &["code"],
            Client::Codex => &["codex"],
            Client::Gemini => &["gemini"],
            Client::Zed => &["zed", "zeditor", "zedit"],
        }
    }

    /// Returns the next step for the user.
    pub(super) fn next(self, scope: Scope) -> &'static str {
        match (self, scope) {
            (Client::ClaudeCode, Scope::User) => {
                "`claude mcp list` shows it; restart running sessions to use it"
            }
            (Client::ClaudeCode, Scope::Project) => {
                "Claude Code asks whether to trust it at its next start in this folder"
            }
            (Client::Cursor, _) => {
                "enable it in Cursor's settings, under MCP, if it is not enabled"
            }
            (Client::VsCode, _) => {
                "`MCP: List Servers` in the command palette shows it and starts it"
            }
            (Client::Codex, Scope::User) => "`codex mcp list` shows it",
            (Client::Codex, Scope::Project) => "Codex reads it if the folder is a trusted project",
            (Client::Gemini, _) => "`/mcp` in Gemini CLI shows it after the next start",
            (Client::Zed, Scope::User) => "the settings of Zed's agent panel show it",
            (Client::Zed, Scope::Project) => "Zed reads it if the folder is trusted",
        }
    }

    /// Returns the client's own command for this, if it has one.
    pub(super) fn own_command(self) -> Option<&'static str> {
        match self {
            Client::ClaudeCode => Some("claude mcp add --scope user proctor -- proctor mcp"),
            Client::VsCode => {
                Some(r#"code --add-mcp '{"name":"proctor","command":"proctor","args":["mcp"]}'"#)
            }
            Client::Codex => Some("codex mcp add proctor -- proctor mcp"),
            Client::Gemini => Some("gemini mcp add --scope user proctor proctor mcp"),
            Client::Cursor | Client::Zed => None,
        }
    }

    /// Returns the pages of the client's documentation.
    pub(super) fn pages(self) -> &'static [&'static str] {
        match self {
            Client::ClaudeCode => &["https://code.claude.com/docs/en/mcp"],
            Client::Cursor => &["https://cursor.com/docs/mcp"],
            Client::VsCode => {
                &["https://code.visualstudio.com/docs/copilot/reference/mcp-configuration"]
            }
            Client::Codex => &["https://developers.openai.com/codex/mcp"],
            Client::Gemini => &["https://geminicli.com/docs/tools/mcp-server/"],
            Client::Zed => &[
                "https://zed.dev/docs/ai/mcp",
                "https://github.com/zed-industries/zed/issues/60459",
            ],
        }
    }

    /// Returns the settings; `None` if the client does not support the connection type.
    pub(super) fn settings(self, way: &Transport) -> Option<Settings> {
        Some(match way {
            Transport::Stdio { command, args } => {
                let mut set = self.kind("stdio");
                set.push((&["command"], json!(command)));
                set.push((&["args"], json!(args)));
                Settings { set, dropped: self.of_http() }
            }
            Transport::Http { url } => Settings { set: self.http(url)?, dropped: self.of_stdio() },
        })
    }

    fn http(self, url: &str) -> Option<Vec<(&'static [&'static str], Json)>> {
        let address: &'static [&'static str] = match self {
            Client::ClaudeCode | Client::Cursor | Client::VsCode | Client::Codex => &["url"],
            Client::Gemini => &["httpUrl"],
            // Zed sends a header literally, so the token itself would have to be in the file.
            Client::Zed => return None,
        };
        let mut set = self.kind("http");
        set.push((address, json!(url)));
        set.push(match self {
            Client::Codex => (&["bearer_token_env_var"], json!(TOKEN)),
            Client::ClaudeCode | Client::Gemini | Client::Zed => {
                (&["headers", "Authorization"], json!(format!("Bearer ${{{TOKEN}}}")))
            }
            Client::Cursor | Client::VsCode => {
                (&["headers", "Authorization"], json!(format!("Bearer ${{env:{TOKEN}}}")))
            }
        });
        Some(set)
    }

    /// Returns the connection type as the first setting, for clients that want it.
    fn kind(self, word: &str) -> Vec<(&'static [&'static str], Json)> {
        match self {
            Client::ClaudeCode | Client::VsCode => vec![(&["type"], json!(word))],
            Client::Cursor if word == "stdio" => vec![(&["type"], json!(word))],
            Client::Cursor | Client::Codex | Client::Gemini | Client::Zed => Vec::new(),
        }
    }

    fn of_http(self) -> &'static [&'static str] {
        match self {
            Client::Codex => &["url", "bearer_token_env_var", "http_headers", "env_http_headers"],
            Client::Gemini => &["httpUrl", "url", "type", "headers"],
            Client::ClaudeCode | Client::Cursor | Client::VsCode | Client::Zed => {
                &["url", "headers"]
            }
        }
    }

    fn of_stdio(self) -> &'static [&'static str] {
        match self {
            Client::Codex => &["command", "args", "env", "env_vars", "cwd"],
            Client::Cursor => &["type", "command", "args", "env", "envFile", "cwd"],
            Client::ClaudeCode | Client::VsCode | Client::Gemini | Client::Zed => {
                &["command", "args", "env", "envFile", "cwd"]
            }
        }
    }
}

fn absolute(var: Var<'_>, name: &str) -> Option<PathBuf> {
    var(name).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes `NAME=path` for each variable that is set.
    #[track_caller]
    fn check(client: Client, vars: &[(&str, &str)], expected: Option<&str>) {
        let var = |name: &str| {
            let found = vars.iter().find(|(known, _)| *known == name);
            found.map(|(_, path)| PathBuf::from(path))
        };
        assert_eq!(client.user_file(&var), expected.map(PathBuf::from), "{client:?} {vars:?}");
    }

    #[test]
    fn a_users_file_is_where_the_client_reads_it() {
        let home = &[("HOME", "/h")];
        check(Client::ClaudeCode, home, Some("/h/.claude.json"));
        check(Client::Cursor, home, Some("/h/.cursor/mcp.json"));
        check(Client::VsCode, home, Some("/h/.config/Code/User/mcp.json"));
        check(Client::Codex, home, Some("/h/.codex/config.toml"));
        check(Client::Gemini, home, Some("/h/.gemini/settings.json"));
        check(Client::Zed, home, Some("/h/.config/zed/settings.json"));
    }

    #[test]
    fn a_client_that_was_moved_is_followed() {
        let moved = |name| [("HOME", "/h"), (name, "/m")];
        check(Client::ClaudeCode, &moved("CLAUDE_CONFIG_DIR"), Some("/m/.claude.json"));
        check(Client::Codex, &moved("CODEX_HOME"), Some("/m/config.toml"));
        check(Client::Gemini, &moved("GEMINI_CLI_HOME"), Some("/m/.gemini/settings.json"));
        check(Client::VsCode, &moved("XDG_CONFIG_HOME"), Some("/m/Code/User/mcp.json"));
        check(Client::Zed, &moved("XDG_CONFIG_HOME"), Some("/m/zed/settings.json"));
        check(
            Client::Zed,
            &[("HOME", "/h"), ("XDG_CONFIG_HOME", "relative")],
            Some("/h/.config/zed/settings.json"),
        );
    }

    #[test]
    fn without_a_home_there_is_no_place() {
        for client in Client::value_variants() {
            check(*client, &[], None);
            check(*client, &[("HOME", "")], None);
        }
    }

    #[test]
    fn the_words_of_the_command_line_are_ours() {
        for client in Client::value_variants() {
            assert_eq!(client.to_possible_value().unwrap().get_name(), client.word());
        }
        for scope in Scope::value_variants() {
            assert_eq!(scope.to_possible_value().unwrap().get_name(), scope.word());
        }
    }
}
