//! An answer in the form in which a caller wants it.
//!
//! Encoding is done here, once, straight from the output: a list of a thousand services is no tree of values in between.

use crate::error::{Code, OpError};
use crate::show::{Page, Paint, Show};
use jiff::tz::TimeZone;
use serde::Serialize;

/// What a caller wants to get.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// The output itself, as JSON.
    Json,
    /// Text for a person on this machine, so that a command which only prints it need not decode anything.
    Page { width: Option<usize>, paint: Paint, zone: fn() -> TimeZone },
}

/// An output, encoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    pub text: String,
    /// Of a page: what is said about it.
    pub remarks: String,
    /// Of a page: the cursor with which it goes on.
    pub next: Option<String>,
    /// What was asked for is not what is.
    pub verdict: Option<Code>,
    /// Of the state that it shows.
    pub generation: Option<u64>,
    /// It says which operation goes on, not what came of it.
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
