//! Checks numbered lines in the segments of one stream: each once, whole and in order, also across
//! rotation. Reads the files themselves, from the last position.

use anyhow::{Context as _, Result, bail, ensure};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The read position of a stream.
#[derive(Debug)]
pub(crate) struct Lines {
    folder: PathBuf,
    stream: &'static str,
    segment: u64,
    offset: u64,
    /// Beginning of a line that continues in the next segment.
    begun: Vec<u8>,
    /// The number of the last line.
    last: u64,
    /// Old segments may be deleted by design before we read them.
    forgets: bool,
    pub(crate) seen: u64,
}

impl Lines {
    pub(crate) fn new(home: &Path, service: &str, stream: &'static str, forgets: bool) -> Lines {
        let folder = home.join("logs").join(service);
        let (segment, offset, begun) = (1, 0, Vec::new());
        Lines { folder, stream, segment, offset, begun, last: 0, forgets, seen: 0 }
    }

    /// Reads new lines; returns their number.
    pub(crate) fn read(&mut self) -> Result<u64> {
        let before = self.seen;
        let there = self.segments();
        if let Some(oldest) = there.first().copied().filter(|oldest| *oldest > self.segment) {
            ensure!(self.forgets, "{} begins with segment {oldest}", self.name());
            (self.segment, self.offset, self.last) = (oldest, 0, 0);
            self.begun.clear();
        }
        let first = self.segment;
        for segment in there.into_iter().filter(|number| *number >= first) {
            if segment > self.segment {
                (self.segment, self.offset) = (segment, 0);
            }
            match self.read_segment() {
                // Deleted since the listing, as in short logs.
                Err(_) if self.forgets && !self.path().exists() => return Ok(self.seen - before),
                read => read?,
            }
        }
        Ok(self.seen - before)
    }

    fn name(&self) -> String {
        format!("{} of {}", self.stream, self.folder.display())
    }

    fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.{:08}.log", self.stream, self.segment))
    }

    /// Numbers of the existing segments.
    fn segments(&self) -> Vec<u64> {
        let number = |name: &str| {
            let rest = name.strip_prefix(self.stream)?.strip_prefix('.')?.strip_suffix(".log")?;
            rest.parse().ok()
        };
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut found: Vec<u64> =
            entries.filter_map(|entry| number(entry.file_name().to_str()?)).collect();
        found.sort_unstable();
        found
    }

    fn read_segment(&mut self) -> Result<()> {
        let path = self.path();
        let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        let length = file.metadata().context("cannot read its length")?.len();
        ensure!(length >= self.offset, "{} has become shorter", path.display());
        let mut bytes = vec![0; (length - self.offset) as usize];
        file.read_exact_at(&mut bytes, self.offset)
            .with_context(|| format!("cannot read {}", path.display()))?;
        self.offset = length;
        let mut rest = bytes.as_slice();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let mut line = std::mem::take(&mut self.begun);
            line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            self.take(&line)?;
        }
        self.begun.extend_from_slice(rest);
        Ok(())
    }

    fn take(&mut self, line: &[u8]) -> Result<()> {
        let text = String::from_utf8_lossy(line);
        let number = text.strip_prefix("line ").and_then(|number| number.parse::<u64>().ok());
        let Some(number) = number else {
            bail!("{}: a torn line after {}: {text:?}", self.name(), self.last)
        };
        let first = self.last == 0 && self.forgets;
        match number.checked_sub(self.last + 1) {
            Some(0) => {}
            Some(_) if first => {}
            Some(lost) => bail!("{}: {lost} lines lost after {}", self.name(), self.last),
            None => bail!("{}: line {number} again after {}", self.name(), self.last),
        }
        self.last = number;
        self.seen += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the result for the contents of consecutive segments.
    #[track_caller]
    fn check(segments: &[(u64, &str)], forgets: bool, expected: Result<u64, &str>) {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("logs/web");
        std::fs::create_dir_all(&folder).unwrap();
        for (number, text) in segments {
            std::fs::write(folder.join(format!("stdout.{number:08}.log")), text).unwrap();
        }
        let read = Lines::new(home.path(), "web", "stdout", forgets).read();
        match (read, expected) {
            (Ok(seen), Ok(expected)) => assert_eq!(seen, expected, "{segments:?}"),
            (Err(why), Err(expected)) => {
                assert!(why.to_string().contains(expected), "{segments:?}: {why}");
            }
            (read, expected) => panic!("{segments:?}: {read:?}, not {expected:?}"),
        }
    }

    #[test]
    fn every_line_is_there_once_and_whole() {
        check(&[], false, Ok(0));
        check(&[(1, "line 1\nline 2\n"), (2, "line 3\nli")], false, Ok(3));
        check(&[(1, "line 1\nli"), (2, "ne 2\n")], false, Ok(2));
        check(&[(1, "line 1\nline 3\n")], false, Err("1 lines lost after 1"));
        check(&[(1, "line 1\n"), (2, "line 1\n")], false, Err("line 1 again after 1"));
        check(&[(1, "line 1\n"), (3, "line 2\nne 3\n")], false, Err("a torn line after 2"));
        check(&[(1, "line 2\n")], false, Err("1 lines lost after 0"));
        check(&[(3, "line 9\n")], false, Err("begins with segment 3"));
        check(&[(3, "line 9\nline 10\n")], true, Ok(2));
    }

    #[test]
    fn reading_goes_on_where_it_stopped() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("logs/web");
        std::fs::create_dir_all(&folder).unwrap();
        let mut lines = Lines::new(home.path(), "web", "stdout", false);
        std::fs::write(folder.join("stdout.00000001.log"), "line 1\nline").unwrap();
        assert_eq!(lines.read().unwrap(), 1);
        std::fs::write(folder.join("stdout.00000001.log"), "line 1\nline 2\n").unwrap();
        std::fs::write(folder.join("stdout.00000002.log"), "line 3\n").unwrap();
        assert_eq!(lines.read().unwrap(), 2);
        std::fs::write(folder.join("stdout.00000001.log"), "").unwrap();
        assert_eq!(lines.read().unwrap(), 0, "what was read is not read again");
    }
}
