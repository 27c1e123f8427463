//! From the names on the command line to what is copied where, by GNU's rules.
//!
//! `SOURCE TARGET` copies to a name; `SOURCE... DIRECTORY`, and a target that is a directory, into it. Each operand is
//! split into the directory it stands in, which is held, and its last component, which is the only part of a name that
//! is ever resolved again.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::sync::Arc;

use haul_flow::{Held, HeldCache, Problem, Split};
use haul_sys::{Errno, Error, Fd, FileType, Identity, Open, Operation};
use haul_sys::{open, open_path, open_path_without_links, stat, stat_path};

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
    /// The directories between the two that `--parents` asks for, as they stand in the source's name; else nothing.
    pub(super) way: Vec<u8>,
    /// The copy as messages name it.
    pub(super) shown: Vec<u8>,
}

impl Assignment {
    /// Copies a source into a directory, under its last component, or with `--parents` under all of its name. What ends in
    /// `..` is copied onto the directory.
    fn into_directory(text: &CStr, held: &Arc<Held>, operands: &Operands) -> Self {
        let bare = without_trailing_slashes(text.to_bytes());
        let text = if operands.strip_trailing_slashes { c_string(bare) } else { text.to_owned() };
        let whole = c_string(bare);
        let split = Split::of(&whole);
        let (way, name, written) = match (operands.parents, split.name) {
            (true, b"" | b"/") => (&b""[..], &b"."[..], bare),
            (true, name) => (split.display, name, bare),
            (false, b"" | b"/") => (&b""[..], &b"."[..], &b""[..]),
            (false, b"..") => (&b""[..], &b"."[..], &b"."[..]),
            (false, name) => (&b""[..], name, name),
        };
        let shown = concatenated(without_trailing_slashes(&held.path()), written);
        Self { text, target: (Arc::clone(held), c_string(name)), way: way.to_vec(), shown }
    }

    /// Tells whether the copy goes onto the target directory itself.
    fn is_onto_target(&self) -> bool {
        self.way.is_empty() && self.target.1.to_bytes() == b"."
    }

    /// Returns the components of the copy's name below the directory that is its target or holds it.
    fn components(&self) -> impl Iterator<Item = &[u8]> {
        let name = self.target.1.to_bytes();
        self.way.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).chain(std::iter::once(name))
    }
}

/// Takes the slashes off the end of a name, but not the root's own.
fn without_trailing_slashes(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|byte| *byte != b'/') {
        Some(last) => &name[..=last],
        None => &name[..name.len().min(1)],
    }
}

/// Writes `name` below `directory` as GNU does: one slash between them, and `/.` between the root and what begins in one.
fn concatenated(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let between: &[u8] = match (directory.ends_with(b"/"), name.starts_with(b"/")) {
        (true, true) => b".",
        (true, false) | (false, true) => b"",
        (false, false) => b"/",
    };
    [directory, between, name].concat()
}

