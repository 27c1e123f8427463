//! S3, copy_async (Mahajan and Bandi, 2022): 128 files of 32 KB, 1 MB and 100 MB, copied with one
//! operation per file in flight, several, and batches of them, buffered and with O_DIRECT.
//!
//! The document's sizes are multiples of 4,096 bytes, so its KB and MB are powers of 1024; its
//! buffer is 128 KB. Parts:
//!
//! - `small`, `medium`, `large`: every engine x kind of operation x buffered or direct, GNU cp, and
//!   haul's own choice; the same runs give peak memory.
//! - `fallocate`: target allocated beforehand or not, medium files, one operation per file.
//! - `depth-buffered`, `depth-direct`: 1 to 256 files in flight, medium files. One worker, so
//!   that the depth is that of the whole program, as in the document; as many files open ahead
//!   as operations.
//!
//! GNU cp has no O_DIRECT (the document uses a copier of its own for it), so the direct engines are
//! shown next to haul's blocking engine with `--direct`.

use super::{PartWork, Role, Study, StudyName, StudyPart, StudySetting, Unit};
use crate::error::Result;
use crate::shapes::{ShapeKind, ShapeOptions, TreeShape};

const FILES: u64 = 128;

/// Workloads: name for `--only`, and bytes per file.
pub(crate) const SIZES: [(&str, u64); 3] = [("small", 32 << 10), ("medium", 1 << 20), ("large", 100 << 20)];

pub(crate) const OPS: [&str; 3] = ["single", "multi", "batch"];

/// Asynchronous engines: ID, role, arguments.
pub(crate) const ENGINES: [(&str, Role, &str); 3] = [
    ("posix-aio", Role::PosixAio, "--engine=posix-aio"),
    ("io-uring", Role::IoUring, "--engine=io-uring"),
    ("io-uring-rb", Role::IoUringRegistered, "--engine=io-uring --registered-buffers"),
];

/// Modes, and the option for each; `direct` bypasses the page cache.
pub(crate) const MODES: [(&str, &str); 2] = [("buffered", ""), ("direct", "--direct")];

pub(crate) const DEPTHS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Option for the document's buffer size.
const BLOCK: &str = "--block-size=131072";

/// Builds the study. The scale applies to the size of the large files, down to that of the medium
/// ones; below a hundredth, it also reduces the number of files everywhere.
pub(crate) fn study(scale: f64) -> Result<Study> {
    let medium = tree(SIZES[1].1, scale)?;
    let mut parts = Vec::new();
    for (name, bytes) in SIZES {
        let shape = tree(bytes, scale)?;
        let group = size_label(shape.file_bytes);
        let part = |settings| StudyPart {
            name: name.to_owned(),
            group: "kinds of operations".to_owned(),
            label: format!("{name} ({group})"),
            work: PartWork::Copy(shape.clone()),
            settings,
        };
        parts.push(part(matrix()));
        if name == "medium" {
            parts.extend(more_parts(&medium));
        }
    }
    Ok(Study { name: StudyName::S3, unit: Unit::Seconds, rounds: 5, parts })
}

fn tree(bytes: u64, scale: f64) -> Result<TreeShape> {
    // Whole pages, as O_DIRECT requires.
    let scaled = ((bytes as f64 * scale / 4096.0).round() as u64).saturating_mul(4096);
    let is_large = bytes == SIZES[2].1;
    let bytes = if is_large { scaled.max(SIZES[1].1) } else { bytes };
    let files = (FILES as f64 * (scale * 100.0).min(1.0)).ceil() as u64;
    let options = ShapeOptions {
        files: Some(files.max(1)),
        size: Some(bytes),
        // Passed on only to have an invalid scale refused.
        scale: if scale > 0.0 && scale.is_finite() { 1.0 } else { scale },
        ..ShapeOptions::default()
    };
    TreeShape::new(ShapeKind::Flat, &options)
}

/// Formats a file size like the document.
pub(crate) fn size_label(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} KB", bytes >> 10),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MB", bytes >> 20),
        _ => format!("{:.1} MB", bytes as f64 / f64::from(1 << 20)),
    }
}

/// Returns the parts that vary one parameter, over medium files.
fn more_parts(medium: &TreeShape) -> Vec<StudyPart> {
    let part = |name: &str, group: &str, label: &str, settings| StudyPart {
        name: name.to_owned(),
        group: group.to_owned(),
        label: label.to_owned(),
        work: PartWork::Copy(medium.clone()),
        settings,
    };
    let mut parts = vec![part("fallocate", "fallocate", "medium files", fallocate())];
    for (mode, option) in MODES {
        parts.push(part(&format!("depth-{mode}"), "queue depth", mode, sweep(option)));
    }
    parts
}

