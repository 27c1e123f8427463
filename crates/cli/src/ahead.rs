//! Counts how much a copy has to do while it runs, for percentage and time left.
//!
//! The library walks the sources. This module adds up, and makes sure that the count uses none of
//! the copy's descriptors: if these are scarce, nothing is counted.
//!
//! It cannot foresee files that are skipped (`-n`) or change meanwhile.
//!
//! Invariant: entries are counted as the copy counts them
//! (test: `the_whole_is_what_a_copy_finishes`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use haul_copy::{Make, survey};
use haul_flow::{Line, Problem, Report, Settings, Tally, lock};

use crate::flags::Request;
use crate::progress::Whole;

/// Descriptors that must be left for the count.
const DESCRIPTORS: usize = 64;

/// Upper bound on the descriptors of one of the copy's workers, besides its files.
const DESCRIPTORS_PER_WORKER: usize = 8;

/// Counts what a request will copy. `None` if that can't be known, or once `over` is set.
pub(crate) fn count(request: &Request, over: &AtomicBool) -> Option<Whole> {
    let copy = Settings::resolve(&request.run.config);
    let spent = copy.held + copy.jobs * (DESCRIPTORS_PER_WORKER + 2 * copy.window);
    if spent + DESCRIPTORS > haul_sys::descriptor_limit() {
        return None;
    }
    let sum = Sum::default();
    survey(&request.operands, &request.options, &sum, over);
    let Tally { discovered: found, bytes, .. } = sum.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Links are made without moving data.
    let bytes = if request.options.make == Make::Copy { bytes } else { 0 };
    (!over.load(Ordering::Relaxed)).then_some(Whole { entries: found, bytes })
}

/// Adds up counts and reports nothing.
#[derive(Default)]
struct Sum(Mutex<Tally>);

impl Report for Sum {
    fn count(&self, more: Tally) {
        *lock(&self.0) += more;
    }

    fn problem(&self, _problem: Problem) {}

    fn output(&self, _: haul_sys::Standard, _: &[u8]) {}
    fn line(&self, _line: Line) {}

    fn debug(&self, _text: &str) {}
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use haul_copy::{CopyRequest, run};
    use haul_flow::{Alone, CancelToken};

    use super::*;
    use crate::flags::{self, Environment, Parsed};

    fn request(words: &[&str], folder: &Path) -> Request {
        let words: Vec<_> = words
            .iter()
            .map(|word| match word.strip_prefix("./") {
                Some(name) => folder.join(name).into_os_string(),
                None => OsString::from(word),
            })
            .collect();
        match flags::parse(&words, Environment::default(), &mut |_| {}) {
            Ok(Parsed::Copy(request)) => *request,
            other => panic!("{other:?}"),
        }
    }

    fn tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        std::fs::create_dir_all(source.join("a/b")).unwrap();
        std::fs::write(source.join("a/b/file"), [0; 3000]).unwrap();
        std::fs::write(source.join("a/file"), [0; 500]).unwrap();
        std::fs::write(folder.path().join("lone"), [0; 70]).unwrap();
        symlink("file", source.join("a/link")).unwrap();
        folder
    }

    #[test]
    fn the_whole_is_what_a_copy_finishes() {
        let lines: [&[&str]; 6] = [
            &["-r", "./source", "./target"],
            &["-a", "./source/", "./lone", "-t", "./into"],
            &["./lone", "./target"],
            &["-rL", "./source/a/file", "./lone", "./into"],
            &["-rl", "./source", "./target"],
            &["-r", "-j1", "./missing", "./lone", "./into"],
        ];
        for line in lines {
            let folder = tree();
            std::fs::create_dir(folder.path().join("into")).unwrap();
            let request = request(line, folder.path());
            let whole = count(&request, &AtomicBool::new(false)).unwrap();
            let copied = Sum::default();
            let Request { operands, options, run: run_options, .. } = &request;
            let config = &run_options.config;
            let cancel = &CancelToken::default();
            let outcome = run(
                &Alone,
                CopyRequest { operands, options, config, cancel, digests: None, journal: None },
                &copied,
            );
            assert!(outcome.is_ok(), "{line:?}: {outcome:?}");
            let copied = copied.0.into_inner().unwrap();
            assert_eq!(whole, Whole { entries: copied.finished, bytes: copied.bytes }, "{line:?}");
        }
    }

    #[test]
    fn a_count_nobody_asks_for_any_more_is_none() {
        let folder = tree();
        assert_eq!(
            count(&request(&["-r", "./source", "./target"], folder.path()), &AtomicBool::new(true)),
            None
        );
    }
}
