//! Turns command-line names into pairs of source and target, by GNU's rules.
//!
//! `SOURCE TARGET` copies to a name; `SOURCE... DIRECTORY`, or a target that is a directory, copies
//! into it. Each operand is split into its parent directory, which gets a handle, and its last
//! component, the only part of a name that is ever resolved again.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use haul_flow::{DirCache, DirHandle, Problem, Split};
use haul_sys::{Errno, Error, Fd, FileType, Identity, Open, Operation};
use haul_sys::{c_string, open_path, open_path_without_links, stat, stat_path};

use super::backup::backup_name;
use super::groups::Lineage;
use super::options::{Backup, CopyOptions, Dereference, Existing, Operands};
use super::{CopyKind, CopyRefusal};

/// One source and its target.
pub(super) struct Assignment {
    /// The source as the user named it.
    pub(super) text: CString,
    /// The directory the copy goes to, and its name there.
    pub(super) target: (Arc<DirHandle>, CString),
    /// With `--parents`, the directories between the two, as written in the source's name;
    /// else empty.
    pub(super) way: Vec<u8>,
    /// The copy's path in messages.
    pub(super) shown: Vec<u8>,
    /// The source's ancestors; known only if a directory is among several sources.
    pub(super) lineage: Option<Lineage>,
    /// The source's identity; known only if it is a non-directory among several sources.
    pub(super) file: Option<Identity>,
    /// True if the copy is written into an existing target, also through a symbolic link, and
    /// doesn't take its place; known only among several sources.
    pub(super) is_written: bool,
    /// True if the source can't be looked at; known only among several sources.
    pub(super) is_missing: bool,
}

impl Assignment {
    /// Copies a source into a directory under its last component, or its whole name with
    /// `--parents`. A source ending in `..` is copied onto the directory.
    pub(super) fn into_directory(text: &CStr, held: &Arc<DirHandle>, operands: &Operands) -> Self {
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
        Self {
            text,
            target: (Arc::clone(held), c_string(name)),
            way: way.to_vec(),
            shown,
            lineage: None,
            file: None,
            is_written: false,
            is_missing: false,
        }
    }

    /// True if the copy goes onto the target directory itself.
    pub(super) fn is_onto_target(&self) -> bool {
        self.way.is_empty() && self.target.1.to_bytes() == b"."
    }

    /// Returns the components of the copy's path below the target directory.
    pub(super) fn components(&self) -> impl Iterator<Item = &[u8]> {
        let name = self.target.1.to_bytes();
        let way = self.way.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
        way.chain(std::iter::once(name))
    }
}

/// Removes trailing slashes from a name, but not the root's own.
fn without_trailing_slashes(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|byte| *byte != b'/') {
        Some(last) => &name[..=last],
        None => &name[..name.len().min(1)],
    }
}

/// Joins `directory` and `name` as GNU does: one slash between them, `/.` between the root and an
/// absolute name.
fn concatenated(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let between: &[u8] = match (directory.ends_with(b"/"), name.starts_with(b"/")) {
        (true, true) => b".",
        (true, false) | (false, true) => b"",
        (false, false) => b"/",
    };
    [directory, between, name].concat()
}

/// Turns `cp --force --backup x x`, for a regular file, into a copy of `x` to its backup name.
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
    // Opened only to choose a name, so a failed close doesn't matter.
    directory.close().unwrap_or_default();
    let target = c_string(&[split.display, name.to_bytes()].concat());
    let existing = Existing { backup: Backup::None, ..existing.clone() };
    Some((
        Operands { names: vec![source.clone(), target], ..operands.clone() },
        CopyOptions { existing, ..options.clone() },
    ))
}

