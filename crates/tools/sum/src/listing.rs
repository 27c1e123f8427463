//! Lists the hashes: operands in order, the files of each tree sorted by path.
//!
//! The files of an operand are sorted and written when all of them, and all operands before it, are
//! complete. Until then each takes about 100 bytes plus its path.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex};

use haul_digest::manifest::{Record, WriteError, Writer};
use haul_digest::{AtomicFile, CreateError, Digest};
use haul_flow::{Problem, Report, Standard, lock};
use haul_sys::c_string;

use super::SumKind;

/// Size at which the text is passed on, in bytes.
const TEXT_BYTES: usize = 64 << 10;

/// A manifest that is being written to a file.
#[derive(Clone, Default)]
pub struct ManifestFile {
    path: Vec<u8>,
    file: Arc<Mutex<Option<AtomicFile>>>,
}

impl ManifestFile {
    /// Creates the file under a temporary name.
    ///
    /// # Errors
    /// [`SumKind::CannotWrite`], [`SumKind::NotRegular`].
    pub fn create(path: &CStr) -> Result<Self, Problem> {
        let file = AtomicFile::create(path).map_err(|error| match error {
            CreateError::NotRegular => Problem::new(SumKind::NotRegular).naming(path.to_bytes()),
            CreateError::Failed(cause) => {
                Problem::new(SumKind::CannotWrite).naming(path.to_bytes()).because(cause)
            }
        })?;
        Ok(Self { path: path.to_bytes().to_vec(), file: Arc::new(Mutex::new(Some(file))) })
    }

    /// Removes the file, unless it is complete.
    pub fn abandon(&self) {
        lock(&self.file).take();
    }

    /// Returns names and inode numbers of the file and of the one that it will replace.
    pub(super) fn files(&self) -> Vec<(CString, u64)> {
        let file = lock(&self.file);
        let files = file.iter().flat_map(AtomicFile::files);
        files.map(|(name, file)| (name.to_owned(), file.inode)).collect()
    }

    /// Writes the next part.
    ///
    /// # Errors
    /// [`SumKind::CannotWrite`]. The file is removed then.
    pub fn write(&self, text: &[u8]) -> Result<(), Problem> {
        let mut file = lock(&self.file);
        let Some(open) = file.as_mut() else { return Ok(()) };
        let written = open.write(text);
        if written.is_err() {
            file.take();
        }
        written.map_err(|cause| self.problem(cause))
    }

    /// Gives the file its name, when it is on storage.
    ///
    /// # Errors
    /// [`SumKind::CannotWrite`]. The file is removed then.
    pub fn commit(&self) -> Result<(), Problem> {
        let file = lock(&self.file).take();
        file.map_or(Ok(()), AtomicFile::commit).map_err(|cause| self.problem(cause))
    }

    fn problem(&self, cause: haul_sys::Error) -> Problem {
        Problem::new(SumKind::CannotWrite).naming(c_string(&self.path).into_bytes()).because(cause)
    }
}

/// The hashes of a run.
pub(super) struct Hashes {
    manifest: Option<ManifestFile>,
    state: Mutex<State>,
}

struct State {
    writer: Writer,
    text: Vec<u8>,
    /// Files of operands that are not written yet.
    waiting: BTreeMap<usize, Vec<FileHash>>,
    /// Operands that are complete but not written yet.
    over: BTreeSet<usize>,
    /// Index of the operand that is written next.
    turn: usize,
    has_failed: bool,
}

struct FileHash {
    path: Box<[u8]>,
    size: Option<u64>,
    digest: Digest,
}

impl Hashes {
    pub(super) fn new(mut writer: Writer, manifest: Option<ManifestFile>) -> Self {
        let mut text = Vec::new();
        writer.begin(&mut text);
        let (waiting, over) = (BTreeMap::new(), BTreeSet::new());
        let state = State { writer, text, waiting, over, turn: 0, has_failed: false };
        Self { manifest, state: Mutex::new(state) }
    }

    /// Keeps the hash of a file below an operand.
    pub(super) fn take(&self, index: usize, path: Vec<u8>, size: Option<u64>, digest: Digest) {
        let mut state = lock(&self.state);
        state.waiting.entry(index).or_default().push(FileHash { path: path.into(), size, digest });
    }

    /// Called when everything below an operand is complete. Writes what is due.
    pub(super) fn end(&self, report: &dyn Report, index: usize) {
        let mut state = lock(&self.state);
        state.over.insert(index);
        while {
            let turn = state.turn;
            state.over.remove(&turn)
        } {
            let turn = state.turn;
            state.turn += 1;
            let mut files = state.waiting.remove(&turn).unwrap_or_default();
            files.sort_unstable_by(|one, other| components(&one.path).cmp(components(&other.path)));
            files.iter().for_each(|file| self.list(&mut state, report, file));
        }
    }

    fn list(&self, state: &mut State, report: &dyn Report, file: &FileHash) {
        let State { writer, text, .. } = state;
        let record = Record { path: &file.path, size: file.size, digest: file.digest };
        if let Err(error) = writer.record(text, &record) {
            let kind = match error {
                WriteError::NotInMhl(_) | WriteError::NameNotInMhl => SumKind::NotInMhl,
            };
            state.has_failed = true;
            report.problem(Problem::new(kind).naming(file.path.to_vec()));
        }
        if state.text.len() >= TEXT_BYTES {
            self.pass_on(state, report);
        }
    }

    fn pass_on(&self, state: &mut State, report: &dyn Report) {
        let text = std::mem::take(&mut state.text);
        match &self.manifest {
            None => report.output(Standard::Output, &text),
            Some(manifest) => Self::note(state, report, manifest.write(&text)),
        }
    }

    fn note(state: &mut State, report: &dyn Report, outcome: Result<(), Problem>) {
        if let Err(problem) = outcome {
            state.has_failed = true;
            report.problem(problem);
        }
    }

    /// Writes the end. Returns true if everything was written.
    pub(super) fn finish(&self, report: &dyn Report) -> bool {
        let mut state = lock(&self.state);
        let State { writer, text, .. } = &mut *state;
        writer.end(text);
        self.pass_on(&mut state, report);
        if let Some(manifest) = &self.manifest {
            Self::note(&mut state, report, manifest.commit());
        }
        !state.has_failed
    }
}

/// Returns the parts of a path. Sorted by them, what is in a directory comes right behind it.
fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
}
