//! Starts Proctor from the command line: in the background, or in this process.

use crate::keeper::{self, ForegroundConfig, PassedOptions, SELF};
use anyhow::{Context, Result, bail};
use proctor_core::home::{Home, OwnFolder};
use proctor_front::cli::{Launch, Launching};
use proctor_sys::ownership::{self, Owners};
use proctor_sys::small_file::Lock;
use proctor_sys::{inherited_fds, own_file, own_folder};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Maximum size of the own log; a start sets a larger one aside and keeps one older generation.
const OWN_LOG_SIZE: u64 = 4 << 20;

pub(crate) struct Launcher;

impl Launch for Launcher {
    fn launch(&self, home: &Home, how: &Launching) -> Result<u32, String> {
        let (foreground, log_level) = (how.foreground, how.log_level.clone());
        let holds_listeners = how.holds_listeners;
        let manner = PassedOptions { foreground, log_level, port: how.port, holds_listeners };
        refuse_foreign(home)?;
        refuse_taken_names(home)?;
        let launched = match how.foreground {
            true => in_foreground(home, manner, ForegroundConfig(how.config.as_deref())),
            false => in_background(home, &manner),
        };
        launched.map_err(|error| format!("{error:#}"))
    }
}

/// Refuses a home that another user can change: its services would run as us.
fn refuse_foreign(home: &Home) -> Result<(), String> {
    let trusted = ownership::named_folders();
    // A runtime folder of ours is judged by `own_folder`, which can correct it or move it aside.
    let is_ours = |found: std::fs::Metadata| Owners::ours().include(found.uid());
    let runtime = match home.runtime.symlink_metadata().is_ok_and(is_ours) {
        true => home.runtime.parent().unwrap_or(&home.runtime),
        false => &home.runtime,
    };
    for folder in [&home.state, runtime] {
        let checked = Owners::ours().check_folder(folder, &trusted);
        let checked =
            checked.map_err(|error| format!("cannot check {}: {error}", folder.display()))?;
        if let Err(foreign) = checked {
            return Err(format!(
                "{foreign}, and Proctor would keep its files in {}; choose another folder with --home, or set PROCTOR_TRUST={}",
                folder.display(),
                foreign.path.display()
            ));
        }
    }
    Ok(())
}

/// Where no Proctor ran yet, whatever has the name of a folder of ours belongs to somebody else: it is neither used, unless it
/// is a folder of ours, nor moved.
fn refuse_taken_names(home: &Home) -> Result<(), String> {
    let marks = [home.state_lock(), home.tokens_json(), home.audit_head()];
    if marks.iter().any(|path| path.symlink_metadata().is_ok()) {
        return Ok(());
    }
    for folder in OwnFolder::ALL {
        let path = home.folder(folder);
        if let Err(error) = own_folder::check(&path, folder.rule())
            && let Some(unsound) = own_folder::unsound(&error)
        {
            return Err(format!(
                "{} {unsound}, and Proctor would keep its files there; move it away, correct it, or name another folder with --home",
                path.display()
            ));
        }
    }
    Ok(())
}

/// Become the keeper; returns when it has ended.
fn in_foreground(home: &Home, manner: PassedOptions, config: ForegroundConfig<'_>) -> Result<u32> {
    if let Some(pid) = Lock::holder(&home.lock()) {
        bail!(
            "Proctor is already running here (keeper pid {pid}, home {}); stop it with `proctor daemon stop`, or choose another home with --home",
            home.state.display()
        );
    }
    keeper::run_in_foreground(home.clone(), manner, config)?;
    Ok(std::process::id())
}

/// Starts a keeper that outlives us; returns when its daemon responds. A keeper started by another process counts.
fn in_background(home: &Home, manner: &PassedOptions) -> Result<u32> {
    own_folder::make(&home.state, OwnFolder::State.rule()).with_context(|| {
        format!(
            "cannot make {}; move it away, or name another folder with --home",
            home.state.display()
        )
    })?;
    let log = own_log(&home.own_log())
        .with_context(|| format!("cannot write {}", home.own_log().display()))?;
    let (mut ready, theirs) = std::io::pipe().context("cannot create a pipe")?;
    inherited_fds::set_inherited(&theirs, true).context("cannot pass a descriptor on")?;
    let words = keeper::command(keeper::TITLE, keeper::ROLE, home, manner);
    let mut child = Command::new(SELF)
        .arg0(&words[0])
        .args(&words[1..])
        .args(["--ready-fd", &theirs.as_raw_fd().to_string()])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("cannot copy a descriptor")?)
        .stderr(log)
        .spawn()
        .context("cannot start the keeper")?;
    drop(theirs);
    // A line comes when its daemon is ready; nothing comes if it died.
    let mut said = Vec::new();
    ready.read_to_end(&mut said).context("cannot wait for the keeper")?;
    if said.is_empty() {
        let status = child.wait().context("cannot wait for the keeper")?;
        if let Some(pid) = Lock::holder(&home.lock()) {
            return Ok(pid);
        }
        bail!(
            "the keeper ended at once ({status}); the end of {}:\n{}",
            home.own_log().display(),
            last_lines(home)
        );
    }
    Ok(child.id())
}

fn own_log(path: &Path) -> std::io::Result<File> {
    if std::fs::symlink_metadata(path).is_ok_and(|it| it.is_file() && it.len() > OWN_LOG_SIZE) {
        std::fs::rename(path, path.with_extension("log.1"))?;
    }
    own_file::or_set_aside(path, own_file::append)
}

/// Returns the end of the own log, for a failed start.
fn last_lines(home: &Home) -> String {
    const LINES: usize = 5;
    let mut text = String::new();
    if let Ok(mut log) = own_file::read(&home.own_log()) {
        // Text that is not UTF-8 is not shown.
        let _ = log.read_to_string(&mut text);
    }
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