/// Resolves each operand to an [`Assignment`].
pub(super) fn assign(
    operands: &Operands,
    options: &CopyOptions,
    cache: &DirCache,
) -> Result<Vec<Assignment>, CopyRefusal> {
    let (names, strict) = (&operands.names, options.strict);
    match (names.as_slice(), &operands.target_directory) {
        ([], _) => return Err(CopyRefusal::Usage(Problem::new(CopyKind::MissingOperand))),
        ([only], None) => {
            return Err(CopyRefusal::Usage(Problem::new(CopyKind::MissingTarget).naming(only.to_bytes())));
        }
        _ => {}
    }
    if operands.no_target_directory {
        return match (&operands.target_directory, names.as_slice()) {
            (None, [_, _]) if operands.parents => {
                Err(CopyRefusal::Usage(Problem::new(CopyKind::ParentsWantDirectory)))
            }
            (Some(_), _) => Err(CopyRefusal::Fatal(Problem::new(CopyKind::BothTargetOptions))),
            (None, [source, target]) => to_name(source, target, options, cache),
            (None, [_, _, extra, ..]) => {
                Err(CopyRefusal::Usage(Problem::new(CopyKind::ExtraOperand).naming(extra.to_bytes())))
            }
            (None, _) => Ok(Vec::new()),
        };
    }
    if let Some(directory) = &operands.target_directory {
        let held = hold_target(directory, strict, cache).map_err(|cause| {
            CopyRefusal::Fatal(
                Problem::new(CopyKind::TargetDirectory).naming(directory.to_bytes()).because(cause),
            )
        })?;
        return Ok(into_directory(names, &held, operands));
    }
    let Some((last, sources)) = names.split_last() else { return Ok(Vec::new()) };
    match (hold_target(last, strict, cache), sources) {
        (Ok(held), _) => Ok(into_directory(sources, &held, operands)),
        // Nor is a link to a directory a name to copy to.
        (Err(cause), _) if strict && cause.is(Errno::LOOP) => {
            Err(CopyRefusal::Fatal(Problem::new(CopyKind::Target).naming(last.to_bytes()).because(cause)))
        }
        (Err(_), [_]) if operands.parents => {
            Err(CopyRefusal::Usage(Problem::new(CopyKind::ParentsWantDirectory)))
        }
        (Err(_), [source]) => to_name(source, last, options, cache),
        (Err(cause), _) => {
            Err(CopyRefusal::Fatal(Problem::new(CopyKind::Target).naming(last.to_bytes()).because(cause)))
        }
    }
}

fn hold_target(path: &CStr, strict: bool, cache: &DirCache) -> Result<Arc<DirHandle>, Error> {
    let shown = without_trailing_slashes(path.to_bytes());
    let held = cache.hold_operand(path, Open::SEARCH.following(), shown.to_vec())?;
    if strict { without_links(path, held) } else { Ok(held) }
}

/// Checks that a directory's path resolves to it without symbolic links.
fn without_links(path: &CStr, held: Arc<DirHandle>) -> Result<Arc<DirHandle>, Error> {
    let directory = open_path_without_links(path)?;
    match stat(&directory)?.identity == held.identity() {
        true => Ok(held),
        false => Err(Error::new(Operation::Openat, format!("{path:?}"), Errno::STALE)),
    }
}

fn into_directory(sources: &[CString], held: &Arc<DirHandle>, operands: &Operands) -> Vec<Assignment> {
    sources.iter().map(|text| Assignment::into_directory(text, held, operands)).collect()
}

fn to_name(
    source: &CString,
    target: &CString,
    options: &CopyOptions,
    cache: &DirCache,
) -> Result<Vec<Assignment>, CopyRefusal> {
    let split = Split::of(target);
    let place = if split.display.is_empty() { c".".to_owned() } else { c_string(split.display) };
    let held = split.hold(cache);
    let held = match if options.strict { held.and_then(|held| without_links(&place, held)) } else { held } {
        Ok(held) => held,
        // The directory may be missing: creating the copy reports that in the copy's terms.
        Err(cause) if cause.is(Errno::NOENT) => {
            cache.hold_absent(&c_string(split.display), Open::SEARCH.following(), split.display.to_vec())
        }
        Err(cause) => {
            let problem = Problem::new(CopyKind::CannotStat).naming(target.to_bytes()).because(cause);
            return Err(CopyRefusal::Fatal(unusable(source, options).unwrap_or(problem)));
        }
    };
    let shown = target.to_bytes().to_vec();
    Ok(vec![Assignment {
        text: source.clone(),
        target: (held, c_string(split.name)),
        way: Vec::new(),
        shown,
        lineage: None,
        file: None,
        is_written: false,
        is_missing: false,
    }])
}

/// Returns why a source can't be copied anywhere. GNU checks this before the target.
fn unusable(source: &CString, options: &CopyOptions) -> Option<Problem> {
    match stat_path::<&Fd>(None, source, options.dereference != Dereference::Never) {
        Err(cause) => Some(Problem::new(CopyKind::CannotStat).naming(source.to_bytes()).because(cause)),
        Ok(stat) if stat.kind == FileType::Directory && !options.recursive => {
            Some(Problem::new(CopyKind::OmittingDirectory).naming(source.to_bytes()))
        }
        Ok(_) => None,
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
    fn a_name_is_split_before_its_last_component() {
        assert_eq!(split(c"name"), (b"".as_slice(), b"name".as_slice()));
        assert_eq!(split(c"a//b/c/"), (b"a//b/".as_slice(), b"c/".as_slice()));
        assert_eq!(split(c"/top"), (b"/".as_slice(), b"top".as_slice()));
        assert_eq!(split(c"/"), (b"".as_slice(), b"/".as_slice()));
        assert_eq!(split(c".."), (b"".as_slice(), b"..".as_slice()));
        assert_eq!(split(c""), (b"".as_slice(), b"".as_slice()));
    }
}
