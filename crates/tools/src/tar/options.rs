//! What the tar tool can be asked to do: plain data, lowered once from what the user typed.

use std::ffi::{CString, OsString};

use bitflags::bitflags;
use haul_sys::{Mode, Timestamp};
use serde::{Deserialize, Serialize};

/// What is done with the archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// It is made (`-c`).
    #[default]
    Create,
    /// What is in it is made again (`-x`).
    Extract,
    /// It is told what is in it (`-t`).
    List,
}

/// Where the archive is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Archive {
    /// Standard output, or standard input where it is read (`-f -`).
    #[default]
    Standard,
    /// A file (`-f FILE`), whatever kind of file that is.
    File(CString),
}

/// How the archive is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compression {
    /// Not, as far as was said: one that is read is looked at.
    #[default]
    None,
    /// In gzip members (`-z`).
    Gzip,
    /// In bzip2 streams (`-j`).
    Bzip2,
    /// In zstd frames (`--zstd`).
    Zstd,
    /// In xz streams (`-J`).
    Xz,
}

/// Which format is written (`--format`). Reading tells by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    /// POSIX.1-2001: extended headers where they are needed.
    #[default]
    Pax,
    /// GNU's: long names in members of their own, large numbers in base 256.
    Gnu,
    /// POSIX.1-1988: what does not fit in a header is not archived.
    Ustar,
}

/// In which order members are written (`--sort`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberOrder {
    /// As they are found, directories as a walk from the top would meet them.
    #[default]
    Found,
    /// As they are stored: by inode number in each directory, and directories last.
    Inode,
    /// By their names in each directory, so that the same tree makes the same archive.
    Name,
}

/// Which symbolic links are followed when members are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Links {
    /// None: they are archived as links.
    #[default]
    Kept,
    /// All (`-h`).
    Followed,
}

bitflags! {
    /// What of a member beside content, mode, owner and times is archived and made again.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Attributes: u8 {
        /// Extended attributes (`--xattrs`).
        const XATTR = 1;
        /// Access lists (`--acls`).
        const ACL = 2;
        /// Holes (`-S`). Extraction makes the holes that the archive has, whether this is set or not.
        const HOLES = 4;
    }
}

/// A user or group that members are given instead of their own, or numbers only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Represented {
    /// The name, empty if it has none.
    pub name: Vec<u8>,
    /// The number; `None` leaves that of the file.
    pub number: Option<u32>,
}

/// A pattern of `--exclude`, or of `--exclude-from`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclude {
    /// The pattern, a shell's with `*` and `?` matching slashes too, as GNU tar has it for exclusion.
    pub pattern: Vec<u8>,
    /// Whether it is matched against whole member names only, not after any slash in them (`--anchored`).
    pub anchored: bool,
}

/// A member or file that the user named, with the directory that `-C` had led to there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Where it is looked for, or extracted to: the path of the last `-C` before it, joined with those before if it is
    /// relative. `None` is where the program was started.
    pub directory: Option<CString>,
    /// Its name as it was typed, or read from a list (`-T`).
    pub name: CString,
}

/// What becomes of a file that stands where a member is to be extracted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Existing {
    /// It is removed first; directories stay and get the member's attributes (`--overwrite-dir`, the default).
    #[default]
    Replace,
    /// It is overwritten in place (`--overwrite`).
    Overwrite,
    /// It stays, and that is an error (`-k`).
    Keep,
    /// It stays, and that is fine (`--skip-old-files`).
    Skip,
}

/// Whose the extracted files are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ownership {
    /// The members' if the user is root, else the user's.
    #[default]
    ByUser,
    /// The members' (`--same-owner`).
    Same,
    /// The user's (`--no-same-owner`, `-o`).
    Own,
}

/// What of names that lead elsewhere is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Confinement {
    /// Nothing: leading slashes, and what stands before a `..`, are taken away.
    #[default]
    Confined,
    /// All, as the user wants it (`-P`).
    Absolute,
}

