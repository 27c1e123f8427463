//! Parts of a BLAKE3 tree: values of complete subtrees, and bytes of incomplete chunks.
//!
//! ```text
//! offset    0      1 KiB   2 KiB           4 KiB                           8 KiB
//! chunk     0      1       2       3       4       5       6       7       8
//!           bytes  └ 2⁰ ┘  └──── 2¹ ────┘  └───────────── 2² ───────────┘  ...
//! ```
//!
//! A subtree of level L has 2^L chunks of 1,024 bytes, and begins at a multiple of its size. Two
//! siblings are folded into their parent as soon as both are complete. So a file that was read once
//! from beginning to end leaves one subtree per level.
//!
//! Invariant: chunk 0 is kept as bytes and is in no subtree. The root of a tree is hashed
//! differently from other nodes, and any subtree at offset 0 may turn out to be the root. The one
//! exception is the first piece of a file that has several ([`Addition::of_pieces`]).
//!
//! Invariant: no two subtrees overlap, and no chunk with bytes is in a subtree (property tests:
//! `tests/split.rs`).

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use blake3::hazmat::merge_subtrees_root;
use blake3::hazmat::{ChainingValue, HasherExt, Mode, left_subtree_len, merge_subtrees_non_root};
use blake3::{CHUNK_LEN, Hasher};
use serde::{Deserialize, Serialize};

use crate::pieces::{PIECE_BYTES, PIECE_LEVEL};

/// Length of a chunk, in bytes.
const CHUNK_BYTES: u64 = CHUNK_LEN as u64;

/// Maximum level of a subtree: BLAKE3 hashes up to 2^64 bytes.
pub(crate) const LEVEL_MAX: u8 = 54;

/// Holes are hashed from here.
pub(crate) static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Parts of the tree of a file, to be sent to another process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subtrees {
    /// Complete subtrees, by their first chunk.
    nodes: BTreeMap<u64, SubtreeNode>,
    /// Incomplete chunks.
    chunks: BTreeMap<u64, PartialChunk>,
    /// End of the last byte inserted.
    end: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SubtreeNode {
    level: u8,
    value: ChainingValue,
}

/// Bytes of a chunk, by offset in the chunk. Fragments don't touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct PartialChunk(BTreeMap<u16, Vec<u8>>);

/// Received subtrees can't be those of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("malformed subtrees")
    }
}

impl std::error::Error for Malformed {}

/// A range of content.
#[derive(Clone, Copy)]
pub(crate) enum HashedContent<'a> {
    Bytes(&'a [u8]),
    Zeros(u64),
}

impl<'a> HashedContent<'a> {
    fn length(self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Zeros(length) => length,
        }
    }

    fn split_at(self, at: u64) -> (Self, Self) {
        match self {
            Self::Bytes(bytes) => {
                let (first, second) = bytes.split_at(at as usize);
                (Self::Bytes(first), Self::Bytes(second))
            }
            Self::Zeros(length) => (Self::Zeros(at), Self::Zeros(length - at)),
        }
    }

    /// Returns the bytes, of which there are no more than [`ZEROS`] has.
    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Zeros(length) => &ZEROS[..length as usize],
        }
    }

    /// Returns the value of a subtree that begins at `offset`, which is not the root.
    pub(crate) fn value(self, offset: u64) -> ChainingValue {
        let mut hash = Hasher::new();
        hash.set_input_offset(offset);
        match self {
            Self::Bytes(bytes) => {
                hash.update(bytes);
            }
            Self::Zeros(mut length) => {
                while length > 0 {
                    let part = length.min(ZEROS.len() as u64);
                    hash.update(&ZEROS[..part as usize]);
                    length -= part;
                }
            }
        }
        hash.finalize_non_root()
    }
}

/// The additions of one block to the tree of its file, computed without a lock.
pub(crate) struct Addition<'a> {
    nodes: Vec<(u64, SubtreeNode)>,
    /// Bytes of incomplete chunks, and their offsets.
    fragments: Vec<(u64, &'a [u8])>,
    end: u64,
}

