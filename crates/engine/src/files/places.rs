//! One page from several places, one after the other. The cursor names the place and the position in it.

use super::fault::FileError;
use super::list::Listing;
use super::roots::Spot;
use super::search::SearchPage;
use super::survey::{hex, unhex};

/// The limits of a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Maximum number of names, matches or files.
    pub(super) most: usize,
    pub(super) bytes: usize,
}

/// Enough to see whether there is anything.
const A_LOOK: Room = Room { most: 1, bytes: 1 };

impl Room {
    fn has(self, taken: Room) -> bool {
        taken.most <= self.most && taken.bytes <= self.bytes
    }

    fn without(self, taken: Room) -> Room {
        let most = self.most.saturating_sub(taken.most);
        Room { most, bytes: self.bytes.saturating_sub(taken.bytes) }
    }

    fn is_over(self) -> bool {
        self.most == 0 || self.bytes == 0
    }
}

/// A page that can be combined with others.
pub(super) trait Part: Default {
    fn taken(&self) -> Room;
    fn cursor(&mut self) -> &mut Option<String>;
    fn append(&mut self, next: Self);
    /// Counts an entry that could not be read.
    fn add_unreadable(&mut self);
}

/// Builds a page; `one` produces the page of one place. A missing root does not stop the others from being
/// read.
pub(super) fn page<P: Part>(
    spots: &[Spot],
    cursor: Option<&str>,
    mut room: Room,
    one: impl Fn(&Spot, Option<String>, Room) -> Result<P, FileError>,
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

fn cursor_of(spot: &Spot, more: &str) -> String {
    format!("{}:{more}", hex(spot.shown.as_bytes()))
}

/// The index of the place, and the position in it unless it is the beginning.
fn parse(spots: &[Spot], text: &str) -> Result<(usize, Option<String>), FileError> {
    let bad = || FileError::BadCursor(text.to_owned());
    let (place, more) = text.split_once(':').ok_or_else(bad)?;
    let place = unhex(place).ok_or_else(bad)?;
    let at = spots.iter().position(|spot| spot.shown.as_bytes() == place).ok_or_else(bad)?;
    Ok((at, Some(more.to_owned()).filter(|more| !more.is_empty())))
}

impl Part for Listing {
    fn taken(&self) -> Room {
        Room { most: self.entries.len(), bytes: self.bytes() }
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

impl Part for SearchPage {
    fn taken(&self) -> Room {
        Room { most: self.taken, bytes: self.bytes }
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
