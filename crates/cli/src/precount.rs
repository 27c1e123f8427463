//! Counts the total work of a copy while it runs, for percentage and time left.
//!
//! The library walks the sources. This module adds up, and makes sure that the count uses none of
//! the copy's descriptors: if these are scarce, nothing is counted.
//!
//! It cannot foresee files that are skipped (`-n`) or change during the copy.
//!
//! Invariant: entries are counted as the copy counts them
//! (test: `the_whole_is_what_a_copy_finishes`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use haul_copy::{CopyKind, FreeSpace, Make, survey};
use haul_flow::{OutputLine, Problem, Reporter, Settings, Tally, lock};

use crate::amounts;
use crate::flags::LoweredCopy;
use crate::progress::Total;

/// Descriptors that must be left for the count.
const DESCRIPTORS: usize = 64;

/// Upper bound on the descriptors of one of the copy's workers, besides its files.
const DESCRIPTORS_PER_WORKER: usize = 8;

/// Counts the entries that a request will copy, and the bytes that they need of `space`. `None` if
/// that can't be known, or if `over` was set.
pub(crate) fn count(
    request: &LoweredCopy,
    space: Option<&FreeSpace>,
    over: &AtomicBool,
) -> Option<(Total, u64)> {
    let copy = Settings::resolve(&request.run.config);
    let spent = copy.cached_directories + copy.jobs * (DESCRIPTORS_PER_WORKER + 2 * copy.window);
    if spent + DESCRIPTORS > haul_sys::descriptor_limit() {
        return None;
    }
    let sum = SilentTally::default();
    let selection = &request.run.config.selection;
    let needed = survey((&request.operands, &request.options, selection), space, &sum, over);
    let Tally { discovered: found, bytes, .. } = sum.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Links are made without moving data.
    let bytes = if request.options.make == Make::Copy { bytes } else { 0 };
    (!over.load(Ordering::Relaxed)).then_some((Total { entries: found, bytes }, needed))
}

/// Returns the warning for a copy that needs more space than there was.
pub(crate) fn shortage(space: &FreeSpace, needed: u64) -> Option<Problem> {
    let problem = || {
        Problem::new(CopyKind::MoreThanFree)
            .naming(amounts::bytes(needed))
            .naming(amounts::bytes(space.bytes))
            .naming(space.target.to_bytes())
    };
    (needed > space.bytes).then(|| problem().as_warning())
}

/// Adds up counts and reports nothing.
#[derive(Default)]
struct SilentTally(Mutex<Tally>);

impl Reporter for SilentTally {
    fn count(&self, more: Tally) {
        *lock(&self.0) += more;
    }

    fn problem(&self, _problem: Problem) {}

    fn output(&self, _: haul_sys::Standard, _: &[u8]) {}
    fn line(&self, _line: OutputLine) {}

    fn debug(&self, _text: &str) {}
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use haul_copy::{CopyRequest, run};
    use haul_flow::{Alone, CancelToken};
    use haul_sys::{Fd, Timestamp, c_string, stat_path};

    use super::*;
    use crate::flags::{self, CopyCommand, Environment};

    fn request(words: &[&str], folder: &Path) -> LoweredCopy {
        let words: Vec<_> = words
            .iter()
            .map(|word| match word.strip_prefix("./") {
                Some(name) => folder.join(name).into_os_string(),
                None => OsString::from(word),
            })
            .collect();
        match flags::parse(&words, Environment::default(), &mut |_| {}) {
            Ok(CopyCommand::Copy(request)) => *request,
            other => panic!("{other:?}"),
        }
    }

    /// Writes a file, also to the disk: while ext4 allocates delayed blocks, it seems to have none.
    fn write(path: &Path, bytes: &[u8]) {
        std::fs::write(path, bytes).unwrap();
        std::fs::File::open(path).unwrap().sync_all().unwrap();
    }

