//! `audit.verify`: is the audit as it was written? Works on the files, with or without a running Proctor.

use crate::error::{Code, OpError};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::show::{Page, Show, Style, counted};
use proctor_core::home::Home;
use proctor_engine::audit::{Audit, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct AuditVerify;

/// More numbers help nobody.
const MOST_UNFINISHED: usize = 100;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Nothing was altered, removed, inserted, reordered or cut off
    pub intact: bool,
    pub files: usize,
    /// Records that are sound
    pub records: u64,
    /// Number of the oldest of them
    pub first: u64,
    /// Number of the newest
    pub last: u64,
    /// The hash of the newest. Noted elsewhere, it tells later whether the past was rewritten
    pub hash: String,
    /// What was done to it, and where
    pub problems: Vec<String>,
    /// What is in order and worth knowing
    pub notes: Vec<String>,
    /// Records of what was begun and has no result: the daemon ended in between, or it is under way
    pub unfinished: Vec<u64>,
}

impl Operation for AuditVerify {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["audit", "verify"],
        summary: "Check that nobody altered what is written of who did what",
        details: "\
Every record has the hash of the one before it. A record that was altered, removed, inserted or moved is found, and lines \
missing at the end, too. Works without a running Proctor.

Examples:
  proctor audit verify
  proctor audit verify --json",
        role: Role::Admin,
        ..Meta::of("audit.verify", Effect::Read, Target::Nothing).long()
    };

    async fn run(context: &Context, _: Input) -> Result<Output, OpError> {
        let home = context.home.clone();
        let verdict = tokio::task::spawn_blocking(move || Audit::verify(&home)).await;
        let verdict =
            verdict.map_err(|error| OpError::new(Code::Internal, error.to_string()))??;
        Ok(verdict.into())
    }

    fn without_daemon(home: &Home, _: &Input) -> Option<Result<Output, OpError>> {
        Some(Audit::verify(home).map(Output::from).map_err(OpError::from))
    }
}

impl From<Verdict> for Output {
    fn from(verdict: Verdict) -> Output {
        let Verdict { files, lines, first, last, hash, problems, notes, mut unfinished } = verdict;
        unfinished.truncate(MOST_UNFINISHED);
        let intact = problems.is_empty();
        Output { intact, files, records: lines, first, last, hash, problems, notes, unfinished }
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        for problem in &self.problems {
            page.line().add(Style::Bad, "problem: ").plain(problem);
        }
        for note in &self.notes {
            page.line().dim("note: ").plain(note);
        }
        if !self.unfinished.is_empty() {
            let numbers: Vec<String> = self.unfinished.iter().map(ToString::to_string).collect();
            page.line().dim("begun and without a result: ").plain(numbers.join(", "));
        }
        let counts = (counted(self.records, "record"), counted(self.files as u64, "file"));
        let counts = format!(" ({} in {})", counts.0, counts.1);
        match self.intact {
            true => page.line().add(Style::Good, "the audit is as it was written").plain(counts),
            false => {
                page.line().add(Style::Bad, "the audit is not as it was written").plain(counts)
            }
        };
    }

    fn verdict(&self) -> Option<Code> {
        (!self.intact).then_some(Code::Failed)
    }
}
