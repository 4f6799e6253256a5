//! Output of the command line: colours, width, JSON, quiet. Everything printed goes through here.

use super::Failure;
use crate::protocol::{ShownOutput, TerminalLook};
use crate::terminal_colors::{error_page, paint};
use clap::ArgMatches;
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::Effect;
use proctor_ops::table::Entry;
use proctor_ops::text_output::{Page, Style};
use serde_json::{Value, json};
use std::io::{self, IsTerminal, Write};

pub(crate) struct Terminal {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    colour: Colour,
}

/// Result of showing a response.
#[derive(Default)]
pub(crate) struct ShownReply {
    pub(crate) code: u8,
    /// Remarks that are not printed yet.
    pub(crate) remarks: String,
    /// True if there was nothing to show.
    pub(crate) empty: bool,
    /// Cursor of the next page.
    pub(crate) next: Option<String>,
}

/// Colour of each of the two streams.
#[derive(Debug, Clone, Copy)]
struct Colour {
    stdout: bool,
    stderr: bool,
}

impl Colour {
    fn find(unwanted: bool) -> Colour {
        let plain = unwanted
            || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        Colour {
            stdout: !plain && io::stdout().is_terminal(),
            stderr: !plain && io::stderr().is_terminal(),
        }
    }
}

impl Terminal {
    pub(crate) fn new(matches: &ArgMatches) -> Terminal {
        let colour = Colour::find(matches.get_flag("no-color"));
        Terminal { json: matches.get_flag("json"), quiet: matches.get_flag("quiet"), colour }
    }

    /// Returns the terminal of a command without options.
    pub(crate) fn usual() -> Terminal {
        Terminal { json: false, quiet: false, colour: Colour::find(false) }
    }

    /// Returns a terminal that shows nothing.
    pub(crate) fn silent() -> Terminal {
        Terminal { json: false, quiet: true, colour: Colour { stdout: false, stderr: false } }
    }

    /// Shows a response and returns its exit code.
    pub(crate) fn answer(&self, entry: &Entry, answer: &Value) -> Result<u8, Failure> {
        let told = self.tell(entry, answer)?;
        let remarks: Vec<String> = told.remarks.lines().map(ToOwned::to_owned).collect();
        self.remark(&remarks, told.next.as_deref());
        Ok(told.code)
    }

    /// Shows a response that may have further pages.
    pub(crate) fn tell(&self, entry: &Entry, answer: &Value) -> Result<ShownReply, Failure> {
        let mut page = Page::new(proctor_ops::timestamps::zone);
        let verdict = entry.show(answer, &mut page)?;
        let code = verdict.map_or(0, Code::exit);
        let reading = entry.meta.effect == Effect::Read;
        if self.json {
            self.document(answer)?;
            return Ok(ShownReply { code, ..ShownReply::default() });
        }
        if reading {
            let (text, remarks) = page.render_apart(self.width(), paint(self.colour.stdout));
            self.bytes(text.as_bytes())?;
            let next = page.next().map(ToOwned::to_owned);
            return Ok(ShownReply { code, remarks, empty: text.is_empty(), next });
        }
        if verdict.is_some() || !self.quiet {
            let paints = (paint(self.colour.stdout), paint(self.colour.stderr));
            let (text, errors) =
                page.render_streams(verdict.is_some(), self.width(), paints.0, paints.1);
            self.bytes(text.as_bytes())?;
            self.note_always(&errors);
        }
        Ok(ShownReply { code, next: page.next().map(ToOwned::to_owned), ..ShownReply::default() })
    }

    /// Returns the format for a page that the daemon renders; `None` if it cannot render what is wanted. The daemon's
    /// time zone is
    /// ours, unless `TZ` is set.
    pub(crate) fn look(&self, entry: &Entry) -> Option<TerminalLook> {
        let reading = entry.meta.effect == Effect::Read;
        let elsewhere = std::env::var_os("TZ").is_some();
        (reading && !self.json && !elsewhere).then(|| TerminalLook {
            width: self.width(),
            colour: self.colour.stdout,
            bytes: false,
        })
    }

    /// Shows a page that the daemon rendered.
    pub(crate) fn page(&self, page: ShownOutput) -> Result<ShownReply, Failure> {
        self.bytes(page.text.as_bytes())?;
        let ShownOutput { text, remarks, next, verdict } = page;
        Ok(ShownReply {
            code: verdict.map_or(0, Code::exit),
            remarks,
            empty: text.is_empty(),
            next,
        })
    }

    /// Prints remarks and the next cursor to stderr, so they do not mix with the response.
    pub(crate) fn remark(&self, remarks: &[String], next: Option<&str>) {
        let more = next.map(|cursor| format!("more follows: continue with --cursor {cursor}"));
        for remark in remarks.iter().chain(&more) {
            let mut text = String::new();
            paint(self.colour.stderr)(Style::Dim, remark, &mut text);
            self.note(&text);
        }
    }

    /// Prints text. A missing reader is not an error.
    pub(crate) fn text(&self, text: &[u8], verdict: Option<Code>) -> u8 {
        match self.bytes(text).map_err(Failure::from) {
            Ok(()) => verdict.map_or(0, Code::exit),
            Err(Failure::Pipe) => 0,
            Err(Failure::Op(error)) => {
                self.error(&error);
                error.code.exit()
            }
        }
    }

    /// Prints one JSON document.
    pub(crate) fn document(&self, value: &Value) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(value)?;
        text.push(b'\n');
        self.bytes(&text)
    }

    pub(crate) fn bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    }

    /// Prints a remark to stderr, except with `--quiet` and `--json`.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet && !self.json {
            self.note_always(&format!("{text}\n"));
        }
    }

    /// Prints a remark after Ctrl-C, over the `^C` of the terminal.
    pub(crate) fn note_over(&self, text: &str) {
        let begin = if self.live() { "\r" } else { "" };
        self.note(&format!("{begin}{text}"));
    }

    fn note_always(&self, text: &str) {
        // Without a stderr there is no reader.
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }

    pub(crate) fn error(&self, error: &OpError) {
        if self.json {
            return json_error(error);
        }
        self.note_always(&error_page(error).render(None, paint(self.colour.stderr)));
    }

    pub(crate) fn colours_stdout(&self) -> bool {
        self.colour.stdout
    }

    /// Returns true if a live line can be shown.
    pub(crate) fn live(&self) -> bool {
        io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|value| value != "dumb")
    }

    /// Returns the columns of the terminal; `None` in a pipe.
    pub(crate) fn width(&self) -> Option<usize> {
        let out = io::stdout();
        if !out.is_terminal() {
            return None;
        }
        rustix::termios::tcgetwinsize(out)
            .ok()
            .map(|size| usize::from(size.ws_col))
            .filter(|columns| *columns > 0)
    }
}

pub(crate) fn json_error(error: &OpError) {
    let text = json!({ "error": error }).to_string();
    // Without a stderr there is no reader.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
