//! `mcp install`: adds Proctor as a server to the configuration of an MCP client. This file has the command and its order of
//! steps; [`client`] describes the clients, [`change`] edits a text, [`place`] reads and writes the file.

mod change;
mod client;
mod diff;
mod edit;
mod error;
mod jsonc;
mod program;
mod reference;
mod target_file;
mod toml;

#[cfg(test)]
mod golden;

use super::CommandResult;
use super::mcp::Sets;
use super::terminal::Terminal;
use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use client::{Client, Scope, Settings, TOKEN, Transport};
use error::InstallError;
use proctor_ops::error::{Code, OpError};
use proctor_ops::tools::MAX_TOOL_NAME_BYTES as LONGEST_TOOL;
pub use reference::reference;
use serde_json::json;
use std::path::{Path, PathBuf};
use target_file::TargetFile;

/// Default MCP address of the daemon.
const URL: &str = "http://127.0.0.1:3001/mcp";

/// Maximum attempts. A running client sometimes writes its file; more conflicts than this mean a problem.
const TRIES: usize = 5;

/// Maximum length of a server name: clients call a tool `mcp__NAME__TOOL`, with at most 64 characters.
const MAX_NAME_BYTES: usize = 64 - "mcp____".len() - LONGEST_TOOL;

#[derive(Args, Debug)]
struct Options {
    /// Client to configure
    #[arg(value_name = "CLIENT", value_enum)]
    client: Client,
    /// The project's file in this folder, shared with others, or the user's own; if omitted, the project's if it lists servers
    #[arg(long, value_name = "SCOPE", value_enum)]
    scope: Option<Scope>,
    /// Name of the server in the client
    #[arg(long, value_name = "NAME", default_value = "proctor", value_parser = name)]
    name: String,
    /// Toolsets to offer: processes, logs, files, git, system, or all; all but system if omitted
    #[arg(long, value_name = "SETS", value_parser = Sets::parse)]
    toolsets: Option<Sets>,
    /// Connect over HTTP instead of starting a program; the client reads the token from PROCTOR_TOKEN in its environment
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = URL, value_parser = url)]
    http: Option<String>,
    /// Remove the server
    #[arg(long, conflicts_with_all = ["http", "toolsets", "print"])]
    remove: bool,
    /// Show the change without writing it
    #[arg(long)]
    dry_run: bool,
    /// Print the text to paste without writing it
    #[arg(long, conflicts_with = "dry_run")]
    print: bool,
}

pub(crate) fn command() -> Command {
    Command::new("install")
        .about("Set up an assistant's client to use Proctor")
        .after_help(
            "\
Everything else in the client's file is kept, comments and order included. A file with an error is not changed. A second run changes \
nothing. An existing entry keeps its other settings. `--home` or PROCTOR_HOME is passed on.

The user's file names the program by its full path, a project's as `proctor`, because other users have it elsewhere.

Examples:
  proctor mcp install claude-code
  proctor mcp install cursor --scope project --dry-run
  proctor mcp install codex --print
  proctor mcp install vscode --http
  proctor mcp install zed --remove",
        )
        .defer(Options::augment_args)
}

/// Result for the client's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Added,
    Changed,
    Unchanged,
    Removed,
    Absent,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Outcome::Added => "added",
            Outcome::Changed => "changed",
            Outcome::Unchanged => "unchanged",
            Outcome::Removed => "removed",
            Outcome::Absent => "absent",
        }
    }

    fn told(self, name: &str, path: &Path) -> String {
        let path = path.display();
        match self {
            Outcome::Added => format!("added {name} to {path}"),
            Outcome::Changed => format!("changed {name} in {path}"),
            Outcome::Unchanged => format!("{name} is already in {path}"),
            Outcome::Removed => format!("removed {name} from {path}"),
            Outcome::Absent => format!("{name} is not in {path}"),
        }
    }
}

/// Change to make.
struct Task {
    client: Client,
    scope: Scope,
    path: PathBuf,
    name: String,
    /// Settings to write; `None` removes the server.
    settings: Option<Settings>,
    notes: Vec<String>,
}

