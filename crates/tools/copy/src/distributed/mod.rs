//! Copying by several processes: what a work item needs to run elsewhere, and what only the process
//! that walks can decide.
//!
//! A process running a work item knows the two directories and the options. It does not know which
//! names are one file, because the link table is where the walk is, so it hands back entries with
//! several names. The process that walks decides which name is first and sends that one again, as a
//! hard-link claim. Whatever needs more of the run's state stays there: numbered backups, questions
//! to the user, operands that may meet in one place.

use std::ffi::{CStr, CString, OsStr};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use haul_cluster::schedule::RANGE_UNIT;
use haul_cluster::{Distributed, ItemReceiver, Joined, RemotePath};
use haul_digest::{Algorithm, PIECE_BYTES};
use haul_flow::{
    CancelToken, Context, DirHandle, DirNode, Entry, FlowKind, Handled, Kind, OpenFile, OpenSource, Problem,
    is_shared,
};
use haul_striping::{Striping, striping};
use haul_sys::{
    Error, Fd, FileType, Identity, Open, Timestamp, c_string, leads_to_descriptor, stat, stat_path,
};
use serde::{Deserialize, Serialize};

pub(super) use digests::{emit_digest, list_digest, note_left, note_left_unopened};
pub(super) use ranges::ReceivedRanges;
pub(super) use resumed::open_temporary;

use super::creation_mode;
use super::default_label;
use super::dry_run;
use super::earlier::{self, FoundBelow};
use super::entry_copy::EntryCopy;
use super::links::{self, NameClaim};
use super::open_target::CopiedFile;
use super::options::{CopyOptions, Dereference, Label, TemporaryNames};
use super::overwritten;
use super::target::{
    CreationModes, MadeDirectory, OperandCopy, TargetDirectory, is_plain_name, target_name, target_path,
};
use super::ticket::Ticket;
use super::{Copier, CopyKind};

mod digests;
mod ranges;
mod resumed;

/// Each piece of a hash has one writer.
const _: () = assert!(RANGE_UNIT.is_multiple_of(PIECE_BYTES));

/// Content of a copy's init message.
#[derive(Serialize, Deserialize)]
struct CopyInit {
    options: CopyOptions,
    temporary_names: TemporaryNames,
    listed_hash: Option<Algorithm>,
    is_rest: bool,
}

/// A target directory as sent to another process.
#[derive(Serialize, Deserialize)]
struct PackedTarget {
    held: PackedHandle,
    /// The same directory in earlier copies.
    earlier: Vec<RemotePath>,
    rename: Option<CString>,
    index: usize,
    source: Vec<u8>,
    target: Vec<u8>,
    lacks_parent: bool,
    is_new: bool,
    is_unfinished: bool,
    is_place: bool,
    is_shared: bool,
    gives_access_list: bool,
    /// When the run began, by the clock of its file system.
    began: Option<Timestamp>,
}

/// The handle of a target directory.
#[derive(Serialize, Deserialize)]
enum PackedHandle {
    There(RemotePath),
    /// A dry run would make it. It has this path.
    Absent(Vec<u8>),
}

impl PackedHandle {
    fn of(held: &DirHandle) -> Self {
        if held.is_absent() { Self::Absent(held.path()) } else { Self::There(RemotePath::to(held)) }
    }
}

/// The data needed to finish a target directory that another process created or found.
#[derive(Serialize, Deserialize)]
struct EnteredTarget {
    identity: Identity,
    /// How it is opened ([`Open::bits`]).
    how: u32,
    made: MadeDirectory,
    gives_access_list: bool,
    /// The same directory in earlier copies.
    earlier: Vec<FoundBelow>,
}

/// Packs a target directory for the process that will finish it.
fn pack_entered(own: &TargetDirectory) -> Vec<u8> {
    let Some(made) = &own.made else { return Vec::new() };
    let (identity, gives_access_list) = (own.held.identity(), own.gives_access_list);
    let earlier = earlier::found_below(&own.earlier);
    // The fields of an [`EnteredTarget`], in order, without copying them.
    let packed = (identity, own.held.how().bits(), made, gives_access_list, earlier);
    postcard::to_allocvec(&packed).unwrap_or_default()
}

