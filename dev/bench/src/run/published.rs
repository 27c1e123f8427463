//! Figures published in the documents, number by number.
//!
//! They are shown beside our measurements and labelled as published everywhere: they come from
//! other machines, with other disks, of other decades. Nothing is estimated from a plot: the plots
//! of S3, S4 and S5 are not available, so those only have the figures in the text.

use serde::Serialize;

use super::study::Name;

/// A number from a document.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Published {
    /// Part of the study it belongs to.
    pub(crate) part: &'static str,
    /// ID of the corresponding setting, if it is measured here, or else a description.
    pub(crate) id: &'static str,
    pub(crate) quantity: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
}

pub(crate) struct Document {
    /// Authors, title and year.
    pub(crate) title: &'static str,
    /// Machine it was measured on.
    pub(crate) machine: &'static str,
    /// The machine in a few words, for a plot.
    pub(crate) short: &'static str,
}

/// Returns the document of a study.
pub(crate) fn document(name: Name) -> Document {
    match name {
        Name::S1 => Document {
            title: "M. Parikh and S. Surendran, \u{201c}Implementing cp -r with Linux AIO\u{201d}, 2014",
            machine: "Linux 3.5, Intel Core i5 at 2.5 GHz (2 cores), 4 GB of memory, 500 GB rotating disk, \
                      ext4; page cache cleared before every run; mean of three runs",
            short: "2014, rotating disk",
        },
        Name::S2 => Document {
            title: "S. Bhattacharya, patches for asynchronous buffered file I/O, linux-kernel mailing list",
            machine: "4-way Pentium III, Adaptec AIC-7896/7 Ultra2 SCSI (40 MB/s), ext2; aio-stress, 1 GB \
                      file, 64 KB records, depth 64, 8 I/Os per iteration, uncached",
            short: "40 MB/s SCSI disk",
        },
        Name::S3 => Document {
            title: "N. Mahajan and V. Bandi, \u{201c}A Faster Copy using Asynchronous I/O\u{201d}, 2022",
            machine: "Ubuntu 22.04, Intel Core i7-8750H, 16 GB of memory, 256 GB of storage, ext4",
            short: "2022, laptop",
        },
        Name::S4 => Document {
            title: "W. Morriss and T. Kim, \u{201c}DCP: Fast Recursive Copy\u{201d}, 2014",
            machine: "Linux 3.13, Intel i7-4770k, 8 GB of memory, pairs of SATA SSD, SATA hard disks and a \
                      USB 3 disk; ablations on Linux 3.17, i7-2670QM, one hard disk; 5 runs each",
            short: "2014, hard disks and SSD",
        },
        Name::S5 => Document {
            title: "K. Matney, S. Canon and S. Oral, \u{201c}A first look at scalable I/O in Linux commands\u{201d}",
            machine: "Cray XT3 with 3,500 sockets, Lustre with 80 targets on 20 servers, 10 GB/s by IOR; in production",
            short: "Cray XT3, Lustre",
        },
    }
}

/// Returns the published figures of a study.
pub(crate) fn of(name: Name) -> &'static [Published] {
    match name {
        Name::S1 => &S1,
        Name::S2 => &S2,
        Name::S3 => &S3,
        Name::S4 => &S4,
        Name::S5 => &S5,
    }
}

pub(crate) fn find(published: &[Published], part: &str, id: &str) -> Option<f64> {
    published.iter().find(|one| one.part == part && one.id == id).map(|one| one.value)
}

/// The four programs of Table 1, in its order.
const PROGRAMS: [&str; 4] = ["cp", "k-D", "k-N", "posix"];

/// Names of the parts, depth by depth, each from 4 KB to 64 KB.
const S1_PARTS: [[&str; 5]; 3] = [
    ["depth-2/4K", "depth-2/8K", "depth-2/16K", "depth-2/32K", "depth-2/64K"],
    ["depth-4/4K", "depth-4/8K", "depth-4/16K", "depth-4/32K", "depth-4/64K"],
    ["depth-8/4K", "depth-8/8K", "depth-8/16K", "depth-8/32K", "depth-8/64K"],
];

/// Table 1: completion time in seconds. Rows as printed, each with depths 2, 4 and 8 and four
/// programs per depth.
const TABLE_1: [[[f64; 4]; 3]; 5] = [
    [[0.194, 0.127, 0.181, 0.171], [0.253, 0.315, 0.266, 0.265], [1.14, 2.88, 0.798, 0.878]],
    [[0.259, 0.267, 0.233, 0.190], [0.514, 0.599, 0.417, 0.366], [1.33, 3.12, 1.20, 1.35]],
    [[0.406, 0.362, 0.332, 0.205], [0.441, 0.687, 0.502, 0.329], [1.78, 4.47, 1.31, 1.14]],
    [[0.364, 0.527, 0.345, 0.258], [0.465, 0.889, 0.511, 0.332], [3.61, 7.74, 3.65, 2.81]],
    [[0.377, 0.750, 0.4, 0.267], [0.632, 1.45, 0.677, 0.440], [3.72, 10.3, 3.59, 3.39]],
];

