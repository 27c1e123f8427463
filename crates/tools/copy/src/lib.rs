//! The copy tool: `cp` with everything in flight at once.
//!
//! [`run()`] begins here: `operands.rs` assigns sources to targets, `groups.rs` splits them into
//! groups, `run.rs` copies one group after the other, and [`Copier`] is the [`Tool`] that does it.
//! Its methods pass each entry, as an `EntryCopy` (`entry_copy.rs`), to the file for its kind:
//! `directory.rs`, `regular.rs` (with `holes.rs`), `other.rs` (with `stream.rs` and
//! `without_data.rs`), and `links.rs` for further names of a file. `attributes.rs` is the last step
//! of each. `existing.rs` decides about an existing target; `place.rs` does it, with `age.rs` and
//! `backup.rs`. Semantics and wording are GNU's.
//!
//! The guarantees for an interrupted copy are in `staged.rs` (`--atomic`), `durable.rs`
//! (`--fsync`), `verify.rs` (`--verify`, `--manifest`) and `journaled.rs` (`--resume`,
//! `--journal`); docs/trust.md has the promises.

mod age;
mod attributes;
mod backup;
mod changed;
mod creation_mode;
mod debug;
mod default_label;
mod directory;
#[cfg(feature = "distributed")]
mod distributed;
mod dry_run;
mod durable;
mod earlier;
mod entry_copy;
mod existing;
mod groups;
mod holes;
mod itemize;
mod journaled;
mod kind;
mod layouts;
mod links;
mod mend;
mod named;
mod object;
mod open_target;
mod operands;
mod options;
mod ordered_hash;
mod other;
mod overwritten;
mod parents;
mod partial;
mod place;
mod regular;
mod repeated;
mod run;
mod source_xattrs;
mod space;
mod staged;
mod stream;
mod survey;
mod target;
mod temporary;
mod ticket;
mod unopened;
mod verify;
mod waiting;
mod without_data;
mod xattr_rules;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use haul_digest::Algorithm;
use haul_flow::{
    BackupDirectory, Block, CancelToken, ClosedWaiting, Context, DirCache, DirHandle, DirNode, Enter, Entry,
    EntryFailure, Finished, FlowKind, Handled, LinkTable, OpenDir, OpenFile, OpenSource, Plan, Policy, Probe,
    Problem, Reported, Room, Start, Tool, Write, is_shared,
};
use haul_sys::{Capabilities, Credentials, EntryType, Errno, Error, FileContexts, Mode, Stat, stat};

pub use kind::CopyKind;
pub use options::{
    Atomic, Backup, CopyOptions, Dereference, Existing, Fsync, IfChanged, Label, LayoutRule, Make, OnFull,
    Operands, Preserve, Reflink, Sparse, TemporaryNames, Update, UpdateRule, Verify,
};

pub use verify::{DigestSink, FileDigest};

pub use run::{CopyOutcome, CopyRefusal, CopyRequest, DeletionStep, run};
pub use space::FreeSpace;
pub use survey::survey;

use age::Resolutions;
use backup::Backups;
use durable::FileSystems;
use entry_copy::EntryCopy;
use journaled::{JournalState, Look};
use layouts::Layouts;
use links::LinkedName;
use named::NamedCopies;
use open_target::CopiedFile;
use overwritten::OverwrittenFiles;
use partial::KeptNames;
use repeated::StartTimes;
use staged::UnnamedFiles;
use target::{MadeLinks, MadeTargets, TargetDirectory, Tops, target_path};
use verify::Verifications;
use xattr_rules::XattrRules;

/// Minimum size, in bytes, of a file that is copied inside the kernel where possible. Shorter files
/// fit in one buffer anyway (docs/measurements/).
const OFFLOAD_BYTES: u64 = 256 << 10;

/// Limits on written files per worker that wait for a flush before they are named
/// (`--atomic --fsync`), verified, or recorded in a journal: enough to hide the cost of a flush, in
/// about a megabyte of memory. A kill costs at most the last seconds of a copy with a journal.
const CLOSED_WAITING: ClosedWaiting =
    ClosedWaiting { files_max: 4096, bytes_max: 256 << 20, age_max: Duration::from_secs(1) };

