//! Compares a tree with a manifest: which files have other hashes, which are missing, and which the
//! manifest doesn't have.
//!
//! The records are checked as by `-c` (`checks.rs`). Then the tree is walked, without reading, for
//! files that have no record.

use std::collections::HashSet;
use std::ffi::CStr;
use std::sync::Mutex;

use haul_digest::Algorithm;
use haul_flow::{Config, Entry, Executor, OutputLine, Problem, Reporter, Session, Status, lock};
use haul_sys::{Fd, FileType, c_string, stat_path};

use super::checks::{Checks, Manifest, read_manifest};
use super::options::{CheckOptions, Options, Printed, SumOperand};
use super::place::DirectoryRole;
use super::task::CheckVerdict;
use super::{SumKind, Summer, Use};

/// The result of comparing a tree with a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestComparison {
    /// The tree has the files of the manifest and no others.
    Same,
    /// Something differs, which was listed.
    Different,
    /// Something could not be read, which was reported.
    Failure,
}

/// Options of a comparison of a tree with a manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompareOptions {
    /// Algorithm of hashes that don't name theirs.
    pub hint: Option<Algorithm>,
    /// Follows symbolic links in the tree.
    pub dereference: bool,
    /// Lists nothing.
    pub quiet: bool,
}

/// Files of a tree that have no record.
pub(super) struct Unlisted {
    known: HashSet<Box<[u8]>>,
    found: Mutex<Vec<Vec<u8>>>,
}

impl Unlisted {
    pub(super) fn see(&self, entry: &Entry<Summer>) {
        let path = entry.path();
        if !self.known.contains(path.as_slice()) {
            lock(&self.found).push(path);
        }
    }
}

/// Compares a tree with a manifest, and lists the differences sorted by path; `executor` runs
/// the jobs.
///
/// Names in the manifest are relative to the tree, unless all of them begin with its path.
///
/// # Errors
/// If `tree` is not a directory, or the engine is unavailable.
pub fn compare_by(
    executor: &impl Executor<Summer>,
    (manifest_path, tree): (&CStr, &CStr),
    options: &CompareOptions,
    config: &Config,
    report: &dyn Reporter,
) -> Result<ManifestComparison, Problem> {
    let seen = stat_path::<&Fd>(None, tree, true)
        .map_err(|cause| Summer::unread(tree.to_bytes().to_vec(), cause))?;
    if seen.kind != FileType::Directory {
        return Err(Problem::new(SumKind::NotADirectory).naming(tree.to_bytes()));
    }
    let session = Session::begin(config, report)?;
    let check = CheckOptions { hint: options.hint, printed: Printed::BadLines, strict: true };
    let mut manifest = read_manifest(&SumOperand::Path(manifest_path.to_owned()), &check, report);
    let root = Root::of(tree);
    let bad_names = root.place(&mut manifest);
    for name in &bad_names {
        report.problem(Problem::new(SumKind::OutsideTree).naming(name.clone()));
    }
    let is_readable = manifest.is_usable() && bad_names.is_empty();
    if !is_readable && manifest.paths().next().is_none() {
        // With nothing to compare with, everything would be listed as missing from it.
        return Ok(ManifestComparison::Failure);
    }
    let known = manifest.paths().map(Box::from).collect();
    let of_run = Options { dereference: options.dereference, ignore_missing: true, ..Options::default() };
    let tool = Summer::new(of_run.clone(), Use::Check(Checks::collecting(manifest)));
    let Use::Check(checks) = &tool.usage else { return Ok(ManifestComparison::Failure) };
    let mut status = session.run(executor, &tool, Vec::new(), checks.operands(&session));
    let mut differences = Vec::new();
    let mut is_read = true;
    for (path, verdict) in checks.collected() {
        match verdict {
            CheckVerdict::Same => {}
            CheckVerdict::Unreadable => is_read = false,
            CheckVerdict::Differs | CheckVerdict::Missing => differences.push((path, Some(verdict))),
        }
    }
    let unlisted = Unlisted { known, found: Mutex::default() };
    let walk = Summer::new(of_run, Use::Names(unlisted));
    let operand = session.operand(&c_string(&root.operand), DirectoryRole::Below(0))?;
    status = status.max(session.run_alone(&walk, [operand]));
    if let Use::Names(unlisted) = &walk.usage {
        let found = std::mem::take(&mut *lock(&unlisted.found));
        let others = found.into_iter().filter(|path| !is_same_file(path, manifest_path));
        differences.extend(others.map(|path| (path, None)));
    }
    differences.sort_unstable_by(|(one, _), (other, _)| {
        one.split(|byte| *byte == b'/').cmp(other.split(|byte| *byte == b'/'))
    });
    if !options.quiet {
        for (path, verdict) in &differences {
            report.line(root.line(path, *verdict, manifest_path));
        }
    }
    Ok(match (is_readable && is_read && status == Status::Success, differences.is_empty()) {
        (false, _) => ManifestComparison::Failure,
        (true, true) => ManifestComparison::Same,
        (true, false) => ManifestComparison::Different,
    })
}

/// True if two paths lead to one file: the manifest may be in the tree.
fn is_same_file(path: &[u8], other: &CStr) -> bool {
    let look = |path: &CStr| stat_path::<&Fd>(None, path, true).map(|seen| seen.identity);
    look(&c_string(path)).is_ok_and(|file| look(other).is_ok_and(|other| file == other))
}

/// The tree, as its paths begin.
struct Root {
    /// Path without trailing slashes.
    operand: Vec<u8>,
    /// The same with one, the beginning of all paths below it.
    prefix: Vec<u8>,
}

impl Root {
    fn of(tree: &CStr) -> Self {
        let bytes = tree.to_bytes();
        let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let operand = if end == 0 { b"/".to_vec() } else { bytes[..end].to_vec() };
        Self { prefix: [&bytes[..end], b"/"].concat(), operand }
    }

    /// Makes the paths of all records paths below the tree. Removes records whose name leads out of
    /// it, and returns those names.
    fn place(&self, manifest: &mut Manifest) -> Vec<Vec<u8>> {
        let has_prefix = manifest.paths().all(|path| path.starts_with(&self.prefix));
        let skipped = if has_prefix { self.prefix.len() } else { 0 };
        manifest.rename(|name| {
            let parts = name[skipped..].split(|byte| *byte == b'/');
            let parts: Vec<_> = parts.filter(|part| !matches!(part, [] | [b'.'])).collect();
            let is_absolute = !has_prefix && name.starts_with(b"/");
            let leads_out = is_absolute || parts.is_empty() || parts.contains(&b"..".as_slice());
            (!leads_out).then(|| [self.prefix.as_slice(), &parts.join(&b'/')].concat())
        })
    }

    /// Words a difference, like `diff -rq`.
    fn line(&self, path: &[u8], verdict: Option<CheckVerdict>, manifest: &CStr) -> OutputLine {
        let manifest = manifest.to_bytes().to_vec();
        match verdict {
            None => {
                let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                let directory = if slash == 0 { &path[..1] } else { &path[..slash] };
                OutputLine::new(SumKind::OnlyIn, vec![directory.to_vec(), path[slash + 1..].to_vec()])
            }
            Some(CheckVerdict::Missing) => {
                OutputLine::new(SumKind::OnlyIn, vec![manifest, path[self.prefix.len()..].to_vec()])
            }
            Some(_) => OutputLine::new(SumKind::DiffersFrom, vec![path.to_vec(), manifest]),
        }
    }
}
