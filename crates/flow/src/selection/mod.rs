//! Selection: the entries that a run skips, by name, size or age, or because a list lacks them.
//!
//! Rules by name mean what the lines of a `.gitignore` file mean (gitignore(5)): the last rule that
//! matches decides, a rule with a slash in it is relative to the operand, and nothing below an
//! excluded directory is looked at. The walk applies them to a listing before it counts or shares
//! the entries, so excluded entries cost no system call, no job and no message to a rank.
//! Limits of size and age apply to regular files, and cost a `stat` each. With a list of names the
//! walk lists directories from that (`list.rs`).
//!
//! Operands are treated like any other entry, except that a directory operand is always entered.
//!
//! ```text
//! Selection (plain data, in `Config`) ─► Selector (compiled, one per run)
//!                                           │ enter: what holds in one directory
//!                                           ▼
//!                                         Scope (in its `DirNode`, and in `OpenDir` for the tool)
//! ```

mod line;
mod list;
mod rules;

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::sync::Arc;

use haul_sys::{EntryType, Errno, Error, Fd, FileType, Identity, NameArena, Open, Stat, Timestamp};
use haul_sys::{open, read_all, stat, stat_at};
use serde::{Deserialize, Serialize};

pub use list::{BadName, Contents, NameList, RefusedName};

use crate::kind::FlowKind;
use crate::report::Problem;
use list::ListedNames;
use rules::{CompiledRules, RuleVerdict};

/// Name of the files that `--gitignore` reads.
const IGNORE_FILE: &CStr = c".gitignore";

/// Maximum size of such a file, in bytes. Larger ones are refused, not read in part.
const IGNORE_FILE_BYTES_MAX: u64 = 16 << 20;

/// Name of the file that marks a directory as a cache, and how it begins
/// (<https://bford.info/cachedir/>).
const CACHE_TAG: &CStr = c"CACHEDIR.TAG";
const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// The entries that a run skips. By default none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// Lines as in a `.gitignore` file. The last that matches an entry decides.
    pub rules: Vec<String>,
    /// True if `.gitignore` files below the operands are honoured. `rules` take precedence.
    pub gitignore: bool,
    /// True if directories with a `CACHEDIR.TAG` are skipped, except for that file.
    pub exclude_caches: bool,
    /// Minimum size of a regular file, in bytes.
    pub size_min: Option<u64>,
    /// Maximum size of a regular file, in bytes.
    pub size_max: Option<u64>,
    /// Regular files must have been modified after this.
    pub newer_than: Option<Timestamp>,
    /// Regular files must have been modified before this.
    pub older_than: Option<Timestamp>,
    /// The only names below the operands to look at; `None` for all. Only the process that walks
    /// the tree needs it.
    #[serde(skip)]
    pub list: Option<Arc<NameList>>,
    /// Files that the program itself writes to. They are skipped, with a warning.
    pub own_files: Vec<Identity>,
}

/// A compiled [`Selection`].
#[derive(Debug, Default)]
pub struct Selector {
    rules: CompiledRules,
    /// Everything but the rules.
    limits: Selection,
}

/// Rules that apply to the entries of one directory.
#[derive(Debug)]
pub struct Scope {
    /// Path below the operand, ending in a slash; empty for the operand itself.
    path: Vec<u8>,
    /// The names listed in this directory, if the run has a list.
    listed: Option<ListedNames>,
    ignore_files: Option<Arc<IgnoreFile>>,
    is_cache: bool,
}

/// The rules of one `.gitignore` file, and those of the files above it.
#[derive(Debug)]
struct IgnoreFile {
    above: Option<Arc<IgnoreFile>>,
    /// Length of its directory's path in `Scope::path`.
    path_length: usize,
    rules: CompiledRules,
}

