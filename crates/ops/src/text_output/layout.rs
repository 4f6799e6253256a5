//! Lays out lines and tables: the width of each column, and the columns dropped on a narrow terminal.

use super::{Line, Paint, Span, Style};
use std::borrow::Cow;

/// Columns between two cells.
const GAP: usize = 2;

/// Number of last characters kept in a cut name: `@12` distinguishes instances.
const NAME_END: usize = 6;

/// Behaviour of a column if the terminal is too narrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Always shown in full, because people copy it.
    Keep,
    /// Dropped; the highest number first.
    Drop(u8),
    /// Cut with `…`, down to this many columns.
    Shrink(usize),
    /// Cut like [`Fit::Shrink`], to the first number; to the second before the last column of the others is left out.
    ShrinkTwice(usize, usize),
    /// Cut like [`Fit::Shrink`]; if that is not enough, left out like [`Fit::Drop`].
    ShrinkThenDrop(usize, u8),
}

impl Fit {
    /// Minimum width after a cut.
    fn least(self) -> Option<usize> {
        match self {
            Fit::Shrink(least) | Fit::ShrinkTwice(least, _) | Fit::ShrinkThenDrop(least, _) => {
                Some(least)
            }
            Fit::Keep | Fit::Drop(_) => None,
        }
    }

    /// Minimum width if only one more column could be dropped.
    fn very_least(self) -> Option<usize> {
        match self {
            Fit::ShrinkTwice(_, least) => Some(least),
            Fit::Keep | Fit::Drop(_) | Fit::Shrink(_) | Fit::ShrinkThenDrop(..) => self.least(),
        }
    }

    /// The higher, the sooner it is left out.
    fn priority(self) -> Option<u8> {
        match self {
            Fit::Drop(priority) | Fit::ShrinkThenDrop(_, priority) => Some(priority),
            Fit::Keep | Fit::Shrink(_) | Fit::ShrinkTwice(..) => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub title: &'static str,
    pub fit: Fit,
    /// True for numbers, which are aligned right.
    pub right: bool,
}

impl Column {
    pub const fn new(title: &'static str, fit: Fit) -> Column {
        Column { title, fit, right: false }
    }

    pub const fn number(title: &'static str, fit: Fit) -> Column {
        Column { title, fit, right: true }
    }
}

/// Rows of cells under titles. Columns that are empty in every row are dropped.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    /// Cells, row by row.
    cells: Vec<Cell>,
    /// Text of all cells in one buffer: a list of a thousand services has ten thousand cells.
    text: String,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    style: Style,
    /// Width in columns.
    width: usize,
    /// End of its text in the buffer; it starts at the end of the previous cell.
    end: usize,
}

impl Table {
    pub fn new(columns: &[Column]) -> Table {
        Table::with_rows(columns, 0)
    }

    /// Returns a table with capacity for this many rows.
    pub fn with_rows(columns: &[Column], rows: usize) -> Table {
        let cells = Vec::with_capacity(rows * columns.len());
        Table { columns: columns.to_vec(), cells, text: String::new() }
    }

