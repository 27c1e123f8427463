//! Groups of members made by other processes.
//!
//! ```text
//! launch process                                     any rank
//! reader ─► piece ─► groups, one directory each ───► reads the archive itself, makes the members
//!                      │ names in flight               │
//!                      └─ until the group completes ◄──┴── members that have to wait
//! ```
//!
//! The launch process makes directories, hard links, and members that have to wait for their turn.
//! It makes the latter when no group is out, because everything before them is complete then. Their
//! names stay in flight until that time, so nothing overtakes them.
//!
//! Only used if the archive is seekable and existing files are replaced: a group may be repeated
//! after a rank was lost, and must not mistake its own files for ones to keep.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use haul_cluster::{ItemReceiver, RemotePath};
use haul_flow::{Context, DirHandle, Entry, Handled, Operand, lock};
use haul_sys::{EntryType, Error, Name, NameArena, Open, open};
use serde::{Deserialize, Serialize};

use super::attributes::Wanted;
use super::content::Seekable;
use super::in_flight::PathHash;
use super::make::{MemberOutcome, path_problem};
use super::piece::{At, ExtractItem};
use super::resolver::{MemberDir, c_string};
use super::{ExtractState, Extractor};
use crate::read::member::Member;

/// Maximum groups that are out. Beyond that, this process makes them itself, which bounds
/// its memory.
const GROUPS_MAX: usize = 4096;

/// Data that an operand carries.
pub enum OperandData {
    Archive,
    /// Some members of the archive, all in one directory.
    Group(MemberGroup),
}

/// Members of one directory.
pub struct MemberGroup {
    member_dir: Arc<MemberDir>,
    items: Mutex<Vec<ExtractItem>>,
    /// Names that are in flight until the group completes.
    names: Vec<PathHash>,
}

#[derive(Serialize, Deserialize)]
struct PackedGroup {
    directory: RemotePath,
    is_new: bool,
    items: Vec<PackedItem>,
}

#[derive(Serialize, Deserialize)]
struct PackedItem {
    name: Vec<u8>,
    path: Vec<u8>,
    member: Member,
    wanted: Wanted,
}

/// Groups of an extraction that are out, and the pieces that wait for them.
#[derive(Default)]
pub(super) struct RemoteGroups {
    /// Directory and name of the archive; `None` if no groups are sent.
    archive: Mutex<Option<(Arc<DirHandle>, Name)>>,
    groups: AtomicUsize,
    waiting: Mutex<WaitingPieces>,
}

#[derive(Default)]
struct WaitingPieces {
    pieces: VecDeque<(Vec<ExtractItem>, Vec<PathHash>)>,
    /// True after the last piece was put.
    ended: bool,
}

impl RemoteGroups {
    /// Starts to send groups. Whoever makes them opens the archive as this entry.
    pub(super) fn open(&self, entry: &Entry<Extractor>) {
        *lock(&self.archive) = Some((Arc::clone(&entry.node.source), entry.name.clone()));
    }

    /// True if groups are sent.
    pub(super) fn is_open(&self) -> bool {
        lock(&self.archive).is_some()
    }
}

impl ExtractState {
    /// Sends the members of a piece that can be made anywhere; returns the rest, with its names.
    pub(super) fn send(
        &self,
        cx: &Context<'_, Extractor>,
        items: Vec<ExtractItem>,
    ) -> (Vec<ExtractItem>, Vec<PathHash>) {
        let (mut rest, mut names) = (Vec::new(), Vec::new());
        let mut group: Option<(Arc<MemberDir>, Vec<ExtractItem>, Vec<PathHash>)> = None;
        for item in items {
            let At::Here(member_dir, name) = &item.at else {
                names.extend(item.names.iter().copied());
                rest.push(item);
                continue;
            };
            let (member_dir, path_hash) = (Arc::clone(member_dir), member_dir.path_hash.of(name.to_bytes()));
            match &mut group {
                Some((place, items, names)) if Arc::ptr_eq(place, &member_dir) => {
                    items.push(item);
                    names.push(path_hash);
                }
                _ => {
                    let complete = group.replace((member_dir, vec![item], vec![path_hash]));
                    self.offer(cx, complete);
                }
            }
        }
        self.offer(cx, group);
        (rest, names)
    }

    fn offer(
        &self,
        cx: &Context<'_, Extractor>,
        group: Option<(Arc<MemberDir>, Vec<ExtractItem>, Vec<PathHash>)>,
    ) {
        let Some((member_dir, items, names)) = group else { return };
        let Some((place, name)) = lock(&self.remote.archive).clone() else { return };
        let group = MemberGroup { member_dir, items: items.into(), names };
        if self.remote.groups.fetch_add(1, Ordering::AcqRel) >= GROUPS_MAX {
            let waiting = cx.tool().make_group(cx, &group);
            self.take_back(&group, &waiting);
            return self.end_group(cx, &group);
        }
        let mut entry = NameArena::new();
        entry.push(name.as_c_str(), 0, EntryType::Special);
        cx.offer(Operand { place, names: entry, own: OperandData::Group(group) });
    }

