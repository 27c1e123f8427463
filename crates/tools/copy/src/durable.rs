//! Durability: `--fsync` makes a copy survive a power cut.
//!
//! On a local file system one `syncfs` at the end flushes the data, the inodes and the directories
//! of the whole copy; an `fsync` for each file costs twenty times as much (docs/measurements/). On
//! a file system that other hosts share, `syncfs` need not reach the server, so each file is
//! flushed before it is closed, and each directory when its entries are complete. `--fsync=each`
//! does that everywhere.
//!
//! With `--atomic`, names wait for the data: files are written under temporary names, `syncfs`
//! flushes a batch of them, and only then they are renamed. So two flushes are enough for any
//! number of files that fit in a batch (`Policy::closed_waiting`), and at no moment does a power
//! cut leave a name with a part of a file.
//!
//! Invariant: after exit status 0 a power cut loses nothing of the copy. A failed flush is an error
//! of the file, the directory or the file system, and sets the exit status.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use haul_flow::{Context, DirCache, DirHandle, Problem, lock};
use haul_sys::{Error, Fd, FileType, Open, Stat};
use haul_sys::{
    is_local, magic, open, open_parent, stat, synchronize, synchronize_file_system, with_readable,
};

use super::entry_copy::EntryCopy;
use super::options::Fsync;
use super::staged::Staged;
use super::{Copier, CopyKind};

/// Types of file systems that keep files in memory only.
const MEMORY_TYPES: [u64; 2] = [magic::TMPFS, magic::RAMFS];

/// The file systems that a run copies to, by device.
#[derive(Debug, Default)]
pub(super) struct FileSystems(Mutex<HashMap<u64, Arc<FileSystem>>>);

