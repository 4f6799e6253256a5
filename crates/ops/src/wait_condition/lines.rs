//! Waits until each service has written a matching line.
//!
//! Existing lines count, so a line written before the request is not missed: all lines after a cursor or, without one, all of
//! the current (or last) run. A service that has ended is read again after its end is known, because all output of a run
//! is stored before its end is reported.

use super::{UnmetCondition, Verdict, Wait, WaitResult};
use crate::error::OpError;
use crate::log_lines::{Item, StreamWord};
use crate::status::output::last_run;
use proctor_core::name::{RunId, ServiceName};
use proctor_engine::api::{LogQuery, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use tokio::time::{Instant, timeout_at};

/// Maximum length of a reported line.
const MAX_LINE_BYTES: usize = 2000;

/// A matching line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatchedLine {
    pub service: String,
    pub text: String,
    /// Time in RFC 3339
    pub at: String,
    pub stream: StreamWord,
    /// Cursor after the line, for `log.read`
    pub cursor: String,
}

impl Wait<'_> {
    /// Waits until each service has written a line that matches `pattern`, after `cursor` or in its current run.
    pub(crate) async fn lines(
        &self,
        pattern: &str,
        cursor: Option<&str>,
    ) -> Result<WaitResult, OpError> {
        let mut query = LogQuery {
            services: self.names.to_vec(),
            cursor: cursor.map(ToOwned::to_owned),
            runs: self.context.engine.read(|view| self.present(view)),
            grep: Some(pattern.to_owned()),
            // One line at a time.
            max_bytes: 0,
            max_line: Some(MAX_LINE_BYTES),
            eager: true,
            ..LogQuery::default()
        };
        if query.cursor.is_some() {
            query.runs.clear();
        }
        let mut found: BTreeMap<String, MatchedLine> = BTreeMap::new();
        let befores = self.befores();
        loop {
            let (generation, mut verdicts) = self.look(&befores);
            let page = self.context.engine.read_logs(query.clone()).await?;
            let matched = page.items.into_iter().next().map(|item| Item::of(item, false));
            (query.cursor, query.runs) = (Some(page.cursor), BTreeMap::new());
            if let Some(item) = matched {
                let line = self.found(&item, query.cursor.as_deref().unwrap_or_default())?;
                query.services.retain(|name| name.as_str() != line.service);
                found.insert(line.service.clone(), line);
            }
            for (name, verdict) in self.names.iter().zip(&mut verdicts) {
                if found.contains_key(name.as_str()) {
                    *verdict = Verdict::Reached;
                }
            }
            let missing = verdicts.iter().any(|verdict| matches!(verdict, Verdict::NotYet(_)));
            let hopeless = verdicts.contains(&Verdict::Hopeless(UnmetCondition::Line))
                || verdicts.contains(&Verdict::Hopeless(UnmetCondition::Gone));
            let over = Instant::now() >= self.deadline;
            if page.more && !query.services.is_empty() && !over {
                continue;
            }
            if hopeless || !missing || over {
                return Ok(WaitResult::of(verdicts, generation, found.into_values().collect()));
            }
            self.news(generation, &query).await;
        }
    }

    /// Waits until the logs have grown, a service has changed, or the time is over.
    async fn news(&self, generation: u64, query: &LogQuery) {
        let cursor = query.cursor.as_deref().unwrap_or_default();
        let either = async {
            tokio::select! {
                _ = self.context.engine.changed(generation) => {}
                () = self.context.engine.logs_changed(&query.services, cursor) => {}
            }
        };
        // Or neither; the next read shows which.
        let _ = timeout_at(self.deadline, either).await;
    }

    fn found(&self, item: &Item, cursor: &str) -> Result<MatchedLine, OpError> {
        let name = self.names.iter().find(|name| name.as_str() == item.service);
        let cursor = match name {
            Some(name) => self.context.engine.cursor_for(cursor, name)?,
            None => cursor.to_owned(),
        };
        let (text, at) = (item.readable(), item.at.clone());
        Ok(MatchedLine { service: item.service.clone(), text, at, stream: item.stream, cursor })
    }

    /// Selects the current run of each service, or its last, or its next one.
    fn present(&self, view: &View) -> BTreeMap<ServiceName, RangeInclusive<RunId>> {
        let one = |name: &ServiceName| {
            let run = last_run(view, name).unwrap_or(RunId(u64::MAX));
            (name.clone(), run..=RunId(u64::MAX))
        };
        self.names.iter().map(one).collect()
    }
}
