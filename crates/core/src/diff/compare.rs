//! Computes the shortest edit between two contents with Myers' algorithm. Divides at the middle of
//! the shortest path, so that memory grows linearly with the number of lines.

use super::lines;
use std::collections::HashMap;
use std::ops::Range;

/// Maximum number of differences on the way to the middle. Nobody reads more one by one, so the
/// rest becomes one block. Time grows with the square of this number.
const MAX_EDIT_DISTANCE: usize = 4096;

/// A range of old lines and the range of new lines that replaces it. Line numbers start at 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub old: Range<usize>,
    pub new: Range<usize>,
}

/// Returns the differences between two contents in order; the lines between them are equal.
pub fn compare(old: &[u8], new: &[u8]) -> Vec<Block> {
    let (old, new) = (lines(old), lines(new));
    // Most of a large file is usually equal, and need not be compared line by line.
    let begin = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let ends = old[begin..].iter().rev().zip(new[begin..].iter().rev());
    let end = ends.take_while(|(one, other)| one == other).count();
    let mut known = HashMap::new();
    let [old, new] = [&old[begin..old.len() - end], &new[begin..new.len() - end]].map(|lines| {
        let numbered = lines.iter().map(|line| {
            let next = known.len();
            *known.entry(*line).or_insert(next)
        });
        numbered.collect::<Vec<usize>>()
    });
    let mut blocks = Vec::new();
    divide(&old, &new, (begin, begin), &mut blocks);
    joined(blocks)
}

fn divide(old: &[usize], new: &[usize], at: (usize, usize), blocks: &mut Vec<Block>) {
    let begin = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let (old, new) = (&old[begin..], &new[begin..]);
    let ends = old.iter().rev().zip(new.iter().rev());
    let end = ends.take_while(|(one, other)| one == other).count();
    let (old, new) = (&old[..old.len() - end], &new[..new.len() - end]);
    let at = (at.0 + begin, at.1 + begin);
    if old.is_empty() && new.is_empty() {
        return;
    }
    let whole = Block { old: at.0..at.0 + old.len(), new: at.1..at.1 + new.len() };
    let middle = if old.is_empty() || new.is_empty() { None } else { middle(old, new) };
    // A middle at either end divides nothing.
    match middle.filter(|middle| *middle != (0, 0) && *middle != (old.len(), new.len())) {
        None => blocks.push(whole),
        Some((x, y)) => {
            divide(&old[..x], &new[..y], at, blocks);
            divide(&old[x..], &new[y..], (at.0 + x, at.1 + y), blocks);
        }
    }
}

/// The furthest point on each diagonal for a number of differences.
struct FurthestPoints {
    furthest: Vec<usize>,
    zero: usize,
}

impl FurthestPoints {
    fn new(most: usize) -> FurthestPoints {
        FurthestPoints { furthest: vec![0; 2 * most + 3], zero: most + 1 }
    }

    fn at(&mut self, diagonal: isize) -> &mut usize {
        &mut self.furthest[self.zero.wrapping_add_signed(diagonal)]
    }

    /// Advances one step from a neighbouring diagonal.
    fn step(&mut self, differences: isize, diagonal: isize) -> usize {
        let (below, above) = (*self.at(diagonal - 1), *self.at(diagonal + 1));
        let down = diagonal == -differences || (diagonal != differences && below < above);
        if down { above } else { below + 1 }
    }
}

/// Finds the point where the shortest path, followed from both ends, meets; `None` if the path is
/// too long.
fn middle(old: &[usize], new: &[usize]) -> Option<(usize, usize)> {
    let (rows, columns) = (old.len() as isize, new.len() as isize);
    let delta = rows - columns;
    let most = ((old.len() + new.len()).div_ceil(2)).min(MAX_EDIT_DISTANCE);
    let (mut forward, mut backward) = (FurthestPoints::new(most), FurthestPoints::new(most));
    for differences in 0..=most as isize {
        for diagonal in (-differences..=differences).rev().step_by(2) {
            let begin = forward.step(differences, diagonal);
            let y = begin as isize - diagonal;
            let same = slide(begin as isize, y, (rows, columns), |x, y| old[x] == new[y]);
            *forward.at(diagonal) = begin + same;
            let other = delta - diagonal;
            if delta % 2 != 0
                && other.abs() < differences
                && begin + same + *backward.at(other) >= old.len()
            {
                return inside(begin as isize, y, (rows, columns));
            }
        }
        for diagonal in (-differences..=differences).rev().step_by(2) {
            let begin = backward.step(differences, diagonal);
            let y = begin as isize - diagonal;
            let same = slide(begin as isize, y, (rows, columns), |x, y| {
                old[old.len() - x - 1] == new[new.len() - y - 1]
            });
            *backward.at(diagonal) = begin + same;
            let other = delta - diagonal;
            if delta % 2 == 0
                && other.abs() <= differences
                && begin + same + *forward.at(other) >= old.len()
            {
                let (x, y) = (begin as isize + same as isize, y + same as isize);
                return inside(rows - x, columns - y, (rows, columns));
            }
        }
    }
    None
}

/// Counts equal lines in a row from here.
fn slide(
    x: isize,
    y: isize,
    (rows, columns): (isize, isize),
    same: impl Fn(usize, usize) -> bool,
) -> usize {
    let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return 0 };
    let room = (rows as usize).saturating_sub(x).min((columns as usize).saturating_sub(y));
    (0..room).take_while(|step| same(x + step, y + step)).count()
}

fn inside(x: isize, y: isize, (rows, columns): (isize, isize)) -> Option<(usize, usize)> {
    let fits = (0..=rows).contains(&x) && (0..=columns).contains(&y);
    fits.then_some((x as usize, y as usize))
}

/// Merges adjacent blocks.
fn joined(blocks: Vec<Block>) -> Vec<Block> {
    let mut joined: Vec<Block> = Vec::with_capacity(blocks.len());
    for block in blocks {
        match joined.last_mut() {
            Some(last) if last.old.end == block.old.start && last.new.end == block.new.start => {
                last.old.end = block.old.end;
                last.new.end = block.new.end;
            }
            _ => joined.push(block),
        }
    }
    joined
}