/// The [`Tool`] that copies: options and the state all workers share.
pub struct Copier {
    options: CopyOptions,
    cancel: CancelToken,
    /// True for the entries that waited for the deletion of obstacles.
    is_rest: bool,
    /// Where the copy waits for room (`--on-full=pause`).
    room: Option<Room>,
    process: Credentials,
    capabilities: Capabilities,
    umask: Mode,
    offload_bytes: u64,
    links: LinkTable<Entry<Copier>, LinkedName>,
    /// Existing targets being overwritten.
    overwritten: OverwrittenFiles,
    made_targets: MadeTargets,
    /// Directories copied because an operand named them.
    named: NamedCopies,
    /// Tops of the trees created by this run.
    tops: Tops,
    made_links: MadeLinks,
    backups: Backups,
    /// Backups of replaced entries (`--backup-dir`).
    backup_directory: Option<BackupDirectory>,
    layouts: Layouts,
    /// The file systems to flush (`--fsync`).
    file_systems: FileSystems,
    verifications: Verifications,
    /// Receives the hashes of copied files, if they are wanted, in the process that walks.
    digests: Option<DigestSink>,
    /// The algorithm of these hashes, in every process.
    listed_hash: Option<Algorithm>,
    /// Record of the complete entries, if there is one.
    journal: Option<JournalState>,
    /// Where files can be created without a name.
    unnamed_files: UnnamedFiles,
    /// Rules of `/etc/xattr.conf`, read when the first xattr is found.
    xattr_rules: OnceLock<XattrRules>,
    /// True if the user knows that the target's file system has no xattrs.
    has_reported_xattrs: AtomicBool,
    /// The policy's file contexts, with `-Z`.
    contexts: Option<FileContexts>,
    resolutions: Resolutions,
    /// True if the user has agreed to the next replacement. Only one file is in flight then.
    agreed: AtomicBool,
    /// True if the user has declined a replacement.
    declined: AtomicBool,
    /// Temporary names for files until they are complete, if used.
    temporary_names: OnceLock<TemporaryNames>,
    /// True if incomplete files are kept for a later run.
    keeps_temporary: AtomicBool,
    /// Incomplete files that are kept for a later run in any case.
    kept_names: KeptNames,
    start_times: StartTimes,
}

impl Copier {
    /// Returns a copier for the entries that waited for the deletion of obstacles.
    fn for_the_rest(self) -> Self {
        let mut options = self.options.clone();
        if let Update::Different(difference) = &mut options.existing.update {
            difference.deletes_later = false;
        }
        let Self { contexts, listed_hash, digests, journal, links, has_reported_xattrs, start_times, .. } =
            self;
        Self {
            contexts,
            listed_hash,
            digests,
            journal,
            links,
            has_reported_xattrs,
            start_times,
            is_rest: true,
            ..Self::new(options, self.cancel, false)
        }
    }

    fn new(options: CopyOptions, cancel: CancelToken, several_groups: bool) -> Self {
        let temporary_names = options.temporary_names.map_or_else(OnceLock::new, OnceLock::from);
        let backup_directory = options.backup_place.clone().map(BackupDirectory::new);
        let made_links = MadeLinks::new(options.existing.keep_directory_symlink);
        Self {
            is_rest: false,
            made_links,
            room: (options.on_full == OnFull::Pause).then(|| Room::new(cancel.clone())),
            options,
            cancel,
            process: haul_sys::effective_identity(),
            capabilities: Capabilities::effective(),
            umask: haul_sys::umask(),
            offload_bytes: OFFLOAD_BYTES,
            links: LinkTable::new(),
            overwritten: OverwrittenFiles::default(),
            made_targets: MadeTargets::new(several_groups),
            named: NamedCopies::new(several_groups),
            tops: Tops::default(),
            backups: Backups::default(),
            backup_directory,
            layouts: Layouts::default(),
            file_systems: FileSystems::default(),
            verifications: Verifications::default(),
            digests: None,
            listed_hash: None,
            journal: None,
            unnamed_files: UnnamedFiles::default(),
            xattr_rules: OnceLock::new(),
            has_reported_xattrs: AtomicBool::new(false),
            contexts: None,
            resolutions: Resolutions::default(),
            agreed: AtomicBool::new(false),
            declined: AtomicBool::new(false),
            temporary_names,
            keeps_temporary: AtomicBool::new(false),
            kept_names: KeptNames::default(),
            start_times: StartTimes::default(),
        }
    }

    /// True if a file belongs to this process's user and group.
    fn is_own(&self, stat: &Stat) -> bool {
        (stat.owner, stat.group) == (self.process.user, self.process.group)
    }

    fn follows_here(&self, entry: &Entry<Self>) -> bool {
        self.options.dereference.follows(entry.is_operand())
    }

    /// True if another user may replace entries of a target directory.
    fn is_shared(&self, cache: &DirCache, held: &Arc<DirHandle>) -> bool {
        let looked = cache.open(held).and_then(|directory| stat(&*directory));
        looked.map_or(true, |there| is_shared(&there, self.process.user))
    }

    /// Selects the files to probe: not those that may be cloned or copied by the kernel, but those
    /// that may be linked, whose first name would otherwise wait for the disk.
    fn probe(&self, entry: &Entry<Self>) -> Probe {
        let target = &entry.node.own;
        let inspects = self.options.sparse == Sparse::Always
            || self.options.verify != Verify::Never
            || self.listed_hash.is_some();
        if self.options.debug || (self.options.reflink != Reflink::Never && !target.refuses_reflink()) {
            return Probe { inspects, ..Probe::NEVER };
        }
        let same_device = target.held.identity().device == entry.node.source.identity().device;
        Probe {
            links_max: u32::MAX,
            bytes_max: if same_device { self.offload_bytes - 1 } else { u64::MAX },
            inspects,
        }
    }

