//! Archive layout for the two-pass writer: members in order, each with its offset, cut into spans
//! that are written in one call.
//!
//! A directory precedes its contents, and a file its hard links. Within a directory, files precede
//! subdirectories, unless the order by name was requested. A member's offset is the total size of
//! the members before it, so any worker can write any span at any time. A span is a run of whole
//! members, or a piece of a large one.
//!
//! Invariant: spans are contiguous from 0 to the end of the last member, and each member's content
//! is in exactly one span, or in consecutive pieces (test: `spans_cover_everything_once`).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use haul_flow::{FileKey, Reporter, lock};

use super::TarKind;
use super::entry::{DirectoryListing, OwnerNames, TarEntry};
use super::examiner::unfit_problem;
use super::format::{MemberKind, in_blocks};
use super::options::{Links, MemberOrder, Options};
use super::prefix::PrefixReporter;

pub(super) struct PlacedMember {
    /// Index in [`ItemLayout::listings`] of its directory.
    pub(super) listing: u32,
    /// Offset of its first header.
    pub(super) offset: u64,
    pub(super) entry: TarEntry,
}

impl PlacedMember {
    pub(super) fn content(&self) -> u64 {
        self.offset + u64::from(self.entry.header_bytes)
    }

    /// Returns the offset of the next member.
    fn end(&self) -> u64 {
        self.content() + in_blocks(self.entry.stored_bytes())
    }
}

/// A part of the archive that is made as a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) bytes: Range<u64>,
    pub(super) members: Range<usize>,
    /// True if it is a piece of a large member, which is then its only member.
    pub(super) is_piece: bool,
}

pub(super) struct ItemLayout {
    pub(super) listings: Vec<Arc<DirectoryListing>>,
    pub(super) members: Vec<PlacedMember>,
    pub(super) spans: Vec<Span>,
}

impl ItemLayout {
    /// Orders everything found below the operands' parent directories (`parents`). Reports what
    /// cannot be archived; the flag is true if everything can.
    pub(super) fn new(
        parents: Vec<Arc<DirectoryListing>>,
        options: &Options,
        owners: &OwnerNames,
        span_bytes: u64,
        report: &dyn Reporter,
    ) -> (Self, bool) {
        let mut layout = Self { listings: Vec::new(), members: Vec::new(), spans: Vec::new() };
        for parent in parents {
            layout.add_all_below(parent, options.order);
        }
        let all_fit = layout.link(options, owners, report);
        layout.assign_offsets();
        layout.cut_spans(span_bytes, options.several_processes);
        (layout, all_fit)
    }

    /// Adds everything below a directory. Iterative, because trees can be very deep.
    fn add_all_below(&mut self, parent: Arc<DirectoryListing>, order: MemberOrder) {
        let mut stack = vec![self.open(parent, order)];
        while let Some((listing, rest)) = stack.last_mut() {
            let Some(entry) = rest.next() else {
                stack.pop();
                continue;
            };
            let below = entry.listing.clone();
            self.members.push(PlacedMember { listing: *listing, offset: 0, entry });
            stack.extend(below.map(|below| self.open(below, order)));
        }
    }

    /// Numbers a directory and takes its entries out, in order.
    fn open(
        &mut self,
        listing: Arc<DirectoryListing>,
        order: MemberOrder,
    ) -> (u32, std::vec::IntoIter<TarEntry>) {
        let mut entries = std::mem::take(&mut *lock(&listing.entries));
        match order {
            MemberOrder::Name => entries.sort_unstable_by(|one, other| one.name.cmp(&other.name)),
            // Inode order is mostly the order on disk, in which the files will be read.
            MemberOrder::Entry | MemberOrder::Inode => {
                entries.sort_unstable_by_key(|entry| (entry.listing.is_some(), entry.stat.identity.inode));
            }
        }
        self.listings.push(listing);
        (self.listings.len() as u32 - 1, entries.into_iter())
    }

    pub(super) fn member_path(&self, member: &PlacedMember, options: &Options) -> Vec<u8> {
        self.listings[member.listing as usize].member_path(&member.entry, options)
    }

