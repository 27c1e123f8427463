//! From the names on the command line to what is copied where, by GNU's rules.
//!
//! `SOURCE TARGET` copies to a name; `SOURCE... DIRECTORY`, and a target that is a directory, into it. Each operand is
//! split into the directory it stands in, which is held, and its last component, which is the only part of a name that
//! is ever resolved again.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::sync::Arc;

use haul_flow::{Held, HeldCache, Problem};
use haul_sys::{Errno, Error, Fd, FileType, Identity, Open, open_path, stat_path};

use super::backup::backup_name;
use super::options::{Backup, CopyOptions, Dereference, Existing, Operands};
use super::wording;

/// Why nothing can be copied at all.
pub(super) enum Stop {
    /// The operands make no sense.
    Usage(Problem),
    /// The target cannot be what it has to be.
    Fatal(Problem),
}

/// One source and where its copy goes.
pub(super) struct Assignment {
    /// The source as the user named it.
    pub(super) text: CString,
    /// The directory the copy goes to, and the name it gets there.
    pub(super) target: (Arc<Held>, CString),
}

/// The directories among several operands: which operand names each first, and the path of its copy.
pub(super) type Named = HashMap<Identity, (usize, Vec<u8>)>;

/// A name split into the directory it stands in and the last component.
pub(super) struct Split<'a> {
    /// What messages put before the name: all of the text before the last component.
    pub(super) display: &'a [u8],
    /// The last component, with the slashes that follow it.
    pub(super) name: &'a [u8],
}

impl<'a> Split<'a> {
    /// Splits a name. The root, which has no last component, stands in the current directory by its own name.
    pub(super) fn of(text: &'a CStr) -> Self {
        let bytes = text.to_bytes();
        let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let start = bytes[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let (display, name) = if end == 0 { (&bytes[..0], bytes) } else { bytes.split_at(start) };
        Self { display, name }
    }

    /// Holds the directory the name stands in.
    pub(super) fn hold(&self, cache: &HeldCache) -> Result<Arc<Held>, Error> {
        let path = if self.display.is_empty() { b".".as_slice() } else { self.display };
        cache.hold_operand(&c_string(path), Open::SEARCH.following(), self.display.to_vec())
    }

    /// The last component without slashes.
    fn base(&self) -> &'a [u8] {
        let end = self.name.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        &self.name[..end]
    }
}

/// Makes a C string of bytes that came from one, or from several without a NUL.
pub(super) fn c_string(bytes: &[u8]) -> CString {
    CString::new(bytes).unwrap_or_default()
}

/// Turns `cp --force --backup x x`, of a regular file, into a copy of `x` to the name of its backup.
pub(super) fn onto_backup(operands: &Operands, options: &CopyOptions) -> Option<(Operands, CopyOptions)> {
    let existing = &options.existing;
    let [source, target] = operands.names.as_slice() else { return None };
    let wanted = existing.force && existing.backs_up() && operands.target_directory.is_none();
    if !wanted || source != target {
        return None;
    }
    let regular = stat_path::<&Fd>(None, target, true).is_ok_and(|stat| stat.kind == FileType::Regular);
    if !regular {
        return None;
    }
    let split = Split::of(target);
    let place = if split.display.is_empty() { b".".as_slice() } else { split.display };
    let directory = open_path(&c_string(place), Open::SEARCH.following()).ok()?;
    let name = backup_name(&directory, &c_string(split.name), existing);
    // Only to find out a name.
    directory.close().unwrap_or_default();
    let target = c_string(&[split.display, name.to_bytes()].concat());
    let existing = Existing { backup: Backup::None, ..existing.clone() };
    Some((
        Operands { names: vec![source.clone(), target], ..operands.clone() },
        CopyOptions { existing, ..options.clone() },
    ))
}

/// Finds out what goes where.
pub(super) fn assign(operands: &Operands, cache: &HeldCache) -> Result<Vec<Assignment>, Stop> {
    let names = &operands.names;
    match (names.as_slice(), &operands.target_directory) {
        ([], _) => return Err(Stop::Usage(Problem::new(wording::MISSING_OPERAND))),
        ([only], None) => {
            return Err(Stop::Usage(Problem::new(wording::MISSING_TARGET).naming(only.to_bytes())));
        }
        _ => {}
    }
    if operands.no_target_directory {
        return match (&operands.target_directory, names.as_slice()) {
            (Some(_), _) => Err(Stop::Fatal(Problem::new(wording::BOTH_TARGET_OPTIONS))),
            (None, [source, target]) => to_name(source, target, cache),
            (None, [_, _, extra, ..]) => {
                Err(Stop::Usage(Problem::new(wording::EXTRA_OPERAND).naming(extra.to_bytes())))
            }
            (None, _) => Ok(Vec::new()),
        };
    }
    if let Some(directory) = &operands.target_directory {
        let held = hold_target(directory, cache).map_err(|cause| {
            Stop::Fatal(Problem::new(wording::TARGET_DIRECTORY).naming(directory.to_bytes()).because(cause))
        })?;
        return Ok(into_directory(names, &held));
    }
    let Some((last, sources)) = names.split_last() else { return Ok(Vec::new()) };
    match (hold_target(last, cache), sources) {
        (Ok(held), _) => Ok(into_directory(sources, &held)),
        (Err(_), [source]) => to_name(source, last, cache),
        (Err(cause), _) => {
            Err(Stop::Fatal(Problem::new(wording::TARGET).naming(last.to_bytes()).because(cause)))
        }
    }
}

