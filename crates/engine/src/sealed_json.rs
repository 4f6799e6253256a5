//! A checksum in our JSON files, so that a changed bit is detected and not obeyed.
//!
//! The last field, `checksum`, is the SHA-256 of the text without it. `sealed: true` near the beginning says
//! that it must be there. A file without both was written by an older version or by hand, and is read as it is:
//! to edit a file by hand, remove both lines. Older versions ignore the two fields.

use crate::audit::sha256;

const BEFORE: &[u8] = b",\n  \"checksum\": \"";
const AFTER: &[u8] = b"\"\n}\n";
/// The end of an object in serde's pretty form.
const END: &[u8] = b"\n}";
/// Length of a SHA-256 in hexadecimal digits.
const DIGITS: usize = 64;

/// Adds the checksum to an object in serde's pretty form.
pub(crate) fn seal(body: &[u8]) -> Vec<u8> {
    let open = body.strip_suffix(END).expect("a pretty object with fields ends with its own line");
    [open, BEFORE, sha256(body).as_bytes(), AFTER].concat()
}

/// Verifies the checksum. `sealed`: the file says that it has one. `Err` is the rest of a sentence about the
/// file.
pub(crate) fn check(bytes: &[u8], sealed: bool) -> Result<(), String> {
    let Some((open, digits)) = split(bytes) else {
        let edit = "to edit it by hand, remove the line 'sealed', too";
        return if sealed {
            Err(format!("is damaged: its checksum is missing; {edit}"))
        } else {
            Ok(())
        };
    };
    if sha256(&[open, END].concat()).as_bytes() == digits {
        return Ok(());
    }
    Err("is damaged: its checksum does not match; to edit it by hand, remove the lines 'sealed' and 'checksum'".into())
}

/// The text before the checksum, and its digits.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = bytes.strip_suffix(AFTER)?;
    let (rest, digits) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
    Some((rest.strip_suffix(BEFORE)?, digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_changed_bit_and_no_missing_end_is_accepted() {
        let body = serde_json::json!({"sealed": true, "version": 1, "wishes": {"web": "up"}});
        let sealed = seal(&serde_json::to_vec_pretty(&body).unwrap());
        let accepted = |bytes: &[u8]| {
            let Ok(value) = serde_json::from_slice::<serde_json::Value>(bytes) else {
                return false;
            };
            check(bytes, value["sealed"] == true).is_ok()
        };
        assert!(accepted(&sealed));
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!accepted(&flipped), "bit {bit}: {}", String::from_utf8_lossy(&flipped));
        }
        for length in 0..sealed.len() {
            assert!(!accepted(&sealed[..length]), "{length} bytes");
        }
    }

    #[test]
    fn a_file_without_a_checksum_is_as_good_as_it_reads() {
        assert_eq!(check(b"{\"version\":1}", false), Ok(()));
        assert_eq!(check(b"", false), Ok(()));
    }
}
