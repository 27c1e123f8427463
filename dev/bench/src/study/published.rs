//! Figures published in the documents, number by number.
//!
//! They are shown next to our measurements and labelled as published everywhere: they come from
//! other machines, with other disks, of other decades. Nothing is estimated from a plot: the plots
//! of S3, S4 and S5 are not available, so those only have the figures in the text.

use std::borrow::Cow;

use serde::Serialize;

use super::StudyName;
use super::s1::{DEPTHS, SIZES};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Published {
    /// Part of the study it belongs to.
    pub(crate) part: Cow<'static, str>,
    /// ID of the corresponding setting, if it is measured here, or else a description.
    pub(crate) id: &'static str,
    pub(crate) quantity: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
}

pub(crate) struct Document {
    /// Authors, title and year.
    pub(crate) title: &'static str,
    pub(crate) machine: &'static str,
    /// The machine in a few words, for a plot.
    pub(crate) short: &'static str,
}

pub(crate) fn document(name: StudyName) -> Document {
    match name {
        StudyName::S1 => Document {
            title: "M. Parikh and S. Surendran, \u{201c}Implementing cp -r with Linux AIO\u{201d}, 2014",
            machine: "Linux 3.5, Intel Core i5 at 2.5 GHz (2 cores), 4 GB of memory, 500 GB rotating disk, \
                      ext4; page cache cleared before every run; mean of three runs",
            short: "2014, rotating disk",
        },
        StudyName::S2 => Document {
            title: "S. Bhattacharya, patches for asynchronous buffered file I/O, linux-kernel mailing list",
            machine: "4-way Pentium III, Adaptec AIC-7896/7 Ultra2 SCSI (40 MB/s), ext2; aio-stress, 1 GB \
                      file, 64 KB records, depth 64, 8 I/Os per iteration, uncached",
            short: "40 MB/s SCSI disk",
        },
        StudyName::S3 => Document {
            title: "N. Mahajan and V. Bandi, \u{201c}A Faster Copy using Asynchronous I/O\u{201d}, 2022",
            machine: "Ubuntu 22.04, Intel Core i7-8750H, 16 GB of memory, 256 GB of storage, ext4",
            short: "2022, laptop",
        },
        StudyName::S4 => Document {
            title: "W. Morriss and T. Kim, \u{201c}DCP: Fast Recursive Copy\u{201d}, 2014",
            machine: "Linux 3.13, Intel i7-4770k, 8 GB of memory, pairs of SATA SSD, SATA hard disks and a \
                      USB 3 disk; ablations on Linux 3.17, i7-2670QM, one hard disk; 5 runs each",
            short: "2014, hard disks and SSD",
        },
        StudyName::S5 => Document {
            title: "K. Matney, S. Canon and S. Oral, \u{201c}A first look at scalable I/O in Linux commands\u{201d}",
            machine: "Cray XT3 with 3,500 sockets, Lustre with 80 targets on 20 servers, 10 GB/s by IOR; in production",
            short: "Cray XT3, Lustre",
        },
    }
}

pub(crate) fn of(name: StudyName) -> Vec<Published> {
    let table = match name {
        StudyName::S1 => return table_1(),
        StudyName::S2 => S2,
        StudyName::S3 => S3,
        StudyName::S4 => S4,
        StudyName::S5 => S5,
    };
    let figures = table.iter().flat_map(|&(part, (quantity, unit), figures)| {
        figures.iter().map(move |&(id, value)| Published { part: part.into(), id, quantity, value, unit })
    });
    figures.collect()
}

/// Table 1: completion time in seconds. Rows as printed, each with depths 2, 4 and 8 and four
/// programs per depth.
const TABLE_1: [[[f64; 4]; 3]; 5] = [
    [[0.194, 0.127, 0.181, 0.171], [0.253, 0.315, 0.266, 0.265], [1.14, 2.88, 0.798, 0.878]],
    [[0.259, 0.267, 0.233, 0.190], [0.514, 0.599, 0.417, 0.366], [1.33, 3.12, 1.20, 1.35]],
    [[0.406, 0.362, 0.332, 0.205], [0.441, 0.687, 0.502, 0.329], [1.78, 4.47, 1.31, 1.14]],
    [[0.364, 0.527, 0.345, 0.258], [0.465, 0.889, 0.511, 0.332], [3.61, 7.74, 3.65, 2.81]],
    [[0.377, 0.750, 0.4, 0.267], [0.632, 1.45, 0.677, 0.440], [3.72, 10.3, 3.59, 3.39]],
];

