//! The copy tool's options: plain data, lowered once from the command line.

use std::ffi::CString;

use bitflags::bitflags;
use haul_digest::Algorithm;
use haul_flow::BackupPlace;
use haul_sys::{FileType, Identity, Stat};

/// The symbolic links of the source that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Dereference {
    /// No links: they are copied as links (`-P`).
    Never,
    /// Those named on the command line (`-H`).
    Operands,
    /// All (`-L`).
    Always,
}

impl Dereference {
    /// True if a link is followed; an operand is one that is named on the command line.
    #[must_use]
    pub fn follows(self, is_operand: bool) -> bool {
        match self {
            Self::Never => false,
            Self::Operands => is_operand,
            Self::Always => true,
        }
    }
}

bitflags! {
    /// Attributes of the source to preserve (`--preserve`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    pub struct Preserve: u8 {
        /// Permission bits, set-id bits and ACLs.
        const MODE = 1;
        /// Owner and group.
        const OWNERSHIP = 2;
        /// Access and modification times.
        const TIMESTAMPS = 4;
        /// Hard links.
        const LINKS = 8;
        /// Extended attributes.
        const XATTR = 16;
    }
}

/// The existing files that are replaced (`--update`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Update {
    /// All.
    All,
    /// No file, silently (`-n`).
    None,
    /// No file, and each is an error (`--update=none-fail`).
    NoneFail,
    /// Those older than the source (`-u`).
    Older,
    /// Those that differ from the source, also by their type. What is the same gets the source's
    /// attributes (`haul sync`).
    Different(UpdateRule),
}

impl Update {
    /// True if targets are made equal to their sources.
    #[must_use]
    pub fn syncs(self) -> bool {
        matches!(self, Self::Different(_))
    }

    /// True if directories in the way of other files are removed by the deletion that follows.
    #[must_use]
    pub fn deletes_later(self) -> bool {
        matches!(self, Self::Different(UpdateRule { deletes_later: true, .. }))
    }

    /// True if nothing is made where nothing is.
    pub(super) fn makes_nothing_new(self) -> bool {
        matches!(self, Self::Different(UpdateRule { only_existing: true, .. }))
    }
}

/// Rules for when a regular file differs from its source: by default, by type, size or
/// modification time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct UpdateRule {
    /// By content instead of the modification time (`--checksum`).
    pub by_content: bool,
    /// Modification times may differ by this many seconds (`--modify-window`).
    pub window: u32,
    /// Files that are newer than their sources stay (`--update`).
    pub keeps_newer: bool,
    /// No new entries are created (`--existing`).
    pub only_existing: bool,
    /// Existing entries stay as they are, except for directories (`--ignore-existing`).
    pub only_missing: bool,
    /// Directories in the way of other files stay, because a deletion follows
    /// ([`CopyKind::InTheWay`](crate::CopyKind::InTheWay)).
    pub deletes_later: bool,
}

impl UpdateRule {
    /// True if a target stays because it is newer. As with rsync, types that differ matter more.
    pub(super) fn keeps(self, source: &Stat, there: &Stat) -> bool {
        let is_regular = |file: &Stat| file.kind == FileType::Regular;
        self.keeps_newer && is_regular(source) && is_regular(there) && there.modified > source.modified
    }
}

/// Naming of the backup of a replaced file (`--backup`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Backup {
    /// No backup is made.
    None,
    /// With the suffix, replacing an older backup.
    Simple,
    /// Numbered if numbered backups of it exist, else with the suffix.
    Existing,
    /// With a number no existing backup has.
    Numbered,
}

/// Treatment of existing targets.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Existing {
    /// The files to replace.
    pub update: Update,
    /// Ask before replacing (`-i`); files are then copied one at a time.
    pub ask: bool,
    /// Remove and recreate files that can't be opened (`-f`).
    pub force: bool,
    /// Remove existing files first (`--remove-destination`).
    pub remove: bool,
    /// Backup method.
    pub backup: Backup,
    /// Suffix of unnumbered backups (`-S`).
    pub suffix: CString,
    /// Accept a symbolic link to a directory as a target directory (`--keep-directory-symlink`).
    pub keep_directory_symlink: bool,
}

