//! The daemon's side of Proctor: definitions and wishes, the link to the keeper, health, usage and logs.
//!
//! Reads go to the `registry`, which never waits. Changes go through the one `owner` of the state, which writes
//! `services.json`, updates the registry and tells the keeper, in this order. [`daemon::run`] puts it together.
//! Not here on purpose: permissions (the operations decide) and client protocols (the fronts).

mod added;
pub mod api;
mod apply;
mod args_override;
pub mod audit;
mod board;
mod command;
pub mod daemon;
mod definition;
mod environment;
pub mod error;
mod events;
pub mod files;
pub mod git;
mod lease;
mod link;
mod logs;
mod own_folder;
mod owner;
mod ports;
mod probe;
mod probes;
mod registry;
mod sealed_json;
pub mod secrets;
mod select;
pub mod settings;
mod source;
mod startable;
mod startup;
mod store;
mod tenure;
pub mod tokens;
#[doc(hidden)]
mod trust;
mod unhealthy_file;
pub mod untrusted;
mod upgrade;
mod usage;
mod view;
mod witness;

/// Runs a blocking function on a thread where blocking does no harm.
async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, error::EngineError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| error::EngineError::Failed(format!("a background task failed: {error}")))
}