const S1: [Published; 60] = {
    let mut all = [Published { part: "", id: "", quantity: "completion time", value: 0.0, unit: "s" }; 60];
    let mut index = 0;
    while index < 60 {
        let (depth, size, program) = (index / 20, index / 4 % 5, index % 4);
        all[index].part = S1_PARTS[depth][size];
        all[index].id = PROGRAMS[program];
        all[index].value = TABLE_1[size][depth][program];
        index += 1;
    }
    all
};

const fn rate(part: &'static str, id: &'static str, value: f64) -> Published {
    Published { part, id, quantity: "throughput", value, unit: "MB/s" }
}

/// Makes a number that the table gives in parentheses; the text does not say what it is.
const fn in_parentheses(part: &'static str, id: &'static str, value: f64) -> Published {
    Published { part, id, quantity: "throughput, given in parentheses", value, unit: "MB/s" }
}

/// The aio-stress table. Where the column headed O_DIRECT has entries, it has two: for the vanilla
/// and the patched kernel.
const S2: [Published; 24] = [
    rate("random-read", "vanilla", 10.08),
    rate("random-read", "patched", 23.91),
    rate("random-read", "vanilla/direct", 18.91),
    rate("random-read", "patched/direct", 18.98),
    rate("random-sync-write", "vanilla", 8.86),
    rate("random-sync-write", "patched", 15.84),
    rate("random-sync-write", "vanilla/direct", 16.51),
    rate("random-sync-write", "patched/direct", 16.53),
    rate("sequential-read", "vanilla", 31.49),
    rate("sequential-read", "patched", 33.00),
    rate("sequential-read", "vanilla/direct", 31.86),
    rate("sequential-read", "patched/direct", 31.79),
    rate("sequential-sync-write", "vanilla", 8.68),
    rate("sequential-sync-write", "patched", 32.60),
    rate("sequential-sync-write", "vanilla/direct", 31.45),
    rate("sequential-sync-write", "patched/direct", 32.44),
    rate("random-write", "vanilla", 31.09),
    rate("random-write", "patched", 30.90),
    in_parentheses("random-write", "vanilla (2)", 19.65),
    in_parentheses("random-write", "patched (2)", 19.65),
    rate("sequential-write", "vanilla", 30.84),
    rate("sequential-write", "patched", 30.09),
    in_parentheses("sequential-write", "vanilla (2)", 28.94),
    in_parentheses("sequential-write", "patched (2)", 28.39),
];

const fn percent(part: &'static str, id: &'static str, quantity: &'static str, value: f64) -> Published {
    Published { part, id, quantity, value, unit: "%" }
}

/// Figures in the text of S3.
const S3: [Published; 10] = [
    percent("small", "io-uring/buffered", "less time than cp (\u{201c}close to 30%\u{201d})", 30.0),
    percent("medium", "io-uring/buffered", "less time than cp (\u{201c}close to just 15%\u{201d})", 15.0),
    percent("fallocate", "posix-aio/direct", "less time with fallocate", 10.1),
    percent("fallocate", "sync/direct", "less time with fallocate", 11.5),
    percent("fallocate", "io-uring/direct", "less time with fallocate", 16.2),
    percent("fallocate", "sync/buffered", "less time with fallocate", 13.8),
    percent("fallocate", "io-uring/buffered", "less time with fallocate", 17.4),
    percent("medium", "io-uring-rb/direct", "less time with registered buffers", 15.4),
    Published {
        part: "depth-buffered",
        id: "best depth",
        quantity: "queue depth of the best runtime",
        value: 8.0,
        unit: "files in flight",
    },
    Published {
        part: "depth-direct",
        id: "best depth",
        quantity: "queue depth of the least runtime (\u{201c}around\u{201d})",
        value: 64.0,
        unit: "files in flight",
    },
];

const fn factor(part: &'static str, pair: &'static str, value: f64) -> Published {
    Published { part, id: pair, quantity: "times as fast as cp -r", value, unit: "x" }
}

const fn below(part: &'static str, id: &'static str, value: f64) -> Published {
    Published { part, id, quantity: "p, less than", value, unit: "" }
}

const fn p_value(part: &'static str, id: &'static str, value: f64) -> Published {
    Published { part, id, quantity: "p", value, unit: "" }
}

