//! Lists the hashes, as text or as values: operands in order, the files of each tree sorted by
//! path.
//!
//! The files of an operand are sorted and written when all of them, and all operands before it, are
//! complete. Until then each takes about 100 bytes plus its path.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use haul_digest::manifest::{HashRecord, WriteError, Writer};
use haul_digest::{AtomicFile, CreateError, Digest};
use haul_flow::{Problem, Reporter, Standard, lock, sweep};
use haul_sys::{Identity, c_string, stat};

use super::SumKind;
use super::options::OwnFile;

/// Size at which the text is passed on, in bytes.
const TEXT_BYTES: usize = 64 << 10;

/// A manifest that is being written to a file.
#[derive(Clone, Default)]
pub struct ManifestFile {
    path: Vec<u8>,
    file: Arc<Mutex<Option<AtomicFile>>>,
}

impl ManifestFile {
    /// Creates the file under a temporary name, and removes those that killed runs have left there.
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
        // Leftovers that can't be removed stay, under names that say what they are.
        sweep(file.directory(), AtomicFile::is_leftover).map(drop).unwrap_or_default();
        Ok(Self { path: path.to_bytes().to_vec(), file: Arc::new(Mutex::new(Some(file))) })
    }

    /// Removes the file, unless it is complete.
    pub fn abandon(&self) {
        lock(&self.file).take();
    }

    /// Returns the file and the one that it will replace.
    pub(super) fn files(&self) -> Vec<OwnFile> {
        let file = lock(&self.file);
        let Some(file) = &*file else { return Vec::new() };
        // If it can't be examined, neither can the walk.
        let directory = stat(file.directory()).map_or(0, |stat| stat.identity.inode);
        let own =
            |(name, file): (&CStr, Identity)| OwnFile { directory, name: name.to_owned(), inode: file.inode };
        file.files().map(own).collect()
    }

    /// Returns the identities of the file and of the one that it will replace.
    #[must_use]
    pub fn identities(&self) -> Vec<Identity> {
        lock(&self.file).iter().flat_map(AtomicFile::files).map(|(_, file)| file).collect()
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

/// The hash of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHash {
    /// Its path, as it would be shown: that of the operand, and the part below it.
    pub path: PathBuf,
    /// Its length in bytes, if it was a regular file.
    pub bytes: Option<u64>,
    /// The hash.
    pub digest: Digest,
}

/// The hashes of a run.
pub(super) struct Hashes {
    state: Mutex<ListingState>,
}

/// Format and destination of the hashes.
enum List {
    /// Text, in a file or on standard output.
    Text {
        writer: Writer,
        text: Vec<u8>,
        manifest: Option<ManifestFile>,
    },
    Values(Vec<FileHash>),
}

struct ListingState {
    list: List,
    /// Files of operands that are not written yet.
    waiting: BTreeMap<usize, Vec<UnlistedHash>>,
    /// Operands that are complete but not written yet.
    over: BTreeSet<usize>,
    /// Index of the operand that is written next.
    turn: usize,
    has_failed: bool,
}

struct UnlistedHash {
    path: Box<[u8]>,
    size: Option<u64>,
    digest: Digest,
}

impl Hashes {
    /// Lists them as text, in a file or on standard output.
    pub(super) fn text(mut writer: Writer, manifest: Option<ManifestFile>) -> Self {
        let mut text = Vec::new();
        writer.begin(&mut text);
        Self::new(List::Text { writer, text, manifest })
    }

    /// Lists them as values.
    pub(super) fn values() -> Self {
        Self::new(List::Values(Vec::new()))
    }

    fn new(list: List) -> Self {
        let (waiting, over) = (BTreeMap::new(), BTreeSet::new());
        Self { state: Mutex::new(ListingState { list, waiting, over, turn: 0, has_failed: false }) }
    }

    /// Returns the values that were listed.
    pub(super) fn into_values(self) -> Vec<FileHash> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        match state.list {
            List::Values(values) => values,
            List::Text { .. } => Vec::new(),
        }
    }

    /// Keeps the hash of a file below an operand.
    pub(super) fn take(&self, index: usize, path: Vec<u8>, size: Option<u64>, digest: Digest) {
        let mut state = lock(&self.state);
        state.waiting.entry(index).or_default().push(UnlistedHash { path: path.into(), size, digest });
    }

    /// Called when everything below an operand is complete. Writes the results that are due.
    pub(super) fn end(&self, report: &dyn Reporter, index: usize) {
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
            files.into_iter().for_each(|file| state.list(report, file));
        }
    }

    /// Writes the end. Returns true if everything was written.
    pub(super) fn finish(&self, report: &dyn Reporter) -> bool {
        let mut state = lock(&self.state);
        if let List::Text { writer, text, .. } = &mut state.list {
            writer.end(text);
        }
        state.pass_on(report);
        if let List::Text { manifest: Some(manifest), .. } = &state.list {
            let committed = manifest.commit();
            state.note(report, committed);
        }
        !state.has_failed
    }
}

impl ListingState {
    fn list(&mut self, report: &dyn Reporter, file: UnlistedHash) {
        let UnlistedHash { path, size, digest } = file;
        let (writer, text) = match &mut self.list {
            List::Text { writer, text, .. } => (writer, text),
            List::Values(values) => {
                let path = PathBuf::from(OsString::from_vec(path.into_vec()));
                values.push(FileHash { path, bytes: size, digest });
                return;
            }
        };
        let listed = writer.record(text, &HashRecord { path: &path, size, digest });
        let is_due = text.len() >= TEXT_BYTES;
        if let Err(WriteError::NotInMhl(_) | WriteError::NameNotInMhl) = listed {
            self.note(report, Err(Problem::new(SumKind::NotInMhl).naming(path.to_vec())));
        }
        if is_due {
            self.pass_on(report);
        }
    }

    fn pass_on(&mut self, report: &dyn Reporter) {
        let List::Text { text, manifest, .. } = &mut self.list else { return };
        let text = std::mem::take(text);
        match manifest {
            None => report.output(Standard::Output, &text),
            Some(manifest) => {
                let written = manifest.write(&text);
                self.note(report, written);
            }
        }
    }

    fn note(&mut self, report: &dyn Reporter, outcome: Result<(), Problem>) {
        if let Err(problem) = outcome {
            self.has_failed = true;
            report.problem(problem);
        }
    }
}

/// Returns the parts of a path. Sorted by them, what is in a directory comes right behind it.
fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
}
