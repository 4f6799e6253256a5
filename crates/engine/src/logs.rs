//! Reading logs: a temporary shim with the signatures of the log reader, which replaces this file at the merge.

use crate::api::{LogPage, LogQuery};
use crate::error::EngineError;
use proctor_core::name::ServiceName;
use std::path::Path;

pub(crate) fn read(_logs: &Path, _query: &LogQuery) -> Result<LogPage, EngineError> {
    Err(EngineError::Failed("this build has no log reader".into()))
}

pub(crate) fn delete(_logs: &Path, _name: &ServiceName) -> Result<(), EngineError> {
    Err(EngineError::Failed("this build has no log reader".into()))
}

pub(crate) struct Watch;

impl Watch {
    pub(crate) fn new(_logs: &Path, _services: &[ServiceName]) -> Result<Watch, EngineError> {
        Err(EngineError::Failed("this build has no log reader".into()))
    }

    pub(crate) async fn changed(&mut self) {}
}