pub(crate) fn install(
    matches: &ArgMatches,
    arguments: &ArgMatches,
    terminal: &Terminal,
) -> CommandResult {
    let options = Options::from_arg_matches(arguments)
        .map_err(|error| OpError::bad_input(error.to_string()))?;
    let task = Task::new(&options, matches)?;
    if options.print {
        return print(&task, terminal);
    }
    let (outcome, diff) = task.perform(options.dry_run)?;
    let mut notes = task.notes.clone();
    notes.extend(task.elsewhere(outcome));
    if terminal.json {
        let mut document = task.described();
        document["change"] = json!(outcome.word());
        document["written"] = json!(!options.dry_run && !diff.is_empty());
        document["notes"] = json!(notes);
        if options.dry_run {
            document["diff"] = json!(diff);
        }
        terminal.document(&document)?;
        return Ok(0);
    }
    let told = outcome.told(&task.name, &task.path);
    if options.dry_run && !diff.is_empty() {
        terminal.bytes(diff.as_bytes())?;
        terminal.note("nothing was written; the change would be");
    } else if !terminal.quiet {
        terminal.bytes(format!("{}: {told}\n", task.client.title()).as_bytes())?;
    }
    for note in notes {
        terminal.note(&note);
    }
    Ok(0)
}

fn print(task: &Task, terminal: &Terminal) -> CommandResult {
    let snippet = match &task.settings {
        Some(settings) => change::put(task.client, "", &task.name, settings),
        None => Ok(String::new()),
    };
    let snippet = snippet.map_err(|fault| task.refused(&fault, ""))?;
    if terminal.json {
        let mut document = task.described();
        document["snippet"] = json!(snippet);
        document["notes"] = json!(task.notes);
        terminal.document(&document)?;
    } else {
        terminal.bytes(snippet.as_bytes())?;
    }
    Ok(0)
}

impl Task {
    fn new(options: &Options, matches: &ArgMatches) -> Result<Task, OpError> {
        let Options { client, name, .. } = options;
        let scope = match options.scope {
            Some(scope) => scope,
            None => usual_scope(*client, options.print)?,
        };
        let mut task = Task {
            client: *client,
            scope,
            path: file_of(*client, scope)?,
            name: name.clone(),
            settings: None,
            notes: Vec::new(),
        };
        if !options.remove {
            let way = task.way(options, matches)?;
            let settings = client.settings(&way).ok_or_else(|| {
                let message =
                    format!("{} cannot take a token from the environment", client.title());
                OpError::bad_input(message).help("omit --http: over stdio no token is needed")
            })?;
            task.settings = Some(settings);
            task.notes.extend((!options.dry_run).then(|| client.next(scope).to_owned()));
        }
        task.notes.extend(missing(*client));
        Ok(task)
    }

    fn way(&mut self, options: &Options, matches: &ArgMatches) -> Result<Transport, OpError> {
        let sets = options
            .toolsets
            .as_ref()
            .map(|Sets(sets)| sets.iter().map(|set| set.as_str()).collect::<Vec<_>>().join(","));
        if let Some(url) = &options.http {
            let role = "proctor token create NAME --role operator";
            self.notes.push(format!(
                "{} needs {TOKEN} in its environment: the secret that `{role}` shows",
                self.client.title()
            ));
            if super::home::explicit(matches.get_one("home"))?.is_some() {
                self.notes.push(format!(
                    "the Proctor at {url} is used; --home and PROCTOR_HOME are ignored"
                ));
            }
            let sets = sets.map_or_else(String::new, |sets| format!("?toolsets={sets}"));
            return Ok(Transport::Http { url: format!("{url}{sets}") });
        }
        let (command, note) = program::command(self.scope)?;
        self.notes.extend(note);
        let mut args = vec!["mcp".to_owned()];
        if let Some(home) = super::home::explicit(matches.get_one("home"))? {
            let home = home.to_str().map(str::to_owned).ok_or_else(|| {
                OpError::bad_input(format!("{} is not UTF-8 text", home.display()))
            })?;
            args.extend(["--home".to_owned(), home]);
        }
        args.extend(sets.into_iter().flat_map(|sets| ["--toolsets".to_owned(), sets]));
        Ok(Transport::Stdio { command, args })
    }

    /// Changes the file, or computes the change.
    fn perform(&self, dry_run: bool) -> Result<(Outcome, String), OpError> {
        for _ in 0..TRIES {
            let place = TargetFile::read(&self.path)?;
            let old = place.text.as_deref().unwrap_or_default();
            let (outcome, new) = self.changed(old).map_err(|fault| self.refused(&fault, old))?;
            let diff = diff::unified(&self.path, old, &new);
            let done = dry_run || diff.is_empty() || {
                let written = place.write(&new, self.scope);
                written.map_err(|error| target_file::cannot("write", &self.path, &error))?
            };
            if done {
                return Ok((outcome, diff));
            }
        }
        let message =
            format!("cannot write {}: another program keeps changing it", self.path.display());
        Err(OpError::new(Code::Conflict, message)
            .help(format!("close {} and retry", self.client.title())))
    }

