//! Arguments given with a restart, in place of the configured `args`.
//!
//! They apply while the service is at work. A stop, a restart without arguments and a changed definition end
//! them. A restart by the policy, a new daemon and an upgrade keep them.

use crate::definition::Definition;
use crate::error::EngineError;
use crate::owner::{Owner, WishCommand, lost};
use proctor_core::lifecycle::Wish;
use proctor_core::name::ServiceName;
use std::sync::Arc;

/// Settings for the run that a restart starts.
#[derive(Debug, Clone, Default)]
pub struct RestartWith {
    /// Replaces the configured `args` until the service is stopped, restarted or defined differently.
    pub args: Option<Vec<String>>,
    /// Added to the variables of the service, for this run only.
    pub env: Vec<(String, String)>,
}

impl Owner {
    /// New definitions, with the configured arguments, of those of these services that run with arguments of a
    /// restart.
    pub(crate) async fn as_configured(
        &self,
        names: &[ServiceName],
    ) -> Result<Vec<Arc<Definition>>, EngineError> {
        let known = names.iter().filter_map(|name| self.registry.definition(name));
        let overridden: Vec<_> = known.filter(|it| it.args_override().is_some()).collect();
        if overridden.is_empty() {
            return Ok(Vec::new());
        }
        crate::blocking(move || {
            overridden.iter().map(|old| old.as_configured().map(Arc::new)).collect()
        })
        .await?
    }

    /// The services of these wishes that get their configured arguments back: stopped ones and restarted ones.
    pub(crate) fn ending_overrides(&self, commands: &[WishCommand]) -> Vec<ServiceName> {
        let ends = |name: &ServiceName, wish: Wish| match wish {
            Wish::Down => true,
            Wish::Up | Wish::Once => !self.is_at_work(name),
        };
        let named = commands.iter().flat_map(|it| it.names.iter().map(|name| (name, it.wish)));
        let overridden = named.filter(|(name, _)| self.stored.args.contains_key(*name));
        overridden.filter(|(name, wish)| ends(name, *wish)).map(|(name, _)| name.clone()).collect()
    }

    /// New definitions of these services with other arguments.
    pub(crate) async fn with_arguments(
        &self,
        names: &[ServiceName],
        args: &[String],
    ) -> Result<Vec<Arc<Definition>>, EngineError> {
        let mut definitions = Vec::new();
        for name in names {
            let known = self.registry.definition(name);
            definitions.push(known.ok_or_else(|| lost(name))?);
        }
        let args = args.to_vec();
        crate::blocking(move || {
            definitions.iter().map(|old| old.with_arguments(&args).map(Arc::new)).collect()
        })
        .await?
    }
}
