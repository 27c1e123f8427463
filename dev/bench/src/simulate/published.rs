//! Published figures of `spdcp`: K. Matney, S. Canon and S. Oral, "A first look at scalable I/O in
//! Linux commands", section 5.
//!
//! Only figures from the text; its figure 3 is not available.

use serde::Serialize;

pub(crate) const TITLE: &str =
    "K. Matney, S. Canon and S. Oral, \u{201c}A first look at scalable I/O in Linux commands\u{201d}";

/// Machine it was measured on.
pub(crate) const MACHINE: &str = "Cray XT3 with 3500 sockets in normal operation, Lustre with 80 OSTs on 20 OSSs; IOR measured over 10 GB/s";

/// Peak rate of the file system according to IOR ("over 10 GB/s"), in MB/s.
pub(crate) const PEAK: f64 = 10_000.0;

/// Published figures of one workload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Published {
    pub(crate) workload: &'static str,
    /// Rate of GNU cp, in MB/s.
    pub(crate) cp: f64,
    /// Peak rate of spdcp at 160 to 256 clients, in MB/s.
    pub(crate) spdcp: f64,
}

/// The three workloads. The text gives 9,300 as the peak of workload 2 and 7,300 of workload 1.
pub(crate) const ALL: [Published; 3] = [
    Published { workload: "1", cp: 324.0, spdcp: 7300.0 },
    Published { workload: "2", cp: 126.0, spdcp: 9300.0 },
    Published { workload: "3", cp: 177.0, spdcp: 9100.0 },
];
