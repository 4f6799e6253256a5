//! A moving window on the bytes of one segment. Knows nothing of lines or of the index.

use super::Scan;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

pub(super) struct SegmentWindow {
    file: File,
    /// The length when the reader was made: later bytes belong to a later page.
    len: u64,
    /// Offset of the first buffered byte.
    start: u64,
    buffer: Vec<u8>,
}

impl SegmentWindow {
    pub(super) fn new(file: File, len: u64) -> SegmentWindow {
        SegmentWindow { file, len, start: 0, buffer: Vec::new() }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The current length of the file.
    pub(super) fn current_len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// The buffered bytes from `offset` on, without reading.
    pub(super) fn buffered(&self, offset: u64) -> &[u8] {
        let skip = offset.checked_sub(self.start).and_then(|skip| usize::try_from(skip).ok());
        skip.and_then(|skip| self.buffer.get(skip..)).unwrap_or_default()
    }

    /// Reads one more block after the buffered bytes from `offset` on, and drops those before `offset`. False
    /// at the end of the text.
    pub(super) fn grow(&mut self, offset: u64, scan: &mut Scan) -> io::Result<bool> {
        let keep = self.buffered(offset).len();
        self.buffer.drain(..self.buffer.len() - keep);
        self.start = offset;
        let from = offset + keep as u64;
        let left = usize::try_from(self.len.saturating_sub(from)).unwrap_or(usize::MAX);
        self.buffer.resize(keep + left.min(scan.block), 0);
        let count = read_at(&self.file, &mut self.buffer[keep..], from, scan)?;
        self.buffer.truncate(keep + count);
        if count == 0 {
            self.len = self.len.min(from);
        }
        Ok(count > 0)
    }

    /// The byte before `offset`.
    pub(super) fn byte_before(&self, offset: u64, scan: &mut Scan) -> io::Result<Option<u8>> {
        let Some(at) = offset.checked_sub(1) else { return Ok(None) };
        let mut byte = [0];
        Ok((read_at(&self.file, &mut byte, at, scan)? == 1).then_some(byte[0]))
    }
}

/// Reads until `buffer` is full or the file ends; counts the bytes.
pub(super) fn read_at(
    file: &File,
    buffer: &mut [u8],
    from: u64,
    scan: &mut Scan,
) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], from + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    scan.read += done as u64;
    Ok(done)
}
