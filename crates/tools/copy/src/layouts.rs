//! Striping layouts: a new file or directory gets its source's layout, if wanted and supported.
//!
//! Without [`LayoutRule::Copy`] nothing is read or set: new files inherit from their directory.
//! With it, each source is queried, one call per file. A layout that could not be set is reported
//! once as a warning, and per file under `--debug`: a target with fewer servers would otherwise
//! print a line for each.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_flow::Problem;
use haul_striping::{Bearer, FileLayout, FileSystems, LayoutError, Striped, create, is_placement};
use haul_sys::{Errno, Error, Fd, FileRef, Identity, Mode, Open, Stat, device_of, open, remove};

use super::CopyKind;
use super::entry_copy::EntryCopy;
use super::options::LayoutRule;

/// A run's state about layouts.
#[derive(Debug, Default)]
pub(super) struct Layouts {
    pub(super) systems: FileSystems,
    /// True once a layout that could not be set was reported.
    is_reported: AtomicBool,
}

impl Layouts {
    /// True if an xattr is the file system's own record of where the bytes are. Matched by name,
    /// and only on file systems that keep one: elsewhere `trusted.link` may be anyone's.
    pub(super) fn is_account(&self, source: FileRef<'_>, key: &CStr) -> bool {
        if !may_be_account(key) {
            return false;
        }
        let file = source.descriptor();
        device_of(file).is_ok_and(|device| is_placement(self.systems.striped(file, device), key))
    }

    /// The same for an xattr of an entry of the open `directory` that was found as `found`.
    pub(super) fn is_account_in(&self, directory: &Fd, (of, found): (Identity, &Stat), key: &CStr) -> bool {
        // A file that is a mount point is on another file system.
        may_be_account(key)
            && of.device == found.identity.device
            && is_placement(self.systems.striped(directory, of.device), key)
    }

    pub(super) fn is_striped(&self, file: &Fd, stat: &Stat) -> bool {
        self.systems.striped(file, stat.identity.device) != Striped::No
    }
}

/// True if an xattr records where the bytes are on some file system.
fn may_be_account(key: &CStr) -> bool {
    [Striped::Lustre, Striped::Ceph].into_iter().any(|how| is_placement(how, key))
}

/// The source a target is modelled on.
#[derive(Clone, Copy)]
pub(super) struct Original<'a> {
    /// The source's `stat`.
    pub(super) stat: &'a Stat,
    /// Layout for a new file.
    pub(super) layout: Option<&'a FileLayout>,
}

impl<'a> Original<'a> {
    /// A source whose layout doesn't matter.
    pub(super) fn of(stat: &'a Stat) -> Self {
        Self { stat, layout: None }
    }
}

/// Reads the layout for the copy of a source, if layouts are copied.
pub(super) fn wanted(
    copy: EntryCopy<'_>,
    (source, stat): (&Fd, &Stat),
    bearer: Bearer,
) -> Option<FileLayout> {
    let LayoutRule::Copy { reduce, keep_first_target } = copy.options.layout else { return None };
    let how = copy.copier.layouts.systems.striped(source, stat.identity.device);
    let layout = match FileLayout::of(source, how, bearer) {
        Ok(layout) => layout?,
        Err(refusal) => {
            remark(copy, &copy.entry.path(), &refusal);
            return None;
        }
    };
    let layout = if reduce && bearer == Bearer::File { layout.reduced(stat.size) } else { layout };
    Some(if keep_first_target { layout } else { layout.with_any_first_target() })
}

/// Creates a file with as much of the wanted layout as possible.
pub(super) fn make_file(
    copy: EntryCopy<'_>,
    (directory, name): (&Fd, &CStr),
    mode: Mode,
    layout: Option<&FileLayout>,
) -> Result<Fd, Error> {
    let Some(layout) = layout else { return open(directory, name, Open::create(mode)) };
    let there = copy.copier.layouts.systems.striped(directory, copy.entry.node.own.held.identity().device);
    let created = create(directory, name, mode, layout, there)?;
    if let Some(refusal) = created.refusal {
        report_refusal(copy, &copy.target_path(), &refusal);
    }
    Ok(created.file)
}

/// The same under a temporary name. If that fails, none is left: where a sandbox refuses to open
/// the file (Landlock), the kernel has made it before.
pub(super) fn make_temporary_file(
    copy: EntryCopy<'_>,
    (directory, name): (&Fd, &CStr),
    mode: Mode,
    layout: Option<&FileLayout>,
) -> Result<Fd, Error> {
    make_file(copy, (directory, name), mode, layout).inspect_err(|cause| {
        if !cause.is(Errno::EXIST) {
            // Usually none exists, and the first failure is reported.
            remove(directory, name).unwrap_or_default();
        }
    })
}

/// Gives a new directory the default layout of the source directory.
pub(super) fn give_to_directory(copy: EntryCopy<'_>, source: (&Fd, &Stat), (made, stat): (&Fd, &Stat)) {
    let Some(layout) = wanted(copy, source, Bearer::Directory) else { return };
    let there = copy.copier.layouts.systems.striped(made, stat.identity.device);
    let given =
        if layout.is_of(there) { layout.give(made, Bearer::Directory) } else { Err(LayoutError::Elsewhere) };
    if let Err(refusal) = given {
        report_refusal(copy, &copy.target_path(), &refusal);
    }
}

fn report_refusal(copy: EntryCopy<'_>, path: &[u8], refusal: &LayoutError) {
    remark(copy, path, refusal);
    if matches!(refusal, LayoutError::Elsewhere)
        || copy.copier.layouts.is_reported.swap(true, Ordering::Relaxed)
    {
        return;
    }
    let problem = Problem::new(CopyKind::Layout).naming(path).naming(refusal.to_string().into_bytes());
    copy.cx.problem(problem.as_warning());
}

fn remark(copy: EntryCopy<'_>, path: &[u8], refusal: &LayoutError) {
    if copy.cx.report().wants_debug() {
        let path = String::from_utf8_lossy(path);
        copy.cx.report().debug(&format!("{path}: layout differs from the source's: {refusal}"));
    }
}
