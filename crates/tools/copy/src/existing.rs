//! Decides the treatment of an existing target. Only the rules live here.
//!
//! [`decide`] runs GNU's checks in GNU's order:
//!
//! ```text
//! same file? ─► skipped (-u, -n)? ─► declined (-i)? ─► file and directory?
//!     ─► just created? ─► back up ─► remove ─► overwrite or enter
//! ```
//!
//! It changes nothing. What it needs beyond the two files' `stat` it asks of [`Details`], and only
//! when it matters: each answer is a system call, or a question to the user. `place.rs` carries out
//! the decision.

use haul_sys::{FileType, Stat};

use super::options::{Atomic, Backup, CopyOptions, Existing, Make, Preserve, Update, UpdateRule};

/// Two files, and how they came to share a target.
pub(super) struct TargetCase<'a> {
    /// The options.
    pub(super) options: &'a CopyOptions,
    /// The source, followed if the copy follows links.
    pub(super) source: &'a Stat,
    /// The existing target, followed unless [`looks_at_link`].
    pub(super) there: &'a Stat,
    /// True if a symbolic link is followed here.
    pub(super) follows: bool,
    /// True if the user named the source.
    pub(super) is_operand: bool,
    /// True if the source's last component is `.` or `..`.
    pub(super) is_dots: bool,
}

/// Facts about a case that cost something to find out.
pub(super) trait Details {
    /// `lstat` of the source.
    fn source_link(&self) -> Option<Stat>;
    /// `lstat` of the target.
    fn there_link(&self) -> Option<Stat>;
    /// `stat` of the source.
    fn source_end(&self) -> Option<Stat>;
    /// `stat` of the target.
    fn there_end(&self) -> Option<Stat>;
    /// True if source and target are one entry of one directory.
    fn is_one_entry(&self) -> bool;
    /// True if the target is older than the source.
    fn is_older(&self) -> bool;
    /// True if the target is to be replaced, because an interrupted run made it.
    fn is_ours(&self) -> bool;
    /// True if the target is as its source, apart from attributes.
    fn is_same(&self, difference: UpdateRule) -> bool;
    /// Asks the user.
    fn agrees(&self) -> bool;
    /// True if this run created the target from another operand.
    fn is_just_created(&self) -> bool;
    /// True if the source is where the target's backup would go.
    fn is_backup_of_target(&self) -> bool;
}

/// Treatment of an existing target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Overwrite or enter it.
    Stays,
    /// Remove it.
    Remove,
    /// Remove it, a directory, if it is empty.
    RemoveDirectory,
    /// Rename it to a backup.
    BackUp,
    /// Leave it and copy nothing, as requested.
    Skip(Skip),
    /// It already is as it should become.
    Done,
    /// Leave it and report an error.
    Refuse(ReplaceRefusal),
}

/// Why nothing is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skip {
    /// The target is not older.
    NotOlder,
    /// The target equals its source, apart from attributes.
    Unchanged,
    /// Replacing is disabled.
    Unwanted,
    /// Replacing is disabled, and each case is an error.
    NotReplacing,
    /// The user declined.
    Declined,
}

/// Why a copy is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplaceRefusal {
    /// Source and target are one file.
    SameFile,
    /// A directory can't replace a file.
    DirectoryOntoOther,
    /// A file can't replace a directory.
    OtherOntoDirectory,
    /// This run created it.
    JustCreated,
    /// The backup would destroy the source.
    BackupDestroysSource,
    /// The program itself writes to the target.
    OwnFile,
    /// The target is part of the source, through a mount.
    OntoSource,
}

/// True if the target itself is examined rather than what it links to: only a regular file is
/// written through a symbolic link.
pub(super) fn looks_at_link(options: &CopyOptions, source: FileType) -> bool {
    let Existing { update, remove, keep_directory_symlink, .. } = options.existing;
    let as_such = match source {
        FileType::Regular => false,
        FileType::Symlink => true,
        FileType::Directory => !keep_directory_symlink,
        _ => !options.reads_special(),
    };
    let is_replaced = options.existing.backs_up() || remove || update.syncs();
    as_such || options.strict || options.make != Make::Copy || is_replaced
}

