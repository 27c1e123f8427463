//! In which order members are written that are found by many workers at once: as a walk from the top would meet them.
//!
//! What is in a directory has to follow its headers without anything from elsewhere between: a tar that reads the archive gives a
//! directory its time and its mode when it meets the first member that is not below it.
//!
//! So there is a *path* from the top of the tree down to the directory that is written now, its *tip*; what is found in that goes
//! to the end of the archive at once. What is found in other directories waits with them. A directory that is over hands what
//! waits to the one above, and if that is the tip it is written.
//!
//! A small directory is whole before it is written. Only when much waits, the path goes down: to the directory that the walk is
//! in, which is the first of those that are not over. So little waits, as long as the walk keeps to its order.
//!
//! ```text
//!   top ── a ── b, the tip ──────── end of the archive
//!          │    └─ found in b: written
//!          ├─ found in a: waits until b is over
//!          └─ c ── d, e: wait until b is over; then c is on the path
//! ```
//!
//! When more waits than is good, or a member must not wait, as one that is too large, it is put off: whoever found it comes again
//! when its directory is the tip. A member with other names must not wait either: the name that comes first in the archive has to
//! be the one with the content, and where that is has to be known when the next is met.
//!
//! Invariants: directories come before what is in them, and a directory is followed by nothing but what is below it until it is over;
//! what was added is at one place, and what was put off comes again once; a member that must not wait is behind all that were
//! added before it (tests: `a_walk_by_many`, `who_must_not_wait_comes_in_the_order_of_its_adding`).
//!
//! Termination: what is put off comes again when its directory is the tip. It will be: while anything is put off the path goes down
//! as far as it can, the directory is not over, and directories below need nothing from elsewhere to be over.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::segment::{Content, Memory, Room, SEGMENT_BYTES, Segment};

/// How much may wait, in bytes, before members are put off.
pub(super) const WAITING_BYTES: usize = 64 << 20;

/// How much may wait before the path goes down: what waits is still in the second-level cache when it is written.
const WHOLE_BYTES: usize = 1 << 20;

/// How much content may wait for one member.
pub(super) const WAITING_MEMBER_BYTES: usize = 1 << 20;

/// Content longer than this is written from where it was read, rather than with its neighbours: a copy less is worth a call more.
pub(super) const WITHIN_BYTES: usize = 64 << 10;

/// The number of the top, of which operands are the first things found.
pub(super) const TOP: usize = 0;

/// A directory that is not over; with members that were put off.
struct Branch<L> {
    /// The directory above.
    above: usize,
    /// Where among those in the directory above the walk meets it.
    place: u64,
    /// Those in it that are not over, nor on the path: their places and numbers.
    below: BTreeSet<(u64, usize)>,
    /// Its headers.
    headers: Vec<u8>,
    /// Whether the headers are still to come.
    is_new: bool,
    /// Whether it is on the path.
    on_path: bool,
    /// Whether it is over, and only has to come behind an operand before it.
    is_over: bool,
    /// What waits.
    waiting: Vec<Arc<Segment>>,
    /// How much of that is in the last segment, to which more can be added; 0 if it cannot.
    open_bytes: usize,
    /// How long all of that is.
    bytes: usize,
    /// What was put off.
    later: Vec<L>,
}

impl<L> Default for Branch<L> {
    fn default() -> Self {
        Self {
            above: TOP,
            place: 0,
            below: BTreeSet::new(),
            headers: Vec::new(),
            is_new: false,
            on_path: false,
            is_over: false,
            waiting: Vec::new(),
            open_bytes: 0,
            bytes: 0,
            later: Vec::new(),
        }
    }
}

/// Content, and how many bytes it takes.
type Stored<'a> = (&'a Content<'a>, usize);

/// That of what has only headers.
const NOTHING: Stored<'_> = (&Content::Later(0), 0);

/// A member was put off, and comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PutOff;

/// What has its place, and what waits; `L` is what comes again.
pub(super) struct Order<L> {
    branches: Vec<Branch<L>>,
    /// Numbers of branches that are over.
    unused: Vec<usize>,
    /// The end of the path.
    tip: usize,
    /// The segment at the end of the archive.
    last: Arc<Segment>,
    last_bytes: usize,
    /// Where that begins.
    last_offset: u64,
    /// How much waits, in bytes.
    pub(super) waiting_bytes: usize,
    /// How many members are put off.
    put_off: usize,
    /// How often a member was put off.
    pub(super) times_put_off: usize,
    /// Segments that have got their places: whoever added something lets go of them.
    placed: Vec<Arc<Segment>>,
    /// What was put off until now.
    due: Vec<L>,
    /// How much may wait.
    may_wait_bytes: usize,
    memory: Arc<Memory>,
}

