//! The workloads of the documents, as parameters.
//!
//! All kinds share one structure with different parameters: directories with a fan-out, some levels
//! deep, that hold files of one size.
//!
//! | kind | levels | fan-out | files | bytes a file | from |
//! |---|---|---|---|---|---|
//! | `binary` | 4 | 2 | 4 in every directory | 4,096 | the AIO report's workload script |
//! | `broad` | 3 | 15 | 7 in every directory | 300,000 | the DCP paper |
//! | `fat` | 3 | 35 | 3 in every directory | 200,000 | the DCP paper |
//! | `deep` | 7 | 1 | 1 in every directory | 20,000,000 | the DCP paper |
//! | `flat` | 1 | - | 50,000 | 1,024 | |
//! | `many` | 2 | 500 | 50,000 in the leaves | 4,096 | |
//! | `large` | 1 | - | 1 | 1,500,000,000 | |
//! | `practical` | 2 | 5 | 10 in the leaves | 570,000,000 | the DCP paper: 5.7 GB of videos |
//!
//! The papers count in decimal bytes, and so do `broad`, `fat`, `deep`, `large` and `practical`.
//! The "4 KB" and "1 KB" of the others are 4,096 and 1,024 bytes: a page and a quarter of a page.
//!
//! `--scale F` makes a workload F times as big but keeps what is hard about it. It scales the
//! counts of `flat` and `many` (files and directories alike, so directories stay as full as they
//! were), the fan-out of `broad` and `fat`, the files per directory of `binary`, and the file size
//! of `deep`, `large` and `practical`.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::names::ValueName;

/// Maximum number of files or directories of a workload, so that a typo does not fill the disk.
const ENTRIES_MAX: u64 = 100_000_000;

/// Maximum depth: trees are made and read by path, and PATH_MAX is 4,096 bytes.
const LEVELS_MAX: u32 = 500;

/// A tree of the documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ShapeKind {
    /// A binary tree of directories, N files of one size in each
    Binary,
    /// 1,687 files of 300,000 bytes: 7 per directory, fan-out 15, 3 levels
    Broad,
    /// 3,783 files of 200,000 bytes: 3 per directory, fan-out 35, 3 levels
    Fat,
    /// 7 files of 20,000,000 bytes, one per level of 7 levels
    Deep,
    /// 50,000 files of 1,024 bytes in one directory
    Flat,
    /// 50,000 files of 4,096 bytes in 500 directories
    Many,
    /// One file of 1,500,000,000 bytes
    Large,
    /// 10 files of 570,000,000 bytes in 5 directories
    Practical,
}

/// Options that change the parameters of a tree.
#[derive(Args, Clone, Debug)]
pub(crate) struct ShapeOptions {
    /// Files per directory; for flat, many, large and practical: files in all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) files: Option<u64>,
    /// Bytes per file; K, M, G are powers of 1024 and KB, MB, GB of 1000
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) size: Option<u64>,
    /// Directories that hold the files of many and practical
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) directories: Option<u64>,
    /// Subdirectories per directory, for broad, fat and deep
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) fan_out: Option<u64>,
    /// Levels of directories, the top one counted, for binary, broad, fat and deep
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) depth: Option<u32>,
    /// Make it F times as big: fewer (or more) files; for deep, large and practical, smaller ones
    #[arg(long, value_name = "F", default_value_t = 1.0)]
    pub(crate) scale: f64,
    /// Seed of the files' contents
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

impl Default for ShapeOptions {
    fn default() -> ShapeOptions {
        ShapeOptions {
            files: None,
            size: None,
            directories: None,
            fan_out: None,
            depth: None,
            scale: 1.0,
            seed: 1,
        }
    }
}

/// Where the files of a tree are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placing {
    /// This many in every directory.
    Everywhere(u64),
    /// This many in total, spread over the directories of the last level.
    Leaves(u64),
}

/// A fully specified tree: directories that hold files of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeShape {
    pub(crate) kind: ShapeKind,
    /// Levels of directories, including the top directory.
    pub(crate) levels: u32,
    /// Subdirectories in each directory above the last level.
    pub(crate) fan_out: u64,
    pub(crate) file_bytes: u64,
    placing: Placing,
}

/// Totals over a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    /// Everything but directories.
    pub(crate) files: u64,
    /// Directories below the top directory.
    pub(crate) directories: u64,
    pub(crate) bytes: u64,
}