/// The directories among several operands: which operand names each first, and the path of its copy.
pub(super) type Named = HashMap<Identity, (usize, Vec<u8>)>;

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
pub(super) fn assign(operands: &Operands, strict: bool, cache: &HeldCache) -> Result<Vec<Assignment>, Stop> {
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
            (None, [_, _]) if operands.parents => {
                Err(Stop::Usage(Problem::new(wording::PARENTS_WANT_DIRECTORY)))
            }
            (Some(_), _) => Err(Stop::Fatal(Problem::new(wording::BOTH_TARGET_OPTIONS))),
            (None, [source, target]) => to_name(source, target, strict, cache),
            (None, [_, _, extra, ..]) => {
                Err(Stop::Usage(Problem::new(wording::EXTRA_OPERAND).naming(extra.to_bytes())))
            }
            (None, _) => Ok(Vec::new()),
        };
    }
    if let Some(directory) = &operands.target_directory {
        let held = hold_target(directory, strict, cache).map_err(|cause| {
            Stop::Fatal(Problem::new(wording::TARGET_DIRECTORY).naming(directory.to_bytes()).because(cause))
        })?;
        return Ok(into_directory(names, &held, operands));
    }
    let Some((last, sources)) = names.split_last() else { return Ok(Vec::new()) };
    match (hold_target(last, strict, cache), sources) {
        (Ok(held), _) => Ok(into_directory(sources, &held, operands)),
        // A link to a directory is not a name to copy to, either.
        (Err(cause), _) if strict && cause.is(Errno::LOOP) => {
            Err(Stop::Fatal(Problem::new(wording::TARGET).naming(last.to_bytes()).because(cause)))
        }
        (Err(_), [_]) if operands.parents => Err(Stop::Usage(Problem::new(wording::PARENTS_WANT_DIRECTORY))),
        (Err(_), [source]) => to_name(source, last, strict, cache),
        (Err(cause), _) => {
            Err(Stop::Fatal(Problem::new(wording::TARGET).naming(last.to_bytes()).because(cause)))
        }
    }
}

fn hold_target(path: &CStr, strict: bool, cache: &HeldCache) -> Result<Arc<Held>, Error> {
    let shown = without_trailing_slashes(path.to_bytes());
    let held = cache.hold_operand(path, Open::SEARCH.following(), shown.to_vec())?;
    if strict { without_links(path, held) } else { Ok(held) }
}

/// Checks that the path of a directory leads to it without a symbolic link.
fn without_links(path: &CStr, held: Arc<Held>) -> Result<Arc<Held>, Error> {
    let directory = open_path_without_links(path)?;
    match stat(&directory)?.identity == held.identity() {
        true => Ok(held),
        false => Err(Error::new(Operation::Openat, format!("{path:?}"), Errno::STALE)),
    }
}

fn into_directory(sources: &[CString], held: &Arc<Held>, operands: &Operands) -> Vec<Assignment> {
    sources.iter().map(|text| Assignment::into_directory(text, held, operands)).collect()
}

/// Copies one source to a name.
fn to_name(
    source: &CString,
    target: &CString,
    strict: bool,
    cache: &HeldCache,
) -> Result<Vec<Assignment>, Stop> {
    let split = Split::of(target);
    let place = if split.display.is_empty() { c".".to_owned() } else { c_string(split.display) };
    let held = split.hold(cache);
    let held = match if strict { held.and_then(|held| without_links(&place, held)) } else { held } {
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
    let shown = target.to_bytes().to_vec();
    Ok(vec![Assignment {
        text: source.clone(),
        target: (held, c_string(split.name)),
        way: Vec::new(),
        shown,
    }])
}

/// Leaves out sources that are named more than once, however they are spelled, and returns the directories among the others
/// and what is to be said of those left out, each with the number of sources that come before it.
///
/// Where backups are made, a file may be named more than once: each copy replaces the one before. A file is the same source if it is the same entry of the same directory; a directory, if it is the same directory.
pub(super) fn without_repetitions(
    assignments: Vec<Assignment>,
    options: &CopyOptions,
) -> (Vec<Assignment>, Named, Vec<(usize, Problem)>) {
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
                let path = assignment.shown.clone();
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
            Some(problem) => problems.push((kept.len(), problem)),
            None => kept.push(assignment),
        }
    }
    (kept, directories, problems)
}

