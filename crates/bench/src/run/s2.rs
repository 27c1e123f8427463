//! S2, asynchronous buffered I/O by retry (Bhattacharya): aio-stress, as `haul bench aio` does it.
//!
//! One file of 1 GB, records of 64 KB, depth 64, 8 I/Os per iteration, at most 8 per submit, buffers
//! aligned to 4 KB, buffered and with O_DIRECT, nothing of the file in memory at the start. The document
//! compares a kernel that blocks in `io_submit` ("vanilla") with one that retries ("patched"); here every
//! engine of haul does the same work, and the blocking one is the reference.
//!
//! `haul bench aio` lays the file out and takes it out of memory before its clock starts; after writes
//! without O_SYNC it gives the time of an fsync apart. (aio-stress does the same, and prints the rate with
//! its fsync in parentheses; that the document's parentheses are those is likely, and not said.)

use super::study::{Against, Name, Part, Role, Setting, Study, Unit, Work};
use crate::error::{Error, Result};

/// A row of the document's table.
pub(crate) struct Row {
    /// What the document calls it.
    pub(crate) label: &'static str,
    /// What `--only` calls it.
    pub(crate) name: &'static str,
    /// The words of `haul bench aio` for it.
    words: [&'static str; 4],
}

/// The rows, in the document's order.
pub(crate) const ROWS: [Row; 6] = [
    row("Random-Read", "random-read", "random", "read"),
    row("Random-O_SYNC-Write", "random-sync-write", "random", "sync-write"),
    row("Sequential-Read", "sequential-read", "sequential", "read"),
    row("Sequential-O_SYNC-Write", "sequential-sync-write", "sequential", "sync-write"),
    row("Random-Write", "random-write", "random", "write"),
    row("Sequential-Write", "sequential-write", "sequential", "write"),
];

const fn row(label: &'static str, name: &'static str, pattern: &'static str, kind: &'static str) -> Row {
    Row { label, name, words: ["--pattern", pattern, "--kind", kind] }
}

/// The engines, and what plots make of them.
pub(crate) const ENGINES: [(&str, Role); 5] = [
    ("sync", Role::Sync),
    ("kernel-aio", Role::KernelAio),
    ("posix-aio", Role::PosixAio),
    ("io-uring", Role::IoUring),
    ("retry", Role::Retry),
];

/// What is added to an engine's name where it goes round the page cache.
pub(crate) const DIRECT: &str = "/direct";

/// The document's file.
const FILE_BYTES: u64 = 1 << 30;

/// The document's records.
const RECORD_BYTES: u64 = 64 * 1024;

/// Lays the study out; the size of the file is scaled, in whole records.
///
/// # Errors
///
/// [`Error::Refused`] for a file smaller than one iteration.
pub(crate) fn study(scale: f64) -> Result<Study> {
    let records = (FILE_BYTES as f64 * scale / RECORD_BYTES as f64).round() as u64;
    if records < 8 {
        return Err(Error::Refused("--scale: the file would be smaller than 8 records of 64 KiB".to_owned()));
    }
    let file_bytes = records.saturating_mul(RECORD_BYTES);
    let parts = ROWS.iter().map(|row| {
        let shared = format!(
            "--file-size {file_bytes} --record-size {RECORD_BYTES} --depth 64 --per-iteration 8 \
             --max-submit 8 --alignment 4096 --rounds 1"
        );
        let words = row.words.into_iter().chain(shared.split_whitespace()).map(str::to_owned).collect();
        Part {
            name: row.name.to_owned(),
            group: "aio-stress".to_owned(),
            label: row.label.to_owned(),
            work: Work::Rate { file_bytes, words },
            settings: settings(),
        }
    });
    Ok(Study { name: Name::S2, unit: Unit::MegabytesPerSecond, rounds: 3, parts: parts.collect() })
}

fn settings() -> Vec<Setting> {
    let both = |direct: bool| {
        ENGINES.map(|(engine, role)| {
            let (id, words, reference) = if direct {
                (format!("{engine}{DIRECT}"), format!("--engine {engine} --direct"), "sync/direct")
            } else {
                (engine.to_owned(), format!("--engine {engine}"), "sync")
            };
            let against = if id == reference { Against::Nobody } else { Against::BetterThan(reference) };
            let label = if direct { format!("{engine}, direct") } else { engine.to_owned() };
            Setting { against, ..Setting::haul(&id, role, &words).called(&label) }
        })
    };
    [both(false), both(true)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_have_the_documents_parameters() {
        let study = study(1.0).unwrap();
        let lines: Vec<String> = study
            .parts
            .iter()
            .map(|part| match &part.work {
                Work::Rate { words, .. } => words.join(" "),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(lines.len(), 6);
        let shared = "--file-size 1073741824 --record-size 65536 --depth 64 --per-iteration 8 \
                      --max-submit 8 --alignment 4096 --rounds 1";
        assert_eq!(lines[0], format!("--pattern random --kind read {shared}"));
        assert_eq!(lines[3], format!("--pattern sequential --kind sync-write {shared}"));
        assert!(study.parts.iter().all(|part| part.settings.len() == 10));
    }

    #[test]
    fn the_file_has_whole_records_whatever_the_scale() {
        let study = study(0.0101).unwrap();
        let Work::Rate { file_bytes, .. } = study.parts[0].work else { panic!("{study:?}") };
        assert!(file_bytes % RECORD_BYTES == 0 && file_bytes > 10_000_000, "{file_bytes}");
        assert!(super::study(1e-9).is_err());
    }
}
