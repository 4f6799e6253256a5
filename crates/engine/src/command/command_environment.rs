//! Defaults for a command: the environment and the folder of a service, or of the configuration.

use crate::environment::Environment;
use crate::error::EngineError;
use crate::owner::lost;
use crate::registry::Registry;
use proctor_core::name::ServiceName;
use std::path::PathBuf;

/// The command's own variables are added to these, and its folder is relative to this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandEnvironment {
    pub env: Vec<(String, String)>,
    pub working_dir: PathBuf,
}

/// The defaults of a service if one is named; else of the caller, as far as given; else of the configuration in
/// force.
pub(crate) fn of(
    registry: &Registry,
    service: Option<&ServiceName>,
    given: (Option<Vec<(String, String)>>, Option<PathBuf>),
) -> Result<CommandEnvironment, EngineError> {
    if let Some(name) = service {
        let definition = registry.definition(name).ok_or_else(|| lost(name))?;
        let exec = &definition.spec().exec;
        let env = definition.environment().shared().iter().chain(&exec.env).cloned().collect();
        return Ok(CommandEnvironment { env, working_dir: exec.working_dir.clone().into() });
    }
    let current = registry.current();
    let of_config = || current.as_ref().and_then(|current| current.given.clone());
    let environment = given.0.map(|pairs| pairs.into_iter().collect()).or_else(of_config);
    let environment = environment.unwrap_or_else(Environment::own);
    let environment = Environment::new(environment, &registry.own_secrets())?;
    let folder = || Some(current.as_ref()?.source.file()?.parent()?.to_owned());
    let working_dir = given.1.or_else(folder).unwrap_or_else(|| "/".into());
    Ok(CommandEnvironment { env: environment.shared().to_vec(), working_dir })
}
