//! Queue of work items: FIFO within a directory, round robin over directories.
//!
//! A bundle should span many directories, because a host's kernel lets only one process at a time
//! create or rename a file in a directory. So items are queued in sub-queues, and a bundle takes
//! one item of each sub-queue in turn. A directory's items are in one sub-queue: the one with the
//! fewest directories when its first item was queued. Sub-queues by hash would be uneven: of 20
//! directories in 64 sub-queues, two or three share one, and only their items remain at the end of
//! a run.
//!
//! Millions of entries may be queued, in items of one entry if the directories are small. So items
//! are not kept as values with an allocation each, but packed back to back in blocks: number,
//! directory, entries and length as variable-length integers, then the body. A block is freed when
//! its last item has left.

use std::collections::{HashMap, VecDeque};

use xxhash_rust::xxh3::xxh3_64;

use super::{ItemId, QueuedItem};

/// Number of sub-queues: usually more than a rank has workers.
const SUB_QUEUES: usize = 64;

/// Maximum directories whose sub-queues are remembered. The others have sub-queues by hash, which
/// is even enough with so many.
const DIRECTORIES_MAX: usize = 4 << 10;

/// Size of a block, in bytes: large compared with an item, yet a block per sub-queue is affordable.
const BLOCK_BYTES: usize = 64 << 10;

/// Maximum size of the integers before a body, in bytes.
const HEADER_BYTES_MAX: usize = 35;

/// A queue of work items.
#[derive(Debug)]
pub(crate) struct ItemQueue {
    sub_queues: Vec<SubQueue>,
    /// Sub-queue and number of queued items of each remembered directory.
    directories: HashMap<u64, (usize, u64)>,
    /// Next sub-queue to take from.
    turn: usize,
    items: u64,
    entries: u64,
}

impl Default for ItemQueue {
    fn default() -> Self {
        let sub_queues = (0..SUB_QUEUES).map(|_| SubQueue::default()).collect();
        Self { sub_queues, directories: HashMap::new(), turn: 0, items: 0, entries: 0 }
    }
}

impl ItemQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Returns the number of entries of all items.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Queues an item behind the others of its directory.
    pub(crate) fn push(&mut self, item: &QueuedItem) {
        self.items += 1;
        self.entries += u64::from(item.entries);
        let sub_queue = self.sub_queue_of(item.directory);
        self.sub_queues[sub_queue].push(item);
    }

    /// Returns the sub-queue of a directory, one of whose items is queued now.
    fn sub_queue_of(&mut self, directory: u64) -> usize {
        if let Some((sub_queue, items)) = self.directories.get_mut(&directory) {
            *items += 1;
            return *sub_queue;
        }
        if self.directories.len() == DIRECTORIES_MAX {
            // Hash the number: inode numbers may all be multiples of a power of two.
            return (xxh3_64(&directory.to_le_bytes()) % SUB_QUEUES as u64) as usize;
        }
        let sub_queues = 0..self.sub_queues.len();
        let sub_queue =
            sub_queues.min_by_key(|&sub_queue| self.sub_queues[sub_queue].directories).unwrap_or(0);
        self.sub_queues[sub_queue].directories += 1;
        self.directories.insert(directory, (sub_queue, 1));
        sub_queue
    }

    /// Counts an item that has left its sub-queue. One queued while too many directories were known
    /// may be in another sub-queue, or be counted as one of this sub-queue, which is harmless.
    fn left(&mut self, sub_queue: usize, directory: u64) {
        let Some((of, items)) = self.directories.get_mut(&directory) else { return };
        if *of != sub_queue {
            return;
        }
        *items -= 1;
        if *items == 0 {
            self.directories.remove(&directory);
            self.sub_queues[sub_queue].directories -= 1;
        }
    }

    /// Removes items with up to `entries` entries in total, but at least one if any is queued.
    pub(crate) fn pop_bundle(&mut self, entries: u32) -> Vec<QueuedItem> {
        let mut bundle = Vec::new();
        let mut sum = 0u32;
        while let Some((sub_queue, header)) = self.peek() {
            let with = sum.saturating_add(header.entries);
            if !bundle.is_empty() && with > entries {
                break;
            }
            self.turn = (sub_queue + 1) % SUB_QUEUES;
            self.items -= 1;
            self.entries -= u64::from(header.entries);
            bundle.push(self.sub_queues[sub_queue].pop(&header));
            self.left(sub_queue, header.directory);
            sum = with;
        }
        bundle
    }

    /// Finds the next sub-queue that is not empty.
    fn peek(&self) -> Option<(usize, ItemHeader)> {
        let mut turns = (self.turn..SUB_QUEUES).chain(0..self.turn);
        turns.find_map(|sub_queue| Some((sub_queue, self.sub_queues[sub_queue].peek()?)))
    }
}

/// A FIFO of work items.
#[derive(Debug, Default)]
struct SubQueue {
    blocks: VecDeque<Vec<u8>>,
    /// Number of remembered directories that have this sub-queue.
    directories: usize,
    /// Offset of the first item in the first block.
    start: usize,
}

impl SubQueue {
    fn push(&mut self, item: &QueuedItem) {
        // Reserved for the longest integers, so that a block never grows: that would copy it.
        let needed = HEADER_BYTES_MAX + item.body.len();
        let fits = |block: &Vec<u8>| block.capacity() - block.len() >= needed;
        if !self.blocks.back().is_some_and(fits) {
            self.blocks.push_back(Vec::with_capacity(needed.max(BLOCK_BYTES)));
        }
        if let Some(block) = self.blocks.back_mut() {
            put_integer(block, item.id.0);
            put_integer(block, item.directory);
            put_integer(block, u64::from(item.entries));
            put_integer(block, item.body.len() as u64);
            block.extend_from_slice(&item.body);
        }
    }