impl Existing {
    /// True if backups are made.
    #[must_use]
    pub fn backs_up(&self) -> bool {
        self.backup != Backup::None
    }
}

impl Default for Existing {
    /// Plain `cp`: existing files are overwritten.
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

/// Kind of copy that is made of a regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Make {
    /// A file with the same content.
    Copy,
    /// A hard link to it (`-l`).
    HardLink,
    /// A symbolic link to it (`-s`).
    Symlink,
}

/// Sharing of blocks with the source (`--reflink`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Reflink {
    /// If the file system can.
    Auto,
    /// Always; otherwise it is an error.
    Always,
    /// Never.
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

/// The regular files that get their own name only when complete (`--atomic`). In a sync, all new
/// ones do, and this is about existing ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Atomic {
    /// No files: data is written under the target's name (`--no-atomic`).
    Never,
    /// New files of at least 1 MiB: a part of them may pass for the whole, and the name costs
    /// nothing against the data.
    LargeFiles,
    /// All: an existing file is replaced as a whole or not at all.
    Always,
}

/// When a copy is made durable (`--fsync`), so that a power cut loses nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Fsync {
    /// Never: the kernel decides when to write it back.
    Never,
    /// At the end of the run, with one `syncfs` per file system. On file systems that others share,
    /// where that call doesn't reach the server, like [`Fsync::Each`].
    End,
    /// Each file before it is closed, and each directory when its entries are complete.
    Each,
}

/// Extent of verification (`--verify`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Verify {
    /// Not at all.
    Never,
    /// The target is read again, from the page cache: the copy in memory is right.
    Stream,
    /// The target is read again from its device.
    Target,
    /// Source and target are both read again from their devices.
    Both,
}

/// Action when a source has changed while it was copied (`--if-changed`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum IfChanged {
    /// Changes are not looked for.
    Ignore,
    /// The file is reported. The copy stays.
    Warn,
    /// It is copied again, up to this many times, and then reported.
    Retry(u32),
}

/// Action when a target's file system is full, or a quota is used up (`--on-full`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum OnFull {
    /// The file is an error.
    Stop,
    /// The copy waits until there is room.
    Pause,
}

/// Placement of a new file's data, on file systems that stripe files over storage targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum LayoutRule {
    /// Inherited from its directory.
    #[default]
    Inherit,
    /// Copied from the source.
    Copy {
        /// Use no more storage targets than the source's data occupies.
        reduce: bool,
        /// Start on the source's first storage target, rather than on any the file system picks.
        keep_first_target: bool,
    },
}

/// Treatment of SELinux contexts, the xattr `security.selinux`.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Label {
    /// Like any other xattr.
    #[default]
    Attribute,
    /// Copied from the source.
    Source {
        /// Failure is an error (`--preserve=context`).
        required: bool,
    },
    /// New files are created with this one (`--context=CTX`).
    Given(CString),
    /// The copy gets the type that the policy assigns to its path (`-Z`).
    Policy,
}

