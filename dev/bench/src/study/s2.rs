//! S2, asynchronous buffered I/O by retry (Bhattacharya): aio-stress, here as `haul-bench aio`.
//!
//! One file of 1 GB, records of 64 KB, depth 64, 8 I/Os per iteration, at most 8 per submit,
//! buffers aligned to 4 KB, buffered and with O_DIRECT, nothing of the file in memory at the
//! start. The document compares a kernel that blocks in `io_submit` ("vanilla") with one that
//! retries ("patched"). Here every engine of haul does the same work, and the blocking engine is
//! the reference.
//!
//! `haul-bench aio` writes the file and drops it from memory before its clock starts. After writes
//! without O_SYNC, it reports the time of an fsync separately. (aio-stress does the same and prints
//! the rate with its fsync in parentheses. The document's parentheses probably mean the same, but
//! it does not say so.)

use super::{Against, PartWork, Role, Study, StudyName, StudyPart, StudySetting, Unit};
use crate::error::{Error, Result};

pub(crate) struct TuningRow {
    pub(crate) label: &'static str,
    /// Name for `--only`.
    pub(crate) name: &'static str,
    words: [&'static str; 4],
}

pub(crate) const ROWS: [TuningRow; 6] = [
    row("Random-Read", "random-read", "random", "read"),
    row("Random-O_SYNC-Write", "random-sync-write", "random", "sync-write"),
    row("Sequential-Read", "sequential-read", "sequential", "read"),
    row("Sequential-O_SYNC-Write", "sequential-sync-write", "sequential", "sync-write"),
    row("Random-Write", "random-write", "random", "write"),
    row("Sequential-Write", "sequential-write", "sequential", "write"),
];

const fn row(
    label: &'static str,
    name: &'static str,
    pattern: &'static str,
    kind: &'static str,
) -> TuningRow {
    TuningRow { label, name, words: ["--pattern", pattern, "--kind", kind] }
}

pub(crate) const ENGINES: [(&str, Role); 5] = [
    ("sync", Role::Sync),
    ("kernel-aio", Role::KernelAio),
    ("posix-aio", Role::PosixAio),
    ("io-uring", Role::IoUring),
    ("retry", Role::Retry),
];

/// Suffix of an engine's ID when it bypasses the page cache.
pub(crate) const DIRECT: &str = "/direct";

const FILE_BYTES: u64 = 1 << 30;

const RECORD_BYTES: u64 = 64 * 1024;

/// Builds the study; the scale applies to the size of the file, in whole records.
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
        StudyPart {
            name: row.name.to_owned(),
            group: "aio-stress".to_owned(),
            label: row.label.to_owned(),
            work: PartWork::Rate { file_bytes, words },
            settings: settings(),
        }
    });
    Ok(Study { name: StudyName::S2, unit: Unit::MegabytesPerSecond, rounds: 3, parts: parts.collect() })
}

fn settings() -> Vec<StudySetting> {
    let both = |direct: bool| {
        ENGINES.map(|(engine, role)| {
            let (id, words, reference) = if direct {
                (format!("{engine}{DIRECT}"), format!("--engine {engine} --direct"), "sync/direct")
            } else {
                (engine.to_owned(), format!("--engine {engine}"), "sync")
            };
            let against = if id == reference { Against::Nobody } else { Against::BetterThan(reference) };
            let label = if direct { format!("{engine}, direct") } else { engine.to_owned() };
            StudySetting { against, ..StudySetting::haul(&id, role, &words).called(&label) }
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
                PartWork::Rate { words, .. } => words.join(" "),
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
        let PartWork::Rate { file_bytes, .. } = study.parts[0].work else { panic!("{study:?}") };
        assert!(file_bytes % RECORD_BYTES == 0 && file_bytes > 10_000_000, "{file_bytes}");
        assert!(super::study(1e-9).is_err());
    }
}
