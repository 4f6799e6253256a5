//! Last output lines of services, next to their state: they usually show why one failed.

use crate::log_lines::{Item, Kind};
use crate::operation::Context;
use crate::status::ServiceStatus;
use proctor_core::name::{RunId, ServiceName};
use proctor_engine::api::{LogQuery, View};

/// Maximum lines; `log.read` reads more.
const MAX_LINES: usize = 1000;

/// Maximum length of a line.
const MAX_LINE_BYTES: usize = 500;

/// Maximum bytes of the lines of one service.
const MAX_BYTES: usize = 16 << 10;

/// Returns the current run of a service, or the last one.
pub(crate) fn last_run(view: &View, name: &ServiceName) -> Option<RunId> {
    let state = view.services.get(name)?.state.as_ref()?;
    let last = state.last_exit.as_ref().map(|last| last.run);
    state.phase.run().map(|run| run.id).or(last)
}

/// Maximum services with cursors; each needs a read of its own.
const MAX_CURSORS: usize = 100;

/// Adds cursors to the end of the output of services.
pub(crate) async fn add_cursors(context: &Context, services: &mut [ServiceStatus]) {
    for service in services.iter_mut().take(MAX_CURSORS) {
        let Ok(name) = ServiceName::parse(&service.name) else { continue };
        let query = LogQuery { services: vec![name], tail: Some(0), ..LogQuery::default() };
        // A service without output has no cursor.
        service.log_cursor = context.engine.read_logs(query).await.ok().map(|page| page.cursor);
    }
}

/// Returns the last lines of a run, or a line with the error if they cannot be read.
pub(crate) async fn last_lines(
    context: &Context,
    name: &ServiceName,
    run: RunId,
    count: usize,
) -> Vec<String> {
    let query = LogQuery {
        services: vec![name.clone()],
        runs: [(name.clone(), run..=run)].into(),
        tail: Some(count.min(MAX_LINES)),
        max_bytes: MAX_BYTES,
        item_cost: Some(1),
        newest: true,
        max_line: Some(MAX_LINE_BYTES),
        fold: true,
        ..LogQuery::default()
    };
    match context.engine.read_logs(query).await {
        Ok(page) => {
            let items = page.items.into_iter().map(|item| Item::of(item, false));
            let lines = items.filter(|item| item.kind == Kind::Line);
            lines.map(|item| item.readable()).collect()
        }
        Err(error) => vec![format!("── its output cannot be read: {error}")],
    }
}
