//! Combines the flags: a command line is lowered once into plain immutable options.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use haul_copy::{
    Atomic, Backup, CopyOptions, Dereference, Existing, Fsync, IfChanged, Label, Make, OnFull, Operands,
    Preserve, Reflink, Sparse, Update, UpdateRule, Verify,
};
use haul_delete::Limit;
use haul_digest::Algorithm;
use haul_digest::manifest::Format;
use haul_flow::{Contents, Problem};

use super::cluster::{Interactive, SpdcpLayout};
use super::values::{self, Words};
use super::{Arguments, Environment, FlagError, SharedArguments, Value, Warning, When};
use crate::manifest::ManifestRequest;
use crate::progress::ProgressOptions;
use crate::task::RunOptions;

/// One copy as requested.
#[derive(Clone, Debug)]
pub(crate) struct LoweredCopy {
    pub(crate) operands: Operands,
    pub(crate) options: CopyOptions,
    pub(crate) run: RunOptions,
    /// The list of hashes to write, if any.
    pub(crate) manifest: Option<ManifestRequest>,
    /// True if the copy continues where an interrupted run of it stopped (`--resume`).
    pub(crate) resume: bool,
    /// True if the exit status is that of rsync (`haul sync --rsync-status`).
    pub(crate) rsync_status: bool,
    /// Steps of `haul sync` other than copying.
    pub(crate) sync: haul_sync::Options,
    /// Deletion from the target after the copy, if requested; set once the operands are checked.
    pub(crate) deletion: Option<haul_delete::Options>,
    /// Warnings of that check. They are reported when the run has begun, so that its logs have
    /// them.
    pub(crate) warnings: Vec<Problem>,
}

/// An item of an attribute list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attribute {
    Kept(Preserve),
    Context,
    All,
}

/// Attribute names, in the order of GNU's message.
const ATTRIBUTES: &Words<Attribute> = &[
    ("mode", Attribute::Kept(Preserve::MODE)),
    ("timestamps", Attribute::Kept(Preserve::TIMESTAMPS)),
    ("ownership", Attribute::Kept(Preserve::OWNERSHIP)),
    ("links", Attribute::Kept(Preserve::LINKS)),
    ("context", Attribute::Context),
    ("xattr", Attribute::Kept(Preserve::XATTR)),
    ("all", Attribute::All),
];

/// Attributes of `-p`.
const USUAL: Preserve = Preserve::MODE.union(Preserve::OWNERSHIP).union(Preserve::TIMESTAMPS);

/// Effect of an attribute list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AttributeChange {
    Keep,
    Drop,
}

#[derive(Debug, Default)]
struct Backups {
    wanted: bool,
    control: Option<Vec<u8>>,
    suffix: Option<Vec<u8>>,
}

/// The flags of `haul sync` about deletion.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeletionFlags {
    pub(super) wanted: bool,
    pub(super) excluded: bool,
    pub(super) limit: Option<Limit>,
    pub(super) really: bool,
}