impl Selector {
    /// Compiles a selection.
    ///
    /// # Errors
    /// [`FlowKind::BadPattern`], naming the first rule that is invalid.
    pub fn new(selection: &Selection) -> Result<Self, Problem> {
        let limits = Selection { rules: Vec::new(), ..selection.clone() };
        let mut invalid = None;
        let lines = selection.rules.iter().map(String::as_bytes);
        let rules = CompiledRules::compile(lines, |_, line| invalid = invalid.or(Some(line)));
        match invalid {
            Some(line) => Err(Problem::new(FlowKind::BadPattern).naming(line)),
            None => Ok(Self { rules, limits }),
        }
    }

    /// True if there are rules: empty lines and comments are none.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Restricts the selection to a list of names below the operands.
    pub(crate) fn restrict_to(&mut self, names: NameList) {
        self.limits.list = Some(Arc::new(names));
    }

    /// True if entries may have to be removed from a listing.
    pub(crate) fn changes_listings(&self) -> bool {
        self.selects_by_name() || !self.limits.own_files.is_empty()
    }

    /// True if entries are skipped because of their names or where they are.
    pub(crate) fn selects_by_name(&self) -> bool {
        !self.rules.is_empty()
            || self.limits.list.is_some()
            || self.limits.gitignore
            || self.limits.exclude_caches
    }

    /// True if regular files have to be stat'ed to decide whether they are skipped.
    #[must_use]
    pub fn has_limits(&self) -> bool {
        let Selection { size_min, size_max, newer_than, older_than, .. } = &self.limits;
        size_min.is_some() || size_max.is_some() || newer_than.is_some() || older_than.is_some()
    }

    /// True if a file is within the limits, or if it isn't a regular file.
    #[must_use]
    pub fn admits(&self, stat: &Stat) -> bool {
        let Selection { size_min, size_max, newer_than, older_than, .. } = &self.limits;
        stat.kind != FileType::Regular
            || (size_min.is_none_or(|least| stat.size >= least)
                && size_max.is_none_or(|most| stat.size <= most)
                && newer_than.is_none_or(|moment| stat.modified > moment)
                && older_than.is_none_or(|moment| stat.modified < moment))
    }

    /// True if the run visits only listed names below its operands.
    pub(crate) fn has_list(&self) -> bool {
        self.limits.list.is_some()
    }

    /// Returns true if the run's list includes an entry of a directory, and the listed paths below
    /// the entry, relative to it.
    pub(crate) fn listed_at(&self, scope: &Scope, name: &CStr) -> (bool, Vec<Vec<u8>>) {
        let Some((list, listed)) = self.limits.list.as_ref().zip(scope.listed.as_ref()) else {
            return (true, Vec::new());
        };
        let (is_listed, below) = list.at(listed, scope.path.len(), name);
        (is_listed || listed.is_whole, below)
    }

    /// Returns the listing of a directory if it comes from the run's list of names.
    pub(crate) fn listing(&self, scope: &Scope) -> Option<NameArena> {
        let (list, listed) = self.limits.list.as_ref().zip(scope.listed.as_ref())?;
        (!listed.is_whole).then(|| list.entries(listed, scope.path.len()))
    }

    /// Returns the listed entries of a directory that are missing from `found`, if everything in
    /// the directory is taken.
    pub(crate) fn lacking(&self, scope: &Scope, found: &NameArena) -> Vec<CString> {
        let list = self.limits.list.as_ref().zip(scope.listed.as_ref());
        let Some((list, listed)) = list.filter(|(_, listed)| listed.is_whole) else { return Vec::new() };
        let wanted = list.entries(listed, scope.path.len());
        if wanted.is_empty() {
            return Vec::new();
        }
        let found: HashSet<&CStr> = (0..found.len()).map(|index| found.name(index)).collect();
        let wanted = (0..wanted.len()).map(|index| wanted.name(index).to_owned());
        wanted.filter(|name| !found.contains(name.as_c_str())).collect()
    }

    /// True if the rules exclude an operand, which isn't a directory, by its name.
    pub(crate) fn excludes_operand(&self, name: &CStr) -> bool {
        self.rules_exclude(name.to_bytes(), false)
    }

    /// True if the rules exclude the entry with this path below an operand. Directories above it
    /// aren't looked at.
    #[must_use]
    pub fn rules_exclude(&self, path: &[u8], is_directory: bool) -> bool {
        self.rules.decide(path, is_directory) == Some(RuleVerdict::Exclude)
    }