fn ticket_of(copier: &Copier, file: &OpenFile<Copier>) -> Option<Vec<u8>> {
    let entry = &file.entry;
    let open = file.target.as_ref()?;
    let target = stat(open).ok()?;
    let epoch = copier.temporary_names.get().map_or(1, |run| run.epoch);
    let ticket = match file.own.staged.as_ref().map(|staged| staged.temporary_name.as_ref()) {
        Some(Some(name)) => {
            if let Some(mode) = creation_mode::open_to_owner(copier, open, target.mode).ok()? {
                file.own.mode_to_restore.get_or_init(|| mode);
            }
            Ticket::temporary(name.clone(), &file.stat, &target)
        }
        // No other process can open it.
        Some(None) => return None,
        // Its mode is not changed for the time being: a file with its own name may be left behind
        // like that.
        None if file.own.before.is_none() && !creation_mode::is_open_to_owner(copier, target.mode) => {
            return None;
        }
        None => Ticket::in_place(target_name(entry).to_owned(), &file.stat, &target, epoch),
    };
    Some(ticket.pack())
}

fn join(copy: EntryCopy<'_>, opened: &OpenSource<'_>, ticket: &[u8]) -> Option<Joined<CopiedFile>> {
    let Some(ticket) = Ticket::unpack(ticket).filter(|ticket| ticket.is_of(opened.stat)) else {
        copy.cx.problem(Problem::new(FlowKind::Replaced).naming(copy.entry.path()));
        return None;
    };
    let target = copy.open_directory().and_then(|directory| {
        let target = ticket.open(&directory, Open::WRITE)?;
        Ok((stat(&target)?.kind, target))
    });
    match target {
        Ok((FileType::Regular, target)) => {
            let own = CopiedFile::of_member(copy.copier);
            let inspect = own.has_holes || own.verification.is_some();
            Some(Joined { own, target, inspect })
        }
        Ok((_, target)) => {
            copy.cx.problem(Problem::new(FlowKind::Replaced).naming(copy.entry.path()));
            target.close().unwrap_or_default();
            None
        }
        Err(cause) => {
            copy.cx.problem(copy.problem(CopyKind::CannotCreateFile, cause));
            None
        }
    }
}

impl Distributed for Copier {
    const NAME: &'static str = "cp";
    const KINDS: &'static [Kind] = CopyKind::KINDS;

    fn init_message(&self) -> Vec<u8> {
        let names = || {
            self.options
                .temporary_names
                .unwrap_or_else(|| TemporaryNames { number: rand::random(), epoch: 1 })
        };
        let temporary_names = *self.temporary_names.get_or_init(names);
        let (options, listed_hash, is_rest) = (self.options.clone(), self.listed_hash, self.is_rest);
        let init_message = CopyInit { options, temporary_names, listed_hash, is_rest };
        postcard::to_allocvec(&init_message).unwrap_or_default()
    }

    fn note_start_time(&self, place: &DirHandle, now: Timestamp) {
        self.start_times.record(place.identity().device, now);
    }

    fn from_init(init_message: &[u8]) -> Option<Self> {
        let CopyInit { options, temporary_names, listed_hash, is_rest } =
            postcard::from_bytes(init_message).ok()?;
        if let (Label::Given(context), false) = (&options.label, options.dry_run) {
            haul_sys::set_creation_label(context).ok()?;
        }
        let contexts = default_label::open(&options).ok()?;
        let temporary_names = OnceLock::from(temporary_names);
        Some(Self {
            temporary_names,
            contexts,
            listed_hash,
            is_rest,
            ..Self::new(options, CancelToken::default(), false)
        })
    }

