//! Cuts a manifest that comes in pieces into lines.

use memchr::memchr;

/// Maximum length of a line, in bytes. Paths in deep trees are longer than `PATH_MAX` and have no
/// limit of their own. This one bounds the memory that a file without line ends takes.
pub(super) const LINE_BYTES_MAX: usize = 64 << 20;

/// A line that is being collected.
#[derive(Default)]
pub(super) struct LineCollector {
    line: Vec<u8>,
    number: u64,
    is_too_long: bool,
}

impl LineCollector {
    /// Adds a piece. Calls `take` with the number and the content of each complete line, or with
    /// `None` if the line is too long.
    pub(super) fn feed(&mut self, mut bytes: &[u8], take: &mut impl FnMut(u64, Option<&[u8]>)) {
        while let Some(end) = memchr(b'\n', bytes) {
            self.add(&bytes[..end]);
            self.end(take);
            bytes = &bytes[end + 1..];
        }
        self.add(bytes);
    }

    /// Passes on the last line if no newline ended it.
    pub(super) fn finish(&mut self, take: &mut impl FnMut(u64, Option<&[u8]>)) {
        if !self.line.is_empty() || self.is_too_long {
            self.end(take);
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.is_too_long |= self.line.len() + bytes.len() > LINE_BYTES_MAX;
        if self.is_too_long {
            self.line.clear();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    fn end(&mut self, take: &mut impl FnMut(u64, Option<&[u8]>)) {
        self.number += 1;
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        take(self.number, (!self.is_too_long).then_some(line));
        self.line.clear();
        self.is_too_long = false;
    }
}