    /// Returns the scope of a directory: an operand, or the entry `name` of a directory with the
    /// scope `above`. `None` if everything is kept. `report` is called with the errors in its
    /// `.gitignore` file.
    pub(crate) fn enter(
        &self,
        (above, name): (Option<&Scope>, &CStr),
        directory: &Fd,
        report: impl FnMut(Problem),
        path_of: impl Fn(&CStr) -> Vec<u8>,
    ) -> Option<Arc<Scope>> {
        if !self.selects_by_name() {
            return None;
        }
        let path = above.map_or_else(Vec::new, |above| [&above.path, name.to_bytes(), b"/"].concat());
        let mut ignore_files = above.and_then(|above| above.ignore_files.clone());
        if self.limits.gitignore
            && let Some(rules) = read_ignore_file(directory, report, path_of)
        {
            let (above, path_length) = (ignore_files.take(), path.len());
            ignore_files = Some(Arc::new(IgnoreFile { above, path_length, rules }));
        }
        let is_cache = self.limits.exclude_caches && is_cache(directory);
        let listed = self.limits.list.as_ref().and_then(|list| match above {
            None => Some(list.whole()),
            Some(above) => Some(list.below(above.listed.as_ref()?, above.path.len(), name)),
        });
        Some(Arc::new(Scope { path, listed, ignore_files, is_cache }))
    }

    /// Returns the scope of a directory that only another tree has: the entry `name` of one with
    /// the scope `above`. It has no rules of its own.
    #[must_use]
    pub fn below(&self, above: &Scope, name: &CStr) -> Arc<Scope> {
        let path = [&above.path, name.to_bytes(), b"/"].concat();
        let ignore_files = above.ignore_files.clone();
        Arc::new(Scope { path, listed: None, ignore_files, is_cache: false })
    }

    /// True if an entry of a directory is not skipped. The directory need not be the one that the
    /// scope belongs to: it may be its counterpart in another tree.
    #[must_use]
    pub fn selects(&self, scope: Option<&Scope>, directory: &Fd, name: &CStr, listed: EntryType) -> bool {
        let limited = self.has_limits() && listed == EntryType::Regular;
        // An entry that can't be stat'ed is only judged by its name.
        let look = || stat_at(directory, name).ok();
        let stat = (limited || listed == EntryType::Unknown).then(look).flatten();
        let kind = stat.map_or(listed, |stat| stat.kind.into());
        scope.is_none_or(|scope| !self.excludes(scope, name, kind))
            && stat.is_none_or(|stat| self.admits(&stat))
    }

    /// True if an entry of a directory is skipped because of its name.
    #[must_use]
    pub fn excludes(&self, scope: &Scope, name: &CStr, kind: EntryType) -> bool {
        let list = self.limits.list.as_ref().zip(scope.listed.as_ref());
        list.is_some_and(|(list, listed)| !listed.is_whole && !list.has(listed, scope.path.len(), name))
            || self.excludes_path(scope, &[&scope.path, name.to_bytes()].concat(), kind)
    }

    fn excludes_path(&self, scope: &Scope, path: &[u8], kind: EntryType) -> bool {
        if scope.is_cache && path[scope.path.len()..] != *CACHE_TAG.to_bytes() {
            return true;
        }
        let is_directory = kind == EntryType::Directory;
        let mut verdict = self.rules.decide(path, is_directory);
        let mut files = scope.ignore_files.as_deref();
        while let (None, Some(file)) = (verdict, files) {
            verdict = file.rules.decide(&path[file.path_length..], is_directory);
            files = file.above.as_deref();
        }
        verdict == Some(RuleVerdict::Exclude)
    }