    fn peek(&self) -> Option<ItemHeader> {
        let block = self.blocks.front()?;
        let mut at = self.start;
        let id = ItemId(take_integer(block, &mut at)?);
        let directory = take_integer(block, &mut at)?;
        let entries = u32::try_from(take_integer(block, &mut at)?).ok()?;
        let length = usize::try_from(take_integer(block, &mut at)?).ok()?;
        Some(ItemHeader { id, directory, entries, body: at..at + length })
    }

    fn pop(&mut self, header: &ItemHeader) -> QueuedItem {
        let block = self.blocks.front().map_or(&[][..], Vec::as_slice);
        let body = block[header.body.clone()].to_vec();
        self.start = header.body.end;
        if self.start == block.len() {
            self.blocks.pop_front();
            self.start = 0;
        }
        QueuedItem { id: header.id, directory: header.directory, entries: header.entries, body }
    }
}

/// Integers before a body, and the range of the body.
struct ItemHeader {
    id: ItemId,
    directory: u64,
    entries: u32,
    body: std::ops::Range<usize>,
}

/// Writes seven bits per byte, lowest first; the eighth bit marks a continuation (LEB128).
fn put_integer(block: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        block.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    block.push(value as u8);
}

fn take_integer(block: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *block.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn item() -> impl Strategy<Value = QueuedItem> {
        let body = prop_oneof![
            8 => proptest::collection::vec(any::<u8>(), 0..300),
            1 => (0usize..2 * BLOCK_BYTES).prop_map(|length| vec![7; length]),
        ];
        (any::<u64>(), 0u64..100, 0u32..300, body).prop_map(|(id, directory, entries, body)| QueuedItem {
            id: ItemId(id),
            directory,
            entries,
            body,
        })
    }

    proptest! {
        #[test]
        fn parts_of_a_directory_leave_as_they_came(items in proptest::collection::vec(item(), 0..60), sizes in proptest::collection::vec(1u32..600, 1..8)) {
            let mut queue = ItemQueue::default();
            let mut left = Vec::new();
            for (index, item) in items.iter().enumerate() {
                queue.push(item);
                if index % 7 == 6 {
                    left.extend(queue.pop_bundle(sizes[index % sizes.len()]));
                }
            }
            prop_assert_eq!(queue.items as usize, items.len() - left.len());
            while !queue.is_empty() {
                let bundle = queue.pop_bundle(sizes[0]);
                let entries: u32 = bundle.iter().map(|item| item.entries).sum();
                prop_assert!(bundle.len() == 1 || entries <= sizes[0]);
                left.extend(bundle);
            }
            prop_assert_eq!(queue.entries(), 0);
            prop_assert!(queue.sub_queues.iter().all(|sub_queue| sub_queue.blocks.is_empty()));
            let mut items = items;
            items.sort_by_key(|item| item.directory);
            left.sort_by_key(|item| item.directory);
            prop_assert_eq!(left, items);
        }
    }

    #[test]
    fn directories_are_taken_from_evenly() {
        // Fewer directories than sub-queues, as many, more.
        for (directories, distance) in [(20, 1), (64, 1 << 12), (100, 7)] {
            let mut queue = ItemQueue::default();
            let mut left = HashMap::new();
            for item in 0..directories * 8 {
                let directory = item / 8 * distance;
                queue.push(&QueuedItem { id: ItemId(item), directory, entries: 64, body: Vec::new() });
                *left.entry(directory).or_insert(0) += 1;
            }
            let sub_queues: Vec<_> = queue.sub_queues.iter().map(|sub_queue| sub_queue.directories).collect();
            let (least, most) = (sub_queues.iter().min().unwrap(), sub_queues.iter().max().unwrap());
            assert!(most - least <= 1, "{sub_queues:?}");
            while !queue.is_empty() {
                for item in queue.pop_bundle(1024) {
                    *left.get_mut(&item.directory).unwrap() -= 1;
                }
                let (least, most) = (left.values().min().unwrap(), left.values().max().unwrap());
                assert!(directories as usize > SUB_QUEUES || most - least <= 1, "{left:?}");
            }
            assert!(
                queue.directories.is_empty()
                    && queue.sub_queues.iter().all(|sub_queue| sub_queue.directories == 0)
            );
        }
    }

    #[test]
    fn few_directories_are_remembered() {
        let mut queue = ItemQueue::default();
        for round in 0..2 {
            for item in 0..3 * DIRECTORIES_MAX as u64 {
                let directory = item % (DIRECTORIES_MAX as u64 + 100 * (round + 1));
                queue.push(&QueuedItem { id: ItemId(item), directory, entries: 1, body: Vec::new() });
            }
            assert_eq!(queue.directories.len(), DIRECTORIES_MAX);
            while queue.entries() > 100 * round.abs_diff(1) {
                queue.pop_bundle(64);
            }
        }
        assert!(queue.is_empty() && queue.directories.is_empty());
        assert!(queue.sub_queues.iter().all(|sub_queue| sub_queue.directories == 0));
    }

    #[test]
    fn a_bundle_is_of_many_directories() {
        // Inode numbers as file systems assign them: consecutive, or with a stride.
        for distance in [1, 64, 1 << 12, 1 << 32] {
            let mut queue = ItemQueue::default();
            for item in 0..400 {
                let directory = (item / 20) * distance;
                queue.push(&QueuedItem { id: ItemId(item), directory, entries: 64, body: Vec::new() });
            }
            let bundle = queue.pop_bundle(1024);
            let directories: std::collections::HashSet<_> =
                bundle.iter().map(|item| item.directory).collect();
            assert!(bundle.len() == 16 && directories.len() >= 12, "{} at {distance}", directories.len());
        }
    }
}
