//! Parses manifests of any format.

use std::fmt;

use crate::algorithm::{Algorithm, Digest};

use super::line::LineCollector;
use super::text::TextParser;
use super::{json, mhl};

/// Maximum size of an MHL file, in bytes, because it is parsed as a whole.
const DOCUMENT_BYTES_MAX: usize = 256 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file in a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestEntry {
    /// Its path.
    pub path: Vec<u8>,
    /// Its length, in bytes, if the manifest has it.
    pub size: Option<u64>,
    /// Its hash.
    pub expected: ExpectedHash,
}

/// The hash that a manifest has for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedHash {
    /// Of a known algorithm.
    Known(Digest),
    /// 64 digits without an algorithm: BLAKE3 from `b3sum`, or SHA-256 from `sha256sum`.
    Either {
        /// The digits as BLAKE3.
        blake3: Digest,
        /// The digits as SHA-256.
        sha256: Digest,
    },
}

impl ExpectedHash {
    /// Interprets digits without an algorithm: those of the hinted one, or else the algorithm
    /// is judged by their number. 32 digits are MD5: if XXH128 were tried too, anyone could make
    /// another file that passes for one with this MD5.
    pub(super) fn untagged(digits: &[u8], hint: Option<Algorithm>) -> Result<Self, ParseError> {
        let known = |algorithm| Digest::parse(algorithm, digits).ok_or(ParseError::BadHash);
        Ok(match (hint, digits.len()) {
            (Some(algorithm), _) => Self::Known(known(algorithm)?),
            (None, 16) => Self::Known(known(Algorithm::Xxh64)?),
            (None, 32) => Self::Known(known(Algorithm::Md5)?),
            (None, _) => {
                Self::Either { blake3: known(Algorithm::Blake3)?, sha256: known(Algorithm::Sha256)? }
            }
        })
    }

    /// Returns the acceptable digests: the file must have one of them.
    pub fn digests(&self) -> impl Iterator<Item = Digest> {
        let (first, second) = match *self {
            Self::Known(digest) => (digest, None),
            Self::Either { blake3, sha256 } => (blake3, Some(sha256)),
        };
        std::iter::once(first).chain(second)
    }
}

/// Why a line of a manifest can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// It has none of the known forms.
    Malformed,
    /// The hash has the wrong number of digits, or other characters.
    BadHash,
    /// The name is missing, or is wrongly escaped or encoded.
    BadName,
    /// The algorithm isn't known.
    UnknownAlgorithm,
    /// The line, or the MHL file, is too long.
    TooLong,
}

impl fmt::Display for ParseError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Malformed => "not a line of a manifest",
            Self::BadHash => "not a hash",
            Self::BadName => "not a name",
            Self::UnknownAlgorithm => "unknown hash algorithm",
            Self::TooLong => "too long",
        })
    }
}

impl std::error::Error for ParseError {}

/// A line of a manifest that lists a file, or should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestLine {
    /// Number of the line, from 1.
    pub line: u64,
    /// The file.
    pub listed: Result<ManifestEntry, ParseError>,
}

/// Parses a manifest that comes in pieces of any size.
pub struct Parser {
    hint: Option<Algorithm>,
    state: ParserState,
}

enum ParserState {
    /// The first bytes, too few to detect the format.
    Undecided(Vec<u8>),
    Lines(LineCollector, TextParser),
    Document(Vec<u8>),
    TooLong,
}

impl Parser {
    /// Creates a parser. Hashes without an algorithm are of the hinted one.
    #[must_use]
    pub fn new(hint: Option<Algorithm>) -> Self {
        Self { hint, state: ParserState::Undecided(Vec::new()) }
    }

    /// Parses a piece of the manifest, and calls `take` with each line that it completes.
    pub fn feed(&mut self, bytes: &[u8], mut take: impl FnMut(ManifestLine)) {
        if let ParserState::Undecided(first) = &mut self.state {
            first.extend_from_slice(bytes);
            // A byte order mark and the character after it.
            if first.len() > BYTE_ORDER_MARK.len() {
                self.decide(&mut take);
            }
        } else {
            self.add(bytes, &mut take);
        }
    }

    /// Parses the remaining bytes.
    pub fn finish(mut self, mut take: impl FnMut(ManifestLine)) {
        self.decide(&mut take);
        match self.state {
            ParserState::Lines(mut lines, mut text) => {
                lines.finish(&mut |number, line| parse_line(&mut text, self.hint, number, line, &mut take));
            }
            ParserState::Document(document) => mhl::parse(&document, self.hint, &mut take),
            ParserState::Undecided(_) | ParserState::TooLong => {}
        }
    }

    fn decide(&mut self, take: &mut impl FnMut(ManifestLine)) {
        let ParserState::Undecided(first) = &mut self.state else { return };
        let first = std::mem::take(first);
        let is_document = first.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&first).starts_with(b"<");
        self.state = match is_document {
            true => ParserState::Document(Vec::new()),
            false => ParserState::Lines(LineCollector::default(), TextParser::default()),
        };
        self.add(&first, take);
    }

    fn add(&mut self, bytes: &[u8], take: &mut impl FnMut(ManifestLine)) {
        match &mut self.state {
            ParserState::Lines(lines, text) => {
                lines.feed(bytes, &mut |number, line| parse_line(text, self.hint, number, line, take));
            }
            ParserState::Document(document) if document.len() + bytes.len() > DOCUMENT_BYTES_MAX => {
                self.state = ParserState::TooLong;
                take(ManifestLine { line: 1, listed: Err(ParseError::TooLong) });
            }
            ParserState::Document(document) => document.extend_from_slice(bytes),
            ParserState::Undecided(_) | ParserState::TooLong => {}
        }
    }
}

/// Parses a line. Empty lines and comments are skipped, as `sha256sum -c` does.
fn parse_line(
    text: &mut TextParser,
    hint: Option<Algorithm>,
    number: u64,
    line: Option<&[u8]>,
    take: &mut impl FnMut(ManifestLine),
) {
    let listed = match line {
        None => Err(ParseError::TooLong),
        Some([] | [b'#', ..]) => return,
        Some(line @ [b'{', ..]) => json::parse(line),
        Some(line) => text.parse(line, hint),
    };
    take(ManifestLine { line: number, listed });
}