    /// Returns the names in a listing that belong to files the program itself writes to.
    pub(crate) fn own_files(&self, directory: &Fd, names: &NameArena) -> Vec<CString> {
        let own = &self.limits.own_files;
        if own.is_empty() {
            return Vec::new();
        }
        // The inode number in the listing rules out most of them without a `stat`. Names from a
        // list have none.
        let may_be = |index: &usize| {
            let inode = names.entry(*index).inode;
            inode == 0 || own.iter().any(|file| file.inode == inode)
        };
        let is_own = |name: &&CStr| stat_at(directory, name).is_ok_and(|file| own.contains(&file.identity));
        let found = (0..names.len()).filter(may_be).map(|index| names.name(index)).filter(is_own);
        found.map(CStr::to_owned).collect()
    }

    /// Removes skipped entries from a listing. Where the listing gives no type, looks it up.
    pub(crate) fn select(&self, scope: &Scope, directory: &Fd, names: &mut NameArena) {
        let mut path = scope.path.clone();
        names.retain(|name, kind| {
            if *kind == EntryType::Unknown {
                // If that fails, the walk finds out, and reports it.
                *kind = stat_at(directory, name).map_or(*kind, |stat| EntryType::from(stat.kind));
            }
            path.truncate(scope.path.len());
            path.extend_from_slice(name.to_bytes());
            !self.excludes_path(scope, &path, *kind)
        });
    }
}

/// Reads the rules of a directory's `.gitignore` file. Reports an unreadable file, and invalid
/// lines, which it skips.
fn read_ignore_file(
    directory: &Fd,
    mut report: impl FnMut(Problem),
    path_of: impl Fn(&CStr) -> Vec<u8>,
) -> Option<CompiledRules> {
    let text = match read_small(directory, IGNORE_FILE, IGNORE_FILE_BYTES_MAX) {
        Ok(text) => text,
        Err(Unread::Failed(cause)) if cause.is(Errno::NOENT) => return None,
        Err(why) => {
            let problem = match why {
                Unread::Failed(cause) => Problem::new(FlowKind::UnreadableIgnoreFile).because(cause),
                Unread::NotRegular => Problem::new(FlowKind::BadIgnoreFile),
                Unread::TooLarge => Problem::new(FlowKind::LargeIgnoreFile),
            };
            report(problem.naming(path_of(IGNORE_FILE)));
            return None;
        }
    };
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    let rules = CompiledRules::compile(text.split(|byte| *byte == b'\n'), |index, line| {
        let place = [path_of(IGNORE_FILE).as_slice(), format!(":{}", index + 1).as_bytes()].concat();
        report(Problem::new(FlowKind::BadIgnoreLine).naming(place).naming(line).as_warning());
    });
    (!rules.is_empty()).then_some(rules)
}

/// True if a directory has a valid `CACHEDIR.TAG`.
fn is_cache(directory: &Fd) -> bool {
    let mut start = [0; CACHE_SIGNATURE.len()];
    let read = open(directory, CACHE_TAG, Open::READ).and_then(|file| read_all(&file, 0, &mut start));
    read.is_ok() && start == *CACHE_SIGNATURE
}

/// Why a small file was not read.
enum Unread {
    Failed(Error),
    NotRegular,
    TooLarge,
}

/// Reads a whole regular file of a directory. Symbolic links are not followed, and the open of a
/// FIFO doesn't block.
fn read_small(directory: &Fd, name: &CStr, bytes_max: u64) -> Result<Vec<u8>, Unread> {
    let file = open(directory, name, Open::READ).map_err(|cause| {
        // A link fails with ELOOP and a socket with ENXIO: report the type instead.
        let is_special = stat_at(directory, name).is_ok_and(|stat| stat.kind != FileType::Regular);
        if is_special { Unread::NotRegular } else { Unread::Failed(cause) }
    })?;
    let size = match stat(&file).map_err(Unread::Failed)? {
        stat if stat.kind != FileType::Regular => return Err(Unread::NotRegular),
        stat if stat.size > bytes_max => return Err(Unread::TooLarge),
        stat => usize::try_from(stat.size).map_err(|_| Unread::TooLarge)?,
    };
    let mut text = vec![0; size];
    let length = read_all(&file, 0, &mut text).map_err(Unread::Failed)?;
    text.truncate(length);
    Ok(text)
}