/// The flags typed so far. Each changes it in command-line order; their combined meaning is
/// computed at the end of the line.
#[derive(Debug)]
pub(crate) struct Typed {
    pub(crate) dereference: Option<Dereference>,
    pub(crate) recursive: bool,
    /// `-r` itself, not `-a`: of a directory in a list of names, the contents are copied too.
    listed_contents: bool,
    pub(crate) hard_link: bool,
    pub(crate) symbolic_link: bool,
    pub(crate) existing: Existing,
    backup: Backups,
    /// The last of `-i` and `-n`.
    pub(crate) interactive: Interactive,
    pub(crate) one_file_system: bool,
    pub(crate) verbose: bool,
    pub(crate) itemize: bool,
    pub(super) link_dest: Vec<PathBuf>,
    pub(super) backup_dir: Option<PathBuf>,
    pub(crate) debug: bool,
    pub(crate) sparse: Sparse,
    pub(crate) no_target_directory: bool,
    pub(super) shared: SharedArguments,
    pub(super) names: Vec<Vec<u8>>,
    pub(super) layout: SpdcpLayout,
    /// Factor for the block size, and the flag that gave it.
    pub(super) io_factor: Option<(&'static str, usize)>,
    /// Number of times `spdcp` was given `-v`.
    pub(super) verbosity: u8,
    /// True if `spdcp` is to list the targets only.
    pub(super) targets_only: bool,
    pub(crate) attributes_only: bool,
    pub(crate) copy_contents: bool,
    pub(crate) parents: bool,
    pub(crate) strip_trailing_slashes: bool,
    pub(crate) strict: bool,
    pub(crate) dry_run: bool,
    /// `haul sync`: which files differ.
    pub(super) sync: Option<UpdateRule>,
    pub(super) deletion: DeletionFlags,
    pub(super) rsync_status: bool,
    /// The last of `--atomic` and `--no-atomic`.
    pub(crate) atomic: Option<Atomic>,
    pub(crate) fsync: Fsync,
    pub(crate) if_changed: Option<IfChanged>,
    pub(super) on_full: OnFull,
    pub(crate) verify: Verify,
    pub(super) manifest: Option<CString>,
    pub(super) resume: bool,
    pub(super) manifest_format: Option<Format>,
    pub(super) hash: Option<Algorithm>,
    /// `-Z`: the policy's context for the target.
    default_context: bool,
    /// `--context=CTX`.
    context: Option<CString>,
    /// `-a`, `--preserve=all`.
    keep_context: bool,
    warnings: Vec<Warning>,
    pub(super) reflink: Reflink,
    pub(super) preserve: Preserve,
    require_preserve: bool,
    require_xattr: bool,
    require_context: bool,
    refuse_mode: bool,
    reduce_diagnostics: bool,
    target_directory: Option<CString>,
}

impl Default for Typed {
    fn default() -> Self {
        Self {
            dereference: None,
            recursive: false,
            listed_contents: false,
            hard_link: false,
            symbolic_link: false,
            existing: Existing::default(),
            backup: Backups::default(),
            interactive: Interactive::Unspecified,
            one_file_system: false,
            verbose: false,
            itemize: false,
            link_dest: Vec::new(),
            backup_dir: None,
            debug: false,
            sparse: Sparse::Auto,
            no_target_directory: false,
            // Unlike other tools, cp shows nothing unless it is asked to.
            shared: SharedArguments {
                run: RunOptions {
                    progress: ProgressOptions { when: When::Never, slow_ranks: false },
                    ..RunOptions::default()
                },
                ..SharedArguments::default()
            },
            names: Vec::new(),
            layout: SpdcpLayout::default(),
            io_factor: None,
            verbosity: 0,
            targets_only: false,
            attributes_only: false,
            copy_contents: false,
            parents: false,
            strip_trailing_slashes: false,
            strict: false,
            dry_run: false,
            sync: None,
            deletion: DeletionFlags::default(),
            rsync_status: false,
            atomic: None,
            fsync: Fsync::Never,
            if_changed: None,
            on_full: OnFull::Stop,
            verify: Verify::Never,
            manifest: None,
            resume: false,
            manifest_format: None,
            hash: None,
            default_context: false,
            context: None,
            keep_context: false,
            warnings: Vec::new(),
            reflink: Reflink::Auto,
            preserve: Preserve::empty(),
            require_preserve: false,
            require_xattr: false,
            require_context: false,
            refuse_mode: false,
            reduce_diagnostics: false,
            target_directory: None,
        }
    }
}

impl Arguments for Typed {
    fn shared(&mut self) -> &mut SharedArguments {
        &mut self.shared
    }

    fn operand(&mut self, word: &OsStr) {
        self.names.push(word.as_bytes().to_vec());
    }

    fn deferred(&self) -> Result<(), FlagError> {
        self.backup_control(&Environment::default()).map(drop)
    }
}

impl Typed {
    pub(super) fn recurse(&mut self) {
        (self.recursive, self.listed_contents) = (true, true);
    }

    /// Reads the list of names, if one was given. The copy is then that of SOURCE onto DEST, as far
    /// as the list goes.
    pub(super) fn read_list(&mut self) -> Result<(), FlagError> {
        let contents = if self.listed_contents { Contents::All } else { Contents::Listed };
        if !self.shared.read_list(contents)? {
            return Ok(());
        }
        if self.parents {
            return Err(FlagError::Useless { flag: "--parents", other: "--files-from" });
        }
        if let Some(directory) = self.target_directory.take() {
            self.names.push(directory.into_bytes());
        }
        if let Some(extra) = self.names.get(2) {
            return Err(FlagError::Extra { operand: extra.clone() });
        }
        (self.recursive, self.no_target_directory) = (true, true);
        Ok(())
    }

