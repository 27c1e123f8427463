//! Iterates over the members of an archive.
//!
//! ```text
//! [x or g: extended header] [L: long name] [K: long link] header [sparse map] content, padded
//! ... two blocks of zeros
//! ```
//!
//! Damage is reported, and skipped as in GNU tar: up to the next block that is a header. Nothing in
//! the archive is believed before it was checked. Names and extended headers have a limit, which
//! bounds memory.

use haul_flow::Problem;

use super::decompress::Packed;
use super::header::{ParsedBlock, ParsedHeader, RawBlock, header, text};
use super::input::{ArchiveInput, BUFFER_BYTES, Chunk, ReadFailure};
use super::member::Member;
use super::pax::{Extended, PaxDefect};
use super::sparse::{self, MapInFront};
use crate::format::{BLOCK, MemberKind};
use crate::{Options, TarKind};

/// Maximum length of a name in a member of its own, in bytes.
const NAME_BYTES_MAX: u64 = 1 << 20;
/// Maximum length of an extended header, in bytes: room for all attributes that a file can have.
const EXTENDED_BYTES_MAX: u64 = 16 << 20;
/// Maximum length of a global extended header, in bytes: it is merged into every member.
const GLOBAL_BYTES_MAX: u64 = 64 << 10;

/// Extended headers and names before a header, which belong to it.
#[derive(Default)]
struct Before {
    /// Records for this member.
    records: Vec<u8>,
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    /// True if something of it could not be read.
    refused: bool,
}

pub(crate) struct Members {
    input: ArchiveInput,
    packed: Option<Packed>,
    global: Extended,
    /// Bytes left of the last member's content, and of its padding.
    left: u64,
    filling: u64,
    /// True if only EOF ends the archive.
    ignore_zeros: bool,
    numeric_owner: bool,
    /// True if an archive of no bytes has no members; otherwise it is not an archive.
    may_be_empty: bool,
    /// True if the last blocks were not headers, which was reported.
    lost: bool,
    seen_any: bool,
    over: bool,
}

impl Members {
    /// Reads from `input`, which was compressed as `packed` says.
    pub(crate) fn new(input: ArchiveInput, packed: Option<Packed>, options: &Options) -> Self {
        Self {
            input,
            packed,
            global: Extended::default(),
            left: 0,
            filling: 0,
            ignore_zeros: options.ignore_zeros,
            numeric_owner: options.numeric_owner,
            // As in GNU tar, for which the decompressor is another program: it wrote nothing.
            may_be_empty: packed.is_some(),
            lost: false,
            seen_any: false,
            over: false,
        }
    }

    /// Reads what a program writes that decompresses the archive.
    pub(crate) fn of_program(input: ArchiveInput, options: &Options) -> Self {
        Self { may_be_empty: true, ..Self::new(input, None, options) }
    }

    pub(crate) fn input(&self) -> &ArchiveInput {
        &self.input
    }

    /// Returns the next member; `None` at the end. Adds problems to report to `problems`.
    ///
    /// # Errors
    /// When the archive cannot be read further.
    pub(crate) fn next(&mut self, problems: &mut Vec<Problem>) -> Result<Option<Member>, ReadFailure> {
        self.pass_over_rest()?;
        let mut before = Before::default();
        while !self.over {
            let (block, length) = self.input.block()?;
            match length {
                BLOCK => {}
                // Like GNU tar: the blocks of zeros at the end may be missing.
                0 if self.seen_any || (self.may_be_empty && !self.lost) => self.over = true,
                _ if !self.seen_any => {
                    self.report_foreign(problems);
                    self.over = true;
                }
                _ => return Err(ReadFailure::Ended),
            }
            if self.over {
                break;
            }
            let found = header(&block);
            if !matches!(found, ParsedBlock::Header(_)) {
                // Extended headers before it belong to a header that is lost, and to no other.
                before = Before::default();
            }
            match found {
                ParsedBlock::Zeros if self.ignore_zeros => self.seen_any = true,
                ParsedBlock::Zeros => self.look_for_end(problems)?,
                ParsedBlock::Other => self.report_lost(problems),
                ParsedBlock::Header(header) => {
                    (self.lost, self.seen_any) = (false, true);
                    let Some(size) = header.size.natural() else {
                        before = Before::default();
                        self.report_lost(problems);
                        continue;
                    };
                    match header.kind {
                        b'x' | b'X' | b'g' | b'L' | b'K' => {
                            self.take_before(header.kind, size, &mut before, problems)?;
                        }
                        _ => return self.member(*header, &block, before, problems).map(Some),
                    }
                }
            }
        }
        Ok(None)
    }

