//! Commands in requests: their forms, their meaning, the rights they need, and their results.
//!
//! The caller and the server's own list decide whether a command may run, never the request itself: `is_safe` is accepted
//! because clients send it, and is ignored.

use crate::error::{Code, OpError};
use crate::execute_rules::{check_variables, choose_surroundings, is_permitted, permit};
use crate::operation::Context;
use crate::text_output::{Page, Style};
use proctor_core::config::{redact, signal};
use proctor_core::shell_syntax::{self, ShellSyntax, SyntaxKind};
use proctor_engine::api::{CommandEnvironment, CommandExit, CommandOutcome, CommandPlan};
use proctor_engine::secrets::hide;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

/// A command: a string that is split like in a shell or run by one, a list of literal words, or an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Command {
    /// Program and arguments, split like in a shell; run by /bin/sh if there are shell operators, variables or patterns
    Text(String),
    /// Program and arguments, used literally
    Words(Vec<String>),
    Custom(Custom),
}

/// A command with all its options.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Custom {
    /// Type of `command`: make targets, a shell command line, a program, or a cargo subcommand; any case
    pub command_type: Kind,
    /// Command, as `command_type` says
    pub command: String,
    /// More arguments, used literally
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Working folder; that of the service or of the caller if omitted
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// Variables added to the environment
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Description for people
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Accepted and ignored: the server decides what may run
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_safe: Option<bool>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", rename_all = "snake_case")]
pub enum Kind {
    Make,
    Shell,
    #[default]
    Binary,
    Cargo,
}

impl TryFrom<String> for Kind {
    type Error = String;

    fn try_from(text: String) -> Result<Kind, String> {
        match text.to_ascii_lowercase().as_str() {
            "make" => Ok(Kind::Make),
            "shell" => Ok(Kind::Shell),
            "binary" => Ok(Kind::Binary),
            "cargo" => Ok(Kind::Cargo),
            _ => {
                Err(format!("command_type: '{text}' is invalid; use make, shell, binary or cargo"))
            }
        }
    }
}

impl JsonSchema for Kind {
    fn schema_name() -> Cow<'static, str> {
        "CommandType".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words = ["make", "shell", "binary", "cargo"].map(|word| {
            let letter = |c: char| format!("[{}{c}]", c.to_ascii_uppercase());
            word.chars().map(letter).collect::<String>()
        });
        json_schema!({ "type": "string", "pattern": format!("^({})$", words.join("|")) })
    }
}

/// Decodes each shape with its own error.
impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Command, D::Error> {
        match Value::deserialize(from)? {
            Value::String(text) => Ok(Command::Text(text)),
            value @ Value::Array(_) => serde_json::from_value(value).map(Command::Words),
            value @ Value::Object(_) => serde_json::from_value(value).map(Command::Custom),
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                return Err(D::Error::custom(
                    "a command must be a string, a list of words or an object",
                ));
            }
        }
        .map_err(D::Error::custom)
    }
}

impl FromStr for Command {
    type Err = String;

    fn from_str(text: &str) -> Result<Command, String> {
        match shell_syntax::find(text) {
            Some(_) => Ok(Command::Text(text.to_owned())),
            None => split(text).map(|_| Command::Text(text.to_owned())),
        }
    }
}

fn split(text: &str) -> Result<Vec<String>, String> {
    shlex::split(text).ok_or_else(|| "a quote is not closed".into())
}

impl Command {
    /// Returns program and arguments, never empty. `allows` tells whether the caller may run them.
    pub(crate) fn argv(&self, allows: impl Fn(&[String]) -> bool) -> Result<Vec<String>, OpError> {
        let argv = match self {
            Command::Text(text) => match shell_syntax::find(text) {
                Some(_) if allows(&shell_argv(text)) => Ok(shell_argv(text)),
                Some(syntax) if syntax.is_certain() => return Err(needs_shell(&syntax)),
                Some(_) | None => split(text),
            },
            Command::Words(words) => Ok(words.clone()),
            Command::Custom(custom) => custom.argv(),
        };
        let argv = argv.map_err(|why| OpError::bad_input(format!("command: {why}")))?;
        match argv.first().map(String::as_str) {
            None | Some("") => Err(OpError::bad_input("command: it is empty")),
            Some(_) if argv.iter().any(|word| word.contains('\0')) => {
                Err(OpError::bad_input("command: a word contains a zero byte"))
            }
            Some(_) => Ok(argv),
        }
    }

    fn custom(&self) -> Option<&Custom> {
        match self {
            Command::Custom(custom) => Some(custom),
            Command::Text(_) | Command::Words(_) => None,
        }
    }
}

fn shell_argv(text: &str) -> Vec<String> {
    ["/bin/sh", "-c", text].map(String::from).into()
}