    pub(super) fn archive(&mut self) {
        self.dereference = Some(Dereference::Never);
        self.recursive = true;
        self.preserve = Preserve::all();
        self.keep_context = true;
        self.require_preserve = true;
        self.reduce_diagnostics = true;
    }

    /// `-d`.
    pub(super) fn copy_links_as_links(&mut self) {
        self.dereference = Some(Dereference::Never);
        self.preserve |= Preserve::LINKS;
    }

    /// `-p`, and `--preserve` without a list.
    pub(super) fn preserve_usual(&mut self) {
        self.preserve |= USUAL;
        self.require_preserve = true;
    }

    /// `--preserve[=LIST]`.
    pub(super) fn preserve(&mut self, list: Option<Value<'_>>) -> Result<(), FlagError> {
        match list {
            None => self.preserve_usual(),
            Some(list) => {
                self.change_attributes(list, AttributeChange::Keep)?;
                self.require_preserve = true;
            }
        }
        Ok(())
    }

    /// `--no-preserve=LIST`.
    pub(super) fn no_preserve(&mut self, list: Value<'_>) -> Result<(), FlagError> {
        self.change_attributes(list, AttributeChange::Drop)
    }

    fn change_attributes(&mut self, list: Value<'_>, change: AttributeChange) -> Result<(), FlagError> {
        let keep = change == AttributeChange::Keep;
        for attribute in list.choose_each(ATTRIBUTES)? {
            match attribute {
                Attribute::Kept(attribute) => self.set_attributes(attribute, change),
                Attribute::Context => {
                    self.require_context = keep;
                    self.keep_context = keep;
                }
                Attribute::All => {
                    // Unlike `xattr` by name, `all` leaves open whether losing xattrs is an error.
                    let required = self.require_xattr;
                    self.set_attributes(Preserve::all(), change);
                    self.keep_context = keep;
                    self.require_xattr = required;
                }
            }
        }
        Ok(())
    }

    fn set_attributes(&mut self, attributes: Preserve, change: AttributeChange) {
        let keep = change == AttributeChange::Keep;
        self.preserve.set(attributes, keep);
        if attributes.contains(Preserve::XATTR) {
            self.require_xattr = keep;
        }
        if attributes.contains(Preserve::MODE) {
            self.refuse_mode = !keep;
        }
    }

    /// `-b`, `--backup[=CONTROL]`.
    pub(super) fn back_up(&mut self, control: Option<&[u8]>) {
        self.backup.wanted = true;
        if let Some(control) = control {
            self.backup.control = Some(control.to_vec());
        }
    }

    pub(super) fn set_suffix(&mut self, suffix: &[u8]) {
        self.backup.wanted = true;
        self.backup.suffix = Some(suffix.to_vec());
    }

    /// `-u`, `--update[=UPDATE]`.
    pub(super) fn update(&mut self, which: Option<Value<'_>>) -> Result<(), FlagError> {
        self.existing.update = match which {
            None => Update::Older,
            Some(which) => which.choose(values::UPDATE)?,
        };
        Ok(())
    }

    /// The criteria by which files differ, for `haul sync`.
    pub(super) fn difference(&mut self) -> &mut UpdateRule {
        self.sync.get_or_insert_default()
    }

    /// `-Z`, `--context[=CTX]`.
    pub(super) fn set_context(&mut self, context: Option<&[u8]>) {
        match context {
            None => self.default_context = true,
            Some(context) => {
                self.warnings.push(Warning::ContextIgnored);
                // Command-line words contain no NUL.
                self.context = CString::new(context).ok();
            }
        }
    }

    /// Returns the warnings since the last call.
    pub(super) fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }

    /// `--reflink[=WHEN]`.
    pub(super) fn share_blocks(&mut self, when: Option<Value<'_>>) -> Result<(), FlagError> {
        self.reflink = match when {
            None => Reflink::Always,
            Some(when) => when.choose(values::REFLINK)?,
        };
        Ok(())
    }

    pub(super) fn set_target_directory(&mut self, directory: Value<'_>) -> Result<(), FlagError> {
        if self.target_directory.is_some() {
            return Err(FlagError::TargetDirectoryTwice);
        }
        self.target_directory = Some(name(directory.bytes.to_vec())?);
        Ok(())
    }