    /// Appends up to `length` bytes of the member's content to a buffer.
    ///
    /// # Errors
    /// When the archive cannot be read further.
    pub(crate) fn content(&mut self, length: usize, buffer: &mut Vec<u8>) -> Result<(), ReadFailure> {
        let length = usize::try_from(self.left).map_or(length, |left| left.min(length));
        self.left -= length as u64;
        if self.input.append(length, buffer)? { Ok(()) } else { Err(ReadFailure::Ended) }
    }

    /// Consumes up to `length` bytes of the member's content, at most a buffer, without copying
    /// them. The result is an error if some are missing.
    pub(crate) fn chunk(&mut self, length: usize) -> (Chunk, Result<(), ReadFailure>) {
        let length = usize::try_from(self.left).map_or(length, |left| left.min(length)).min(BUFFER_BYTES);
        self.left -= length as u64;
        self.input.chunk(length)
    }

    fn pass_over_rest(&mut self) -> Result<(), ReadFailure> {
        let rest = std::mem::take(&mut self.left) + std::mem::take(&mut self.filling);
        if self.input.skip(rest)? { Ok(()) } else { Err(ReadFailure::Ended) }
    }

    /// Reports blocks that are not headers, once.
    fn report_lost(&mut self, problems: &mut Vec<Problem>) {
        self.report_foreign(problems);
        if !self.lost {
            problems.push(Problem::new(TarKind::Skipping));
        }
        self.lost = true;
    }

    /// Reports, once, that the input is not an archive.
    fn report_foreign(&self, problems: &mut Vec<Problem>) {
        if !self.seen_any && !self.lost {
            problems.push(match self.packed {
                None => Problem::new(TarKind::NotAnArchive),
                Some(packed) => Problem::new(TarKind::CompressedNoArchive).naming(packed.name()),
            });
        }
    }

    /// Reads the input after the end of the archive.
    ///
    /// # Errors
    /// When it cannot be read, or compressed data is damaged there.
    pub(crate) fn finish(&mut self) -> Result<(), ReadFailure> {
        self.input.finish()
    }

    /// Looks for the second block of zeros, which ends the archive. A single one ends it too, with
    /// a warning.
    fn look_for_end(&mut self, problems: &mut Vec<Problem>) -> Result<(), ReadFailure> {
        let at = self.input.taken() / BLOCK as u64;
        let (block, length) = self.input.block()?;
        self.over = true;
        if length != BLOCK || header(&block) != ParsedBlock::Zeros {
            let problem = Problem::new(TarKind::LoneZeroBlock).naming(at.to_string());
            problems.push(problem.as_warning());
        }
        Ok(())
    }

    /// Reads an extended header or a long name, which belongs to the header that follows.
    fn take_before(
        &mut self,
        kind: u8,
        size: u64,
        before: &mut Before,
        problems: &mut Vec<Problem>,
    ) -> Result<(), ReadFailure> {
        let limit = match kind {
            b'L' | b'K' => NAME_BYTES_MAX,
            b'g' => GLOBAL_BYTES_MAX,
            _ => EXTENDED_BYTES_MAX,
        };
        self.expect_content(size);
        if size > limit {
            problems.push(Problem::new(TarKind::ExtendedTooLong).naming(size.to_string()));
            // The member's own name may have been in it.
            before.refused |= kind != b'g';
            return self.pass_over_rest();
        }
        let mut content = Vec::new();
        self.content(size as usize, &mut content)?;
        self.pass_over_rest()?;
        match kind {
            b'L' => before.name = Some(text(&content)),
            b'K' => before.link = Some(text(&content)),
            b'g' => {
                // Like GNU tar: it replaces the previous one.
                let mut global = Extended::default();
                before.refused |= take_records(&content, &mut global, problems);
                self.global = global.global();
            }
            _ => before.records = content,
        }
        Ok(())
    }

