//! Encoding of the runtime files that a new keeper trusts after a crash.
//!
//! Each file is an envelope: `magic [u8;4] · version u16 · kind u16 · length u32 · crc32 u32 ·
//! body`. A file that is too short or too long, or has another version or checksum, is reported as
//! damaged.
//!
//! State that changes often is in [`crate::state_file`].

use crate::name::RunId;
use crate::spec::ServiceSpec;
use crate::stored::{self, Format, StoredError, v1, variables};

const MAGIC: [u8; 4] = *b"PRCT";
const HEADER: usize = 16;

/// The layout of an [`Identity`], which has no numbered fields.
const IDENTITY_VERSION: u16 = 1;

/// A value that is kept in an envelope.
pub trait Body: Sized {
    const KIND: u16;

    fn encode(&self) -> Vec<u8>;

    fn decode(format: Format, bytes: &[u8]) -> Result<Self, StoredError>;
}

/// `spec`: a service's settings as last defined.
impl Body for ServiceSpec {
    const KIND: u16 = 1;

    fn encode(&self) -> Vec<u8> {
        stored::spec::encode(self)
    }

    fn decode(format: Format, bytes: &[u8]) -> Result<ServiceSpec, StoredError> {
        match format {
            Format::V1 => v1::decode_spec(bytes),
            Format::V2 => stored::spec::decode(bytes),
        }
    }
}

/// `env/<id>`: a shared environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedVariables(pub Vec<(String, String)>);

impl Body for SharedVariables {
    const KIND: u16 = 3;

    fn encode(&self) -> Vec<u8> {
        stored::encode(&variables::Shared::from(self))
    }

    fn decode(format: Format, bytes: &[u8]) -> Result<SharedVariables, StoredError> {
        match format {
            Format::V1 => v1::decode_shared(bytes),
            Format::V2 => stored::decode::<variables::Shared<'_>>(bytes).map(Into::into),
        }
    }
}

/// `once`: variables for the next run of a service only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceVariables {
    /// The last run before the variables were set. Any later run has already received them.
    pub after: RunId,
    pub env: Vec<(String, String)>,
}

impl Body for OnceVariables {
    const KIND: u16 = 4;

    fn encode(&self) -> Vec<u8> {
        stored::encode(&variables::Once::from(self))
    }

    fn decode(format: Format, bytes: &[u8]) -> Result<OnceVariables, StoredError> {
        match format {
            Format::V1 => v1::decode_once(bytes),
            Format::V2 => stored::decode::<variables::Once<'_>>(bytes).map(Into::into),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error("is not a Proctor record")]
    NotOurs,
    #[error("has version {0}; this program knows versions 1 to {newest}", newest = stored::VERSION)]
    Version(u16),
    #[error("is of kind {0}, not {1}")]
    Kind(u16, u16),
    #[error("is damaged (length or checksum)")]
    Damaged,
    #[error("{0}")]
    Body(#[from] StoredError),
    #[error("is too large to be written")]
    TooLarge,
}

pub fn seal<B: Body>(body: &B) -> Result<Vec<u8>, RecordError> {
    seal_encoded::<B>(&body.encode())
}

/// An envelope with a body that was encoded before.
pub fn seal_encoded<B: Body>(body: &[u8]) -> Result<Vec<u8>, RecordError> {
    let length = u32::try_from(body.len()).map_err(|_| RecordError::TooLarge)?;
    let mut out = Vec::with_capacity(HEADER + body.len());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&stored::VERSION.to_le_bytes());
    out.extend_from_slice(&B::KIND.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&crc32fast::hash(body).to_le_bytes());
    out.extend_from_slice(body);
    Ok(out)
}

pub fn open<B: Body>(bytes: &[u8]) -> Result<B, RecordError> {
    let (header, body) = bytes.split_first_chunk::<HEADER>().ok_or(RecordError::Damaged)?;
    if header[0..4] != MAGIC {
        return Err(RecordError::NotOurs);
    }
    let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let long = |at: usize| {
        u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let format = Format::of(short(4)).ok_or(RecordError::Version(short(4)))?;
    if short(6) != B::KIND {
        return Err(RecordError::Kind(short(6), B::KIND));
    }
    if long(8) as usize != body.len() || long(12) != crc32fast::hash(body) {
        return Err(RecordError::Damaged);
    }
    Ok(B::decode(format, body)?)
}

/// The identity of a run's process: enough to recognise it with certainty, and to reject an
/// unrelated process with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    pub pid: u32,
    /// Start time of the process in clock ticks since boot (`/proc/PID/stat`, field 22); 0 if pidfs
    /// identifies it.
    pub start_ticks: u64,
    /// Inode of its pidfd in pidfs, unique until reboot; 0 if the kernel has no pidfs.
    pub pidfs_inode: u64,
    pub boot: BootId,
    /// The run that this process belongs to.
    pub run: RunId,
}

/// The kernel's random id of this boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootId(pub [u8; 16]);

/// Size of an encoded identity in bytes.
pub const IDENTITY_SIZE: usize = 64;

impl Identity {
    /// Allocates nothing: this runs between fork and exec.
    pub fn encode(&self) -> [u8; IDENTITY_SIZE] {
        let mut out = [0; IDENTITY_SIZE];
        out[0..4].copy_from_slice(&MAGIC);
        out[4..6].copy_from_slice(&IDENTITY_VERSION.to_le_bytes());
        out[8..12].copy_from_slice(&self.pid.to_le_bytes());
        out[16..24].copy_from_slice(&self.start_ticks.to_le_bytes());
        out[24..32].copy_from_slice(&self.pidfs_inode.to_le_bytes());
        out[32..48].copy_from_slice(&self.boot.0);
        out[48..56].copy_from_slice(&self.run.0.to_le_bytes());
        let sum = checksum(&out[..60]);
        out[60..64].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Returns `None` if no identity was ever written.
    pub fn decode(bytes: &[u8; IDENTITY_SIZE]) -> Result<Option<Identity>, RecordError> {
        if bytes.iter().all(|b| *b == 0) {
            return Ok(None);
        }
        let is_ours = bytes[0..4] == MAGIC && bytes[4..6] == IDENTITY_VERSION.to_le_bytes();
        if !is_ours || bytes[60..64] != checksum(&bytes[..60]).to_le_bytes() {
            return Err(RecordError::Damaged);
        }
        let word = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(eight)
        };
        let long = |at: usize| word(at) as u32;
        let mut boot = [0; 16];
        boot.copy_from_slice(&bytes[32..48]);
        Ok(Some(Identity {
            pid: long(8),
            start_ticks: word(16),
            pidfs_inode: word(24),
            boot: BootId(boot),
            run: RunId(word(48)),
        }))
    }
}

/// CRC-32 without tables or allocation. `crc32fast` selects its code at run time, which a forked
/// child must not do.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_comes_back_and_every_flipped_byte_is_noticed() {
        let boot = BootId([7; 16]);
        let identity =
            Identity { pid: 77, start_ticks: 1 << 40, pidfs_inode: 9, boot, run: RunId(5) };
        let bytes = identity.encode();
        assert_eq!(Identity::decode(&bytes), Ok(Some(identity)));
        assert_eq!(Identity::decode(&[0; IDENTITY_SIZE]), Ok(None));
        for at in 0..bytes.len() {
            let mut bad = bytes;
            bad[at] ^= 0x55;
            assert_eq!(Identity::decode(&bad), Err(RecordError::Damaged), "byte {at}");
        }
    }

