//! What becomes of what already stands in a target's place: the rules, and nothing but the rules.
//!
//! [`decide`] goes through GNU's checks in GNU's order:
//!
//! ```text
//! the same file? ─► newer? ─► wanted at all, agreed to? ─► file and directory? ─► just made? ─► backup ─► removal ─► stays
//! ```
//!
//! It touches nothing. What it has to know beyond the two files it asks of a [`Sight`], each only if it matters, because
//! every answer is a system call, and one is a question to the user. `place.rs` carries out what was decided.

use haul_sys::{FileType, Stat};

use super::options::{Backup, CopyOptions, Existing, Make, Preserve, Update};

/// Two files, and how the one got in the place of the other.
pub(super) struct Case<'a> {
    /// What was asked for.
    pub(super) options: &'a CopyOptions,
    /// The source; what it leads to if it is followed.
    pub(super) source: &'a Stat,
    /// What stands in the place; what it leads to unless [`looks_at_link`].
    pub(super) there: &'a Stat,
    /// Whether a symbolic link is followed here.
    pub(super) follows: bool,
    /// Whether the user named the source.
    pub(super) is_operand: bool,
    /// Whether the source's last component is `.` or `..`.
    pub(super) is_dots: bool,
}

/// What can be found out about a case.
pub(super) trait Sight {
    /// Looks at the source itself, if it can be looked at.
    fn source_link(&self) -> Option<Stat>;
    /// Looks at what stands in the place itself.
    fn there_link(&self) -> Option<Stat>;
    /// Looks at what the source leads to.
    fn source_end(&self) -> Option<Stat>;
    /// Looks at what stands in the place leads to.
    fn there_end(&self) -> Option<Stat>;
    /// Tells whether source and place are one entry of one directory.
    fn is_one_entry(&self) -> bool;
    /// Tells whether what stands there is older than the source.
    fn is_older(&self) -> bool;
    /// Asks the user.
    fn agrees(&self) -> bool;
    /// Tells whether this run has made what stands there, from another operand.
    fn is_just_created(&self) -> bool;
    /// Tells whether the source stands where the backup would go.
    fn is_backup_of_target(&self) -> bool;
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It stays, to be written over or into.
    Stays,
    /// It is removed.
    Remove,
    /// It is kept under another name.
    BackUp,
    /// It stays as it is, and nothing is copied, as asked.
    Skip(Skip),
    /// It is already what it is to be.
    Done,
    /// It stays as it is, and that is an error.
    Refuse(Refusal),
}

/// Why nothing is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skip {
    /// What is there is not older.
    NotOlder,
    /// Nothing is to be replaced.
    Unwanted,
    /// Nothing is to be replaced, and the user wants to know where.
    Told,
    /// The user does not want it.
    Declined,
}

/// Why nothing can be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Source and target are one file.
    SameFile,
    /// A directory does not replace a file.
    DirectoryOntoOther,
    /// A file does not replace a directory.
    OtherOntoDirectory,
    /// This run has made it.
    JustCreated,
    /// The source would be lost to the backup.
    BackupDestroysSource,
}

/// Tells whether what stands in a place is looked at itself, rather than what it leads to: a regular file is written
/// through a symbolic link, and nothing else is.
pub(super) fn looks_at_link(options: &CopyOptions, source: FileType) -> bool {
    let Existing { remove, keep_directory_symlink, .. } = options.existing;
    let as_such = match source {
        FileType::Regular => false,
        FileType::Symlink => true,
        FileType::Directory => !keep_directory_symlink,
        // Without recursion, and if it is asked for, special files are read like regular ones.
        _ => options.recursive && !options.copy_contents,
    };
    as_such || options.strict || options.make != Make::Copy || options.existing.backs_up() || remove
}

