//! `mcp install`: Proctor as a server in the configuration of an assistant's client. Here is what is said and in which order things
//! happen; [`client`] knows the clients, [`change`] and below change a text and nothing else, [`place`] reads and writes it.

mod change;
mod client;
mod diff;
mod edit;
mod fault;
mod jsonc;
mod place;
mod program;
mod reference;
mod toml;

#[cfg(test)]
mod golden;

use super::Ended;
use super::mcp::Sets;
use super::terminal::Terminal;
use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use client::{Client, Scope, Settings, TOKEN, Way};
use fault::Fault;
use place::Place;
use proctor_ops::error::{Code, OpError};
use proctor_ops::tools::LONGEST_NAME as LONGEST_TOOL;
pub use reference::reference;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Where the daemon serves MCP, unless it was told otherwise.
const URL: &str = "http://127.0.0.1:3001/mcp";

/// A client that runs writes its own file now and then: once more is enough, unless something is wrong.
const TRIES: usize = 5;

/// Clients call a tool `mcp__NAME__TOOL`, of 64 characters at most.
const LONGEST_NAME: usize = 64 - "mcp____".len() - LONGEST_TOOL;

#[derive(Args, Debug)]
struct Options {
    /// Whose configuration to change
    #[arg(value_name = "CLIENT", value_enum)]
    client: Client,
    /// The file of the present folder, shared with whoever works on it, or the user's own; if not given, the folder's if it lists servers already
    #[arg(long, value_name = "SCOPE", value_enum)]
    scope: Option<Scope>,
    /// What the client calls it
    #[arg(long, value_name = "NAME", default_value = "proctor", value_parser = name)]
    name: String,
    /// Which tools to offer: processes, logs, files, git, system, or all; if not given, all but system
    #[arg(long, value_name = "SETS", value_parser = Sets::parse)]
    toolsets: Option<Sets>,
    /// Over HTTP instead of as a program of its own; the token is taken from PROCTOR_TOKEN in the client's environment, and is not written
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = URL, value_parser = url)]
    http: Option<String>,
    /// Take it out again
    #[arg(long, conflicts_with_all = ["http", "toolsets", "print"])]
    remove: bool,
    /// Show what would be changed and where, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print what to paste, and change nothing
    #[arg(long, conflicts_with = "dry_run")]
    print: bool,
}

pub(crate) fn command() -> Command {
    Command::new("install")
        .about("Set up an assistant's client to use Proctor")
        .after_help(
            "\
Everything else in the client's file stays as it is, comments and order included; a file that cannot be read is not touched. Done twice, \
it is done once. An entry that is there already keeps what was added to it. A `--home` or PROCTOR_HOME given here is passed on.

In the user's file the program is called by its full path, in a project's as `proctor`, for others have it elsewhere.

Examples:
  proctor mcp install claude-code
  proctor mcp install cursor --scope project --dry-run
  proctor mcp install codex --print
  proctor mcp install vscode --http
  proctor mcp install zed --remove",
        )
        .defer(Options::augment_args)
}

/// What became of the client's file, or would.
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
            Outcome::Unchanged => format!("{name} is in {path} already"),
            Outcome::Removed => format!("took {name} out of {path}"),
            Outcome::Absent => format!("{name} is not in {path}"),
        }
    }
}

/// What is to be done, and where.
struct Task {
    client: Client,
    scope: Scope,
    path: PathBuf,
    name: String,
    /// `None`: take it out.
    settings: Option<Settings>,
    notes: Vec<String>,
}

pub(crate) fn install(matches: &ArgMatches, arguments: &ArgMatches, terminal: &Terminal) -> Ended {
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
        terminal.note("nothing was written: this is what would change");
    } else if !terminal.quiet {
        terminal.bytes(format!("{}: {told}\n", task.client.title()).as_bytes())?;
    }
    for note in notes {
        terminal.note(&note);
    }
    Ok(0)
}

