//! `proctor trust`: folders of other users whose configurations may run. It is not an operation, so trust cannot be granted
//! over the network or by an assistant.

use super::CommandResult;
use super::terminal::Terminal;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use proctor_core::home::Home;
use proctor_ops::error::{Code, OpError};
use proctor_sys::{atomic, ownership, small_file};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[derive(Args)]
struct Options {
    /// Folder to trust, with everything below it; lists the trusted folders if omitted
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    folders: Vec<PathBuf>,
    /// Remove the trust
    #[arg(long, requires = "folders")]
    remove: bool,
}

pub(crate) fn command() -> Command {
    Command::new("trust")
        .about("Allow configurations in a folder of another user")
        .after_help(
            "Proctor runs a configuration only if its user and root alone can change the file, its env files and the folders above\n\
             them. In a trusted folder it runs every configuration. In a container, the variable PROCTOR_TRUST (folders,\n\
             separated by colons) in the environment that Proctor starts with does the same.\n\n\
             Examples:\n  proctor trust /srv/shared/app\n  proctor trust --remove /srv/shared/app\n  proctor trust",
        )
        .defer(Options::augment_args)
}

pub(crate) fn trust(home: &Home, arguments: &ArgMatches, terminal: &Terminal) -> CommandResult {
    let options = Options::from_arg_matches(arguments)
        .map_err(|error| OpError::bad_input(error.to_string()))?;
    let mut trusted = read(home)?;
    for folder in &options.folders {
        if options.remove {
            remove(&mut trusted, folder)?;
        } else {
            trusted.insert(real(folder)?);
        }
    }
    if !options.folders.is_empty() {
        write(home, &trusted)?;
    }
    if terminal.json {
        terminal.document(&json!({ "trusted": trusted }))?;
    } else {
        let lines: String = trusted.iter().map(|folder| format!("{folder}\n")).collect();
        terminal.bytes(lines.as_bytes())?;
    }
    Ok(0)
}

/// Returns the canonical path, so a link that changes later trusts nothing new.
fn real(folder: &Path) -> Result<String, OpError> {
    let bad = |why: String| OpError::bad_input(format!("{} {why}", folder.display()));
    let path = folder.canonicalize().map_err(|error| bad(format!("cannot be found: {error}")))?;
    if !path.is_dir() {
        return Err(bad("is not a folder".into()).help("give the folder of the configuration"));
    }
    match path.into_os_string().into_string() {
        Ok(text) if !text.contains('\n') => Ok(text),
        Ok(_) | Err(_) => Err(bad("has a name that cannot be stored in the list".into())),
    }
}

fn remove(trusted: &mut BTreeSet<String>, folder: &Path) -> Result<(), OpError> {
    let written = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let names = [real(folder).unwrap_or_default(), written.display().to_string()];
    if names.iter().any(|name| trusted.remove(name)) {
        return Ok(());
    }
    let message = format!("{} is not a trusted folder", folder.display());
    Err(OpError::new(Code::NotFound, message).help("`proctor trust` lists them"))
}

fn read(home: &Home) -> Result<BTreeSet<String>, OpError> {
    match ownership::read_list(&home.trusted(), &ownership::named_folders()) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(failed(home, "read", &error)),
    }
}

fn write(home: &Home, trusted: &BTreeSet<String>) -> Result<(), OpError> {
    let text: String = trusted.iter().map(|folder| format!("{folder}\n")).collect();
    small_file::private_dir(&home.state)
        .and_then(|()| atomic::replace(&home.trusted(), text.as_bytes(), 0o600))
        .map_err(|error| failed(home, "write", &error))
}

fn failed(home: &Home, what: &str, error: &std::io::Error) -> OpError {
    let path = home.trusted();
    OpError::new(Code::Failed, format!("cannot {what} {}: {error}", path.display()))
}
