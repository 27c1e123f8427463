//! What the reader hands to the workers.

use std::ffi::CString;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::attributes::Wanted;
use super::content::Map;
use super::flight::Trace;
use super::make::NewFile;
use super::places::Spot;
use crate::tar::read::input::Chunk;
use crate::tar::read::member::Member;

/// Some members, or a part of one.
pub(super) struct Piece {
    /// What is to be done.
    pub(super) load: Load,
    /// The names that it touches; they are under way until it was put.
    pub(super) names: Vec<Trace>,
}

/// What a piece is.
pub(super) enum Load {
    /// Whole members, in their order.
    Members(Vec<Item>),
    /// A part of a large file.
    Part(Part),
}

/// A member to be made.
pub(super) struct Item {
    /// The member; its attributes are in `wanted`.
    pub(super) member: Member,
    /// What it is to have.
    pub(super) wanted: Wanted,
    /// Its path below the root.
    pub(super) path: Vec<u8>,
    /// Which root.
    pub(super) root: usize,
    /// Where it belongs.
    pub(super) at: At,
    /// Its content, if it was read; else whoever makes it reads it in the archive.
    pub(super) content: Option<Chunk>,
    /// The names that it touches.
    pub(super) names: Vec<Trace>,
}

/// Where a member belongs, as far as the reader knows.
pub(super) enum At {
    /// There.
    Here(Arc<Spot>, CString),
    /// There, a further name of that.
    Link(Arc<Spot>, CString, Arc<Spot>, CString),
    /// Found when it is its turn.
    InTurn,
}

/// A large file being made.
pub(super) struct Large {
    /// Its member, attributes and place.
    pub(super) item: Mutex<Item>,
    /// What it is to have.
    pub(super) wanted: Wanted,
    /// Where its parts go, if it has holes.
    pub(super) map: Option<Map>,
    /// The file; none before it is made, or if it cannot be.
    pub(super) file: Mutex<Option<Arc<NewFile>>>,
    /// Why it is not whole, if it is not.
    pub(super) failed: Mutex<Option<super::content::Failure>>,
    /// Whether all is done in turn.
    pub(super) in_turn: bool,
}

/// Where the bytes of a part are.
pub(super) enum PartBytes {
    /// They were read.
    Read(Chunk),
    /// In the archive.
    InArchive(Range<u64>),
    /// In the file, where they belong.
    Put,
}

/// A part of a large file.
pub(super) struct Part {
    /// The file.
    pub(super) large: Arc<Large>,
    /// Which of the bytes that are stored comes first.
    pub(super) start: u64,
    /// Where the bytes are.
    pub(super) bytes: PartBytes,
    /// Whether it is the first.
    pub(super) is_first: bool,
    /// Whether it is the last.
    pub(super) is_last: bool,
}
