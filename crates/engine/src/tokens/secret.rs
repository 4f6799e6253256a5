//! A token's secret, and the digest that is stored of it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;
use subtle::ConstantTimeEq;

/// Prefix by which people and scanners recognise a leaked secret.
const PREFIX: &str = "proctor_";

/// The secret that a client presents. Shown once, stored nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// 256 random bits cannot be guessed, so a plain hash is enough to store.
    pub(crate) fn random() -> Secret {
        let secret =
            format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(proctor_sys::random::bytes::<32>()));
        crate::secrets::learn(&secret);
        Secret(secret)
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(proctor_core::config::secret::HIDDEN)
    }
}

/// SHA-256 of a secret.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    pub(crate) fn of(secret: &str) -> Digest {
        Digest(Sha256::digest(secret.as_bytes()).into())
    }

    /// Compares in constant time.
    pub(crate) fn is(&self, other: &Digest) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        hex(&digest.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Digest, &'static str> {
        let mut bytes = [0; 32];
        let legal =
            text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !legal {
            return Err("a digest has 64 lower-case hexadecimal digits");
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| "not text")?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| "not a hexadecimal number")?;
        }
        Ok(Digest(bytes))
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_long_random_and_never_printed() {
        let secret = Secret::random();
        assert_eq!(secret.reveal().len(), PREFIX.len() + 43);
        assert!(secret.reveal().starts_with("proctor_"));
        assert_ne!(secret, Secret::random());
        assert_eq!(format!("{secret:?}"), "***");
    }

    #[test]
    fn a_digest_comes_back_from_its_text_and_nothing_else_does() {
        let digest = Digest::of("abc");
        let text = String::from(digest);
        assert_eq!(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(Digest::try_from(text.clone()).unwrap().is(&digest));
        assert!(!Digest::of("abd").is(&digest));
        for wrong in ["", &text[1..], &text.to_uppercase(), &text.replace('b', "g")] {
            assert!(Digest::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
