//! S4, DCP (Morriss and Kim, 2014): broad, fat and deep trees and a practical test, against cp -r.
//!
//! Five runs each, with mean, sample standard deviation, and a one-tailed unpaired t-test. The
//! document's program uses POSIX AIO with notification by thread, a buffer of 0x80000 bytes,
//! `fallocate`, `fadvise(SEQUENTIAL)`, drop-behind, and read-ahead; haul with these settings is
//! called `as dcp` here. `--ablate` turns off each optimisation of haul's own choice in turn; "12
//! threads" is the document's number. The practical test was 5.7 GB of videos in 5 directories; the
//! number of files is not given, so 10 are used here.

use super::{AUTO, Ablate, Against, PartWork, Role, Study, StudyName, StudyPart, StudySetting, Unit};
use crate::error::Result;
use crate::names::ValueName;
use crate::shapes::{ShapeKind, ShapeOptions, TreeShape};

/// Trees, in the document's order.
pub(crate) const TREES: [ShapeKind; 4] =
    [ShapeKind::Broad, ShapeKind::Fat, ShapeKind::Deep, ShapeKind::Practical];

/// ID of haul with the settings of the document's program.
pub(crate) const AS_DCP: &str = "as-dcp";

/// Ablations: ID, label in plots, option. The first four are the document's.
pub(crate) const ABLATIONS: [(&str, &str, &str); 7] = [
    ("1-thread", "1 thread", "-j 1"),
    ("12-thread", "12 threads", "-j 12"),
    ("no-fadvise", "no fadvise", "--no-advise"),
    ("no-readahead", "no read-ahead", "--no-readahead"),
    ("no-fallocate", "no fallocate", "--no-fallocate"),
    ("no-directory-first", "no directory first", "--no-directory-first"),
    ("no-inode-order", "no inode order", "--no-inode-order"),
];

/// Builds the study; trees are scaled like in `haul bench make`.
pub(crate) fn study(scale: f64, ablate: Ablate) -> Result<Study> {
    let mut parts = Vec::new();
    for kind in TREES {
        let shape = TreeShape::new(kind, &ShapeOptions { scale, ..ShapeOptions::default() })?;
        let part = |name: String, group: &str, settings| StudyPart {
            name,
            group: group.to_owned(),
            label: kind.name(),
            work: PartWork::Copy(shape.clone()),
            settings,
        };
        parts.push(part(kind.name(), "against cp -r", programs()));
        if ablate == Ablate::Yes && kind != ShapeKind::Practical {
            parts.push(part(format!("{}-ablated", kind.name()), "ablations", ablations()));
        }
    }
    Ok(Study { name: StudyName::S4, unit: Unit::Seconds, rounds: 5, parts })
}

fn programs() -> Vec<StudySetting> {
    let dcp = "--engine=posix-aio --block-size=524288 --fallocate";
    vec![
        StudySetting::gnu(),
        StudySetting::haul(AS_DCP, Role::PosixAio, dcp).called("haul, as dcp"),
        StudySetting::auto(),
    ]
}

fn ablations() -> Vec<StudySetting> {
    let whole = StudySetting { against: Against::Nobody, ..StudySetting::auto() };
    let ablated = ABLATIONS.map(|(id, label, option)| {
        let setting = StudySetting::haul(id, Role::Ablation, option).called(label);
        StudySetting { against: Against::WorseThan(AUTO), ..setting }
    });
    std::iter::once(whole).chain(ablated).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trees_are_the_documents() {
        let study = study(1.0, Ablate::No).unwrap();
        let totals: Vec<(u64, u64)> = study
            .parts
            .iter()
            .map(|part| match &part.work {
                PartWork::Copy(shape) => (shape.totals().files, shape.totals().bytes),
                PartWork::Rate { .. } | PartWork::Striped(_) => panic!("{part:?}"),
            })
            .collect();
        let expected = [(1_687, 506_100_000), (3_783, 756_600_000), (7, 140_000_000), (10, 5_700_000_000)];
        assert_eq!(totals, expected);
        assert_eq!(study.rounds, 5);
    }

    #[test]
    fn ablations_are_of_the_three_trees_and_tested_against_the_whole() {
        let study = study(1.0, Ablate::Yes).unwrap();
        let names: Vec<&str> = study.parts.iter().map(|part| part.name.as_str()).collect();
        let expected = ["broad", "broad-ablated", "fat", "fat-ablated", "deep", "deep-ablated", "practical"];
        assert_eq!(names, expected);
        assert!(study.parts[1].settings[1..].iter().all(|one| one.against == Against::WorseThan(AUTO)));
    }
}
