//! Output of `-v` for members that are archived.

use std::sync::Mutex;

use haul_flow::{OutputLine, Reporter, lock};

use haul_sys::device_parts;

use super::TarKind;
use super::entry::{DirectoryListing, OwnerNames, TarEntry};
use super::format::MemberKind;
use super::list::MemberLines;
use super::options::Options;
use super::read::member::Member;

/// Prints members as they are archived, if requested.
pub(super) struct MemberPrinter {
    verbose: u8,
    lines: Mutex<MemberLines>,
}

impl MemberPrinter {
    pub(super) fn new(options: &Options) -> Self {
        let lines = Mutex::new(MemberLines::new(options.verbose, options.numeric_owner));
        Self { verbose: options.verbose, lines }
    }

    /// Prints a member by the name of its file, as in GNU tar; without `-P`, the one in the archive
    /// may be shorter. With `-vv` the rest is the line that a listing would have.
    pub(super) fn print(
        &self,
        (listing, entry): (&DirectoryListing, &TarEntry),
        options: &Options,
        owners: &OwnerNames,
        report: &dyn Reporter,
    ) {
        let line = match self.verbose {
            0 => return,
            1 => OutputLine::new(TarKind::Member, vec![listing.path_with_slash(entry)]),
            _ => {
                let member = listed(entry, listing.path_with_slash(entry), options, owners);
                lock(&self.lines).line(&member)
            }
        };
        report.line(line);
    }
}

/// Returns the member that a listing of the archive will show for an entry.
fn listed(entry: &TarEntry, name: Vec<u8>, options: &Options, owners: &OwnerNames) -> Member {
    let (user, user_name) = owners.owner(entry.stat.owner);
    let (group, group_name) = owners.group(entry.stat.group);
    let device = device_parts(entry.stat.device_number);
    let size = if entry.kind == MemberKind::Regular { entry.stat.size } else { 0 };
    Member {
        kind: entry.kind,
        is_contiguous: false,
        name,
        link: entry.link().to_vec(),
        mode: entry.mode(options),
        user,
        group,
        user_name: user_name.to_vec(),
        group_name: group_name.to_vec(),
        modified: options.modified.unwrap_or(entry.stat.modified),
        device,
        size,
        stored: 0,
        map: None,
        extras: None,
        content_at: 0,
        refused: false,
        is_cut: false,
    }
}