impl<'a> Addition<'a> {
    /// Hashes a block in subtrees of at most `level_max`.
    pub(crate) fn of(mut offset: u64, mut content: HashedContent<'a>, level_max: u8) -> Self {
        let end = offset + content.length();
        let mut addition = Self { nodes: Vec::new(), fragments: Vec::new(), end };
        while offset < end {
            let (chunk, left) = (offset / CHUNK_BYTES, content.length());
            let in_chunk = offset % CHUNK_BYTES;
            let part_bytes = if chunk == 0 || in_chunk > 0 || left < CHUNK_BYTES {
                left.min(CHUNK_BYTES - in_chunk)
            } else {
                let level = chunk.trailing_zeros().min((left / CHUNK_BYTES).ilog2()).min(level_max.into());
                CHUNK_BYTES << level
            };
            let (part, rest) = content.split_at(part_bytes);
            if chunk > 0 && in_chunk == 0 && part_bytes >= CHUNK_BYTES {
                let level = (part_bytes / CHUNK_BYTES).trailing_zeros() as u8;
                addition.nodes.push((chunk, SubtreeNode { level, value: part.value(offset) }));
            } else {
                addition.fragments.push((offset, part.bytes()));
            }
            (offset, content) = (offset + part_bytes, rest);
        }
        addition
    }

    /// Whole pieces from `start`, which were hashed before.
    pub(crate) fn of_pieces(start: u64, values: &[ChainingValue]) -> Self {
        let chunk_at = |index: usize| start / CHUNK_BYTES + ((index as u64) << PIECE_LEVEL);
        let node = |(index, value): (usize, &ChainingValue)| {
            (chunk_at(index), SubtreeNode { level: PIECE_LEVEL, value: *value })
        };
        let nodes = values.iter().enumerate().map(node).collect();
        Self { nodes, fragments: Vec::new(), end: start + values.len() as u64 * PIECE_BYTES }
    }
}

impl Subtrees {
    /// Adds a block. If bytes come twice, keeps the larger subtree.
    pub(crate) fn add(&mut self, addition: Addition<'_>, level_max: u8) {
        self.end = self.end.max(addition.end);
        for (first, node) in addition.nodes {
            self.add_node(first, node, level_max);
        }
        for (offset, bytes) in addition.fragments {
            self.add_fragment(offset, bytes, level_max);
        }
    }

    /// Adds the parts that another process has found. Changes nothing if they are malformed.
    pub(crate) fn merge(&mut self, other: Subtrees, level_max: u8) -> Result<(), Malformed> {
        other.check(level_max)?;
        self.end = self.end.max(other.end);
        for (first, node) in other.nodes {
            self.add_node(first, node, level_max);
        }
        for (chunk, PartialChunk(fragments)) in other.chunks {
            for (start, bytes) in fragments {
                self.add_fragment(chunk * CHUNK_BYTES + u64::from(start), &bytes, level_max);
            }
        }
        Ok(())
    }

    fn check(&self, level_max: u8) -> Result<(), Malformed> {
        let complete = self.end / CHUNK_BYTES;
        let is_node = |(first, node): (&u64, &SubtreeNode)| {
            node.level <= level_max
                && *first > 0
                && first.trailing_zeros() >= node.level.into()
                && *first < complete
                && node.chunks() <= complete - first
        };
        let is_chunk = |(chunk, PartialChunk(fragments)): (&u64, &PartialChunk)| {
            let fits = |(start, bytes): (&u16, &Vec<u8>)| {
                let end = usize::from(*start) + bytes.len();
                let left = chunk.checked_mul(CHUNK_BYTES).and_then(|offset| self.end.checked_sub(offset));
                !bytes.is_empty() && end <= CHUNK_LEN && left.is_some_and(|left| end as u64 <= left)
            };
            fragments.iter().all(fits)
        };
        let is_right = self.nodes.iter().all(is_node) && self.chunks.iter().all(is_chunk);
        if is_right { Ok(()) } else { Err(Malformed) }
    }

    /// True if a subtree of at least this level has the chunk.
    fn covers(&self, chunk: u64, level: u8) -> bool {
        let before = self.nodes.range(..=chunk).next_back();
        before.is_some_and(|(first, node)| chunk - first < node.chunks() && node.level >= level)
    }

    fn add_node(&mut self, mut first: u64, mut node: SubtreeNode, level_max: u8) {
        if self.covers(first, node.level) {
            return;
        }
        let chunks = first..first + node.chunks();
        remove_range(&mut self.nodes, chunks.clone());
        remove_range(&mut self.chunks, chunks);
        while node.level < level_max {
            let sibling = first ^ node.chunks();
            let Some(other) = self.nodes.get(&sibling).filter(|other| other.level == node.level) else {
                break;
            };
            let (left, right) =
                if first < sibling { (&node.value, &other.value) } else { (&other.value, &node.value) };
            let value = merge_subtrees_non_root(left, right, Mode::Hash);
            node = SubtreeNode { level: node.level + 1, value };
            self.nodes.remove(&sibling);
            first = first.min(sibling);
        }
        self.nodes.insert(first, node);
    }