/// Everything that `haul tar` can be asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Options {
    /// What is done.
    pub operation: Operation,
    /// With what.
    pub archive: Archive,
    /// How that is compressed.
    pub compression: Compression,
    /// The program that compresses or, with `-d`, decompresses it, with its arguments (`-I`); empty if there is none.
    pub program: Vec<OsString>,
    /// How many times `-v` was said.
    pub verbose: u8,
    /// What is archived; or which members are extracted or listed, all if there is none.
    pub named: Vec<Named>,
    /// Where `-C` has led behind all operands, for an extraction of all members.
    pub directory: Option<CString>,
    /// What is left out.
    pub excludes: Vec<Exclude>,
    /// Whether names are characters of UTF-8, as the locale says, or only bytes.
    pub utf8: bool,
    /// What beside the usual attributes is archived and made again.
    pub attributes: Attributes,
    /// Patterns of extended attributes that are archived or set, of all namespaces (`--xattrs-include`); if there are none, all
    /// are archived, and those of `user.` are set.
    pub xattrs_include: Vec<Vec<u8>>,
    /// Patterns of extended attributes that are not (`--xattrs-exclude`).
    pub xattrs_exclude: Vec<Vec<u8>>,
    /// Whether leading slashes and `..` stay.
    pub confinement: Confinement,
    /// Whether users and groups are numbers only (`--numeric-owner`).
    pub numeric_owner: bool,

    /// The format that is written.
    pub format: Format,
    /// The order of what is written.
    pub order: MemberOrder,
    /// Which links are followed.
    pub links: Links,
    /// Whether files on other file systems are left out (`--one-file-system`).
    pub one_file_system: bool,
    /// Whether what is in directories is archived too (not with `--no-recursion`).
    pub recursive: bool,
    /// The owner that members are given (`--owner`).
    pub owner: Option<Represented>,
    /// The group that members are given (`--group`).
    pub group: Option<Represented>,
    /// What is changed in members' modes (`--mode`), as `chmod` would: each clause is applied in turn.
    pub mode: Vec<ModeChange>,
    /// The time that members are given (`--mtime`).
    pub modified: Option<Timestamp>,
    /// Whether an index is appended (`--index`).
    pub index: bool,
    /// Whether several processes make the archive.
    pub several_processes: bool,

    /// What becomes of files that are there.
    pub existing: Existing,
    /// Whose the files are.
    pub ownership: Ownership,
    /// Whether modes are the members', without regard to the umask (`-p`; the default for root).
    pub same_permissions: Option<bool>,
    /// Whether times are those of the extraction (`-m`).
    pub touch: bool,
    /// How many leading components of a member's name are taken away (`--strip-components`).
    pub strip_components: usize,
    /// Whether a link to a directory stands where a directory is wanted (`--keep-directory-symlink`).
    pub keep_directory_symlink: bool,
    /// Whether content goes to standard output (`-O`).
    pub to_stdout: bool,
    /// Whether reading goes on behind blocks of zeros (`-i`).
    pub ignore_zeros: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            operation: Operation::default(),
            archive: Archive::default(),
            compression: Compression::default(),
            program: Vec::new(),
            verbose: 0,
            named: Vec::new(),
            directory: None,
            excludes: Vec::new(),
            utf8: false,
            attributes: Attributes::empty(),
            xattrs_include: Vec::new(),
            xattrs_exclude: Vec::new(),
            confinement: Confinement::default(),
            numeric_owner: false,
            format: Format::default(),
            order: MemberOrder::default(),
            links: Links::default(),
            one_file_system: false,
            recursive: true,
            owner: None,
            group: None,
            mode: Vec::new(),
            modified: None,
            index: false,
            several_processes: false,
            existing: Existing::default(),
            ownership: Ownership::default(),
            same_permissions: None,
            touch: false,
            strip_components: 0,
            keep_directory_symlink: false,
            to_stdout: false,
            ignore_zeros: false,
        }
    }
}

/// One clause of a change of modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeChange {
    /// The bits that are taken away.
    pub clear: Mode,
    /// Those of them that directories keep: set-id bits that were not spoken of.
    pub kept_by_directories: Mode,
    /// The bits that are added then.
    pub set: Mode,
    /// Bits that are added only to directories and to files that somebody may execute (`X`).
    pub set_executable: Mode,
}

impl ModeChange {
    /// Changes a mode.
    #[must_use]
    pub fn apply(self, mode: Mode, is_directory: bool) -> Mode {
        const ANY_EXECUTE: Mode = Mode::new(0o111);
        let executable = is_directory || !mode.and(ANY_EXECUTE).is_empty();
        let clear = if is_directory { self.clear.without(self.kept_by_directories) } else { self.clear };
        let changed = mode.without(clear).or(self.set);
        if executable { changed.or(self.set_executable) } else { changed }
    }
}
