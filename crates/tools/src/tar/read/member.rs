//! A member of an archive, whatever the format said it in.

use haul_flow::Problem;
use haul_sys::{Mode, Timestamp};
use serde::{Deserialize, Serialize};

use super::header::{Dialect, Header};
use super::number::Number;
use super::pax::Extended;
use super::sparse::Extent;
use crate::tar::wording;

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// A regular file.
    Regular,
    /// A further name of a member before it.
    HardLink,
    /// A symbolic link.
    Symlink,
    /// A character device.
    Character,
    /// A block device.
    Block,
    /// A directory.
    Directory,
    /// A FIFO.
    Fifo,
    /// The name of the volume: no file.
    Volume,
    /// The rest of a file that began on another volume.
    Continued,
    /// Something without a name here; it is taken for a regular file.
    Unknown(u8),
}

/// A member of an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// What it is.
    pub(crate) kind: Kind,
    /// Its name as the archive has it.
    pub(crate) name: Vec<u8>,
    /// What a link leads to.
    pub(crate) link: Vec<u8>,
    /// Its mode.
    pub(crate) mode: Mode,
    /// The owner's number.
    pub(crate) user: u32,
    /// The group's number.
    pub(crate) group: u32,
    /// The owner's name, if it has one.
    pub(crate) user_name: Vec<u8>,
    /// The group's name, if it has one.
    pub(crate) group_name: Vec<u8>,
    /// When it was modified.
    pub(crate) modified: Timestamp,
    /// A device's major and minor number.
    pub(crate) device: (u32, u32),
    /// The length of the file.
    pub(crate) size: u64,
    /// How many bytes of it the archive holds.
    pub(crate) stored: u64,
    /// Where they go, if the file has holes.
    pub(crate) map: Option<Vec<Extent>>,
    /// What few members have.
    pub(crate) extras: Option<Box<Extras>>,
    /// Where in the archive its content is.
    pub(crate) content_at: u64,
    /// What keeps it from being extracted: it is not known what it is called, or where its bytes go.
    pub(crate) refused: bool,
}

/// Attributes that few members have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extras {
    /// Extended attributes.
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The access list, as text.
    pub(crate) access_list: Option<Vec<u8>>,
    /// The access list that new entries of a directory get, as text.
    pub(crate) default_access_list: Option<Vec<u8>>,
}

impl Member {
    /// Joins what a header and the extended headers before it say.
    pub(crate) fn of(header: Header, extended: Extended, problems: &mut Vec<Problem>) -> Self {
        let name = extended.path.unwrap_or(header.name);
        let kind = kind(header.kind, &name);
        let mut bad = |field: &'static str, number: Number| match number {
            Number::Is(value) => value,
            Number::Blank => 0,
            Number::Bad => {
                problems.push(Problem::new(wording::BAD_NUMBER).naming(name.as_slice()).naming(field));
                0
            }
        };
        let mut natural = |field, number, limit: u64| {
            let value = bad(field, number);
            u64::try_from(value).ok().filter(|value| *value <= limit).unwrap_or_default()
        };
        let mode = natural("mode_t", header.mode, u64::MAX);
        let (user, group) = (extended.user.map(Ok), extended.group.map(Ok));
        let number = |number: Result<u64, ()>| number.ok().and_then(|number| u32::try_from(number).ok());
        // A number that no user can have is nobody's (`(uid_t) -2`).
        let user = number(user.unwrap_or_else(|| Ok(natural("uid_t", header.user, u64::MAX))));
        let group = number(group.unwrap_or_else(|| Ok(natural("gid_t", header.group, u64::MAX))));
        let is_device = matches!(kind, Kind::Character | Kind::Block);
        let mut part =
            |number| if is_device { natural("dev_t", number, u64::from(u32::MAX)) as u32 } else { 0 };
        let device = (part(header.device.0), part(header.device.1));
        let modified = extended
            .modified
            .unwrap_or_else(|| Timestamp { seconds: bad("time_t", header.modified), nanoseconds: 0 });
        // A further name has no content of its own, whatever an old tar says of its size.
        let declared = if kind == Kind::HardLink { 0 } else { header.size.natural().unwrap_or_default() };
        let stored = extended.size.unwrap_or(declared);
        let extras = Extras {
            xattrs: extended.xattrs,
            access_list: extended.access_list,
            default_access_list: extended.default_access_list,
        };
        Self {
            kind,
            link: extended.link.unwrap_or(header.link),
            mode: Mode::new((mode & 0o7777) as u32),
            user: user.unwrap_or(u32::MAX - 1),
            group: group.unwrap_or(u32::MAX - 1),
            user_name: extended.user_name.unwrap_or(header.user_name),
            group_name: extended.group_name.unwrap_or(header.group_name),
            modified,
            device,
            size: stored,
            stored,
            map: None,
            extras: (extras != Extras::default()).then(|| Box::new(extras)),
            content_at: 0,
            refused: false,
            name,
        }
    }

    /// Tells whether it is extracted as a regular file.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.kind, Kind::Regular | Kind::Unknown(_))
    }

    /// Returns about how much memory it takes, in bytes.
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

/// Says what a header's letter means.
fn kind(letter: u8, name: &[u8]) -> Kind {
    match letter {
        // Before there was a letter for directories, their names ended in a slash.
        b'0' | 0 | b'7' | b'S' if name.ends_with(b"/") => Kind::Directory,
        b'0' | 0 | b'7' | b'S' => Kind::Regular,
        b'1' => Kind::HardLink,
        b'2' => Kind::Symlink,
        b'3' => Kind::Character,
        b'4' => Kind::Block,
        b'5' | b'D' => Kind::Directory,
        b'6' => Kind::Fifo,
        b'V' => Kind::Volume,
        b'M' => Kind::Continued,
        letter => Kind::Unknown(letter),
    }
}

impl Header {
    /// Tells whether it is GNU's old header of a sparse file.
    pub(crate) fn is_old_sparse(&self) -> bool {
        self.kind == b'S' && self.dialect == Dialect::Gnu
    }
}
