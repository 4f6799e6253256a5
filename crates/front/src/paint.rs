//! What a style looks like in a terminal.

use proctor_ops::show::{Paint, Style, unpainted};

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