fn print(task: &Task, terminal: &Terminal) -> Ended {
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
                OpError::bad_input(message).help("leave --http out: over stdio no token is needed")
            })?;
            task.settings = Some(settings);
            task.notes.extend((!options.dry_run).then(|| client.next(scope).to_owned()));
        }
        task.notes.extend(missing(*client));
        Ok(task)
    }

    fn way(&mut self, options: &Options, matches: &ArgMatches) -> Result<Way, OpError> {
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
                    "the Proctor at {url} is meant; --home and PROCTOR_HOME have no say"
                ));
            }
            let sets = sets.map_or_else(String::new, |sets| format!("?toolsets={sets}"));
            return Ok(Way::Http { url: format!("{url}{sets}") });
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
        Ok(Way::Stdio { command, args })
    }

    /// Change the file, or find out what that would change.
    fn perform(&self, dry_run: bool) -> Result<(Outcome, String), OpError> {
        for _ in 0..TRIES {
            let place = Place::read(&self.path)?;
            let old = place.text.as_deref().unwrap_or_default();
            let (outcome, new) = self.changed(old).map_err(|fault| self.refused(&fault, old))?;
            let diff = diff::unified(&self.path, old, &new);
            let done = dry_run || diff.is_empty() || {
                let written = place.write(&new, self.scope);
                written.map_err(|error| place::cannot("write", &self.path, &error))?
            };
            if done {
                return Ok((outcome, diff));
            }
        }
        let message = format!("{} changes whenever it is about to be written", self.path.display());
        Err(OpError::new(Code::Conflict, message)
            .help(format!("end {} and try again", self.client.title())))
    }

    fn changed(&self, old: &str) -> Result<(Outcome, String), Fault> {
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

    /// Nothing to take out here, but the client has it from its other file.
    fn elsewhere(&self, outcome: Outcome) -> Option<String> {
        let other = match self.scope {
            Scope::Project => Scope::User,
            Scope::User => Scope::Project,
        };
        let path = file_of(self.client, other).ok()?;
        let text = Place::read(&path).ok()?.text?;
        let there = change::has(self.client, &text, &self.name).unwrap_or(false);
        let option = format!("`--scope {}`", other.word());
        (outcome == Outcome::Absent && there)
            .then(|| format!("it is in {}: {option} takes it out there", path.display()))
    }

    fn refused(&self, fault: &Fault, text: &str) -> OpError {
        let message = format!("{} is left as it is: {}", self.path.display(), fault.told(text));
        OpError::new(Code::Failed, message)
            .help("put that right and try again, or paste what `--print` shows")
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

/// What becomes of a file of the client with this number: with Proctor in it, and without. `None`: it is left as it is. For those who try
/// what nobody would write.
#[doc(hidden)]
pub fn rewritten(client: usize, text: &str) -> [Option<String>; 2] {
    let clients = Client::value_variants();
    let client = clients[client % clients.len()];
    let way = Way::Stdio { command: "proctor".to_owned(), args: vec!["mcp".to_owned()] };
    let put =
        client.settings(&way).and_then(|ours| change::put(client, text, "proctor", &ours).ok());
    [put, change::remove(client, text, "proctor").ok()]
}

/// A folder that lists servers for this client is a project that wants them there.
fn usual_scope(client: Client, only_print: bool) -> Result<Scope, OpError> {
    let path = file_of(client, Scope::Project)?;
    // In the user's own folder the two are one.
    if file_of(client, Scope::User).is_ok_and(|own| is_same(&own, &path)) {
        return Ok(Scope::User);
    }
    let text = match Place::read(&path) {
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
            Err(OpError::new(Code::Failed, message).help("put that right, or say `--scope user`"))
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
            OpError::new(Code::Failed, format!("cannot tell which folder this is: {error}"))
        }),
        Scope::User => client.user_file(&variable).ok_or_else(|| {
            OpError::bad_input(format!("no place for what {} reads", client.title()))
                .help("set HOME, or give --scope project")
        }),
    }
}

/// It reads the file as soon as it is there; whoever has it elsewhere knows better than we.
fn missing(client: Client) -> Option<String> {
    let folder = client.own_folder(&variable);
    let path = variable("PATH").unwrap_or_default();
    let installed = folder.as_ref().is_some_and(|folder| folder.exists())
        || client.user_file(&variable).is_some_and(|file| file.exists())
        || client.programs().iter().any(|name| program::find(name, path.as_os_str()).is_some());
    let title = client.title();
    (!installed)
        .then(|| format!("{title} does not seem to be installed here; it reads this once it is"))
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn name(text: &str) -> Result<String, String> {
    let legal = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if legal && (1..=LONGEST_NAME).contains(&text.len()) {
        return Ok(text.to_owned());
    }
    Err(format!("at most {LONGEST_NAME} letters, digits, - and _"))
}

fn url(text: &str) -> Result<String, String> {
    if text.starts_with("http://") || text.starts_with("https://") {
        return Ok(text.to_owned());
    }
    Err(format!("expected an address such as {URL}"))
}