/// Decides what is done about what stands in a target's place.
pub(super) fn decide(case: &Case<'_>, sight: &impl Sight) -> Decision {
    let existing = &case.options.existing;
    let replaces_none = matches!(existing.update, Update::None | Update::NoneFail);
    let same = if replaces_none { Same::Fine } else { same_file(case, sight) };
    if same == Same::Refused {
        return Decision::Refuse(Refusal::SameFile);
    }
    let from_directory = case.source.kind == FileType::Directory;
    let to_directory = case.there.kind == FileType::Directory;
    if !from_directory && let Some(skip) = skipped(existing, sight) {
        return Decision::Skip(skip);
    }
    if same == Same::Done {
        return Decision::Done;
    }
    if from_directory != to_directory && !existing.backs_up() {
        return Decision::Refuse(match from_directory {
            true => Refusal::DirectoryOntoOther,
            false => Refusal::OtherOntoDirectory,
        });
    }
    if to_directory {
        return Decision::Stays;
    }
    if case.is_operand && existing.backup != Backup::Numbered && sight.is_just_created() {
        return Decision::Refuse(Refusal::JustCreated);
    }
    if existing.backs_up() && !case.is_dots {
        let destroys = existing.backup != Backup::Numbered && sight.is_backup_of_target();
        return if destroys { Decision::Refuse(Refusal::BackupDestroysSource) } else { Decision::BackUp };
    }
    if is_removed(case) { Decision::Remove } else { Decision::Stays }
}

/// Tells whether a file is left out, as asked.
fn skipped(existing: &Existing, sight: &impl Sight) -> Option<Skip> {
    match existing.update {
        Update::None => Some(Skip::Unwanted),
        Update::NoneFail => Some(Skip::Told),
        Update::Older if !sight.is_older() => Some(Skip::NotOlder),
        Update::Older | Update::All => (existing.ask && !sight.agrees()).then_some(Skip::Declined),
    }
}

/// Tells whether what is no directory goes before anything is made: because the user wants it, because it is a name of a
/// file that others keep, or because what comes cannot be written into it. Attributes alone can be given to anything.
fn is_removed(case: &Case<'_>) -> bool {
    let other_names = case.options.preserve.contains(Preserve::LINKS) && case.there.links > 1;
    let cannot_be_written = !case.follows && case.source.kind != FileType::Regular;
    case.options.existing.remove
        || case.options.strict
        || (!case.options.attributes_only && (other_names || cannot_be_written))
}

/// Whether source and target are one file, and what of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Same {
    /// They are not, or it does no harm.
    Fine,
    /// They are, and that is what was asked for.
    Done,
    /// They are, and a copy would destroy it.
    Refused,
}

impl Same {
    fn fine_if(fine: bool) -> Self {
        if fine { Same::Fine } else { Same::Refused }
    }
}

fn same_file(case: &Case<'_>, sight: &impl Sight) -> Same {
    let same = case.source.identity == case.there.identity;
    if same && case.options.make == Make::HardLink {
        return Same::Done;
    }
    if case.follows {
        if !same {
            return Same::Fine;
        }
        let (Some(source), Some(there)) = (sight.source_link(), sight.there_link()) else {
            return Same::Fine;
        };
        let links = is_link(&source) && is_link(&there);
        if links && case.options.existing.remove {
            return Same::Fine;
        }
        return same_entries(case, sight, &source, &there);
    }
    if is_link(case.source) && is_link(case.there) {
        if sight.is_one_entry() {
            return Same::Refused;
        }
        let done = same && !case.options.existing.backs_up();
        return if done { Same::Done } else { Same::Fine };
    }
    same_entries(case, sight, case.source, case.there)
}

/// Goes on with the two entries as they are themselves.
fn same_entries(case: &Case<'_>, sight: &impl Sight, source: &Stat, there: &Stat) -> Same {
    let same = source.identity == there.identity;
    if case.options.existing.backs_up() {
        // What a link leads to cannot be moved away and then be read through the link.
        return Same::fine_if(match same {
            true => !sight.is_one_entry(),
            false => !(case.follows && is_link(source) && !is_link(there)),
        });
    }
    if case.options.existing.remove {
        let other_name = || same && there.links > 1 && !sight.is_one_entry();
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
    if case.follows { Same::Refused } else { same_ends(case, sight, source, there) }
}

/// Compares what the two lead to: a link and its end are one file too.
fn same_ends(case: &Case<'_>, sight: &impl Sight, source: &Stat, there: &Stat) -> Same {
    let source_end = if is_link(source) { sight.source_end() } else { Some(*source) };
    let Some(source_end) = source_end else { return Same::Fine };
    let there_end = if is_link(there) { sight.there_end() } else { Some(*there) };
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
