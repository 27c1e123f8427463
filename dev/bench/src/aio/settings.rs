//! Options of `haul-bench aio`, and the validated settings made from them.
//!
//! Promises: settings that [`AioSettings::new`] accepts work with every engine. A refusal names the
//! allowed range, and nothing was touched.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use haul_engine::ENGINES;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::shapes::parse_size;

/// Allowed depths. The maximum is that of an io_uring ring; other engines have lower limits.
const DEPTHS: RangeInclusive<usize> = 1..=32_768;

/// Allowed alignments, in bytes. Buffers are page-aligned, so more cannot be promised.
const ALIGNMENTS: RangeInclusive<u64> = 512..=4_096;

/// Allowed record sizes, in bytes: room for a stamp, but not all memory for buffers.
const RECORD_BYTES: RangeInclusive<u64> = 512..=(64 << 20);

/// Maximum size of the file, in bytes, so that a typo does not fill the disk.
const FILE_BYTES_MAX: u64 = 16 << 40;

/// Maximum number of records; a random order keeps 4 bytes per record in memory.
const RECORDS_MAX: u64 = 1 << 27;

/// Maximum size of all buffers in flight, in bytes.
const BUFFER_BYTES_MAX: u64 = 1 << 30;

/// Order in which records are processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AccessPattern {
    /// From the first to the last
    Sequential,
    /// Each once, in an order made from the seed
    Random,
}

/// Kind of transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TransferKind {
    /// Read it
    Read,
    /// Write it, and wait until it is on the disk (O_SYNC)
    SyncWrite,
    /// Write it
    Write,
}

/// Options of `haul-bench aio`. The defaults are those of aio-stress in the figures of the
/// buffered-AIO patches.
#[derive(Args, Clone, Debug)]
pub(crate) struct AioOptions {
    /// Directory for the file, on the disk to measure; the file is gone at the end
    pub(crate) directory: PathBuf,
    /// Order of the records [default: both, in turn]
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["random", "sequential"], hide_default_value = true, value_name = "PATTERN,...")]
    pub(crate) pattern: Vec<AccessPattern>,
    /// Operations on the records [default: all three, in turn]
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["read", "sync-write", "write"], hide_default_value = true, value_name = "KIND,...")]
    pub(crate) kind: Vec<TransferKind>,
    /// Engines to measure [default: all that the kernel lets us have]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", value_parser = PossibleValuesParser::new(ENGINES.iter().map(|engine| engine.name)))]
    pub(crate) engine: Vec<String>,
    /// Go past the page cache (O_DIRECT)
    #[arg(long)]
    pub(crate) direct: bool,
    /// Bytes of the file, rounded down to whole records; K, M, G are powers of 1024 and KB, MB, GB
    /// of 1000
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    pub(crate) file_size: u64,
    /// Bytes of a record
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = parse_size)]
    pub(crate) record_size: u64,
    /// Most records in flight
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) depth: usize,
    /// Records to issue before completions are looked for
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) per_iteration: usize,
    /// Most records to pass to the kernel at once
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) max_submit: usize,
    /// Alignment of records and buffers; with --direct a record must be a multiple of it
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = parse_size)]
    pub(crate) alignment: u64,
    /// Seed of the contents and of random orders
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Rounds that count, after one that is thrown away; in each, the engines take turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Print one JSON document in place of the table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AioSettings {
    /// Size of the file, a multiple of the record size.
    pub(crate) file_bytes: u64,
    pub(crate) record_bytes: usize,
    pub(crate) records: u32,
    pub(crate) depth: usize,
    /// Records issued before completions are reaped.
    pub(crate) per_iteration: usize,
    pub(crate) max_submit: usize,
    /// Alignment of records and buffers, in bytes.
    pub(crate) alignment: u64,
    /// True if the page cache is bypassed.
    pub(crate) direct: bool,
    /// Seed of the contents and of random orders.
    pub(crate) seed: u64,
    pub(crate) rounds: u32,
}

impl AioSettings {
    pub(crate) fn new(options: &AioOptions) -> Result<AioSettings> {
        let AioOptions { direct, file_size, record_size, depth, alignment, seed, rounds, .. } = *options;
        check_alignment(alignment)?;
        within("--record-size", record_size, RECORD_BYTES)?;
        if direct && !record_size.is_multiple_of(alignment) {
            return Err(refused(format!(
                "--record-size {record_size} with --direct: it must be a multiple of --alignment, {alignment}"
            )));
        }
        within("--file-size", file_size, record_size..=FILE_BYTES_MAX)?;
        let records = file_size / record_size;
        if records > RECORDS_MAX {
            return Err(refused(format!(
                "--file-size {file_size} in records of {record_size}: it must be at most {RECORDS_MAX} records, {} bytes",
                RECORDS_MAX * record_size
            )));
        }
        let in_flight = |option, value: usize| within(option, value as u64, range(DEPTHS));
        in_flight("--depth", depth)?;
        in_flight("--per-iteration", options.per_iteration)?;
        in_flight("--max-submit", options.max_submit)?;
        if depth as u64 * record_size > BUFFER_BYTES_MAX {
            return Err(refused(format!(
                "--depth {depth} with records of {record_size} bytes: the allowed range is 1 to {}, \
                 {BUFFER_BYTES_MAX} bytes of buffers",
                BUFFER_BYTES_MAX / record_size
            )));
        }
        Ok(AioSettings {
            file_bytes: records * record_size,
            // Both values are below limits far smaller than the maximum of these types.
            record_bytes: usize::try_from(record_size).unwrap_or(usize::MAX),
            records: u32::try_from(records).unwrap_or(u32::MAX),
            depth,
            per_iteration: options.per_iteration,
            max_submit: options.max_submit,
            alignment,
            direct,
            seed,
            rounds,
        })
    }

