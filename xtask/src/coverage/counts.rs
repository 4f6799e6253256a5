//! Execution counts of lines in lcov format: `SF:file`, then `DA:line,count` for each line with
//! code.

use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// File → line, from 1 → count.
    pub(super) files: BTreeMap<PathBuf, BTreeMap<usize, u64>>,
}

impl Counts {
    pub(super) fn parse(text: &str) -> Result<Counts> {
        let mut counts = Counts::default();
        let mut current: Option<&mut BTreeMap<usize, u64>> = None;
        for line in text.lines() {
            if let Some(file) = line.strip_prefix("SF:") {
                current = Some(counts.files.entry(PathBuf::from(file)).or_default());
            } else if let Some(data) = line.strip_prefix("DA:") {
                let lines = current.as_mut().context("a line has no file before it")?;
                let (number, count) = entry(data).with_context(|| format!("cannot read {line}"))?;
                *lines.entry(number).or_default() += count;
            }
        }
        Ok(counts)
    }
}

fn entry(data: &str) -> Option<(usize, u64)> {
    let mut fields = data.split(',');
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_by_file() {
        let text = "SF:/a.rs\nFN:1,f\nDA:1,3\nDA:2,0\nend_of_record\nSF:/b.rs\nDA:1,0,x\nend_of_record\nSF:/a.rs\nDA:2,4\n";
        let counts = Counts::parse(text).unwrap();
        let a = BTreeMap::from([(1, 3), (2, 4)]);
        assert_eq!(counts.files[&PathBuf::from("/a.rs")], a);
        assert_eq!(counts.files[&PathBuf::from("/b.rs")], BTreeMap::from([(1, 0)]));
        assert!(Counts::parse("DA:1,1").is_err());
        assert!(Counts::parse("SF:/a.rs\nDA:x,1").is_err());
    }
}
