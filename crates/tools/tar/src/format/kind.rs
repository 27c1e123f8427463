//! Types of members, and the letters that stand for them in headers.

use haul_sys::FileType;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum MemberKind {
    Regular,
    /// A hard link to an earlier member.
    HardLink,
    Symlink,
    CharacterDevice,
    BlockDevice,
    Directory,
    Fifo,
    /// The name of the volume, not a file.
    Volume,
    /// The rest of a file that began on another volume.
    Continued,
    /// Any other type, extracted as a regular file.
    Unknown(u8),
}

impl MemberKind {
    /// Returns the type under which a file is archived; `None` if it can't be.
    pub(crate) fn of_file(kind: FileType) -> Option<Self> {
        Some(match kind {
            FileType::Regular => Self::Regular,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            FileType::Fifo => Self::Fifo,
            FileType::CharacterDevice => Self::CharacterDevice,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::Socket | FileType::Unknown => return None,
        })
    }

    /// Returns the type that the letter in a header means.
    pub(crate) fn of_letter(letter: u8, name: &[u8]) -> Self {
        match letter {
            // Before directories had a letter, their names ended in a slash.
            b'0' | 0 | b'7' | b'S' if name.ends_with(b"/") => Self::Directory,
            // `7` asks for contiguous storage; `S` is a file in GNU's older sparse format.
            b'0' | 0 | b'7' | b'S' => Self::Regular,
            b'1' => Self::HardLink,
            b'2' => Self::Symlink,
            b'3' => Self::CharacterDevice,
            b'4' => Self::BlockDevice,
            // `D` is a directory in GNU's incremental archives.
            b'5' | b'D' => Self::Directory,
            b'6' => Self::Fifo,
            b'V' => Self::Volume,
            b'M' => Self::Continued,
            letter => Self::Unknown(letter),
        }
    }

    pub(crate) fn letter(self) -> u8 {
        match self {
            Self::Regular => b'0',
            Self::HardLink => b'1',
            Self::Symlink => b'2',
            Self::CharacterDevice => b'3',
            Self::BlockDevice => b'4',
            Self::Directory => b'5',
            Self::Fifo => b'6',
            Self::Volume => b'V',
            Self::Continued => b'M',
            Self::Unknown(letter) => letter,
        }
    }
}
