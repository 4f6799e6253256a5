//! Responses in the form that a caller wants.
//!
//! The output is encoded here once, directly, without a tree of values for a list of a thousand services.

use crate::error::{Code, OpError};
use crate::text_output::{Page, Paint, Show};
use jiff::tz::TimeZone;
use serde::Serialize;

/// Form of a response.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// The output as JSON.
    Json,
    /// Text for a person on this machine, so a command that only prints it decodes nothing.
    Page { width: Option<usize>, paint: Paint, zone: fn() -> TimeZone },
}

/// An encoded output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    pub text: String,
    /// For a page: remarks about it.
    pub remarks: String,
    /// For a page: cursor of the next page.
    pub next: Option<String>,
    /// Code if the requested state was not reached.
    pub verdict: Option<Code>,
    /// Generation of the state that it shows.
    pub generation: Option<u64>,
    /// The response names an operation that continues in the background.
    pub background: bool,
}

impl Reply {
    pub fn of<T: Serialize + Show>(output: &T, form: Form) -> Result<Reply, OpError> {
        let (verdict, generation) = (output.verdict(), output.generation());
        let reply = match form {
            Form::Json => {
                let text = serde_json::to_string(output).map_err(|error| {
                    OpError::new(Code::Internal, format!("cannot encode: {error}"))
                })?;
                Reply { text, ..Reply::default() }
            }
            Form::Page { width, paint, zone } => {
                let mut page = Page::new(zone);
                output.show(&mut page);
                let (text, remarks) = page.render_apart(width, paint);
                let next = page.next().map(ToOwned::to_owned);
                Reply { text, remarks, next, ..Reply::default() }
            }
        };
        Ok(Reply { verdict, generation, ..reply })
    }
}