    fn tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        std::fs::create_dir_all(source.join("a/b")).unwrap();
        write(&source.join("a/b/file"), &[0; 3000]);
        write(&source.join("a/file"), &[0; 500]);
        write(&folder.path().join("lone"), &[0; 70]);
        symlink("file", source.join("a/link")).unwrap();
        folder
    }

    #[test]
    fn the_whole_is_what_a_copy_finishes() {
        let lines: [&[&str]; 7] = [
            &["-r", "./source", "./target"],
            &["-a", "./source/", "./lone", "-t", "./into"],
            &["./lone", "./target"],
            &["-rL", "./source/a/file", "./lone", "./into"],
            &["-rl", "./source", "./target"],
            &["-r", "-j1", "./missing", "./lone", "./into"],
            &["-r", "--exclude=f*", "--include=lone", "--min-size=1", "./source", "./lone", "./into"],
        ];
        for line in lines {
            let folder = tree();
            std::fs::create_dir(folder.path().join("into")).unwrap();
            let request = request(line, folder.path());
            let (total, _) = count(&request, None, &AtomicBool::new(false)).unwrap();
            let copied = SilentTally::default();
            let LoweredCopy { operands, options, run: run_options, .. } = &request;
            let config = &run_options.config;
            let cancel = &CancelToken::default();
            let outcome = run(
                &Alone,
                CopyRequest {
                    operands,
                    options,
                    config,
                    cancel,
                    digests: None,
                    journal: None,
                    deletion: None,
                },
                &copied,
            );
            assert!(outcome.is_ok(), "{line:?}: {outcome:?}");
            let copied = copied.0.into_inner().unwrap();
            assert_eq!(total, Total { entries: copied.finished, bytes: copied.bytes }, "{line:?}");
        }
    }

    /// Returns the latest birth time in a tree; `None` if there is no tree. If the clock was set
    /// back, that time is still to come.
    fn youngest(path: &Path) -> Option<Timestamp> {
        let found = c_string(path.as_os_str().as_bytes());
        let born = stat_path(None::<&Fd>, &found, false).ok().and_then(|stat| stat.born);
        let children = std::fs::read_dir(path).into_iter().flatten();
        children.map(|child| youngest(&child.unwrap().path())).fold(born, Ord::max)
    }

    /// Returns the space that a copy needs, in bytes, if `change` runs after the free space was
    /// read. `None` if the space isn't checked.
    fn needed(words: &[&str], folder: &Path, change: impl FnOnce()) -> Option<u64> {
        let born = youngest(&folder.join("target"));
        while Some(haul_sys::clock()) <= born {}
        let request = request(&[&["--reflink=never"], words].concat(), folder);
        let space = FreeSpace::before(&request.operands, &request.options)?;
        change();
        Some(count(&request, Some(&space), &AtomicBool::new(false)).unwrap().1)
    }

    #[test]
    fn a_copy_needs_room_for_what_its_files_occupy() {
        let folder = tree();
        let join = |name: &str| folder.path().join(name);
        let needed = |words: &[&str]| needed(words, folder.path(), || ());
        assert_eq!(needed(&["-r", "./source", "./target"]), Some(3500));
        assert_eq!(needed(&["-r", "./source", "./lone", "./source/a"]), Some(3570));
        std::fs::hard_link(join("lone"), join("source/lone")).unwrap();
        std::fs::hard_link(join("lone"), join("source/other")).unwrap();
        assert_eq!(needed(&["-a", "./source", "./target"]), Some(3570));
        assert_eq!(needed(&["-r", "./source", "./target"]), Some(3640));
        std::fs::File::create(join("sparse")).unwrap().set_len(1 << 20).unwrap();
        assert_eq!(needed(&["./sparse", "./target"]), Some(0));
        assert_eq!(needed(&["--sparse=never", "./sparse", "./target"]), Some(1 << 20));
        for option in ["-l", "-s", "--attributes-only", "-i", "--parents", "--sparse=always"] {
            assert_eq!(needed(&["-r", option, "./source", "./target"]), None, "{option}");
        }
    }

    #[test]
    fn existing_files_make_room_unless_the_copy_has_made_them() {
        let folder = tree();
        let join = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(join("target/a/b")).unwrap();
        write(&join("target/a/b/file"), &[1; 9000]);
        let tree = |option| needed(&["-rT", option, "./source", "./target"], folder.path(), || ());
        assert_eq!(tree("--progress=never"), Some(500));
        assert_eq!(["-n", "-u", "--update=none-fail", "-b"].map(tree), [500, 500, 500, 3500].map(Some));
        // Into the directory, where nothing is yet.
        assert_eq!(needed(&["-r", "./source", "./target"], folder.path(), || ()), Some(3500));
        let made = || write(&join("target/a/file"), &[1; 500]);
        assert_eq!(needed(&["-rT", "./source", "./target"], folder.path(), made), Some(500));
        assert_eq!(tree("--progress=never"), Some(0));
        // Larger, and newer or older than what is there.
        let source = std::fs::File::create(join("source/a/b/file")).unwrap();
        write(&join("source/a/b/file"), &[0; 30_000]);
        assert_eq!(tree("-u"), Some(30_000 - 12_288));
        source.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!((tree("-u"), tree("-f")), (Some(0), Some(30_000 - 12_288)));
    }

    #[test]
    fn a_shortage_is_more_than_is_free() {
        let folder = tree();
        let request = request(&["./lone", "./target"], folder.path());
        let mut space = FreeSpace::before(&request.operands, &request.options).unwrap();
        assert!(space.bytes > 0 && shortage(&space, space.bytes).is_none());
        space.bytes = 4_500_000_000;
        let problem = shortage(&space, 12_300_000_000).unwrap();
        let names: Vec<_> = problem.names.iter().map(|name| String::from_utf8_lossy(name)).collect();
        assert_eq!((names[0].as_ref(), names[1].as_ref()), ("12.3 GB", "4.50 GB"));
        assert!(names[2].ends_with("/target"));
        assert_eq!(problem.severity, haul_flow::Severity::Warning);
    }

    #[test]
    fn a_count_nobody_asks_for_any_more_is_none() {
        let folder = tree();
        assert_eq!(
            count(&request(&["-r", "./source", "./target"], folder.path()), None, &AtomicBool::new(true)),
            None
        );
    }
}
