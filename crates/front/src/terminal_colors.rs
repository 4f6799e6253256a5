//! Look of styles and errors in a terminal.

use proctor_ops::error::OpError;
use proctor_ops::text_output::{Page, Paint, Style, unpainted};

pub(crate) fn paint(colour: bool) -> Paint {
    if colour { painted } else { unpainted }
}

fn painted(style: Style, text: &str, out: &mut String) {
    let code = match style {
        Style::Plain => return out.push_str(text),
        Style::Name => "1",
        Style::Good => "32",
        Style::Warn => "33",
        Style::Bad => "31",
        Style::Dim => "2",
        Style::Heading => "1;2",
    };
    out.push_str("\x1b[");
    out.push_str(code);
    out.push('m');
    out.push_str(text);
    out.push_str("\x1b[0m");
}

pub(crate) fn error_page(error: &OpError) -> Page {
    let mut page = Page::new(proctor_ops::timestamps::zone);
    let mut lines = error.message.lines();
    let first = lines.next().unwrap_or_default();
    page.line().add(Style::Bad, "error: ").plain(first);
    for line in lines {
        page.line().plain(line);
    }
    for line in error.help.iter().flat_map(|help| help.lines()) {
        page.line().add(Style::Good, "help: ").plain(line);
    }
    page
}
