//! Splits the operands of a copy into groups, so that what they do to each other happens in the
//! order in which they were named.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::sync::Arc;

use haul_flow::{DirCache, DirHandle, Problem, Split};
use haul_sys::{Fd, FileType, Identity, Open};
use haul_sys::{c_string, open, stat, stat_at, stat_followed, stat_path};

use super::CopyKind;
use super::backup;
use super::operands::Assignment;
use super::options::{CopyOptions, Dereference, Preserve};

/// Drops files named more than once, however spelled. Returns a warning for each, with the number
/// of sources before it. A repeated directory can only be judged in turn: its first copy may have
/// failed (`named.rs`).
///
/// With backups, a file may be named more than once: each copy replaces the one before. Two names
/// are the same source if they are the same entry of the same directory.
pub(super) fn without_repetitions(
    assignments: Vec<Assignment>,
    options: &CopyOptions,
) -> (Vec<Assignment>, Vec<(usize, Problem)>) {
    if assignments.len() < 2 {
        return (assignments, Vec::new());
    }
    let follow = options.dereference != Dereference::Never;
    let mut kept: Vec<Assignment> = Vec::with_capacity(assignments.len());
    let (mut problems, mut files, mut lineages) = (Vec::new(), HashSet::new(), Lineages::default());
    for mut assignment in assignments {
        let text = &assignment.text;
        let split = Split::of(text);
        let place = if split.display.is_empty() { c".".to_owned() } else { c_string(split.display) };
        let looked = stat_path::<&Fd>(None, text, follow)
            .and_then(|stat| Ok((stat, stat_path::<&Fd>(None, &place, true)?.identity)));
        match looked {
            Ok((stat, _)) if stat.kind == FileType::Directory => {
                if options.recursive {
                    assignment.lineage = Some(lineages.of_directory(text, stat.identity));
                }
            }
            Ok((stat, above)) => {
                if !options.existing.backs_up() && !files.insert((above, split.base().to_vec())) {
                    let problem = Problem::new(CopyKind::SourceTwice).naming(text.to_bytes());
                    problems.push((kept.len(), problem.as_warning()));
                    continue;
                }
                assignment.lineage = Some(Lineage { own: None, above: vec![above] });
                assignment.file = Some(stat.identity);
                assignment.is_written = match stat.kind {
                    FileType::Regular => true,
                    FileType::Symlink => false,
                    _ => options.reads_special(),
                };
            }
            Err(_) => assignment.is_missing = true,
        }
        kept.push(assignment);
    }
    lineages.complete(&mut kept);
    (kept, problems)
}

