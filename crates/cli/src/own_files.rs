//! The files that a run writes for its user: events, a log, a manifest, a journal, the control
//! socket. Each needs a file of its own, which is checked before any of them is opened.

use std::ffi::{CStr, OsStr};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_sys::{Errno, Fd, FileType, Identity, Stat, leads_to_closed_stream, reason, stat, stat_path};

use crate::line_file::Destination;
use crate::task::{CliTask, RunOptions};
use crate::work::{c_path, identity_of};

/// Maximum number of symbolic links that are followed, which is the kernel's.
const LINKS_MAX: usize = 40;

/// A file as its name leads to it.
#[derive(PartialEq, Eq)]
enum FileLocation {
    Existing(Identity),
    /// It is to be made in this directory.
    New(Identity, PathBuf),
}

impl FileLocation {
    /// `None` for a device or a pipe: two streams to one of them destroy nothing.
    fn of(there: &Stat) -> Option<Self> {
        (there.kind == FileType::Regular).then_some(Self::Existing(there.identity))
    }
}

/// Checks that no two options name the same file, and that no operand is a standard stream that was
/// closed: by its name it would be `/dev/null`. The error is a message.
pub(crate) fn check(run_options: &RunOptions, work: &impl CliTask) -> Result<(), String> {
    let path = |operand: &CStr| PathBuf::from(OsStr::from_bytes(operand.to_bytes()));
    let mut operands = work.operands().into_iter().map(path);
    if let Some(closed) = operands.find(|operand| leads_to_closed_stream(operand)) {
        return Err(format!("{}: {}", closed.display(), reason(&Errno::BADF.into())));
    }
    let events = run_options.events.as_ref().and_then(|destination| match destination {
        Destination::File(path) => place(path),
        Destination::Descriptor(_, fd) => stat(fd.as_fd()).ok().and_then(|there| FileLocation::of(&there)),
    });
    let path = |path: Option<&PathBuf>| path.and_then(|path| place(path));
    let (flag, listed) = work.manifest_file().unzip();
    let files = [
        ("--events", events),
        ("--log-file", path(run_options.log_file.as_ref())),
        (flag.unwrap_or_default(), listed.and_then(place)),
        ("--journal", path(run_options.hosts.journal.as_ref())),
        ("--control", path(run_options.control.as_ref())),
    ];
    for (index, (flag, file)) in files.iter().enumerate() {
        let same = files[index + 1..].iter().find(|(_, other)| file.is_some() && file == other);
        if let Some((other, _)) = same {
            return Err(format!("{flag} and {other} name the same file"));
        }
    }
    Ok(())
}

/// Finds out where a name leads. `None` if its directory doesn't exist, which opening the file will
/// report.
fn place(path: &Path) -> Option<FileLocation> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        if let Ok(there) = stat_path::<&Fd>(None, &c_path(&path), true) {
            return FileLocation::of(&there);
        }
        let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match std::fs::read_link(&path) {
            Ok(link) => path = above.join(link),
            Err(_) => return Some(FileLocation::New(identity_of(&c_path(above))?, path.file_name()?.into())),
        }
    }
    None
}
