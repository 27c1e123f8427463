//! A member of an archive, whatever the format.

use std::ffi::{CStr, CString};

use haul_flow::Problem;
use haul_sys::{Mode, Timestamp, group_number, user_number};
use serde::{Deserialize, Serialize};

use super::header::{Dialect, ParsedHeader};
use super::number::Number;
use super::pax::Extended;
use super::sparse::Extent;
use crate::TarKind;
use crate::format::MemberKind;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) kind: MemberKind,
    /// True if the header asks for contiguous storage, which only listings show.
    pub(crate) is_contiguous: bool,
    /// Name as it is in the archive.
    pub(crate) name: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) mode: Mode,
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// Name of the owner; empty for none.
    pub(crate) user_name: Vec<u8>,
    /// Name of the group; empty for none.
    pub(crate) group_name: Vec<u8>,
    pub(crate) modified: Timestamp,
    /// Major and minor number of a device.
    pub(crate) device: (u32, u32),
    /// Length of the file, in bytes.
    pub(crate) size: u64,
    /// Bytes of it that the archive holds.
    pub(crate) stored: u64,
    /// Extents that the stored bytes go to, if the file has holes.
    pub(crate) map: Option<Vec<Extent>>,
    pub(crate) extras: Option<Box<Extras>>,
    /// Offset of its content in the archive.
    pub(crate) content_at: u64,
    /// True if it is not extracted, because its name or the layout of its content is unknown.
    pub(crate) refused: bool,
    /// True if the archive ends, or cannot be read further, before its content does.
    pub(crate) is_cut: bool,
}

/// Attributes that few members have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extras {
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Access list, as text.
    pub(crate) access_list: Option<Vec<u8>>,
    /// Access list that new entries of a directory inherit, as text.
    pub(crate) default_access_list: Option<Vec<u8>>,
}

/// The user and group of members whose own can't exist (`(uid_t) -2`).
const NOBODY: u32 = u32::MAX - 1;

/// Returns a field's number; 0 for a blank field, and for a bad one, which is reported.
fn value_of(name: &[u8], field: &'static str, number: Number, problems: &mut Vec<Problem>) -> i64 {
    match number {
        Number::Is(value) => value,
        Number::Blank => 0,
        Number::Bad => {
            problems.push(Problem::new(TarKind::BadNumber).naming(name).naming(field));
            0
        }
    }
}

impl Member {
    /// Merges a header with the extended headers before it.
    ///
    /// `numeric_owner` is true if the numbers of its user and group are used whatever their names
    /// are.
    pub(crate) fn of(
        header: ParsedHeader,
        extended: Extended,
        numeric_owner: bool,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let name = extended.path.unwrap_or(header.name);
        let kind = MemberKind::of_letter(header.kind, &name);
        let user_name = extended.user_name.unwrap_or(header.user_name);
        let group_name = extended.group_name.unwrap_or(header.group_name);
        let mut id = |given: Option<u64>, field: &'static str, number: Number, is_used: &dyn Fn() -> bool| {
            let mut wrong = Vec::new();
            let value = given.map_or_else(|| value_of(&name, field, number, &mut wrong).into(), i128::from);
            let id = u32::try_from(value).unwrap_or_else(|_| {
                let problem = Problem::new(TarKind::NumberOutOfRange).naming(name.as_slice());
                wrong.push(problem.naming(value.to_string()).naming(field));
                NOBODY
            });
            // The name takes precedence: errors in an unused number aren't reported.
            if !wrong.is_empty() && is_used() {
                problems.append(&mut wrong);
            }
            // For chown(2), the highest user or group number means "unchanged".
            if id == u32::MAX { NOBODY } else { id }
        };
        let is_used = |name: &[u8], number_of: fn(&CStr) -> Option<u32>| {
            let name = CString::new(name).unwrap_or_default();
            numeric_owner || name.is_empty() || number_of(&name).is_none()
        };
        let user = id(extended.user, "uid_t", header.user, &|| is_used(&user_name, user_number));
        let group = id(extended.group, "gid_t", header.group, &|| is_used(&group_name, group_number));
        let mut bad = |field: &'static str, number: Number| value_of(&name, field, number, problems);
        let mut natural = |field, number, limit: u64| {
            let value = bad(field, number);
            u64::try_from(value).ok().filter(|value| *value <= limit).unwrap_or_default()
        };
        let mode = natural("mode_t", header.mode, u64::MAX);
        let is_device = matches!(kind, MemberKind::CharacterDevice | MemberKind::BlockDevice);
        let mut part =
            |number| if is_device { natural("dev_t", number, u64::from(u32::MAX)) as u32 } else { 0 };
        let device = (part(header.device.0), part(header.device.1));
        let modified = extended
            .modified
            .unwrap_or_else(|| Timestamp { seconds: bad("time_t", header.modified), nanoseconds: 0 });
        // Old tars give a hard link the size of the file; GNU tar lists it as 0.
        let declared =
            if kind == MemberKind::HardLink { 0 } else { header.size.natural().unwrap_or_default() };
        let size = extended.size.unwrap_or(declared);
        // Nothing follows the header of a link, a special file or a directory, whatever its size:
        // that of a directory is the space to allocate for it (POSIX, `pax`). Decided by the
        // letter: `0` with a slash after the name, and `D`, are directories with content.
        let stored = if matches!(header.kind, b'1'..=b'6') { 0 } else { size };
        let extras = Extras {
            xattrs: extended.xattrs,
            access_list: extended.access_list,
            default_access_list: extended.default_access_list,
        };
        Self {
            kind,
            is_contiguous: header.kind == b'7',
            link: extended.link.unwrap_or(header.link),
            mode: Mode::new((mode & 0o7777) as u32),
            user,
            group,
            user_name,
            group_name,
            modified,
            device,
            size,
            stored,
            map: None,
            extras: (extras != Extras::default()).then(|| Box::new(extras)),
            content_at: 0,
            refused: false,
            is_cut: false,
            name,
        }
    }

    /// True if it is extracted as a regular file.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.kind, MemberKind::Regular | MemberKind::Unknown(_))
    }

    /// Returns its approximate memory use, in bytes.
    pub(crate) fn weight(&self) -> usize {
        let extras = self.extras.as_ref().map_or(0, |extras| {
            extras.xattrs.iter().map(|(key, value)| key.len() + value.len() + 64).sum::<usize>()
                + [&extras.access_list, &extras.default_access_list]
                    .into_iter()
                    .map(|list| list.as_ref().map_or(0, Vec::len))
                    .sum::<usize>()
        });
        let map = self.map.as_ref().map_or(0, |map| map.len() * size_of::<Extent>());
        size_of::<Self>() + self.name.len() + self.link.len() + extras + map
    }
}

impl ParsedHeader {
    /// True if it is an old GNU header of a sparse file.
    pub(crate) fn is_old_sparse(&self) -> bool {
        self.kind == b'S' && self.dialect == Dialect::Gnu
    }
}