    fn add_fragment(&mut self, offset: u64, bytes: &[u8], level_max: u8) {
        let (chunk, start) = (offset / CHUNK_BYTES, offset % CHUNK_BYTES);
        if self.covers(chunk, 0) {
            return;
        }
        let partial = self.chunks.entry(chunk).or_default();
        partial.add(start as u16, bytes);
        if chunk > 0
            && let Some(bytes) = partial.whole()
        {
            let value = HashedContent::Bytes(bytes).value(chunk * CHUNK_BYTES);
            self.add_node(chunk, SubtreeNode { level: 0, value }, level_max);
        }
    }

    /// True if nothing after the end of a file of `length` bytes was inserted.
    pub(crate) fn is_within(&self, length: u64) -> bool {
        self.end <= length
    }

    /// Returns the hash of a file of `length` bytes. What was not inserted is zeros. Returns `None`
    /// if bytes after its end were inserted.
    pub(crate) fn root(&self, length: u64) -> Option<blake3::Hash> {
        if !self.is_within(length) {
            return None;
        }
        if length <= CHUNK_BYTES {
            return Some(blake3::hash(&self.chunk(0, length)));
        }
        let left = left_subtree_len(length);
        let (left, right) = (self.value(0, left), self.value(left, length - left));
        Some(merge_subtrees_root(&left, &right, Mode::Hash))
    }

    /// Returns the value of the subtree of `length` bytes at `offset`. The recursion is no deeper
    /// than the tree, which has [`LEVEL_MAX`] levels.
    pub(crate) fn value(&self, offset: u64, length: u64) -> ChainingValue {
        let first = offset / CHUNK_BYTES;
        if let Some(node) = self.nodes.get(&first)
            && node.chunks() == length / CHUNK_BYTES
            && length.is_multiple_of(CHUNK_BYTES)
        {
            return node.value;
        }
        let chunks = first..first + length.div_ceil(CHUNK_BYTES);
        let is_hole =
            self.nodes.range(chunks.clone()).next().is_none() && self.chunks.range(chunks).next().is_none();
        if is_hole {
            return HashedContent::Zeros(length).value(offset);
        }
        if length <= CHUNK_BYTES {
            return HashedContent::Bytes(&self.chunk(first, length)).value(offset);
        }
        let left = left_subtree_len(length);
        let (left, right) = (self.value(offset, left), self.value(offset + left, length - left));
        merge_subtrees_non_root(&left, &right, Mode::Hash)
    }

    /// Returns the bytes of an incomplete chunk.
    fn chunk(&self, chunk: u64, length: u64) -> Vec<u8> {
        let mut bytes = vec![0; length as usize];
        for (start, fragment) in self.chunks.get(&chunk).iter().flat_map(|partial| &partial.0) {
            let room = bytes.get_mut(usize::from(*start)..).unwrap_or_default();
            // More was inserted than is asked for if the piece is longer.
            let length = room.len().min(fragment.len());
            room[..length].copy_from_slice(&fragment[..length]);
        }
        bytes
    }
}

impl SubtreeNode {
    fn chunks(&self) -> u64 {
        1 << self.level
    }
}

impl PartialChunk {
    /// Adds bytes, and joins them with those around them.
    fn add(&mut self, start: u16, bytes: &[u8]) {
        let (mut start, mut bytes) = (usize::from(start), bytes.to_vec());
        let touches = |(other, fragment): (&u16, &Vec<u8>)| {
            let other = usize::from(*other);
            other <= start + bytes.len() && other + fragment.len() >= start
        };
        let touching: Vec<_> = self.0.iter().filter(|found| touches(*found)).map(|(at, _)| *at).collect();
        for at in touching {
            let fragment = self.0.remove(&at).unwrap_or_default();
            let at = usize::from(at);
            let (end, fragment_end) = (start + bytes.len(), at + fragment.len());
            if fragment_end > end {
                bytes.extend_from_slice(&fragment[end - at..]);
            }
            if at < start {
                bytes.splice(..0, fragment[..start - at].iter().copied());
                start = at;
            }
        }
        self.0.insert(start as u16, bytes);
    }

    /// Returns the bytes if the chunk is complete.
    fn whole(&self) -> Option<&[u8]> {
        self.0.get(&0).filter(|bytes| bytes.len() == CHUNK_LEN).map(Vec::as_slice)
    }
}

fn remove_range<V>(map: &mut BTreeMap<u64, V>, range: Range<u64>) {
    while let Some((&key, _)) = map.range(range.clone()).next() {
        map.remove(&key);
    }
}