    pub(crate) fn offset(&self, record: u32) -> u64 {
        u64::from(record) * self.record_bytes as u64
    }
}

fn check_alignment(alignment: u64) -> Result<()> {
    within("--alignment", alignment, ALIGNMENTS)?;
    if alignment.is_power_of_two() {
        return Ok(());
    }
    Err(refused(format!("--alignment {alignment}: it must be 512, 1024, 2048 or 4096")))
}

fn within(option: &str, value: u64, allowed: RangeInclusive<u64>) -> Result<()> {
    if allowed.contains(&value) {
        return Ok(());
    }
    let (least, most) = allowed.into_inner();
    Err(refused(format!("{option} {value}: the allowed range is {least} to {most}")))
}

fn range(allowed: RangeInclusive<usize>) -> RangeInclusive<u64> {
    *allowed.start() as u64..=*allowed.end() as u64
}

fn refused(why: String) -> Error {
    Error::Refused(format!("{why}; nothing was written"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser, Debug)]
    struct AioArguments {
        #[command(flatten)]
        options: AioOptions,
    }

    pub(crate) fn options(line: &str) -> std::result::Result<AioOptions, clap::Error> {
        AioArguments::try_parse_from(["aio"].into_iter().chain(line.split_whitespace()))
            .map(|line| line.options)
    }

    fn settings(line: &str) -> Result<AioSettings> {
        AioSettings::new(&options(&format!("{line} .")).unwrap())
    }

    #[test]
    fn the_defaults_are_those_of_the_published_figures() {
        let settings = settings("").unwrap();
        assert_eq!((settings.file_bytes, settings.record_bytes, settings.records), (1 << 30, 65_536, 16_384));
        assert_eq!((settings.depth, settings.per_iteration, settings.max_submit), (64, 8, 8));
        assert_eq!((settings.alignment, settings.direct, settings.rounds), (4_096, false, 3));
        let options = options(".").unwrap();
        assert_eq!((options.pattern.len(), options.kind.len(), options.engine.len()), (2, 3, 0));
    }

    #[test]
    fn sizes_have_units_and_the_file_is_whole_records() {
        let settings = settings("--file-size 1GB --record-size 1MiB --seed 9 --rounds 2").unwrap();
        assert_eq!((settings.file_bytes, settings.records), (953 << 20, 953));
        assert_eq!((settings.record_bytes, settings.seed, settings.rounds), (1 << 20, 9, 2));
        assert_eq!(settings.offset(952), 952 << 20);
    }

    #[test]
    fn lists_of_engines_patterns_and_kinds_are_taken() {
        let line = "--engine sync,io-uring --pattern random --kind read,write --json .";
        let options = options(line).unwrap();
        assert_eq!(options.engine, ["sync", "io-uring"]);
        assert_eq!(options.pattern, [AccessPattern::Random]);
        assert_eq!(options.kind, [TransferKind::Read, TransferKind::Write]);
        assert!(options.json);
    }

    #[test]
    fn what_is_no_number_and_no_engine_is_no_command_line() {
        for wrong in
            ["", "--engine auto .", "--kind append .", "--file-size big .", "--depth -1 .", "--rounds 0 ."]
        {
            assert!(options(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn impossible_numbers_are_refused_and_the_range_is_named() {
        for (line, range) in [
            ("--record-size 0", "512 to 67108864"),
            ("--record-size 1G", "512 to 67108864"),
            ("--file-size 0", "65536 to 17592186044416"),
            ("--file-size 32K", "65536 to 17592186044416"),
            ("--file-size 1000T", "65536 to 17592186044416"),
            ("--file-size 1T --record-size 512", "at most 134217728 records"),
            ("--depth 0", "1 to 32768"),
            ("--depth 1000000000", "1 to 32768"),
            ("--depth 32768", "1 to 16384"),
            ("--per-iteration 0", "1 to 32768"),
            ("--max-submit 0", "1 to 32768"),
            ("--max-submit 1000000000", "1 to 32768"),
            ("--alignment 0", "512 to 4096"),
            ("--alignment 64K", "512 to 4096"),
            ("--alignment 1000", "512, 1024, 2048 or 4096"),
            ("--direct --record-size 1000", "multiple of --alignment, 4096"),
            ("--direct --record-size 512", "multiple of --alignment, 4096"),
        ] {
            let refusal = settings(line).unwrap_err();
            assert!(matches!(refusal, Error::Refused(_)), "{line}: {refusal:?}");
            let said = refusal.to_string();
            assert!(said.contains(range) && said.contains("nothing was written"), "{line}: {said}");
        }
        assert!(settings("--direct --record-size 512 --alignment 512").is_ok());
        assert!(settings("--record-size 1000").is_ok());
    }
}