fn needs_shell(syntax: &ShellSyntax) -> OpError {
    let message = format!("command: {syntax}, and this interface may not run a shell");
    OpError::new(Code::Forbidden, message).help(
        "run one program at a time; quote the text if it is an argument; or list `/bin/sh -c ...` in `security.execute.allowed`",
    )
}

/// Splits the arguments of a program that no shell runs.
fn split_for(program: &str, text: &str) -> Result<Vec<String>, String> {
    let syntax = shell_syntax::find(text).filter(|found| match found.kind {
        SyntaxKind::Operator | SyntaxKind::Expansion => true,
        // `make V=1` sets a make variable.
        SyntaxKind::Assignment | SyntaxKind::Pattern => false,
    });
    match syntax {
        Some(syntax) => Err(format!(
            "{syntax}: use the command_type 'shell' and write '{program}' in the command"
        )),
        None => Ok([vec![program.to_owned()], split(text)?].concat()),
    }
}

impl Custom {
    fn argv(&self) -> Result<Vec<String>, String> {
        let mut argv: Vec<String> = match self.command_type {
            Kind::Make => split_for("make", &self.command)?,
            Kind::Cargo => split_for("cargo", &self.command)?,
            Kind::Binary => vec![self.command.clone()],
            Kind::Shell if self.command.trim().is_empty() => Vec::new(),
            // The word after the command line is $0, the shell's own name.
            Kind::Shell => {
                ["/bin/sh", "-c", &self.command, "sh"].map(String::from).into_iter().collect()
            }
        };
        argv.extend(self.args.iter().flatten().cloned());
        Ok(argv)
    }
}

/// A command that may run, with its settings.
pub(crate) struct PlannedCommand {
    /// The command with masked secrets.
    pub(crate) shown: String,
    plan: CommandPlan,
}

/// Decides whether and how a command runs, without side effects.
pub(crate) fn plan(
    context: &Context,
    command: &Command,
    around: &CommandEnvironment,
    env: &BTreeMap<String, String>,
    limit: Duration,
) -> Result<PlannedCommand, OpError> {
    let (argv, shown) = context.engine.security(|security| {
        let may_run = |argv: &[String]| is_permitted(&context.caller, &security.execute, argv);
        let argv = command.argv(may_run)?;
        let shown = hide(&redact::request_command_line(&argv)).into_owned();
        permit(&context.caller, &security.execute, &argv, &shown)?;
        Ok::<_, OpError>((argv, shown))
    })?;
    let custom = command.custom();
    let folder = custom.and_then(|custom| custom.working_dir.as_deref()).unwrap_or("");
    let own = custom.and_then(|custom| custom.env.as_ref()).into_iter().flatten();
    let variables: Vec<_> = env.iter().chain(own).collect();
    check_variables(context, variables.iter().map(|(name, _)| name.as_str()))?;
    choose_surroundings(context, [("working_dir", !folder.is_empty())])?;
    let mut all = around.env.clone();
    for (name, value) in variables {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(OpError::bad_input(format!("env: '{name}' is not a valid variable name")));
        }
        all.push((name.clone(), value.clone()));
    }
    let working_dir = around.working_dir.join(folder);
    Ok(PlannedCommand { shown, plan: CommandPlan { argv, env: all, working_dir, limit } })
}

/// Result of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandResult {
    /// Command as it was run; secrets are masked
    pub command: String,
    /// The command ended by itself with exit code 0
    pub success: bool,
    /// Exit code; null if a signal ended the command or it was never started
    pub exit_code: Option<i32>,
    /// Standard output; invalid UTF-8 is replaced
    pub stdout: String,
    /// Standard error; invalid UTF-8 is replaced
    pub stderr: String,
    /// Duration in milliseconds
    pub execution_time_ms: u64,
    /// Reason of a failure that the exit code does not show
    pub error_message: Option<String>,
    /// Output exceeded the limit: only the beginning and the end of each stream are included
    #[serde(default)]
    pub truncated: bool,
    /// Processes that the command left running and that were killed
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub killed: Vec<String>,
}

impl PlannedCommand {
    /// Runs the command to its end.
    pub(crate) async fn run(self, context: &Context) -> Result<CommandResult, OpError> {
        let limit = self.plan.limit;
        context.step(format!("running {}", self.shown));
        let finished = context.engine.run_command(self.plan).await?;
        let result = CommandResult::of(self.shown, finished, limit);
        context.step(result.sentence());
        Ok(result)
    }
}