/// Cuts the sources in groups that are copied one after the other: in a group no two copies have the same name, and none
/// is below another, so their order cannot matter. What is copied onto the target directory itself may have any of their
/// names in it, and is a group of its own; so is each if the user is asked, and if the target directory is in one of the sources, which grows
/// while it is read.
pub(super) fn groups(
    assignments: Vec<Assignment>,
    options: &CopyOptions,
    named: &Named,
    cache: &HeldCache,
) -> Vec<Vec<Assignment>> {
    if options.existing.ask
        || assignments.first().is_some_and(|first| is_within(&first.target.0, named, cache))
    {
        return assignments.into_iter().map(|assignment| vec![assignment]).collect();
    }
    let mut groups: Vec<Vec<Assignment>> = Vec::new();
    let mut names = Names::default();
    for assignment in assignments {
        let is_new = names.insert(&assignment);
        let is_alone = assignment.is_onto_target() || names.whole.contains(&b"."[..]);
        match groups.last_mut() {
            Some(group) if is_new && !is_alone => group.push(assignment),
            _ => {
                names = Names::default();
                names.insert(&assignment);
                groups.push(vec![assignment]);
            }
        }
    }
    groups
}

/// Tells whether a directory is one of the named ones, or below one.
fn is_within(directory: &Arc<Held>, named: &Named, cache: &HeldCache) -> bool {
    if named.is_empty() {
        return false;
    }
    let Ok(mut above) = cache.open(directory) else { return false };
    let mut identity = directory.identity();
    loop {
        if named.contains_key(&identity) {
            return true;
        }
        let Ok(parent) = open(&*above, c"..", Open::SEARCH) else { return false };
        match stat(&parent) {
            // The root is above itself.
            Ok(found) if found.identity != identity => identity = found.identity,
            _ => return false,
        }
        above = Arc::new(parent);
    }
}

/// The names of the copies of a group.
#[derive(Default)]
struct Names {
    whole: HashSet<Vec<u8>>,
    /// All that stands on the way to one of them.
    above: HashSet<Vec<u8>>,
}

impl Names {
    /// Adds a copy; returns false if it has the name of another, or is above or below one.
    fn insert(&mut self, assignment: &Assignment) -> bool {
        let mut is_new = true;
        let mut name = Vec::new();
        for component in assignment.components() {
            if !name.is_empty() {
                is_new &= !self.whole.contains(&name);
                self.above.insert(name.clone());
                name.push(b'/');
            }
            name.extend_from_slice(component);
        }
        is_new &= !self.above.contains(&name);
        self.whole.insert(name) && is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &CStr) -> (&[u8], &[u8]) {
        let split = Split::of(text);
        (split.display, split.name)
    }

    #[test]
    fn names_are_written_below_directories_as_by_gnu() {
        let below = |directory: &str, name: &str| {
            String::from_utf8(concatenated(directory.as_bytes(), name.as_bytes())).unwrap()
        };
        assert_eq!(below("d", "a//b"), "d/a//b");
        assert_eq!(below("d", "/a"), "d/a");
        assert_eq!(below("d", ""), "d/");
        assert_eq!(below("/", "a"), "/a");
        assert_eq!(below("/", "/a"), "/./a");
        let bare = |name: &str| without_trailing_slashes(name.as_bytes()).to_vec();
        assert_eq!([bare("a//"), bare("/"), bare("//"), bare("")], [&b"a"[..], b"/", b"/", b""]);
    }

    #[test]
    fn copies_that_could_meet_are_in_different_groups() {
        let cache = HeldCache::new(4);
        let held = cache.hold_absent(c"t", Open::SEARCH, b"t".to_vec());
        let groups_of = |parents: bool, names: &[&CStr]| {
            let operands = Operands { parents, ..Operands::default() };
            let assigned = names.iter().map(|name| Assignment::into_directory(name, &held, &operands));
            groups(assigned.collect(), &CopyOptions::default(), &Named::new(), &cache)
                .iter()
                .map(Vec::len)
                .collect::<Vec<_>>()
        };
        assert_eq!(groups_of(false, &[c"a", c"x/b", c"y/a", c"c"]), [2, 2]);
        assert_eq!(groups_of(true, &[c"x/a", c"y/a", c"x/b"]), [3]);
        assert_eq!(groups_of(true, &[c"x/a", c"x", c"y"]), [1, 2]);
        assert_eq!(groups_of(true, &[c"x", c"/x//a/", c"x/a"]), [1, 1, 1]);
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