/// The options of one copy, resolved.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct CopyOptions {
    /// Copy directories with their content (`-r`). Without it, special files are read like
    /// regular ones.
    pub recursive: bool,
    /// The symbolic links to follow.
    pub dereference: Dereference,
    /// The attributes to preserve.
    pub preserve: Preserve,
    /// Failing to preserve mode, ownership or timestamps is an error (`-p`, `--preserve=…`, `-a`).
    pub require_preserve: bool,
    /// Failing to preserve xattrs is an error (`--preserve=xattr`).
    pub require_xattr: bool,
    /// Silently skip xattrs the file system does not support (`-a`).
    pub reduce_diagnostics: bool,
    /// Warn once if the target's file system has no xattrs, which GNU `cp` drops silently. One that
    /// doesn't fit into it is an error.
    pub report_lost_xattrs: bool,
    /// Treatment of SELinux contexts.
    pub label: Label,
    /// New files get the default mode instead of the source's (`--no-preserve=mode`).
    pub default_mode: bool,
    /// Treatment of existing targets.
    pub existing: Existing,
    /// Kind of copy that is made of regular files.
    pub make: Make,
    /// Copy attributes only, no data (`--attributes-only`).
    pub attributes_only: bool,
    /// Under `recursive`, read special files like regular ones (`--copy-contents`).
    pub copy_contents: bool,
    /// Under `recursive`, FIFOs, sockets and devices are errors instead of being recreated. So is
    /// an existing FIFO, which would be written to.
    pub refuse_special: bool,
    /// Leave directories on other file systems empty (`-x`).
    pub one_file_system: bool,
    /// Sharing of blocks with the source. [`Reflink::Auto`] shares none where every file has to be
    /// read (`verify`, [`CopyRequest::digests`](crate::CopyRequest::digests)), and none with
    /// [`Sparse::Never`].
    pub reflink: Reflink,
    /// Where the target gets holes.
    pub sparse: Sparse,
    /// The regular files that get their own name only when complete.
    pub atomic: Atomic,
    /// When the copy is made durable.
    pub fsync: Fsync,
    /// Extent of verification.
    pub verify: Verify,
    /// Action when a source has changed while it was copied.
    pub if_changed: IfChanged,
    /// Action when a target's file system is full.
    pub on_full: OnFull,
    /// Placement of new files' data.
    pub layout: LayoutRule,
    /// Directories of earlier copies, whose files are linked instead of copied if they are the same
    /// (`--link-dest`).
    pub link_dest: Vec<CString>,
    /// Where replaced files are kept (`--backup-dir`).
    pub backup_place: Option<BackupPlace>,
    /// Decide about every entry, and change nothing (`--dry-run`).
    pub dry_run: bool,
    /// Print a line for each entry (`-v`).
    pub verbose: bool,
    /// Print lines as those of rsync's `--itemize-changes`, instead of those of `verbose`.
    pub itemize: bool,
    /// Report how each file was copied (`--debug`).
    pub debug: bool,
    /// Write through a dangling symbolic link in the target (`POSIXLY_CORRECT`).
    pub through_dangling: bool,
    /// Follow no symbolic link in the target and modify nothing that exists: a file is replaced by
    /// a new one, and an existing directory keeps its attributes (`--strict`).
    pub strict: bool,
    /// Temporary names for incomplete files, in a run of several processes with a journal.
    pub temporary_names: Option<TemporaryNames>,
    /// Files that the program writes while it copies (logs, a journal). They are not copied, and no
    /// copy takes their place.
    pub own_files: Vec<Identity>,
    /// The source, and directories in it that the target shows through mounts (`haul sync`).
    /// Nothing in them is changed.
    pub source_parts: Vec<Identity>,
}

/// Run-specific parts of temporary names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TemporaryNames {
    /// Number shared by all runs with one journal.
    pub number: u64,
    /// Number of this run among them, starting at 1.
    pub epoch: u32,
}

impl CopyOptions {
    /// Returns the flags of two options that exclude each other, if any do. `listed_hash` is that
    /// of [`CopyRequest::digests`](crate::CopyRequest::digests).
    #[must_use]
    pub fn conflict(&self, listed_hash: Option<Algorithm>) -> Option<(&'static str, &'static str)> {
        let existing = &self.existing;
        let clones = self.reflink == Reflink::Always;
        let is_listed = listed_hash.is_some();
        let content = if self.verify == Verify::Never { "--manifest" } else { "--verify" };
        let needs_content = is_listed || self.verify != Verify::Never;
        let is_atomic = self.atomic == Atomic::Always;
        let conflicts = [
            (clones && self.sparse != Sparse::Auto, "--reflink=always", "--sparse"),
            (self.strict && existing.keep_directory_symlink, "--strict", "--keep-directory-symlink"),
            (self.strict && self.attributes_only, "--strict", "--attributes-only"),
            // There is nothing to read.
            (needs_content && self.attributes_only, content, "--attributes-only"),
            (needs_content && self.make == Make::HardLink, content, "--link"),
            (needs_content && self.make == Make::Symlink, content, "--symbolic-link"),
            (needs_content && clones, content, "--reflink=always"),
            (self.dry_run && is_listed, "--dry-run", "--manifest"),
            (self.dry_run && existing.ask, "--dry-run", "--interactive"),
            // The files that are linked aren't read.
            (is_listed && !self.link_dest.is_empty(), "--link-dest", "--manifest"),
            // These change the target where it is.
            (is_atomic && self.attributes_only, "--atomic", "--attributes-only"),
            (is_atomic && existing.backs_up(), "--atomic", "--backup"),
        ];
        conflicts.into_iter().find(|(is_there, ..)| *is_there).map(|(_, flag, other)| (flag, other))
    }