impl TreeShape {
    /// Applies `options` to the defaults of `kind`.
    pub(crate) fn new(kind: ShapeKind, options: &ShapeOptions) -> Result<TreeShape> {
        check_options(kind, options)?;
        let (levels, fan_out, files, file_bytes) = match kind {
            ShapeKind::Binary => (4, 2, 4, 4_096),
            ShapeKind::Broad => (3, 15, 7, 300_000),
            ShapeKind::Fat => (3, 35, 3, 200_000),
            ShapeKind::Deep => (7, 1, 1, 20_000_000),
            ShapeKind::Flat => (1, 1, 50_000, 1_024),
            ShapeKind::Many => (2, 500, 50_000, 4_096),
            ShapeKind::Large => (1, 1, 1, 1_500_000_000),
            ShapeKind::Practical => (2, 5, 10, 570_000_000),
        };
        let levels = options.depth.unwrap_or(levels);
        let fan_out = options.fan_out.or(options.directories).unwrap_or(fan_out);
        let files = options.files.unwrap_or(files);
        let file_bytes = options.size.unwrap_or(file_bytes);
        let mut shape = TreeShape { kind, levels, fan_out, file_bytes, placing: Placing::Everywhere(files) };
        if matches!(kind, ShapeKind::Many | ShapeKind::Practical) {
            shape.placing = Placing::Leaves(files);
        }
        shape.scale(options.scale);
        shape.check()?;
        Ok(shape)
    }

    fn scale(&mut self, factor: f64) {
        let placing = &mut self.placing;
        match self.kind {
            ShapeKind::Flat | ShapeKind::Binary => placing.scale(factor),
            ShapeKind::Many => {
                placing.scale(factor);
                self.fan_out = scaled(self.fan_out, factor);
            }
            // The last level has fan_out^(levels - 1) directories, and they hold nearly all files.
            ShapeKind::Broad | ShapeKind::Fat if self.levels > 1 => {
                self.fan_out = scaled(self.fan_out, factor.powf(1.0 / f64::from(self.levels - 1)));
            }
            ShapeKind::Broad | ShapeKind::Fat => placing.scale(factor),
            ShapeKind::Deep | ShapeKind::Large | ShapeKind::Practical => {
                self.file_bytes = scaled(self.file_bytes, factor)
            }
        }
    }

    fn check(&self) -> Result<()> {
        if self.levels > LEVELS_MAX {
            return Err(Error::Refused(format!("--depth may be {LEVELS_MAX} at most")));
        }
        match self.sum() {
            Some(totals) if totals.files <= ENTRIES_MAX && totals.directories <= ENTRIES_MAX => Ok(()),
            _ => Err(Error::Refused(format!(
                "{} would have more than {ENTRIES_MAX} files or directories, or more bytes than can be counted",
                self.kind.name()
            ))),
        }
    }

    /// Returns the number of directories in a level; the top directory is level 0.
    fn directories_in(&self, level: u32) -> Option<u64> {
        self.fan_out.checked_pow(level)
    }

    fn sum(&self) -> Option<Totals> {
        let mut directories: u64 = 0;
        for level in 0..self.levels {
            directories = directories.checked_add(self.directories_in(level)?)?;
        }
        let files = match self.placing {
            Placing::Everywhere(files) => files.checked_mul(directories)?,
            Placing::Leaves(files) => files,
        };
        Some(Totals { files, directories: directories - 1, bytes: files.checked_mul(self.file_bytes)? })
    }

    pub(crate) fn totals(&self) -> Totals {
        // Invariant: `new` is the only constructor, and `check` has refused what overflows.
        self.sum().unwrap_or_default()
    }

    /// Returns the number of files in directory number `index` of `level`.
    pub(crate) fn files_in(&self, level: u32, index: u64) -> u64 {
        match self.placing {
            Placing::Everywhere(files) => files,
            Placing::Leaves(_) if level + 1 < self.levels => 0,
            Placing::Leaves(files) => {
                let leaves = self.directories_in(level).unwrap_or(1).max(1);
                // The remainder goes to the first directories.
                files / leaves + u64::from(index < files % leaves)
            }
        }
    }
}

impl Placing {
    fn scale(&mut self, factor: f64) {
        let (Placing::Everywhere(files) | Placing::Leaves(files)) = self;
        *files = scaled(*files, factor);
    }
}

fn scaled(count: u64, factor: f64) -> u64 {
    if factor == 1.0 {
        return count;
    }
    ((count as f64 * factor).round() as u64).max(1)
}

fn check_options(kind: ShapeKind, options: &ShapeOptions) -> Result<()> {
    let has_tree = matches!(kind, ShapeKind::Binary | ShapeKind::Broad | ShapeKind::Fat | ShapeKind::Deep);
    let wrong = if options.directories.is_some() && !matches!(kind, ShapeKind::Many | ShapeKind::Practical) {
        "--directories"
    } else if options.fan_out.is_some() && (!has_tree || kind == ShapeKind::Binary) {
        "--fan-out"
    } else if options.depth.is_some() && !has_tree {
        "--depth"
    } else if !(options.scale.is_finite() && options.scale > 0.0) {
        return Err(Error::Refused("--scale must be greater than 0".to_owned()));
    } else {
        return Ok(());
    };
    Err(Error::Refused(format!("{wrong} means nothing for {}", kind.name())))
}