    fn expect_content(&mut self, size: u64) {
        self.left = size;
        self.filling = sparse::padded(size).map_or(0, |padded| padded - size);
    }

    fn member(
        &mut self,
        header: ParsedHeader,
        block: &RawBlock,
        before: Before,
        problems: &mut Vec<Problem>,
    ) -> Result<Member, ReadFailure> {
        let mut extended = self.global.clone();
        let is_nameless = take_records(&before.records, &mut extended, problems);
        extended.path = extended.path.or(before.name);
        extended.link = extended.link.or(before.link);
        let is_old_sparse = header.is_old_sparse();
        let declared = std::mem::take(&mut extended.sparse);
        if let (true, Some(name)) = (declared.is_any(), &declared.name) {
            extended.path = Some(name.clone());
        }
        let mut member = Member::of(header, extended, self.numeric_owner, problems);
        member.refused = before.refused || is_nameless || member.stored > sparse::FILE_BYTES_MAX;
        let mut map = None;
        if is_old_sparse {
            map = Some(self.old_map(block, &mut member)?);
        }
        self.expect_content(member.stored);
        if member.kind == MemberKind::Regular && declared.is_any() && !is_old_sparse {
            member.size = declared.size.unwrap_or(member.size);
            map = Some(match (declared.major, declared.map) {
                (Some(1), _) => self.map_in_front(&mut member)?,
                (_, found) => found,
            });
        }
        if let Some(found) = map {
            member.map = found.and_then(|map| sparse::checked(map, member.size, member.stored));
            if member.map.is_none() {
                problems.push(Problem::new(TarKind::MalformedSparse).naming(member.name.as_slice()));
                member.refused = true;
            }
        }
        member.content_at = self.input.position();
        Ok(member)
    }

    /// Reads the map of an old GNU header, and the blocks that continue it.
    fn old_map(
        &mut self,
        block: &RawBlock,
        member: &mut Member,
    ) -> Result<Option<Vec<sparse::Extent>>, ReadFailure> {
        let mut map = Vec::new();
        let Some((size, mut more)) = sparse::old_header(block, &mut map) else { return Ok(None) };
        member.size = size;
        while more {
            let (block, length) = self.input.block()?;
            if length != BLOCK {
                return Err(ReadFailure::Ended);
            }
            match sparse::old_continuation(&block, &mut map) {
                Some(follows) => more = follows,
                None => return Ok(None),
            }
        }
        Ok(Some(map))
    }

    /// Reads the map that precedes the content.
    fn map_in_front(&mut self, member: &mut Member) -> Result<Option<Vec<sparse::Extent>>, ReadFailure> {
        let mut reader = MapInFront::default();
        loop {
            let mut bytes = Vec::with_capacity(BLOCK);
            self.content(BLOCK, &mut bytes)?;
            let Ok(block) = RawBlock::try_from(bytes) else { return Ok(None) };
            member.stored -= BLOCK as u64;
            match reader.take(&block) {
                Some(true) => return Ok(Some(reader.finish())),
                Some(false) => {}
                None => return Ok(None),
            }
        }
    }
}

/// Reads the records of an extended header. Returns true if one has a name that must not be used.
fn take_records(records: &[u8], extended: &mut Extended, problems: &mut Vec<Problem>) -> bool {
    let outcome = extended.take(records);
    problems.extend(outcome.as_ref().err().map(PaxDefect::problem));
    matches!(outcome, Err(PaxDefect::Name(_)))
}