    /// Turns further names of a file into hard links, and drops the ones that do not fit the
    /// format; returns true if all fit.
    fn link(&mut self, options: &Options, owners: &OwnerNames, report: &dyn Reporter) -> bool {
        let prefixes = PrefixReporter::new(options.confinement);
        let mut firsts: HashMap<FileKey, usize> = HashMap::new();
        let mut unfit = Vec::new();
        // A later operand may name or contain what an earlier one does, and so may a followed link.
        let may_repeat = options.named.len() > 1 || options.links == Links::Followed;
        for index in 0..self.members.len() {
            let entry = &self.members[index].entry;
            if !entry.may_be_linked() && (!may_repeat || entry.kind == MemberKind::Directory) {
                continue;
            }
            let first = *firsts.entry(entry.file_key()).or_insert(index);
            if first == index {
                let written = self.listings[self.members[index].listing as usize].path(entry);
                prefixes.report_stripped(&written, TarKind::RemovingLinkPrefix, report);
                continue;
            }
            let (first, path) = (&self.members[first], self.member_path(&self.members[index], options));
            let link = self.member_path(first, options);
            let entry = &mut self.members[index].entry;
            entry.link_to(link);
            if let Err(why) = entry.measure(&path, options, owners) {
                report.problem(unfit_problem(&path, &why));
                unfit.push(index);
            }
        }
        let all_fit = unfit.is_empty();
        // From the back, so that the other indices stay valid.
        for index in unfit.into_iter().rev() {
            self.members.remove(index);
        }
        all_fit
    }

    fn assign_offsets(&mut self) {
        let mut offset = 0;
        for member in &mut self.members {
            member.offset = offset;
            offset = member.end();
        }
    }

    pub(super) fn end(&self) -> u64 {
        self.members.last().map_or(0, PlacedMember::end)
    }

    /// Cuts the members into spans of about `span_bytes`. With `by_directory`, the files of a span
    /// are all in one directory.
    fn cut_spans(&mut self, span_bytes: u64, by_directory: bool) {
        let mut begun = 0;
        for index in 0..self.members.len() {
            if by_directory && self.members[index].listing != self.members[begun].listing {
                self.close_span(begun..index);
                begun = index;
            }
            let (offset, content, end) = {
                let member = &self.members[index];
                (member.offset, member.content(), member.end())
            };
            if end - content > span_bytes {
                self.close_span(begun..index);
                let mut at = offset;
                while at < end {
                    // The first piece also holds the headers.
                    let to = end.min(at.max(content) + span_bytes);
                    self.spans.push(Span { bytes: at..to, members: index..index + 1, is_piece: true });
                    at = to;
                }
                begun = index + 1;
            } else if end - self.members[begun].offset >= span_bytes {
                self.close_span(begun..index + 1);
                begun = index + 1;
            }
        }
        self.close_span(begun..self.members.len());
    }

    fn close_span(&mut self, members: Range<usize>) {
        if let (Some(first), Some(last)) = (self.members.get(members.start), members.end.checked_sub(1))
            && members.start <= last
        {
            let bytes = first.offset..self.members[last].end();
            self.spans.push(Span { bytes, members, is_piece: false });
        }
    }

    /// True if the member's content is read from its file.
    pub(super) fn is_read(&self, index: usize) -> bool {
        let entry = &self.members[index].entry;
        entry.kind == MemberKind::Regular && entry.stored_bytes() > 0
    }
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use haul_flow::{OutputLine, Problem, Tally};
    use haul_sys::{FileType, Identity, Mode, Standard, Stat, Timestamp};

    use super::*;

    /// A reporter that expects no problem.
    struct Silent;

    impl Reporter for Silent {
        fn count(&self, _: Tally) {}
        fn problem(&self, problem: Problem) {
            panic!("{problem:?}");
        }
        fn line(&self, _: OutputLine) {}
        fn output(&self, _: Standard, _: &[u8]) {}
        fn debug(&self, _: &str) {}
    }

