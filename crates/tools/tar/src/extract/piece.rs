//! Work that the reader hands to the workers.

use std::ffi::CString;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::attributes::Wanted;
use super::content::Map;
use super::in_flight::PathHash;
use super::make::NewFile;
use super::resolver::MemberDir;
use crate::read::input::Chunk;
use crate::read::member::Member;

/// Some members, or a part of one.
pub(super) struct ExtractPiece {
    pub(super) load: Load,
    /// Names that it touches. They are in flight until it was put.
    pub(super) names: Vec<PathHash>,
}

pub(super) enum Load {
    Members(Vec<ExtractItem>),
    Part(LargePart),
}

pub(super) struct ExtractItem {
    /// The member; its attributes are in `wanted`.
    pub(super) member: Member,
    pub(super) wanted: Wanted,
    /// Path below the root.
    pub(super) path: Vec<u8>,
    pub(super) root: usize,
    pub(super) at: At,
    /// Content, if the reader has read it. Otherwise whoever makes the member reads it from
    /// the archive.
    pub(super) content: Option<Chunk>,
    /// Names that it touches.
    pub(super) names: Vec<PathHash>,
}

/// Location of a member, as far as the reader knows it.
pub(super) enum At {
    /// A name in a directory.
    Here(Arc<MemberDir>, CString),
    /// A name in a directory, as a hard link to the other one.
    Link(Arc<MemberDir>, CString, Arc<MemberDir>, CString),
    /// To be resolved when it is its turn.
    InTurn,
}

pub(super) struct LargeMember {
    /// Its member, attributes and location.
    pub(super) item: Mutex<ExtractItem>,
    pub(super) wanted: Wanted,
    /// Offsets of its parts, if it has holes.
    pub(super) map: Option<Map>,
    /// The file; `None` before it is created, or if it cannot be.
    pub(super) file: Mutex<Option<Arc<NewFile>>>,
    /// The first failure, which leaves the file incomplete.
    pub(super) failed: Mutex<Option<super::content::ContentFailure>>,
    /// True if everything is done in turn.
    pub(super) in_turn: bool,
}

pub(super) enum PartBytes {
    Read(Chunk),
    InArchive(Range<u64>),
    /// Already in the file.
    Put,
}

pub(super) struct LargePart {
    pub(super) large: Arc<LargeMember>,
    /// Stored offset of its first byte.
    pub(super) start: u64,
    pub(super) bytes: PartBytes,
    pub(super) is_first: bool,
    pub(super) is_last: bool,
}
