//! Inputs that several operations share.

use crate::error::OpError;
use crate::operation::{Context, MAX_WAIT};
use crate::timestamps;
use proctor_core::lease;
use proctor_core::shell_syntax::{self, ShellSyntax};
use proctor_core::time::Millis;
use proctor_engine::api::NewService;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Words of a command line: a list, or on the command line one string that is split like in a shell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Words(pub Vec<String>);

impl FromStr for Words {
    type Err = String;

    fn from_str(text: &str) -> Result<Words, String> {
        shlex::split(text).map(Words).ok_or_else(|| "a quote is not closed".into())
    }
}

/// Environment and folder of the caller. A front on the caller's machine fills them in.
#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Caller {
    /// Environment that new services inherit; the daemon's own if omitted
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<BTreeMap<String, String>>,
    /// Absolute folder that relative paths start from
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_dir: Option<String>,
}

impl Caller {
    /// Returns the environment with the caller's folder as `PWD`. The variable itself is the shell's and may be
    /// missing or outdated.
    pub(crate) fn environment(&self) -> Option<Vec<(String, String)>> {
        let mut variables = self.environment.clone()?;
        variables.extend(self.base_dir.clone().map(|folder| ("PWD".into(), folder)));
        Some(variables.into_iter().collect())
    }

    /// Returns `path` as an absolute path, relative to the caller's folder.
    pub(crate) fn resolve(&self, path: &str) -> Result<PathBuf, OpError> {
        let path = Path::new(path);
        if path.is_absolute() {
            return Ok(path.to_path_buf());
        }
        match &self.base_dir {
            Some(base) => Ok(Path::new(base).join(path)),
            None => {
                Err(OpError::bad_input(format!("'{}' is not an absolute path", path.display()))
                    .help("also give 'base_dir', or give an absolute path"))
            }
        }
    }
}

/// Time an operation waits for services.
#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WaitOptions {
    /// Seconds to wait for the services; 0 returns at once
    #[arg(long = "timeout", value_name = "SECONDS", conflicts_with = "no_wait")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<f64>,
    /// Return as soon as the request is accepted
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_wait: bool,
}

impl WaitOptions {
    /// Returns the wait; `usual` if the caller gives none.
    pub(crate) fn duration(&self, usual: Duration) -> Result<Duration, OpError> {
        match (self.no_wait, self.wait) {
            (true, _) => Ok(Duration::ZERO),
            (false, None) => Ok(usual),
            (false, Some(seconds)) => seconds_of("wait", seconds),
        }
    }
}

/// Selects whether CPU and memory of services are measured.
#[derive(Debug, Clone, Default, PartialEq, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MeasureOption {
    /// Measure CPU and memory also of more than 100 services
    #[arg(long, conflicts_with = "no_usage")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub usage: bool,
    /// Omit CPU and memory; measuring reads every process
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_usage: bool,
}

/// Returns a requested wait, checked against the limit.
pub(crate) fn seconds_of(field: &str, seconds: f64) -> Result<Duration, OpError> {
    Duration::try_from_secs_f64(seconds).ok().filter(|wait| *wait <= MAX_WAIT).ok_or_else(|| {
        OpError::bad_input(format!(
            "{field}: {seconds} is not between 0 and {} seconds",
            MAX_WAIT.as_secs()
        ))
    })
}

/// Policy for restarts after an exit.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum RestartPolicy {
    /// Restart after every exit
    Always,
    /// Restart after a failure
    #[value(alias = "on-failure")]
    OnFailure,
    Never,
    /// Expected to finish; every exit but success is a failure
    #[value(alias = "one-shot")]
    OneShot,
}

/// A service defined by a request instead of a file.
#[derive(Debug, Clone, Default, PartialEq, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Definition {
    /// Program and arguments, split like in a shell; with --shell, a line for /bin/sh, as `a | b` or `X=1 a` need
    #[arg(long, value_name = "COMMAND", conflicts_with = "argv")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Arguments added to the command, split like in a shell: --args "--port 3000"
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Words>,
    /// Environment variable KEY=VALUE; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = variable)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Working folder; the caller's folder if omitted
    #[arg(long, value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// Run the command through /bin/sh
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shell: bool,
    /// When to restart the service after an exit
    #[arg(long, value_name = "POLICY")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<RestartPolicy>,
    /// Port the service listens on, passed to it as PORT
    #[arg(long, value_name = "PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Restart the service when this URL fails: http://localhost:3000/health
    #[arg(long, value_name = "URL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_check_url: Option<String>,
    /// Replace an added service with this name instead of failing
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
    /// Stop and remove the service after this time without use by its owner: 30m, 2h
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// Program and arguments, one word each, used literally
    #[arg(last = true, value_name = "PROGRAM")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
}

pub(crate) fn variable(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, _)) if !name.is_empty() => Ok(text.to_owned()),
        _ => Err("write KEY=VALUE".into()),
    }
}

impl Definition {
    /// Returns the keys of a service as in `proctor.yaml`.
    pub(crate) fn keys(&self) -> Result<Map<String, Value>, OpError> {
        let mut keys = Map::new();
        self.refuse_shell_syntax()?;
        match (&self.command, self.argv.is_empty()) {
            (Some(command), true) => keys.insert("command".into(), json!(literal(command))),
            (None, false) => keys.insert("command".into(), literals(&self.argv)),
            (Some(_), false) => {
                return Err(OpError::bad_input("give 'command' or 'argv', not both"));
            }
            (None, true) => {
                return Err(OpError::bad_input("a new service needs a command")
                    .help("for example: proctor start --name web --command \"npm run dev\""));
            }
        };
        if let Some(args) = &self.args {
            keys.insert("args".into(), literals(&args.0));
        }
        if !self.env.is_empty() {
            keys.insert("env".into(), literals(&self.env));
        }
        if let Some(folder) = &self.working_dir {
            keys.insert("working_dir".into(), json!(literal(folder)));
        }
        if self.shell {
            keys.insert("shell".into(), json!(true));
        }
        if let Some(policy) = self.restart_policy {
            keys.insert("restart_policy".into(), json!(policy));
        }
        if let Some(port) = self.port {
            keys.insert("port".into(), json!(port));
        }
        if let Some(url) = &self.health_check_url {
            keys.insert("health_check_url".into(), json!(literal(url)));
        }
        Ok(keys)
    }

