//! What the copy tool can be asked to do: plain data, lowered once from what the user typed.

use std::ffi::CString;

use bitflags::bitflags;

/// Which symbolic links of the source are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Dereference {
    /// None: they are copied as links (`-P`).
    Never,
    /// Those named on the command line (`-H`).
    Operands,
    /// All (`-L`).
    Always,
}

bitflags! {
    /// Attributes of the source that the target gets (`--preserve`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    pub struct Preserve: u8 {
        /// Permission bits, set-id bits and access lists.
        const MODE = 1;
        /// Owner and group.
        const OWNERSHIP = 2;
        /// Times of access and modification.
        const TIMESTAMPS = 4;
        /// Which names are one file.
        const LINKS = 8;
        /// Extended attributes.
        const XATTR = 16;
    }
}

/// Which files that are already there are replaced (`--update`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Update {
    /// All.
    All,
    /// None, which is fine (`-n`).
    None,
    /// None, which is an error.
    NoneFail,
    /// Those that are older than the source (`-u`).
    Older,
}

/// Under which name what is replaced is kept (`--backup`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Backup {
    /// Under none: it is not kept.
    None,
    /// With the suffix, in the place of an older backup.
    Simple,
    /// With a number if there are such backups of it, else with the suffix.
    Existing,
    /// With a number that no backup of it has had.
    Numbered,
}

/// What becomes of what already stands in a target's place.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Existing {
    /// Which files are replaced.
    pub update: Update,
    /// Whether the user is asked before (`-i`): one file after the other, one at a time.
    pub ask: bool,
    /// Whether what cannot be opened is removed, and made anew (`-f`).
    pub force: bool,
    /// Whether it is removed first (`--remove-destination`).
    pub remove: bool,
    /// Whether and how it is kept.
    pub backup: Backup,
    /// The suffix of backups without a number (`-S`).
    pub suffix: CString,
    /// Whether a symbolic link to a directory may stand for the directory (`--keep-directory-symlink`).
    pub keep_directory_symlink: bool,
}

impl Existing {
    /// Tells whether backups are made.
    #[must_use]
    pub fn backs_up(&self) -> bool {
        self.backup != Backup::None
    }
}

impl Default for Existing {
    /// What `cp` does without options: what is there is written over.
    fn default() -> Self {
        Self {
            update: Update::All,
            ask: false,
            force: false,
            remove: false,
            backup: Backup::None,
            suffix: c"~".to_owned(),
            keep_directory_symlink: false,
        }
    }
}

/// What is made for a regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Make {
    /// A file with the same content.
    Copy,
    /// Another name of the same file (`-l`).
    HardLink,
    /// A symbolic link to it (`-s`).
    Symlink,
}

/// Whether blocks may be shared with the source (`--reflink`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Reflink {
    /// Where the file system can.
    Auto,
    /// They must be, or it is an error.
    Always,
    /// They must not be.
    Never,
}

/// Where the target gets holes (`--sparse`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Sparse {
    /// Where the source has them.
    Auto,
    /// Wherever the content is zeros.
    Always,
    /// Nowhere.
    Never,
}

/// Where the data of a new file lies, on file systems that spread a file over several targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum LayoutRule {
    /// As the directory it is made in says.
    #[default]
    Inherit,
    /// As the source's data lies.
    Copy {
        /// Whether it is spread over no more targets than the source's data takes up.
        reduce: bool,
        /// Whether it begins on the target on which the source begins, rather than where the file system likes.
        keep_first_target: bool,
    },
}

/// What becomes of SELinux contexts, the attribute `security.selinux`.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Label {
    /// It is an attribute like any other.
    #[default]
    Attribute,
    /// The copy gets that of its source.
    Source {
        /// Whether failing at that is an error (`--preserve=context`).
        required: bool,
    },
    /// New files are made with this one (`--context=CTX`).
    Given(CString),
    /// The copy's type is the one that the policy has for its path (`-Z`).
    Policy,
}

/// The options of one copy, resolved.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct CopyOptions {
    /// Directories are copied with what is in them (`-r`). Without, special files are read like regular ones.
    pub recursive: bool,
    /// Which symbolic links are followed.
    pub dereference: Dereference,
    /// Which attributes are kept.
    pub preserve: Preserve,
    /// Whether failing to keep one of mode, ownership and times is an error (`-p`, `--preserve=…`, `-a`).
    pub require_preserve: bool,
    /// Whether failing to keep extended attributes is an error (`--preserve=xattr`).
    pub require_xattr: bool,
    /// Whether extended attributes that the file system cannot hold are passed over in silence (`-a`).
    pub reduce_diagnostics: bool,
    /// What becomes of SELinux contexts.
    pub label: Label,
    /// Whether new files get the default mode instead of the source's (`--no-preserve=mode`).
    pub default_mode: bool,
    /// What becomes of what is there.
    pub existing: Existing,
    /// What is made.
    pub make: Make,
    /// Whether no data is copied, only attributes (`--attributes-only`).
    pub attributes_only: bool,
    /// Whether special files met under `recursive` are read like regular ones (`--copy-contents`).
    pub copy_contents: bool,
    /// Whether directories on other file systems stay empty (`-x`).
    pub one_file_system: bool,
    /// Whether blocks may be shared.
    pub reflink: Reflink,
    /// Where the target gets holes.
    pub sparse: Sparse,
    /// Where the data of new files lies.
    pub layout: LayoutRule,
    /// Whether each entry is told of (`-v`).
    pub verbose: bool,
    /// Whether the way of copying is told of (`--debug`).
    pub debug: bool,
    /// Whether a dangling symbolic link in the target's place is written through (`POSIXLY_CORRECT`).
    pub through_dangling: bool,
    /// In the target no symbolic link is followed, and nothing that exists is written to or changed: a file is replaced by
    /// a new one, and an existing directory keeps its attributes (`--strict`).
    pub strict: bool,
    /// Which temporary names the processes of a run with a journal give to files that are not whole.
    pub temporary_names: Option<TemporaryNames>,
}

/// What the names of files that are not whole are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TemporaryNames {
    /// The number that all runs with one journal share.
    pub number: u64,
    /// Which of them this is, the first being 1.
    pub epoch: u32,
}

impl Default for CopyOptions {
    /// What `cp` does without options.
    fn default() -> Self {
        Self {
            recursive: false,
            dereference: Dereference::Always,
            preserve: Preserve::empty(),
            require_preserve: false,
            require_xattr: false,
            reduce_diagnostics: false,
            label: Label::Attribute,
            default_mode: false,
            existing: Existing::default(),
            make: Make::Copy,
            attributes_only: false,
            copy_contents: false,
            one_file_system: false,
            reflink: Reflink::Auto,
            sparse: Sparse::Auto,
            layout: LayoutRule::Inherit,
            verbose: false,
            debug: false,
            through_dangling: false,
            strict: false,
            temporary_names: None,
        }
    }
}

/// The names on the command line, before anybody looked at what they are.
#[derive(Clone, Debug, Default)]
pub struct Operands {
    /// The names that are not options, in order. Without `target_directory` the last is the target.
    pub names: Vec<CString>,
    /// `-t`: the directory into which all names are copied.
    pub target_directory: Option<CString>,
    /// `-T`: the target is not a directory to copy into.
    pub no_target_directory: bool,
    /// `--parents`: what is copied into a directory gets its whole name there.
    pub parents: bool,
    /// `--strip-trailing-slashes`: names that are copied into a directory lose the slashes at their ends.
    pub strip_trailing_slashes: bool,
}