    /// True if an entry is not begun any more. The ranges of a file that other processes have begun
    /// are copied to its end.
    fn is_stopped(&self, entry: &Entry<Self>) -> bool {
        if !self.cancel.is_cancelled() {
            return false;
        }
        #[cfg(feature = "distributed")]
        if entry.node.owner.is_some() {
            return haul_cluster::item_of(&*entry.node).is_none_or(|item| item.spec.piece.is_none());
        }
        #[cfg(not(feature = "distributed"))]
        let _ = entry;
        true
    }

    /// True if failing to set an owner is no error: only root is expected to succeed.
    fn may_fail_to_own(&self, cause: &Error) -> bool {
        self.process.user != 0 && matches!(cause.errno(), Errno::PERM | Errno::INVAL | Errno::ACCESS)
    }
}

impl Tool for Copier {
    type Directory = TargetDirectory;
    type File = CopiedFile;

    fn follow(&self, entry: &Entry<Self>) -> bool {
        self.follows_here(entry)
    }

    fn policy(&self) -> Policy {
        let waits =
            self.options.names_after_flush() || self.options.reads_device_again() || self.journal.is_some();
        let closed_waiting = if waits { CLOSED_WAITING } else { ClosedWaiting::default() };
        let writes_back = durable::is_flushed(self);
        let (cancel, room) = (self.cancel.clone(), self.room.clone());
        Policy { starts_workers_late: true, cancel, closed_waiting, room, writes_back, ..Policy::default() }
    }

    fn plan(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> Plan {
        if self.is_stopped(entry) {
            return Plan::Skip;
        }
        if kind == EntryType::Directory {
            return if self.options.recursive { Plan::Enter } else { Plan::Handle };
        }
        let copy = EntryCopy::new(self, cx, entry);
        temporary::note_copied(self, copy.target_name());
        match journaled::look(copy) {
            Look::Done => return Plan::Skip,
            Look::OneOfSeveralNames => {}
            Look::Unknown if place::leaves(copy, kind) => {
                #[cfg(feature = "distributed")]
                if entry.node.owner.is_some() {
                    distributed::note_left_unopened(copy);
                }
                return Plan::Skip;
            }
            Look::Unknown if earlier::links_unopened(copy, kind) => return Plan::Skip,
            Look::Unknown => {}
        }
        match (kind, self.options.make) {
            // Perhaps while its content was compared.
            _ if self.is_stopped(entry) => Plan::Skip,
            _ if self.options.dry_run => Plan::Handle,
            (EntryType::Regular, Make::Copy) if !self.options.attributes_only => {
                Plan::Read(self.probe(entry))
            }
            (EntryType::Special, Make::Copy)
                if !self.options.attributes_only && self.options.reads_special() =>
            {
                Plan::HandleAlone
            }
            _ => Plan::Handle,
        }
    }

    fn enter_dir(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenDir<'_>,
    ) -> Enter<TargetDirectory> {
        directory::enter(EntryCopy::new(self, cx, entry), opened)
    }

    fn finish_dir(&self, cx: &Context<'_, Self>, node: &DirNode<Self>) {
        directory::leave(self, cx, node);
    }

    fn handle(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> Handled {
        let copy = EntryCopy::new(self, cx, entry);
        if self.options.dry_run { dry_run::handle(copy, kind) } else { other::handle(copy, kind) }
    }

    fn open_file(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenSource<'_>,
    ) -> Start<CopiedFile> {
        regular::begin(EntryCopy::new(self, cx, entry), *opened)
    }

    /// Leaves zeros out where holes are wanted: with `--sparse=always`, and in files that
    /// have holes.
    fn block(&self, file: &OpenFile<Self>, block: Block<'_>) -> Write {
        if let Some(verification) = &file.own.verification {
            verification.add(block.offset, block.bytes);
        }
        if file.own.has_holes { Write::Parts(holes::data_in(block.bytes)) } else { Write::All }
    }

    fn finish_file(&self, cx: &Context<'_, Self>, file: &OpenFile<Self>) -> Finished {
        regular::finish(EntryCopy::new(self, cx, &file.entry), file)
    }

    fn close_file(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, own: CopiedFile, moved: bool) {
        regular::end(EntryCopy::new(self, cx, entry), &own, moved);
    }

    /// Lists the hash of a file that a rank has copied.
    #[cfg(feature = "distributed")]
    fn emitted(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, result: &[u8]) {
        distributed::list_digest(EntryCopy::new(self, cx, entry), result);
    }

    fn failed(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, failure: EntryFailure<'_>) -> Reported {
        let (kind, cause) = match failure {
            EntryFailure::WriteTarget(cause) => (FlowKind::ErrorWriting, cause),
            EntryFailure::NoRoom(_) => {
                cx.report().waits_for_room(Some(&target_path(entry)));
                return Reported::Yes;
            }
            EntryFailure::CloseTarget(cause) => (FlowKind::FailedToClose, cause),
            EntryFailure::OpenDir(cause) | EntryFailure::OpenFile(cause)
                if entry.kind != EntryType::Directory && !cause.is(Errno::NOENT) =>
            {
                return unopened::not_opened(EntryCopy::new(self, cx, entry));
            }
            _ => return Reported::No,
        };
        cx.problem(Problem::new(kind).naming(target_path(entry)).because(cause.clone()));
        Reported::Yes
    }
}
