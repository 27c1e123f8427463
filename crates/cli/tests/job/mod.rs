//! A slow copy by a batch job, and what its journal saves when the job ends too early.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use haul_testkit::compare::compare_paths;
use haul_testkit::{Facts, Standin, note, wait};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Slows down the copy: maximum metadata operations per second on the stand-in filesystem.
pub(crate) const SLOW: &str = "--client-metadata-rate=1500";
pub(crate) const FILES: usize = 300;

/// Facts of a copy from the stand-in, which has attributes of its own.
const FACTS: Facts = Facts::PRESERVED.difference(Facts::ATTRIBUTES.union(Facts::HOLES));

/// Files by path, with inode and ctime: a file copied again has another inode.
type Files = BTreeMap<PathBuf, (u64, i64, i64)>;

pub(crate) fn slow_tree(standin: &Standin) -> PathBuf {
    let root = standin.client(0).join("source");
    // One file per directory, so that each journaled batch is one file.
    for number in 0..FILES {
        let folder = root.join(format!("folder{number}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("file"), [b'a'; 4096]).unwrap();
    }
    root
}

/// Lists the files of a copy that have their final names.
pub(crate) fn files_in(copy: &Path) -> Files {
    let mut files = Files::new();
    for folder in fs::read_dir(copy).into_iter().flatten().flatten() {
        for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            // A temporary name may be gone by now.
            let Ok(facts) = file.metadata() else { continue };
            if file.file_name().to_str().is_some_and(|name| !name.starts_with('.')) {
                files.insert(file.path(), (facts.ino(), facts.ctime(), facts.ctime_nsec()));
            }
        }
    }
    files
}

/// Waits until a share of the files is copied; otherwise ends the copy and fails.
pub(crate) fn await_files(child: &mut Child, copy: &Path, count: usize) {
    if !wait::until(PATIENCE, || files_in(copy).len() > count) {
        child.kill().unwrap();
        panic!("nothing is copied: {:?}", child.stderr.take().map(io::read_to_string));
    }
}

pub(crate) fn assert_whole(source: &Path, copy: &Path) {
    let found = compare_paths(source, copy, FACTS).unwrap();
    assert!(found.list.is_empty(), "{:?}", found.list);
}

/// An interrupted copy.
pub(crate) struct Half {
    pub(crate) files: Files,
    /// Completed files in its journal.
    recorded: usize,
}

impl Half {
    /// Inspects a copy that no process works on any more. `folder` has the job's directory.
    pub(crate) fn of(folder: &Path, copy: &Path) -> Self {
        let mut names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let job_directory = names.find(|name| name.file_name().as_encoded_bytes().starts_with(b".haul-job-"));
        let journal = fs::read(job_directory.unwrap().path().join("journal")).unwrap();
        Self { files: files_in(copy), recorded: recorded_in(&journal) }
    }

    /// Asserts that the resumed copy is complete and didn't repeat the journaled files.
    pub(crate) fn judge(&self, source: &Path, copy: &Path) {
        assert_whole(source, copy);
        let after = files_in(copy);
        assert_eq!(after.len(), FILES);
        let kept = self.files.iter().filter(|(path, file)| after.get(*path) == Some(*file)).count();
        let (before, recorded) = (self.files.len(), self.recorded);
        note!("{before} files were there, {recorded} were in the journal, and {kept} were left as they are");
        assert!(recorded > 0 && kept >= recorded, "{recorded} recorded, {kept} of {before} files");
    }
}

/// Counts the completed files in a journal: a header line, then records of a length (2 bytes), a
/// checksum (4) and a payload that starts with its type. Of each completed entry the payload has a
/// key and a stamp (8 bytes each).
fn recorded_in(journal: &[u8]) -> usize {
    const DONE: u8 = 3;
    let mut journal = journal.strip_prefix(b"haul journal 4\n").unwrap();
    let mut recorded = 0;
    while let Some((head, rest)) = journal.split_at_checked(6) {
        let length = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let Some((payload, rest)) = rest.split_at_checked(length) else { break };
        if let Some((&DONE, entries)) = payload.split_first() {
            recorded += entries.len() / 16;
        }
        journal = rest;
    }
    recorded
}
