//! `audit.verify`: checks the hash chain of the audit log. It reads the files, so Proctor need not run.

use crate::error::{Code, OpError};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Page, Show, Style, counted};
use proctor_core::home::Home;
use proctor_engine::audit::{Audit, AuditReport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct AuditVerify;

/// Maximum numbers of unfinished records in the output. A longer list is of no use.
const MAX_UNFINISHED: usize = 100;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// True if no record was altered, removed, inserted, reordered or cut off
    pub intact: bool,
    pub files: usize,
    /// Number of valid records
    pub records: u64,
    /// Number of the oldest record
    pub first: u64,
    /// Number of the newest record
    pub last: u64,
    /// Hash of the newest record. Store it elsewhere to detect later whether the log was rewritten
    pub hash: String,
    /// Problems found, with their location
    pub problems: Vec<String>,
    /// Remarks that are not problems
    pub notes: Vec<String>,
    /// Records of operations without a result: still running, or the daemon ended before they finished
    pub unfinished: Vec<u64>,
}

impl Operation for AuditVerify {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["audit", "verify"],
        summary: "Check that the audit log was not altered",
        details: "\
Every record contains the hash of the previous one. A record that was altered, removed, inserted or moved is found; so are \
missing lines at the end. Works without a running Proctor.

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

impl From<AuditReport> for Output {
    fn from(verdict: AuditReport) -> Output {
        let AuditReport { files, lines, first, last, hash, problems, notes, mut unfinished } =
            verdict;
        unfinished.truncate(MAX_UNFINISHED);
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
            page.line().dim("without a result: ").plain(numbers.join(", "));
        }
        let counts = (counted(self.records, "record"), counted(self.files as u64, "file"));
        let counts = format!(" ({} in {})", counts.0, counts.1);
        match self.intact {
            true => page.line().add(Style::Good, "the audit log is intact").plain(counts),
            false => page.line().add(Style::Bad, "the audit log is damaged").plain(counts),
        };
    }

    fn verdict(&self) -> Option<Code> {
        (!self.intact).then_some(Code::Failed)
    }
}
