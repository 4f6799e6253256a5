//! Verifies that a file is a Proctor binary, before the keeper executes it.

use crate::error::EngineError;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// Timeout for `--version`. It takes a millisecond; a slow disk may take longer.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);

/// The version that a binary reports with `--version`.
pub(crate) async fn version(binary: &Path) -> Result<String, EngineError> {
    let refused = |why: String| EngineError::NoProctor { path: binary.to_owned(), why };
    let asked = Command::new(binary)
        .arg("--version")
        .env_clear()
        .envs(proctor_sys::plain_environment::variables())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let said = match tokio::time::timeout(UPGRADE_TIMEOUT, asked).await {
        Ok(said) => said.map_err(|error| refused(error.to_string()))?,
        Err(_) => {
            return Err(refused(format!(
                "it printed no version within {} s",
                UPGRADE_TIMEOUT.as_secs()
            )));
        }
    };
    let text = String::from_utf8_lossy(&said.stdout);
    match text.trim().strip_prefix("proctor ") {
        Some(version) if said.status.success() => Ok(version.to_owned()),
        Some(_) | None => Err(refused("its --version does not name Proctor".into())),
    }
}
