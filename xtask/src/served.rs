//! A Proctor with its own home for external tests; ended on drop.

use crate::step::{cargo, output, succeed};
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) struct Served {
    pub(crate) proctor: PathBuf,
    pub(crate) home: PathBuf,
}

/// The binary beside this program, where cargo puts them all: already built by tests, or built now.
pub(crate) fn program(name: &str, package: &str, is_built: bool) -> Result<PathBuf> {
    let program = std::env::current_exe()
        .context("cannot find the path of this program")?
        .with_file_name(name);
    if !is_built || !program.is_file() {
        succeed(cargo(&["build", "--package", package])?)?;
    }
    Ok(program)
}

impl Served {
    /// Starts with this configuration and these variables in the daemon's environment.
    pub(crate) fn start(
        proctor: &Path,
        name: &str,
        config: &str,
        environment: &[(&str, &str)],
    ) -> Result<Served> {
        let home = std::env::temp_dir().join(format!("proctor-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&home).context("cannot create a home")?;
        std::fs::write(home.join("proctor.yaml"), config)
            .context("cannot write a configuration")?;
        let served = Served { proctor: proctor.to_owned(), home };
        let mut up = served.command(&["up", "-d"]);
        up.envs(environment.iter().copied());
        output(up)?;
        Ok(served)
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.proctor);
        command.arg("--home").arg(&self.home).args(words).current_dir(&self.home);
        command.env_remove("PROCTOR_HTTP_PORT").env_remove("SUPERVISOR_PORT").stdin(Stdio::null());
        command
    }

    pub(crate) fn json(&self, words: &[&str]) -> Result<Value> {
        let mut command = self.command(&["--json"]);
        command.args(words);
        serde_json::from_str(&output(command)?).context("it did not print JSON")
    }

    /// The HTTP address.
    pub(crate) fn address(&self) -> Result<String> {
        let status = self.json(&["daemon", "status"])?;
        let address = status["listening"]["http"].as_str().context("it does not serve HTTP")?;
        Ok(address.to_owned())
    }

    pub(crate) fn daemon_pid(&self) -> Result<u64> {
        let status = self.json(&["daemon", "status"])?;
        status["daemon"]["pid"].as_u64().context("the daemon has no pid")
    }

    /// Creates a token and returns its secret.
    pub(crate) fn token(&self, name: &str, role: &str) -> Result<String> {
        let token = self.json(&["token", "create", name, "--role", role])?;
        Ok(token["secret"].as_str().context("no token was shown")?.to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may already be gone, and the test has failed then.
        let _ = self.command(&["down"]).output();
        let _ = std::fs::remove_dir_all(&self.home);
    }
}
