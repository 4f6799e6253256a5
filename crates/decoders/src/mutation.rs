//! Deterministic damage to real values, as from a disk, a bug or an attacker.

/// A small pseudo-random generator (xorshift64*): failing tests must be repeatable.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed.max(1))
    }

    /// Returns a number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16;
        usize::try_from(number).unwrap_or(0) % bound.max(1)
    }

    fn byte(&mut self) -> u8 {
        /// Bytes that start and end lengths, signs, lines, words, quotes and escapes.
        const TELLING: &[u8] = b"\0\x01\x7f\x80\xff\n\r\t\x1b \"'\\${}[]:,#&*-0123456789";
        match self.below(2) {
            0 => TELLING[self.below(TELLING.len())],
            _ => self.below(256) as u8,
        }
    }
}

/// Returns `seed` with one to four mutations; `other` is another real value to copy a part from.
pub fn mutated(seed: &[u8], other: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=chance.below(4) {
        mutate(&mut bytes, other, chance);
    }
    bytes
}

fn mutate(bytes: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    let at = chance.below(bytes.len());
    let end = (at + chance.below(16)).min(bytes.len());
    match chance.below(9) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, chance.byte()),
        2 => drop(bytes.drain(at..end)),
        3 => bytes.extend_from_within(at..end),
        4 => {
            let (from, length) = (chance.below(other.len()), chance.below(32));
            let part = other[from..].iter().copied().take(length);
            bytes.splice(at..at, part);
        }
        5 => {
            // A number or a length at its limits.
            let number = [0, 1, u64::from(u32::MAX), i64::MAX as u64, u64::MAX][chance.below(5)];
            let width = [1, 2, 4, 8][chance.below(4)];
            for (byte, new) in bytes.iter_mut().skip(at).zip(&number.to_le_bytes()[..width]) {
                *byte = *new;
            }
        }
        6 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << chance.below(8);
            }
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = chance.byte();
            }
        }
    }
}
