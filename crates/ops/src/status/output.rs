//! The last lines that services wrote, beside their state: why one failed is mostly there.

use crate::lines::{Item, Kind};
use crate::operation::Context;
use proctor_core::name::{RunId, ServiceName};
use proctor_engine::api::{LogQuery, View};

/// More than this is read with `log.read`.
const MOST_LINES: usize = 1000;

/// As much of a line as tells what it is about.
const MOST_OF_A_LINE: usize = 500;

/// Of the lines of one service together: some screens.
const MOST_BYTES: usize = 16 << 10;

/// The run of a service that is there, or else the last one.
pub(crate) fn last_run(view: &View, name: &ServiceName) -> Option<RunId> {
    let state = view.services.get(name)?.state.as_ref()?;
    let last = state.last_exit.as_ref().map(|last| last.run);
    state.phase.run().map(|run| run.id).or(last)
}

/// The last lines of a run, as they are read; why there are none, if they cannot be read.
pub(crate) async fn last_lines(
    context: &Context,
    name: &ServiceName,
    run: RunId,
    count: usize,
) -> Vec<String> {
    let query = LogQuery {
        services: vec![name.clone()],
        runs: [(name.clone(), run..=run)].into(),
        tail: Some(count.min(MOST_LINES)),
        max_bytes: MOST_BYTES,
        item_cost: Some(1),
        newest: true,
        max_line: Some(MOST_OF_A_LINE),
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