    fn refuse_shell_syntax(&self) -> Result<(), OpError> {
        let text = self.command.as_deref().filter(|_| !self.shell).unwrap_or("");
        match shell_syntax::find(text).filter(ShellSyntax::is_certain) {
            None => Ok(()),
            Some(syntax) => {
                let message = format!("command: {syntax}, but no shell runs this command");
                Err(OpError::bad_input(message).help(format!("{} (--shell)", syntax.advice())))
            }
        }
    }

    /// Returns a service owned by the caller.
    pub(crate) fn new_service(
        &self,
        context: &Context,
        name: &str,
        keys: Map<String, Value>,
        caller: &Caller,
    ) -> Result<NewService, OpError> {
        let base_dir = match (&caller.base_dir, &self.working_dir) {
            (Some(base), _) => base.clone(),
            (None, Some(folder)) if Path::new(folder).is_absolute() => folder.clone(),
            (None, _) => {
                return Err(OpError::bad_input("the folder of this service is missing")
                    .help("give an absolute 'working_dir', or 'base_dir'"));
            }
        };
        Ok(NewService {
            name: name.to_owned(),
            definition: Value::Object(keys).to_string(),
            base_dir,
            environment: caller.environment(),
            replace: self.replace,
            keep: false,
            owner: context.caller.client.clone(),
            lease: self.lease.as_deref().map(lease_of).transpose()?,
            start: None,
        })
    }
}

/// Parses a lease as people write it.
pub(crate) fn lease_of(text: &str) -> Result<Millis, OpError> {
    let micros = timestamps::duration(text).and_then(|micros| u64::try_from(micros).ok());
    let fits = |length: &Millis| (lease::SHORTEST..=lease::MAX_LEASE).contains(length);
    micros.map(|micros| Millis(micros / 1000)).filter(fits).ok_or_else(|| {
        OpError::bad_input(format!("lease: '{text}' is not a duration from 1s to 366d"))
            .help("write 30m, 2h or 1d")
    })
}

/// Escapes the words of a request: `${X}` in them is meant for the service's shell, not for the configuration.
pub(crate) fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

pub(crate) fn literals(words: &[String]) -> Value {
    words.iter().map(|word| literal(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_becomes_the_keys_of_a_configuration() {
        let definition = Definition {
            command: Some("echo ${HOME} $X".into()),
            args: Some("--name 'a b'".parse().unwrap()),
            env: vec!["A=b=c".into()],
            shell: true,
            restart_policy: Some(RestartPolicy::OnFailure),
            ..Definition::default()
        };
        assert_eq!(
            Value::Object(definition.keys().unwrap()),
            json!({
                "command": "echo $${HOME} $$X",
                "args": ["--name", "a b"],
                "env": ["A=b=c"],
                "shell": true,
                "restart_policy": "on_failure",
            })
        );
        for (command, token) in [("a | b", "'|'"), ("PORT=3 node x", "'PORT='"), ("a $X", "'$X'")] {
            let plain = Definition { command: Some(command.into()), ..Definition::default() };
            let error = plain.keys().unwrap_err();
            assert!(error.message.contains(token), "{error:?}");
            assert!(error.help.unwrap().contains("shell: true"), "{command}");
            assert!(Definition { shell: true, ..plain }.keys().is_ok(), "{command}");
        }
        assert!("it's".parse::<Words>().is_err(), "an open quote was taken");
        assert!(Definition::default().keys().unwrap_err().help.unwrap().contains("--command"));
    }

    #[test]
    fn relative_paths_need_the_callers_folder() {
        let here = Caller { base_dir: Some("/srv".into()), ..Caller::default() };
        assert_eq!(here.resolve("a/b.yaml").unwrap(), Path::new("/srv/a/b.yaml"));
        assert_eq!(Caller::default().resolve("/b.yaml").unwrap(), Path::new("/b.yaml"));
        assert!(Caller::default().resolve("b.yaml").is_err());
        let shell = [("PWD".to_owned(), "/old".to_owned()), ("A".to_owned(), "b".to_owned())];
        let there = Caller { environment: Some(shell.into()), ..here };
        let pairs = [("A", "b"), ("PWD", "/srv")].map(|(key, value)| (key.into(), value.into()));
        assert_eq!(there.environment(), Some(pairs.into()));
    }

    #[test]
    fn leases_have_a_bound() {
        for (text, seconds) in [("1s", 1), ("30m", 1800), ("1h30m", 5400), ("366d", 31_622_400)] {
            assert_eq!(lease_of(text).unwrap(), Millis::seconds(seconds), "{text}");
        }
        for bad in ["", "0s", "999ms", "367d", "soon", "-1h", "30", "99999999999999999999h"] {
            assert!(lease_of(bad).unwrap_err().message.starts_with("lease: "), "{bad}");
        }
    }

    #[test]
    fn waits_have_a_bound() {
        let wait =
            |seconds| WaitOptions { wait: Some(seconds), no_wait: false }.duration(Duration::ZERO);
        assert_eq!(wait(1.5).unwrap(), Duration::from_millis(1500));
        for bad in [-1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert!(wait(bad).is_err(), "{bad}");
        }
    }
}