    fn changed(&self, old: &str) -> Result<(Outcome, String), InstallError> {
        let Task { client, name, .. } = self;
        let there = change::has(*client, old, name)?;
        let Some(settings) = &self.settings else {
            let outcome = if there { Outcome::Removed } else { Outcome::Absent };
            return Ok((outcome, change::remove(*client, old, name)?));
        };
        let new = change::put(*client, old, name, settings)?;
        let outcome = match there {
            false => Outcome::Added,
            true if new == old => Outcome::Unchanged,
            true => Outcome::Changed,
        };
        Ok((outcome, new))
    }

    /// Returns a hint if there is nothing to remove here, but the client's other file has the server.
    fn elsewhere(&self, outcome: Outcome) -> Option<String> {
        let other = match self.scope {
            Scope::Project => Scope::User,
            Scope::User => Scope::Project,
        };
        let path = file_of(self.client, other).ok()?;
        let text = TargetFile::read(&path).ok()?.text?;
        let there = change::has(self.client, &text, &self.name).unwrap_or(false);
        let option = format!("`--scope {}`", other.word());
        (outcome == Outcome::Absent && there)
            .then(|| format!("it is in {}: remove it there with {option}", path.display()))
    }

    fn refused(&self, fault: &InstallError, text: &str) -> OpError {
        let message = format!("{} was not changed: {}", self.path.display(), fault.told(text));
        OpError::new(Code::Failed, message)
            .help("correct the file and retry, or paste the text that `--print` shows")
    }

    fn described(&self) -> serde_json::Value {
        json!({
            "client": self.client.word(),
            "scope": self.scope.word(),
            "file": self.path.display().to_string(),
            "name": self.name,
        })
    }
}

/// Returns a client's file with and without Proctor, for fuzz tests; the client is given by its number. `None` means
/// that it is not
/// changed.
#[doc(hidden)]
pub fn rewritten(client: usize, text: &str) -> [Option<String>; 2] {
    let clients = Client::value_variants();
    let client = clients[client % clients.len()];
    let way = Transport::Stdio { command: "proctor".to_owned(), args: vec!["mcp".to_owned()] };
    let put =
        client.settings(&way).and_then(|ours| change::put(client, text, "proctor", &ours).ok());
    [put, change::remove(client, text, "proctor").ok()]
}

/// A folder that lists servers for this client is a project that wants them there.
fn usual_scope(client: Client, only_print: bool) -> Result<Scope, OpError> {
    let path = file_of(client, Scope::Project)?;
    // In the home folder the two files are the same.
    if file_of(client, Scope::User).is_ok_and(|own| is_same(&own, &path)) {
        return Ok(Scope::User);
    }
    let text = match TargetFile::read(&path) {
        Ok(place) => place.text.unwrap_or_default(),
        Err(_) if only_print => String::new(),
        Err(error) => return Err(error),
    };
    match change::lists(client, &text) {
        Ok(true) => Ok(Scope::Project),
        Ok(false) => Ok(Scope::User),
        Err(_) if only_print => Ok(Scope::User),
        Err(fault) => {
            let message = format!(
                "cannot tell whether {} lists servers: {}",
                path.display(),
                fault.told(&text)
            );
            Err(OpError::new(Code::Failed, message)
                .help("correct the file, or give `--scope user`"))
        }
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    one == other
        || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

fn file_of(client: Client, scope: Scope) -> Result<PathBuf, OpError> {
    match scope {
        Scope::Project => std::path::absolute(client.project_file()).map_err(|error| {
            OpError::new(Code::Failed, format!("cannot determine the current folder: {error}"))
        }),
        Scope::User => client.user_file(&variable).ok_or_else(|| {
            OpError::bad_input(format!("the configuration file of {} is not known", client.title()))
                .help("set HOME, or give --scope project")
        }),
    }
}

/// Returns a warning if the client is not found. The client reads the file once it is installed.
fn missing(client: Client) -> Option<String> {
    let folder = client.own_folder(&variable);
    let path = variable("PATH").unwrap_or_default();
    let installed = folder.as_ref().is_some_and(|folder| folder.exists())
        || client.user_file(&variable).is_some_and(|file| file.exists())
        || client.programs().iter().any(|name| program::find(name, path.as_os_str()).is_some());
    let title = client.title();
    (!installed).then(|| {
        format!("{title} does not seem to be installed here; it reads the file once it is")
    })
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn name(text: &str) -> Result<String, String> {
    let legal = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if legal && (1..=MAX_NAME_BYTES).contains(&text.len()) {
        return Ok(text.to_owned());
    }
    Err(format!("at most {MAX_NAME_BYTES} letters, digits, - and _"))
}

fn url(text: &str) -> Result<String, String> {
    if text.starts_with("http://") || text.starts_with("https://") {
        return Ok(text.to_owned());
    }
    Err(format!("expected an address such as {URL}"))
}