/// The programs of Table 1, in its order.
const PROGRAMS: [&str; 4] = ["cp", "k-D", "k-N", "posix"];

fn table_1() -> Vec<Published> {
    let mut all = Vec::new();
    for (depth, (levels, _)) in DEPTHS.iter().enumerate() {
        for (kilobytes, row) in SIZES.iter().zip(&TABLE_1) {
            all.extend(PROGRAMS.iter().zip(row[depth]).map(|(&id, value)| Published {
                part: format!("depth-{levels}/{kilobytes}K").into(),
                id,
                quantity: "completion time",
                value,
                unit: "s",
            }));
        }
    }
    all
}

/// Figures of one part: its name, their quantity and unit, and the ID and value of each.
type PublishedFigures = (&'static str, Quantity, &'static [(&'static str, f64)]);

type Quantity = (&'static str, &'static str);

const RATE: Quantity = ("throughput", "MB/s");
const LESS: Quantity = ("less time with fallocate", "%");
const TIMES: Quantity = ("times as fast as cp -r", "x");
const BELOW: Quantity = ("p, less than", "");

/// The second figure of a cell, in parentheses. The document doesn't explain it.
const SECOND: Quantity = ("throughput, given in parentheses", "MB/s");

/// The aio-stress table. Where the column headed O_DIRECT has entries, it has two: for the vanilla
/// and the patched kernel.
const S2: &[PublishedFigures] = &[
    (
        "random-read",
        RATE,
        &[("vanilla", 10.08), ("patched", 23.91), ("vanilla/direct", 18.91), ("patched/direct", 18.98)],
    ),
    (
        "random-sync-write",
        RATE,
        &[("vanilla", 8.86), ("patched", 15.84), ("vanilla/direct", 16.51), ("patched/direct", 16.53)],
    ),
    (
        "sequential-read",
        RATE,
        &[("vanilla", 31.49), ("patched", 33.00), ("vanilla/direct", 31.86), ("patched/direct", 31.79)],
    ),
    (
        "sequential-sync-write",
        RATE,
        &[("vanilla", 8.68), ("patched", 32.60), ("vanilla/direct", 31.45), ("patched/direct", 32.44)],
    ),
    ("random-write", RATE, &[("vanilla", 31.09), ("patched", 30.90)]),
    ("random-write", SECOND, &[("vanilla (2)", 19.65), ("patched (2)", 19.65)]),
    ("sequential-write", RATE, &[("vanilla", 30.84), ("patched", 30.09)]),
    ("sequential-write", SECOND, &[("vanilla (2)", 28.94), ("patched (2)", 28.39)]),
];

/// Figures in the text.
const S3: &[PublishedFigures] = &[
    ("small", ("less time than cp (\u{201c}close to 30%\u{201d})", "%"), &[("io-uring/buffered", 30.0)]),
    (
        "medium",
        ("less time than cp (\u{201c}close to just 15%\u{201d})", "%"),
        &[("io-uring/buffered", 15.0)],
    ),
    (
        "fallocate",
        LESS,
        &[
            ("posix-aio/direct", 10.1),
            ("sync/direct", 11.5),
            ("io-uring/direct", 16.2),
            ("sync/buffered", 13.8),
            ("io-uring/buffered", 17.4),
        ],
    ),
    ("medium", ("less time with registered buffers", "%"), &[("io-uring-rb/direct", 15.4)]),
    ("depth-buffered", ("queue depth of the best runtime", "files in flight"), &[("best depth", 8.0)]),
    (
        "depth-direct",
        ("queue depth of the least runtime (\u{201c}around\u{201d})", "files in flight"),
        &[("best depth", 64.0)],
    ),
];

/// Figures in the text.
const S4: &[PublishedFigures] = &[
    ("broad", BELOW, &[("every pair of disks", 0.005)]),
    ("broad", TIMES, &[("hdd - hdd", 1.9), ("ssd - hdd", 1.7)]),
    ("fat", BELOW, &[("every pair of disks", 0.005)]),
    ("fat", TIMES, &[("ssd - hdd", 1.5), ("hdd - hdd", 1.8)]),
    ("deep", BELOW, &[("every pair of disks", 0.005)]),
    ("deep", TIMES, &[("ssd - ext", 1.7)]),
    ("broad-ablated", ("p", ""), &[("1-thread", 0.002), ("no-fadvise", 0.04)]),
    ("fat-ablated", ("p", ""), &[("1-thread", 2e-7), ("12-thread", 0.04), ("no-readahead", 0.009)]),
    ("deep-ablated", BELOW, &[("1-thread", 0.001)]),
    ("practical", ("completion time", "s"), &[("cp", 130.0), ("dcp", 110.0)]),
    ("practical", ("sample standard deviation", "s"), &[("dcp", 5.0)]),
    ("practical", BELOW, &[("hdd - hdd", 0.01)]),
    ("practical", ("throughput", "MB/s"), &[("dcp", 53.0), ("cp", 45.0)]),
    ("practical", ("sequential write, by another benchmark", "MB/s"), &[("disk", 55.0)]),
];

/// Figures in the text; the plot is not available.
const S5: &[PublishedFigures] = &[
    ("workload-1", ("rate", "MB/s"), &[("cp", 324.0)]),
    ("workload-2", ("rate", "MB/s"), &[("cp", 126.0)]),
    ("workload-3", ("rate", "MB/s"), &[("cp", 177.0)]),
    ("workload-1", ("rate", "MB/s"), &[("spdcp at its peak", 7300.0)]),
    ("workload-2", ("rate", "MB/s"), &[("spdcp at its peak", 9300.0)]),
    ("workload-3", ("rate", "MB/s"), &[("spdcp at its peak", 9100.0)]),
    ("workload-1", ("times as fast as cp", "x"), &[("spdcp", 22.0)]),
    ("workload-2", ("times as fast as cp", "x"), &[("spdcp", 73.0)]),
    ("workload-3", ("times as fast as cp", "x"), &[("spdcp", 51.0)]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::{Ablate, study};

    fn find(published: &[Published], part: &str, id: &str) -> Option<f64> {
        published.iter().find(|one| one.part == part && one.id == id).map(|one| one.value)
    }

    #[test]
    fn every_cell_of_table_1_is_there_once() {
        let study = study(StudyName::S1, 1.0, Ablate::No).unwrap();
        for part in &study.parts {
            for program in PROGRAMS {
                let count =
                    of(StudyName::S1).iter().filter(|one| one.part == part.name && one.id == program).count();
                assert_eq!(count, 1, "{} {program}", part.name);
            }
        }
        // Corners and middle, as printed.
        assert_eq!(find(&table_1(), "depth-2/4K", "cp"), Some(0.194));
        assert_eq!(find(&table_1(), "depth-2/64K", "k-N"), Some(0.4));
        assert_eq!(find(&table_1(), "depth-4/16K", "k-D"), Some(0.687));
        assert_eq!(find(&table_1(), "depth-8/4K", "posix"), Some(0.878));
        assert_eq!(find(&table_1(), "depth-8/64K", "k-D"), Some(10.3));
        // The sum of the k-D column at depth 8 reveals a typo in any of its digits.
        let column: f64 = TABLE_1.iter().map(|row| row[2][1]).sum();
        assert!((column - 28.51).abs() < 1e-9, "{column}");
    }

    #[test]
    fn every_row_of_the_aio_stress_table_is_there() {
        let study = study(StudyName::S2, 1.0, Ablate::No).unwrap();
        for part in &study.parts {
            let count = of(StudyName::S2).iter().filter(|one| one.part == part.name).count();
            assert_eq!(count, 4, "{}", part.name);
        }
        assert_eq!(find(&of(StudyName::S2), "random-read", "patched"), Some(23.91));
        assert_eq!(find(&of(StudyName::S2), "sequential-sync-write", "vanilla"), Some(8.68));
    }

    #[test]
    fn what_is_published_belongs_to_a_part() {
        for name in [StudyName::S1, StudyName::S2, StudyName::S3, StudyName::S4, StudyName::S5] {
            let study = study(name, 1.0, Ablate::Yes).unwrap();
            for one in of(name) {
                assert!(study.parts.iter().any(|part| part.name == one.part), "{one:?}");
            }
        }
    }
}