impl<L> Order<L> {
    /// Begins with the top alone.
    pub(super) fn new(memory: Arc<Memory>, may_wait_bytes: usize) -> Self {
        let last = Segment::new(memory.take());
        last.place(0);
        Self {
            branches: vec![Branch { on_path: true, ..Branch::default() }],
            unused: Vec::new(),
            tip: TOP,
            last,
            last_bytes: 0,
            last_offset: 0,
            waiting_bytes: 0,
            put_off: 0,
            times_put_off: 0,
            placed: Vec::new(),
            due: Vec::new(),
            may_wait_bytes,
            memory,
        }
    }

    /// Begins a directory found in another, or the place of an operand, which has no headers. The walk meets those of one directory
    /// in the order of `place`.
    pub(super) fn begin(&mut self, above: usize, place: u64, headers: Vec<u8>) -> usize {
        let branch = Branch { above, place, is_new: !headers.is_empty(), headers, ..Branch::default() };
        let number = match self.unused.pop() {
            Some(number) => {
                self.branches[number] = branch;
                number
            }
            None => {
                self.branches.push(branch);
                self.branches.len() - 1
            }
        };
        self.branches[above].below.insert((place, number));
        self.go_down();
        number
    }

    /// Adds a member found in a directory, behind all before it unless it `may_wait`: its headers, and its content, or room for that,
    /// if it has any; or puts it off.
    pub(super) fn add(
        &mut self,
        found_in: usize,
        headers: &[u8],
        content: &Content<'_>,
        may_wait: bool,
        later: impl FnOnce() -> L,
    ) -> Result<Option<Room>, PutOff> {
        let stored = content.stored_bytes();
        let within = usize::try_from(stored).ok();
        if self.puts_off(found_in, stored, may_wait) {
            self.times_put_off += 1;
            self.put_off += 1;
            self.branches[found_in].later.push(later());
            self.go_down();
            return Err(PutOff);
        }
        if let (Some(stored), true) = (within, found_in != self.tip) {
            let room = self.add_waiting(found_in, headers, (content, stored));
            self.go_down();
            return Ok(room);
        }
        let is_here = matches!(content, Content::Here(_));
        Ok(match within.filter(|stored| is_here || *stored <= WITHIN_BYTES) {
            Some(stored) => self.add_last(headers, (content, stored)),
            None => {
                self.add_last(headers, NOTHING);
                let offset = self.last_offset + self.last_bytes as u64;
                self.end_last(stored);
                Some(Room::Between(offset))
            }
        })
    }

    /// Ends a directory: everything found in it was added, and what is below it is over.
    pub(super) fn end(&mut self, number: usize) {
        if number != self.tip {
            self.add_headers(number);
        }
        let Branch { above, place, on_path, .. } = self.branches[number];
        if on_path {
            // It was the tip: what is below it is over.
            self.leave_tip();
            return self.go_down();
        }
        if above == TOP {
            self.branches[number].is_over = true;
            return;
        }
        let Branch { waiting, bytes, .. } = std::mem::take(&mut self.branches[number]);
        self.unused.push(number);
        self.branches[above].below.remove(&(place, number));
        if !waiting.is_empty() {
            self.add_headers(above);
            let over = &mut self.branches[above];
            over.waiting.extend(waiting);
            (over.bytes, over.open_bytes) = (over.bytes + bytes, 0);
        }
        if above == self.tip {
            self.place_waiting(above);
        }
    }

    /// Takes what was put off until now.
    pub(super) fn take_due(&mut self) -> Vec<L> {
        std::mem::take(&mut self.due)
    }

    /// True if members found in a directory are added at the end of the archive now.
    pub(super) fn is_last(&self, found_in: usize) -> bool {
        found_in == self.tip
    }

    /// Tells whether a member would be put off.
    fn puts_off(&self, found_in: usize, stored: u64, may_wait: bool) -> bool {
        let waits = |stored| {
            stored == 0
                || (stored <= WAITING_MEMBER_BYTES && self.waiting_bytes + stored <= self.may_wait_bytes)
        };
        found_in != self.tip && !(may_wait && usize::try_from(stored).is_ok_and(waits))
    }

