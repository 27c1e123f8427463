//! Options of the tar applet: plain data, lowered once from the command line.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use bitflags::bitflags;
use haul_sys::{Mode, Timestamp, leads_to_descriptor};
use serde::{Deserialize, Serialize};

/// Operation on the archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Create it (`-c`).
    #[default]
    Create,
    /// Extract its members (`-x`).
    Extract,
    /// List its members (`-t`).
    List,
}

/// Location of the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArchivePath {
    /// Standard output when writing, standard input when reading (`-f -`).
    #[default]
    Standard,
    /// A file of any type (`-f FILE`).
    File(CString),
}

impl ArchivePath {
    /// True if other processes find the archive under its name.
    pub(crate) fn is_for_all(&self) -> bool {
        match self {
            Self::Standard => false,
            Self::File(path) => !leads_to_descriptor(Path::new(OsStr::from_bytes(path.to_bytes()))),
        }
    }
}

/// Compression of the archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compression {
    /// No compression was requested. When reading, the first bytes decide.
    #[default]
    None,
    /// gzip members (`-z`).
    Gzip,
    /// bzip2 streams (`-j`).
    Bzip2,
    /// zstd frames (`--zstd`).
    Zstd,
    /// xz streams (`-J`).
    Xz,
}

/// Format to write (`--format`). Readers detect it themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    /// POSIX.1-2001, with extended headers where needed.
    #[default]
    Pax,
    /// GNU: long names in members of their own, large numbers in base 256.
    Gnu,
    /// POSIX.1-1988: files that do not fit in its header are not archived.
    Ustar,
}

/// Order of the members in a new archive (`--sort`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberOrder {
    /// Order of discovery, with each directory where a top-down walk meets it.
    #[default]
    Entry,
    /// By inode number within each directory, subdirectories last.
    Inode,
    /// By name within each directory, so that the same tree always makes the same archive.
    Name,
}

/// Treatment of symbolic links: those that are archived, and existing ones that members are
/// extracted to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Links {
    /// Archive them as links; replace existing ones.
    #[default]
    Kept,
    /// Follow all of them (`-h`). When extracting, those to directories and, with
    /// [`Existing::Overwrite`], those to files.
    Followed,
}

bitflags! {
    /// Attributes archived and restored besides content, mode, owner and times.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Attributes: u8 {
        /// Extended attributes (`--xattrs`).
        const XATTR = 1;
        /// Access control lists (`--acls`).
        const ACL = 2;
        /// Holes (`-S`). Extraction recreates the archive's holes either way.
        const HOLES = 4;
    }
}

/// A user or group that replaces a file's own in the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Represented {
    /// The name; empty for none.
    pub name: Vec<u8>,
    /// The number; `None` keeps the file's own.
    pub number: Option<u32>,
}

/// A pattern of `--exclude` or `--exclude-from`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclude {
    /// Shell pattern in which `*` and `?` also match slashes, as in GNU tar's exclusions.
    pub pattern: Vec<u8>,
    /// True if it matches from the start of the member name only, not after any
    /// slash (`--anchored`).
    pub anchored: bool,
}

/// A member or file named by the user, with the `-C` directory in effect for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TarOperand {
    /// Directory to look in or extract to: the path of the last `-C` before the name, joined with
    /// earlier ones if it is relative. `None` is the working directory at startup.
    pub directory: Option<CString>,
    /// The name as typed, or as read from a list (`-T`).
    pub name: CString,
    /// True if a directory is archived without its contents (`--no-recursion`).
    pub no_recursion: bool,
}

/// Policy for a file that exists where a member is extracted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Existing {
    /// Remove it first. Directories stay and get the member's attributes (`--overwrite-dir`,
    /// the default).
    #[default]
    Replace,
    /// Overwrite it in place (`--overwrite`).
    Overwrite,
    /// Keep it and report an error (`-k`).
    Keep,
    /// Keep it silently (`--skip-old-files`).
    Skip,
}

impl Existing {
    /// True if an existing entry gives way to the member, or gets its attributes.
    pub(crate) fn is_replaced(self) -> bool {
        matches!(self, Self::Replace | Self::Overwrite)
    }
}

/// Owner of the extracted files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ownership {
    /// The member's owner if the user is root, else the user.
    #[default]
    ByUser,
    /// The member's owner (`--same-owner`).
    Same,
    /// The user (`--no-same-owner`, `-o`).
    Own,
}

/// Treatment of names that lead out of the extraction directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Confinement {
    /// Strip leading slashes, and everything up to the last `..`.
    #[default]
    Confined,
    /// Keep names as they are (`-P`).
    Absolute,
}