    /// Computes the combined meaning of the flags.
    ///
    /// # Errors
    /// When they contradict each other; checked in GNU's order.
    pub(super) fn lower(mut self, environment: &Environment) -> Result<LoweredCopy, FlagError> {
        let update = match (self.interactive, self.sync) {
            (_, Some(difference)) => Update::Different(difference),
            (Interactive::Keep, None) => Update::None,
            (_, None) => self.existing.update,
        };
        self.check_conflicts(update)?;
        let existing = Existing {
            update,
            ask: self.interactive == Interactive::Ask,
            backup: self.backup_control(environment)?,
            suffix: self.backup_suffix(environment),
            ..self.existing.clone()
        };
        let label = self.label(environment)?;
        self.resolve_block_bytes()?;
        self.check_sectors()?;
        let options = CopyOptions { existing, ..self.copy_options(environment, label) };
        if let Some((flag, other)) = options.conflict(self.listed_hash()) {
            return Err(FlagError::Exclusive { flag, other });
        }
        let sync = haul_sync::Options {
            deletion: self.deletion()?,
            link_dest: std::mem::take(&mut self.link_dest),
            backup_dir: self.backup_dir.take(),
        };
        if self.sync.is_some()
            && let Some(conflict) = sync.conflict(&options, &self.shared.run.config.selection)
        {
            let (flag, other) = conflict.flags();
            return Err(FlagError::Exclusive { flag, other });
        }
        let operands = Operands {
            names: self.names.into_iter().map(name).collect::<Result<_, _>>()?,
            target_directory: self.target_directory,
            no_target_directory: self.no_target_directory,
            parents: self.parents,
            strip_trailing_slashes: self.strip_trailing_slashes,
        };
        let run = RunOptions { debug: options.debug, ..self.shared.run };
        let (format, algorithm) = (self.manifest_format.unwrap_or_default(), self.hash.unwrap_or_default());
        let manifest = self.manifest.map(|path| ManifestRequest { path, format, algorithm });
        let (resume, rsync_status) = (self.resume, self.rsync_status);
        Ok(LoweredCopy {
            operands,
            options,
            run,
            manifest,
            resume,
            rsync_status,
            sync,
            deletion: None,
            warnings: Vec::new(),
        })
    }