    #[test]
    fn every_flipped_byte_of_an_envelope_is_noticed() {
        let sealed = seal(&SharedVariables(vec![("A".into(), "b".into())])).unwrap();
        assert!(open::<SharedVariables>(&sealed).is_ok());
        for at in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[at] ^= 0x55;
            assert!(open::<SharedVariables>(&bad).is_err(), "byte {at}");
            assert!(open::<SharedVariables>(&sealed[..at]).is_err(), "cut at {at}");
        }
    }

    /// Returns the content of a sealed file with a corrected header.
    fn resealed(content: &[u8]) -> Vec<u8> {
        let mut file = seal(&SharedVariables(Vec::new())).unwrap();
        file.truncate(HEADER);
        file[8..12].copy_from_slice(&(content.len() as u32).to_le_bytes());
        file[12..16].copy_from_slice(&crc32fast::hash(content).to_le_bytes());
        [file.as_slice(), content].concat()
    }

    #[test]
    fn what_stands_behind_the_content_is_damage_even_with_a_right_checksum() {
        let sealed = seal(&SharedVariables(vec![("A".into(), "b".into())])).unwrap();
        let content = &sealed[HEADER..];
        assert_eq!(resealed(content), sealed);
        let longer = resealed(&[content, &[0]].concat());
        let trailing = RecordError::Body(StoredError::Trailing(1));
        assert_eq!(open::<SharedVariables>(&longer), Err(trailing));
    }

    /// An identity with this byte changed and its checksum made right again.
    fn changed_identity(at: usize) -> Result<Option<Identity>, RecordError> {
        let boot = BootId([7; 16]);
        let identity =
            Identity { pid: 77, start_ticks: 1 << 40, pidfs_inode: 9, boot, run: RunId(5) };
        let mut bytes = identity.encode();
        bytes[at] += 1;
        let sum = checksum(&bytes[..60]);
        bytes[60..].copy_from_slice(&sum.to_le_bytes());
        Identity::decode(&bytes)
    }

    #[test]
    fn an_identity_of_another_version_is_damaged_and_one_with_more_to_say_is_read() {
        assert_eq!(changed_identity(0), Err(RecordError::Damaged));
        assert_eq!(changed_identity(4), Err(RecordError::Damaged));
        for at in [6, 12, 57] {
            assert!(
                matches!(changed_identity(at), Ok(Some(Identity { pid: 77, .. }))),
                "byte {at}"
            );
        }
    }

    #[test]
    fn our_checksum_is_the_usual_crc32() {
        assert_eq!(checksum(b"123456789"), crc32fast::hash(b"123456789"));
    }
}