/// All options of `haul tar`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Options {
    /// Operation to perform.
    pub operation: Operation,
    /// Archive to operate on.
    pub archive: ArchivePath,
    /// Compression of the archive.
    pub compression: Compression,
    /// Program that compresses the archive or, with `-d`, decompresses it, and its arguments
    /// (`-I`); empty for none.
    pub program: Vec<OsString>,
    /// Number of `-v` flags.
    pub verbose: u8,
    /// Files to archive, or members to extract or list; empty selects all members.
    pub named: Vec<TarOperand>,
    /// Directory that the last `-C` led to, for extracting all members.
    pub directory: Option<CString>,
    /// Patterns of files and members to leave out.
    pub excludes: Vec<Exclude>,
    /// True if the locale's names are UTF-8; otherwise they are bytes.
    pub utf8: bool,
    /// Attributes to archive and restore besides the usual ones.
    pub attributes: Attributes,
    /// Patterns of extended attributes to archive or set, in any namespace (`--xattrs-include`). If
    /// there are none, all are archived and those of `user.*` are set.
    pub xattrs_include: Vec<Vec<u8>>,
    /// Patterns of extended attributes to leave out (`--xattrs-exclude`).
    pub xattrs_exclude: Vec<Vec<u8>>,
    /// Treatment of leading slashes and `..` in names.
    pub confinement: Confinement,
    /// True if users and groups are numbers only (`--numeric-owner`).
    pub numeric_owner: bool,

    /// Format to write.
    pub format: Format,
    /// Order of the members to write.
    pub order: MemberOrder,
    /// Treatment of symbolic links.
    pub links: Links,
    /// True if files on other file systems are left out (`--one-file-system`).
    pub one_file_system: bool,
    /// Owner that all members get (`--owner`).
    pub owner: Option<Represented>,
    /// Group that all members get (`--group`).
    pub group: Option<Represented>,
    /// Changes to members' modes (`--mode`), applied in order as `chmod` would.
    pub mode: Vec<ModeChange>,
    /// Modification time that all members get (`--mtime`).
    pub modified: Option<Timestamp>,
    /// True if an index is appended (`--index`).
    pub index: bool,
    /// True if several processes create the archive.
    pub several_processes: bool,

    /// Policy for existing files.
    pub existing: Existing,
    /// Owner of the extracted files.
    pub ownership: Ownership,
    /// True if modes are restored without applying the umask (`-p`). `None` is true for root only.
    pub same_permissions: Option<bool>,
    /// True if files keep the time of their extraction (`-m`).
    pub touch: bool,
    /// Number of leading name components to strip (`--strip-components`).
    pub strip_components: usize,
    /// True if a link to a directory may stand in for a directory
    /// member (`--keep-directory-symlink`).
    pub keep_directory_symlink: bool,
    /// True if content goes to standard output (`-O`).
    pub to_stdout: bool,
    /// True if reading continues after blocks of zeros (`-i`).
    pub ignore_zeros: bool,
}

/// One clause of a mode change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeChange {
    /// What happens to the bits.
    pub operator: ModeOperator,
    /// Permissions, for all classes.
    pub permissions: ModePermissions,
    /// Bits that the permissions are limited to.
    pub affected: Mode,
    /// Bits that `=` clears.
    pub cleared: Mode,
    /// Bits that directories keep: set-id bits that the clause does not mention.
    pub kept_by_directories: Mode,
}

/// The operator of a mode change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModeOperator {
    /// `+`.
    Add,
    /// `-`.
    Remove,
    /// `=`, and an octal number.
    Set,
}

/// The permissions of a mode change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModePermissions {
    /// These bits.
    Bits(Mode),
    /// These, and execute bits for directories and for files that have any (`X`).
    BitsAndExecutable(Mode),
    /// Those that the class with these bits has in the mode so far (`u`, `g` or `o`).
    OfClass(Mode),
}

impl Options {
    /// True if extraction goes into directories behind existing symbolic links.
    pub(crate) fn follows_to_directories(&self) -> bool {
        self.keep_directory_symlink || self.links == Links::Followed
    }

    /// True if extraction writes to files behind existing symbolic links.
    pub(crate) fn follows_to_files(&self) -> bool {
        self.links == Links::Followed && self.existing == Existing::Overwrite
    }
}

impl ModeChange {
    /// Returns the mode after this clause.
    #[must_use]
    pub fn apply(self, mode: Mode, is_directory: bool) -> Mode {
        const ANY_EXECUTE: Mode = Mode::new(0o111);
        let bits = match self.permissions {
            ModePermissions::BitsAndExecutable(bits) if is_directory || !mode.and(ANY_EXECUTE).is_empty() => {
                bits.or(ANY_EXECUTE)
            }
            ModePermissions::Bits(bits) | ModePermissions::BitsAndExecutable(bits) => bits,
            ModePermissions::OfClass(class) => {
                let of_all = [0o444, 0o222, 0o111].map(Mode::new);
                let has = |of_all: &Mode| !mode.and(class).and(*of_all).is_empty();
                of_all.into_iter().filter(has).fold(Mode::new(0), Mode::or)
            }
        };
        let bits = bits.and(self.affected);
        let kept = if is_directory { self.kept_by_directories } else { Mode::new(0) };
        match self.operator {
            ModeOperator::Add => mode.or(bits),
            ModeOperator::Remove => mode.without(bits),
            ModeOperator::Set => mode.without(self.cleared.without(kept)).or(bits),
        }
    }
}