    /// Adds a row with one cell for each column.
    pub fn row<const CELLS: usize>(&mut self, cells: [Span<'_>; CELLS]) {
        debug_assert_eq!(CELLS, self.columns.len());
        for Span { style, text } in cells {
            self.text.push_str(&text);
            self.cells.push(Cell { style, width: columns(&text), end: self.text.len() });
        }
    }

    pub(super) fn render(&self, width: Option<usize>, paint: Paint, out: &mut String) {
        let widths = self.widths(width);
        let title = |column: &Column| (Style::Heading, column.title.chars().count());
        let titles = self.columns.iter().map(|column| (title(column), column.title));
        self.render_row(titles, &widths, paint, out);
        let rows = self.cells.chunks(self.columns.len());
        out.reserve(rows.len() * (total(&widths) + 1));
        let mut begin = 0;
        for row in rows {
            let cells = row.iter().map(|cell| {
                let text = &self.text[begin..cell.end];
                begin = cell.end;
                ((cell.style, cell.width), text)
            });
            self.render_row(cells, &widths, paint, out);
        }
    }

    /// Returns the width of each column; `None` for a dropped one.
    fn widths(&self, room: Option<usize>) -> Vec<Option<usize>> {
        let mut widths: Vec<Option<usize>> =
            (0..self.columns.len()).map(|at| self.natural(at)).collect();
        let Some(room) = room else { return widths };
        self.shrink(&mut widths, room, Fit::least);
        while total(&widths) > room {
            let Some(at) = self.next_to_drop(&widths) else { break };
            let last = widths[at].take();
            if self.next_to_drop(&widths).is_none() {
                widths[at] = last;
                self.shrink(&mut widths, room, Fit::very_least);
                widths[at] = last.filter(|_| total(&widths) <= room);
            }
        }
        self.grow_back(&mut widths, room);
        widths
    }

    fn natural(&self, at: usize) -> Option<usize> {
        let cells = self.cells.iter().skip(at).step_by(self.columns.len());
        let widest = cells.map(|cell| cell.width).max().unwrap_or(0);
        (widest > 0).then(|| widest.max(self.columns[at].title.chars().count()))
    }

    /// Shrinks columns from the last to the first until they fit.
    fn shrink(&self, widths: &mut [Option<usize>], room: usize, least: fn(Fit) -> Option<usize>) {
        for at in (0..widths.len()).rev() {
            let excess = total(widths).saturating_sub(room);
            if let (Some(least), Some(width)) = (least(self.columns[at].fit), &mut widths[at]) {
                let least = least.min(*width);
                *width = width.saturating_sub(excess).max(least);
            }
        }
    }

    fn next_to_drop(&self, widths: &[Option<usize>]) -> Option<usize> {
        let priority = |at: usize| self.columns[at].fit.priority();
        (0..widths.len())
            .filter(|at| widths[*at].is_some() && priority(*at).is_some())
            .max_by_key(|at| priority(*at))
    }

    /// Gives the space of dropped columns back to columns that were cut.
    fn grow_back(&self, widths: &mut [Option<usize>], room: usize) {
        for at in 0..widths.len() {
            let free = room.saturating_sub(total(widths));
            if let (Some(_), Some(natural), Some(width)) =
                (self.columns[at].fit.least(), self.natural(at), widths[at])
            {
                widths[at] = Some(natural.min(width + free));
            }
        }
    }

    fn render_row<'a>(
        &self,
        cells: impl Iterator<Item = ((Style, usize), &'a str)>,
        widths: &[Option<usize>],
        paint: Paint,
        out: &mut String,
    ) {
        let mut pending = 0;
        for ((((style, takes), text), width), column) in cells.zip(widths).zip(&self.columns) {
            let Some(width) = *width else { continue };
            let padding = width.saturating_sub(takes);
            let (before, after) = if column.right { (padding, 0) } else { (0, padding) };
            if text.is_empty() {
                pending += before;
            } else {
                blanks(pending + before, out);
                let end = if style == Style::Name { NAME_END } else { 0 };
                paint(style, &cut(text, takes, width, end), out);
                pending = 0;
            }
            // Nothing is written after the last cell, so no line ends in blanks.
            pending += after + GAP;
        }
        out.push('\n');
    }
}

/// Returns the total width of the remaining columns with their gaps.
fn total(widths: &[Option<usize>]) -> usize {
    let left: Vec<usize> = widths.iter().flatten().copied().collect();
    left.iter().sum::<usize>() + GAP * left.len().saturating_sub(1)
}

fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// Returns the text with `…` before its last `end` characters, if it exceeds `width`.
fn cut(text: &str, takes: usize, width: usize, end: usize) -> Cow<'_, str> {
    if takes <= width {
        return Cow::Borrowed(text);
    }
    let end = if width > 2 * end { end } else { 0 };
    let mut short: String = text.chars().take(width.saturating_sub(1 + end)).collect();
    short.push('…');
    short.extend(text.chars().skip(takes - end));
    Cow::Owned(short)
}

fn blanks(mut count: usize, out: &mut String) {
    const BLANKS: &str = "                                ";
    while count > 0 {
        let some = count.min(BLANKS.len());
        out.push_str(&BLANKS[..some]);
        count -= some;
    }
}

pub(super) fn line(line: &Line, paint: Paint, out: &mut String) {
    for span in &line.spans {
        paint(span.style, &span.text, out);
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text_output::unpainted;

    fn table(name: &str) -> Table {
        let mut table = Table::new(&[
            Column::new("NAME", Fit::Keep),
            Column::new("STATE", Fit::Keep),
            Column::number("CPU", Fit::Drop(1)),
            Column::number("PORT", Fit::Drop(2)),
            Column::new("COMMAND", Fit::Shrink(8)),
        ]);
        fn cell(text: &str) -> Span<'_> {
            Span::new(Style::Plain, text)
        }
        table.row([
            cell(name),
            cell("running"),
            cell("1.0%"),
            cell(""),
            cell("npm run development"),
        ]);
        table.row([cell("db"), cell("stopped"), cell(""), cell(""), cell("db")]);
        table
    }

    fn check(name: &str, width: Option<usize>, expected: &str) {
        let mut out = String::new();
        table(name).render(width, unpainted, &mut out);
        assert_eq!(out, expected, "width {width:?}");
        if let Some(width) = width {
            assert!(name.len() > 20 || out.lines().all(|l| l.chars().count() <= width), "{out}");
        }
    }

    #[test]
    fn a_pipe_gets_everything_and_empty_columns_go() {
        check(
            "web",
            None,
            "NAME  STATE     CPU  COMMAND\nweb   running  1.0%  npm run development\ndb    stopped        db\n",
        );
    }

    #[test]
    fn a_narrow_terminal_cuts_then_drops() {
        check(
            "web",
            Some(32),
            "NAME  STATE     CPU  COMMAND\nweb   running  1.0%  npm run de…\ndb    stopped        db\n",
        );
        check(
            "web",
            Some(26),
            "NAME  STATE    COMMAND\nweb   running  npm run de…\ndb    stopped  db\n",
        );
    }

    #[test]
    fn a_long_name_is_never_cut() {
        let name = "team-product-component@99";
        check(
            name,
            Some(20),
            &format!(
                "{:25}  STATE    COMMAND\n{name}  running  npm run…\n{:25}  stopped  db\n",
                "NAME", "db"
            ),
        );
    }
}
