//! The hash algorithms, their names, and their values.

use std::fmt;

use serde::{Deserialize, Serialize};

#[cfg(feature = "manifests")]
use crate::stream::StreamHash;

/// Maximum length of a digest, in bytes.
pub const DIGEST_BYTES_MAX: usize = 32;

/// A hash algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Algorithm {
    /// BLAKE3, with 256 bits. The only one whose result can be computed from ranges.
    #[default]
    Blake3,
    /// XXH3 with 128 bits. Not cryptographic.
    Xxh128,
    /// XXH64. Not cryptographic.
    Xxh64,
    /// SHA-256.
    Sha256,
    /// MD5. Broken: it detects accidents, not attacks.
    Md5,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 5] = [Self::Blake3, Self::Xxh128, Self::Xxh64, Self::Sha256, Self::Md5];

    /// Returns the name on the command line, and in JSON and MHL manifests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blake3 => "blake3",
            Self::Xxh128 => "xxh128",
            Self::Xxh64 => "xxh64",
            Self::Sha256 => "sha256",
            Self::Md5 => "md5",
        }
    }

    /// Returns the tag in BSD lines: `SHA256 (name) = hash`.
    #[must_use]
    pub const fn tag(self) -> &'static str {
        match self {
            Self::Blake3 => "BLAKE3",
            Self::Xxh128 => "XXH128",
            Self::Xxh64 => "XXH64",
            Self::Sha256 => "SHA256",
            Self::Md5 => "MD5",
        }
    }

    /// Returns the length of a digest, in bytes.
    #[must_use]
    pub const fn digest_bytes(self) -> usize {
        match self {
            Self::Blake3 | Self::Sha256 => 32,
            Self::Xxh128 | Self::Md5 => 16,
            Self::Xxh64 => 8,
        }
    }

    /// Returns the algorithm with this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Returns the algorithm with this tag.
    #[must_use]
    pub fn of_tag(tag: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.tag().as_bytes() == tag)
    }

    /// Hashes bytes that are all in memory.
    #[cfg(feature = "manifests")]
    #[must_use]
    pub fn hash(self, bytes: &[u8]) -> Digest {
        let mut hash = StreamHash::new(self);
        hash.append(bytes);
        hash.value()
    }
}

/// The value of a hash. Displayed in lower-case hexadecimal, XXH values with the high byte first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Digest {
    algorithm: Algorithm,
    // Zeros follow the digest's bytes, so that equal digests are equal arrays.
    bytes: [u8; DIGEST_BYTES_MAX],
}

impl Digest {
    /// Creates a digest. Returns `None` if the length isn't that of the algorithm.
    #[must_use]
    pub fn new(algorithm: Algorithm, digest: &[u8]) -> Option<Self> {
        (digest.len() == algorithm.digest_bytes()).then(|| Self::of(algorithm, digest))
    }

    pub(crate) fn of(algorithm: Algorithm, digest: &[u8]) -> Self {
        let mut bytes = [0; DIGEST_BYTES_MAX];
        bytes[..digest.len()].copy_from_slice(digest);
        Self { algorithm, bytes }
    }

    /// Parses hexadecimal digits, in upper or lower case. Returns `None` if their number isn't that
    /// of the algorithm, or if there is anything else.
    #[must_use]
    pub fn parse(algorithm: Algorithm, digits: &[u8]) -> Option<Self> {
        if digits.len() != 2 * algorithm.digest_bytes() {
            return None;
        }
        let mut bytes = [0; DIGEST_BYTES_MAX];
        for (byte, digits) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            *byte = u8::try_from(digit(digits[0])? << 4 | digit(digits[1])?).ok()?;
        }
        Some(Self { algorithm, bytes })
    }

    /// Returns the algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.algorithm.digest_bytes()]
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{self}", self.algorithm.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_algorithm_gives_its_known_values() {
        let known = [
            (Algorithm::Blake3, "", "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
            (Algorithm::Blake3, "abc", "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"),
            (Algorithm::Sha256, "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            (Algorithm::Sha256, "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (Algorithm::Md5, "", "d41d8cd98f00b204e9800998ecf8427e"),
            (Algorithm::Md5, "abc", "900150983cd24fb0d6963f7d28e17f72"),
            (Algorithm::Xxh64, "", "ef46db3751d8e999"),
            (Algorithm::Xxh64, "abc", "44bc2cf5ad770999"),
            (Algorithm::Xxh128, "", "99aa06d3014798d86001c324468d497f"),
            (Algorithm::Xxh128, "abc", "06b05ab6733a618578af5f94892f3950"),
        ];
        for (algorithm, text, digits) in known {
            let digest = algorithm.hash(text.as_bytes());
            assert_eq!(digest.to_string(), digits, "{algorithm:?} of {text:?}");
            assert_eq!(Digest::parse(algorithm, digits.to_uppercase().as_bytes()), Some(digest));
            assert_eq!(Digest::new(algorithm, digest.bytes()), Some(digest));
        }
    }

    #[test]
    fn names_and_tags_lead_back_to_their_algorithm() {
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::of_name(algorithm.name()), Some(algorithm));
            assert_eq!(Algorithm::of_tag(algorithm.tag().as_bytes()), Some(algorithm));
        }
        assert_eq!((Algorithm::of_name("SHA256"), Algorithm::of_tag(b"sha256")), (None, None));
    }

    #[test]
    fn only_digits_of_the_right_number_are_a_digest() {
        let parse = |digits: &str| Digest::parse(Algorithm::Xxh64, digits.as_bytes());
        assert!(parse("0123456789abcDEF").is_some());
        for wrong in ["", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeg", "+123456789abcdef"] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