    /// Keeps members of a group that have to wait. Their names stay in flight.
    fn take_back(&self, group: &MemberGroup, waiting: &[u32]) {
        let mut items = lock(&group.items);
        let mut kept = Vec::new();
        // From the back, so that the other indices stay valid.
        for index in waiting.iter().rev().filter_map(|index| usize::try_from(*index).ok()) {
            if index < items.len() {
                kept.push(items.remove(index));
            }
        }
        kept.reverse();
        if kept.is_empty() {
            return;
        }
        let names: Vec<_> = kept.iter().flat_map(|item| item.names.iter().copied()).collect();
        // Before those of the group end: nothing may overtake these.
        names.iter().for_each(|name| self.flight.begin(*name));
        lock(&self.remote.waiting).pieces.push_back((kept, names));
    }

    fn end_group(&self, cx: &Context<'_, Extractor>, group: &MemberGroup) {
        self.flight.end(&group.names);
        self.remote.groups.fetch_sub(1, Ordering::AcqRel);
        self.make_waiting(cx, None, false);
    }

    /// Makes the members that wait, if no group is out. Ends the extraction after the last piece.
    pub(super) fn make_waiting(
        &self,
        cx: &Context<'_, Extractor>,
        more: Option<(Vec<ExtractItem>, Vec<PathHash>)>,
        is_end: bool,
    ) {
        // Held throughout, so that they are made in order and by one worker.
        let mut waiting = lock(&self.remote.waiting);
        waiting.pieces.extend(more);
        waiting.ended |= is_end;
        if self.remote.groups.load(Ordering::Acquire) > 0 {
            return;
        }
        while let Some((items, names)) = waiting.pieces.pop_front() {
            lock(&self.late_resolvers).iter_mut().for_each(super::resolver::Resolver::reset);
            items.into_iter().for_each(|item| self.make_in_turn(cx, item));
            self.flight.end(&names);
        }
        if std::mem::take(&mut waiting.ended) {
            self.finish(cx);
        }
    }
}

impl Extractor {
    /// Makes the members of a group; returns the indices of those that have to wait.
    fn make_group(&self, cx: &Context<'_, Self>, group: &MemberGroup) -> Vec<u32> {
        let mut items = lock(&group.items);
        let waits = |item: &mut ExtractItem| self.make_early(cx, item) == MemberOutcome::Waits;
        (0..).zip(items.iter_mut()).filter_map(|(index, item)| waits(item).then_some(index)).collect()
    }

    /// Makes a group, in the process that received it.
    pub(super) fn handle_group(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        group: &MemberGroup,
    ) -> Handled {
        if self.archive.get().is_none() {
            let opened = cx.cache().open(&entry.node.source);
            match opened.and_then(|place| open(&place, entry.name(), Open::READ.following())) {
                // If another worker was faster, its handle serves as well.
                Ok(archive) => drop(self.archive.set(Seekable::new(Arc::new(archive)))),
                Err(cause) => {
                    cx.problem(path_problem(&entry.path(), cause));
                    return Handled::Done;
                }
            }
        }
        let waiting = self.make_group(cx, group);
        if !waiting.is_empty() {
            let result = waiting.iter().flat_map(|index| index.to_le_bytes()).collect();
            cx.emit(entry, result);
        }
        Handled::Done
    }

    /// Called in the launch process with the members of a group that have to wait.
    pub(super) fn group_reported(&self, group: &MemberGroup, result: &[u8]) {
        let (indices, _) = result.as_chunks::<4>();
        let waiting: Vec<_> = indices.iter().map(|index| u32::from_le_bytes(*index)).collect();
        if let Some(state) = &self.state {
            state.take_back(group, &waiting);
        }
    }

    /// Called in the launch process when a group is complete.
    pub(super) fn group_completed(&self, cx: &Context<'_, Self>, group: &MemberGroup) {
        if let Some(state) = &self.state {
            state.end_group(cx, group);
        }
    }
}

pub(super) fn pack(group: &MemberGroup) -> Vec<u8> {
    let items = lock(&group.items);
    let items = items.iter().filter_map(|item| match &item.at {
        At::Here(_, name) => Some(PackedItem {
            name: name.to_bytes().to_vec(),
            path: item.path.clone(),
            member: item.member.clone(),
            wanted: item.wanted.clone(),
        }),
        _ => None,
    });
    let packed = PackedGroup {
        directory: RemotePath::to(&group.member_dir.held),
        is_new: group.member_dir.is_new,
        items: items.collect(),
    };
    postcard::to_allocvec(&packed).unwrap_or_default()
}

pub(super) fn unpack(packed: &[u8], receiver: &ItemReceiver<'_>) -> Result<OperandData, (Vec<u8>, Error)> {
    let wrong = || {
        let cause = Error::new(haul_sys::Operation::Openat, "a group".to_owned(), haul_sys::Errno::INVAL);
        (Vec::new(), cause)
    };
    let PackedGroup { directory, is_new, items } = postcard::from_bytes(packed).map_err(|_| wrong())?;
    let member_dir = MemberDir::of_another(receiver.hold(&directory)?, is_new);
    let mut unpacked = Vec::with_capacity(items.len());
    for PackedItem { name, path, member, wanted } in items {
        let at = At::Here(Arc::clone(&member_dir), c_string(&name).map_err(|_| wrong())?);
        unpacked.push(ExtractItem { member, wanted, path, root: 0, at, content: None, names: Vec::new() });
    }
    Ok(OperandData::Group(MemberGroup { member_dir, items: unpacked.into(), names: Vec::new() }))
}