    fn entry(name: &str, inode: u64, size: u64, links: u32) -> TarEntry {
        let moment = Timestamp { seconds: 1_700_000_000, nanoseconds: 5 };
        let stat = Stat {
            identity: Identity { device: 1, inode },
            kind: FileType::Regular,
            mode: Mode::new(0o644),
            owner: 0,
            group: 0,
            size,
            blocks: size / 512,
            block_size: 4096,
            links,
            device_number: 0,
            accessed: moment,
            modified: moment,
            changed: moment,
            born: None,
        };
        let mut entry = TarEntry::new(std::ffi::CString::new(name).unwrap(), stat).unwrap();
        entry.header_bytes = 1536;
        entry
    }

    fn planned(entries: Vec<TarEntry>, order: MemberOrder) -> (ItemLayout, Options) {
        let options = Options { order, ..Options::default() };
        let parent = DirectoryListing::operand_parent(b"");
        entries.into_iter().for_each(|entry| parent.add(entry));
        let (layout, all_fit) =
            ItemLayout::new(vec![Arc::new(parent)], &options, &OwnerNames::new(&options), 1 << 20, &Silent);
        assert!(all_fit);
        (layout, options)
    }

    #[test]
    fn spans_cover_everything_once() {
        let sizes = [
            0,
            1,
            511,
            513,
            1 << 20,
            (1 << 20) + 1,
            3,
            5 << 20,
            700_000,
            700_000,
            700_000,
            0,
            (2 << 20) + 512,
        ];
        let entries = sizes.iter().zip(1..).map(|(size, inode)| entry(&format!("f{inode}"), inode, *size, 1));
        let (layout, _) = planned(entries.collect(), MemberOrder::Entry);
        let mut at = 0;
        for span in &layout.spans {
            assert_eq!(span.bytes.start, at);
            assert!(span.bytes.start < span.bytes.end);
            at = span.bytes.end;
            let first = &layout.members[span.members.start];
            match span.is_piece {
                true => assert_eq!(span.members.len(), 1),
                false => {
                    let last = &layout.members[span.members.end - 1];
                    assert_eq!((span.bytes.start, span.bytes.end), (first.offset, last.end()));
                }
            }
            assert!(span.bytes.end - span.bytes.start <= (2 << 20) + 2048);
        }
        assert_eq!(at, layout.end());
        let pieces =
            |index| layout.spans.iter().filter(|span| span.is_piece && span.members.start == index).count();
        assert_eq!((pieces(4), pieces(5), pieces(7), pieces(12)), (0, 2, 5, 3));
    }

    #[test]
    fn a_file_comes_before_its_other_names_in_either_order() {
        for (order, names) in [(MemberOrder::Entry, ["z", "y", "x"]), (MemberOrder::Name, ["x", "y", "z"])] {
            let entries = vec![entry("x", 9, 10, 2), entry("y", 5, 20, 1), entry("z", 9, 10, 2)];
            let mut entries = entries;
            if order == MemberOrder::Entry {
                entries[2].stat.identity.inode = 3;
                entries[0].stat.identity.inode = 9;
            }
            let (layout, options) = planned(entries, order);
            let found: Vec<_> =
                layout.members.iter().map(|member| layout.member_path(member, &options)).collect();
            assert_eq!(found, names.map(|name| name.as_bytes().to_vec()));
            if order == MemberOrder::Name {
                let last = &layout.members[2].entry;
                assert_eq!(last.kind, MemberKind::HardLink);
                assert_eq!(last.extra.as_ref().unwrap().link, b"x");
                assert_eq!(last.stored_bytes(), 0);
            }
        }
    }

    #[test]
    fn a_file_that_got_the_inode_of_another_is_a_member_of_its_own() {
        let mut entries = vec![entry("x", 9, 10, 2), entry("y", 9, 10, 2)];
        let born = |seconds| Some(Timestamp { seconds, nanoseconds: 0 });
        (entries[0].stat.born, entries[1].stat.born) = (born(1), born(2));
        let (layout, _) = planned(entries, MemberOrder::Name);
        assert_eq!([0, 1].map(|index| layout.members[index].entry.kind), [MemberKind::Regular; 2]);
    }
}