    /// Returns the effective options. Blocks that are shared, or copied by the kernel, are never
    /// seen by this process, and keep the source's holes; so some options exclude them.
    #[must_use]
    pub fn resolved(&self, listed_hash: Option<Algorithm>) -> Self {
        let needs_writes =
            listed_hash.is_some() || self.verify != Verify::Never || self.sparse == Sparse::Never;
        let reflink = if needs_writes { Reflink::Never } else { self.reflink };
        Self { reflink, ..self.clone() }
    }

    /// True if all of `what` is preserved.
    pub(super) fn preserves(&self, what: Preserve) -> bool {
        self.preserve.contains(what)
    }

    /// True if the old entry stays until its replacement is complete. In place, a sync only writes
    /// to regular files.
    pub(super) fn replaces_whole(&self) -> bool {
        self.atomic == Atomic::Always || self.existing.update.syncs()
    }

    /// True if names wait for the data: files are flushed before they get them.
    pub(super) fn names_after_flush(&self) -> bool {
        self.atomic == Atomic::Always && self.fsync == Fsync::End
    }

    /// True if files are read again from the device, so that they must be flushed before.
    pub(super) fn reads_device_again(&self) -> bool {
        matches!(self.verify, Verify::Target | Verify::Both)
    }

    /// True if special files are read like regular files instead of being recreated.
    pub(super) fn reads_special(&self) -> bool {
        !self.recursive || self.copy_contents
    }

    /// True if any xattr of a source is read for its copy.
    pub(super) fn reads_xattrs(&self) -> bool {
        let label = matches!(self.label, Label::Source { .. } | Label::Policy);
        label || self.preserves(Preserve::XATTR) || self.preserves(Preserve::MODE)
    }
}

impl Default for CopyOptions {
    /// Plain `cp` without options.
    fn default() -> Self {
        Self {
            recursive: false,
            dereference: Dereference::Always,
            preserve: Preserve::empty(),
            require_preserve: false,
            require_xattr: false,
            reduce_diagnostics: false,
            report_lost_xattrs: false,
            label: Label::Attribute,
            default_mode: false,
            existing: Existing::default(),
            make: Make::Copy,
            attributes_only: false,
            copy_contents: false,
            refuse_special: false,
            one_file_system: false,
            reflink: Reflink::Auto,
            sparse: Sparse::Auto,
            atomic: Atomic::Never,
            fsync: Fsync::Never,
            verify: Verify::Never,
            if_changed: IfChanged::Ignore,
            on_full: OnFull::Stop,
            layout: LayoutRule::Inherit,
            link_dest: Vec::new(),
            backup_place: None,
            dry_run: false,
            verbose: false,
            itemize: false,
            debug: false,
            through_dangling: false,
            strict: false,
            temporary_names: None,
            own_files: Vec::new(),
            source_parts: Vec::new(),
        }
    }
}

/// The command-line names, before any of them is examined.
#[derive(Clone, Debug, Default)]
pub struct Operands {
    /// Non-option arguments in order. Without `target_directory` the last one is the target.
    pub names: Vec<CString>,
    /// `-t`: the directory all names are copied into.
    pub target_directory: Option<CString>,
    /// `-T`: the target is not a directory to copy into.
    pub no_target_directory: bool,
    /// `--parents`: the whole name of a source is recreated inside the target directory.
    pub parents: bool,
    /// `--strip-trailing-slashes`: drop trailing slashes of names copied into a directory.
    pub strip_trailing_slashes: bool,
}

impl Operands {
    /// True if there is only one source, and it can't be copied as a directory.
    pub(crate) fn is_one_file(&self, options: &CopyOptions) -> bool {
        let sources =
            self.names.len() - usize::from(self.target_directory.is_none() && !self.names.is_empty());
        sources == 1 && !options.recursive
    }
}