/// Splits the sources into groups that are copied one after another, so that order within a group
/// cannot matter. Within a group:
///
/// - no two copies have the same name, and none is below another;
/// - no source is part of another source or of another's copy;
/// - no two sources are names of one file if either target exists: what happens to it may depend on
///   who comes first, and the result for the first name is what the second is linked to;
/// - no existing target is the same file as another's source or target, or is in the same place
///   (`--parents a/x b/x`, if the target has a link at `b` to `a`);
/// - with backups, no target has the name of another's backup.
///
/// A copy onto the target directory itself may contain any of the other names, and so may one
/// whose path goes up again (`--parents a/../b`): each is its own group. So is a source that can't
/// be looked at: another copy may create it. Every source is its own group with `-i`, or if the
/// target directory is inside one of the sources, which grows while it is read.
pub(super) fn groups(
    assignments: Vec<Assignment>,
    options: &CopyOptions,
    cache: &DirCache,
) -> Vec<Vec<Assignment>> {
    let directories: HashSet<_> =
        assignments.iter().filter_map(|assignment| assignment.lineage.as_ref()?.own).collect();
    let Some(target) = assignments.first().map(|first| &first.target.0) else { return Vec::new() };
    let is_named = |directory| directories.contains(&directory);
    let is_in_source = || !directories.is_empty() && is_within(target, is_named, cache) == Some(true);
    if options.existing.ask || is_in_source() {
        return assignments.into_iter().map(|assignment| vec![assignment]).collect();
    }
    let is_in_target = |assignment: &Assignment| {
        let lineage = assignment.lineage.as_ref();
        lineage.is_some_and(|lineage| lineage.above.contains(&target.identity()))
    };
    let any_in_target = !directories.is_empty() && assignments.iter().any(is_in_target);
    let links = options.preserve.contains(Preserve::LINKS);
    let mut groups: Vec<Vec<Assignment>> = Vec::new();
    let (mut names, mut sources, mut files) = (TargetNames::default(), Sources::default(), HashMap::new());
    let mut touched = TouchedFiles::default();
    let mut directories = TargetDirectories { cache, follows: !options.strict, known: HashMap::new() };
    for assignment in assignments {
        let copy = if any_in_target { standing_copy(&assignment, cache) } else { None };
        let is_new = names.insert(&assignment)
            & sources.insert(assignment.lineage.as_ref(), copy)
            & touched.insert(&assignment, options, &mut directories);
        match groups.last_mut() {
            Some(group) if is_new && !names.are_any && !must_wait(&assignment, group, &files, cache) => {
                if let Some(file) = assignment.file.filter(|_| links) {
                    files.entry(file).or_insert(group.len());
                }
                group.push(assignment);
            }
            _ => {
                (names, sources) = (TargetNames::default(), Sources::default());
                names.insert(&assignment);
                sources.insert(assignment.lineage.as_ref(), copy);
                touched = TouchedFiles::default();
                touched.insert(&assignment, options, &mut directories);
                files = assignment.file.filter(|_| links).into_iter().map(|file| (file, 0)).collect();
                groups.push(vec![assignment]);
            }
        }
    }
    groups
}

/// True if a source is the same file as another in `group` and either's target exists. `files` maps
/// a file to the first of the group that names it.
fn must_wait(
    assignment: &Assignment,
    group: &[Assignment],
    files: &HashMap<Identity, usize>,
    cache: &DirCache,
) -> bool {
    let stands = |assignment: &Assignment| {
        let name = c_string(&assignment.components().collect::<Vec<_>>().join(&b'/'));
        let found = cache.open(&assignment.target.0).and_then(|directory| stat_at(&directory, &name));
        found.is_ok()
    };
    let first = assignment.file.and_then(|file| group.get(*files.get(&file)?));
    first.is_some_and(|first| stands(first) || stands(assignment))
}

/// Returns the existing directory that a source would be copied onto.
fn standing_copy(assignment: &Assignment, cache: &DirCache) -> Option<Identity> {
    let directory = cache.open(&assignment.target.0).ok()?;
    let name = assignment.components().next()?;
    let there = stat_followed(&*directory, &c_string(name)).ok()?;
    (there.kind == FileType::Directory).then_some(there.identity)
}

/// True if `is_it` is true of a directory or one above it; `None` if those can't be opened.
pub(super) fn is_within(
    directory: &Arc<DirHandle>,
    is_it: impl Fn(Identity) -> bool,
    cache: &DirCache,
) -> Option<bool> {
    let mut above = cache.open(directory).ok()?;
    let mut identity = directory.identity();
    loop {
        if is_it(identity) {
            return Some(true);
        }
        let parent = open(&*above, c"..", Open::SEARCH).ok()?;
        let found = stat(&parent).ok()?.identity;
        // The root is its own parent.
        if found == identity {
            return Some(false);
        }
        (identity, above) = (found, Arc::new(parent));
    }
}

/// A source's place in the directory tree.
pub(super) struct Lineage {
    /// The source, if it is a directory.
    own: Option<Identity>,
    /// Its ancestors, nearest first.
    above: Vec<Identity>,
}

/// Maps each known directory to its parent.
#[derive(Default)]
struct Lineages(HashMap<Identity, Identity>);

