//! The source of a configuration: a file, `SUPERVISOR_TARGET_CMD`, or the built-in example; and reading it.
//!
//! Everything here blocks. `proctor_core::config` interprets a configuration, and `apply` applies it.

use crate::api::ConfigRequest;
use crate::environment::Environment;
use crate::error::EngineError;
use crate::secrets;
use crate::trusted_folders;
use proctor_core::config::envfile;
use proctor_core::config::roots::RootDef;
use proctor_core::config::{self, Config, ConfigContext, Problem};
use proctor_core::shell_syntax;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The configuration for a newcomer who has none.
pub(crate) const EXAMPLE: &str = include_str!("example.yaml");

/// One byte more than the parser's limit, so that a larger text can be reported.
const MAX_TEXT: u64 = (1 << 20) + 1;

const TARGET_COMMAND: &str = "SUPERVISOR_TARGET_CMD";
const TARGET_FOLDER: &str = "SUPERVISOR_WORKING_DIR";
/// The origin of a setting that has its default value.
const DEFAULT: &str = "default";
/// The name of the one service that a target command defines.
const TARGET: &str = "target";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfigSource {
    /// Absolute, as given: relative paths in it start from the folder of this name, not of a link's target.
    File(PathBuf),
    Target,
    Example,
}

/// The configuration in force, and the environment it was applied with (`None`: the daemon's own).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CurrentConfig {
    pub(crate) source: ConfigSource,
    pub(crate) given: Option<BTreeMap<String, String>>,
}

impl ConfigSource {
    pub(crate) fn file(&self) -> Option<PathBuf> {
        match self {
            ConfigSource::File(path) => Some(path.clone()),
            ConfigSource::Target | ConfigSource::Example => None,
        }
    }

    /// The folders for file operations: the declared ones, or else the folder of the file.
    pub(crate) fn roots(&self, declared: Option<Vec<RootDef>>) -> Vec<RootDef> {
        let own = || {
            let file = self.file()?;
            let folder = file.parent()?.to_str()?;
            Some(vec![RootDef::of(folder)])
        };
        declared.or_else(own).unwrap_or_default()
    }

    /// Returns true if both name the same configuration, by whatever path.
    pub(crate) fn same_as(&self, other: &ConfigSource) -> bool {
        match (self, other) {
            (ConfigSource::File(one), ConfigSource::File(two)) => {
                let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
                one == two || real(one) == real(two)
            }
            (ConfigSource::Target, ConfigSource::Target)
            | (ConfigSource::Example, ConfigSource::Example) => true,
            (ConfigSource::File(_) | ConfigSource::Target | ConfigSource::Example, _) => false,
        }
    }
}

impl fmt::Display for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigSource::File(path) => write!(f, "{}", path.display()),
            ConfigSource::Target => f.write_str(TARGET_COMMAND),
            ConfigSource::Example => f.write_str(crate::api::EXAMPLE_SOURCE),
        }
    }
}

/// Chooses the configuration and the environment of a request. The order is: the named file, the target command
/// of the request, the configuration in force, the target command of the daemon, the example. A request without
/// an environment keeps the environment of the configuration in force.
pub(crate) fn choose(
    request: ConfigRequest,
    current: Option<&CurrentConfig>,
) -> Result<CurrentConfig, EngineError> {
    let given: Option<BTreeMap<String, String>> =
        request.environment.map(|pairs| pairs.into_iter().collect());
    let kept = |current: &CurrentConfig| given.clone().or_else(|| current.given.clone());
    let targets = match &given {
        Some(given) => given.get(TARGET_COMMAND).is_some_and(|command| !command.is_empty()),
        None => std::env::var_os(TARGET_COMMAND).is_some_and(|command| !command.is_empty()),
    };
    match (request.path, current) {
        (Some(path), current) => {
            let path = std::path::absolute(&path)
                .map_err(|error| EngineError::Unreadable { path, why: error.to_string() })?;
            let source = ConfigSource::File(path);
            let again = current.filter(|current| current.source.same_as(&source));
            let given = again.map_or_else(|| given.clone(), kept);
            Ok(CurrentConfig { source, given })
        }
        (None, _) if targets && given.is_some() => {
            Ok(CurrentConfig { source: ConfigSource::Target, given })
        }
        (None, Some(current @ CurrentConfig { source: ConfigSource::File(_), .. })) => {
            Ok(CurrentConfig { source: current.source.clone(), given: kept(current) })
        }
        (None, _) if targets => Ok(CurrentConfig { source: ConfigSource::Target, given }),
        // The command is not in this caller's environment, but in the previous one.
        (None, Some(CurrentConfig { source: ConfigSource::Target, given })) => {
            Ok(CurrentConfig { source: ConfigSource::Target, given: given.clone() })
        }
        (None, Some(current @ CurrentConfig { source: ConfigSource::Example, .. })) => {
            Ok(CurrentConfig { source: ConfigSource::Example, given: kept(current) })
        }
        (None, None) if request.example => {
            Ok(CurrentConfig { source: ConfigSource::Example, given })
        }
        (None, None) => Err(EngineError::Failed(format!(
            "there is no configuration: write a proctor.yaml, name one, or set {TARGET_COMMAND}"
        ))),
    }
}