/// Parses a size: a number with an optional unit (K M G T: powers of 1024; KB MB GB TB: of 1000).
pub(crate) fn parse_size(text: &str) -> std::result::Result<u64, String> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number: u64 = digits.parse().map_err(|_| format!("'{text}' is not a size"))?;
    let (base, power) = match unit {
        "" => (1, 0),
        "K" | "KiB" => (1024, 1),
        "M" | "MiB" => (1024, 2),
        "G" | "GiB" => (1024, 3),
        "T" | "TiB" => (1024, 4),
        "KB" | "kB" => (1000, 1),
        "MB" => (1000, 2),
        "GB" => (1000, 3),
        "TB" => (1000, 4),
        _ => return Err(format!("'{unit}' is not a unit of size")),
    };
    number.checked_mul(u64::pow(base, power)).ok_or_else(|| format!("{text} is too large"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct ShapeArguments {
        #[command(flatten)]
        options: ShapeOptions,
    }

    pub(crate) fn options(line: &str) -> ShapeOptions {
        ShapeArguments::try_parse_from(["shape"].into_iter().chain(line.split_whitespace())).unwrap().options
    }

    fn totals(kind: ShapeKind, line: &str) -> Totals {
        TreeShape::new(kind, &options(line)).unwrap().totals()
    }

    #[test]
    fn the_documents_trees_have_the_documents_numbers() {
        let expected = [
            (ShapeKind::Binary, 60, 14, 60 * 4_096),
            (ShapeKind::Broad, 1_687, 240, 1_687 * 300_000),
            (ShapeKind::Fat, 3_783, 1_260, 3_783 * 200_000),
            (ShapeKind::Deep, 7, 6, 140_000_000),
            (ShapeKind::Flat, 50_000, 0, 51_200_000),
            (ShapeKind::Many, 50_000, 500, 204_800_000),
            (ShapeKind::Large, 1, 0, 1_500_000_000),
            (ShapeKind::Practical, 10, 5, 5_700_000_000),
        ];
        for (kind, files, directories, bytes) in expected {
            assert_eq!(totals(kind, ""), Totals { files, directories, bytes }, "{kind:?}");
        }
    }

    #[test]
    fn the_binary_tree_takes_depth_files_and_size() {
        let shape = totals(ShapeKind::Binary, "--depth 8 --files 2 --size 64K");
        assert_eq!(shape, Totals { files: 255 * 2, directories: 254, bytes: 255 * 2 * 65_536 });
    }

    #[test]
    fn scale_shrinks_the_right_number() {
        assert_eq!(
            totals(ShapeKind::Many, "--scale 0.01"),
            Totals { files: 500, directories: 5, bytes: 2_048_000 }
        );
        assert_eq!(totals(ShapeKind::Flat, "--scale 0.1").files, 5_000);
        assert_eq!(totals(ShapeKind::Deep, "--scale 0.001").bytes, 140_000);
        assert_eq!(totals(ShapeKind::Large, "--scale 0.01").bytes, 15_000_000);
        let practical = Totals { files: 10, directories: 5, bytes: 57_000_000 };
        assert_eq!(totals(ShapeKind::Practical, "--scale 0.01"), practical);
        // Fan-out 15 becomes 5: 1 + 5 + 25 directories.
        assert_eq!(totals(ShapeKind::Broad, "--scale 0.1").files, 7 * 31);
        assert_eq!(totals(ShapeKind::Binary, "--files 8 --scale 0.5").files, 15 * 4);
        assert_eq!(totals(ShapeKind::Flat, "--scale 0.0000001").files, 1);
    }

    #[test]
    fn files_that_do_not_divide_are_all_there() {
        let shape = TreeShape::new(ShapeKind::Many, &options("--files 11 --directories 4")).unwrap();
        let counts: Vec<u64> = (0..4).map(|index| shape.files_in(1, index)).collect();
        assert_eq!(counts, [3, 3, 3, 2]);
        assert_eq!(shape.files_in(0, 0), 0);
    }

    #[test]
    fn options_of_another_kind_are_refused() {
        for (kind, line) in [
            (ShapeKind::Flat, "--directories 3"),
            (ShapeKind::Flat, "--depth 3"),
            (ShapeKind::Binary, "--fan-out 3"),
            (ShapeKind::Many, "--fan-out 3"),
            (ShapeKind::Many, "--scale 0"),
            (ShapeKind::Many, "--scale NaN"),
            (ShapeKind::Deep, "--depth 501"),
            (ShapeKind::Broad, "--depth 64"),
            (ShapeKind::Large, "--files 1000000 --size 18446744073709551615"),
        ] {
            let refusal = TreeShape::new(kind, &options(line)).unwrap_err();
            assert!(matches!(refusal, Error::Refused(_)), "{kind:?} {line}: {refusal}");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("4096"), Ok(4_096));
        assert_eq!(parse_size("4K"), Ok(4_096));
        assert_eq!(parse_size("20MB"), Ok(20_000_000));
        assert_eq!(parse_size("1GiB"), Ok(1 << 30));
        for wrong in ["", "K", "4Q", "-1", "1.5G", "99999999999T"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