    /// Takes the segments that have got their places.
    pub(super) fn take_placed(&mut self) -> Vec<Arc<Segment>> {
        std::mem::take(&mut self.placed)
    }

    /// Ends the archive, when all directories are over; returns how long it is. The last segment is among those placed.
    pub(super) fn finish(&mut self) -> u64 {
        self.end_last(0);
        self.last_offset
    }

    /// Goes down the path, if more waits than a small directory has, to the directories that the walk meets first; what was put
    /// off in the tip is due then.
    fn go_down(&mut self) {
        // Operands come in the order in which they were named, small or not.
        while self.tip == TOP || self.put_off > 0 || self.waiting_bytes > WHOLE_BYTES {
            let Some((_, number)) = self.branches[self.tip].below.pop_first() else {
                let later = std::mem::take(&mut self.branches[self.tip].later);
                self.put_off -= later.len();
                return self.due.extend(later);
            };
            self.branches[number].on_path = true;
            self.tip = number;
            self.place_waiting(number);
            if self.branches[number].is_over {
                self.leave_tip();
            }
        }
    }

    /// Makes the directory above the tip the tip, which is over.
    fn leave_tip(&mut self) {
        let above = std::mem::take(&mut self.branches[self.tip]).above;
        self.unused.push(self.tip);
        self.tip = above;
        self.place_waiting(above);
    }

    /// Adds a directory's headers to what waits in it, if they are still to come.
    fn add_headers(&mut self, number: usize) {
        if std::mem::take(&mut self.branches[number].is_new) {
            let headers = self.branches[number].headers.clone();
            self.add_waiting(number, &headers, NOTHING);
        }
    }

    /// Adds a member to what waits in a directory.
    fn add_waiting(&mut self, number: usize, headers: &[u8], (content, stored): Stored<'_>) -> Option<Room> {
        self.add_headers(number);
        let branch = &mut self.branches[number];
        let added = headers.len() + stored;
        let fits = branch.open_bytes > 0 && branch.open_bytes + added <= SEGMENT_BYTES;
        let segment = match branch.waiting.last() {
            Some(segment) if fits => Arc::clone(segment),
            _ => {
                let segment = Segment::new(self.memory.take());
                branch.waiting.push(Arc::clone(&segment));
                segment
            }
        };
        let (room, length) = segment.add(headers, content, stored);
        branch.open_bytes = length;
        branch.bytes += added;
        self.waiting_bytes += added;
        room
    }

    /// Adds a member to the end of the archive.
    fn add_last(&mut self, headers: &[u8], (content, stored): Stored<'_>) -> Option<Room> {
        if self.last_bytes > 0 && self.last_bytes + headers.len() + stored > SEGMENT_BYTES {
            self.end_last(0);
        }
        let (room, length) = self.last.add(headers, content, stored);
        self.last_bytes = length;
        room
    }

    /// Ends the last segment and begins another, behind so many bytes of room.
    fn end_last(&mut self, room: u64) {
        self.last_offset += self.last_bytes as u64 + room;
        if self.last_bytes == 0 {
            return self.last.place(self.last_offset);
        }
        let next = Segment::new(self.memory.take());
        next.place(self.last_offset);
        self.placed.push(std::mem::replace(&mut self.last, next));
        self.last_bytes = 0;
    }

    /// Gives what waits in a directory its place, at the end.
    fn place_waiting(&mut self, number: usize) {
        if std::mem::take(&mut self.branches[number].is_new) {
            let headers = self.branches[number].headers.clone();
            self.add_last(&headers, NOTHING);
        }
        let branch = &mut self.branches[number];
        self.waiting_bytes -= std::mem::take(&mut branch.bytes);
        branch.open_bytes = 0;
        for segment in std::mem::take(&mut branch.waiting) {
            self.place(segment);
        }
    }

    /// Gives a segment its place, at the end: if it is whole and short, with others in one.
    fn place(&mut self, segment: Arc<Segment>) {
        let length = segment.bytes().len();
        if length <= SEGMENT_BYTES / 4 && segment.is_whole() {
            let bytes = std::mem::take(&mut *segment.bytes());
            self.add_last(&bytes, NOTHING);
            segment.place(self.last_offset);
            return self.memory.give(bytes);
        }
        self.end_last(0);
        segment.place(self.last_offset);
        self.placed.push(segment);
        self.last_offset += length as u64;
        self.last.place(self.last_offset);
    }
}

#[cfg(test)]
mod tests;