pub(crate) fn id(engine: &str, ops: &str, mode: &str) -> String {
    format!("{engine}/{ops}/{mode}")
}

pub(crate) fn blocking_id(mode: &str) -> String {
    format!("sync/{mode}")
}

fn matrix() -> Vec<StudySetting> {
    let mut settings = vec![StudySetting::gnu()];
    for (mode, option) in MODES {
        let words = format!("--engine=sync {BLOCK} {option}");
        let label = format!("sync, {mode}");
        settings.push(StudySetting::haul(&blocking_id(mode), Role::Sync, &words).called(&label));
        for ops in OPS {
            settings.extend(ENGINES.map(|(engine, role, words)| {
                let words = format!("{words} --ops={ops} {BLOCK} {option}");
                StudySetting::haul(&id(engine, ops, mode), role, &words)
                    .called(&format!("{engine}, {ops}, {mode}"))
            }));
        }
    }
    settings.push(StudySetting::auto());
    settings
}

/// Engines in the document's figure on fallocate: ID, role, arguments.
pub(crate) const ALLOCATING: [(&str, Role, &str); 3] = [
    ("sync", Role::Sync, "--engine=sync"),
    ("posix-aio", Role::PosixAio, "--engine=posix-aio --ops=single"),
    ("io-uring", Role::IoUring, "--engine=io-uring --ops=single"),
];

/// Variants with and without allocating the target beforehand, and the option for each.
pub(crate) const ALLOCATION: [(&str, &str); 2] =
    [("without", "--no-fallocate"), ("fallocate", "--fallocate")];

fn fallocate() -> Vec<StudySetting> {
    let mut settings = vec![StudySetting::gnu()];
    for (mode, option) in MODES {
        for (engine, role, words) in ALLOCATING {
            settings.extend(ALLOCATION.map(|(which, allocation)| {
                let words = format!("{words} {allocation} {BLOCK} {option}");
                StudySetting::haul(&id(engine, which, mode), role, &words)
                    .called(&format!("{engine}, {which}, {mode}"))
            }));
        }
    }
    settings
}

pub(crate) fn depth_id(engine: &str, depth: u32) -> String {
    format!("{engine}/{depth}")
}

fn sweep(option: &str) -> Vec<StudySetting> {
    let mut settings = vec![StudySetting::gnu()];
    for (engine, role, words) in [ENGINES[0], ENGINES[1]] {
        settings.extend(DEPTHS.map(|depth| {
            let flight = format!("-j 1 --queue-depth={depth} --look-ahead={depth}");
            let words = format!("{words} --ops=single {flight} {BLOCK} {option}");
            let setting = StudySetting::haul(&depth_id(engine, depth), role, &words);
            StudySetting { x: Some(depth.into()), ..setting.called(&format!("{engine}, depth {depth}")) }
        }));
    }
    settings.push(StudySetting::auto());
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(study: &Study, name: &str) -> TreeShape {
        let part = study.parts.iter().find(|part| part.name == name).unwrap();
        match &part.work {
            PartWork::Copy(shape) => shape.clone(),
            PartWork::Rate { .. } | PartWork::Striped(_) => panic!("{part:?}"),
        }
    }

    #[test]
    fn the_files_are_the_documents() {
        let study = study(1.0).unwrap();
        for (name, bytes) in SIZES {
            assert_eq!(shape(&study, name).file_bytes, bytes);
            assert_eq!(shape(&study, name).totals().files, 128);
            assert!(bytes.is_multiple_of(4096));
        }
        assert_eq!(size_label(SIZES[2].1), "100 MB");
        let names: Vec<&str> = study.parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["small", "medium", "fallocate", "depth-buffered", "depth-direct", "large"]);
        // 3 engines x 3 kinds of operations x 2 modes, the blocking one twice, cp, haul's choice.
        assert_eq!(study.parts[0].settings.len(), 22);
        assert_eq!(study.parts[2].settings.len(), 13);
        assert_eq!(study.parts[3].settings.len(), 20);
    }

    #[test]
    fn scale_shrinks_the_large_files_first_and_then_takes_files_away() {
        let tenth = study(0.1).unwrap();
        assert_eq!(shape(&tenth, "large").file_bytes, 10 << 20);
        assert_eq!(shape(&tenth, "large").totals().files, 128);
        assert_eq!(shape(&tenth, "small").file_bytes, 32 << 10);
        let least = study(0.0001).unwrap();
        assert_eq!(shape(&least, "large").file_bytes, 1 << 20);
        assert_eq!(shape(&least, "large").totals().files, 2);
        for wrong in [0.0, -1.0, f64::NAN] {
            assert!(study(wrong).is_err());
        }
    }
}