/// Decides the treatment of an existing target.
pub(super) fn decide(case: &TargetCase<'_>, details: &impl Details) -> Decision {
    let existing = &case.options.existing;
    let replaces_nothing = matches!(existing.update, Update::None | Update::NoneFail);
    if !replaces_nothing && case.options.own_files.contains(&case.there.identity) {
        return Decision::Refuse(ReplaceRefusal::OwnFile);
    }
    let from_directory = case.source.kind == FileType::Directory;
    let is_part = case.options.source_parts.contains(&case.there.identity);
    let is_itself = case.source.identity == case.there.identity;
    // A part of SOURCE that is mounted in its own place in TARGET. Without `/proc` the parts are
    // unknown, but only a mount makes two directories one.
    if is_itself && (is_part || from_directory && existing.update.syncs()) {
        return Decision::Done;
    }
    if is_part {
        return Decision::Refuse(ReplaceRefusal::OntoSource);
    }
    // Nothing is replaced, or only what differs, which no file does from itself.
    let keeps_same = replaces_nothing || matches!(existing.update, Update::Different(_));
    let same = if keeps_same { Same::Fine } else { same_file(case, details) };
    if same == Same::Refused {
        return Decision::Refuse(ReplaceRefusal::SameFile);
    }
    let to_directory = case.there.kind == FileType::Directory;
    let is_ours = !from_directory && details.is_ours();
    if !from_directory
        && !is_ours
        && let Some(skip) = skipped(case, details)
    {
        return Decision::Skip(skip);
    }
    if same == Same::Done {
        return Decision::Done;
    }
    // Not the operands: `haul sync` of a directory is never meant to remove a device.
    if from_directory != to_directory && existing.update.syncs() && !case.is_operand {
        return if to_directory { Decision::RemoveDirectory } else { Decision::Remove };
    }
    if from_directory != to_directory && !existing.backs_up() {
        return Decision::Refuse(match from_directory {
            true => ReplaceRefusal::DirectoryOntoOther,
            false => ReplaceRefusal::OtherOntoDirectory,
        });
    }
    if to_directory {
        return Decision::Stays;
    }
    if case.is_operand && existing.backup != Backup::Numbered && details.is_just_created() {
        return Decision::Refuse(ReplaceRefusal::JustCreated);
    }
    if existing.backs_up() && !case.is_dots {
        let destroys = existing.backup != Backup::Numbered && details.is_backup_of_target();
        return if destroys {
            Decision::Refuse(ReplaceRefusal::BackupDestroysSource)
        } else {
            Decision::BackUp
        };
    }
    if is_ours || is_removed(case) { Decision::Remove } else { Decision::Stays }
}

/// Returns why a file is skipped, if it is.
fn skipped(case: &TargetCase<'_>, details: &impl Details) -> Option<Skip> {
    let existing = &case.options.existing;
    match existing.update {
        Update::None => Some(Skip::Unwanted),
        Update::NoneFail => Some(Skip::NotReplacing),
        Update::Older if !details.is_older() => Some(Skip::NotOlder),
        Update::Different(difference) => as_is(case, difference, details),
        Update::Older | Update::All => (existing.ask && !details.agrees()).then_some(Skip::Declined),
    }
}

/// Returns why a file is skipped, if it is, where targets are made equal to their sources.
fn as_is(case: &TargetCase<'_>, difference: UpdateRule, details: &impl Details) -> Option<Skip> {
    if details.is_same(difference) {
        return Some(Skip::Unchanged);
    }
    difference.keeps(case.source, case.there).then_some(Skip::NotOlder)
}