    /// Returns the rules of deletion, if it was requested.
    fn deletion(&self) -> Result<Option<haul_sync::DeletionOptions>, FlagError> {
        let DeletionFlags { wanted, excluded, limit, really } = self.deletion;
        let further = [("--max-delete", limit.is_some()), ("--really", really)];
        match further.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) if !wanted => return Err(FlagError::Requires { flag, other: "--delete" }),
            None if !wanted => return Ok(None),
            _ => {}
        }
        let usual = haul_sync::DeletionOptions::default();
        Ok(Some(haul_sync::DeletionOptions { excluded, limit: limit.unwrap_or(usual.limit), really }))
    }

    /// `--fsync[=WHEN]`.
    pub(super) fn set_fsync(&mut self, when: Option<Value<'_>>) -> Result<(), FlagError> {
        self.fsync = when.map_or(Ok(Fsync::End), |when| when.choose(values::FSYNC))?;
        Ok(())
    }

    /// `--manifest=FILE`.
    pub(super) fn set_manifest(&mut self, path: Value<'_>) -> Result<(), FlagError> {
        self.manifest = Some(name(path.output_path()?.into_os_string().into_vec())?);
        Ok(())
    }

    /// `--verify[=WHAT]`.
    pub(super) fn set_verify(&mut self, what: Option<Value<'_>>) -> Result<(), FlagError> {
        self.verify = what.map_or(Ok(Verify::Target), |what| what.choose(values::VERIFY))?;
        Ok(())
    }

    /// `--if-changed=WHAT`: a word, which for `retry` may have a number.
    pub(super) fn set_if_changed(&mut self, what: Value<'_>) -> Result<(), FlagError> {
        let Some(count) = what.bytes.strip_prefix(b"retry=") else {
            self.if_changed = Some(what.choose(values::IF_CHANGED)?);
            return Ok(());
        };
        let count = Value { flag: "--if-changed=retry", bytes: count, ..what }.count(values::RETRIES)?;
        self.if_changed = Some(IfChanged::Retry(count as u32));
        Ok(())
    }

    pub(super) fn backs_up(&self) -> bool {
        self.backup.wanted
    }

    /// Returns the backup method: from the command line, else from the environment, else
    /// the default.
    pub(super) fn backup_control(&self, environment: &Environment) -> Result<Backup, FlagError> {
        if !self.backup.wanted {
            return Ok(Backup::None);
        }
        let said = |control: &Option<Vec<u8>>| control.clone().filter(|control| !control.is_empty());
        match (said(&self.backup.control), said(&environment.version_control)) {
            (Some(control), _) => values::choose("backup type", &control, values::BACKUP),
            (None, Some(control)) => values::choose("$VERSION_CONTROL", &control, values::BACKUP),
            (None, None) => Ok(Backup::Existing),
        }
    }

    /// Returns the backup suffix. One that would lead to another directory is ignored.
    fn backup_suffix(&self, environment: &Environment) -> CString {
        let said = self.backup.suffix.as_ref().or(environment.backup_suffix.as_ref());
        let fits = |suffix: &&Vec<u8>| {
            let end = suffix.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
            end > 0 && !suffix[..end].contains(&b'/')
        };
        let suffix = said.filter(fits).and_then(|suffix| CString::new(suffix.clone()).ok());
        suffix.unwrap_or_else(|| Existing::default().suffix)
    }

    /// Computes the rule for SELinux contexts. `-Z` and `--context` override `-a`, but not
    /// `--preserve=context`.
    fn label(&self, environment: &Environment) -> Result<Label, FlagError> {
        match (environment.selinux, &self.context) {
            (false, _) if self.require_context => Err(FlagError::NoContexts),
            (false, _) => Ok(Label::Attribute),
            (true, context) if self.require_context && (self.default_context || context.is_some()) => {
                Err(FlagError::ContextSetAndPreserved)
            }
            (true, Some(context)) => Ok(Label::Given(context.clone())),
            (true, None) if self.default_context => Ok(Label::Policy),
            (true, None) if self.keep_context => Ok(Label::Source { required: self.require_context }),
            (true, None) => Ok(Label::Attribute),
        }
    }

    fn copy_options(&self, environment: &Environment, label: Label) -> CopyOptions {
        // With -r, links are copied as links, unless hard links are made: then they are followed.
        let usual = if self.recursive && !self.hard_link { Dereference::Never } else { Dereference::Always };
        CopyOptions {
            recursive: self.recursive,
            dereference: self.dereference.unwrap_or(usual),
            preserve: self.preserve,
            require_preserve: self.require_preserve,
            require_xattr: self.require_xattr,
            label,
            reduce_diagnostics: self.reduce_diagnostics,
            report_lost_xattrs: self.sync.is_some(),
            default_mode: self.refuse_mode && !self.preserve.contains(Preserve::MODE),
            existing: self.existing.clone(),
            make: match (self.hard_link, self.symbolic_link) {
                (true, _) => Make::HardLink,
                (false, true) => Make::Symlink,
                (false, false) => Make::Copy,
            },
            attributes_only: self.attributes_only,
            copy_contents: self.copy_contents,
            refuse_special: false,
            one_file_system: self.one_file_system,
            reflink: self.reflink,
            sparse: self.sparse,
            // GNU leaves a part of a large file under its name when it is killed in a tree.
            atomic: self.atomic.unwrap_or(if self.recursive { Atomic::LargeFiles } else { Atomic::Never }),
            fsync: self.fsync,
            verify: self.verify,
            if_changed: self.if_changed.unwrap_or(match self.verify {
                Verify::Never => IfChanged::Ignore,
                _ => values::USUAL_RETRY,
            }),
            on_full: self.on_full,
            layout: self.layout.rule(),
            temporary_names: None,
            own_files: Vec::new(),
            source_parts: Vec::new(),
            link_dest: Vec::new(),
            backup_place: None,
            dry_run: self.dry_run,
            verbose: self.verbose || self.debug || self.dry_run,
            itemize: self.itemize,
            debug: self.debug,
            through_dangling: environment.posixly_correct && !self.strict,
            strict: self.strict,
        }
    }
}

/// Converts a name for the kernel.
fn name(bytes: Vec<u8>) -> Result<CString, FlagError> {
    CString::new(bytes).map_err(|_| FlagError::NulInName)
}