impl CommandResult {
    fn of(command: String, finished: CommandOutcome, limit: Duration) -> CommandResult {
        let (exit_code, error_message) = match finished.end {
            CommandExit::Code(0) => (Some(0), None),
            CommandExit::Code(code) => (Some(code), Some(format!("exited with code {code}"))),
            CommandExit::Signal(number) => {
                (None, Some(format!("killed by {}", signal::long_name(number))))
            }
            CommandExit::TimedOut => {
                let seconds = limit.as_secs_f64();
                let text = format!("timed out after {seconds} s; all its processes were killed");
                (None, Some(text))
            }
            CommandExit::NotStarted(why) => (None, Some(why)),
        };
        CommandResult {
            command,
            success: exit_code == Some(0),
            exit_code,
            stdout: finished.stdout,
            stderr: finished.stderr,
            execution_time_ms: u64::try_from(finished.took.as_millis()).unwrap_or(u64::MAX),
            error_message,
            truncated: finished.truncated,
            killed: finished.left,
        }
    }

    /// Sentence such as `make test: exited with code 2`.
    pub(crate) fn sentence(&self) -> String {
        let end = self.error_message.as_deref().unwrap_or("done");
        format!("{}: {end}", self.command)
    }

    pub(crate) fn show(&self, page: &mut Page) {
        page.command_output(&self.stdout, &self.stderr);
        if let Some(message) = &self.error_message {
            page.line().name(&self.command).plain(": ").add(Style::Bad, message);
        }
        if !self.killed.is_empty() {
            let left = self.killed.join(", ");
            let text = format!(
                "killed because it was left running: {left}; start a long-running program as a service"
            );
            page.remark(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(command: Value, expected: Result<&[&str], &str>) {
        let argv = serde_json::from_value::<Command>(command.clone())
            .map_err(|error| error.to_string())
            .and_then(|command| command.argv(|_| true).map_err(|error| error.message));
        match (argv, expected) {
            (Ok(argv), Ok(expected)) => assert_eq!(argv, expected, "{command}"),
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{command}: {error}"),
            (argv, _) => panic!("{command} gave {argv:?}"),
        }
    }

    #[test]
    fn every_way_to_write_a_command_means_one_list_of_words() {
        check(json!("echo 'a b' c"), Ok(&["echo", "a b", "c"]));
        check(json!(["echo", "a b", "'"]), Ok(&["echo", "a b", "'"]));
        let custom = |kind: &str, command: &str, args: Value| json!({ "command_type": kind, "command": command, "args": args, "is_safe": true });
        check(custom("Make", "build test", json!(["V=1"])), Ok(&["make", "build", "test", "V=1"]));
        check(custom("make", "", json!(null)), Ok(&["make"]));
        check(custom("CARGO", "test --lib", json!([])), Ok(&["cargo", "test", "--lib"]));
        check(custom("Binary", "/opt/a b", json!(["x y"])), Ok(&["/opt/a b", "x y"]));
        let shell = ["/bin/sh", "-c", "echo $1", "sh", "a b"];
        check(custom("Shell", "echo $1", json!(["a b"])), Ok(&shell));
    }

    #[test]
    fn a_text_with_shell_syntax_runs_in_a_shell_or_is_refused() {
        for text in ["true && false", "echo x > f", "A=1 make", "echo $HOME", "cat <<E\nit's\nE"] {
            check(json!(text), Ok(&["/bin/sh", "-c", text]));
            let command: Command = serde_json::from_value(json!(text)).unwrap();
            let error = command.argv(|_| false).unwrap_err();
            assert_eq!(error.code, Code::Forbidden, "{text}");
            assert!(error.message.contains("needs a shell"), "{text}: {error:?}");
            assert_eq!(text.parse::<Command>(), Ok(command));
        }
        // Without a shell, a pattern is an argument.
        check(json!("ls *.rs"), Ok(&["/bin/sh", "-c", "ls *.rs"]));
        let pattern = Command::Text("ls *.rs".into());
        assert_eq!(pattern.argv(|_| false).unwrap(), ["ls", "*.rs"]);
        // A list of words is used literally.
        check(json!(["echo", "a && b", "&&", "$X"]), Ok(&["echo", "a && b", "&&", "$X"]));
        check(json!({ "command_type": "make", "command": "a && b" }), Err("'&&' needs a shell"));
        check(json!({ "command_type": "make", "command": "V=1 a" }), Ok(&["make", "V=1", "a"]));
    }

    #[test]
    fn what_is_no_command_is_refused_with_the_reason() {
        check(json!("it's"), Err("a quote is not closed"));
        check(json!(""), Err("it is empty"));
        check(json!([]), Err("it is empty"));
        check(json!(["a\0b"]), Err("zero byte"));
        check(json!(7), Err("a string, a list of words or an object"));
        check(
            json!({ "command_type": "perl", "command": "x" }),
            Err("'perl' is invalid; use make"),
        );
        check(json!({ "command_type": "shell", "command": " " }), Err("it is empty"));
        check(json!({ "command_type": "shell" }), Err("missing field `command`"));
        check(json!({ "command": "x", "command_type": "shell", "safe": 1 }), Err("unknown field"));
    }
}