/// True if a non-directory is removed first: because the user asked for it, because other names
/// share the file, or because the source can't be written into it. Attributes alone can be set
/// on anything.
fn is_removed(case: &TargetCase<'_>) -> bool {
    let other_names = case.options.preserve.contains(Preserve::LINKS) && case.there.links > 1;
    let cannot_be_written = !case.follows && case.source.kind != FileType::Regular;
    let is_regular = |file: &Stat| file.kind == FileType::Regular;
    let in_place = case.options.atomic != Atomic::Always && is_regular(case.source) && is_regular(case.there);
    // Other names may be in an earlier copy, or those of another file in the source.
    let may_be_shared = case.there.links > 1;
    let is_replaced = case.options.existing.update.syncs() && (!in_place || may_be_shared);
    case.options.existing.remove
        || case.options.strict
        || is_replaced
        || (!case.options.attributes_only && (other_names || cannot_be_written))
}

/// Result of the same-file check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Same {
    /// They differ, or it does no harm.
    Fine,
    /// They are the same, as requested.
    Done,
    /// They are the same, and a copy would destroy the file.
    Refused,
}

impl Same {
    fn fine_if(fine: bool) -> Self {
        if fine { Same::Fine } else { Same::Refused }
    }
}

fn same_file(case: &TargetCase<'_>, details: &impl Details) -> Same {
    let same = case.source.identity == case.there.identity;
    if same && case.options.make == Make::HardLink {
        return Same::Done;
    }
    if case.follows {
        if !same {
            return Same::Fine;
        }
        let (Some(source), Some(there)) = (details.source_link(), details.there_link()) else {
            return Same::Fine;
        };
        let links = is_link(&source) && is_link(&there);
        if links && case.options.existing.remove {
            return Same::Fine;
        }
        return same_entries(case, details, &source, &there);
    }
    if is_link(case.source) && is_link(case.there) {
        if details.is_one_entry() {
            return Same::Refused;
        }
        let done = same && !case.options.existing.backs_up();
        return if done { Same::Done } else { Same::Fine };
    }
    same_entries(case, details, case.source, case.there)
}

/// Continues with the two entries themselves, links not followed.
fn same_entries(case: &TargetCase<'_>, details: &impl Details, source: &Stat, there: &Stat) -> Same {
    let same = source.identity == there.identity;
    if case.options.existing.backs_up() {
        // A link's target can't be moved away and then read through the link.
        return Same::fine_if(match same {
            true => !details.is_one_entry(),
            false => !(case.follows && is_link(source) && !is_link(there)),
        });
    }
    if case.options.existing.remove {
        let other_name = || same && there.links > 1 && !details.is_one_entry();
        if is_link(there) || other_name() {
            return Same::Fine;
        }
    }
    if !is_link(source) && !is_link(there) {
        if !same {
            return Same::Fine;
        }
        if case.options.make == Make::HardLink {
            return Same::Done;
        }
    }
    if case.options.make == Make::Symlink && is_link(there) {
        return Same::Fine;
    }
    if case.follows { Same::Refused } else { same_ends(case, details, source, there) }
}

/// Compares the files that the two resolve to: a link and its target count as one file.
fn same_ends(case: &TargetCase<'_>, details: &impl Details, source: &Stat, there: &Stat) -> Same {
    let source_end = if is_link(source) { details.source_end() } else { Some(*source) };
    let Some(source_end) = source_end else { return Same::Fine };
    let there_end = if is_link(there) { details.there_end() } else { Some(*there) };
    match there_end {
        Some(there_end) if there_end.identity == source_end.identity => {}
        _ => return Same::Fine,
    }
    match case.options.make {
        Make::HardLink if is_link(there) => Same::Fine,
        Make::HardLink => Same::Done,
        Make::Copy | Make::Symlink => Same::Refused,
    }
}

fn is_link(stat: &Stat) -> bool {
    stat.kind == FileType::Symlink
}

#[cfg(test)]
mod tests;
