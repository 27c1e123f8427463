//! `cp --manifest`: the list of the files that were copied, with their hashes.

use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use haul_copy::{CopyKind, DigestSink, FileDigest, Operands};
use haul_digest::Algorithm;
use haul_digest::manifest::{Creator, Format, Record, Writer};
use haul_flow::Problem;
use haul_sum::ManifestFile;
use haul_sys::Fd;

use crate::signals::{self, Ear};

/// A manifest to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManifestRequest {
    pub(crate) path: CString,
    pub(crate) format: Format,
}

/// A manifest of a copy that is running. It appears under its name when it is complete.
pub(crate) struct Manifest {
    file: ManifestFile,
    format: Format,
    files: Arc<Mutex<Vec<FileDigest>>>,
    /// Removes the temporary file if a signal ends the program.
    _ear: Option<Ear>,
}

impl Manifest {
    /// Creates the file, before anything is copied.
    ///
    /// # Errors
    /// If it can't be created, or would replace one of the operands.
    pub(crate) fn create(request: &ManifestRequest, operands: &Operands) -> Result<Self, Problem> {
        let identity =
            |path: &CStr| haul_sys::stat_path::<&Fd>(None, path, true).ok().map(|stat| stat.identity);
        if let Some(replaced) = identity(&request.path)
            && let Some(operand) = operands.names.iter().find(|name| identity(name) == Some(replaced))
        {
            let problem = Problem::new(CopyKind::SameFile).naming(operand.to_bytes());
            return Err(problem.naming(request.path.to_bytes()));
        }
        let file = ManifestFile::create(&request.path)?;
        let abandoned = file.clone();
        // Without handlers, a temporary file remains after a signal, and nothing else is lost.
        let ear = signals::before_end(move || abandoned.abandon()).ok();
        Ok(Self { file, format: request.format, files: Arc::default(), _ear: ear })
    }

    pub(crate) fn sink(&self) -> DigestSink {
        let files = Arc::clone(&self.files);
        DigestSink::new(move |file| files.lock().unwrap_or_else(PoisonError::into_inner).push(file))
    }

    /// Writes the list, sorted by path, so that two runs give the same bytes.
    ///
    /// # Errors
    /// If it can't be written. Then there is no file, or the one that was there before.
    pub(crate) fn commit(self) -> Result<(), Problem> {
        let mut files = std::mem::take(&mut *self.files.lock().unwrap_or_else(PoisonError::into_inner));
        files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        let creator =
            Creator { host: String::new(), version: String::new(), created: SystemTime::UNIX_EPOCH };
        let mut text = Vec::new();
        // The parser of options has refused formats that can't have BLAKE3.
        if let Ok(mut writer) = Writer::new(self.format, Algorithm::Blake3, false, &creator) {
            writer.begin(&mut text);
            for FileDigest { path, size, digest } in &files {
                let record = Record { path, size: Some(*size), digest: *digest };
                // Only MHL refuses names.
                writer.record(&mut text, &record).unwrap_or_default();
                if text.len() >= WRITE_BYTES {
                    self.file.write(&std::mem::take(&mut text))?;
                }
            }
            writer.end(&mut text);
        }
        self.file.write(&text)?;
        self.file.commit()
    }
}

/// Bytes that are written at once.
const WRITE_BYTES: usize = 64 << 10;