impl Lineages {
    fn of_directory(&mut self, text: &CStr, own: Identity) -> Lineage {
        let mut path = text.to_bytes().to_vec();
        let (mut above, mut below) = (Vec::new(), own);
        loop {
            path.extend_from_slice(b"/..");
            let parent = self.0.get(&below).copied().or_else(|| {
                let found = stat_path::<&Fd>(None, &c_string(&path), true).ok()?.identity;
                self.0.insert(below, found);
                Some(found)
            });
            match parent {
                // The root is its own parent.
                Some(parent) if parent != below => {
                    above.push(parent);
                    below = parent;
                }
                _ => return Lineage { own: Some(own), above },
            }
        }
    }

    /// Adds the ancestors of the directories of files, needed only if a directory is among
    /// the sources.
    fn complete(&mut self, assignments: &mut [Assignment]) {
        if self.0.is_empty() {
            return assignments.iter_mut().for_each(|assignment| assignment.lineage = None);
        }
        for assignment in assignments {
            let Assignment { text, lineage: Some(lineage), .. } = assignment else { continue };
            if lineage.own.is_none()
                && let Some(&place) = lineage.above.first()
            {
                let display = Split::of(text).display;
                let path = if display.is_empty() { c".".to_owned() } else { c_string(display) };
                lineage.above.extend(self.of_directory(&path, place).above);
            }
        }
    }
}

/// Sources of a group, their ancestors, and the existing directories they are copied onto.
#[derive(Default)]
struct Sources {
    own: HashSet<Identity>,
    above: HashSet<Identity>,
    copies: HashSet<Identity>,
}

impl Sources {
    /// Adds a source; returns false if it contains, or is contained in, another source or its copy.
    fn insert(&mut self, lineage: Option<&Lineage>, copy: Option<Identity>) -> bool {
        let Some(Lineage { own, above }) = lineage else { return true };
        let is_part = |of: &Identity| self.own.contains(of) || self.copies.contains(of);
        let has_part = |of: &Identity| self.own.contains(of) || self.above.contains(of);
        let is_new = !own.iter().chain(above).any(is_part) && !own.iter().chain(&copy).any(has_part);
        self.own.extend(own);
        self.above.extend(above);
        self.copies.extend(copy);
        is_new
    }
}

/// The files that a group reads, overwrites or backs up.
#[derive(Default)]
struct TouchedFiles {
    sources: HashSet<Identity>,
    targets: HashSet<Identity>,
    /// The target names, each with the existing directory that it is in.
    places: HashSet<(Identity, Vec<u8>)>,
    /// With backups, the target names without the endings of backups.
    bases: HashSet<Vec<u8>>,
}

impl TouchedFiles {
    /// Adds a copy; returns false if it would meet another.
    fn insert(
        &mut self,
        assignment: &Assignment,
        options: &CopyOptions,
        directories: &mut TargetDirectories<'_>,
    ) -> bool {
        let Standing { files, dangles, place } = match assignment.file {
            Some(_) => directories.look(assignment).unwrap_or_default(),
            None => Standing::default(),
        };
        let is_touched = |file: &Identity| self.targets.contains(file) || self.sources.contains(file);
        // A dangling link may lead to a copy that isn't there yet.
        let mut meets = dangles
            || files.iter().any(is_touched)
            || assignment.file.iter().any(|file| self.targets.contains(file));
        if let Some(place) = place {
            meets |= !self.places.insert((place, assignment.target.1.to_bytes().to_vec()));
        }
        if options.existing.backs_up() {
            let path = assignment.components().collect::<Vec<_>>().join(&b'/');
            meets |= !self.bases.insert(backup::without_endings(&path, &options.existing).to_vec());
        }
        self.targets.extend(files);
        self.sources.extend(assignment.file);
        !meets
    }
}

/// What is at the path of a copy before it is made.
#[derive(Default)]
struct Standing {
    /// The entry, and what is written to if it is a symbolic link; no directories.
    files: Vec<Identity>,
    /// True if it is a symbolic link through which a file would be created.
    dangles: bool,
    /// The directory that it is in.
    place: Option<Identity>,
}

