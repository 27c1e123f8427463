//! Manifests that are written: the file, and `cp --manifest`.

use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use haul_copy::{CopyKind, DigestSink, FileDigest, Operands};
use haul_digest::Algorithm;
use haul_digest::manifest::{Creator, Format, HashRecord, LineEnd, Writer};
use haul_flow::{Problem, lock};
use haul_sum::{ManifestFile, SumKind};
use haul_sys::{Identity, reason};

use crate::report::Console;
use crate::signals::{self, SignalGuard};
use crate::work::identity_of;

/// Creates the file of a manifest. If a signal ends the program while the guard lives, the file is
/// removed first.
///
/// # Errors
/// If it can't be created.
pub(crate) fn create_file(
    path: &CStr,
    console: &Console,
) -> Result<(ManifestFile, Option<SignalGuard>), Problem> {
    let file = ManifestFile::create(path)?;
    let abandoned = file.clone();
    let guard = signals::before_end(move || abandoned.abandon());
    if let Err(why) = &guard {
        console.remark(&format!("a temporary file will remain if haul is killed: {}", reason(why)));
    }
    Ok((file, guard.ok()))
}

/// Returns what manifests say of their creator.
pub(crate) fn creator() -> Creator {
    // Unknown without /proc.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "unknown" } else { host.trim() };
    Creator {
        host: host.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        created: SystemTime::now(),
    }
}

/// The manifest that a copy is to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManifestRequest {
    pub(crate) path: CString,
    pub(crate) format: Format,
    pub(crate) algorithm: Algorithm,
}

/// The manifest of a running copy. It appears under its name when it is complete.
pub(crate) struct Manifest {
    path: CString,
    file: ManifestFile,
    writer: Writer,
    algorithm: Algorithm,
    files: Arc<Mutex<Vec<FileDigest>>>,
    _guard: Option<SignalGuard>,
}

impl Manifest {
    /// Creates the file, before anything is copied.
    ///
    /// # Errors
    /// If it can't be created, or would replace one of the operands.
    pub(crate) fn create(
        request: &ManifestRequest,
        operands: &Operands,
        console: &Console,
    ) -> Result<Self, Problem> {
        if let Some(replaced) = identity_of(&request.path)
            && let Some(operand) = operands.names.iter().find(|name| identity_of(name) == Some(replaced))
        {
            let problem = Problem::new(CopyKind::SameFile).naming(operand.to_bytes());
            return Err(problem.naming(request.path.to_bytes()));
        }
        let algorithm = request.algorithm;
        let writer = Writer::new(request.format, algorithm, LineEnd::LineFeed, &creator())
            .map_err(|_| Problem::new(SumKind::NotInMhl).naming(algorithm.name()))?;
        let (file, guard) = create_file(&request.path, console)?;
        let path = request.path.clone();
        Ok(Self { path, file, writer, algorithm, files: Arc::default(), _guard: guard })
    }

    /// Returns the identities of the file and of the one that it will replace.
    pub(crate) fn own_files(&self) -> Vec<Identity> {
        self.file.identities()
    }

    pub(crate) fn sink(&self) -> DigestSink {
        let files = Arc::clone(&self.files);
        DigestSink::new(move |file| lock(&files).push(file)).with_algorithm(self.algorithm)
    }

    /// Writes the list, sorted by path, so that two runs give the same bytes.
    ///
    /// # Errors
    /// If it can't be written. What had its name before, if anything, is still there then.
    pub(crate) fn commit(mut self) -> Result<(), Problem> {
        if identity_of(&self.path).is_some_and(|there| !self.own_files().contains(&there)) {
            return Err(Problem::new(CopyKind::ManifestTaken).naming(self.path.to_bytes()));
        }
        let mut files = std::mem::take(&mut *lock(&self.files));
        files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        let mut text = Vec::new();
        self.writer.begin(&mut text);
        for FileDigest { path, size, digest } in files {
            let record = HashRecord { path: &path, size: Some(size), digest };
            self.writer
                .record(&mut text, &record)
                .map_err(|_| Problem::new(SumKind::NotInMhl).naming(path.clone()))?;
            self.file.write(&text)?;
            text.clear();
        }
        self.writer.end(&mut text);
        self.file.write(&text)?;
        self.file.commit()
    }
}