/// Figures in the text of S4.
const S4: [Published; 21] = [
    below("broad", "every pair of disks", 0.005),
    factor("broad", "hdd - hdd", 1.9),
    factor("broad", "ssd - hdd", 1.7),
    below("fat", "every pair of disks", 0.005),
    factor("fat", "ssd - hdd", 1.5),
    factor("fat", "hdd - hdd", 1.8),
    below("deep", "every pair of disks", 0.005),
    factor("deep", "ssd - ext", 1.7),
    p_value("broad-ablated", "1-thread", 0.002),
    p_value("broad-ablated", "no-fadvise", 0.04),
    p_value("fat-ablated", "1-thread", 2e-7),
    p_value("fat-ablated", "12-thread", 0.04),
    p_value("fat-ablated", "no-readahead", 0.009),
    below("deep-ablated", "1-thread", 0.001),
    Published { part: "practical", id: "cp", quantity: "completion time", value: 130.0, unit: "s" },
    Published { part: "practical", id: "dcp", quantity: "completion time", value: 110.0, unit: "s" },
    Published { part: "practical", id: "dcp", quantity: "sample standard deviation", value: 5.0, unit: "s" },
    below("practical", "hdd - hdd", 0.01),
    Published { part: "practical", id: "dcp", quantity: "throughput", value: 53.0, unit: "MB/s" },
    Published { part: "practical", id: "cp", quantity: "throughput", value: 45.0, unit: "MB/s" },
    Published {
        part: "practical",
        id: "disk",
        quantity: "sequential write, by another benchmark",
        value: 55.0,
        unit: "MB/s",
    },
];

const fn megabytes(part: &'static str, id: &'static str, value: f64) -> Published {
    Published { part, id, quantity: "rate", value, unit: "MB/s" }
}

/// Figures in the text of S5; its plot is not available.
const S5: [Published; 9] = [
    megabytes("workload-1", "cp", 324.0),
    megabytes("workload-2", "cp", 126.0),
    megabytes("workload-3", "cp", 177.0),
    megabytes("workload-1", "spdcp at its peak", 7300.0),
    megabytes("workload-2", "spdcp at its peak", 9300.0),
    megabytes("workload-3", "spdcp at its peak", 9100.0),
    Published { part: "workload-1", id: "spdcp", quantity: "times as fast as cp", value: 22.0, unit: "x" },
    Published { part: "workload-2", id: "spdcp", quantity: "times as fast as cp", value: 73.0, unit: "x" },
    Published { part: "workload-3", id: "spdcp", quantity: "times as fast as cp", value: 51.0, unit: "x" },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Ablate, study};

    #[test]
    fn every_cell_of_table_1_is_there_once() {
        let study = study(Name::S1, 1.0, Ablate::No).unwrap();
        for part in &study.parts {
            for program in PROGRAMS {
                let count = S1.iter().filter(|one| one.part == part.name && one.id == program).count();
                assert_eq!(count, 1, "{} {program}", part.name);
            }
        }
        // Corners and middle, as printed.
        assert_eq!(find(&S1, "depth-2/4K", "cp"), Some(0.194));
        assert_eq!(find(&S1, "depth-2/64K", "k-N"), Some(0.4));
        assert_eq!(find(&S1, "depth-4/16K", "k-D"), Some(0.687));
        assert_eq!(find(&S1, "depth-8/4K", "posix"), Some(0.878));
        assert_eq!(find(&S1, "depth-8/64K", "k-D"), Some(10.3));
        // The sum of the k-D column at depth 8 reveals a typo in any of its digits.
        let column: f64 = TABLE_1.iter().map(|row| row[2][1]).sum();
        assert!((column - 28.51).abs() < 1e-9, "{column}");
    }

    #[test]
    fn every_row_of_the_aio_stress_table_is_there() {
        let study = study(Name::S2, 1.0, Ablate::No).unwrap();
        for part in &study.parts {
            let count = S2.iter().filter(|one| one.part == part.name).count();
            assert_eq!(count, 4, "{}", part.name);
        }
        assert_eq!(find(&S2, "random-read", "patched"), Some(23.91));
        assert_eq!(find(&S2, "sequential-sync-write", "vanilla"), Some(8.68));
    }

    #[test]
    fn what_is_published_belongs_to_a_part() {
        for name in [Name::S1, Name::S2, Name::S3, Name::S4, Name::S5] {
            let study = study(name, 1.0, Ablate::Yes).unwrap();
            for one in of(name) {
                assert!(study.parts.iter().any(|part| part.name == one.part), "{one:?}");
            }
        }
    }
}
