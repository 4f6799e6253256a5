//! The daemon's side of Proctor: definitions and wishes, the link to the keeper, health, usage and logs.
//!
//! Reads go to the `registry`, which never waits. Changes go through the one `owner` of the state, which writes
//! `services.json`, updates the registry and tells the keeper, in this order. [`daemon::run`] puts it together.
//! Not here on purpose: permissions (the operations decide) and client protocols (the fronts).

mod added_services;
pub mod api;
mod apply_config;
mod args_override;
pub mod audit;
mod binary_check;
mod command;
mod config_source;
pub mod daemon;
mod daemon_startup;
mod definition;
mod environment;
pub mod error;
mod events;
pub mod files;
pub mod fuzz_entry_points;
pub mod git;
mod health_checks;
mod http_probe;
mod keeper_link;
mod lease;
mod listening_ports;
mod logs;
mod own_folder;
mod owner;
mod ownership;
pub mod packed_settings;
mod pipe_holder;
mod registry;
mod registry_state;
mod sealed_json;
pub mod secrets;
mod service_selection;
mod service_store;
mod service_view;
mod start_checks;
pub mod tokens;
#[doc(hidden)]
mod trusted_folders;
mod unhealthy_file;
mod usage;

/// Runs a blocking function on a thread where blocking does no harm.
async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, error::EngineError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| error::EngineError::Failed(format!("a background task failed: {error}")))
}