#[derive(Debug)]
struct FileSystem {
    /// A directory on it, opened before anything is written: `syncfs` reports write errors that
    /// were not reported before the descriptor was opened. `None` if it can't be opened.
    descriptor: Option<Fd>,
    /// Path of that directory, for messages.
    path: Vec<u8>,
    method: FlushMethod,
    /// Files written so far whose names wait for a flush.
    written: AtomicU64,
    /// Number of these covered by the flushes so far, and the error of a flush that failed.
    flushed: Mutex<(u64, Option<Error>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlushMethod {
    /// `syncfs`: before names are given, and at the end.
    Whole,
    /// `fsync` of each file and directory.
    Each,
}

impl FileSystem {
    fn new(copier: &Copier, cache: &DirCache, held: &Arc<DirHandle>) -> Self {
        // The handle may be open for resolving names only, and syncfs(2) refuses such a descriptor.
        let opened = cache.open(held).and_then(|directory| open(&*directory, c".", Open::DIRECTORY));
        let descriptor = opened.ok();
        // `syncfs` flushes a local one to the device.
        let is_local = descriptor.as_ref().is_some_and(|descriptor| is_local(descriptor).unwrap_or(false));
        let method = match copier.options.fsync {
            Fsync::End | Fsync::Never if is_local => FlushMethod::Whole,
            _ => FlushMethod::Each,
        };
        let (written, flushed) = (AtomicU64::new(0), Mutex::new((0, None)));
        Self { descriptor, path: held.path(), method, written, flushed }
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.descriptor.as_ref().map_or(Ok(()), synchronize_file_system)
    }

    /// Makes sure that the first `number` files written are on storage.
    fn flush_up_to(&self, number: u64, flush_records: impl FnOnce()) -> Result<(), Error> {
        let mut flushed = lock(&self.flushed);
        if flushed.0 < number {
            // Read before the flush, which may not cover files written while it runs.
            let written = self.written.load(Ordering::Acquire);
            flush_records();
            let outcome = self.synchronize();
            *flushed = (written, outcome.err().or(flushed.1.take()));
        }
        // A failed flush doesn't say which files it lost.
        flushed.1.clone().map_or(Ok(()), Err)
    }
}

/// Called before anything is created in a target directory. Records its file system.
pub(super) fn note_directory(copier: &Copier, cache: &DirCache, held: &Arc<DirHandle>) {
    if is_flushed(copier) {
        let mut known = lock(&copier.file_systems.0);
        let device = held.identity().device;
        known.entry(device).or_insert_with(|| Arc::new(FileSystem::new(copier, cache, held)));
    }
}

/// True if files are flushed: to be durable, to be read again from the device, or to be recorded in
/// a journal.
pub(super) fn is_flushed(copier: &Copier) -> bool {
    copier.options.fsync != Fsync::Never || copier.options.reads_device_again() || copier.journal.is_some()
}

fn file_system(copier: &Copier, device: u64) -> Option<Arc<FileSystem>> {
    if !is_flushed(copier) {
        return None;
    }
    lock(&copier.file_systems.0).get(&device).map(Arc::clone)
}

/// True if file systems of this type keep files in memory only.
pub(super) fn is_in_memory(file_system_type: u64) -> bool {
    MEMORY_TYPES.contains(&file_system_type)
}

/// True if entries on this device are flushed one by one. One that was not noted counts as shared.
fn is_flushed_each(copier: &Copier, device: u64) -> bool {
    is_flushed(copier) && file_system(copier, device).is_none_or(|known| known.method == FlushMethod::Each)
}

/// True if a staged file gets its name only after a flush of its file system, together with others:
/// until then it needs no descriptor, but a temporary name.
pub(super) fn flushes_before_names(copy: EntryCopy<'_>) -> bool {
    copy.options.names_after_flush()
        && copy.entry.node.owner.is_none()
        && !is_flushed_each(copy.copier, device_of(copy))
}

fn device_of(copy: EntryCopy<'_>) -> u64 {
    copy.entry.node.own.held.identity().device
}

/// Numbers a file whose content is written, for [`flush_before`]. Returns 0 if it was flushed by
/// itself.
pub(super) fn note_written(copy: EntryCopy<'_>) -> u64 {
    let known = file_system(copy.copier, device_of(copy)).filter(|known| known.method == FlushMethod::Whole);
    known.map_or(0, |known| known.written.fetch_add(1, Ordering::AcqRel) + 1)
}

/// Flushes the file with this number, everything else written so far, and their records. Called
/// before it gets its name, because a rename may reach the file system's journal long before data
/// that was written earlier; and before it is verified, because dirty pages can't be dropped.
pub(super) fn flush_before(copy: EntryCopy<'_>, number: u64) -> Result<(), Problem> {
    let Some(known) = file_system(copy.copier, device_of(copy)).filter(|_| number > 0) else { return Ok(()) };
    let flush_records = || copy.copier.journal.iter().for_each(|state| state.journal.flush());
    known.flush_up_to(number, flush_records).map_err(|cause| copy.problem(CopyKind::Syncing, cause))
}

/// Flushes an open target, if that is due. Returns false if that failed and was reported.
pub(super) fn flush_file(copy: EntryCopy<'_>, file: &Fd, staged: Option<&Staged>) -> bool {
    if !is_flushed(copy.copier) {
        return true;
    }
    let device = device_of(copy);
    let is_due = is_flushed_each(copy.copier, device)
        // A rank gives each file its name at once.
        || copy.options.names_after_flush() && copy.entry.node.owner.is_some()
        // A file written through a symbolic link may be on a file system that is not flushed at the
        // end.
        || stat(file).map_or(true, |stat| stat.identity.device != device);
    if !is_due {
        if let Some(staged) = staged.filter(|_| flushes_before_names(copy)) {
            staged.written_at.store(note_written(copy), Ordering::Relaxed);
        }
        return true;
    }
    if staged.is_some() {
        copy.copier.journal.iter().for_each(|state| state.journal.flush());
    }
    synchronize(file).map_err(|cause| copy.cx.problem(copy.problem(CopyKind::Syncing, cause))).is_ok()
}

/// Flushes a block device that was written to, with `--fsync`: no flush of a file system covers it.
/// Returns false if that failed and was reported.
pub(super) fn flush_device(copy: EntryCopy<'_>, device: &Fd) -> bool {
    let failed = |cause| copy.cx.problem(copy.problem(CopyKind::Syncing, cause));
    copy.options.fsync == Fsync::Never || synchronize(device).map_err(failed).is_ok()
}

/// Flushes a target that was not written, only its attributes, if that is due. One that this user
/// may not open is left to the flush of its directory.
pub(super) fn flush_attributes(copy: EntryCopy<'_>, directory: &Fd, changed: &Stat) -> Result<(), Problem> {
    if changed.kind != FileType::Regular || !is_flushed_each(copy.copier, device_of(copy)) {
        return Ok(());
    }
    let Ok(file) = open(directory, copy.target_name(), Open::READ) else { return Ok(()) };
    let is_it = stat(&file).is_ok_and(|there| there.identity == changed.identity);
    let flushed = if is_it { synchronize(&file) } else { Ok(()) };
    flushed.and(file.close()).map_err(|cause| copy.problem(CopyKind::Syncing, cause))
}

/// Flushes a target directory whose entries are complete, if that is due.
pub(super) fn flush_directory(copier: &Copier, cx: &Context<'_, Copier>, held: &Arc<DirHandle>) {
    if copier.options.fsync != Fsync::Never
        && is_flushed_each(copier, held.identity().device)
        && let Err(problem) = flush_entries(cx.cache(), held)
    {
        cx.problem(problem);
    }
}

/// Flushes a directory above an operand that this run has made (`--parents`), and its entry in the
/// one above it, if that is due.
pub(super) fn flush_parent(copier: &Copier, cache: &DirCache, held: &Arc<DirHandle>) -> Result<(), Problem> {
    if copier.options.fsync == Fsync::Never || !is_flushed_each(copier, held.identity().device) {
        return Ok(());
    }
    flush_entries(cache, held)?;
    let flushed = cache.open(held).and_then(|directory| {
        let above = open_parent(&*directory)?;
        synchronize(&above).and(above.close())
    });
    flushed.map_err(|cause| Problem::new(CopyKind::Syncing).naming(held.path()).because(cause))
}

fn flush_entries(cache: &DirCache, held: &Arc<DirHandle>) -> Result<(), Problem> {
    let flushed = cache.open(held).and_then(|directory| with_readable(&directory, |fd| synchronize(fd)));
    flushed.map_err(|cause| Problem::new(CopyKind::Syncing).naming(held.path()).because(cause))
}

/// Flushes what is left at the end of a run: whole file systems, and the entries of `places`, the
/// directories that operands were copied to. Returns the failures.
pub(super) fn flush_end(copier: &Copier, cache: &DirCache, places: &[Arc<DirHandle>]) -> Vec<Problem> {
    if copier.options.fsync == Fsync::Never {
        return Vec::new();
    }
    let is_due = |place: &&Arc<DirHandle>| is_flushed_each(copier, place.identity().device);
    let mut problems: Vec<_> =
        places.iter().filter(is_due).filter_map(|place| flush_entries(cache, place).err()).collect();
    for known in lock(&copier.file_systems.0).values().filter(|known| known.method == FlushMethod::Whole) {
        if let Err(cause) = known.synchronize() {
            problems.push(Problem::new(CopyKind::Syncing).naming(known.path.clone()).because(cause));
        }
    }
    problems
}