    fn target_of<'a>(&self, entry: &'a Entry<Self>) -> Option<(&'a Arc<DirHandle>, &'a CStr)> {
        let (held, name) = (&entry.node.own.held, target_name(entry));
        let is_plain = is_plain_name(name) && !held.is_absent();
        is_plain.then_some((held, name))
    }

    fn lost(&self) {
        self.keeps_temporary.store(true, Ordering::Relaxed);
    }

    fn leader_counts(&self) -> bool {
        !self.options.preserve.is_empty() || self.listed_hash.is_some()
    }

    fn finish_range(
        &self,
        cx: &Context<'_, Self>,
        file: &OpenFile<Self>,
        range: &Range<u64>,
    ) -> Option<Vec<u8>> {
        ranges::finish_range(EntryCopy::new(self, cx, &file.entry), file, range)
    }

    fn add_ranges(&self, file: &OpenFile<Self>, results: &[Vec<u8>]) -> bool {
        file.own.verification.as_ref().is_none_or(|verification| verification.add_ranges(results))
    }

    fn striping(&self, file: &OpenFile<Self>) -> Option<Striping> {
        let device = file.entry.node.own.held.identity().device;
        let of = |fd: &Fd, device| striping(&self.layouts.systems, fd, device, file.stat.size);
        let target = file.target.as_ref().and_then(|target| of(target, device));
        target.or_else(|| of(&file.source, file.stat.identity.device))
    }

    fn pack_entered(&self, own: &TargetDirectory) -> Vec<u8> {
        pack_entered(own)
    }

    fn ticket(&self, file: &OpenFile<Self>) -> Option<Vec<u8>> {
        // Only BLAKE3 can be computed from ranges.
        let may_be_split = self.listed_hash.is_none_or(|hash| hash == Algorithm::Blake3);
        may_be_split.then(|| ticket_of(self, file)).flatten()
    }

    fn join(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenSource<'_>,
        ticket: &[u8],
    ) -> Option<Joined<CopiedFile>> {
        join(EntryCopy::new(self, cx, entry), opened, ticket)
    }

    fn is_distributable(&self, node: &DirNode<Self>) -> bool {
        let existing = &self.options.existing;
        let is_simple = !existing.backs_up() && !existing.ask && !existing.keep_directory_symlink;
        let is_there = self.options.dry_run || !node.own.held.is_absent();
        // Elsewhere, names such as /dev/stdout lead to another file.
        let is_bound = node.holds_operands()
            && leads_to_descriptor(Path::new(OsStr::from_bytes(&node.own.operand.target)));
        is_simple && !self.made_targets.are_kept() && is_there && !is_bound
    }

    fn pack(&self, own: &TargetDirectory) -> Vec<u8> {
        let packed = PackedTarget {
            held: PackedHandle::of(&own.held),
            earlier: own.earlier.iter().map(|directory| RemotePath::to(directory)).collect(),
            rename: own.rename.clone(),
            index: own.operand.index,
            source: own.operand.source.clone(),
            target: own.operand.target.clone(),
            lacks_parent: own.operand.lacks_parent,
            is_new: own.is_new(),
            is_unfinished: own.made.as_ref().is_some_and(|made| made.is_unfinished),
            is_place: own.made.is_none(),
            is_shared: own.is_shared,
            gives_access_list: own.gives_access_list,
            began: self.start_times.on(own.held.identity().device),
        };
        postcard::to_allocvec(&packed).unwrap_or_default()
    }

    fn unpack(
        &self,
        packed: &[u8],
        receiver: &ItemReceiver<'_>,
    ) -> Result<TargetDirectory, (Vec<u8>, Error)> {
        let unreadable = |_| {
            let what = "a part of another version".to_owned();
            (Vec::new(), Error::new(haul_sys::Operation::Read, what, haul_sys::Errno::PROTO))
        };
        let packed: PackedTarget = postcard::from_bytes(packed).map_err(unreadable)?;
        let held = match packed.held {
            PackedHandle::There(way) => receiver.hold(&way)?,
            PackedHandle::Absent(path) => receiver.cache.hold_absent(&c_string(&path), Open::SEARCH, path),
        };
        if let Some(began) = packed.began {
            self.start_times.record(held.identity().device, began);
        }
        let before = if packed.is_new || held.is_absent() {
            None
        } else {
            let looked = receiver.cache.open(&held).and_then(|fd| stat(&*fd));
            Some(looked.map_err(|cause| (held.path(), cause))?)
        };
        let made = MadeDirectory {
            before,
            is_unfinished: packed.is_unfinished,
            plain_mode: None,
            xattrs: crate::xattr_rules::SourceXattrs::default(),
        };
        let operand = OperandCopy::new(packed.index, packed.source, packed.target, packed.lacks_parent);
        // A file whose directory is gone or was replaced is not linked to.
        let earlier = packed.earlier.iter().filter_map(|way| receiver.hold(way).ok()).collect();
        Ok(TargetDirectory {
            held,
            rename: packed.rename,
            earlier,
            operand: Arc::new(operand),
            made: (!packed.is_place).then_some(made),
            reflink_refused: AtomicBool::new(false),
            is_shared: packed.is_shared,
            gives_access_list: packed.gives_access_list,
            creation_modes: CreationModes::default(),
        })
    }

    fn may_be_entered_elsewhere(&self, node: &DirNode<Self>, inode: u64) -> bool {
        // In a dry run, most don't exist. Those of the source are only listed.
        if self.options.dry_run {
            return false;
        }
        // A directory that the run created, or that is another operand, is refused by identity,
        // which only this process knows. A named directory is recorded when entered, and refused
        // once copied.
        // Only this process has the journal, where the tops of new trees are recorded.
        let is_named_here = node.holds_operands() && (self.named.are_kept() || self.journal.is_some());
        let may_be_refused = is_named_here || self.named.may_have(inode) || self.tops.may_be(inode);
        self.options.dereference != Dereference::Always && !node.own.held.is_absent() && !may_be_refused
    }

    fn unpack_entered(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        packed: &[u8],
    ) -> Option<TargetDirectory> {
        let above = &entry.node.own;
        let EnteredTarget { identity, how, made, gives_access_list, earlier } =
            match postcard::from_bytes(packed) {
                Ok(entered) => entered,
                Err(_) => {
                    cx.problem(Problem::new(CopyKind::CannotCreateDirectory).naming(target_path(entry)));
                    return None;
                }
            };
        // Of another host's identity only the inode number is meaningful here.
        let identity = Identity { device: above.held.identity().device, ..identity };
        if self.options.source_parts.contains(&identity) {
            cx.problem(Problem::new(CopyKind::OntoSource).naming(target_path(entry)));
            return None;
        }
        if made.before.is_none() && !above.is_new() && !self.tops.record(identity, above.operand.index) {
            cx.problem(Problem::new(CopyKind::ReplacedWhileMade).naming(target_path(entry)));
            return None;
        }
        let place = (&above.held, target_name(entry));
        let held = cx.cache().hold_shown(place, Open::of_bits(how), identity, None, None);
        let is_shared = made.before.is_some_and(|before| is_shared(&before, self.process.user));
        Some(TargetDirectory {
            held,
            rename: None,
            earlier: earlier::hold_found(EntryCopy::new(self, cx, entry), &earlier),
            operand: Arc::clone(&above.operand),
            made: Some(made),
            reflink_refused: AtomicBool::new(false),
            is_shared,
            gives_access_list,
            creation_modes: CreationModes::default(),
        })
    }

    fn decide_bounced(&self, cx: &Context<'_, Self>, entry: &mut Entry<Self>) -> bool {
        if self.options.dry_run {
            // Decided here: nothing is made that would show later which name came first.
            if let Handled::Done = dry_run::handle(EntryCopy::new(self, cx, entry), entry.kind) {
                cx.complete(entry);
            }
            return false;
        }
        let follow = self.follows_here(entry);
        let looked = cx
            .cache()
            .open(&entry.node.source)
            .and_then(|directory| stat_path(Some(&*directory), entry.name(), follow));
        let source = match looked {
            Ok(source) => source,
            Err(cause) => {
                cx.problem(Problem::new(FlowKind::CannotStat).naming(entry.path()).because(cause));
                cx.complete(entry);
                return false;
            }
        };
        match links::claim(EntryCopy::new(self, cx, entry), &source) {
            NameClaim::First(file)
                if overwritten::claim_for_rank(EntryCopy::new(self, cx, entry), &source) =>
            {
                entry.seen = file;
                true
            }
            NameClaim::First(file) => {
                links::abandon(EntryCopy::new(self, cx, entry), file);
                false
            }
            NameClaim::Waits => false,
            NameClaim::Over => {
                cx.complete(entry);
                false
            }
        }
    }

    fn claim_ended(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, stands: bool) {
        let copy = EntryCopy::new(self, cx, entry);
        match (entry.seen, stands) {
            (Some(file), true) => links::complete(copy, file, None, None),
            (file, _) => links::abandon(copy, file),
        }
        overwritten::release_for_rank(copy);
    }
}