fn hold_target(path: &CStr, cache: &HeldCache) -> Result<Arc<Held>, Error> {
    cache.hold_operand(path, Open::SEARCH.following(), path.to_bytes().to_vec())
}

/// Copies each source into a directory, under its own last component; what ends in `..` is copied onto the directory.
fn into_directory(sources: &[CString], held: &Arc<Held>) -> Vec<Assignment> {
    let assignment = |text: &CString| {
        let name = match Split::of(text).base() {
            b"" | b".." => b".".as_slice(),
            base => base,
        };
        Assignment { text: text.clone(), target: (Arc::clone(held), c_string(name)) }
    };
    sources.iter().map(assignment).collect()
}

/// Copies one source to a name.
fn to_name(source: &CString, target: &CString, cache: &HeldCache) -> Result<Vec<Assignment>, Stop> {
    let split = Split::of(target);
    let held = match split.hold(cache) {
        Ok(held) => held,
        // The place may not be there: making the copy will say so, in the words that fit what is made.
        Err(cause) if cause.is(Errno::NOENT) => {
            cache.hold_absent(&c_string(split.display), Open::SEARCH.following(), split.display.to_vec())
        }
        Err(cause) => {
            return Err(Stop::Fatal(
                Problem::new(wording::CANNOT_STAT).naming(target.to_bytes()).because(cause),
            ));
        }
    };
    Ok(vec![Assignment { text: source.clone(), target: (held, c_string(split.name)) }])
}

/// Leaves out sources that are named more than once, however they are spelled, and returns the directories among the others
/// and what is to be said of those left out.
///
/// Where backups are made, a file may be named more than once: each copy replaces the one before. A file is the same source if it is the same entry of the same directory; a directory, if it is the same directory.
pub(super) fn without_repetitions(
    assignments: Vec<Assignment>,
    options: &CopyOptions,
) -> (Vec<Assignment>, Named, Vec<Problem>) {
    let follow = options.dereference != Dereference::Never;
    if assignments.len() < 2 {
        return (assignments, Named::new(), Vec::new());
    }
    let mut kept: Vec<Assignment> = Vec::with_capacity(assignments.len());
    let (mut problems, mut files, mut directories) = (Vec::new(), HashSet::new(), Named::new());
    for assignment in assignments {
        let text = &assignment.text;
        let split = Split::of(text);
        let place = if split.display.is_empty() { c".".to_owned() } else { c_string(split.display) };
        let looked = stat_path::<&Fd>(None, text, follow)
            .and_then(|stat| Ok((stat, stat_path::<&Fd>(None, &place, true)?.identity)));
        let problem = match looked {
            Err(_) => None,
            Ok((stat, _)) if stat.kind == FileType::Directory && !options.recursive => None,
            Ok((stat, _)) if stat.kind == FileType::Directory => {
                let path = assignment.target.0.path_of(&assignment.target.1);
                match directories.entry(stat.identity) {
                    Entry::Vacant(entry) => {
                        entry.insert((kept.len(), path));
                        None
                    }
                    Entry::Occupied(first) if first.get().1 == path => {
                        Some(Problem::new(wording::DIRECTORY_TWICE).naming(text.to_bytes()).as_warning())
                    }
                    Entry::Occupied(_) if follow => None,
                    Entry::Occupied(first) => {
                        let problem = Problem::new(wording::NO_DIRECTORY_LINK);
                        Some(problem.naming(path).naming(first.get().1.clone()))
                    }
                }
            }
            Ok(_) if options.existing.backs_up() => None,
            Ok((_, place)) => {
                let is_new = files.insert((place, split.base().to_vec()));
                (!is_new).then(|| Problem::new(wording::SOURCE_TWICE).naming(text.to_bytes()).as_warning())
            }
        };
        match problem {
            Some(problem) => problems.push(problem),
            None => kept.push(assignment),
        }
    }
    (kept, directories, problems)
}

/// Cuts the sources in groups that are copied one after the other: in a group no two copies have the same name, so
/// their order cannot matter. Each is a group of its own if the user is asked.
pub(super) fn groups(assignments: Vec<Assignment>, options: &CopyOptions) -> Vec<Vec<Assignment>> {
    if options.existing.ask {
        return assignments.into_iter().map(|assignment| vec![assignment]).collect();
    }
    let mut groups: Vec<Vec<Assignment>> = Vec::new();
    let mut names = HashSet::new();
    for assignment in assignments {
        let is_new = names.insert(assignment.target.1.clone());
        match groups.last_mut() {
            Some(group) if is_new => group.push(assignment),
            _ => {
                names.clear();
                names.insert(assignment.target.1.clone());
                groups.push(vec![assignment]);
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &CStr) -> (&[u8], &[u8]) {
        let split = Split::of(text);
        (split.display, split.name)
    }

    #[test]
    fn a_name_is_split_before_its_last_component() {
        assert_eq!(split(c"name"), (b"".as_slice(), b"name".as_slice()));
        assert_eq!(split(c"a//b/c/"), (b"a//b/".as_slice(), b"c/".as_slice()));
        assert_eq!(split(c"/top"), (b"/".as_slice(), b"top".as_slice()));
        assert_eq!(split(c"/"), (b"".as_slice(), b"/".as_slice()));
        assert_eq!(split(c".."), (b"".as_slice(), b"..".as_slice()));
        assert_eq!(split(c""), (b"".as_slice(), b"".as_slice()));
    }
}