/// The texts of the files of a configuration, by absolute path.
pub(crate) type Texts = BTreeMap<PathBuf, String>;

/// The files a configuration is read from: those on disk, or their texts when it was applied.
#[derive(Default)]
pub(crate) struct Files {
    kept: Option<Texts>,
    read: RefCell<Texts>,
}

impl Files {
    pub(crate) fn kept(texts: Texts) -> Files {
        Files { kept: Some(texts), read: RefCell::default() }
    }

    /// The texts read until now.
    pub(crate) fn texts(self) -> Texts {
        self.read.into_inner()
    }

    fn exists(&self, path: &Path) -> bool {
        self.kept.as_ref().map_or_else(|| path.exists(), |kept| kept.contains_key(path))
    }

    fn text(&self, path: &Path) -> Result<String, String> {
        let text = match &self.kept {
            Some(kept) => kept
                .get(path)
                .cloned()
                .ok_or("it did not exist when the configuration was applied")?,
            None => read_text(path)?,
        };
        self.read.borrow_mut().insert(path.to_owned(), text.clone());
        Ok(text)
    }
}

/// Reads a configuration.
pub(crate) fn load(
    source: &ConfigSource,
    environment: &Environment,
    files: &Files,
) -> Result<Config, EngineError> {
    match source {
        ConfigSource::File(path) => load_file(path, environment, files),
        ConfigSource::Target => load_target(environment),
        ConfigSource::Example => {
            parse("example.yaml", EXAMPLE, "/", &|name| variable(environment, name), files)
        }
    }
}

/// The text of a regular file, up to the limit; `Err` says why it cannot be read.
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    let found = std::fs::metadata(path).map_err(|error| plain(&error))?;
    if !found.is_file() {
        // A pipe would block for ever, and a folder gives an unclear error.
        return Err("it is not a regular file".into());
    }
    let file = std::fs::File::open(path).map_err(|error| plain(&error))?;
    trusted_folders::check(path, &file)?;
    let mut bytes = Vec::new();
    file.take(MAX_TEXT).read_to_end(&mut bytes).map_err(|error| plain(&error))?;
    if bytes.len() as u64 == MAX_TEXT {
        return Err("it is larger than 1 MiB".into());
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".into())
}

fn load_file(path: &Path, environment: &Environment, files: &Files) -> Result<Config, EngineError> {
    let unreadable = |why| EngineError::Unreadable { path: path.to_owned(), why };
    let text = files.text(path).map_err(unreadable)?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let beside = dotenv(&folder.join(".env"), files)?;
    let var = |name: &str| variable(environment, name).or_else(|| beside.get(name).cloned());
    let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    parse(&file, &text, &folder.to_string_lossy(), &var, files)
}

