//! One page from several places, one after the other. The cursor names the place and the position in it.

use super::error::FileError;
use super::file_info::{hex, unhex};
use super::list::Listing;
use super::roots::PathInRoot;
use super::search::SearchPage;

/// The limits of a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageBudget {
    /// Maximum number of names, matches or files.
    pub(super) most: usize,
    pub(super) bytes: usize,
}

/// Enough to see whether there is anything.
const A_LOOK: PageBudget = PageBudget { most: 1, bytes: 1 };

impl PageBudget {
    fn has(self, taken: PageBudget) -> bool {
        taken.most <= self.most && taken.bytes <= self.bytes
    }

    fn without(self, taken: PageBudget) -> PageBudget {
        let most = self.most.saturating_sub(taken.most);
        PageBudget { most, bytes: self.bytes.saturating_sub(taken.bytes) }
    }

    fn is_over(self) -> bool {
        self.most == 0 || self.bytes == 0
    }
}

/// A page that can be combined with others.
pub(super) trait PagePart: Default {
    fn taken(&self) -> PageBudget;
    fn cursor(&mut self) -> &mut Option<String>;
    fn append(&mut self, next: Self);
    /// Counts an entry that could not be read.
    fn add_unreadable(&mut self);
}

/// Builds a page; `one` produces the page of one place. A missing root does not stop the others from being
/// read.
pub(super) fn page<P: PagePart>(
    spots: &[PathInRoot],
    cursor: Option<&str>,
    mut room: PageBudget,
    one: impl Fn(&PathInRoot, Option<String>, PageBudget) -> Result<P, FileError>,
) -> Result<P, FileError> {
    if let [spot] = spots {
        return one(spot, cursor.map(str::to_owned), room);
    }
    let (first, mut begin) = cursor.map_or(Ok((0, None)), |text| parse(spots, text))?;
    let mut page = P::default();
    for spot in &spots[first..] {
        let asked = if room.is_over() { A_LOOK } else { room };
        let mut part = match one(spot, begin.take(), asked) {
            Err(FileError::RootGone { .. }) => {
                page.add_unreadable();
                continue;
            }
            part => part?,
        };
        let (begun, taken) = (page.taken().most > 0, part.taken());
        if begun && taken.most > 0 && !room.has(taken) {
            *page.cursor() = Some(cursor_of(spot, ""));
            break;
        }
        let more = part.cursor().take();
        room = room.without(taken);
        page.append(part);
        if let Some(more) = more {
            *page.cursor() = Some(cursor_of(spot, &more));
            break;
        }
    }
    Ok(page)
}

fn cursor_of(spot: &PathInRoot, more: &str) -> String {
    format!("{}:{more}", hex(spot.shown.as_bytes()))
}

/// The index of the place, and the position in it unless it is the beginning.
fn parse(spots: &[PathInRoot], text: &str) -> Result<(usize, Option<String>), FileError> {
    let bad = || FileError::BadCursor(text.to_owned());
    let (place, more) = text.split_once(':').ok_or_else(bad)?;
    let place = unhex(place).ok_or_else(bad)?;
    let at = spots.iter().position(|spot| spot.shown.as_bytes() == place).ok_or_else(bad)?;
    Ok((at, Some(more.to_owned()).filter(|more| !more.is_empty())))
}

impl PagePart for Listing {
    fn taken(&self) -> PageBudget {
        PageBudget { most: self.entries.len(), bytes: self.bytes() }
    }

    fn cursor(&mut self) -> &mut Option<String> {
        &mut self.cursor
    }

    fn append(&mut self, next: Listing) {
        self.entries.extend(next.entries);
        self.unreadable += next.unreadable;
    }

    fn add_unreadable(&mut self) {
        self.unreadable += 1;
    }
}

impl PagePart for SearchPage {
    fn taken(&self) -> PageBudget {
        PageBudget { most: self.taken, bytes: self.bytes }
    }

    fn cursor(&mut self) -> &mut Option<String> {
        &mut self.cursor
    }

    fn append(&mut self, next: SearchPage) {
        self.files.extend(next.files);
        self.searched += next.searched;
        self.unreadable += next.unreadable;
        self.taken += next.taken;
        self.bytes += next.bytes;
    }

    fn add_unreadable(&mut self) {
        self.unreadable += 1;
    }
}
