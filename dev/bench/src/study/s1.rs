//! S1, `cp -r` over Linux AIO (Parikh and Surendran, 2014): workloads and programs of its Table 1.
//!
//! The document's script makes a binary tree of directories with N files of one size in each. "If
//! our directory tree had 2 levels, it would have 8 files of a particular size at each level,
//! whereas if had 8 levels, it would have 2 files": 8 x 2 = 2 x 8 = 16. The document gives no
//! number for the 4 levels in between; 4 x 4 fits. With the files in *every* directory, as the
//! script is said to place them, the trees have 24, 60 and 510 files. (The document calls the
//! amount of data constant, which its times contradict.)
//!
//! Its programs use a buffer of one page, `fallocate` the target and `fadvise(WILLNEED)` the
//! source. The cache is cleared before every run, and the figures are means of three runs.

use super::{PartWork, Role, Study, StudyName, StudyPart, StudySetting, Unit};
use crate::error::Result;
use crate::shapes::{ShapeKind, ShapeOptions, TreeShape};

/// Levels of directories, and files per directory.
pub(crate) const DEPTHS: [(u32, u64); 3] = [(2, 8), (4, 4), (8, 2)];

pub(crate) const SIZES: [u64; 5] = [4, 8, 16, 32, 64];

/// IDs of the programs, in the order of the document's columns, and haul's own choice.
pub(crate) const COLUMNS: [&str; 5] = ["cp", "k-D", "k-N", "posix", "haul"];

/// Builds the study; the scale applies to the number of files per directory.
pub(crate) fn study(scale: f64) -> Result<Study> {
    let mut parts = Vec::new();
    for (levels, files) in DEPTHS {
        for kilobytes in SIZES {
            let options = ShapeOptions {
                depth: Some(levels),
                files: Some(files),
                size: Some(kilobytes * 1024),
                scale,
                ..ShapeOptions::default()
            };
            parts.push(StudyPart {
                name: format!("depth-{levels}/{kilobytes}K"),
                group: group(levels),
                label: label(kilobytes),
                work: PartWork::Copy(TreeShape::new(ShapeKind::Binary, &options)?),
                settings: settings(),
            });
        }
    }
    Ok(Study { name: StudyName::S1, unit: Unit::Seconds, rounds: 3, parts })
}

pub(crate) fn group(levels: u32) -> String {
    format!("depth {levels}")
}

pub(crate) fn label(kilobytes: u64) -> String {
    format!("{kilobytes} KB")
}

fn settings() -> Vec<StudySetting> {
    let document = "--block-size=4096 --fallocate";
    let own = |id: &str, role, words: &str| StudySetting::haul(id, role, &format!("{words} {document}"));
    vec![
        StudySetting::gnu(),
        own("k-D", Role::KernelAio, "--engine=kernel-aio --direct"),
        own("k-N", Role::KernelAio, "--engine=kernel-aio"),
        own("posix", Role::PosixAio, "--engine=posix-aio"),
        StudySetting::auto(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trees_are_the_documents() {
        let study = study(1.0).unwrap();
        assert_eq!(study.parts.len(), 15);
        for part in &study.parts {
            let PartWork::Copy(shape) = &part.work else { panic!("{part:?}") };
            let files = match part.group.as_str() {
                "depth 2" => 24,
                "depth 4" => 60,
                _ => 510,
            };
            let kilobytes: u64 = part.label.strip_suffix(" KB").unwrap().parse().unwrap();
            assert_eq!(shape.totals().files, files, "{}", part.name);
            assert_eq!(shape.totals().bytes, files * kilobytes * 1024, "{}", part.name);
            let ids: Vec<&str> = part.settings.iter().map(|setting| setting.id.as_str()).collect();
            assert_eq!(ids, COLUMNS);
        }
    }
}