/// Reads `.env` next to the configuration; it may be missing.
fn dotenv(path: &Path, files: &Files) -> Result<BTreeMap<String, String>, EngineError> {
    if !files.exists(path) {
        return Ok(BTreeMap::new());
    }
    let unreadable = |why| EngineError::Unreadable { path: path.to_owned(), why };
    let text = files.text(path).map_err(unreadable)?;
    let variables = envfile::parse(".env", &text).map_err(EngineError::BadConfig)?;
    let variables: BTreeMap<String, String> =
        variables.into_iter().map(|variable| (variable.name, variable.value)).collect();
    secrets::learn_variables(variables.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    Ok(variables)
}

/// A configuration with one service, whose values come from variables.
fn load_target(environment: &Environment) -> Result<Config, EngineError> {
    let given = |name: &str| environment.get(name).filter(|value| !value.is_empty());
    let Some(command) = given(TARGET_COMMAND) else {
        return Err(EngineError::Failed(format!("{TARGET_COMMAND} is no longer set")));
    };
    let mut definition = serde_json::json!({ "command": command });
    // There is no 'shell' key that could be set next to the variable.
    if shell_syntax::find(command).is_some_and(|syntax| syntax.is_certain()) {
        definition["shell"] = true.into();
    }
    if let Some(folder) = given(TARGET_FOLDER) {
        definition["working_dir"] = folder.into();
    }
    let text = serde_json::json!({ "supervisor": { "services": { TARGET: definition } } });
    let base = environment.get("PWD").filter(|folder| folder.starts_with('/')).unwrap_or("/");
    let file = format!("environment {TARGET_COMMAND}");
    let var = |name: &str| variable(environment, name);
    let mut config = parse(&file, &text.to_string(), base, &var, &Files::default())?;
    // Positions in a generated text help nobody, so name the variables instead.
    for (key, name) in [("command", TARGET_COMMAND), ("working_dir", TARGET_FOLDER)] {
        let key = format!("services.{TARGET}.{key}");
        let setting = config.settings.iter_mut().find(|setting| setting.key == key);
        if let Some(setting) = setting.filter(|setting| setting.origin != DEFAULT) {
            setting.origin = format!("environment {name}");
        }
    }
    Ok(config)
}

/// Parses one service's block, as added at run time.
pub(crate) fn parse_service(
    file: &str,
    name: &str,
    text: &str,
    base_dir: &str,
    environment: &Environment,
) -> Result<Vec<config::ServiceDef>, EngineError> {
    let var = |name: &str| variable(environment, name);
    let around = ConfigContext { base_dir, var: &var, read: &|path| read_text(Path::new(path)) };
    config::parse_service(file, name, text, &around, environment.secrets())
        .map_err(EngineError::BadConfig)
}

fn parse(
    file: &str,
    text: &str,
    base_dir: &str,
    var: &dyn Fn(&str) -> Option<String>,
    files: &Files,
) -> Result<Config, EngineError> {
    let around = ConfigContext { base_dir, var, read: &|path| files.text(Path::new(path)) };
    config::parse(file, text, &around).map_err(EngineError::BadConfig)
}

fn variable(environment: &Environment, name: &str) -> Option<String> {
    environment.get(name).map(str::to_owned)
}

/// The error text without the number that the standard library appends.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// The problems of a configuration for people, one per line.
pub(crate) fn describe(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn current(source: ConfigSource, mark: &str) -> CurrentConfig {
        CurrentConfig { source, given: Some([("MARK".to_owned(), mark.to_owned())].into()) }
    }

    fn request(path: Option<&str>, example: bool, variables: Option<&[&str]>) -> ConfigRequest {
        let pair = |name: &&str| ((*name).to_owned(), "asked".to_owned());
        let environment = variables.map(|names| names.iter().map(pair).collect());
        ConfigRequest {
            path: path.map(PathBuf::from),
            example,
            environment,
            ..ConfigRequest::default()
        }
    }

    /// The chosen source, and whose environment it gets.
    fn chosen(request: ConfigRequest, current: Option<&CurrentConfig>) -> String {
        match choose(request, current) {
            Ok(CurrentConfig { source, given: None }) => format!("{source}, own"),
            Ok(CurrentConfig { source, given: Some(given) }) => {
                format!("{source}, {}", given.get("MARK").map_or("none", String::as_str))
            }
            Err(_) => "nothing".into(),
        }
    }

    #[test]
    fn the_named_file_comes_first_then_the_target_then_what_is_in_force_then_the_example() {
        let (file, target) = (ConfigSource::File("/a.yaml".into()), ConfigSource::Target);
        let file = current(file, "before");
        let target = current(target, "before");
        let example = current(ConfigSource::Example, "before");
        let mark: Option<&[&str]> = Some(&["MARK"]);
        let command: Option<&[&str]> = Some(&["MARK", TARGET_COMMAND]);
        let rows = [
            (request(Some("/b.yaml"), true, mark), Some(&file), "/b.yaml, asked"),
            (request(Some("/b.yaml"), true, None), Some(&file), "/b.yaml, own"),
            (request(Some("/a.yaml"), true, None), Some(&file), "/a.yaml, before"),
            (request(None, true, mark), Some(&file), "/a.yaml, asked"),
            (request(None, true, command), Some(&file), "SUPERVISOR_TARGET_CMD, asked"),
            (request(None, false, None), Some(&file), "/a.yaml, before"),
            (request(None, true, command), None, "SUPERVISOR_TARGET_CMD, asked"),
            (request(None, true, command), Some(&example), "SUPERVISOR_TARGET_CMD, asked"),
            (request(None, true, command), Some(&target), "SUPERVISOR_TARGET_CMD, asked"),
            (request(None, true, mark), Some(&target), "SUPERVISOR_TARGET_CMD, before"),
            (request(None, false, None), Some(&example), "the built-in example, before"),
            (request(None, true, mark), None, "the built-in example, asked"),
            (request(None, false, mark), None, "nothing"),
        ];
        for (request, current, expected) in rows {
            let asked = format!("{request:?} with {current:?}");
            assert_eq!(chosen(request, current), expected, "{asked}");
        }
    }

    #[test]
    fn only_regular_text_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        assert_eq!(read_text(&file).unwrap_err(), "No such file or directory");
        assert_eq!(read_text(folder.path()).unwrap_err(), "it is not a regular file");
        std::fs::write(&file, [0xff, 0xfe]).unwrap();
        assert_eq!(read_text(&file).unwrap_err(), "it is not UTF-8 text");
        // The limit falls inside a character: the error must still be the size.
        std::fs::write(&file, "ä".repeat(1 << 20)).unwrap();
        assert_eq!(read_text(&file).unwrap_err(), "it is larger than 1 MiB");
        std::fs::write(&file, "text").unwrap();
        assert_eq!(read_text(&file).unwrap(), "text");
    }

    #[test]
    fn problems_are_described_with_their_place_and_what_to_do() {
        let problem = |line, help: Option<&str>| Problem {
            file: "proctor.yaml".into(),
            line,
            column: 5,
            message: "unknown key".into(),
            help: help.map(Into::into),
        };
        let text = describe(&[problem(7, Some("did you mean 'x'?")), problem(0, None)]);
        let expected =
            "proctor.yaml:7:5: unknown key; did you mean 'x'?\nproctor.yaml: unknown key";
        assert_eq!(text, expected);
    }
}