/// Existing directories below the target directory, each reached by single components.
struct TargetDirectories<'a> {
    cache: &'a DirCache,
    /// True if symbolic links are followed, as when parents are made.
    follows: bool,
    /// By path; `None` for those that don't exist.
    known: HashMap<Vec<u8>, Option<Arc<DirHandle>>>,
}

impl TargetDirectories<'_> {
    /// Looks at the path of a copy; `None` if its directory doesn't exist.
    fn look(&mut self, assignment: &Assignment) -> Option<Standing> {
        let (target, name) = &assignment.target;
        let (mut held, mut path) = (Arc::clone(target), Vec::new());
        let depth = assignment.components().count() - 1;
        for component in assignment.components().take(depth) {
            path.extend_from_slice(component);
            path.push(b'/');
            held = match self.known.get(&path) {
                Some(known) => known.clone()?,
                None => {
                    let found = self.step(&held, &c_string(component));
                    self.known.insert(path.clone(), found.clone());
                    found?
                }
            };
        }
        let (directory, place) = (self.cache.open(&held).ok()?, Some(held.identity()));
        let Ok(entry) = stat_at(&*directory, name) else {
            return Some(Standing { place, ..Standing::default() });
        };
        let target = match entry.kind {
            FileType::Symlink if assignment.is_written => stat_followed(&*directory, name).ok(),
            _ => Some(entry),
        };
        let found = [Some(entry), target].into_iter().flatten();
        let files = found.filter(|stat| stat.kind != FileType::Directory).map(|stat| stat.identity);
        Some(Standing { files: files.collect(), dangles: target.is_none(), place })
    }

    fn step(&self, above: &Arc<DirHandle>, name: &CStr) -> Option<Arc<DirHandle>> {
        let how = if self.follows { Open::SEARCH.following() } else { Open::SEARCH };
        let directory = open(self.cache.open(above).ok()?, name, how).ok()?;
        let identity = stat(&directory).ok()?.identity;
        Some(self.cache.hold(above, name, how, identity, Some(Arc::new(directory))))
    }
}

/// The target names of a group.
#[derive(Default)]
struct TargetNames {
    whole: HashSet<Vec<u8>>,
    /// Their proper prefixes.
    above: HashSet<Vec<u8>>,
    /// A name may collide with any other: it is the target directory itself, its path goes up
    /// again, or its source isn't there yet.
    are_any: bool,
}

impl TargetNames {
    /// Adds a copy; returns false if its name equals another, or is above or below one.
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
        self.are_any |= assignment.is_onto_target()
            || assignment.is_missing
            || assignment.components().any(|part| part == b"..");
        self.whole.insert(name) && is_new
    }
}

#[cfg(test)]
mod tests {
    use super::super::Operands;
    use super::*;

    #[test]
    fn copies_that_could_meet_are_in_different_groups() {
        let cache = DirCache::new(4);
        let held = cache.hold_absent(c"t", Open::SEARCH, b"t".to_vec());
        let groups_of = |parents: bool, names: &[&CStr]| {
            let operands = Operands { parents, ..Operands::default() };
            let assigned = names.iter().map(|name| Assignment::into_directory(name, &held, &operands));
            groups(assigned.collect(), &CopyOptions::default(), &cache)
                .iter()
                .map(Vec::len)
                .collect::<Vec<_>>()
        };
        assert_eq!(groups_of(false, &[c"a", c"x/b", c"y/a", c"c"]), [2, 2]);
        assert_eq!(groups_of(true, &[c"x/a", c"y/a", c"x/b"]), [3]);
        assert_eq!(groups_of(true, &[c"x/a", c"x", c"y"]), [1, 2]);
        assert_eq!(groups_of(true, &[c"x", c"/x//a/", c"x/a"]), [1, 1, 1]);
        assert_eq!(groups_of(true, &[c"./x", c"y/./z", c"x/a", c"./y/z"]), [2, 2]);
        assert_eq!(groups_of(true, &[c"a", c"x/../b", c"c", c"d"]), [1, 1, 2]);
    }
}
