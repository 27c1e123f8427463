//! Spans made by other processes.
//!
//! Each group of files is then a span of its own. It is sent with its header blocks, the wanted
//! part of each file, and the path to the archive. The process that receives it puts the content
//! between the headers and writes the span at its offset. The outcome of each file is sent back to
//! the process that walks ([`ReadOutcome`](super::span_file::ReadOutcome)). A span that was lost
//! with its process is made again, and written to the same place.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use haul_cluster::{Distributed, ItemReceiver, RemotePath};
use haul_flow::{Context, DirHandle, DirNode, Problem, Split, lock};
use haul_sys::{Errno, Error, Open, Operation, open, write_all};
use serde::{Deserialize, Serialize};

use super::span_file::SpanFile;
use super::{LaunchState, PositionedWriter, SpanBuffer, SpanGroup};
use crate::TarKind;
use crate::examiner::ExitStatus;
use crate::format::BLOCK;
use crate::options::{self, Options};

/// Location of the archive: its directory, and its name there.
#[derive(Clone)]
pub(super) struct ArchiveLocation {
    directory: Arc<DirHandle>,
    name: CString,
}

#[derive(Serialize, Deserialize)]
struct PackedGroup {
    archive: RemotePath,
    name: CString,
    /// Offset in the archive and length of the span.
    offset: u64,
    length: usize,
    /// Contents before any file is read: runs of blocks, each with its offset in the span.
    blocks: Vec<(usize, Vec<u8>)>,
    files: Vec<SpanFile>,
}

impl PositionedWriter {
    /// Lets other processes make spans if they can find the archive; returns its directory then.
    pub(crate) fn share(&mut self, cache: &haul_flow::DirCache) -> Option<Arc<DirHandle>> {
        let launch = self.launch.as_mut()?;
        let options::ArchivePath::File(path) = &self.options.archive else { return None };
        let is_shared = launch.output.is_positioned && self.options.archive.is_for_all();
        let split = Split::of(path);
        let directory = split.hold(cache).ok().filter(|_| is_shared)?;
        let name = CString::new(split.base()).ok()?;
        launch.archive = Some(ArchiveLocation { directory: Arc::clone(&directory), name });
        Some(directory)
    }
}

impl SpanGroup {
    /// Writes the span to the archive, in the process that received it.
    pub(super) fn write_remotely(&self, cx: &Context<'_, PositionedWriter>) {
        let Some(archive) = &self.archive else { return };
        let bytes = std::mem::take(&mut *lock(&self.buffer.bytes));
        let written = cx.cache().open(&archive.directory).and_then(|directory| {
            let file = open(&*directory, &archive.name, Open::WRITE.following())?;
            let written = write_all(&file, self.buffer.offset, &bytes);
            // A write error may still surface when the file is closed.
            written.and(file.close())
        });
        if let Err(cause) = written {
            let path = archive.directory.path_of(&archive.name);
            cx.problem(Problem::new(TarKind::CannotWrite).naming(path).because(cause));
        }
    }
}

/// Returns the blocks of a span that are not all zeros.
fn blocks_of(bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut runs: Vec<(usize, Vec<u8>)> = Vec::new();
    for (number, block) in bytes.chunks(BLOCK).enumerate() {
        if block.iter().all(|byte| *byte == 0) {
            continue;
        }
        let at = number * BLOCK;
        match runs.last_mut() {
            Some((begins, run)) if *begins + run.len() == at => run.extend_from_slice(block),
            _ => runs.push((at, block.to_vec())),
        }
    }
    runs
}

/// Restores a span from its blocks; `None` if they do not fit.
fn span_of(length: usize, blocks: Vec<(usize, Vec<u8>)>) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    for (at, run) in blocks {
        bytes.get_mut(at..at.checked_add(run.len())?)?.copy_from_slice(&run);
    }
    Some(bytes)
}

impl Distributed for PositionedWriter {
    const NAME: &'static str = "tar -c";
    const KINDS: &'static [haul_flow::Kind] = TarKind::KINDS;

    fn init_message(&self) -> Vec<u8> {
        postcard::to_allocvec(&*self.options).unwrap_or_default()
    }

    fn from_init(init_message: &[u8]) -> Option<Self> {
        let options: Options = postcard::from_bytes(init_message).ok()?;
        Some(Self { options: Arc::new(options), status: Arc::new(ExitStatus::default()), launch: None })
    }

    fn is_distributable(&self, node: &haul_flow::DirNode<Self>) -> bool {
        node.own.archive.is_some()
    }

    fn finish_item(&self, cx: &Context<'_, Self>, node: &DirNode<Self>) {
        node.own.write_remotely(cx);
    }

    fn pack(&self, own: &SpanGroup) -> Vec<u8> {
        let (Some(archive), Some(LaunchState { layout, .. })) = (&own.archive, &self.launch) else {
            return Vec::new();
        };
        own.buffer.is_remote.store(true, Ordering::Relaxed);
        let span = &layout.spans[own.buffer.number];
        let headers =
            self.launch.as_ref().map(|launch| launch.headers(span, &self.options)).unwrap_or_default();
        let packed = PackedGroup {
            archive: RemotePath::to(&archive.directory),
            name: archive.name.clone(),
            offset: own.buffer.offset,
            length: headers.len(),
            blocks: blocks_of(&headers),
            files: own.files.clone(),
        };
        postcard::to_allocvec(&packed).unwrap_or_default()
    }

    fn unpack(&self, packed: &[u8], receiver: &ItemReceiver<'_>) -> Result<SpanGroup, (Vec<u8>, Error)> {
        let invalid = || (Vec::new(), Error::new(Operation::Openat, String::new(), Errno::INVAL));
        let packed: PackedGroup = postcard::from_bytes(packed).map_err(|_| invalid())?;
        let bytes = span_of(packed.length, packed.blocks).ok_or_else(invalid)?;
        let buffer = SpanBuffer {
            number: 0,
            offset: packed.offset,
            bytes: Mutex::new(bytes),
            groups: AtomicUsize::new(1),
            is_remote: AtomicBool::new(false),
        };
        let archive = ArchiveLocation { directory: receiver.hold(&packed.archive)?, name: packed.name };
        Ok(SpanGroup { buffer: Arc::new(buffer), files: packed.files, archive: Some(archive) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_where_they_were() {
        let mut bytes = vec![0; 20 * BLOCK];
        bytes[..700].fill(1);
        bytes[5 * BLOCK + 3] = 2;
        bytes[19 * BLOCK..].fill(3);
        let blocks = blocks_of(&bytes);
        assert_eq!(
            blocks.iter().map(|(at, run)| (*at / BLOCK, run.len() / BLOCK)).collect::<Vec<_>>(),
            [(0, 2), (5, 1), (19, 1)]
        );
        assert_eq!(span_of(bytes.len(), blocks.clone()), Some(bytes));
        assert_eq!(span_of(19 * BLOCK, blocks), None);
        assert_eq!(blocks_of(&[0; 3 * BLOCK]), []);
    }
}
