//! Groups differences into hunks and writes a diff that `patch` and `git apply` can read.

use super::{Block, DiffLine, Hunk, Patch, Sign, compare, lines};
use std::ops::Range;

/// The file names of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileNames<'a> {
    /// The file is created.
    Made(&'a str),
    /// The file is removed.
    Removed(&'a str),
    Changed(&'a str),
    Moved(&'a str, &'a str),
}

/// Returns the diff between two contents with `around` context lines; empty if they are equal.
pub fn unified(names: FileNames<'_>, old: &[u8], new: &[u8], around: usize) -> Vec<u8> {
    unified_of(names, &compare(old, new), old, new, around)
}

/// Like [`unified`], for differences that are already known.
pub fn unified_of(
    names: FileNames<'_>,
    blocks: &[Block],
    old: &[u8],
    new: &[u8],
    around: usize,
) -> Vec<u8> {
    let hunks = hunks(blocks, old, new, around);
    let name = |side: &str, path: &str| Some(format!("{side}/{path}").into_bytes());
    let (before, after) = match names {
        FileNames::Made(path) => (None, name("b", path)),
        FileNames::Removed(path) => (name("a", path), None),
        FileNames::Changed(path) => (name("a", path), name("b", path)),
        FileNames::Moved(from, to) => (name("a", from), name("b", to)),
    };
    write(&[Patch { old: before, new: after, hunks, ..Patch::default() }])
}

fn hunks(blocks: &[Block], old: &[u8], new: &[u8], around: usize) -> Vec<Hunk> {
    let (before, after) = (lines(old), lines(new));
    let mut hunks: Vec<Vec<Block>> = Vec::new();
    for block in blocks.iter().cloned() {
        match hunks.last_mut() {
            Some(group)
                if group
                    .last()
                    .is_some_and(|last| block.old.start - last.old.end <= 2 * around) =>
            {
                group.push(block);
            }
            _ => hunks.push(vec![block]),
        }
    }
    hunks.into_iter().map(|group| hunk(&group, &before, &after, around)).collect()
}

fn hunk(group: &[Block], before: &[&[u8]], after: &[&[u8]], around: usize) -> Hunk {
    let line = |sign: Sign, text: &&[u8]| DiffLine { sign, text: text.to_vec() };
    let all = |sign: Sign, from: &[&[u8]], range: Range<usize>| -> Vec<DiffLine> {
        from[range].iter().map(|text| line(sign, text)).collect()
    };
    let (first, last) = (&group[0], &group[group.len() - 1]);
    let begin = first.old.start.saturating_sub(around);
    let end = (last.old.end + around).min(before.len());
    let (mut made, mut at) = (Vec::new(), begin);
    for block in group {
        made.extend(all(Sign::Same, before, at..block.old.start));
        made.extend(all(Sign::Gone, before, block.old.clone()));
        made.extend(all(Sign::New, after, block.new.clone()));
        at = block.old.end;
    }
    made.extend(all(Sign::Same, before, at..end));
    let new_begin = first.new.start - (first.old.start - begin);
    let counts = |other: Sign| made.iter().any(|line: &DiffLine| line.sign != other);
    // An empty side is written as the number of the line before it.
    let old = begin + usize::from(counts(Sign::New));
    let new = new_begin + usize::from(counts(Sign::Gone));
    Hunk { old: Some(old), new: Some(new), lines: made }
}

/// Formats patches as text.
pub fn write(patches: &[Patch]) -> Vec<u8> {
    let mut out = Vec::new();
    for patch in patches.iter().filter(|patch| !patch.hunks.is_empty()) {
        for (mark, name) in [("--- ", &patch.old), ("+++ ", &patch.new)] {
            out.extend_from_slice(mark.as_bytes());
            match name {
                None => out.extend_from_slice(b"/dev/null"),
                Some(name) => write_name(&mut out, name),
            }
            out.push(b'\n');
        }
        patch.hunks.iter().for_each(|hunk| write_hunk(&mut out, hunk));
    }
    out
}

/// Quotes a name as git does if it contains bytes that would end it or be misread.
fn write_name(out: &mut Vec<u8>, name: &[u8]) {
    let special = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\' || byte >= 0x7f;
    if !name.iter().any(|byte| special(*byte)) {
        out.extend_from_slice(name);
        if name.contains(&b' ') {
            // Prevents a reader from taking the text after a blank for a time.
            out.push(b'\t');
        }
        return;
    }
    out.push(b'"');
    for byte in name {
        match *byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            byte if special(byte) => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            byte => out.push(byte),
        }
    }
    out.push(b'"');
}

fn write_hunk(out: &mut Vec<u8>, hunk: &Hunk) {
    let side = |begin: Option<usize>, count: usize| match (begin.unwrap_or(1), count) {
        (begin, 1) => begin.to_string(),
        (begin, count) => format!("{begin},{count}"),
    };
    let old = side(hunk.old, hunk.before().count());
    let new = side(hunk.new, hunk.after().count());
    out.extend_from_slice(format!("@@ -{old} +{new} @@\n").as_bytes());
    for line in &hunk.lines {
        out.push(match line.sign {
            Sign::Same => b' ',
            Sign::Gone => b'-',
            Sign::New => b'+',
        });
        out.extend_from_slice(&line.text);
        if line.text.last() != Some(&b'\n') {
            out.extend_from_slice(b"\n\\ No newline at end of file\n");
        }
    }
}
