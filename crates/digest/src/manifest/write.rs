//! Writes manifests.

use std::fmt;
use std::time::SystemTime;

use crate::algorithm::{Algorithm, Digest};

use super::mhl::{self, HashList};
use super::{Format, LineEnd, json, text};

/// A file in a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashRecord<'a> {
    /// Its path.
    pub path: &'a [u8],
    /// Its length, in bytes. `None` for streams.
    pub size: Option<u64>,
    /// Its hash.
    pub digest: Digest,
}

/// Who creates a manifest, for formats that say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creator {
    /// Name of the host.
    pub host: String,
    /// Version of haul.
    pub version: String,
    /// Time of creation.
    pub created: SystemTime,
}

/// A record that can't be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// An MHL file can't have hashes of this algorithm.
    NotInMhl(Algorithm),
    /// An MHL file can't have this name: it isn't UTF-8, or has control characters.
    NameNotInMhl,
}

impl fmt::Display for WriteError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInMhl(algorithm) => write!(out, "MHL has no {} hashes", algorithm.name()),
            Self::NameNotInMhl => out.write_str("the name can't be written in XML"),
        }
    }
}

impl std::error::Error for WriteError {}

/// Writes a manifest, record by record.
pub struct Writer(WriterFormat);

enum WriterFormat {
    Lines(Format, LineEnd),
    Mhl(HashList),
}

impl Writer {
    /// Creates a writer. `end` is ignored for an MHL file; `creator` is written to MHL files only.
    ///
    /// # Errors
    /// If the format can't have hashes of the algorithm.
    pub fn new(
        format: Format,
        algorithm: Algorithm,
        end: LineEnd,
        creator: &Creator,
    ) -> Result<Self, WriteError> {
        Ok(Self(match format {
            Format::Mhl if !mhl::has(algorithm) => return Err(WriteError::NotInMhl(algorithm)),
            Format::Mhl => WriterFormat::Mhl(HashList::new(creator)),
            lines => WriterFormat::Lines(lines, end),
        }))
    }

    /// Appends the header, which comes before the first record.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let WriterFormat::Mhl(list) = &self.0 {
            list.begin(out);
        }
    }

    /// Appends a record.
    ///
    /// # Errors
    /// If it can't be written in this format. Nothing is appended.
    pub fn record(&mut self, out: &mut Vec<u8>, record: &HashRecord<'_>) -> Result<(), WriteError> {
        match &mut self.0 {
            WriterFormat::Lines(Format::Json, end) => {
                json::append(out, record);
                out.push(end.byte());
            }
            WriterFormat::Lines(Format::Bsd, end) => {
                text::append_tagged(out, *end, &record.digest, record.path);
            }
            WriterFormat::Lines(_, end) => text::append_plain(out, *end, &record.digest, record.path),
            WriterFormat::Mhl(list) => list.record(out, record)?,
        }
        Ok(())
    }

    /// Appends the trailer, which comes after the last record.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        if let WriterFormat::Mhl(list) = &self.0 {
            list.end(out);
        }
    }
}
